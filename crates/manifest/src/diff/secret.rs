//! The data of Secrets: one spelling of it, and none of it shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::path::Step;
use crate::identity::is_secret;

/// Where tools keep a copy of the whole object, data included.
const COPIES: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
    "banzaicloud.com/last-applied",
];

/// Moves the `stringData` of a Secret into its `data`, as the API server does when it stores the object. Whoever applies
/// Secrets should do this first: the server remembers that a manager set `stringData`, and so does not remove a key of
/// `data` when the manager leaves it out later. Anything that is not a Secret stays as it is.
pub fn fold_string_data(object: &mut Value) {
    if !is_secret(object) {
        return;
    }
    let Value::Object(fields) = object else { return };
    if !matches!(fields.get("stringData"), Some(Value::Object(_))) {
        return;
    }
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Value::Object(data) = data {
        for (key, text) in texts {
            let text = match text {
                Value::String(text) => Value::String(STANDARD.encode(text)),
                other => other,
            };
            data.insert(key, text);
        }
    }
}

/// Whether a path of a Secret leads to what must not be shown.
pub(super) fn is_hidden(path: &[Step]) -> bool {
    match path {
        // The whole object, or all of its metadata.
        [] => true,
        [Step::Field(first)] if first == "metadata" => true,
        [Step::Field(first), ..] if first == "data" || first == "stringData" => true,
        [Step::Field(first), Step::Field(second), rest @ ..]
            if first == "metadata" && second == "annotations" =>
        {
            match rest {
                [Step::Field(key), ..] => COPIES.contains(&key.as_str()),
                _ => true,
            }
        }
        _ => false,
    }
}

/// The same value with sizes in place of contents; keys stay.
pub(super) fn mask(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), mask(value))).collect(),
        Value::Array(items) => items.iter().map(mask).collect(),
        Value::Null => Value::Null,
        Value::String(text) => format!("(secret, {} bytes)", size(text)).into(),
        _ => "(secret)".into(),
    }
}

/// The size of what the text stands for: decoded if it is base64, as it is in `data`.
fn size(text: &str) -> usize {
    STANDARD.decode(text).map_or(text.len(), |bytes| bytes.len())
}

/// The bytes of a base64 text. Line breaks in it have no meaning.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.contains(['\n', '\r']) {
        return STANDARD.decode(text.replace(['\n', '\r'], "")).ok();
    }
    STANDARD.decode(text).ok()
}
