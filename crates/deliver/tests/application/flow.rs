//! What holds a sync up, and what sets it free.

use serde_json::json;
use windlass_api::application::{
    SYNC_ANNOTATION,
    status::{DeploymentResult, Phase},
};

use crate::house::{House, annotated, config_map, deployment, ready};

#[tokio::test]
async fn a_chain_of_dependencies_tells_the_blocking_path_and_goes_on_by_events() {
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n";
    let house = House::new(
        "depends",
        &[
            ("base/map.yaml", broken),
            ("middle/map.yaml", &config_map("middle", "1")),
            ("top/map.yaml", &config_map("top", "1")),
        ],
    )
    .await;
    house
        .app("top", "top", json!({ "dependsOn": [{ "name": "middle" }], "sync": { "interval": "1h" } }))
        .await;
    let message = house.says("top", "DependencyMissing").await;
    assert!(message.contains("middle"), "{message}");
    house.app("middle", "middle", json!({ "dependsOn": [{ "name": "base" }] })).await;
    house.app("base", "base", json!({})).await;
    house.says("base", "InvalidYaml").await;
    let message = house.says("top", "DependencyNotReady").await;
    let path = format!("{0}/top → {0}/middle → {0}/base", house.namespace.name());
    house
        .until("top", "the whole path is told", |status| ready(status).0.contains(&path).then_some(()))
        .await;
    assert!(house.get("v1/ConfigMap", "top").await.is_none(), "{message}");
    house.push(&[("base/map.yaml", Some(&config_map("base", "1")))]);
    for name in ["base", "middle", "top"] {
        house.healthy(name).await;
        assert!(house.get("v1/ConfigMap", name).await.is_some());
    }
}

#[tokio::test]
async fn applications_that_need_each_other_are_told_so() {
    let house = House::new("circle", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("one", "", json!({ "dependsOn": [{ "name": "two" }] })).await;
    house.app("two", "", json!({ "dependsOn": [{ "name": "one" }] })).await;
    let message = house.says("one", "DependencyCycle").await;
    assert!(message.contains("need each other"), "{message}");
}

#[tokio::test]
async fn a_closed_window_holds_a_change_and_heals_nothing() {
    let house = House::new("window", &[("map.yaml", &config_map("map", "1"))]).await;
    let closed =
        json!({ "sync": { "windows": [{ "kind": "Deny", "schedule": "* * * * *", "duration": "2m" }] } });
    house.app("web", "", closed.clone()).await;
    let message = house.says("web", "WindowClosed").await;
    assert!(message.contains("Deny window"), "{message}");
    assert_eq!(house.status("web").await.phase, Some(Phase::Pending));
    assert!(house.get("v1/ConfigMap", "map").await.is_none());
    house.app("web", "", json!({ "sync": { "windows": [] } })).await;
    house.healthy("web").await;
    house.app("web", "", closed).await;
    house.push(&[("map.yaml", Some(&config_map("map", "2")))]);
    house.says("web", "WindowClosed").await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "1");
}

#[tokio::test]
async fn a_suspended_application_is_left_alone_until_it_goes_on() {
    let house = House::new("suspend", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.app("web", "", json!({ "suspend": true })).await;
    house.says("web", "Suspended").await;
    house.push(&[("map.yaml", Some(&config_map("map", "2")))]);
    house.meddle("kubectl", "v1/ConfigMap", "map", &json!({ "data": { "value": "3" } })).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "3");
    house.app("web", "", json!({ "suspend": false })).await;
    house.healthy("web").await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "2");
}

#[tokio::test]
async fn without_automation_a_change_waits_until_somebody_asks() {
    let house = House::new("manual", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({ "sync": { "automated": false } })).await;
    let message = house.says("web", "ManualSync").await;
    assert!(message.contains("windlass sync"), "{message}");
    assert!(house.get("v1/ConfigMap", "map").await.is_none());
    house.annotate("web", SYNC_ANNOTATION, "2026-01-01T00:00:00Z by alice").await;
    let status = house.healthy("web").await;
    assert_eq!(status.history[0].by.as_deref(), Some("alice"));
}

#[tokio::test]
async fn what_admission_refuses_is_tried_again_when_the_refusal_is_lifted() {
    let quota = json!({ "hard": { "configmaps": "1" } });
    let house = House::new("lifted", &[("all.yaml", &(config_map("a", "1") + &config_map("b", "1")))]).await;
    // The namespace has a map of its own already, and may have no other.
    house
        .eventually("the map of the namespace", async || house.get("v1/ConfigMap", "kube-root-ca.crt").await)
        .await;
    let limit = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few", "namespace": house.namespace.name() },
        "spec": quota,
    });
    house.apply("test", &limit).await;
    house
        .eventually("the quota is counted", async || {
            let live = house.get("v1/ResourceQuota", "few").await.unwrap();
            live["status"]["used"]["configmaps"].as_str().map(|_| ())
        })
        .await;
    house.app("web", "", json!({ "sync": { "retry": { "first": "1s", "longest": "2s" } } })).await;
    let message = house.says("web", "PolicyRefused").await;
    assert!(message.contains("quota") && message.contains("Nothing of the change is applied"), "{message}");
    assert!(house.get("v1/ConfigMap", "a").await.is_none());
    house.delete("v1/ResourceQuota", &house.namespace, "few").await;
    house.healthy("web").await;
    assert!(house.get("v1/ConfigMap", "a").await.is_some() && house.get("v1/ConfigMap", "b").await.is_some());
}

#[tokio::test]
async fn a_newer_revision_overtakes_a_sync_that_waits() {
    // No node runs these pods: nobody says that they may be placed.
    let stuck = deployment("stuck", 1)
        .replace("spec: {containers", "spec: {nodeSelector: {no: where}, containers")
        + &annotated("later", "windlass.dev/sync-wave: '1'");
    let house = House::new("overtake", &[("all.yaml", &stuck)]).await;
    house.app("web", "", json!({})).await;
    let first = house.repo.tip().unwrap();
    house
        .until("web", "it waits in a wave", |status| {
            let step = status.operation.as_ref().and_then(|operation| operation.step.clone())?;
            step.contains("stuck").then_some(())
        })
        .await;
    assert!(house.get("v1/ConfigMap", "later").await.is_none());
    let idle = deployment("stuck", 0) + &annotated("later", "windlass.dev/sync-wave: '1'");
    house.push(&[("all.yaml", Some(&idle))]);
    let status = house.healthy("web").await;
    assert!(house.get("v1/ConfigMap", "later").await.is_some());
    let old = status.history.iter().find(|known| known.revision == first).unwrap();
    assert_eq!(old.result, DeploymentResult::Superseded);
}
