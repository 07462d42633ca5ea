//! A pod template without what the API server would fill in anyway, so that writing a default out is no new revision.

use serde_json::{Map, Value, json};

/// The template without values that are defaults, without `null` and without empty lists and maps.
pub fn without_defaults(template: &Value) -> Value {
    let mut template = template.clone();
    windlass_manifest::canonical::normalize(&mut template);
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod(spec);
    }
    prune(&mut template);
    template
}

fn drop_equal(object: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (name, default) in defaults {
        if object.get(*name) == Some(default) {
            object.remove(*name);
        }
    }
}

fn pod(spec: &mut Map<String, Value>) {
    drop_equal(
        spec,
        &[
            ("restartPolicy", json!("Always")),
            ("dnsPolicy", json!("ClusterFirst")),
            ("schedulerName", json!("default-scheduler")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("enableServiceLinks", json!(true)),
            ("hostNetwork", json!(false)),
            ("hostPID", json!(false)),
            ("hostIPC", json!(false)),
            ("shareProcessNamespace", json!(false)),
            ("serviceAccountName", json!("default")),
        ],
    );
    // The old name of the field is filled in from the new one.
    spec.remove("serviceAccount");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, container);
    }
    each(spec, "volumes", volume);
    each(spec, "topologySpreadConstraints", |constraint| {
        drop_equal(
            constraint,
            &[("nodeAffinityPolicy", json!("Honor")), ("nodeTaintsPolicy", json!("Ignore"))],
        );
    });
}

fn container(container: &mut Map<String, Value>) {
    drop_equal(
        container,
        &[
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("stdin", json!(false)),
            ("stdinOnce", json!(false)),
            ("tty", json!(false)),
        ],
    );
    if let Some(image) = container.get("image").and_then(Value::as_str)
        && container.get("imagePullPolicy") == Some(&json!(default_pull_policy(image)))
    {
        container.remove("imagePullPolicy");
    }
    each(container, "ports", |port| drop_equal(port, &[("protocol", json!("TCP"))]));
    each(container, "env", |variable| {
        drop_equal(variable, &[("value", json!(""))]);
        if let Some(field) = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"))
            && let Some(field) = field.as_object_mut()
        {
            drop_equal(field, &[("apiVersion", json!("v1"))]);
        }
    });
    each(container, "volumeMounts", |mount| drop_equal(mount, &[("readOnly", json!(false))]));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).and_then(Value::as_object_mut) {
            self::probe(probe);
        }
    }
    // A limit without a request is the request too.
    if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut)
        && let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned()
        && let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut)
    {
        requests.retain(|name, request| limits.get(name) != Some(request));
    }
}

fn probe(probe: &mut Map<String, Value>) {
    drop_equal(
        probe,
        &[
            ("timeoutSeconds", json!(1)),
            ("periodSeconds", json!(10)),
            ("successThreshold", json!(1)),
            ("failureThreshold", json!(3)),
            ("initialDelaySeconds", json!(0)),
        ],
    );
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        drop_equal(get, &[("scheme", json!("HTTP")), ("path", json!("/"))]);
    }
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        drop_equal(grpc, &[("service", json!(""))]);
    }
}

fn volume(volume: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            drop_equal(source, &[("defaultMode", json!(420))]);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        drop_equal(path, &[("type", json!(""))]);
    }
}

/// `Always` for an image that is tagged `latest` or not at all, else `IfNotPresent`.
fn default_pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    if tag.is_none_or(|tag| tag == "latest") { "Always" } else { "IfNotPresent" }
}

fn each(object: &mut Map<String, Value>, list: &str, change: impl Fn(&mut Map<String, Value>)) {
    let items = object.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut).for_each(change);
}

/// Fields that hold nothing go: `null`, and empty lists and maps, but for sources that are chosen by being there.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|name, value| match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => {
                    !fields.is_empty() || name == "emptyDir" || name.ends_with("Selector")
                }
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}
