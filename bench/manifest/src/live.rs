//! Objects as the API server shows them: sanitized, hashed, compared, judged.

use std::hint::black_box;

use anyhow::ensure;
use serde_json::{Map, Value, json};
use windlass_manifest::{
    diff::diff,
    digest::digest,
    health::{Status, health},
    sanitize::sanitize,
};
use windlass_testbed::measure::{Report, cpu};

const MANAGER: &str = "windlass";

/// How often all objects are gone through for one figure.
const ROUNDS: usize = 3;

/// Measures the CPU time for one object of what capture and deliver do with each.
pub fn measure(objects: &[Value], report: &mut Report) -> anyhow::Result<()> {
    let live: Vec<Value> = objects.iter().map(live).collect();
    for (wanted, live) in objects.iter().zip(&live) {
        let found = diff(wanted, live, MANAGER);
        ensure!(found.is_empty(), "the live object differs: {}", found[0]);
        ensure!(health(live).status == Status::Healthy, "not healthy: {}", health(live).message);
        ensure!(
            sanitize(live.clone()).keep().as_ref() == Some(wanted),
            "sanitizing does not give the object back"
        );
    }

    let cloning = each(&live, |_, object| drop(black_box(object.clone())))?;
    let whole = each(&live, |index, object| {
        let wanted = &objects[index];
        let kept = sanitize(object.clone()).keep();
        black_box(kept.as_ref().map(digest) == Some(digest(wanted)));
        black_box(diff(wanted, object, MANAGER));
    })?;
    report.below("sanitized, hashed twice and compared: CPU each", whole - cloning, "µs", 20.0);
    let judged = each(&live, |_, object| drop(black_box(health(object))))?;
    report.figure("health: CPU each", judged, "µs");
    Ok(())
}

/// CPU microseconds for one object.
fn each(objects: &[Value], mut work: impl FnMut(usize, &Value)) -> anyhow::Result<f64> {
    let before = cpu(std::process::id())?;
    for _ in 0..ROUNDS {
        for (index, object) in objects.iter().enumerate() {
            work(index, object);
        }
    }
    let spent = cpu(std::process::id())?.saturating_sub(before).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok(spent * 1e6 / (objects.len() * ROUNDS) as f64)
}

/// The object with what a server adds.
fn live(object: &Value) -> Value {
    let mut live = object.clone();
    let mut fields = owned(object);
    for name in ["f:apiVersion", "f:kind"] {
        fields.remove(name);
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("f:metadata") {
        metadata.remove("f:name");
        metadata.remove("f:namespace");
    }
    let metadata = &mut live["metadata"];
    metadata["uid"] = json!("5f9c2a7e-3f1b-4f0e-9b55-7a3f6f0f2f11");
    metadata["resourceVersion"] = json!("4242");
    metadata["generation"] = json!(1);
    metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    metadata["managedFields"] = json!([{
        "manager": MANAGER, "operation": "Apply", "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": fields,
    }]);
    match object["kind"].as_str() {
        Some("Deployment") => {
            let replicas = &object["spec"]["replicas"];
            live["status"] = json!({
                "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
                "availableReplicas": replicas,
                "conditions": [{ "type": "Available", "status": "True" }],
            });
        }
        Some("Certificate") => {
            live["status"] = json!({ "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1,
                "message": "Certificate is up to date and has not expired",
            }] });
        }
        _ => {}
    }
    live
}

/// The fields of an object as a field manager owns them. Lists are owned by the keys they are merged by.
fn owned(value: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let inner = match value {
            Value::Object(_) => owned(value),
            Value::Array(items) => items.iter().filter_map(item).collect(),
            _ => Map::new(),
        };
        fields.insert(format!("f:{name}"), Value::Object(inner));
    }
    fields
}

fn item(item: &Value) -> Option<(String, Value)> {
    let pick = |names: &[&str]| {
        let keys: Map<String, Value> =
            names.iter().filter_map(|name| Some(((*name).to_owned(), item.get(name)?.clone()))).collect();
        (keys.len() == names.len()).then_some(keys)
    };
    let keys = ["containerPort", "port"]
        .iter()
        .find_map(|port| pick(&[port, "protocol"]))
        .or_else(|| pick(&["mountPath"]))
        .or_else(|| pick(&["name"]))?;
    let mut fields = owned(item);
    fields.insert(".".to_owned(), json!({}));
    Some((format!("k:{}", Value::Object(keys)), Value::Object(fields)))
}
