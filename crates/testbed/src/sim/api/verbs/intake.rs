//! An object as it comes in: header, unknown fields, defaults, types, validity.

use serde_json::{Value, json};

use super::super::call::{Call, FieldValidation};
use super::super::kinds::{Resource, Version, on_read};
use super::super::schema::{
    Cause, Schema, apply_defaults, drop_defaulted_nulls, drop_nulls, prune, validate,
};
use super::super::state::{meta, set_metadata};
use super::super::status::Failure;

/// Checks apiVersion, kind, name and namespace against the request, and fills in what is absent.
pub(super) fn header(call: &Call, object: &mut Value) -> Result<(), Failure> {
    let expected = [("apiVersion", call.api_version()), ("kind", call.resource.kind.clone())];
    let Some(fields) = object.as_object_mut() else {
        return Err(Failure::bad_request("the object provided is unrecognized (must be of type Object)"));
    };
    for (field, expected) in expected {
        let given = fields.entry(field).or_insert_with(|| json!(expected)).clone();
        if given != json!(expected) {
            let what = if field == "kind" { "kind" } else { "API version" };
            let given = given.as_str().unwrap_or_default();
            return Err(Failure::bad_request(format!(
                "the {what} in the data ({given}) does not match the expected {what} ({expected})"
            )));
        }
    }
    let given = meta(object, "namespace").to_owned();
    if call.resource.namespaced {
        if !given.is_empty() && given != call.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        set_metadata(object, "namespace", Some(call.namespace.clone().into()));
    } else {
        set_metadata(object, "namespace", None);
    }
    let given = meta(object, "name").to_owned();
    if !call.name.is_empty() {
        if !given.is_empty() && given != call.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                call.name
            )));
        }
        set_metadata(object, "name", Some(call.name.clone().into()));
    }
    Ok(())
}

/// Unknown fields and nulls go, defaults come, wrong types are refused. Returns warnings.
pub(super) fn read(call: &Call, object: &mut Value) -> Result<Vec<String>, Failure> {
    let schema = &call.version.schema;
    let unknown = normalize(&call.resource, &call.version, object);
    if !call.resource.custom {
        let wrong =
            validate(schema, object, "").into_iter().find(|cause| cause.reason == "FieldValueTypeInvalid");
        if let Some(cause) = wrong {
            let kind = &call.resource.kind;
            return Err(Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: json: cannot unmarshal into Go struct field \
                 {kind}.{}",
                call.version.name, cause.field
            )));
        }
    }
    match call.field_validation()? {
        FieldValidation::Strict if !unknown.is_empty() => {
            let listed: Vec<String> =
                unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
            let kind = &call.resource.kind;
            Err(Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: {}",
                call.version.name,
                listed.join(", ")
            )))
        }
        FieldValidation::Warn => Ok(unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect()),
        _ => Ok(Vec::new()),
    }
}

/// As [`normalize`], for what an apply merged. Nulls that come out of a merge of a custom object stay unless there
/// is a default for the field, and are then refused where the schema does not allow them.
pub(super) fn normalize_applied(resource: &Resource, version: &Version, object: &mut Value) {
    if !resource.custom {
        normalize(resource, version, object);
        return;
    }
    drop_defaulted_nulls(&version.schema, object);
    prune(&version.schema, object);
    apply_defaults(&version.schema, object);
}

/// Brings an object into the form in which it is stored; returns the unknown fields that it dropped.
pub(super) fn normalize(resource: &Resource, version: &Version, object: &mut Value) -> Vec<String> {
    drop_nulls(&version.schema, object);
    let mut unknown = prune(&version.schema, object);
    unknown.sort_by_key(|path| !path.starts_with("metadata."));
    apply_defaults(&version.schema, object);
    on_read(resource, object);
    if resource.custom {
        if let (Some(metadata), Some(schema)) = (object.get_mut("metadata"), version.schema.field("metadata"))
        {
            drop_empty(schema, metadata);
        }
    } else {
        drop_empty(&version.schema, object);
    }
    unknown
}

/// Typed kinds do not keep empty lists and maps.
fn drop_empty(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    drop_empty(inner, field);
                }
            }
            fields.retain(|name, field| match field {
                // An empty list of entries is a request to drop them.
                Value::Array(items) => !items.is_empty() || name == "managedFields",
                Value::Object(inner) => {
                    let is_map = schema
                        .field(name)
                        .is_some_and(|schema| schema.additional.is_some() && schema.properties.is_empty());
                    !(inner.is_empty() && is_map)
                }
                _ => true,
            });
        }
        Value::Array(items) => {
            if let Some(inner) = schema.item() {
                for item in items {
                    drop_empty(inner, item);
                }
            }
        }
        _ => {}
    }
}

