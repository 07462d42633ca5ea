//! Values for one schema node: legal ones, illegal ones, hostile ones.

use serde_json::{Map, Value, json};

use super::pattern::Pattern;

/// A text of this length is more than any field is made for.
const LONG: usize = 10_000;

/// Texts that nobody has in mind: each is harmless for a controller that checks, and not for one that does not.
pub(super) const HOSTILE: [(&str, &str); 10] = [
    ("path traversal", "../../../../etc/passwd"),
    ("absolute path", "/etc/passwd"),
    ("leading dash", "--upload-pack=touch x"),
    ("transport with a command", "ext::sh -c touch% x"),
    ("control characters", "a\u{0}b\u{7}\r\nc"),
    ("shell characters", "$(touch x);`touch x`|touch x"),
    ("link-local address", "http://169.254.169.254/latest/meta-data"),
    ("user information", "https://user:hunter2@example.invalid/x"),
    ("markup", "<script>alert(1)</script>"),
    ("right-to-left override", "a\u{202e}gnp.exe"),
];

/// The node's type, when it has exactly one.
pub(super) fn kind(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or_default()
}

pub(super) fn int_or_string(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true
}

/// Whether a rule outside the plain schema has a say about values of this node.
pub(super) fn ruled(schema: &Value) -> bool {
    ["x-kubernetes-validations", "oneOf", "anyOf", "allOf", "not"]
        .iter()
        .any(|key| schema.get(key).is_some_and(|rule| rule.as_array().is_none_or(|list| !list.is_empty())))
}

/// Whether this node or anything below it is ruled.
pub(super) fn ruled_below(schema: &Value) -> bool {
    let below = schema["properties"].as_object().into_iter().flat_map(Map::values);
    let inner = [schema.get("items"), schema.get("additionalProperties")].into_iter().flatten();
    ruled(schema) || below.chain(inner).any(ruled_below)
}

/// What the plain schema says about a text: none when that cannot be told.
pub(super) fn text_allowed(schema: &Value, text: &str) -> Option<bool> {
    if let Some(allowed) = schema["enum"].as_array() {
        return Some(allowed.iter().any(|value| value == text));
    }
    let length = text.chars().count() as u64;
    let too_short = schema["minLength"].as_u64().is_some_and(|least| length < least);
    let too_long = schema["maxLength"].as_u64().is_some_and(|most| length > most);
    if too_short || too_long {
        return Some(false);
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        match Pattern::parse(pattern) {
            Some(pattern) if !pattern.matches(text) => return Some(false),
            Some(_) => {}
            None => return None,
        }
    }
    if schema.get("format").is_some_and(|format| !format.is_null()) { None } else { Some(true) }
}

/// Several legal values, the smallest first; empty when none can be derived.
pub(super) fn legal(schema: &Value) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.clone();
    }
    if int_or_string(schema) {
        return [json!(1), json!("25%")].into_iter().filter(|value| fits_text(schema, value)).collect();
    }
    match kind(schema) {
        "string" => legal_texts(schema),
        "boolean" => vec![json!(true), json!(false)],
        "integer" | "number" => legal_numbers(schema),
        "array" => legal_arrays(schema),
        "object" => minimal_object(schema).into_iter().collect(),
        _ if schema["x-kubernetes-preserve-unknown-fields"] == true => vec![json!({ "a": 1 })],
        _ => Vec::new(),
    }
}

/// The smallest legal value.
pub(super) fn minimal(schema: &Value) -> Option<Value> {
    schema
        .get("default")
        .filter(|value| !value.is_null())
        .cloned()
        .or_else(|| legal(schema).into_iter().next())
}

fn fits_text(schema: &Value, value: &Value) -> bool {
    value.as_str().is_none_or(|text| text_allowed(schema, text) != Some(false))
}

fn legal_texts(schema: &Value) -> Vec<Value> {
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or_default()).unwrap_or(LONG);
    let mut candidates: Vec<String> = Vec::new();
    match schema["format"].as_str() {
        Some("date-time") => {
            return vec![json!("2026-01-02T03:04:05Z"), json!("2027-12-31T23:59:59Z")];
        }
        Some("date") => return vec![json!("2026-01-02")],
        Some("duration") => return vec![json!("30s"), json!("1h")],
        Some("byte") => return vec![json!("YQ=="), json!("")],
        Some("uuid") => return vec![json!("6f1c2d3e-4a5b-4c6d-8e7f-102132435465")],
        Some("uri") => return vec![json!("https://example.invalid/a")],
        _ => {}
    }
    if let Some(pattern) = schema["pattern"].as_str().and_then(Pattern::parse) {
        candidates.extend(pattern.examples());
        candidates
            .extend(["30s", "1h30m", "main", "example.com", "https://example.invalid/a"].map(str::to_owned));
    } else if schema["pattern"].is_null() {
        candidates.extend(["a".to_owned(), "walk-b".to_owned(), "a".repeat(least.max(1))]);
        if let Some(most) = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()) {
            candidates.push("m".repeat(most.min(LONG)));
        }
    }
    let mut out = Vec::new();
    for text in candidates {
        let value = json!(text);
        if text_allowed(schema, &text) != Some(false) && !out.contains(&value) && out.len() < 5 {
            out.push(value);
        }
    }
    out
}

