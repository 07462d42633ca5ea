//! Whether an applied object fits the schema, which must be known before its fields can have owners.

use serde_json::Value;

use super::super::schema::{ListKind, Schema, Type};
use super::typed::item_element;

/// Why an applied object does not fit the schema, as the API server words it; `None` when it fits.
pub(crate) fn misfit(schema: &Schema, value: &Value) -> Option<String> {
    misfit_at(schema, value, "")
}

fn misfit_at(schema: &Schema, value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(fields) if matches!(schema.kind, Type::Object | Type::Any) => {
            fields.iter().find_map(|(name, field)| {
                let path = format!("{path}.{name}");
                match schema.field(name) {
                    Some(inner) => misfit_at(inner, field, &path),
                    None if schema.preserve || schema.kind == Type::Any => None,
                    None => Some(format!("{path}: field not declared in schema")),
                }
            })
        }
        Value::Array(items) if matches!(schema.kind, Type::Array | Type::Any) => {
            misfit_items(schema, items, path)
        }
        Value::Object(_) | Value::Array(_) => Some(format!("{path}: expected {}", schema.kind.name())),
        _ if matches!(schema.kind, Type::Object | Type::Array) => {
            let wanted = if schema.kind == Type::Object { "map" } else { "list" };
            Some(format!("{path}: expected {wanted}"))
        }
        scalar => misfit_scalar(schema.kind, scalar).map(|wanted| format!("{path}: expected {wanted}")),
    }
}

fn misfit_items(schema: &Schema, items: &[Value], path: &str) -> Option<String> {
    let mut seen = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = match item_element(schema, item) {
            Some(element) => {
                if seen.contains(&element) {
                    return Some(format!("{path}: duplicate entries for key {element}"));
                }
                seen.push(element.clone());
                format!("{path}{element}")
            }
            None if schema.list != ListKind::Atomic => {
                return Some(format!(
                    "{path}: element {index}: associative list with keys has an element that omits all key fields"
                ));
            }
            None => format!("{path}[{index}]"),
        };
        if let Some(inner) = schema.item()
            && let Some(why) = misfit_at(inner, item, &at)
        {
            return Some(why);
        }
    }
    None
}

fn misfit_scalar(kind: Type, value: &Value) -> Option<String> {
    let fits = match kind {
        Type::String => value.is_string(),
        Type::Integer | Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        _ => true,
    };
    (!fits).then(|| format!("{}, got {value}", if kind == Type::Integer { "numeric" } else { kind.name() }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            &json!({"type": "object", "properties": {
                "data": {"type": "object", "additionalProperties": {"type": "string"}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}),
            &Map::new(),
        )
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let why = |value: Value| misfit(&schema(), &value).unwrap_or_default();
        assert_eq!(why(json!({"x": 1})), ".x: field not declared in schema");
        assert!(why(json!({"data": {"a": 1}})).starts_with(".data.a: expected string"));
        assert!(why(json!({"tags": ["a", "a"]})).contains("duplicate entries"));
        assert_eq!(why(json!({"data": {"a": "1"}})), "");
    }
}
