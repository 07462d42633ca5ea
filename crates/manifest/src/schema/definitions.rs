//! Reads the schemas of `CustomResourceDefinition`s.

use serde_json::Value;

use super::{Field, ListKind, Root, Schema, Shape, Type};

/// Definitions are written by machines and can be deep; what lies below is not looked at.
const DEEPEST: usize = 40;

impl Schema {
    pub(super) fn add_definition(&mut self, definition: &Value) {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
        let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else { return };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            let Some(name) = version.get("name").and_then(Value::as_str) else { continue };
            let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
            if let Shape::Struct(id) = self.shape_of(schema, 0) {
                self.insert(&format!("{group}/{name}"), kind, Root { id, drops_zeros: false });
            }
        }
    }

    fn shape_of(&mut self, schema: &Value, depth: usize) -> Shape {
        let says = |key: &str, value: &str| schema.get(key).and_then(Value::as_str) == Some(value);
        let is_set = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        if depth > DEEPEST {
            return Shape::Any;
        }
        if is_set("x-kubernetes-int-or-string") || says("format", "int-or-string") {
            return if is_quantity(schema) { Shape::Quantity } else { Shape::IntOrString };
        }
        let atomic = says("x-kubernetes-map-type", "atomic");
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let fields = properties
                .iter()
                .map(|(name, property)| Field {
                    name: name.clone(),
                    shape: self.shape_of(property, depth + 1),
                    default: property.get("default").filter(|default| !default.is_null()).cloned(),
                    filled: false,
                })
                .collect();
            return Shape::Struct(self.add_type(Type { fields, atomic }));
        }
        if let Some(items) = schema.get("additionalProperties").filter(|items| items.is_object()) {
            return Shape::Map { item: Box::new(self.shape_of(items, depth + 1)), atomic };
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => Shape::List {
                item: Box::new(
                    schema.get("items").map_or(Shape::Any, |items| self.shape_of(items, depth + 1)),
                ),
                kind: list_kind(schema),
            },
            Some("string" | "integer" | "number" | "boolean") => Shape::Scalar,
            _ => Shape::Any,
        }
    }
}

fn list_kind(schema: &Value) -> ListKind {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)).collect();
            ListKind::Keyed(keys)
        }
        _ => ListKind::Atomic,
    }
}

/// Quantities in definitions are numbers or texts with a pattern that names the suffixes.
fn is_quantity(schema: &Value) -> bool {
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    pattern.contains("[KMGTPE]i") || pattern.contains("Ki|Mi|Gi")
}
