//! What is no longer wanted goes, within its bounds; what others change is taken back, shown, or left to them.

use serde_json::{Value, json};
use windlass_api::application::{APPROVE_ANNOTATION, status::CONTESTED};

use crate::house::{House, annotated, condition_of, config_map, ready};

fn maps(count: usize) -> String {
    (0..count).map(|at| config_map(&format!("map-{at}"), "1")).collect()
}

async fn there(house: &House, count: usize) -> usize {
    let mut found = 0;
    for at in 0..count {
        found += usize::from(house.get("v1/ConfigMap", &format!("map-{at}")).await.is_some());
    }
    found
}

#[tokio::test]
async fn what_is_taken_out_of_the_source_is_deleted_and_what_is_not_ours_stays() {
    let files = config_map("keep", "1")
        + &config_map("goes", "1")
        + &annotated("stays", "windlass.dev/prune: disabled")
        + &annotated("stays-too", "argocd.argoproj.io/sync-options: 'Prune=false'");
    let house = House::new("prune", &[("all.yaml", &files)]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "foreign", "namespace": house.namespace.name() },
    });
    house.create("kubectl", &foreign).await;
    house.push(&[("all.yaml", Some(&config_map("keep", "2")))]);
    house.healthy("web").await;
    house.gone("v1/ConfigMap", "goes").await;
    for name in ["keep", "stays", "stays-too", "foreign"] {
        assert!(house.get("v1/ConfigMap", name).await.is_some(), "{name} stays");
    }
}

#[tokio::test]
async fn prune_false_deletes_nothing() {
    let house =
        House::new("noprune", &[("all.yaml", &(config_map("keep", "1") + &config_map("left", "1")))]).await;
    house.app("web", "", json!({ "sync": { "prune": false } })).await;
    house.healthy("web").await;
    house.push(&[("all.yaml", Some(&config_map("keep", "2")))]);
    house.healthy("web").await;
    assert!(house.get("v1/ConfigMap", "left").await.is_some());
}

#[tokio::test]
async fn more_deletions_than_the_budget_wait_for_an_approval() {
    let house =
        House::new("budget", &[("keep.yaml", &config_map("keep", "1")), ("maps.yaml", &maps(14))]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.push(&[("maps.yaml", None)]);
    let message = house.says("web", "ApprovalNeeded").await;
    assert!(message.contains("14 of 15") && message.contains("windlass approve"), "{message}");
    assert_eq!(there(&house, 14).await, 14);
    let approval = house.status("web").await.approval.unwrap();
    assert_eq!((approval.deletions, approval.of), (14, 15));

    house.annotate("web", APPROVE_ANNOTATION, "something-else").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(there(&house, 14).await, 14, "an approval of something else allows nothing");
    house.annotate("web", APPROVE_ANNOTATION, &approval.id).await;
    house.healthy("web").await;
    assert_eq!(there(&house, 14).await, 0);
    assert!(house.get("v1/ConfigMap", "keep").await.is_some());
    assert_eq!(house.status("web").await.approval, None);
}

#[tokio::test]
async fn an_empty_render_deletes_nothing() {
    let house = House::new("empty", &[("a/map.yaml", &config_map("map", "1")), ("other.txt", "x")]).await;
    house.app("web", "a", json!({})).await;
    house.healthy("web").await;
    house.push(&[("a/map.yaml", Some("# nothing\n"))]);
    let message = house.says("web", "NothingRendered").await;
    assert!(message.contains("delete the Application"), "{message}");
    assert!(house.get("v1/ConfigMap", "map").await.is_some());
}

#[tokio::test]
async fn a_drift_is_seen_by_event_and_taken_back() {
    let house = House::new("drift", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({ "sync": { "interval": "1h" } })).await;
    house.healthy("web").await;
    let changed: Value = json!({ "data": { "value": "drifted", "other": "mine" } });
    house.meddle("kubectl-edit", "v1/ConfigMap", "map", &changed).await;
    house
        .eventually("the change is taken back", async || {
            let live = house.get("v1/ConfigMap", "map").await.unwrap();
            (live["data"]["value"] == "1").then_some(())
        })
        .await;
    let live = house.get("v1/ConfigMap", "map").await.unwrap();
    assert_eq!(live["data"]["other"], "mine", "a field that is not ours is left alone");
    house.delete("v1/ConfigMap", &house.namespace, "map").await;
    house.eventually("what was deleted is made again", async || house.get("v1/ConfigMap", "map").await).await;
    house.healthy("web").await;
}

#[tokio::test]
async fn report_shows_a_drift_and_leaves_it() {
    let house = House::new("report", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({ "sync": { "drift": "Report" } })).await;
    house.healthy("web").await;
    house.meddle("kubectl-edit", "v1/ConfigMap", "map", &json!({ "data": { "value": "2" } })).await;
    let message = house.says("web", "OutOfSync").await;
    for part in ["map", "data.value", "2", "kubectl-edit"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let difference = house.status("web").await.clusters[0].differences[0].clone();
    assert_eq!(difference.manager.as_deref(), Some("kubectl-edit"));
    assert_eq!(difference.wanted.as_deref(), Some("\"1\""));
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "2");
}

#[tokio::test]
async fn a_field_that_another_manager_always_takes_back_is_contested_and_the_manager_named() {
    let house = House::new("contest", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    let fight = async {
        loop {
            let live = house.get("v1/ConfigMap", "map").await.unwrap();
            if live["data"]["value"] == "1" {
                house.meddle("rival", "v1/ConfigMap", "map", &json!({ "data": { "value": "2" } })).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let told = house.until("web", "contested", |status| {
        let (message, truth, _) = condition_of(status, CONTESTED);
        (truth == "True").then_some((message, ready(status)))
    });
    let (message, _) = tokio::select! {
        told = told => told,
        () = fight => unreachable!("the rival never rests"),
    };
    assert!(message.contains("rival") && message.contains("map"), "{message}");
    let before = house.get("v1/ConfigMap", "map").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let after = house.get("v1/ConfigMap", "map").await.unwrap();
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "it rests");
}
