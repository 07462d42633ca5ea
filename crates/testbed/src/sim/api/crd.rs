//! Definitions that come, change and go.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::Call;
use super::clock::seconds;
use super::kinds::{ResourceKey, from_definition};
use super::state::{ObjectKey, State, finalizers, is_deleting, meta, set_metadata};
use super::status::Failure;

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_definition(key: &ObjectKey) -> bool {
    key.resource == ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Checks a definition that is about to be stored and fills in its status: names are accepted at once.
pub(crate) fn prepare(state: &State, call: &Call, definition: &mut Value) -> Result<(), Failure> {
    let resource = from_definition(definition)
        .map_err(|causes| Failure::invalid(call.about_kind(meta(definition, "name")), causes))?;
    let names = json!({
        "plural": resource.key.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": resource.list_kind,
        "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    if let Some(spec) = definition.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
    let mut stored: Vec<Value> =
        definition.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    let storage = json!(resource.storage_version);
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        let previous = definition
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .and_then(|list| list.iter().find(|condition| condition.get("type") == Some(&json!(kind))));
        previous.cloned().unwrap_or_else(|| {
            json!({"type": kind, "status": "True", "lastTransitionTime": seconds(state.now()),
                "reason": reason, "message": message})
        })
    };
    let conditions = vec![
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    let mut pending = finalizers(definition);
    if !is_deleting(definition) && !pending.iter().any(|name| name == CLEANUP) {
        pending.push(CLEANUP.to_owned());
        set_metadata(definition, "finalizers", Some(json!(pending)));
    }
    if let Some(definition) = definition.as_object_mut() {
        definition.insert(
            "status".into(),
            json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored}),
        );
    }
    Ok(())
}

/// Serves what the stored definition under `key` says, if the key is one of a definition.
pub(crate) fn changed(state: &mut State, key: &ObjectKey) {
    if !is_definition(key) {
        return;
    }
    if let Some(definition) = state.get(key) {
        if let Ok(resource) = from_definition(&definition) {
            state.registry.insert(resource.key.clone(), Arc::new(resource));
        }
    } else if let Some((plural, group)) = key.name.split_once('.') {
        let gone = ResourceKey::new(group, plural);
        if state.registry.get(&gone).is_some_and(|resource| resource.custom) {
            state.registry.remove(&gone);
        }
    }
}
