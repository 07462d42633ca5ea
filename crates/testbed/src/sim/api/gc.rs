//! What the controller manager does in a real cluster: owner garbage collection, the end of namespaces and of
//! definitions.
//!
//! Everything is done in the order of the keys and until nothing is left to do, so the outcome does not depend on
//! anything else.

use std::sync::Arc;

use serde_json::{Value, json};

use super::clock::seconds;
use super::crd::CLEANUP;
use super::kinds::{Resource, ResourceKey};
use super::log::Write;
use super::ownership::{Kind, Writer, on_update};
use super::state::{ObjectKey, State, finalizers, is_deleting, meta, set_metadata};
use super::verbs::remove_object;

/// The manager under which these writes are logged.
const COLLECTOR: &str = "kube-controller-manager";

/// Runs until nothing is left to collect.
pub(crate) fn collect(state: &mut State) {
    state.collectable = false;
    while orphan(state) | foreground(state) | dangling(state) | namespaces(state) | definitions(state) {}
    state.collectable = false;
}

fn log(state: &mut State, verb: &str, key: &ObjectKey, uid: &str) {
    let entry = Write {
        seq: state.writes.len() as u64 + 1,
        at: state.now(),
        user_agent: COLLECTOR.into(),
        manager: COLLECTOR.into(),
        user: None,
        verb: verb.into(),
        group: key.resource.group.clone(),
        version: state
            .registry
            .get(&key.resource)
            .map(|found| found.storage_version.clone())
            .unwrap_or_default(),
        resource: key.resource.plural.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.to_owned(),
        subresource: String::new(),
        code: 200,
        dry_run: false,
        changed: true,
        resource_version: state.version().to_string(),
        preconditions: (Some(uid.to_owned()), None),
    };
    state.writes.push(entry);
}

/// Deletes an object as the collector does; false when there is nothing more to do about it.
fn delete(state: &mut State, key: &ObjectKey, foreground: bool) -> bool {
    let Some(stored) = state.get(key) else {
        return false;
    };
    if is_deleting(&stored) {
        return false;
    }
    let uid = meta(&stored, "uid").to_owned();
    let mut pending = finalizers(&stored);
    if foreground {
        pending.push("foregroundDeletion".into());
    }
    if pending.is_empty() {
        remove_object(state, key);
    } else {
        let mut object = (*stored).clone();
        set_metadata(&mut object, "finalizers", Some(json!(pending)));
        set_metadata(&mut object, "deletionTimestamp", Some(seconds(state.now()).into()));
        set_metadata(&mut object, "deletionGracePeriodSeconds", Some(json!(0)));
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        if generation > 0 {
            set_metadata(&mut object, "generation", Some(json!(generation + 1)));
        }
        state.store(key, object);
    }
    log(state, "delete", key, &uid);
    true
}

/// Removes a finalizer, and the object when that was the last.
fn release(state: &mut State, key: &ObjectKey, finalizer: &str) {
    let Some(stored) = state.get(key) else {
        return;
    };
    let mut pending = finalizers(&stored);
    pending.retain(|name| name != finalizer);
    let uid = meta(&stored, "uid").to_owned();
    if pending.is_empty() && is_deleting(&stored) {
        remove_object(state, key);
    } else {
        let mut object = (*stored).clone();
        set_metadata(&mut object, "finalizers", (!pending.is_empty()).then(|| json!(pending)));
        patch(state, key, &stored, object);
    }
    log(state, "patch", key, &uid);
}

/// Stores a change with the accounting that a patch has.
fn patch(state: &mut State, key: &ObjectKey, live: &Value, mut object: Value) {
    let resource = state.registry.get(&key.resource).cloned();
    let version = resource.as_ref().and_then(|found| found.version(&found.storage_version));
    if let (Some(resource), Some(version)) = (&resource, version) {
        let written = Kind {
            schema: &version.schema,
            blank: &resource.blank,
            reset: resource.reset_fields(version, ""),
        };
        let api_version = resource.api_version(&version.name);
        let writer =
            Writer { manager: COLLECTOR, api_version: &api_version, subresource: "", now: state.now() };
        on_update(&written, Some(live), &mut object, &writer);
    }
    state.store(key, object);
}

fn references(object: &Value) -> Vec<Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Objects on their way out that carry a finalizer.
fn ending(state: &State, finalizer: &str) -> Vec<(ObjectKey, String)> {
    let ends =
        |object: &Value| is_deleting(object) && finalizers(object).iter().any(|name| name == finalizer);
    state
        .objects
        .iter()
        .filter(|(_, object)| ends(object))
        .map(|(key, object)| (key.clone(), meta(object, "uid").to_owned()))
        .collect()
}

/// Objects that name `uid` as an owner, with the reference.
fn dependents(state: &State, uid: &str) -> Vec<(ObjectKey, Value)> {
    state
        .objects
        .iter()
        .filter_map(|(key, object)| {
            let reference = references(object).into_iter().find(|reference| text(reference, "uid") == uid)?;
            Some((key.clone(), reference))
        })
        .collect()
}

