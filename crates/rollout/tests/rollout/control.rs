//! What people ask for, and a controller that dies in between.

use serde_json::json;
use windlass_api::rollout::status::Phase;

use crate::house::{self, House, OWN};

#[tokio::test]
async fn promoting_fully_skips_all_that_is_left() {
    let house = House::new("full").await;
    let steps = json!([{ "setWeight": 25 }, { "pause": {} }, { "setWeight": 50 }, { "pause": {} }]);
    house.rollout(4, json!({ "canary": { "steps": steps } })).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.patch_status(json!({ "promoteFull": true })).await;
    house.until_done().await;
    house.until_sets(&[("v2", 4)]).await;
    assert!(!house.status().await.promote_full);
}

#[tokio::test]
async fn a_pause_with_a_duration_ends_by_itself_and_not_before() {
    let house = House::new("timed").await;
    let steps = json!([{ "setWeight": 50 }, { "pause": { "duration": 3 } }]);
    house.rollout(2, json!({ "canary": { "steps": steps } })).await;
    house.until_done().await;
    house.set_version("v2").await;
    let status = house.until_paused_at(1).await;
    let begun = status.pause_conditions[0].start_time.0;
    house.until_done().await;
    assert!(jiff::Timestamp::now().duration_since(begun).as_secs() >= 3);
}

#[tokio::test]
async fn a_controller_that_is_killed_again_and_again_still_completes() {
    let house = House::new("killed").await;
    let plane = House::plane().await;
    let steps = json!([{ "setWeight": 20 }, { "pause": { "duration": "500ms" } }, { "setWeight": 60 }]);
    let spec = json!({
        "replicas": 5, "selector": { "matchLabels": { "app": "web" } }, "template": house::template("v1"),
        "strategy": { "canary": { "maxSurge": 1, "maxUnavailable": 0, "steps": steps } },
    });
    house
        .create::<windlass_api::Rollout>(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout",
            "metadata": { "name": "web", "labels": { OWN: "killed" } }, "spec": spec,
        }))
        .await;
    let labels = format!("{OWN}=killed");
    let run = || house::controller(plane, &labels, None);
    {
        let _first = run();
        house.until_done().await;
    }
    house.set_version("v2").await;
    // Each life is a little longer than the one before: the end comes between other actions every time.
    for life in 1..=8u64 {
        let running = run();
        tokio::time::sleep(std::time::Duration::from_millis(350 + 60 * life)).await;
        drop(running);
    }
    let _last = run();
    house.until_done().await;
    house.until_sets(&[("v2", 5)]).await;
    assert_eq!(house.sets().await.len(), 2, "no ReplicaSet is made twice");
}

#[tokio::test]
async fn a_failed_rollout_stays_so_until_a_retry() {
    let house = House::new("failed").await;
    house.rollout(2, json!({ "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }] } })).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.abort().await;
    house.until_phase(Phase::Failed).await;
    house.patch(json!({ "metadata": { "labels": { "touched": "yes" } } })).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let status = house.status().await;
    assert_eq!((status.phase, status.abort), (Some(Phase::Failed), true));
    house.until_sets(&[("v1", 2)]).await;
}
