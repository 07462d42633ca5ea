//! Definitions that come, change and go.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::Call;
use super::clock::seconds;
use super::kinds::{Resource, ResourceKey, from_definition};
use super::state::{ObjectKey, State, is_deleting, meta};
use super::status::Failure;

/// Keeps a definition until its objects are gone: comes with the first delete.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.resource == ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Checks a definition that is about to be stored and fills in its status: names are accepted at once.
pub(crate) fn prepare(state: &State, call: &Call, definition: &mut Value) -> Result<(), Failure> {
    let resource = from_definition(definition)
        .map_err(|causes| Failure::invalid(call.about_kind(meta(definition, "name")), causes))?;
    let names = accepted_names(&resource);
    if let Some(spec) = definition.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
    let mut stored: Vec<Value> =
        definition.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    let storage = json!(resource.storage_version);
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    // A status that is there stays; a new definition gets one when its time comes.
    let known = definition.pointer("/status/conditions").filter(|conditions| conditions.is_array()).cloned();
    let (conditions, names) = match known {
        Some(conditions) if is_established(definition) => (conditions, names),
        Some(conditions) => {
            (conditions, definition.pointer("/status/acceptedNames").cloned().unwrap_or_default())
        }
        None if state.agenda.establish_after.is_zero() => (conditions(state, true), names),
        None => (Value::Null, json!({"plural": "", "kind": ""})),
    };
    if let Some(definition) = definition.as_object_mut() {
        definition.insert(
            "status".into(),
            json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored}),
        );
    }
    Ok(())
}

fn accepted_names(resource: &Resource) -> Value {
    json!({
        "plural": resource.key.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": resource.list_kind,
        "shortNames": resource.short_names,
        "categories": resource.categories,
    })
}

/// The conditions of a definition whose names are accepted.
fn conditions(state: &State, established: bool) -> Value {
    let now = seconds(state.now());
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    let (status, reason) =
        if established { ("True", "InitialNamesAccepted") } else { ("False", "Installing") };
    json!([
        condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        condition("Established", status, reason, "the initial names have been accepted"),
    ])
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == "Established" && found["status"] == "True")
}

/// The next step of a definition on its way to being served; true when there is none left.
pub(crate) fn proceed(state: &mut State, key: &ObjectKey) -> bool {
    let Some(stored) = state.get(key).filter(|stored| !is_deleting(stored) && !is_established(stored)) else {
        return true;
    };
    let accepted = stored.pointer("/status/conditions").is_some_and(Value::is_array);
    let conditions = conditions(state, accepted);
    let Ok(resource) = from_definition(&stored) else { return true };
    let mut definition = (*stored).clone();
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("conditions".into(), conditions);
        status.insert("acceptedNames".into(), accepted_names(&resource));
    }
    state.store(key, definition);
    if accepted {
        changed(state, key);
    }
    accepted
}

/// Serves a definition at once.
pub(crate) fn establish(state: &mut State, name: &str) {
    let resource = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
    let key = ObjectKey { resource, namespace: String::new(), name: name.to_owned() };
    while !proceed(state, &key) {}
}

/// Serves what the stored definition under `key` says, if the key is one of a definition that is established; else it
/// is put on the list.
pub(crate) fn changed(state: &mut State, key: &ObjectKey) {
    if !is_definition(key) {
        return;
    }
    if let Some(definition) = state.get(key) {
        if !is_established(&definition) {
            let now = state.now();
            state.agenda.establish(now, key);
        } else if let Ok(resource) = from_definition(&definition) {
            state.registry.insert(resource.key.clone(), Arc::new(resource));
        }
    } else if let Some((plural, group)) = key.name.split_once('.') {
        let gone = ResourceKey::new(group, plural);
        if state.registry.get(&gone).is_some_and(|resource| resource.custom) {
            state.registry.remove(&gone);
        }
    }
}
