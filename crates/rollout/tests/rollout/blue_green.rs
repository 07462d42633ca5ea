//! Blue-green updates.

use serde_json::json;
use windlass_api::rollout::status::Phase;

use crate::house::{House, never_ready};

async fn house(name: &str, blue_green: serde_json::Value) -> House {
    let house = House::new(name).await;
    house.service("active").await;
    house.service("preview").await;
    let mut strategy =
        json!({ "activeService": "active", "previewService": "preview", "scaleDownDelaySeconds": 1 });
    for (field, value) in blue_green.as_object().unwrap() {
        strategy[field] = value.clone();
    }
    house.rollout(3, json!({ "blueGreen": strategy })).await;
    house.until_done().await;
    house
}

#[tokio::test]
async fn the_switch_happens_when_the_new_pods_are_ready_and_the_old_ones_go_after_the_delay() {
    let house = house("switch", json!({})).await;
    house.until_selected("active", "v1").await;
    house.set_version("v2").await;
    house.until_selected("active", "v2").await;
    house.until_done().await;
    house.until_sets(&[("v2", 3)]).await;
}

#[tokio::test]
async fn without_auto_promotion_it_is_previewed_until_somebody_promotes() {
    let house = house("preview", json!({ "autoPromotionEnabled": false })).await;
    house.set_version("v2").await;
    house.until_selected("preview", "v2").await;
    let status = house.until_status("waits", |status| !status.pause_conditions.is_empty()).await;
    assert!(matches!(status.phase, Some(Phase::Preview | Phase::Paused)), "{:?}", status.phase);
    assert_eq!(house.selected("active").await.as_deref(), Some("v1"));
    house.until_sets(&[("v1", 3), ("v2", 3)]).await;
    house.patch_status(json!({ "pauseConditions": null })).await;
    house.until_selected("active", "v2").await;
    house.until_done().await;
    house.until_sets(&[("v2", 3)]).await;
}

#[tokio::test]
async fn a_small_preview_grows_before_the_switch() {
    let house = house("small", json!({ "autoPromotionEnabled": false, "previewReplicaCount": 1 })).await;
    house.set_version("v2").await;
    house.until_status("waits", |status| !status.pause_conditions.is_empty()).await;
    house.until_sets(&[("v1", 3), ("v2", 1)]).await;
    house.patch_status(json!({ "pauseConditions": null })).await;
    house.until_selected("active", "v2").await;
    let v2 = house.sets().await["v2"];
    assert_eq!(v2, (3, 3), "the switch came before the pods");
    house.until_done().await;
}

#[tokio::test]
async fn auto_promotion_seconds_promote_by_themselves() {
    let house = house("seconds", json!({ "autoPromotionSeconds": 2 })).await;
    house.set_version("v2").await;
    house.until_status("waits", |status| !status.pause_conditions.is_empty()).await;
    house.until_selected("active", "v2").await;
    house.until_done().await;
}

#[tokio::test]
async fn pods_that_are_not_ready_are_never_switched_to_and_an_abort_leaves_the_old_ones() {
    let house = house("unready", json!({ "abortScaleDownDelaySeconds": 1 })).await;
    house.patch(json!({ "spec": { "template": never_ready("v2") } })).await;
    house.until_selected("preview", "v2").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(house.selected("active").await.as_deref(), Some("v1"));
    house.abort().await;
    house.until_phase(Phase::Failed).await;
    house.until_sets(&[("v1", 3)]).await;
    assert_eq!(house.selected("active").await.as_deref(), Some("v1"));
    assert_eq!(house.selected("preview").await.as_deref(), Some("v2"), "there is something to look at again");
}

#[tokio::test]
async fn the_old_version_stays_for_its_delay() {
    let house = house("delay", json!({ "scaleDownDelaySeconds": 600 })).await;
    house.set_version("v2").await;
    house.until_selected("active", "v2").await;
    house.until_done().await;
    assert_eq!(house.sets().await["v1"], (3, 3));
    let deadline = windlass_api::rollout::SCALE_DOWN_DEADLINE;
    let sets = house.api::<k8s_openapi::api::apps::v1::ReplicaSet>();
    let old = sets.get(&format!("web-{}", house.hash("v1").await)).await.unwrap();
    let text = &old.metadata.annotations.unwrap()[deadline];
    assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
}
