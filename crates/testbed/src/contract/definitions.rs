//! The custom kinds that the cases use.

use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::{Value, json};

/// The group of all of them.
pub(crate) const GROUP: &str = "contract.windlass.dev";

/// Namespaced, with status, scale, two served versions, defaults, limits and every kind of list.
fn widgets() -> Value {
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}},
    });
    let conditions = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type", "status"], "properties": {
            "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}}},
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10},
            "mode": {"type": "string", "enum": ["Fast", "Safe"], "default": "Safe"},
            "name": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
            "note": {"type": "string", "nullable": true},
            "args": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "ports": ports,
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "target": {"x-kubernetes-int-or-string": true},
            "inner": {"type": "object", "required": ["must"], "properties": {
                "must": {"type": "string"}, "depth": {"type": "integer", "default": 3}}},
            "replicas": {"type": "integer"},
        }},
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "observedGeneration": {"type": "integer"},
            "replicas": {"type": "integer"}, "selector": {"type": "string"}, "conditions": conditions,
        }},
    }}});
    let subresources = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
                "shortNames": ["wg"], "categories": ["contract"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources},
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema, "subresources": subresources},
                {"name": "v1alpha1", "served": false, "storage": false, "schema": schema},
            ],
        },
    })
}

/// Cluster-scoped, without subresources.
fn gadgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// Installs the definitions and waits until objects of both kinds can be listed.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    for definition in [widgets(), gadgets()] {
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=contract&force=true"
        );
        let request = http::Request::patch(path)
            .header("content-type", "application/apply-patch+yaml")
            .body(definition.to_string().into_bytes())?;
        client.request::<Value>(request).await.with_context(|| format!("install {name}"))?;
    }
    for plural in ["widgets", "gadgets"] {
        let mut tries = 0;
        loop {
            let request = http::Request::get(format!("/apis/{GROUP}/v1/{plural}")).body(Vec::new())?;
            match client.request::<Value>(request).await {
                Ok(_) => break,
                Err(error) if tries == 600 => bail!("{plural} are not served: {error}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}
