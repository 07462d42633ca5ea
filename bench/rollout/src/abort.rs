//! From the word to abort until the route says that all traffic is back.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::{
    api::core::v1::Service, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_testbed::measure::Report;

use crate::{
    side::Side,
    stage::{NAMESPACE, Stage},
};

const SAMPLES: usize = 9;
const WEIGHT: i64 = 50;
const GATEWAY: &str = "gateway.networking.k8s.io";

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut stage = Stage::open(Side::Windlass, 20, vec![route_kind()?]).await?;
    let routes = routes(&stage);
    prepare(&stage, &routes).await?;
    until(&mut stage, "the first revision is not stable", |status| status["phase"] == "Completed").await?;
    let mut latencies = Vec::new();
    for sample in 1..=SAMPLES {
        patch(&stage, json!({ "spec": { "template": template(&format!("v{}", sample + 1)) } })).await?;
        let paused = |status: &Value| {
            status["currentStepIndex"] == 1
                && status["abort"] != true
                && status["pauseConditions"].as_array().is_some_and(|all| !all.is_empty())
        };
        until(&mut stage, "the pause was not reached", paused).await?;
        let weight = canary_weight(&routes).await?;
        anyhow::ensure!(weight == Some(WEIGHT), "the pause was reached with a weight of {weight:?}");
        // The watches of the controller come to rest.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let word = Patch::Merge(json!({ "status": { "abort": true } }));
        stage.rollouts().patch_status("web", &PatchParams::default(), &word).await?;
        let begin = Instant::now();
        while canary_weight(&routes).await? != Some(0) {
            stage.patient(begin, "traffic did not come back")?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        latencies.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    latencies.sort_by(f64::total_cmp);
    let at = |place: usize| latencies.get(place).copied().unwrap_or(f64::NAN);
    report.below("abort to weights restored, median of 9", at(SAMPLES / 2), "ms", 500.0);
    report.below("abort to weights restored, slowest of 9", at(SAMPLES - 1), "ms", 500.0);
    stage.child.stop()
}

/// `HTTPRoute` without a schema: what is measured is the controller.
fn route_kind() -> anyhow::Result<CustomResourceDefinition> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("httproutes.{GATEWAY}"),
            // The group is protected: the API server wants to be told where the kind was approved.
            "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/2997" },
        },
        "spec": {
            "group": GATEWAY, "scope": "Namespaced",
            "names": { "kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute", "listKind": "HTTPRouteList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema":
                    { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    serde_json::from_value(definition).context("not a kind")
}

fn routes(stage: &Stage) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GATEWAY, "v1", "HTTPRoute"));
    Api::namespaced_with(stage.client.clone(), NAMESPACE, &kind)
}

/// Two Services, the route between them, and a Rollout that waits at half of the traffic.
async fn prepare(stage: &Stage, routes: &Api<DynamicObject>) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(stage.client.clone(), NAMESPACE);
    for name in ["stable", "canary"] {
        let service = serde_json::from_value(json!({
            "metadata": { "name": name }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
        }))?;
        services.create(&PostParams::default(), &service).await.context("cannot create a Service")?;
    }
    let route = serde_json::from_value(json!({
        "apiVersion": format!("{GATEWAY}/v1"), "kind": "HTTPRoute", "metadata": { "name": "web" },
        "spec": { "parentRefs": [{ "name": "gate" }], "rules": [{ "backendRefs": [
            { "name": "stable", "port": 80, "weight": 100 }, { "name": "canary", "port": 80, "weight": 0 },
        ] }] },
    }))?;
    routes.create(&PostParams::default(), &route).await.context("cannot create the route")?;
    let rollout = serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": "web" },
        "spec": {
            "replicas": 5, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1"),
            "strategy": { "canary": {
                "stableService": "stable", "canaryService": "canary", "abortScaleDownDelaySeconds": 1,
                "trafficRouting": { "gatewayAPI": { "httpRoute": "web" } },
                "steps": [{ "setWeight": WEIGHT }, { "pause": {} }],
            } },
        },
    }))?;
    stage.rollouts().create(&PostParams::default(), &rollout).await.context("cannot create the Rollout")?;
    Ok(())
}

fn template(version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": format!("example.com/web:{version}") }] },
    })
}

async fn patch(stage: &Stage, patch: Value) -> anyhow::Result<()> {
    stage.rollouts().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Waits until the status of the newest spec is so.
async fn until(stage: &mut Stage, not_yet: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let object = stage.rollouts().get("web").await?;
        let status = &object.data["status"];
        if status["observedGeneration"].as_i64() == object.metadata.generation && is_so(status) {
            return Ok(());
        }
        stage.patient(begin, &format!("{not_yet}: {status}"))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn canary_weight(routes: &Api<DynamicObject>) -> anyhow::Result<Option<i64>> {
    let route = routes.get("web").await?;
    let backends = route.data["spec"]["rules"][0]["backendRefs"].as_array();
    let canary = backends.and_then(|all| all.iter().find(|backend| backend["name"] == "canary"));
    Ok(canary.and_then(|backend| backend["weight"].as_i64()))
}
