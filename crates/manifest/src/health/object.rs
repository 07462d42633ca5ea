//! Reading a value that may hold anything: every getter answers for what is missing or of another type.

use serde_json::{Map, Value};

/// The value at a path of keys.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let mut here = value;
    for key in path {
        here = here.get(key)?;
    }
    (!here.is_null()).then_some(here)
}

/// The text at a path, or nothing's text.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or("")
}

/// The map at a path.
pub(super) fn map<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(value, path).and_then(Value::as_object)
}

/// The items at a path.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The whole number at a path; some operators write numbers as text.
pub(super) fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(whole)
}

/// A whole number, be it a number or its text.
pub(super) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_u64().map(|_| i64::MAX)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Whether the flag at a path is set; `"true"` counts, as annotations can only say it so.
pub(super) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).is_some_and(truthy)
}

/// `true`, or its text in any case.
pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Bool(set) => *set,
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// The API group of an object: `apps` of `apps/v1`, nothing of `v1`.
pub(super) fn group(object: &Value) -> &str {
    text(object, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group)
}

/// The kind of an object.
pub(super) fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

/// Whether the object waits for its deletion.
pub(super) fn deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some()
}

/// The generation of the object's spec.
pub(super) fn generation(object: &Value) -> Option<i64> {
    int(object, &["metadata", "generation"])
}

/// Whether the controller says that it has not read the newest spec yet.
pub(super) fn unread(object: &Value) -> bool {
    match (generation(object), int(object, &["status", "observedGeneration"])) {
        (Some(wanted), Some(seen)) => seen < wanted,
        _ => false,
    }
}
