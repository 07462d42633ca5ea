//! What built-in kinds fill in by themselves and a schema cannot say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Resource;

/// Defaults that depend on other fields, whenever an object comes in.
pub(crate) fn on_read(resource: &Resource, object: &mut Value) {
    if resource.custom {
        return;
    }
    match resource.kind.as_str() {
        "Secret" => fold_string_data(object),
        "Namespace" => {
            if let Some(name) = object.pointer("/metadata/name").cloned() {
                ensure(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
            }
        }
        "Service" => {
            if object.pointer("/spec/type") != Some(&json!("ExternalName")) {
                ensure(object, &["spec", "internalTrafficPolicy"], json!("Cluster"));
            }
            for port in list(object, "/spec/ports") {
                if let Some(number) = port.get("port").cloned() {
                    ensure(port, &["targetPort"], number);
                }
            }
        }
        "Deployment" => {
            let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
            if object.pointer("/spec/strategy/type") == Some(&json!("RollingUpdate")) {
                ensure(object, &["spec", "strategy", "rollingUpdate"], rolling);
            }
            pod_spec(object.pointer_mut("/spec/template/spec"));
        }
        "Job" => {
            let given = |name: &str| object.pointer(&format!("/spec/{name}")).is_some();
            if !given("completions") && !given("parallelism") {
                ensure(object, &["spec", "completions"], json!(1));
            }
            ensure(object, &["spec", "parallelism"], json!(1));
            pod_spec(object.pointer_mut("/spec/template/spec"));
        }
        "ReplicaSet" => pod_spec(object.pointer_mut("/spec/template/spec")),
        "Pod" => {
            ensure(object, &["spec", "enableServiceLinks"], json!(true));
            pod_spec(object.get_mut("spec"));
        }
        _ => {}
    }
}

/// What a new object starts with.
pub(crate) fn on_create(resource: &Resource, object: &mut Value) {
    let mut set = |key: &str, value: Value| {
        if let Some(object) = object.as_object_mut() {
            object.insert(key.into(), value);
        }
    };
    match resource.kind.as_str() {
        _ if resource.custom => {}
        "Namespace" => {
            set("status", json!({"phase": "Active"}));
            set("spec", json!({"finalizers": ["kubernetes"]}));
        }
        "Pod" => set("status", json!({"phase": "Pending"})),
        "Deployment" | "Job" => set("status", json!({})),
        "ReplicaSet" => set("status", json!({"replicas": 0})),
        "Service" => set("status", json!({"loadBalancer": {}})),
        _ => {}
    }
}

/// `stringData` is write-only: it becomes `data`.
fn fold_string_data(object: &mut Value) {
    let Some(Value::Object(plain)) =
        object.as_object_mut().and_then(|object| object.shift_remove("stringData"))
    else {
        return;
    };
    for (key, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        if let Some(object) = object.as_object_mut() {
            let data = object.entry("data").or_insert_with(|| json!({}));
            if let Some(data) = data.as_object_mut() {
                data.insert(key, encoded.into());
            }
        }
    }
}

fn pod_spec(spec: Option<&mut Value>) {
    let Some(spec) = spec else {
        return;
    };
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        ensure(spec, &["serviceAccount"], account);
    }
    for lists in ["/containers", "/initContainers"] {
        for container in list(spec, lists) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let latest = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
            ensure(container, &["imagePullPolicy"], if latest { "Always" } else { "IfNotPresent" }.into());
            if let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() {
                for (resource, limit) in limits {
                    ensure(container, &["resources", "requests", &resource], limit);
                }
            }
        }
    }
}

fn list<'a>(object: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that is absent, and the objects on the way to it.
fn ensure(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(object, |at, step| {
        Some(at.as_object_mut()?.entry(*step).or_insert_with(|| Value::Object(Map::new())))
    });
    if let Some(fields) = parent.and_then(Value::as_object_mut) {
        fields.entry(*last).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ResourceKey, builtin_registry};
    use super::*;

    #[test]
    fn string_data_becomes_data() {
        let secrets = builtin_registry()[&ResourceKey::new("", "secrets")].clone();
        let mut secret = json!({"stringData": {"a": "hello"}, "data": {"b": "eA=="}});
        on_read(&secrets, &mut secret);
        assert_eq!(secret, json!({"data": {"b": "eA==", "a": "aGVsbG8="}}));
    }

    #[test]
    fn pull_policy_follows_the_tag() {
        let pods = builtin_registry()[&ResourceKey::new("", "pods")].clone();
        for (image, policy) in [("a/b", "Always"), ("a/b:latest", "Always"), ("h:5000/b:1", "IfNotPresent")] {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            on_read(&pods, &mut pod);
            assert_eq!(pod.pointer("/spec/containers/0/imagePullPolicy"), Some(&json!(policy)), "{image}");
        }
    }
}