/// Refuses an object that is not valid.
pub(super) fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
    let mut causes = check_metadata(call, object);
    if call.resource.custom {
        causes.extend(validate(&call.version.schema, object, ""));
    } else {
        causes.extend(check_builtin(call, object, old));
    }
    if let Some(old) = old {
        // The server checks metadata twice on updates, and names each fault twice.
        let found: Vec<Cause> =
            check_uid(object, old).into_iter().chain(check_finalizers(object, old)).collect();
        causes.extend(found.iter().cloned().chain(found.clone()));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(call.about_kind(meta(object, "name")), causes))
}

fn check_metadata(call: &Call, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta(object, "name");
    let is_label = call.resource.kind == "Namespace" || call.resource.kind == "Service";
    let plain = |text: &str| {
        let edge = |letter: Option<char>| {
            letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        };
        edge(text.chars().next())
            && edge(text.chars().last())
            && text
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    let valid = if is_label {
        name.len() <= 63 && plain(name)
    } else {
        name.len() <= 253 && name.split('.').all(plain)
    };
    if !valid {
        let what = if is_label { "RFC 1123 label" } else { "RFC 1123 subdomain" };
        causes.push(Cause::new(
            "FieldValueInvalid",
            "metadata.name",
            format!("Invalid value: \"{name}\": a lowercase {what} must consist of lower case alphanumeric characters"),
        ));
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    for (_, value) in labels {
        let text = value.as_str().unwrap_or_default();
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let edge = |letter: Option<char>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
        if text.len() > 63
            || !text.chars().all(fine)
            || !edge(text.chars().next())
            || !edge(text.chars().last())
        {
            causes.push(Cause::new(
                "FieldValueInvalid",
                "metadata.labels",
                format!("Invalid value: \"{text}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"),
            ));
        }
    }
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    for owner in owners {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                causes.push(Cause::new(
                    "FieldValueInvalid",
                    format!("metadata.ownerReferences.{field}"),
                    "Invalid value: \"\": must not be empty",
                ));
            }
        }
    }
    causes
}

fn check_builtin(call: &Call, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if matches!(call.resource.kind.as_str(), "ConfigMap" | "Secret") {
        for field in ["data", "binaryData"] {
            for key in
                object.get(field).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys)
            {
                let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
                if key.is_empty() || key.len() > 253 || !key.chars().all(fine) || key == "." || key == ".." {
                    causes.push(Cause::new(
                        "FieldValueInvalid",
                        format!("{field}[{key}]"),
                        format!("Invalid value: \"{key}\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"),
                    ));
                }
            }
        }
        if let Some(old) = old.filter(|old| old.get("immutable") == Some(&json!(true))) {
            for field in ["data", "binaryData"] {
                if old.get(field) != object.get(field) {
                    causes.push(Cause::new(
                        "FieldValueForbidden",
                        field,
                        "Forbidden: field is immutable when `immutable` is set",
                    ));
                }
            }
            if object.get("immutable") != Some(&json!(true)) {
                causes.push(Cause::new(
                    "FieldValueForbidden",
                    "immutable",
                    "Forbidden: field is immutable when `immutable` is set",
                ));
            }
        }
    }
    causes.extend(check_selector(call, object));
    let frozen: &[&str] = match call.resource.kind.as_str() {
        "Deployment" | "ReplicaSet" | "Job" => &["/spec/selector"],
        "Secret" => &["/type"],
        _ => &[],
    };
    for pointer in frozen {
        if let Some(old) = old
            && old.pointer(pointer) != object.pointer(pointer)
        {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let value = object.pointer(pointer).cloned().unwrap_or_default();
            causes.push(Cause::new(
                "FieldValueInvalid",
                field,
                format!("Invalid value: {value}: field is immutable"),
            ));
        }
    }
    causes
}

fn check_uid(object: &Value, old: &Value) -> Option<Cause> {
    let uid = meta(object, "uid");
    (uid != meta(old, "uid")).then(|| {
        Cause::new(
            "FieldValueInvalid",
            "metadata.uid",
            format!("Invalid value: \"{uid}\": field is immutable"),
        )
    })
}

/// The pods of a workload must be its own.
fn check_selector(call: &Call, object: &Value) -> Option<Cause> {
    if !matches!(call.resource.kind.as_str(), "Deployment" | "ReplicaSet") {
        return None;
    }
    let wanted = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = object.pointer("/spec/template/metadata/labels");
    let misses = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) != Some(value);
    wanted.into_iter().flatten().any(misses).then(|| {
        let shown = labels.cloned().unwrap_or_default();
        let message = format!("Invalid value: {shown}: `selector` does not match template `labels`");
        Cause::new("FieldValueInvalid", "spec.template.metadata.labels", message)
    })
}

/// No finalizer may come once a delete is under way.
fn check_finalizers(object: &Value, old: &Value) -> Option<Cause> {
    use super::super::state::{finalizers, is_deleting};
    if !is_deleting(old) {
        return None;
    }
    let before = finalizers(old);
    let new: Vec<String> = finalizers(object)
        .into_iter()
        .filter(|name| !before.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    (!new.is_empty()).then(|| {
        Cause::new(
            "FieldValueForbidden",
            "metadata.finalizers",
            format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.join(", ")
            ),
        )
    })
}
