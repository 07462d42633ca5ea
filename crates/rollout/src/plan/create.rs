//! The new `ReplicaSet`: made with its first pods in one write, and kept in step with the Rollout afterwards.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::rollout::{
    DESIRED_REPLICAS, EPHEMERAL_METADATA, POD_TEMPLATE_HASH, PodMetadata, REVISION, REVISION_HISTORY,
    SCALE_DOWN_DEADLINE,
};

use super::{
    action::{Action, NewReplicaSet},
    draft::Draft,
    metadata,
    scene::Scene,
};
use crate::{observed::ReplicaSetFacts, revision::replica_set_name};

/// Annotations of the Rollout that its `ReplicaSets` do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    SCALE_DOWN_DEADLINE,
    EPHEMERAL_METADATA,
];

/// Makes the new `ReplicaSet` with so many pods.
pub(crate) fn make(scene: &Scene<'_>, draft: &mut Draft, replicas: i32) {
    let name = replica_set_name(scene.name, &scene.hash);
    let revision = scene.revision();
    let part = metadata::of_new(scene).cloned().unwrap_or_default();
    let mut annotations = copied(scene);
    annotations.insert(REVISION.into(), revision.to_string());
    annotations.insert(DESIRED_REPLICAS.into(), scene.replicas().to_string());
    if part != PodMetadata::default()
        && let Ok(text) = serde_json::to_string(&part)
    {
        annotations.insert(EPHEMERAL_METADATA.into(), text);
    }
    let template = template(scene, &part);
    let mut labels = own_labels(&scene.template);
    labels.insert(POD_TEMPLATE_HASH.into(), scene.hash.clone());
    let mut selector = scene.selector.clone();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.into(), scene.hash.clone());
    draft.note("NewReplicaSetCreated", "Create", format!("Created ReplicaSet {name} (revision {revision})"));
    draft.first(Action::CreateReplicaSet(Box::new(NewReplicaSet {
        name,
        labels,
        annotations,
        replicas,
        min_ready_seconds: scene.spec.min_ready_seconds,
        selector,
        template,
    })));
}

fn own_labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The pod template with the hash, the metadata of its part, and the anti-affinity of the moment.
fn template(scene: &Scene<'_>, part: &PodMetadata) -> Value {
    let mut template = scene.template.as_ref().clone();
    let mut labels = part.labels.clone();
    labels.insert(POD_TEMPLATE_HASH.into(), scene.hash.clone());
    for (field, added) in [("labels", &labels), ("annotations", &part.annotations)] {
        if added.is_empty() {
            continue;
        }
        let Some(pod) = template.as_object_mut() else { return template };
        let metadata = pod.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        let Some(metadata) = metadata.as_object_mut() else { return template };
        let map = metadata.entry(field).or_insert_with(|| json!({}));
        if map.is_null() {
            *map = json!({});
        }
        if let Some(map) = map.as_object_mut() {
            map.extend(added.iter().map(|(name, value)| (name.clone(), json!(value))));
        }
    }
    if let (Some(affinity), Some(spec)) =
        (metadata::affinity(scene), template.get_mut("spec").and_then(Value::as_object_mut))
    {
        spec.insert("affinity".into(), affinity);
    }
    template
}

fn copied(scene: &Scene<'_>) -> BTreeMap<String, String> {
    let annotations = scene.rollout.metadata.annotations.iter().flatten();
    annotations
        .filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Keeps the number, the annotations, `minReadySeconds` and the anti-affinity of the new `ReplicaSet` in step.
pub(crate) fn keep(scene: &Scene<'_>, draft: &mut Draft, new: &ReplicaSetFacts) {
    let revision = scene.revision();
    if new.revision() < revision {
        let patch = draft.patch(new);
        patch.annotations.insert(REVISION.into(), Some(revision.to_string()));
        if new.revision() > 0 {
            let before = new.annotations.get(REVISION_HISTORY).filter(|before| !before.is_empty());
            let history =
                before.map_or(new.revision().to_string(), |before| format!("{before},{}", new.revision()));
            patch.annotations.insert(REVISION_HISTORY.into(), Some(history));
        }
    }
    for (name, value) in copied(scene) {
        if new.annotations.get(&name) != Some(&value) {
            draft.patch(new).annotations.insert(name, Some(value));
        }
    }
    if new.min_ready_seconds != scene.spec.min_ready_seconds {
        draft.patch(new).min_ready_seconds = Some(scene.spec.min_ready_seconds);
    }
    if metadata::affinity_is_stale(scene, new) {
        draft.patch(new).affinity = Some(metadata::affinity(scene).unwrap_or(Value::Null));
    }
}

/// Writes the number of the revision on the Rollout.
pub(crate) fn number(scene: &Scene<'_>, draft: &mut Draft) {
    let revision = scene.revision();
    let written = scene.rollout.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
    if written != Some(&revision.to_string()) {
        draft.note("RolloutUpdated", "Update", format!("Rollout updated to revision {revision}"));
        draft.first(Action::SetRevision { revision });
    }
    draft.next.revision = Some(revision);
}
