//! A `ReplicaSet`'s template as its Rollout had it, without what was put in for the part that its pods play.

use serde_json::Value;
use windlass_api::rollout::{POD_TEMPLATE_HASH, PodMetadata};

pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The template without the hash, the metadata that was put in, and the rule that keeps two versions apart.
pub fn plain(template: &Value, injected: &PodMetadata) -> Value {
    let mut template = template.clone();
    for (field, names) in [("labels", &injected.labels), ("annotations", &injected.annotations)] {
        let map = template.pointer_mut(&format!("/metadata/{field}")).and_then(Value::as_object_mut);
        if let Some(map) = map {
            map.retain(|name, _| !names.contains_key(name) && name != POD_TEMPLATE_HASH);
        }
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(affinity) = spec.get_mut("affinity")
    {
        take_apart(affinity);
        if affinity.as_object().is_none_or(serde_json::Map::is_empty) {
            spec.shift_remove("affinity");
        }
    }
    template
}

/// The hash of the version that pods with this affinity keep away from.
pub(crate) fn apart_from(affinity: &Value) -> Option<String> {
    let anti = affinity.get("podAntiAffinity")?;
    let items = [REQUIRED, PREFERRED].into_iter().filter_map(|list| anti.get(list)?.as_array()).flatten();
    items.into_iter().find_map(named_hash)
}

/// The hash that a required or a preferred term names.
fn named_hash(item: &Value) -> Option<String> {
    let term = item.get("podAffinityTerm").unwrap_or(item);
    let rules = term.pointer("/labelSelector/matchExpressions")?.as_array()?;
    let rule =
        rules.iter().find(|rule| rule.get("key").and_then(Value::as_str) == Some(POD_TEMPLATE_HASH))?;
    rule.pointer("/values/0").and_then(Value::as_str).map(str::to_owned)
}

fn take_apart(affinity: &mut Value) {
    let Some(fields) = affinity.as_object_mut() else { return };
    if let Some(anti) = fields.get_mut("podAntiAffinity").and_then(Value::as_object_mut) {
        for list in [REQUIRED, PREFERRED] {
            if let Some(items) = anti.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| named_hash(item).is_none());
            }
        }
        anti.retain(|_, items| items.as_array().is_none_or(|items| !items.is_empty()));
    }
    fields.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
}
