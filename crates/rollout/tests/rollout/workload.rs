//! A template taken from a Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_api::{Rollout, rollout::status::Phase};

use crate::house::{House, template, until};

async fn start(house: &House, scale_down: &str) {
    house
        .create::<Deployment>(json!({
            "metadata": { "name": "web" },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") },
        }))
        .await;
    house
        .create::<Rollout>(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": "web" },
            "spec": {
                "replicas": 2,
                "workloadRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "scaleDown": scale_down },
                "strategy": { "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }] } },
            },
        }))
        .await;
}

async fn wanted(house: &House) -> i32 {
    house.api::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas.unwrap()
}

#[tokio::test]
async fn a_deployment_gives_its_template_and_is_scaled_down_on_success() {
    let house = House::new("workload").await;
    start(&house, "onsuccess").await;
    house.until_status("completed", |status| status.phase == Some(Phase::Completed)).await;
    until("the Deployment is at zero", || async { (wanted(&house).await == 0).then_some(()) }).await;
    // A new template of the Deployment is a new revision.
    let patch: Value = json!({ "spec": { "template": template("v2") } });
    house.api::<Deployment>().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    house.until_paused_at(1).await;
    house.promote().await;
    house.until_done().await;
}

#[tokio::test]
async fn a_deployment_that_is_never_scaled_down_keeps_its_pods() {
    let house = House::new("keeps").await;
    start(&house, "never").await;
    house.until_status("completed", |status| status.phase == Some(Phase::Completed)).await;
    assert_eq!(wanted(&house).await, 2);
}
