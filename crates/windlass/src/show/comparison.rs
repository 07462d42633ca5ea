//! What a revision would do, for people and for a pull request.

use std::fmt::Write as _;

use windlass_api::application::status::Approval;
use windlass_deliver::compare::{Comparison, Deed, ObjectChange, OnCluster};
use windlass_manifest::diff::Difference;

use super::{count, line, short};

/// Fields of one object that are shown.
const MOST_FIELDS: usize = 50;

/// Objects of one cluster that a comment shows: forges cut long comments off.
const MOST_OBJECTS: usize = 100;

/// Lines for people.
pub(crate) fn text(comparison: &Comparison) -> String {
    let mut text = format!("{} at {}\n", comparison.application, short(&comparison.revision));
    for one in &comparison.clusters {
        let _ = writeln!(text, "\n{}: {}", one.cluster, summary(one));
        for trouble in &one.trouble {
            let _ = writeln!(text, "  ! {}", line(trouble));
        }
        for change in &one.changes {
            let _ = writeln!(text, "  {} {}", sign(change.action), title(change));
            for difference in change.differences.iter().take(MOST_FIELDS) {
                let _ = writeln!(text, "      {}", field(difference));
            }
            if change.differences.len() > MOST_FIELDS {
                let _ = writeln!(text, "      … {} more", change.differences.len() - MOST_FIELDS);
            }
            if let Some(refused) = &change.refused {
                let _ = writeln!(text, "      refused by {}: {}", refused.policy, line(&refused.message));
            }
        }
    }
    if let Some(approval) = &comparison.approval {
        let _ = writeln!(text, "\n! {}", waits(approval));
    }
    if comparison.clusters.is_empty() {
        text.push_str("\nno cluster: no Cluster matches spec.destinations\n");
    }
    text
}

/// Deletions that would wait for somebody.
fn waits(approval: &Approval) -> String {
    let why = if approval.confirm {
        "these objects ask to be confirmed"
    } else {
        "that is more than spec.sync.deletionBudget allows"
    };
    format!(
        "{} of {} objects would not be deleted before somebody approves it with windlass approve: {why}.",
        approval.deletions, approval.of
    )
}

/// A comment on a pull request.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let mut text = format!(
        "### Application `{}` at `{}`\n\n",
        code(&comparison.application),
        code(short(&comparison.revision))
    );
    if comparison.is_empty() {
        text.push_str("Nothing would change.\n");
        return text;
    }
    text.push_str("| cluster | create | change | delete | refused | same |\n|---|---|---|---|---|---|\n");
    for one in &comparison.clusters {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            cell(&one.cluster),
            one.count(Deed::Create) + one.count(Deed::Run),
            one.count(Deed::Change),
            one.count(Deed::Delete),
            one.refused() + one.count(Deed::Blocked),
            one.same
        );
    }
    if let Some(approval) = &comparison.approval {
        let _ = writeln!(text, "\n:warning: {}", cell(&waits(approval)));
    }
    for one in comparison.clusters.iter().filter(|one| !one.changes.is_empty() || !one.trouble.is_empty()) {
        let _ = writeln!(text, "\n<details><summary>{}: {}</summary>\n", cell(&one.cluster), summary(one));
        for trouble in &one.trouble {
            let _ = writeln!(text, "- :warning: {}", cell(trouble));
        }
        for change in one.changes.iter().take(MOST_OBJECTS) {
            object(&mut text, change);
        }
        if one.changes.len() > MOST_OBJECTS {
            let _ = writeln!(text, "- … {} more", count(one.changes.len() - MOST_OBJECTS, "object"));
        }
        text.push_str("\n</details>\n");
    }
    text
}

fn object(text: &mut String, change: &ObjectChange) {
    let note = change.note.as_deref().map(|note| format!(": {}", cell(note))).unwrap_or_default();
    let _ = writeln!(text, "- **{}** `{}`{note}", word(change.action), code(&change.object));
    for difference in change.differences.iter().take(MOST_FIELDS) {
        let value =
            |value: Option<String>| value.map_or("–".to_owned(), |value| format!("`{}`", code(&value)));
        let by = difference.owner.as_ref().map(|owner| format!(", set by {}", cell(&owner.manager)));
        let _ = writeln!(
            text,
            "  - `{}`: {} → {}{}",
            code(&difference.path.to_string()),
            value(difference.live.as_ref().map(ToString::to_string)),
            value(difference.wanted.as_ref().map(ToString::to_string)),
            by.unwrap_or_default()
        );
    }
    if change.differences.len() > MOST_FIELDS {
        let _ = writeln!(text, "  - … {} more", change.differences.len() - MOST_FIELDS);
    }
    if let Some(refused) = &change.refused {
        let _ = writeln!(
            text,
            "  - :no_entry: refused by `{}`: {}",
            code(&refused.policy),
            cell(&refused.message)
        );
    }
}

/// `1 to create, 2 to change, 14 the same`
fn summary(one: &OnCluster) -> String {
    let parts = [
        (one.count(Deed::Create), "to create"),
        (one.count(Deed::Change), "to change"),
        (one.count(Deed::Delete), "to delete"),
        (one.count(Deed::Run), "to run as a hook"),
        (one.count(Deed::Leave), "to leave as it is"),
        (one.count(Deed::Blocked), "that cannot be applied"),
        (one.refused(), "refused"),
        (one.same, "the same"),
    ];
    let told: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if told.is_empty() { "nothing known".to_owned() } else { told.join(", ") }
}

