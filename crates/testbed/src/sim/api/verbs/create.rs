//! Create.

use serde_json::{Value, json};

use super::super::admission;
use super::super::call::{Answer, Call};
use super::super::clock::seconds;
use super::super::crd;
use super::super::kinds::{Generation, Resource, Version, on_create};
use super::super::ownership::on_update;
use super::super::schema::Cause;
use super::super::state::{State, is_deleting, meta, set_metadata};
use super::super::status::{About, Failure};
use super::intake;

/// POST to a collection.
pub(crate) fn create(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let mut object = call.json()?;
    intake::header(call, &mut object)?;
    let warnings = intake::read(call, &mut object)?;
    if meta(&object, "name").is_empty() {
        let prefix = meta(&object, "generateName").to_owned();
        if prefix.is_empty() {
            let cause = Cause::new(
                "FieldValueRequired",
                "metadata.name",
                "Required value: name or generateName is required",
            );
            return Err(Failure::invalid(call.about_kind(""), vec![cause]));
        }
        let mut name = state.new_name(&prefix);
        while state.get(&call.key_of(&name)).is_some() {
            name = state.new_name(&prefix);
        }
        set_metadata(&mut object, "name", Some(name.into()));
    }
    let api_version = call.api_version();
    let manager = call.manager();
    on_update(&call.written(), None, &mut object, &call.writer(state, &manager, &api_version));
    insert(state, call, object)
        .map(|answer| Answer { warnings: warnings.clone(), ..answer })
        .map_err(|failure| failure.warning(&warnings))
}

/// Stores a new object whose fields are accounted for already; also the end of an apply that creates.
pub(super) fn insert(state: &mut State, call: &Call, mut object: Value) -> Result<Answer, Failure> {
    let name = meta(&object, "name").to_owned();
    check_namespace(state, call, &name)?;
    if !matches!(meta(&object, "resourceVersion"), "" | "0") {
        return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
    }
    begin(state, &call.resource, &call.version, &mut object);
    let shown = call.resource.present(&call.resource.to_stored(object.clone()), &call.version.name);
    intake::check(call, &shown, None)?;
    if call.resource.kind == "CustomResourceDefinition" && !call.resource.custom {
        crd::prepare(state, call, &mut object)?;
    }
    admission::review(state, call, &shown)?;
    let key = call.key_of(&name);
    if state.get(&key).is_some() {
        return Err(Failure::already_exists(About { name: &name, ..call.about() }));
    }
    let stored = call.resource.to_stored(object);
    if call.dry_run()? {
        return Ok(Answer::created(call.resource.present(&stored, &call.version.name)));
    }
    let stored = state.store(&key, stored);
    crd::changed(state, &key);
    Ok(Answer::created(call.resource.present(&stored, &call.version.name)))
}

/// Fills in what the server alone decides.
fn begin(state: &mut State, resource: &Resource, version: &Version, object: &mut Value) {
    let uid = state.new_uid();
    set_metadata(object, "uid", Some(uid.into()));
    set_metadata(object, "creationTimestamp", Some(seconds(state.now()).into()));
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_metadata(object, field, None);
    }
    // Kinds that do not count their generation keep what they are given.
    if resource.generation == Generation::Content {
        set_metadata(object, "generation", Some(json!(1)));
    }
    if version.status
        && let Some(fields) = object.as_object_mut()
    {
        fields.shift_remove("status");
    }
    on_create(resource, object);
}

fn check_namespace(state: &State, call: &Call, name: &str) -> Result<(), Failure> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let Some(namespace) = state.namespace(&call.namespace) else {
        return Err(Failure::not_found(About { group: "", kind: "namespaces", name: &call.namespace }));
    };
    if is_deleting(&namespace) {
        return Err(Failure::namespace_terminating(About { name, ..call.about() }, &call.namespace));
    }
    Ok(())
}
