//! `windlass rollout undo`: the template of an earlier revision becomes the newest one.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use serde_json::Value;
use windlass_api::rollout::{EPHEMERAL_METADATA, POD_TEMPLATE_HASH, PodMetadata, Rollout};
use windlass_rollout::revision::template;

use super::{
    control::{Change, Request, deployments, edit, record, rollout, specs},
    family::{replica_sets, revision},
    set_image::workload,
    words::title,
};
use crate::{
    cli,
    error::CommandError,
    verbs::hub::{Hub, HubArgs, failed},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout undo web -n shop
  windlass rollout undo web --to-revision 3

The template of that revision is copied into the spec: a new revision that goes through the steps, or skips them if
rollbackWindow says so. With workloadRef the Deployment is changed. Revisions: windlass rollout history NAME.";

/// Go back to an earlier revision
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// The revision to go back to [default: the one before the newest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to_revision: Option<i64>,

    #[command(flatten)]
    hub: HubArgs,
}

/// Goes back.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let request = Request::of(&hub, "undo").await;
        let (read, number, template) = loop {
            let read = rollout(&hub, &args.name).await?;
            let sets = replica_sets(&hub, &read).await?;
            let set = choose(&sets, args.to_revision, &read)?;
            let (number, template) = (revision(set), plain(set)?);
            if current(&hub, &read).await?.as_ref().map(without_hash) == Some(without_hash(&template)) {
                return Err(CommandError::failure(format!(
                    "the template of Rollout {} is that of revision {number} already",
                    title(&read)
                ))
                .hint("Choose another one with --to-revision; they are shown by: windlass rollout history"));
            }
            let change = Change { note: Some(format!("to revision {number}")), ..Change::default() };
            if record(&hub, &read, &request, &change).await? {
                break (read, number, template);
            }
        };
        let put = |value: &mut Value| {
            value["spec"]["template"] = template.clone();
            Ok(())
        };
        match workload(&read)? {
            Some(deployment) => edit(&deployments(&hub), deployment, None, put).await?,
            None => edit(&specs(&hub), &args.name, read.uid().as_deref(), put).await?,
        }
        cli::print(&format!("rollout.windlass.dev/{}: goes back to revision {number}\n", args.name))
    })
}

/// The template that counts now.
async fn current(hub: &Hub, rollout: &Rollout) -> Result<Option<Value>, CommandError> {
    let Some(name) = workload(rollout)? else { return Ok(rollout.spec.template.clone()) };
    let found = deployments(hub).get(name).await;
    let found = found.map_err(|error| failed(&format!("cannot read Deployment {name}"), error))?;
    Ok(found.data.pointer("/spec/template").cloned())
}

/// The `ReplicaSet` of a revision: the one that is named, else the newest but one.
fn choose<'a>(
    sets: &'a [ReplicaSet],
    wanted: Option<i64>,
    rollout: &Rollout,
) -> Result<&'a ReplicaSet, CommandError> {
    let mut known: Vec<&ReplicaSet> = sets.iter().filter(|set| revision(set) > 0).collect();
    known.sort_by_key(|set| std::cmp::Reverse(revision(set)));
    let numbers = || known.iter().map(|set| revision(set).to_string()).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(number) => known.iter().copied().find(|set| revision(set) == number).ok_or_else(|| {
            CommandError::failure(format!("Rollout {} has no revision {number} any more", title(rollout)))
                .hint(format!("There are: {}. revisionHistoryLimit says how many are kept.", numbers()))
        }),
        None => known.get(1).copied().ok_or_else(|| {
            CommandError::failure(format!("Rollout {} has no earlier revision to go back to", title(rollout)))
        }),
    }
}

/// The template as it was written: without the hash, and without metadata and anti-affinity that were put in for the part
/// that the `ReplicaSet` played.
fn plain(set: &ReplicaSet) -> Result<Value, CommandError> {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone());
    let mut template = serde_json::to_value(template)
        .map_err(|error| CommandError::failure("cannot read the template").because(error))?;
    let injected = set.annotations().get(EPHEMERAL_METADATA);
    let injected: PodMetadata = injected.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    template = template::plain(&template, &injected);
    Ok(without_hash(&template))
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.shift_remove(POD_TEMPLATE_HASH);
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        // Both stand in every template that the API server has filled in.
        metadata.retain(|_, value| !value.is_null());
    }
    template
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};
    use crate::terminal::Paint;
    use serde_json::json;

    fn set(revision: i64, image: &str) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("web-{revision}"),
                "annotations": {
                    "windlass.dev/revision": revision.to_string(),
                    "windlass.dev/ephemeral-metadata": r#"{"labels":{"role":"stable"}}"#,
                },
            },
            "spec": { "selector": {}, "template": {
                "metadata": { "labels": { "app": "web", "role": "stable", "windlass.dev/pod-template-hash": "abc" } },
                "spec": {
                    "containers": [{ "name": "app", "image": image }],
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": { "matchExpressions": [
                            { "key": "windlass.dev/pod-template-hash", "operator": "In", "values": ["abc"] },
                        ] },
                    }] } },
                },
            } },
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_revision_but_one_is_gone_back_to_unless_one_is_named() {
        let sets = [set(3, "c"), set(1, "a"), set(7, "g"), set(5, "e")];
        let rollout = fixtures::completed();
        assert_eq!(revision(choose(&sets, None, &rollout).unwrap()), 5);
        assert_eq!(revision(choose(&sets, Some(1), &rollout).unwrap()), 1);
        let told = choose(&sets, Some(2), &rollout).unwrap_err().render(Paint::plain());
        assert!(told.contains("There are: 7, 5, 3, 1."), "{told}");
        let told = choose(&sets[..1], None, &rollout).unwrap_err().render(Paint::plain());
        assert!(told.contains("no earlier revision"), "{told}");
    }

    #[test]
    fn the_template_comes_back_as_it_was_written() {
        let expected = json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "image": "a" }] },
        });
        assert_eq!(plain(&set(1, "a")).unwrap(), expected);
    }
}
