//! Labels and annotations that pods have only while they play a part, and pods that keep apart.
//!
//! What was put into a `ReplicaSet`'s template is noted on the `ReplicaSet`, so that exactly that can be taken out again.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::rollout::{AntiAffinity, EPHEMERAL_METADATA, POD_TEMPLATE_HASH, PodMetadata, Strategy};

use super::{
    action::Action,
    draft::Draft,
    scene::{Scene, Way},
};
use crate::{
    observed::ReplicaSetFacts,
    revision::template::{PREFERRED, REQUIRED, apart_from},
};

/// Whether the strategy gives pods metadata.
pub(crate) fn configured(strategy: &Strategy) -> bool {
    Way::of(strategy).is_some_and(|way| {
        let (new, stable) = both(&way);
        new.is_some() || stable.is_some()
    })
}

/// Metadata of the new version and of the version that runs.
fn both<'a>(way: &'a Way<'_>) -> (Option<&'a PodMetadata>, Option<&'a PodMetadata>) {
    match way {
        Way::Canary(canary) => (canary.canary_metadata.as_ref(), canary.stable_metadata.as_ref()),
        Way::BlueGreen(blue_green) => {
            (blue_green.preview_metadata.as_ref(), blue_green.active_metadata.as_ref())
        }
    }
}

/// Metadata that the new `ReplicaSet` has now.
pub(crate) fn of_new<'a>(scene: &'a Scene<'_>) -> Option<&'a PodMetadata> {
    let (new, stable) = both(&scene.way);
    if !scene.has_stable() || scene.promoted() { stable } else { new }
}

/// Makes every `ReplicaSet` and its pods have the metadata of the part that it plays.
pub(crate) fn sync(scene: &Scene<'_>, draft: &mut Draft) {
    let touched = scene.roles.all.iter().any(|set| set.annotations.contains_key(EPHEMERAL_METADATA));
    if !configured(&scene.spec.strategy) && !touched {
        return;
    }
    for set in &scene.roles.all {
        let is = |part: Option<&ReplicaSetFacts>| part.is_some_and(|part| part.uid == set.uid);
        let wanted = if is(scene.roles.new) {
            of_new(scene)
        } else if is(scene.roles.stable) {
            both(&scene.way).1
        } else {
            None
        };
        sync_one(scene, draft, set, wanted);
    }
}

fn sync_one(scene: &Scene<'_>, draft: &mut Draft, set: &ReplicaSetFacts, wanted: Option<&PodMetadata>) {
    let had = set.injected().unwrap_or_default();
    let want = wanted.cloned().unwrap_or_default();
    let of_template = |field: &str| texts(set.template.pointer(&format!("/metadata/{field}")));
    let labels = changes(&of_template("labels"), &had.labels, &want.labels);
    let annotations = changes(&of_template("annotations"), &had.annotations, &want.annotations);
    if !labels.is_empty() || !annotations.is_empty() || had != want {
        let note = if want == PodMetadata::default() { None } else { serde_json::to_string(&want).ok() };
        let patch = draft.patch(set);
        patch.template_labels = labels;
        patch.template_annotations = annotations;
        patch.annotations.insert(EPHEMERAL_METADATA.into(), note);
    }
    // A crash may have come between the ReplicaSet and its pods: what either part puts in counts as put in.
    let known = known_on_pods(scene, set, &had);
    let pods = scene.observed.pods.iter().flatten();
    for pod in pods.filter(|pod| pod.replica_set == set.uid && !pod.deleting) {
        let labels = changes(&pod.labels, &known.labels, &want.labels);
        let annotations = changes(&pod.annotations, &known.annotations, &want.annotations);
        if !labels.is_empty() || !annotations.is_empty() {
            let (name, uid) = (pod.name.clone(), pod.uid.clone());
            draft.last(Action::PatchPod { name, uid, labels, annotations });
        }
    }
}

fn known_on_pods(scene: &Scene<'_>, set: &ReplicaSetFacts, had: &PodMetadata) -> PodMetadata {
    let (new, stable) = both(&scene.way);
    let mut known = had.clone();
    for part in [new, stable].into_iter().flatten() {
        known.labels.extend(part.labels.clone());
        known.annotations.extend(part.annotations.clone());
    }
    let plain = set.plain_template();
    let own = |field: &str| texts(plain.pointer(&format!("/metadata/{field}")));
    let (labels, annotations) = (own("labels"), own("annotations"));
    known.labels.retain(|name, _| !labels.contains_key(name));
    known.annotations.retain(|name, _| !annotations.contains_key(name));
    known
}

/// What has to be set and taken away so that what was put in becomes what should be in.
fn changes(
    live: &BTreeMap<String, String>,
    had: &BTreeMap<String, String>,
    want: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let set = want
        .iter()
        .filter(|(name, value)| live.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), Some(value.clone())));
    let gone = had.keys().filter(|name| !want.contains_key(*name) && live.contains_key(*name));
    set.chain(gone.map(|name| (name.clone(), None))).collect()
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn settings<'a>(way: &'a Way<'_>) -> Option<&'a AntiAffinity> {
    match way {
        Way::Canary(canary) => canary.anti_affinity.as_ref(),
        Way::BlueGreen(blue_green) => blue_green.anti_affinity.as_ref(),
    }
}

/// The affinity that new pods get: that of the template, and ours against the stable version.
pub(crate) fn affinity(scene: &Scene<'_>) -> Option<Value> {
    let own = scene.template.pointer("/spec/affinity").filter(|affinity| !affinity.is_null());
    let (Some(settings), Some(stable)) = (settings(&scene.way), scene.status.stable_rs.as_deref()) else {
        return own.cloned();
    };
    if stable.is_empty() || scene.promoted() {
        return own.cloned();
    }
    let term = json!({
        "labelSelector": {
            "matchExpressions": [{ "key": POD_TEMPLATE_HASH, "operator": "In", "values": [stable] }],
        },
        "namespaces": [scene.rollout.metadata.namespace.as_deref().unwrap_or_default()],
        "topologyKey": "kubernetes.io/hostname",
    });
    let (list, item) = match &settings.preferred_during_scheduling_ignored_during_execution {
        Some(preferred) => (PREFERRED, json!({ "weight": preferred.weight, "podAffinityTerm": term })),
        None => (REQUIRED, term),
    };
    let mut affinity = own.cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = affinity.as_object_mut()
        && let Some(anti) = fields.entry("podAntiAffinity").or_insert_with(|| json!({})).as_object_mut()
        && let Some(items) = anti.entry(list).or_insert_with(|| json!([])).as_array_mut()
    {
        items.push(item);
    }
    Some(affinity)
}

/// An update goes on and the rule names another stable version than there is now.
pub(crate) fn affinity_is_stale(scene: &Scene<'_>, set: &ReplicaSetFacts) -> bool {
    let live = set.template.pointer("/spec/affinity").cloned().unwrap_or(Value::Null);
    !scene.promoted()
        && settings(&scene.way).is_some()
        && apart_from(&live).is_some_and(|hash| scene.status.stable_rs.as_deref() != Some(&hash))
}
