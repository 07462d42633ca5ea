//! Replace and patch, which end in the same place.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::admission;
use super::super::call::{Answer, Call};
use super::super::crd;
use super::super::kinds::Generation;
use super::super::ownership::{misfit, on_apply, on_update};
use super::super::patch;
use super::super::schema::Cause;
use super::super::state::{State, finalizers, is_deleting, meta, set_metadata};
use super::super::status::{About, Failure};
use super::create::insert;
use super::intake;

/// PUT.
pub(crate) fn replace(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let mut object = call.json()?;
    intake::header(call, &mut object)?;
    let warnings = intake::read(call, &mut object)?;
    let Some(stored) = state.get(&call.key()) else {
        if call.resource.create_on_update && call.subresource.is_empty() {
            return super::create::create(state, &Call { name: String::new(), ..call.clone() });
        }
        return Err(Failure::not_found(call.about()));
    };
    let live = call.resource.present(&stored, &call.version.name);
    check_uid(call, &object, &live)
        .and_then(|()| check_version(call, &object, &live, call.resource.needs_version))
        .and_then(|()| {
            account(state, call, &live, &mut object);
            finish(state, call, &live, object)
        })
        .map(|answer| Answer { warnings: warnings.clone(), ..answer })
        .map_err(|failure| failure.warning(&warnings))
}

/// PATCH, by content type.
pub(crate) fn patch(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let media = call.content_type.split(';').next().unwrap_or_default().trim();
    if media == "application/apply-patch+yaml" {
        return apply(state, call);
    }
    if call.flag("force") {
        return Err(Failure::bad_request("force: Forbidden: may not be specified for non-apply patch"));
    }
    let Some(stored) = state.get(&call.key()) else {
        return Err(Failure::not_found(call.about()));
    };
    let live = call.resource.present(&stored, &call.version.name);
    let change = call.json()?;
    let mut object = match media {
        "application/merge-patch+json" => patch::merge(&live, &change),
        "application/json-patch+json" => patch::json_patch(&live, &change)?,
        "application/strategic-merge-patch+json" if !call.resource.custom => {
            patch::strategic(&call.version.schema, &live, &change)?
        }
        _ => {
            let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
            if !call.resource.custom {
                accepted.push("application/strategic-merge-patch+json");
            }
            accepted.push("application/apply-patch+yaml");
            let accepted = accepted.join(", ");
            let known = media == "application/strategic-merge-patch+json";
            return Err(if known {
                Failure::unsupported_patch(&accepted)
            } else {
                Failure::unsupported_media_type(&accepted)
            });
        }
    };
    intake::header(call, &mut object)?;
    let warnings = intake::read(call, &mut object)?;
    check_version(call, &object, &live, false)
        .and_then(|()| {
            account(state, call, &live, &mut object);
            finish(state, call, &live, object)
        })
        .map(|answer| Answer { warnings: warnings.clone(), ..answer })
        .map_err(|failure| failure.warning(&warnings))
}

/// Server-side apply.
fn apply(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    if call.parameter("fieldManager").is_empty() {
        let about = About { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
        let cause =
            Cause::new("FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
        return Err(Failure::invalid(about, vec![cause]));
    }
    let applied = applied_object(call)?;
    let stored = state.get(&call.key());
    let live = stored.map(|stored| call.resource.present(&stored, &call.version.name));
    if live.is_none() && !call.subresource.is_empty() {
        return Err(Failure::not_found(call.about()));
    }
    let uid = meta(&applied, "uid");
    if live.is_none() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Failure::conflict(call.about(), &why));
    }
    let api_version = call.api_version();
    let manager = call.manager();
    let writer = call.writer(state, &manager, &api_version);
    let mut object = on_apply(&call.written(), live.as_ref(), &applied, &writer, call.flag("force"))?;
    intake::normalize_applied(&call.resource, &call.version, &mut object);
    match live {
        None => insert(state, call, object),
        Some(live) => {
            check_version(call, &object, &live, false)?;
            finish(state, call, &live, object)
        }
    }
}

fn applied_object(call: &Call) -> Result<Value, Failure> {
    let mut applied = call.json()?;
    for field in ["apiVersion", "kind"] {
        if applied.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
            return Err(Failure::bad_request(format!(
                "invalid object type: {field} must be set in an apply patch"
            )));
        }
    }
    intake::header(call, &mut applied)?;
    if applied.pointer("/metadata/managedFields").is_some_and(|entries| !entries.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    if let Some(why) = misfit(&call.version.schema, &applied) {
        return Err(Failure::internal(format!(
            "failed to create typed patch object ({}/{}; {}, Kind={}): {why}",
            call.namespace,
            call.name,
            call.api_version(),
            call.resource.kind
        )));
    }
    Ok(applied)
}

/// Refuses a replace that was made for another object.
fn check_uid(call: &Call, object: &Value, live: &Value) -> Result<(), Failure> {
    let (wanted, current) = (meta(object, "uid"), meta(live, "uid"));
    if !wanted.is_empty() && wanted != current {
        let why =
            format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {current}");
        return Err(Failure::conflict(call.about(), &why));
    }
    Ok(())
}

/// Refuses a write that was made for another state.
fn check_version(call: &Call, object: &Value, live: &Value, required: bool) -> Result<(), Failure> {
    match meta(object, "resourceVersion") {
        "" | "0" if required => {
            let cause = Cause::new(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            );
            Err(Failure::invalid(call.about(), vec![cause]))
        }
        "" | "0" => Ok(()),
        wanted if wanted == meta(live, "resourceVersion") => Ok(()),
        _ => Err(Failure::stale(call.about())),
    }
}

