//! Custom kinds, from their definitions.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::schema::{Cause, Schema, Type};
use super::{Generation, Resource, ResourceKey, Scale, Version, object_meta};

/// Makes a resource of a `CustomResourceDefinition` object, or says what is wrong with it.
pub(crate) fn from_definition(definition: &Value) -> Result<Resource, Vec<Cause>> {
    let text =
        |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |pointer: &str| -> Vec<String> {
        let list = definition.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (group, plural, kind) = (text("/spec/group"), text("/spec/names/plural"), text("/spec/names/kind"));
    let causes = check(definition, &group, &plural, &kind);
    if !causes.is_empty() {
        return Err(causes);
    }
    let or = |given: String, otherwise: String| if given.is_empty() { otherwise } else { given };
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<&Value> = versions.collect();
    let is_storage = |version: &&&Value| version.get("storage") == Some(&json!(true));
    let storage = versions.iter().find(is_storage).and_then(|version| version.get("name")?.as_str());
    let key = ResourceKey { group, plural };
    Ok(Resource {
        stored_as: key.clone(),
        key,
        list_kind: or(text("/spec/names/listKind"), format!("{kind}List")),
        singular: or(text("/spec/names/singular"), kind.to_lowercase()),
        short_names: list("/spec/names/shortNames"),
        categories: list("/spec/names/categories"),
        namespaced: text("/spec/scope") == "Namespaced",
        custom: true,
        storage_version: storage.unwrap_or_default().to_owned(),
        versions: versions.into_iter().map(version).collect(),
        generation: Generation::Content,
        needs_version: true,
        create_on_update: false,
        blank: json!({}),
        selectable: Vec::new(),
        kind,
    })
}

fn check(definition: &Value, group: &str, plural: &str, kind: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    for (field, value) in [("spec.group", group), ("spec.names.plural", plural), ("spec.names.kind", kind)] {
        if value.is_empty() {
            causes.push(Cause::new("FieldValueRequired", field, "Required value"));
        }
    }
    let expected = format!("{plural}.{group}");
    if name != expected {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "metadata.name",
            format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group"),
        ));
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    if versions.filter(|version| version.get("storage") == Some(&json!(true))).count() != 1 {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "spec.versions",
            "Invalid value: must have exactly one version marked as storage version",
        ));
    }
    causes
}

fn version(version: &Value) -> Version {
    let mut schema = version.pointer("/schema/openAPIV3Schema").map_or_else(
        || Schema { kind: Type::Object, ..Schema::any() },
        |schema| Schema::parse(schema, &Map::new()),
    );
    let text = Arc::new(Schema { kind: Type::String, ..Schema::default() });
    schema.set_field("apiVersion", text.clone());
    schema.set_field("kind", text);
    schema.set_field("metadata", object_meta());
    let path = |name: &str| {
        let path = version.pointer(&format!("/subresources/scale/{name}")).and_then(Value::as_str);
        path.map(str::to_owned)
    };
    Version {
        name: version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        served: version.get("served").and_then(Value::as_bool).unwrap_or_default(),
        schema: Arc::new(schema),
        status: version.pointer("/subresources/status").is_some(),
        scale: path("specReplicasPath").zip(path("statusReplicasPath")).map(
            |(spec_replicas, status_replicas)| Scale {
                spec_replicas,
                status_replicas,
                selector: path("labelSelectorPath"),
            },
        ),
    }
}
