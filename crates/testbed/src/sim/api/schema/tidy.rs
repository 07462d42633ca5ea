//! What happens to an object as it is read: unknown fields and stray nulls go, defaults come.

use serde_json::Value;

use super::{Schema, Type};

/// A field that the schema does not know, as a path such as `spec.ports[0].colour`.
pub(crate) type Unknown = String;

/// Removes what the schema does not declare and returns the paths of what was removed.
pub(crate) fn prune(schema: &Schema, value: &mut Value) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    prune_at(schema, value, "", &mut unknown);
    unknown
}

fn prune_at(schema: &Schema, value: &mut Value, path: &str, unknown: &mut Vec<Unknown>) {
    match value {
        Value::Object(fields) => {
            // An object of any type, or of a type that names no field and keeps all.
            let open = schema.preserve || (schema.kind == Type::Any && schema.properties.is_empty());
            let gone: Vec<String> = fields
                .keys()
                .filter(|name| schema.field(name).is_none() && !open && !is_embedded_header(schema, name))
                .cloned()
                .collect();
            for name in gone {
                fields.shift_remove(&name);
                unknown.push(join(path, &name));
            }
            for (name, field) in fields.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    prune_at(inner, field, &join(path, name), unknown);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.item() {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_at(inner, item, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

fn is_embedded_header(schema: &Schema, name: &str) -> bool {
    schema.embedded && matches!(name, "apiVersion" | "kind" | "metadata")
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Removes nulls of fields that are not nullable, as if they had not been given.
pub(crate) fn drop_nulls(schema: &Schema, value: &mut Value) {
    drop_nulls_if(schema, value, &|field| !field.nullable);
}

/// Removes nulls of fields that are not nullable and have a default, which then takes their place.
pub(crate) fn drop_defaulted_nulls(schema: &Schema, value: &mut Value) {
    drop_nulls_if(schema, value, &|field| !field.nullable && field.default.is_some());
}

fn drop_nulls_if(schema: &Schema, value: &mut Value, droppable: &dyn Fn(&Schema) -> bool) {
    match value {
        Value::Object(fields) => {
            // Nulls of unknown fields go with those fields.
            fields.retain(|name, field| !field.is_null() || !schema.field(name).is_some_and(droppable));
            for (name, field) in fields.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    drop_nulls_if(inner, field, droppable);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.item() {
                for item in items {
                    drop_nulls_if(inner, item, droppable);
                }
            }
        }
        _ => {}
    }
}

/// Fills in defaults of absent fields, below every object that is there.
pub(crate) fn apply_defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in &schema.properties {
                if let Some(default) = &inner.default
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    apply_defaults(inner, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.item() {
                for item in items {
                    apply_defaults(inner, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            &json!({"type": "object", "properties": {
                "size": {"type": "integer", "default": 3},
                "note": {"type": "string", "nullable": true},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "inner": {"type": "object", "default": {}, "properties": {
                    "mode": {"type": "string", "default": "Fast"}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
            }}),
            &Map::new(),
        )
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let mut value = json!({"size": 1, "x": 1, "free": {"y": 2}, "list": [{"a": "1"}, {"b": "2"}]});
        let mut unknown = prune(&schema(), &mut value);
        unknown.sort();
        assert_eq!(unknown, ["list[1].b", "x"]);
        assert_eq!(value, json!({"size": 1, "free": {"y": 2}, "list": [{"a": "1"}, {}]}));
    }

    #[test]
    fn defaults_come_also_below_defaults_and_in_place_of_null() {
        let mut value = json!({"size": null, "note": null});
        drop_nulls(&schema(), &mut value);
        apply_defaults(&schema(), &mut value);
        assert_eq!(value, json!({"note": null, "inner": {"mode": "Fast"}, "size": 3}));
    }
}
