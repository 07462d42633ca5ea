//! Schemas for fields that take any object, such as a chart's values.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Any object.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true })
}

/// A list of any objects.
pub(crate) fn objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 256,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// Fields beside those that a type names: kept as they are, so that they can be refused by name.
pub(crate) fn others(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Any objects, each under a name.
pub(crate) fn objects_by_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
