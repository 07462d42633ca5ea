//! Blue-green updates.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use serde_json::{Value, json};
use windlass_api::rollout::status::{PauseReason, Phase, RunPhase, TransitionKind};

use crate::world::World;

fn strategy(extra: Value) -> Value {
    let mut blue_green = json!({ "activeService": "web-active", "previewService": "web-preview" });
    blue_green.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "blueGreen": blue_green })
}

fn serves(world: &World) -> (Option<String>, Option<String>) {
    (world.serves("web-active"), world.serves("web-preview"))
}

fn both(active: &str, preview: &str) -> (Option<String>, Option<String>) {
    (Some(active.into()), Some(preview.into()))
}

#[test]
fn the_switch_comes_when_all_new_pods_are_available_and_the_old_ones_stay_for_a_while() {
    let mut world = World::healthy(strategy(json!({})), 3);
    assert_eq!(serves(&world), both("web:1", "web:1"));
    world.broken.insert("web:2".into());
    world.set_image("web:2");
    world.settle();
    assert_eq!((serves(&world), world.phase()), (both("web:1", "web:2"), Phase::Preview));
    assert_eq!(world.counts(["web:1", "web:2"]), [3, 3]);
    world.broken.clear();
    world.settle();
    assert_eq!((serves(&world), world.phase()), (both("web:2", "web:2"), Phase::Completed));
    assert_eq!(world.counts(["web:1", "web:2"]), [3, 3], "the old version stays for its delay");
    world.wait(31);
    assert_eq!(world.counts(["web:1", "web:2"]), [0, 3]);
    let kinds: Vec<_> = world.status().transitions.iter().map(|transition| transition.kind).collect();
    assert_eq!(kinds[2..], [TransitionKind::Published, TransitionKind::Upgraded]);
}

#[test]
fn without_automatic_promotion_it_waits_for_a_person() {
    let mut world = World::healthy(strategy(json!({ "autoPromotionEnabled": false })), 3);
    world.set_image("web:2");
    world.wait(100_000);
    assert_eq!((serves(&world), world.phase()), (both("web:1", "web:2"), Phase::Preview));
    assert_eq!(world.status().pause_conditions[0].reason, PauseReason::BlueGreenPause);
    world.promote();
    world.settle();
    assert_eq!((serves(&world), world.phase()), (both("web:2", "web:2"), Phase::Completed));
}

#[test]
fn a_preview_is_promoted_after_its_time() {
    let mut world = World::healthy(strategy(json!({ "autoPromotionSeconds": 20 })), 3);
    world.set_image("web:2");
    world.settle();
    world.wait(15);
    assert_eq!(serves(&world), both("web:1", "web:2"));
    world.wait(6);
    assert_eq!((serves(&world), world.phase()), (both("web:2", "web:2"), Phase::Completed));
}

#[test]
fn a_small_preview_grows_only_when_it_was_promoted() {
    let mut world =
        World::healthy(strategy(json!({ "previewReplicaCount": 1, "autoPromotionEnabled": false })), 5);
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([5, 1], Phase::Preview));
    world.promote();
    for _ in 0..4 {
        world.round();
        if world.serves("web-active") == Some("web:2".into()) {
            assert_eq!(world.of_image("web:2").unwrap().available, 5, "not before it has its full size");
        }
        world.kubelet();
    }
    world.settle();
    assert_eq!((serves(&world), world.counts(["web:2"])), (both("web:2", "web:2"), [5]));
    assert!(!world.status().blue_green.scale_up_preview_check_point);
}

#[test]
fn an_abort_before_the_switch_leaves_traffic_where_it_is_and_the_preview_goes_later() {
    let mut world = World::healthy(strategy(json!({ "autoPromotionEnabled": false })), 3);
    world.set_image("web:2");
    world.settle();
    world.abort();
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:1".into()), Phase::Failed));
    assert_eq!(world.counts(["web:1", "web:2"]), [3, 3]);
    world.wait(31);
    assert_eq!(world.counts(["web:1", "web:2"]), [3, 0]);
    world.retry();
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([3, 3], Phase::Preview));
    world.promote();
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_pre_promotion_analysis_has_to_be_successful_before_the_switch() {
    let analysis = json!({ "prePromotionAnalysis": { "templates": [{ "templateName": "smoke" }] } });
    let mut world = World::healthy(strategy(analysis), 3);
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.runs.len(), serves(&world).0), (1, Some("web:1".into())));
    world.finish_run("pre", RunPhase::Failed);
    world.settle();
    assert_eq!((world.phase(), serves(&world).0), (Phase::Failed, Some("web:1".into())));
    world.retry();
    world.settle();
    assert_eq!(world.runs.len(), 2, "one new run for every attempt");
    world.finish_run("pre", RunPhase::Successful);
    world.settle();
    assert_eq!((world.phase(), serves(&world)), (Phase::Completed, both("web:2", "web:2")));
}