fn title(change: &ObjectChange) -> String {
    match &change.note {
        Some(note) => format!("{} ({})", change.object, line(note)),
        None => change.object.clone(),
    }
}

fn field(difference: &Difference) -> String {
    let value = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
    let live = value(difference.live.as_ref().map(ToString::to_string));
    let wanted = value(difference.wanted.as_ref().map(ToString::to_string));
    let by = difference.owner.as_ref().map(|owner| format!(", set by {owner}")).unwrap_or_default();
    format!("{}: {live} → {wanted}{by}", difference.path)
}

fn sign(deed: Deed) -> char {
    match deed {
        Deed::Create | Deed::Run => '+',
        Deed::Change => '~',
        Deed::Delete => '-',
        Deed::Leave => '=',
        Deed::Blocked => '!',
    }
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "create",
        Deed::Change => "change",
        Deed::Delete => "delete",
        Deed::Run => "run",
        Deed::Leave => "leave",
        Deed::Blocked => "blocked",
    }
}

/// Between backticks: on one line, and without what would end the span.
fn code(text: &str) -> String {
    line(text).replace('`', "'")
}

/// In a sentence or a table: text of others makes no table, no tag, no mention and no link.
fn cell(text: &str) -> String {
    let mut safe = String::new();
    for letter in line(text).chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '\\' => {
                safe.push('\\');
                safe.push(letter);
            }
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_deliver::compare::Objection;
    use windlass_manifest::diff;

    use super::*;

    fn sample() -> Comparison {
        let deployment = |replicas: u32, image: &str| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
                "spec": { "replicas": replicas, "template": { "spec": { "containers": [{ "name": "web", "image": image }] } } },
            })
        };
        let secret = |value: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" }, "stringData": { "k": value } });
        let plain = |object: &str, action| ObjectChange {
            object: object.to_owned(),
            action,
            differences: Vec::new(),
            refused: None,
            note: None,
        };
        let refused =
            Objection { policy: "no-latest".into(), message: "images need a <tag>\nby @all".into() };
        let changes = vec![
            ObjectChange {
                differences: diff::compare(&deployment(3, "web:latest"), &deployment(2, "web:1")),
                refused: Some(refused),
                ..plain("Deployment shop/web", Deed::Change)
            },
            ObjectChange {
                differences: diff::compare(&secret("hush-new"), &secret("hush-old")),
                ..plain("Secret shop/key", Deed::Change)
            },
            plain("ConfigMap shop/banner", Deed::Create),
            plain("ConfigMap shop/old", Deed::Delete),
        ];
        Comparison {
            application: "apps/web".into(),
            revision: "aa11000000000000000000000000000000000009".into(),
            change_id: None,
            clusters: vec![
                OnCluster { cluster: "east".into(), trouble: Vec::new(), same: 4, changes },
                OnCluster {
                    cluster: "west".into(),
                    trouble: vec!["It does not answer.".into()],
                    same: 0,
                    changes: Vec::new(),
                },
            ],
            approval: Some(Approval { deletions: 12, of: 20, ..Approval::default() }),
        }
    }

    #[test]
    fn deletions_that_would_wait_for_an_approval_are_told() {
        let mut sample = sample();
        for shown in [text(&sample), markdown(&sample)] {
            assert!(shown.contains("12 of 20 objects would not be deleted"), "{shown}");
            assert!(shown.contains("deletionBudget") && shown.contains("windlass approve"), "{shown}");
        }
        sample.approval.as_mut().unwrap().confirm = true;
        assert!(text(&sample).contains("ask to be confirmed"));
    }

    #[test]
    fn a_comparison_names_object_field_live_wanted_and_who_refuses() {
        let text = text(&sample());
        for expected in [
            "apps/web at aa11000000",
            "east: 1 to create, 2 to change, 1 to delete, 1 refused, 4 the same",
            "  ~ Deployment shop/web",
            "spec.replicas: 2 → 3",
            "refused by no-latest: images need a <tag> by @all",
            "  + ConfigMap shop/banner",
            "  - ConfigMap shop/old",
            "  ! It does not answer.",
        ] {
            assert!(text.contains(expected), "{expected} is missing:\n{text}");
        }
    }

    #[test]
    fn values_of_secrets_are_masked_in_every_format_of_a_comparison() {
        let sample = sample();
        let json = serde_json::to_string(&sample).unwrap_or_default();
        for shown in [text(&sample), markdown(&sample), json] {
            assert!(!shown.contains("hush") && !shown.contains("aHVzaC"), "{shown}");
            assert!(shown.contains("Secret shop/key"), "{shown}");
        }
    }

    #[test]
    fn text_of_others_cannot_break_out_of_a_comment() {
        let shown = markdown(&sample());
        assert!(shown.contains("| east | 1 | 2 | 1 | 1 | 4 |"), "{shown}");
        assert!(shown.contains("images need a &lt;tag&gt; by &#64;all"), "{shown}");
        assert!(!shown.contains("<tag>") && !shown.contains("@all"), "{shown}");
    }
}
