//! Whether an Application has to wait for others, and for which one in the end.

mod ready;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value;
use windlass_api::application::Dependency;
use windlass_cluster::drive::Key;

pub use ready::is_ready;

use crate::trouble::Trouble;

/// Reason: an Application that is needed is not ready yet.
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
/// Reason: an Application that is needed does not exist.
pub const DEPENDENCY_MISSING: &str = "DependencyMissing";
/// Reason: Applications need each other.
pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
/// Reason: an Application that is needed is in a namespace that must not be referred to.
pub const DEPENDENCY_NOT_ALLOWED: &str = "DependencyNotAllowed";

/// What is known of an Application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// What it needs.
    pub depends_on: Vec<Dependency>,
    /// It is ready: what counts where a dependency has no expression of its own.
    pub ready: bool,
    /// Why it is not, for people.
    pub why: Option<String>,
}

/// What an Application waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// From the Application to the one that is the cause, each needing the next. In a circle the last one is there
    /// twice.
    pub path: Vec<Key>,
    /// One of the reasons of this module.
    pub reason: &'static str,
    /// What is the matter with the last one of the path.
    pub why: String,
}

impl Blocked {
    /// As a condition tells it.
    pub fn trouble(&self) -> Trouble {
        let path: Vec<String> = self.path.iter().map(Key::to_string).collect();
        let path = path.join(" → ");
        let what = format!("Waits for {path}: {}", self.why);
        match self.reason {
            DEPENDENCY_NOT_READY => {
                Trouble::standing(self.reason, what, "It goes on by itself when that one is ready")
            }
            DEPENDENCY_MISSING => Trouble::standing(
                self.reason,
                what,
                "Make that Application, or take it out of spec.dependsOn",
            ),
            DEPENDENCY_CYCLE => {
                Trouble::standing(self.reason, what, "Take one of them out of the other's spec.dependsOn")
            }
            _ => Trouble::standing(
                self.reason,
                what,
                "Name an Application of the same namespace, or have references to other namespaces allowed",
            ),
        }
    }
}

/// Where facts come from.
pub struct Graph<'g> {
    /// What is known of an Application; `None` when it does not exist.
    pub facts: &'g dyn Fn(&Key) -> Option<Facts>,
    /// The whole Application, for expressions.
    pub object: &'g dyn Fn(&Key) -> Option<Value>,
    /// Applications of other namespaces may be needed.
    pub across_namespaces: bool,
}

/// What an Application has to wait for; `None` when it may begin.
///
/// Guarantees: `None` exactly when every Application that it needs exists, may be named, is ready, and does not need
/// this one in turn, directly or through others. The path is followed to its end: the last one of it is not ready for a
/// reason of its own, is missing, is not allowed, or closes a circle. The order of `dependsOn` decides which is told
/// when there are several.
pub fn blocked(app: &Key, graph: &Graph<'_>) -> Option<Blocked> {
    let own = (graph.facts)(app)?;
    if own.depends_on.is_empty() {
        return None;
    }
    if let Some(path) = circle_through(app, graph) {
        return Some(circle(path));
    }
    let mut path = vec![app.clone()];
    let mut facts = own;
    let mut why_last = None;
    loop {
        let here = path.last()?.clone();
        let Some(found) = facts.depends_on.iter().find_map(|needs| obstacle(&here, needs, graph)) else {
            // All that the last one needs is ready: it is the cause itself.
            let why = why_last?;
            return Some(Blocked { path, reason: DEPENDENCY_NOT_READY, why });
        };
        let known = path.iter().position(|earlier| *earlier == found.key);
        path.push(found.key);
        if known.is_some() {
            return Some(circle(path));
        }
        match found.kind {
            Kind::End(reason, why) => return Some(Blocked { path, reason, why }),
            Kind::NotReady(next, why) => {
                facts = next;
                why_last = Some(why);
            }
        }
    }
}

/// Something in the way of an Application, one step from it.
struct Obstacle {
    key: Key,
    kind: Kind,
}

enum Kind {
    /// There is nothing to be followed behind it.
    End(&'static str, String),
    /// It exists and is not ready: what is known of it, and why.
    NotReady(Facts, String),
}

/// What is the matter with one dependency; `None` when it is ready.
fn obstacle(of: &Key, needs: &Dependency, graph: &Graph<'_>) -> Option<Obstacle> {
    let key = key_of(of, needs);
    if key.namespace != of.namespace && !graph.across_namespaces {
        let why = "it is in another namespace, which is not allowed".to_owned();
        return Some(Obstacle { key, kind: Kind::End(DEPENDENCY_NOT_ALLOWED, why) });
    }
    let Some(facts) = (graph.facts)(&key) else {
        return Some(Obstacle { key, kind: Kind::End(DEPENDENCY_MISSING, "it does not exist".to_owned()) });
    };
    let why = match &needs.ready {
        None if facts.ready => return None,
        None => facts.why.clone().unwrap_or_else(|| "it is not ready".to_owned()),
        Some(expression) => match (graph.object)(&key).map(|object| is_ready(expression, &object)) {
            Some(Ok(true)) => return None,
            Some(Ok(false)) => format!("{expression} is false"),
            Some(Err(trouble)) => trouble.what,
            None => "it does not exist".to_owned(),
        },
    };
    Some(Obstacle { key, kind: Kind::NotReady(facts, why) })
}

pub(super) fn key_of(of: &Key, needs: &Dependency) -> Key {
    let namespace = needs.namespace.as_deref().map(Into::into).or_else(|| of.namespace.clone());
    Key { namespace, name: needs.name.as_str().into() }
}

/// The shortest way from an Application back to itself.
fn circle_through(app: &Key, graph: &Graph<'_>) -> Option<Vec<Key>> {
    let mut came_from: BTreeMap<Key, Key> = BTreeMap::new();
    let mut queue = VecDeque::from([app.clone()]);
    while let Some(here) = queue.pop_front() {
        for needs in (graph.facts)(&here)?.depends_on {
            let next = key_of(&here, &needs);
            // Nothing is told of what must not be named.
            if next.namespace != here.namespace && !graph.across_namespaces {
                continue;
            }
            if next == *app {
                let mut path = vec![next, here.clone()];
                let mut at = &here;
                while let Some(before) = came_from.get(at) {
                    path.push(before.clone());
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            if (graph.facts)(&next).is_some() && !came_from.contains_key(&next) {
                came_from.insert(next.clone(), here.clone());
                queue.push_back(next);
            }
        }
    }
    None
}

fn circle(path: Vec<Key>) -> Blocked {
    let mut named: Vec<String> = path
        .last()
        .map(|closing| {
            let from = path.iter().position(|key| key == closing).unwrap_or(0);
            path[from..].iter().map(Key::to_string).collect()
        })
        .unwrap_or_default();
    named.dedup();
    let why = if named.len() < 2 {
        "it needs itself".to_owned()
    } else {
        named.pop();
        format!("{} need each other", named.join(" and "))
    };
    Blocked { path, reason: DEPENDENCY_CYCLE, why }
}

#[cfg(test)]
mod tests;