fn account(state: &State, call: &Call, live: &Value, object: &mut Value) {
    keep_server_fields(live, object);
    let api_version = call.api_version();
    let manager = call.manager();
    let writer = call.writer(state, &manager, &api_version);
    on_update(&call.written(), Some(live), object, &writer);
}

fn keep_server_fields(live: &Value, object: &mut Value) {
    if meta(object, "uid").is_empty() {
        set_metadata(object, "uid", Some(meta(live, "uid").into()));
    }
    let fields = [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
    ];
    for field in fields {
        let value = live.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
        set_metadata(object, field, value);
    }
}

/// Ends an update of `live` to `object`: what this endpoint may not touch is put back, the generation is
/// raised, and nothing is stored when nothing changes.
fn finish(state: &mut State, call: &Call, live: &Value, mut object: Value) -> Result<Answer, Failure> {
    keep_server_fields(live, &mut object);
    keep_other_endpoints(call, live, &mut object);
    raise_generation(call, live, &mut object);
    ignore_entry_times(live, &mut object);
    let shown = call.resource.present(&call.resource.to_stored(object.clone()), &call.version.name);
    intake::check(call, &shown, Some(live))?;
    if call.resource.kind == "CustomResourceDefinition"
        && !call.resource.custom
        && call.subresource.is_empty()
    {
        crd::prepare(state, call, &mut object)?;
    }
    admission::review(state, call, &shown)?;
    let gone = is_deleting(live) && finalizers(&object).is_empty() && call.resource.kind != "Namespace";
    let key = call.key();
    let stored = call.resource.to_stored(object.clone());
    if call.dry_run()? || (!gone && state.get(&key).is_some_and(|before| *before == stored)) {
        return Ok(Answer::ok(call.resource.present(&stored, &call.version.name)));
    }
    if gone {
        super::remove_object(state, &key);
        // Nothing reads it back from the store, so it is answered as it was written.
        return Ok(Answer::ok(object));
    }
    let stored = state.store(&key, stored);
    crd::changed(state, &key);
    Ok(Answer::ok(call.resource.present(&stored, &call.version.name)))
}

fn keep_other_endpoints(call: &Call, live: &Value, object: &mut Value) {
    let mut put_back = |field: &str| {
        if let Some(fields) = object.as_object_mut() {
            match live.get(field) {
                Some(value) => {
                    fields.insert(field.to_owned(), value.clone());
                }
                None => {
                    fields.shift_remove(field);
                }
            }
        }
    };
    match call.subresource.as_str() {
        "" if call.version.status => put_back("status"),
        "status" if call.resource.custom => {
            // Only status and the accounting of fields are taken from the request.
            let entries = object.pointer("/metadata/managedFields").cloned();
            let status = object.get("status").cloned();
            let mut kept = live.clone();
            set_metadata(&mut kept, "managedFields", entries);
            if let Some(fields) = kept.as_object_mut() {
                fields.shift_remove("status");
                fields.extend(status.map(|status| ("status".to_owned(), status)));
            }
            *object = kept;
        }
        "status" => {
            put_back("spec");
            if call.resource.kind == "Deployment" {
                let labels = live.pointer("/metadata/labels").cloned();
                set_metadata(object, "labels", labels);
            }
        }
        _ => {}
    }
}

fn raise_generation(call: &Call, live: &Value, object: &mut Value) {
    if call.resource.generation == Generation::None || call.subresource == "status" {
        return;
    }
    let content = |object: &Value| -> Vec<(String, Value)> {
        let skipped = |name: &str| name == "metadata" || (name == "status" && call.version.status);
        let fields = object.as_object().into_iter().flatten().filter(|(name, _)| !skipped(name));
        let mut fields: Vec<_> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    };
    if content(live) != content(object) {
        let generation = live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        set_metadata(object, "generation", Some(json!(generation + 1)));
    }
}

/// When only the times of entries differ, nothing differs.
fn ignore_entry_times(live: &Value, object: &mut Value) {
    let untimed = |object: &Value| -> Option<Value> {
        let mut entries = object.pointer("/metadata/managedFields")?.clone();
        for entry in entries.as_array_mut()? {
            entry.as_object_mut()?.shift_remove("time");
        }
        Some(entries)
    };
    let without = |object: &Value| super::super::ownership::strip(object);
    let same_entries = || {
        let sorted = |entries: Option<Value>| {
            let mut list: Vec<String> = match entries {
                Some(Value::Array(list)) => list.iter().map(ToString::to_string).collect(),
                _ => Vec::new(),
            };
            list.sort();
            list
        };
        sorted(untimed(live)) == sorted(untimed(object))
    };
    if same_entries() && without(live) == without(object) {
        set_metadata(object, "managedFields", live.pointer("/metadata/managedFields").cloned());
    }
}

/// Stores a change that the server works out itself, accounted to the manager of `call`.
pub(super) fn write_back(
    state: &mut State,
    call: &Call,
    change: impl FnOnce(&mut Value),
) -> Result<Arc<Value>, Failure> {
    let missing = || Failure::not_found(call.about());
    let stored = state.get(&call.key()).ok_or_else(missing)?;
    let live = call.resource.present(&stored, &call.version.name);
    let mut object = live.clone();
    change(&mut object);
    account(state, call, &live, &mut object);
    finish(state, call, &live, object)?;
    // The last finalizer may have been removed, and the object with it.
    Ok(state.get(&call.key()).unwrap_or(stored))
}
