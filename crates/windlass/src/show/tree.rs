//! Trees: what an Application made, and what that made.

use windlass_manifest::health::Status;

use super::line;

/// Something in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// `Deployment shop/web`.
    pub(crate) title: String,
    /// How it fares, in a word.
    pub(crate) health: Option<String>,
    /// Why, if it does not fare well.
    pub(crate) message: Option<String>,
    /// What belongs to it.
    pub(crate) children: Vec<Node>,
}

impl Node {
    /// A node without anything below.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// With a judgement.
    pub(crate) fn judged(mut self, status: Status, message: &str) -> Self {
        self.health = Some(status.to_string());
        self.message = (status != Status::Healthy && !message.trim().is_empty()).then(|| line(message));
        self
    }

    /// With a word and a message.
    pub(crate) fn told(mut self, health: &str, message: Option<&str>) -> Self {
        self.health = Some(health.to_owned());
        self.message = message.map(line);
        self
    }
}

/// The tree as text, healths in one column.
pub(crate) fn render(root: &Node) -> String {
    let mut lines = Vec::new();
    walk(root, "", "", &mut lines);
    let width = lines.iter().map(|(title, ..)| title.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (title, health, message) in lines {
        let whole = format!("{title:<width$}   {health:<11}   {message}");
        text.push_str(whole.trim_end());
        text.push('\n');
    }
    text
}

fn walk(node: &Node, before: &str, below: &str, lines: &mut Vec<(String, String, String)>) {
    lines.push((
        format!("{before}{}", node.title),
        node.health.clone().unwrap_or_default(),
        node.message.clone().unwrap_or_default(),
    ));
    for (index, child) in node.children.iter().enumerate() {
        let (mark, line) =
            if index + 1 == node.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        walk(child, &format!("{below}{mark}"), &format!("{below}{line}"), lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_shows_what_belongs_to_what_and_how_it_fares() {
        let mut deployment =
            Node::new("Deployment shop/web").judged(Status::Progressing, "1 of 2 pods\nready");
        let mut set = Node::new("ReplicaSet shop/web-5d9").judged(Status::Progressing, "");
        set.children = vec![
            Node::new("Pod shop/web-5d9-a").judged(Status::Healthy, "runs"),
            Node::new("Pod shop/web-5d9-b").judged(Status::Degraded, "CrashLoopBackOff"),
        ];
        deployment.children = vec![set];
        let mut east = Node::new("cluster east").told("Progressing", None);
        east.children = vec![deployment, Node::new("Service shop/web").judged(Status::Healthy, "")];
        let mut root = Node::new("shop/web").told("Degraded", None);
        root.children =
            vec![east, Node::new("cluster west").told("Unknown", Some("The API server does not answer."))];
        insta::assert_snapshot!(render(&root), @r"
        shop/web                           Degraded
        ├─ cluster east                    Progressing
        │  ├─ Deployment shop/web          Progressing   1 of 2 pods ready
        │  │  └─ ReplicaSet shop/web-5d9   Progressing
        │  │     ├─ Pod shop/web-5d9-a     Healthy
        │  │     └─ Pod shop/web-5d9-b     Degraded      CrashLoopBackOff
        │  └─ Service shop/web             Healthy
        └─ cluster west                    Unknown       The API server does not answer.
        ");
    }
}
