//! `ReplicaSet`s and Services of an experiment, as they are to be.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};
use windlass_api::{Experiment, experiment::ExperimentTemplate, rollout::POD_TEMPLATE_HASH};
use windlass_manifest::digest::digest;

use crate::revision::spell;

/// Label on `ReplicaSet`s and Services: identity of the experiment.
pub const EXPERIMENT_UID: &str = "windlass.dev/experiment-uid";
/// Annotation on `ReplicaSet`s and Services: name of the template.
pub const TEMPLATE: &str = "windlass.dev/experiment-template";

/// The hash that the pods of a template are labelled with.
///
/// The name of the template counts: the same pods in two templates are still two groups.
pub(super) fn hash(template: &ExperimentTemplate) -> String {
    spell(&digest(&json!([template.name, template.template])))
}

/// Name of the `ReplicaSet` of a template.
pub(super) fn name(experiment: &str, template: &str) -> String {
    format!("{experiment}-{template}")
}

/// Name of the Service of a template, if it has one.
pub(super) fn service_name(experiment: &str, template: &ExperimentTemplate) -> Option<String> {
    let service = template.service.as_ref()?;
    // A Service that nobody can connect to is not made.
    if ports(template).is_empty() {
        return None;
    }
    Some(service.name.clone().unwrap_or_else(|| name(experiment, &template.name)))
}

/// Labels of the pods of a template.
pub(super) fn pod_labels(template: &ExperimentTemplate) -> BTreeMap<String, String> {
    let labels = template.template.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

fn ports(template: &ExperimentTemplate) -> Vec<Value> {
    let containers = template.template.pointer("/spec/containers").and_then(Value::as_array);
    let all =
        containers.into_iter().flatten().filter_map(|container| container["ports"].as_array()).flatten();
    let port = |port: &Value| {
        let number = port["containerPort"].as_i64()?;
        let mut made = Map::from_iter([
            ("port".to_owned(), json!(number)),
            ("targetPort".to_owned(), json!(number)),
            ("protocol".to_owned(), json!(port["protocol"].as_str().unwrap_or("TCP"))),
        ]);
        if let Some(name) = port["name"].as_str() {
            made.insert("name".to_owned(), json!(name));
        }
        Some(Value::Object(made))
    };
    all.filter_map(port).collect()
}

fn metadata(experiment: &Experiment, template: &ExperimentTemplate, name: &str) -> Value {
    let mut labels = pod_labels(template);
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash(template));
    labels.insert(EXPERIMENT_UID.to_owned(), experiment.uid().unwrap_or_default());
    json!({
        "name": name, "namespace": experiment.namespace(), "labels": labels,
        "annotations": { TEMPLATE: template.name },
        "ownerReferences": [experiment.controller_owner_ref(&())],
    })
}

/// The `ReplicaSet` of a template.
pub(super) fn replica_set(experiment: &Experiment, template: &ExperimentTemplate, replicas: i32) -> Value {
    let hash = hash(template);
    let mut pods = template.template.clone();
    let mut labels = pod_labels(template);
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
    pods["metadata"]["labels"] = json!(labels);
    let mut selector = template.selector.clone();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.to_owned(), hash);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": metadata(experiment, template, &name(&experiment.name_any(), &template.name)),
        "spec": {
            "replicas": replicas, "minReadySeconds": template.min_ready_seconds,
            "selector": selector, "template": pods,
        },
    })
}

/// The Service of a template.
pub(super) fn service(experiment: &Experiment, template: &ExperimentTemplate, name: &str) -> Value {
    let mut selector = template.selector.match_labels.clone().unwrap_or_default();
    selector.insert(POD_TEMPLATE_HASH.to_owned(), hash(template));
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(experiment, template, name),
        "spec": { "selector": selector, "ports": ports(template) },
    })
}
