//! Delete, of one object and of a collection.

use serde_json::{Map, Value, json};

use super::super::call::{Answer, Call};
use super::super::clock::seconds;
use super::super::crd;
use super::super::schema::Cause;
use super::super::state::{ObjectKey, State, finalizers, is_deleting, meta, set_metadata};
use super::super::status::{About, Failure, deleted};
use super::read::{Selection, list_metadata};

/// What a delete asks for, from the body or the query.
#[derive(Clone, Debug, Default)]
struct Options {
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Propagation,
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Options {
    fn of(call: &Call) -> Result<Self, Failure> {
        let body: Value = if call.body.is_empty() { Value::Object(Map::new()) } else { call.json()? };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        // A body counts alone; the query only when there is none.
        let query = |name: &str| if call.body.is_empty() { call.parameter(name) } else { "" };
        let policy = text("/propagationPolicy").unwrap_or_else(|| query("propagationPolicy").to_owned());
        let orphan = body.get("orphanDependents").and_then(Value::as_bool).unwrap_or_default();
        let propagation = match policy.as_str() {
            "" if orphan => Propagation::Orphan,
            "" | "Background" => Propagation::Background,
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            other => {
                let about = About { group: "meta.k8s.io", kind: "DeleteOptions", name: "" };
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
                );
                let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
                return Err(Failure::invalid(about, vec![cause]));
            }
        };
        let dry_run =
            body.get("dryRun").and_then(Value::as_array).is_some_and(|list| list.contains(&json!("All")));
        Ok(Self {
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation,
            dry_run: dry_run || query("dryRun") == "All",
        })
    }
}

/// DELETE of one object.
pub(crate) fn delete(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let options = Options::of(call)?;
    delete_one(state, call, &call.key(), &options)
}

/// DELETE of a collection: every object that the selectors choose.
pub(crate) fn delete_collection(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let options = Options::of(call)?;
    let selection = Selection::of(call)?;
    let chosen: Vec<ObjectKey> = state
        .of_resource(&call.resource.stored_as)
        .filter(|(key, object)| selection.chooses(key, object))
        .map(|(key, _)| key.clone())
        .collect();
    let version = state.version();
    let mut items = Vec::new();
    for key in chosen {
        items.extend(state.get(&key).map(|object| call.resource.present(&object, &call.version.name)));
        delete_one(state, call, &key, &options)?;
    }
    Ok(Answer::ok(json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.api_version(),
        "metadata": list_metadata(call, version),
        "items": items,
    })))
}

fn delete_one(state: &mut State, call: &Call, key: &ObjectKey, options: &Options) -> Result<Answer, Failure> {
    let about = About { name: &key.name, ..call.about() };
    let Some(stored) = state.get(key) else {
        return Err(Failure::not_found(about));
    };
    check_preconditions(call.about_kind(&key.name), &stored, options)?;
    let mut object = (*stored).clone();
    let mut pending = finalizers(&object);
    // The collector's own finalizers say how dependents are to be treated.
    let marker = match options.propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some("foregroundDeletion"),
        Propagation::Orphan => Some("orphan"),
    };
    let policy = ["foregroundDeletion", "orphan"];
    if !is_deleting(&object) {
        pending.retain(|name| !policy.contains(&name.as_str()));
        pending.extend(marker.map(str::to_owned));
        if crd::is_definition(key) && !pending.iter().any(|name| name == crd::CLEANUP) {
            pending.push(crd::CLEANUP.to_owned());
        }
    }
    let is_namespace = call.resource.kind == "Namespace" && !call.resource.custom;
    if pending.is_empty() && !is_namespace {
        let uid = meta(&object, "uid").to_owned();
        if !options.dry_run {
            remove_object(state, key);
        }
        return Ok(Answer::ok(deleted(about, &uid)));
    }
    set_metadata(&mut object, "finalizers", (!pending.is_empty()).then(|| json!(pending)));
    if !is_deleting(&object) {
        mark(state, &mut object, is_namespace);
    }
    if !options.dry_run && object != *stored {
        object = (*state.store(key, object)).clone();
    }
    Ok(Answer::ok(call.resource.present(&object, &call.version.name)))
}

fn mark(state: &State, object: &mut Value, is_namespace: bool) {
    set_metadata(object, "deletionTimestamp", Some(seconds(state.now()).into()));
    if !is_namespace {
        set_metadata(object, "deletionGracePeriodSeconds", Some(json!(0)));
    }
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    if generation > 0 {
        set_metadata(object, "generation", Some(json!(generation + 1)));
    }
    if is_namespace && let Some(phase) = object.pointer_mut("/status/phase") {
        *phase = "Terminating".into();
    }
}

fn check_preconditions(about: About<'_>, object: &Value, options: &Options) -> Result<(), Failure> {
    let pairs = [
        ("UID", options.uid.as_deref(), meta(object, "uid")),
        ("ResourceVersion", options.resource_version.as_deref(), meta(object, "resourceVersion")),
    ];
    for (what, wanted, current) in pairs {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != current) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {current}"
            );
            return Err(Failure::conflict(about, &why));
        }
    }
    Ok(())
}

/// Takes an object out of the store.
pub(crate) fn remove_object(state: &mut State, key: &ObjectKey) {
    state.remove(key);
    crd::changed(state, key);
}
