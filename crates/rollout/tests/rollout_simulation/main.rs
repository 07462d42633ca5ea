//! Rollouts under the simulation: two replicas with leader election, every fault that the API may show, and a crash
//! around every single write. What is wanted has to run at the end, whatever happened on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod replica;
#[path = "../../../cluster/tests/support/wiring.rs"]
mod wiring;

use std::{sync::LazyLock, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use windlass_testbed::sim::{
    self, Faults, World,
    api::Next,
    invariants::{self, Stable},
};

const HOME: &str = "shop";
const RESYNC: Duration = Duration::from_secs(40);
const QUIET: Duration = Duration::from_secs(50);
/// The longest that a version may take, with every fault on the way: a watch may be silent for minutes before it is given up.
const PATIENCE: Duration = Duration::from_secs(600);
const ROLLOUTS: &str = "/apis/windlass.dev/v1alpha1/namespaces/shop/rollouts";
const KINDS: [&str; 5] =
    ["Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate", "AnalysisRun", "Experiment"];
/// Pods with this label never become available.
const STUCK: &str = "stuck";

fn prepare(world: &World) -> anyhow::Result<()> {
    static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(windlass_api::crds::all);
    let api = world.api();
    for crd in CRDS.iter().filter(|crd| KINDS.contains(&crd.spec.names.kind.as_str())) {
        api.install_crd(crd)?;
    }
    api.install_crd(&serde_json::from_value(http_routes())?)?;
    api.create("user", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } }))?;
    // ReplicaSets have as many available pods as they want, after a while; some never have any.
    api.controller("apps/v1", "ReplicaSet", |object, _| {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let (wanted, generation) = (number("/spec/replicas"), number("/metadata/generation"));
        let stuck = object["spec"]["template"]["metadata"]["labels"].get(STUCK).is_some();
        let available = if stuck { 0 } else { wanted };
        let there = (number("/status/replicas"), number("/status/availableReplicas"), number("/status/observedGeneration"));
        let status = json!({ "observedGeneration": generation, "replicas": wanted, "readyReplicas": available, "availableReplicas": available });
        (there != (wanted, available, generation))
            .then(|| Next { after: Duration::from_millis(800), change: json!({ "status": status }) })
    });
    Ok(())
}

/// As much of an `HTTPRoute`'s schema as is needed: the rest is kept as it is.
fn http_routes() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "httproutes.gateway.networking.k8s.io" },
        "spec": {
            "group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": { "plural": "httproutes", "singular": "httproute", "kind": "HTTPRoute", "listKind": "HTTPRouteList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                } } },
            }],
        },
    })
}

fn template(app: &str, version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app }, "annotations": { "version": version } },
        "spec": { "containers": [{ "name": "main", "image": format!("example.com/web:{version}") }] },
    })
}

/// Only one is given up: a controller that is away for a while is no reason to.
fn rollout(name: &str, strategy: &Value) -> Value {
    let stuck = name == "stuck";
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": name, "namespace": HOME },
        "spec": {
            "replicas": 4, "selector": { "matchLabels": { "app": name } }, "template": template(name, "v1"),
            "progressDeadlineSeconds": if stuck { 60 } else { 600 }, "progressDeadlineAbort": stuck, "strategy": strategy,
        },
    })
}

fn service(name: &str, app: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": HOME },
        "spec": { "selector": { "app": app }, "ports": [{ "port": 80 }] } })
}

/// A Rollout with a route, one without, a blue-green one, and one whose new pods never become available.
async fn begin(world: &World, which: &[&str]) -> anyhow::Result<()> {
    let user = world.outsider("user");
    let services = "/api/v1/namespaces/shop/services";
    let pause = json!({ "pause": { "duration": "2s" } });
    for name in which {
        let strategy = match *name {
            "routed" | "stuck" => {
                for service_name in [format!("{name}-stable"), format!("{name}-canary")] {
                    user.create(services, &service(&service_name, name)).await?;
                }
                let backends = json!([
                    { "name": format!("{name}-stable"), "port": 80, "weight": 100 },
                    { "name": "third", "port": 80, "weight": 3 },
                    { "name": format!("{name}-canary"), "port": 80, "weight": 0 },
                ]);
                let route = json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                    "metadata": { "name": name, "namespace": HOME },
                    "spec": { "hostnames": ["shop.example"], "rules": [{ "backendRefs": backends }] },
                });
                user.create("/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes", &route).await?;
                json!({ "canary": {
                    "stableService": format!("{name}-stable"), "canaryService": format!("{name}-canary"),
                    "trafficRouting": { "gatewayAPI": { "httpRoute": name } }, "scaleDownDelaySeconds": 2,
                    "abortScaleDownDelaySeconds": 2,
                    "steps": [{ "setWeight": 25 }, pause, { "setWeight": 75 }, pause],
                } })
            }
            "plain" => json!({ "canary": {
                "maxSurge": 1, "maxUnavailable": 0, "steps": [{ "setWeight": 25 }, pause, { "setWeight": 75 }],
            } }),
            _ => {
                user.create(services, &service("active", name)).await?;
                json!({ "blueGreen": { "activeService": "active", "scaleDownDelaySeconds": 2 } })
            }
        };
        user.create(ROLLOUTS, &rollout(name, &strategy)).await?;
    }
    Ok(())
}

async fn update(world: &World, which: &[&str]) -> anyhow::Result<()> {
    let user = world.outsider("user");
    for name in which {
        let mut next = template(name, "v2");
        if *name == "stuck" {
            next["metadata"]["labels"][STUCK] = json!("yes");
        }
        user.merge(&format!("{ROLLOUTS}/{name}"), &json!({ "spec": { "template": next } })).await?;
    }
    Ok(())
}

async fn scenario(world: World, which: &[&str], replicas: &[&str]) -> anyhow::Result<()> {
    prepare(&world)?;
    for name in replicas {
        world.start(name, replica::replica);
    }
    begin(&world, which).await?;
    checks::watched_until(&world, PATIENCE, |world| checks::begun(world, which)).await?;
    update(&world, which).await?;
    checks::watched_until(&world, PATIENCE, |world| checks::ended(world, which)).await?;
    let stable = Stable { quiet: QUIET, resync: RESYNC, resyncs: 2, ..Stable::default() };
    let stable = stable.allow(|write| write.call.resource == "leases" || write.call.resource == "events");
    invariants::eventually_stable(&world, &stable).await?;
    checks::ended(&world, which)?;
    checks::always(&world)
}

#[test]
fn rollouts_converge_under_every_fault() {
    sim::seeds("rollouts_converge_under_every_fault", 50, |seed| {
        let plan = Faults::chaos(seed, &["a", "b"], Duration::from_secs(60));
        sim::compare_with_fault_free(seed, &plan, &checks::compare(), |world| {
            scenario(world, &["routed", "plain", "blue", "stuck"], &["a", "b"])
        })
    });
}

#[test]
fn a_crash_around_any_write_of_a_rollout_changes_nothing() {
    sim::seeds("a_crash_around_any_write_of_a_rollout_changes_nothing", 1, |seed| {
        sim::every_crash(seed, "a", &checks::compare(), |world| scenario(world, &["routed", "blue"], &["a"]))
    });
}
