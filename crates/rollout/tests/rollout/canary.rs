//! Canary updates without routes: weights by numbers of pods.

use serde_json::json;
use windlass_api::rollout::status::{HEALTHY, PAUSED, Phase};

use crate::house::{House, is, never_ready, template};

fn steps() -> serde_json::Value {
    json!({ "canary": { "maxSurge": 1, "maxUnavailable": 0, "steps": [
        { "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": { "duration": "1s" } },
    ] } })
}

#[tokio::test]
async fn the_first_revision_skips_the_steps() {
    let house = House::new("first").await;
    house.rollout(3, steps()).await;
    let status = house.until_done().await;
    assert!(is(&status, HEALTHY, "True"));
    house.until_sets(&[("v1", 3)]).await;
}

#[tokio::test]
async fn a_canary_goes_through_its_steps_by_numbers_of_pods() {
    let house = House::new("canary").await;
    house.rollout(5, steps()).await;
    house.until_done().await;
    house.set_version("v2").await;
    let status = house.until_paused_at(1).await;
    assert!(is(&status, PAUSED, "True") && !is(&status, HEALTHY, "True"));
    assert_eq!(status.phase, Some(Phase::Paused));
    house.until_sets(&[("v1", 4), ("v2", 1)]).await;
    house.promote().await;
    let status = house.until_done().await;
    assert_eq!(status.current_step_index, Some(4));
    house.until_sets(&[("v2", 5)]).await;
}

#[tokio::test]
async fn an_update_in_mid_rollout_starts_the_steps_again_and_takes_the_first_canary_away() {
    let house = House::new("mid").await;
    house.rollout(5, steps()).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.set_version("v3").await;
    let status = house.until_paused_at(1).await;
    assert_eq!(status.current_pod_hash, Some(house.hash("v3").await));
    house.until_sets(&[("v1", 4), ("v3", 1)]).await;
    house.promote().await;
    house.until_done().await;
    house.until_sets(&[("v3", 5)]).await;
}

#[tokio::test]
async fn the_stable_template_applied_again_in_mid_rollout_skips_the_steps() {
    let house = House::new("back").await;
    house.rollout(5, steps()).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.set_version("v1").await;
    let status = house.until_done().await;
    assert_eq!(status.current_step_index, Some(4));
    house.until_sets(&[("v1", 5)]).await;
}

#[tokio::test]
async fn scaling_in_mid_rollout_keeps_the_weight_and_the_step() {
    let house = House::new("scaled").await;
    house.rollout(5, steps()).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.until_sets(&[("v1", 4), ("v2", 1)]).await;
    house.patch(json!({ "spec": { "replicas": 10 } })).await;
    house.until_sets(&[("v1", 8), ("v2", 2)]).await;
    assert_eq!(house.status().await.current_step_index, Some(1));
    house.patch(json!({ "spec": { "replicas": 5 } })).await;
    house.until_sets(&[("v1", 4), ("v2", 1)]).await;
    house.promote().await;
    house.until_done().await;
}

#[tokio::test]
async fn an_update_inside_the_rollback_window_skips_steps() {
    let house = House::new("window").await;
    house.rollout_with(2, steps(), json!({ "rollbackWindow": { "revisions": 2 } })).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.promote().await;
    house.until_done().await;
    house.set_version("v1").await;
    // No pause: nobody promotes.
    let status = house.until_done().await;
    assert_eq!(status.stable_rs, Some(house.hash("v1").await));
    house.until_sets(&[("v1", 2)]).await;
}

#[tokio::test]
async fn pods_that_never_become_ready_exceed_the_deadline_and_with_abort_go_back() {
    let house = House::new("never").await;
    house.rollout_with(3, steps(), json!({ "progressDeadlineAbort": true })).await;
    house.until_done().await;
    house.patch(json!({ "spec": { "template": never_ready("v2"), "progressDeadlineSeconds": 4 } })).await;
    let status = house.until_status("aborted", |status| status.abort).await;
    assert_eq!(status.stable_rs, Some(house.hash("v1").await));
    let status = house.until_phase(Phase::Failed).await;
    assert!(is(&status, "Degraded", "True"), "{:?}", status.conditions);
    house.until_status("three are available", |status| status.available_replicas == 3).await;
    house.until_sets(&[("v1", 3)]).await;
    // It stays so until a new spec.
    let mut ready = template("v3");
    ready["metadata"]["labels"][windlass_testbed::nodes::POD_LABEL] = json!(null);
    house.patch(json!({ "spec": { "template": ready, "progressDeadlineSeconds": 600 } })).await;
    house.until_paused_at(1).await;
}

#[tokio::test]
async fn abort_and_retry_at_each_step() {
    let house = House::new("abort").await;
    let strategy = json!({ "canary": { "maxSurge": 1, "maxUnavailable": 0, "steps": [
        { "setWeight": 25 }, { "pause": {} }, { "setWeight": 50 }, { "pause": {} },
    ] } });
    house.rollout(4, strategy).await;
    house.until_done().await;
    house.set_version("v2").await;
    for (step, canary) in [(1, 1), (3, 2)] {
        house.until_paused_at(step).await;
        house.until_sets(&[("v1", 4 - canary), ("v2", canary)]).await;
        house.abort().await;
        let status = house.until_phase(Phase::Failed).await;
        assert!(status.abort && is(&status, "Degraded", "True"));
        house.until_sets(&[("v1", 4)]).await;
        house.retry().await;
        house.until_paused_at(1).await;
        house.promote().await;
    }
    house.until_paused_at(3).await;
    house.promote().await;
    house.until_done().await;
    house.until_sets(&[("v2", 4)]).await;
}
