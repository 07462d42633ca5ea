//! The `scale` subresource.

use serde_json::{Map, Value, json};

use super::super::call::{Answer, Call};
use super::super::kinds::Scale;
use super::super::patch;
use super::super::state::{State, meta};
use super::super::status::Failure;
use super::write::write_back;

fn spec(call: &Call) -> Result<&Scale, Failure> {
    call.version.scale.as_ref().ok_or_else(Failure::no_route)
}

fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

/// GET of a scale.
pub(crate) fn read_scale(state: &State, call: &Call) -> Result<Answer, Failure> {
    let object = state.get(&call.key()).ok_or_else(|| Failure::not_found(call.about()))?;
    Ok(Answer::ok(scale_of(spec(call)?, &object)))
}

fn scale_of(scale: &Scale, object: &Value) -> Value {
    let number = |path: &str| object.pointer(&pointer(path)).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let text = meta(object, field);
        if !text.is_empty() {
            metadata.insert(field.into(), text.into());
        }
    }
    let mut wanted = Map::new();
    if object.pointer(&pointer(&scale.spec_replicas)).is_some() {
        wanted.insert("replicas".into(), number(&scale.spec_replicas).into());
    }
    let mut status = Map::new();
    status.insert("replicas".into(), number(&scale.status_replicas).into());
    let selector =
        scale.selector.as_deref().and_then(|path| object.pointer(&pointer(path))).map(selector_text);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status.insert("selector".into(), selector.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": wanted, "status": status})
}

fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        other => {
            let labels = other.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
            let mut pairs: Vec<String> =
                labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
            pairs.sort();
            pairs.join(",")
        }
    }
}

/// PUT or PATCH of a scale: sets the replicas of the object.
pub(crate) fn write_scale(state: &mut State, call: &Call, is_patch: bool) -> Result<Answer, Failure> {
    let scale = spec(call)?.clone();
    let object = state.get(&call.key()).ok_or_else(|| Failure::not_found(call.about()))?;
    let current = scale_of(&scale, &object);
    let change = call.json()?;
    let wanted = match call.content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" if is_patch => patch::json_patch(&current, &change)?,
        _ if is_patch => patch::merge(&current, &change),
        _ => change,
    };
    let version = meta(&wanted, "resourceVersion");
    if !matches!(version, "" | "0") && version != meta(&object, "resourceVersion") {
        return Err(Failure::stale(call.about()));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas < 0 {
        let cause = super::super::schema::Cause::new(
            "FieldValueInvalid",
            scale.spec_replicas.clone(),
            format!("Invalid value: {replicas}: must be greater than or equal to 0"),
        );
        return Err(Failure::invalid(call.about_kind(&call.name), vec![cause]));
    }
    if call.dry_run()? {
        let mut shown = current;
        if let Some(spec) = shown.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.insert("replicas".into(), replicas.into());
        }
        return Ok(Answer::ok(shown));
    }
    let path: Vec<&str> = scale.spec_replicas.split('.').filter(|step| !step.is_empty()).collect();
    let written = write_back(state, call, |object| set_at(object, &path, replicas.into()))?;
    Ok(Answer::ok(scale_of(&scale, &written)))
}

fn set_at(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(object, |at, step| {
        Some(at.as_object_mut()?.entry(*step).or_insert_with(|| Value::Object(Map::new())))
    });
    if let Some(fields) = parent.and_then(Value::as_object_mut) {
        fields.insert((*last).to_owned(), value);
    }
}