/// The least and the greatest number that a schema allows.
fn bounds(schema: &Value) -> (i64, i64) {
    let (low, high) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("uint8") => (0, i64::from(u8::MAX)),
        Some("uint16") => (0, i64::from(u16::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    // Bounds of a schema are floating-point numbers; whole ones are meant.
    #[allow(clippy::cast_possible_truncation)]
    let read = |key: &str| schema[key].as_i64().or_else(|| schema[key].as_f64().map(|bound| bound as i64));
    let low = read("minimum").map_or(low, |least| least + i64::from(schema["exclusiveMinimum"] == true));
    let high = read("maximum").map_or(high, |most| most - i64::from(schema["exclusiveMaximum"] == true));
    (low, high)
}

fn legal_numbers(schema: &Value) -> Vec<Value> {
    let (low, high) = bounds(schema);
    let step = schema["multipleOf"].as_f64().unwrap_or(1.0);
    let mut out = Vec::new();
    for candidate in [low.max(0), 1, 2, 7, 100, low, high] {
        #[allow(clippy::cast_precision_loss)]
        let in_step = candidate as f64 % step == 0.0;
        let value = json!(candidate);
        // Numbers beyond what a double holds exactly are not portable JSON.
        let portable = candidate.unsigned_abs() < (1 << 53);
        if (low..=high).contains(&candidate) && in_step && portable && !out.contains(&value) && out.len() < 5
        {
            out.push(value);
        }
    }
    out
}

fn legal_arrays(schema: &Value) -> Vec<Value> {
    let least = usize::try_from(schema["minItems"].as_u64().unwrap_or_default()).unwrap_or(usize::MAX);
    let most = usize::try_from(schema["maxItems"].as_u64().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let distinct = schema["uniqueItems"] == true
        || matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"));
    let items = legal(&schema["items"]);
    let mut out = Vec::new();
    for length in [least, least.max(1), 2, most.min(8)] {
        let made: Vec<Value> = if distinct {
            items.iter().take(length).cloned().collect()
        } else {
            items.iter().cycle().take(length).cloned().collect()
        };
        let value = Value::Array(made);
        let length = value.as_array().map_or(0, Vec::len);
        if (least..=most).contains(&length) && !out.contains(&value) {
            out.push(value);
        }
    }
    out
}

fn minimal_object(schema: &Value) -> Option<Value> {
    let mut object = Map::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        object.insert(name.to_owned(), minimal(&schema["properties"][name])?);
    }
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        object.insert("walk".to_owned(), minimal(inner)?);
    }
    Some(Value::Object(object))
}

/// Values that the plain schema forbids, each with its reason.
pub(super) fn illegal(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut out = wrong_types(schema);
    if schema.get("enum").is_some_and(Value::is_array) && kind(schema) == "string" {
        out.push(("not in the enum", json!("no-such-value")));
    }
    match kind(schema) {
        "string" => {
            if let Some(most) = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()) {
                out.push(("one character too long", json!("m".repeat(most.saturating_add(1).min(1 << 20)))));
            }
            if let Some(least) = schema["minLength"].as_u64().filter(|least| *least > 0) {
                let least = usize::try_from(least).unwrap_or(1);
                out.push(("one character too short", json!("m".repeat(least - 1))));
            }
            if schema["pattern"].is_string() {
                let miss = ["", "-", "!", " ", "A B", "\u{7}"];
                let miss = miss.iter().find(|text| text_allowed(schema, text) == Some(false));
                out.extend(miss.map(|text| ("misses the pattern", json!(text))));
            }
        }
        "integer" | "number" => {
            let (low, high) = bounds(schema);
            if schema.get("minimum").is_some_and(Value::is_number) && low > i64::MIN {
                out.push(("below the minimum", json!(low - 1)));
            }
            if schema.get("maximum").is_some_and(Value::is_number) && high < i64::MAX {
                out.push(("above the maximum", json!(high + 1)));
            }
        }
        "array" => out.extend(illegal_arrays(schema)),
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing =
                required.into_iter().any(|name| schema["properties"][name].get("default").is_none());
            if missing {
                out.push(("without its required fields", json!({})));
            }
        }
        _ => {}
    }
    out
}

fn illegal_arrays(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut out = Vec::new();
    let item = minimal(&schema["items"]);
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| *most < 1000) {
        let length = usize::try_from(most).unwrap_or_default() + 1;
        out.extend(item.clone().map(|item| ("too many items", Value::Array(vec![item; length]))));
    }
    if schema["minItems"].as_u64().is_some_and(|least| least > 0) {
        out.push(("too few items", json!([])));
    }
    if matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map")) {
        out.extend(item.map(|item| ("the same item twice", json!([item, item]))));
    }
    out
}

fn wrong_types(schema: &Value) -> Vec<(&'static str, Value)> {
    let text = ("wrong type: text", json!("text"));
    let number = ("wrong type: number", json!(7));
    let list = ("wrong type: list", json!([1]));
    let object = ("wrong type: object", json!({ "a": 1 }));
    if int_or_string(schema) {
        return vec![list, object];
    }
    match kind(schema) {
        "string" => vec![number, list],
        "boolean" => vec![("wrong type: text", json!("true")), number],
        "integer" => vec![text, ("wrong type: fraction", json!(1.5)), list],
        "number" | "object" => vec![text, list],
        "array" => vec![text, object],
        _ => Vec::new(),
    }
}

/// Texts that are legal for the type, and that nobody has in mind.
pub(super) fn hostile(schema: &Value) -> Vec<(&'static str, Value)> {
    if kind(schema) != "string" || schema["enum"].is_array() {
        return Vec::new();
    }
    let texts = HOSTILE.iter().map(|(why, text)| (*why, json!(text)));
    texts.chain([("ten thousand characters", json!("x".repeat(LONG)))]).collect()
}
