//! Kinds whose objects cannot have a status: there is nothing to wait for.
//!
//! The generic rule of health waits for a status that does not come. That it never will is told by the definition of the
//! kind alone: it has no status subresource, and its schema drops a field of that name. A kind that has either may have a
//! controller that has not looked yet, so it is waited for.

use std::collections::BTreeSet;

use serde_json::Value;

/// The versions of a definition whose objects cannot have a status.
pub(super) fn versions(definition: &Value) -> BTreeSet<String> {
    let all = definition.pointer("/spec/versions").and_then(Value::as_array);
    // The old way to keep what the schema does not name.
    let keeps_unknown = definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    all.into_iter()
        .flatten()
        .filter(|version| !keeps_unknown && is_mute(version))
        .filter_map(|version| version.get("name")?.as_str().map(str::to_owned))
        .collect()
}

fn is_mute(version: &Value) -> bool {
    let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { return false };
    let keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    version.pointer("/subresources/status").is_none()
        && schema.pointer("/properties/status").is_none()
        && schema.get("properties").is_some_and(Value::is_object)
        && !keeps_unknown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mute(version: &Value) -> bool {
        let mut version = version.clone();
        version["name"] = json!("v1");
        !versions(&json!({ "spec": { "versions": [version] } })).is_empty()
    }

    #[test]
    fn a_kind_is_mute_only_when_nothing_could_hold_a_status() {
        let schema = |schema: Value| json!({ "schema": { "openAPIV3Schema": schema } });
        let plain = schema(json!({ "type": "object", "properties": { "spec": {} } }));
        assert!(mute(&plain));
        assert!(!mute(&schema(json!({ "properties": { "spec": {}, "status": {} } }))));
        assert!(!mute(&schema(json!({ "properties": {}, "x-kubernetes-preserve-unknown-fields": true }))));
        assert!(!mute(&schema(json!({ "type": "object" }))), "a schema that says nothing");
        assert!(!mute(&json!({})), "no schema at all");
        let mut with_subresource = plain.clone();
        with_subresource["subresources"] = json!({ "status": {} });
        assert!(!mute(&with_subresource));
        let mut version = plain;
        version["name"] = json!("v1");
        let old = json!({ "spec": { "preserveUnknownFields": true, "versions": [version] } });
        assert!(versions(&old).is_empty());
    }
}
