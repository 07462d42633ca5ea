//! What both tools have in common.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::application::source::Kustomize;

use super::{fields::Fields, objects::Marks, report::Report};

/// Bookkeeping of kubectl that nobody wrote.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Labels and annotations of a foreign object. `own` decides about those that belong to the tool: whether they are
/// carried over; it tells the rest itself.
pub(super) fn marks(
    metadata: &mut Fields,
    report: &mut Report,
    mut own: impl FnMut(&str, &str, &mut Report) -> bool,
) -> Marks {
    let mut keep = |pairs: BTreeMap<String, String>, report: &mut Report| -> BTreeMap<String, String> {
        pairs.into_iter().filter(|(key, value)| key != LAST_APPLIED && own(key, value, report)).collect()
    };
    let labels = metadata.pairs("labels", report);
    let labels = keep(labels, report);
    let annotations = metadata.pairs("annotations", report);
    Marks { labels, annotations: keep(annotations, report) }
}

/// A kustomize patch that sets labels and annotations on every object and touches no selector, unlike `commonLabels`,
/// which would change selectors that can never be changed.
pub(super) fn metadata_patch(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<Map<String, Value>> {
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), "every-object".into());
    for (field, pairs) in [("labels", labels), ("annotations", annotations)] {
        if !pairs.is_empty() {
            metadata.insert(field.to_owned(), json!(pairs));
        }
    }
    let patch = json!({"apiVersion": "v1", "kind": "EveryObject", "metadata": metadata});
    let mut entry = Map::new();
    entry.insert("target".to_owned(), json!({"kind": ".*"}));
    entry.insert("patch".to_owned(), windlass_manifest::canonical::encode(&patch).into());
    Some(entry)
}

/// Patches as a kustomization file has them.
pub(super) fn patches(part: &mut Fields, report: &mut Report) -> Vec<Map<String, Value>> {
    let items = part.list("patches", report);
    let count = items.len();
    let patches: Vec<Map<String, Value>> = items
        .into_iter()
        .filter_map(|item| match item {
            Value::Object(map) => Some(map),
            _ => None,
        })
        .collect();
    if patches.len() < count {
        report.left(part.at("patches"), "holds something that is no patch", "Correct the object");
    }
    patches
}

/// None when nothing was set: then the folder itself tells what it is.
pub(super) fn filled(kustomize: Kustomize) -> Option<Kustomize> {
    (kustomize != Kustomize::default()).then_some(kustomize)
}

/// A text without what no field can hold.
pub(super) fn at_most(text: Option<String>, most: usize, field: &str, report: &mut Report) -> Option<String> {
    let text = text?;
    if text.chars().count() > most {
        report.left(field, format!("is longer than {most} letters"), "Shorten it");
        return None;
    }
    Some(text)
}
