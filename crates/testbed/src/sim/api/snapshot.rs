//! Objects without what differs between runs that end alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kinds::hide_empty_metadata;
use super::state::{ObjectKey, meta};

const VOLATILE: [&str; 5] =
    ["resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime"];

/// All objects as sorted JSON. A UID becomes the place of its object, or `gone`.
pub(super) fn snapshot(objects: &BTreeMap<ObjectKey, Arc<Value>>) -> String {
    let uids: BTreeMap<&str, String> = objects
        .values()
        .enumerate()
        .map(|(place, object)| (meta(object, "uid"), format!("uid-{}", place + 1)))
        .collect();
    let canonical: Vec<Value> = objects
        .values()
        .map(|object| {
            let mut object = (**object).clone();
            hide_empty_metadata(&mut object);
            canonical(&object, "", &uids)
        })
        .collect();
    serde_json::to_string_pretty(&canonical).unwrap_or_default()
}

fn canonical(value: &Value, name: &str, uids: &BTreeMap<&str, String>) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<String, Value> = fields
                .iter()
                .filter(|(name, _)| !VOLATILE.contains(&name.as_str()))
                .map(|(name, value)| (key(name, uids), canonical(value, name, uids)))
                .collect();
            sorted.into_iter().collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| canonical(item, name, uids)).collect();
            if name == "managedFields" {
                // Their order is that of their times.
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        Value::String(text) if name == "uid" => {
            uids.get(text.as_str()).map_or_else(|| "gone".into(), |uid| uid.clone().into())
        }
        other => other.clone(),
    }
}

/// Paths of owner references have a UID in them.
fn key(name: &str, uids: &BTreeMap<&str, String>) -> String {
    let uid = name.strip_prefix("k:{\"uid\":\"").and_then(|rest| rest.strip_suffix("\"}"));
    uid.map_or_else(
        || name.to_owned(),
        |uid| format!("k:{{\"uid\":\"{}\"}}", uids.get(uid).map_or("gone", String::as_str)),
    )
}