#[test]
fn a_failed_post_promotion_analysis_switches_back() {
    let analysis = json!({ "postPromotionAnalysis": { "templates": [{ "templateName": "smoke" }] } });
    let mut world = World::healthy(strategy(analysis), 3);
    world.set_image("web:2");
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:2".into()), Phase::Preview));
    assert_eq!(world.counts(["web:1"]), [3], "the old version stays while it is judged");
    world.finish_run("post", RunPhase::Failed);
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:1".into()), Phase::Failed));
    assert_eq!(world.status().transitions.last().unwrap().kind, TransitionKind::RolledBack);
    world.retry();
    world.settle();
    world.finish_run("post", RunPhase::Successful);
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:2".into()), Phase::Completed));
}

#[test]
fn a_rollback_within_the_delay_is_immediate() {
    let mut world =
        World::healthy(strategy(json!({ "autoPromotionEnabled": false, "scaleDownDelaySeconds": 600 })), 3);
    world.set_image("web:2");
    world.settle();
    world.promote();
    world.settle();
    world.wait(60);
    world.set_image("web:1");
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:1".into()), Phase::Completed));
}

#[test]
fn old_versions_go_at_once_with_a_delay_of_zero() {
    let mut world = World::healthy(strategy(json!({ "scaleDownDelaySeconds": 0 })), 3);
    world.set_image("web:2");
    world.settle();
    assert_eq!(world.counts(["web:1", "web:2"]), [0, 3]);
}

#[test]
fn a_service_that_was_made_anew_keeps_the_version_that_runs() {
    let mut world = World::healthy(strategy(json!({ "autoPromotionEnabled": false })), 3);
    world.set_image("web:2");
    world.settle();
    let service = world.services.get_mut("web-active").unwrap().as_mut().unwrap();
    service.selector.remove(windlass_api::rollout::POD_TEMPLATE_HASH);
    service.managed_by = None;
    world.settle();
    assert_eq!((serves(&world).0, world.phase()), (Some("web:1".into()), Phase::Preview));
}

#[test]
fn a_scale_reaches_both_versions_in_mid_update() {
    let mut world = World::healthy(strategy(json!({ "autoPromotionEnabled": false })), 3);
    world.set_image("web:2");
    world.settle();
    world.rollout.spec.replicas = 6;
    world.settle();
    assert_eq!(world.counts(["web:1", "web:2"]), [6, 6]);
    assert_eq!(world.status().hpa_replicas, 6);
    assert!(world.status().selector.unwrap().contains(&world.status().stable_rs.unwrap()));
}

#[test]
fn an_inconclusive_analysis_waits_and_old_versions_stay() {
    let analysis = json!({ "postPromotionAnalysis": { "templates": [{ "templateName": "smoke" }] }, "scaleDownDelaySeconds": 5 });
    let mut world = World::healthy(strategy(analysis), 3);
    world.set_image("web:2");
    world.settle();
    world.finish_run("post", RunPhase::Inconclusive);
    world.settle();
    world.wait(100);
    assert_eq!((world.phase(), world.counts(["web:1", "web:2"])), (Phase::Paused, [3, 3]));
    world.promote();
    world.settle();
    world.finish_run("post", RunPhase::Successful);
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn an_old_version_in_its_delay_has_the_size_of_the_rollout() {
    let mut world = World::healthy(strategy(json!({ "scaleDownDelaySeconds": 60 })), 2);
    world.set_image("web:2");
    world.settle();
    for size in [4, 3] {
        world.rollout.spec.replicas = size;
        world.settle();
        assert_eq!(world.counts(["web:1", "web:2"]), [size, size]);
    }
    world.wait(61);
    assert_eq!(world.counts(["web:1", "web:2"]), [0, 3]);
}

#[test]
fn a_way_back_to_a_version_that_still_runs_is_not_judged_again() {
    let analysis = json!({ "templates": [{ "templateName": "errors" }] });
    let mut world = World::healthy(strategy(json!({ "postPromotionAnalysis": analysis })), 2);
    world.set_image("web:2");
    world.settle();
    world.finish_run("post", RunPhase::Successful);
    world.settle();
    assert_eq!((serves(&world), world.phase()), (both("web:2", "web:2"), Phase::Completed));
    let runs = world.runs.len();
    world.set_image("web:1");
    world.settle();
    assert_eq!((serves(&world), world.phase()), (both("web:1", "web:1"), Phase::Completed));
    assert_eq!(world.runs.len(), runs);
}