fn drop_references(state: &mut State, key: &ObjectKey, gone: &[String]) {
    let Some(stored) = state.get(key) else {
        return;
    };
    let mut left = references(&stored);
    left.retain(|reference| !gone.iter().any(|uid| uid == text(reference, "uid")));
    let mut object = (*stored).clone();
    set_metadata(&mut object, "ownerReferences", (!left.is_empty()).then(|| json!(left)));
    patch(state, key, &stored, object);
    let uid = meta(&stored, "uid").to_owned();
    log(state, "patch", key, &uid);
}

fn orphan(state: &mut State) -> bool {
    let owners = ending(state, "orphan");
    for (key, uid) in &owners {
        for (dependent, _) in dependents(state, uid) {
            drop_references(state, &dependent, std::slice::from_ref(uid));
        }
        release(state, key, "orphan");
    }
    !owners.is_empty()
}

fn foreground(state: &mut State) -> bool {
    let mut progress = false;
    for (key, uid) in ending(state, "foregroundDeletion") {
        let blocking = dependents(state, &uid);
        for (dependent, _) in &blocking {
            progress |= delete(state, dependent, !dependents_of(state, dependent).is_empty());
        }
        let blocked = dependents(state, &uid)
            .iter()
            .any(|(_, reference)| reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true));
        if !blocked {
            release(state, &key, "foregroundDeletion");
            progress = true;
        }
    }
    progress
}

fn dependents_of(state: &State, key: &ObjectKey) -> Vec<(ObjectKey, Value)> {
    state.get(key).map(|object| dependents(state, meta(&object, "uid"))).unwrap_or_default()
}

fn owner_resource(state: &State, reference: &Value) -> Option<Arc<Resource>> {
    let group = text(reference, "apiVersion").split_once('/').map(|(group, _)| group).unwrap_or_default();
    let kind = text(reference, "kind");
    state.registry.values().find(|resource| resource.key.group == group && resource.kind == kind).cloned()
}

/// Whether an owner is gone. `None` when its kind is not known, and so nothing can be said.
fn is_gone(state: &State, dependent: &ObjectKey, reference: &Value) -> Option<bool> {
    let resource = owner_resource(state, reference)?;
    let key = ObjectKey {
        resource: resource.stored_as.clone(),
        namespace: if resource.namespaced { dependent.namespace.clone() } else { String::new() },
        name: text(reference, "name").to_owned(),
    };
    Some(state.get(&key).is_none_or(|owner| meta(&owner, "uid") != text(reference, "uid")))
}

/// Deletes what has lost all its owners, and drops references to some that are gone.
fn dangling(state: &mut State) -> bool {
    let owned: Vec<(ObjectKey, Vec<Value>)> = state
        .objects
        .iter()
        .filter(|(_, object)| !is_deleting(object))
        .map(|(key, object)| (key.clone(), references(object)))
        .filter(|(_, references)| !references.is_empty())
        .collect();
    let mut progress = false;
    for (key, references) in owned {
        let states: Vec<Option<bool>> =
            references.iter().map(|reference| is_gone(state, &key, reference)).collect();
        if states.iter().all(|state| *state == Some(true)) {
            progress |= delete(state, &key, false);
        } else if states.contains(&Some(true)) && !states.contains(&None) {
            let gone: Vec<String> = references
                .iter()
                .zip(&states)
                .filter(|(_, state)| **state == Some(true))
                .map(|(reference, _)| text(reference, "uid").to_owned())
                .collect();
            drop_references(state, &key, &gone);
            progress = true;
        }
    }
    progress
}

fn namespaces(state: &mut State) -> bool {
    let resource = ResourceKey::new("", "namespaces");
    let ending: Vec<(ObjectKey, String)> = state
        .of_resource(&resource)
        .filter(|(_, object)| is_deleting(object))
        .map(|(key, object)| (key.clone(), meta(object, "uid").to_owned()))
        .collect();
    let mut progress = false;
    for (key, uid) in ending {
        let contents: Vec<ObjectKey> =
            state.objects.keys().filter(|found| found.namespace == key.name).cloned().collect();
        for inner in &contents {
            progress |= delete(state, inner, false);
        }
        let left = state.objects.keys().any(|found| found.namespace == key.name);
        let held = state.get(&key).is_some_and(|object| !finalizers(&object).is_empty());
        if !left && !held {
            remove_object(state, &key);
            log(state, "update", &key, &uid);
            progress = true;
        }
    }
    progress
}

fn definitions(state: &mut State) -> bool {
    let mut progress = false;
    for (key, _) in ending(state, CLEANUP) {
        let Some((plural, group)) = key.name.split_once('.') else {
            continue;
        };
        let resource = ResourceKey::new(group, plural);
        let objects: Vec<ObjectKey> = state.of_resource(&resource).map(|(key, _)| key.clone()).collect();
        for object in &objects {
            progress |= delete(state, object, false);
        }
        if state.of_resource(&resource).next().is_none() {
            release(state, &key, CLEANUP);
            progress = true;
        }
    }
    progress
}
