//! `windlass rollout history`: revisions, what became of them, and what people asked for.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};
use windlass_api::rollout::Rollout;

use super::{
    control,
    family::{self, hash, images, revision},
    get::marks,
    words::status,
};
use crate::{
    cli,
    error::CommandError,
    show::{NONE, age, cut, table::Table},
    verbs::{
        Format,
        hub::{HubArgs, now},
    },
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout history web -n shop
  windlass rollout history web -o json";

/// Show revisions, what became of them, and who asked for what
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// Print in this format instead of tables
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let rollout = control::rollout(&hub, &args.name).await?;
        let sets = family::replica_sets(&hub, &rollout).await?;
        cli::print(&match args.output {
            Some(Format::Json) => cli::to_json(&value(&rollout, &sets))?,
            None => page(&rollout, &sets, now()),
        })
    })
}

fn value(rollout: &Rollout, sets: &[ReplicaSet]) -> Value {
    let revisions: Vec<Value> = sets
        .iter()
        .map(|set| {
            json!({
                "revision": revision(set), "hash": hash(set), "images": images(set), "marks": marks(rollout, hash(set)),
                "replicaSet": set.metadata.name, "createdAt": set.metadata.creation_timestamp,
                "replicas": set.spec.as_ref().and_then(|spec| spec.replicas),
            })
        })
        .collect();
    let status = status(rollout);
    json!({ "revisions": revisions, "transitions": status.transitions, "controls": status.controls })
}

fn page(rollout: &Rollout, sets: &[ReplicaSet], now: Timestamp) -> String {
    let mut text = String::new();
    let mut revisions = Table::new(["REVISION", "HASH", "IMAGES", "PODS", "PART", "AGE"]);
    for set in sets {
        let part = marks(rollout, hash(set)).join(",");
        revisions.push(vec![
            revision(set).to_string(),
            hash(set).to_owned(),
            cut(&images(set).join(","), 80),
            set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0).to_string(),
            if part.is_empty() { NONE.to_owned() } else { part },
            age(set.metadata.creation_timestamp.as_ref(), now),
        ]);
    }
    if revisions.is_empty() {
        text.push_str("There is no revision yet.\n");
    } else {
        text.push_str(&revisions.render(0));
    }
    let status = status(rollout);
    let mut became = Table::new(["WHEN", "REVISION", "WHAT", "IMAGE"]);
    for transition in status.transitions.iter().rev() {
        let kind = serde_json::to_value(transition.kind).unwrap_or_default();
        became.push(vec![
            age(Some(&transition.at), now),
            transition.revision.to_string(),
            kind.as_str().unwrap_or_default().to_owned(),
            transition.image.clone().unwrap_or_else(|| NONE.to_owned()),
        ]);
    }
    if !became.is_empty() {
        text.push_str("\nWhat became of them:\n");
        text.push_str(&became.render(0));
    }
    let mut controls = Table::new(["WHEN", "VERB", "BY", "REVISION", "NOTE"]);
    for control in status.controls.iter().rev() {
        controls.push(vec![
            age(Some(&control.at), now),
            control.verb.clone(),
            control.by.clone().unwrap_or_else(|| "<unknown>".to_owned()),
            control.revision.map_or_else(|| NONE.to_owned(), |number| number.to_string()),
            cut(control.note.as_deref().unwrap_or_default(), 80),
        ]);
    }
    if !controls.is_empty() {
        text.push_str("\nWho asked for what:\n");
        text.push_str(&controls.render(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};

    #[test]
    fn revisions_and_requests_are_shown_newest_first() {
        let mut rollout = fixtures::aborted();
        let status = rollout.status.as_mut().unwrap();
        status.controls = serde_json::from_value(json!([
            { "verb": "promote", "by": "dev-a", "at": "2026-03-01T11:50:00Z", "revision": 2, "note": "CanaryPauseStep" },
            { "verb": "abort", "by": "dev-b", "at": "2026-03-01T11:59:00Z", "revision": 2 },
        ]))
        .unwrap();
        status.transitions = serde_json::from_value(json!([
            { "number": 1, "kind": "deployed", "revision": 1, "hash": "old1", "image": "shop/web:1", "at": "2026-03-01T10:01:00Z" },
            { "number": 2, "kind": "rolledback", "revision": 1, "hash": "old1", "at": "2026-03-01T11:59:10Z" },
        ]))
        .unwrap();
        let set = |hash: &str, number: i64, replicas: i32| -> ReplicaSet {
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("web-{hash}"), "creationTimestamp": "2026-03-01T11:00:00Z",
                    "labels": { "windlass.dev/pod-template-hash": hash },
                    "annotations": { "windlass.dev/revision": number.to_string() },
                },
                "spec": { "replicas": replicas, "selector": {}, "template": {
                    "spec": { "containers": [{ "name": "app", "image": format!("shop/web:{number}") }] } } },
            }))
            .unwrap()
        };
        let sets = [set("new1", 2, 0), set("old1", 1, 5)];
        let text = page(&rollout, &sets, fixtures::now());
        let lines: Vec<String> = text.lines().map(crate::show::line).collect();
        let wanted = [
            "REVISION HASH IMAGES PODS PART AGE",
            "2 new1 shop/web:2 0 canary 60m",
            "1 old1 shop/web:1 5 stable 60m",
            "",
            "What became of them:",
            "WHEN REVISION WHAT IMAGE",
            "50s 1 rolledback <none>",
            "119m 1 deployed shop/web:1",
            "",
            "Who asked for what:",
            "WHEN VERB BY REVISION NOTE",
            "60s abort dev-b 2",
            "10m promote dev-a 2 CanaryPauseStep",
        ];
        assert_eq!(lines, wanted, "{text}");
        assert_eq!(value(&rollout, &sets)["revisions"][1]["marks"], json!(["stable"]));
    }
}
