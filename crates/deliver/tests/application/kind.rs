//! The kind itself: what its schema refuses, and every field of it.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass_api::Application;
use windlass_testbed::walk;

use crate::{
    house::{House, config_map},
    stack,
};

#[tokio::test]
async fn the_schema_refuses_what_makes_no_sense_and_names_the_rule() {
    let house = House::new("nonsense", &[("map.yaml", &config_map("map", "1"))]).await;
    let destination = json!({ "cluster": "a" });
    let refused = [
        (json!({ "destinations": [] }), "spec.destinations"),
        (
            json!({ "destinations": [{ "cluster": "a", "selector": {} }] }),
            "exactly one of cluster and selector",
        ),
        (json!({ "destinations": [{ "namespace": "a" }] }), "exactly one of cluster and selector"),
        (json!({ "destinations": [{ "cluster": "../a" }] }), "spec.destinations[0].cluster"),
        (
            json!({ "source": { "helm": {}, "kustomize": {} } }),
            "at most one of directory, kustomize and helm",
        ),
        (json!({ "source": { "repoURL": "" } }), "spec.source.repoURL"),
        (json!({ "sync": { "interval": "10ms" } }), "at least 1s"),
        (json!({ "sync": { "drift": "Sometimes" } }), "spec.sync.drift"),
        (json!({ "sync": { "ignoreDifferences": [{ "kind": "Secret" }] } }), "jsonPointers or managers"),
        (
            json!({ "sync": { "deletionBudget": { "maxPercent": 101 } } }),
            "spec.sync.deletionBudget.maxPercent",
        ),
        (json!({ "policy": { "mode": "lax" } }), "spec.policy.mode"),
        (json!({ "dependsOn": [{ "name": "A" }] }), "spec.dependsOn[0].name"),
        (json!({ "progressive": { "waves": [] } }), "spec.progressive.waves"),
        (json!({ "deletion": "Forget" }), "spec.deletion"),
    ];
    for (over, rule) in refused {
        let mut spec = house.spec("", &json!({ "destinations": [destination.clone()] }));
        for (field, value) in over.as_object().unwrap() {
            match (&mut spec[field], value) {
                (Value::Object(into), Value::Object(over)) => into.extend(over.clone()),
                (into, value) => *into = value.clone(),
            }
        }
        let body = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Application", "metadata": { "name": "nonsense" }, "spec": spec,
        });
        let path = format!("/apis/windlass.dev/v1alpha1/namespaces/{}/applications", house.namespace.name());
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        let error = house.admin.request::<Value>(request).await.unwrap_err();
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!(status.code, 422, "{over}");
        assert!(status.message.contains(rule), "{over}: {}", status.message);
    }
}

/// Phase and reason. Names and times differ between objects, and where nothing is compared (suspended, or a spec that
/// cannot be followed) the sync word is the last one known.
fn lasting(object: &Value) -> Value {
    let status = &object["status"];
    let conditions: Vec<Value> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == "Ready")
        .map(|condition| json!({ "status": condition["status"], "reason": condition["reason"] }))
        .collect();
    json!({ "phase": status["phase"], "sync": status["sync"]["status"], "ready": conditions })
}

/// The status is for the present spec, and no fetch is waited for.
fn settled(object: &Value) -> bool {
    let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    let waits = |condition: &Value| condition["type"] == "Ready" && condition["reason"] == "Fetching";
    current && !object["status"]["conditions"].as_array().into_iter().flatten().any(waits)
}

/// Every field is set, changed, removed and set to nonsense; the controller lives, explains, and comes to the same
/// state as with a fresh object. Nothing is applied, because the objects of the walk would all want the same: what
/// happens when something is, and so `spec.sync.automated`, is for the other tests.
#[tokio::test]
async fn every_field_of_an_application_is_walked() {
    let house = House::new("walk", &[("app/map.yaml", &config_map("map", "1"))]).await;
    let base = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
        "metadata": { "name": "walk", "namespace": house.namespace.name() },
        "spec": house.spec("app", &json!({
            "source": { "directory": { "recurse": true } },
            "sync": { "automated": false, "interval": "30s" }, "policy": { "mode": "strict" }, "deletion": "Orphan",
        })),
    });
    let stack = stack::shared().await;
    let alive = move || async move {
        if stack.thread.is_finished() { Err(anyhow::anyhow!("the controller ended")) } else { Ok(()) }
    };
    // The first value of each field and deed: all of them take ten minutes.
    let seen = Mutex::new(BTreeSet::new());
    let hooks = walk::Hooks::new(alive)
        .patience(Duration::from_secs(60))
        .observed(settled)
        .at_once(8)
        .only(move |case| {
            let automated = case.path == "spec.sync.automated" || case.path == "spec.sync";
            !automated && seen.lock().unwrap().insert((case.path.clone(), case.deed))
        })
        .normalize(lasting);
    let report = walk::run(house.admin.clone(), &Application::crd(), &base, &hooks).await.unwrap();
    report.check().unwrap();
    assert!(report.accepted > 40 && report.refused > 60, "{report:?}");
}
