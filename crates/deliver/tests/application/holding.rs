//! Something newer is held back, or comes by request: what runs meanwhile, and what is looked at first.

use std::time::Duration;

use serde_json::json;
use windlass_api::application::{SYNC_ANNOTATION, status::SyncWord};

use crate::{
    clusters::{value, waves},
    gate::{definition, policy},
    house::{House, config_map},
};

#[tokio::test]
async fn what_runs_is_healed_while_the_gate_refuses_what_is_newer() {
    let house = House::new("healheld", &[("all.yaml", &config_map("map", "1"))]).await;
    policy(&house).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.push(&[("all.yaml", Some(&(config_map("map", "2") + &config_map("evil", "forbidden"))))]);
    house.says("web", "PolicyRefused").await;
    house.meddle("kubectl-edit", "v1/ConfigMap", "map", &json!({ "data": { "value": "drifted" } })).await;
    house
        .eventually("the change is taken back", async || {
            let live = house.get("v1/ConfigMap", "map").await.unwrap();
            (live["data"]["value"] == "1").then_some(())
        })
        .await;
    house.delete("v1/ConfigMap", &house.namespace, "map").await;
    house.eventually("what was deleted is made again", async || house.get("v1/ConfigMap", "map").await).await;
    house.says("web", "PolicyRefused").await;
    let status = house.status("web").await;
    assert_eq!((status.sync.status, status.violation_count), (SyncWord::OutOfSync, Some(1)));
    assert!(house.get("v1/ConfigMap", "evil").await.is_none());
    house.push(&[("all.yaml", Some(&config_map("map", "3")))]);
    house.healthy("web").await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "3");
}

#[tokio::test]
async fn what_runs_is_healed_while_what_is_newer_is_outside_of_the_allowed_namespaces() {
    let house = House::new("healbad", &[("all.yaml", &config_map("map", "1"))]).await;
    let name = house.namespace.name().to_owned();
    let only = json!({ "destinations": [
        { "cluster": "in-cluster", "namespace": name, "allowedNamespaces": [name] },
    ] });
    house.app("web", "", only).await;
    house.healthy("web").await;
    let outside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n";
    house.push(&[("all.yaml", Some(&(config_map("map", "2") + outside)))]);
    house.says("web", "NamespaceNotAllowed").await;
    house.meddle("kubectl-edit", "v1/ConfigMap", "map", &json!({ "data": { "value": "drifted" } })).await;
    house
        .eventually("the change is taken back", async || {
            let live = house.get("v1/ConfigMap", "map").await.unwrap();
            (live["data"]["value"] == "1").then_some(())
        })
        .await;
    house.says("web", "NamespaceNotAllowed").await;
}

#[tokio::test]
async fn a_cluster_of_a_later_wave_refuses_before_the_first_one_gets_anything() {
    let (house, spaces, clusters) = Box::pin(waves("wavegate", &config_map("map", "1"), &json!({}))).await;
    house.healthy("web").await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "full", "namespace": spaces[1].name() },
        "spec": { "hard": { "count/services": "0" } },
    });
    house.apply("test", &quota).await;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    let probe: kube::api::DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "probe", "namespace": spaces[1].name() }, "spec": { "ports": [{ "port": 80 }] },
    }))
    .unwrap();
    let dry = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    house
        .eventually("the quota is in force", async || {
            house.api("v1/Service", &spaces[1]).create(&dry, &probe).await.is_err().then_some(())
        })
        .await;
    house.push(&[("all.yaml", Some(&(config_map("map", "2") + service)))]);
    let message = house.says("web", "PolicyRefused").await;
    assert!(message.contains(&format!("on {}", clusters[1])), "{message}");
    for space in &spaces {
        assert_eq!(value(&house, space).await.as_deref(), Some("1"), "nobody has it");
    }
    house.delete("v1/ResourceQuota", &spaces[1], "full").await;
    house.healthy("web").await;
    for space in &spaces {
        assert_eq!(value(&house, space).await.as_deref(), Some("2"));
    }
    for cluster in &clusters {
        house.delete("windlass.dev/v1alpha1/Cluster", "", cluster).await;
    }
}

#[tokio::test]
async fn a_sync_that_somebody_asks_for_is_one_of_what_the_repository_has_now() {
    let house = House::new("freshen", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({ "sync": { "automated": false, "interval": "1h" } })).await;
    house.says("web", "ManualSync").await;
    // Nobody tells of this push.
    let commit = house.repo.commit_files(&[("map.yaml", Some(&config_map("map", "2")))], "change").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    house.annotate("web", SYNC_ANNOTATION, "2026-01-01T00:00:00Z by alice").await;
    let status = house.healthy_at("web", &commit).await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "2");
    assert_eq!(status.history[0].by.as_deref(), Some("alice"));
    assert_eq!(status.history.len(), 1, "what was there before was not synced: {:?}", status.history);
}

#[tokio::test]
async fn an_object_of_a_kind_without_a_status_holds_nobody_up() {
    let house = House::new("mute", &[("readme.txt", "x")]).await;
    let group = format!("{}.example.org", house.namespace.name());
    let gizmo = format!("apiVersion: {group}/v1\nkind: Gizmo\nmetadata: {{name: one}}\nspec: {{size: 1}}\n");
    house.push(&[("crd.json", Some(&definition(&group))), ("gizmo.yaml", Some(&gizmo))]);
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", "", &format!("gizmos.{group}")).await;
}
