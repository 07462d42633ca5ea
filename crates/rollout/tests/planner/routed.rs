//! Canaries and A/B tests with routes.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use serde_json::{Value, json};
use windlass_api::rollout::status::{Phase, RunPhase, TransitionKind};
use windlass_rollout::{observed::TrafficWish, plan::Action};

use crate::world::World;

fn strategy(extra: Value) -> Value {
    let mut canary = json!({
        "canaryService": "web-canary", "stableService": "web-stable",
        "trafficRouting": { "gatewayAPI": { "httpRoute": "web" } },
        "steps": [{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }],
    });
    canary.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "canary": canary })
}

#[test]
fn traffic_moves_step_by_step_and_the_old_version_stays_for_its_delay() {
    let mut world = World::healthy(strategy(json!({})), 10);
    assert_eq!((world.weights(), world.serves("web-stable")), ((100, 0), Some("web:1".into())));
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((80, 20), [10, 2]));
    assert_eq!(
        (world.serves("web-stable"), world.serves("web-canary")),
        (Some("web:1".into()), Some("web:2".into()))
    );
    let weights = world.status().canary.weights.unwrap();
    assert_eq!((weights.canary.weight, weights.verified), (20, Some(true)));
    world.promote();
    world.settle();
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((40, 60), [10, 6]));
    world.promote();
    world.settle();
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((100, 0), [10, 10]));
    assert_eq!(world.serves("web-stable"), Some("web:2".into()));
    assert_eq!(world.phase(), Phase::Completed);
    world.wait(31);
    assert_eq!(world.counts(["web:1", "web:2"]), [0, 10]);
    let kinds: Vec<_> = world.status().transitions.iter().map(|transition| transition.kind).collect();
    assert_eq!(kinds[2..], [TransitionKind::Published, TransitionKind::Upgraded]);
}

#[test]
fn a_weight_rises_only_with_available_pods_and_a_step_counts_only_when_it_is_read_back() {
    let mut world = World::healthy(strategy(json!({})), 10);
    world.broken.insert("web:2".into());
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.weights(), world.status().current_step_index), ((100, 0), Some(0)));
    assert_eq!(world.serves("web-canary"), Some("web:1".into()), "the Service stays on pods that are there");
    world.broken.clear();
    world.kubelet();
    let plan = world.round();
    let kinds: Vec<&str> = plan.actions.iter().map(kind).collect();
    assert_eq!(kinds, ["SwitchService", "SetTraffic"], "the Service moves before the weight");
    assert_eq!(world.status().current_step_index, Some(0), "what was written has not been read back");
    world.settle();
    assert_eq!(world.status().current_step_index, Some(1));
}

fn kind(action: &Action) -> &str {
    match action {
        Action::SwitchService { .. } => "SwitchService",
        Action::SetTraffic { .. } => "SetTraffic",
        Action::PatchReplicaSet(_) => "PatchReplicaSet",
        _ => "other",
    }
}

#[test]
fn a_route_that_others_edited_is_put_back_and_so_is_a_selector() {
    let mut world = World::healthy(strategy(json!({})), 10);
    world.set_image("web:2");
    world.settle();
    world.routes[0].seen = Some(TrafficWish { stable: 1, canary: 99, ..TrafficWish::default() });
    let service = world.services.get_mut("web-stable").unwrap().as_mut().unwrap();
    service.selector.remove(windlass_api::rollout::POD_TEMPLATE_HASH);
    world.settle();
    assert_eq!((world.weights(), world.serves("web-stable")), ((80, 20), Some("web:1".into())));
    assert_eq!(world.phase(), Phase::Paused);
}

#[test]
fn an_abort_moves_all_traffic_back_at_once_and_the_new_version_goes_after_its_delay() {
    let mut world = World::healthy(strategy(json!({ "abortScaleDownDelaySeconds": 10 })), 10);
    world.set_image("web:2");
    world.settle();
    world.promote();
    world.settle();
    world.abort();
    let plan = world.round();
    assert!(
        plan.actions
            .iter()
            .any(|action| matches!(action, Action::SetTraffic { wish, .. } if wish.canary == 0))
    );
    world.settle();
    assert_eq!((world.weights(), world.phase()), ((100, 0), Phase::Failed));
    assert_eq!(world.serves("web-canary"), Some("web:1".into()));
    assert_eq!(world.counts(["web:1", "web:2"]), [10, 6]);
    world.wait(11);
    assert_eq!(world.counts(["web:1", "web:2"]), [10, 0]);
    world.retry();
    world.settle();
    assert_eq!((world.weights(), world.phase()), ((80, 20), Phase::Paused));
}

#[test]
fn an_aborted_version_stays_for_good_when_its_delay_is_zero() {
    let mut world = World::healthy(strategy(json!({ "abortScaleDownDelaySeconds": 0 })), 10);
    world.set_image("web:2");
    world.settle();
    world.abort();
    world.wait(100_000);
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((100, 0), [10, 2]));
}

#[test]
fn a_dynamic_stable_version_shrinks_with_its_traffic_and_gets_it_back_only_as_pods_become_ready() {
    let mut world = World::healthy(strategy(json!({ "dynamicStableScale": true })), 10);
    world.set_image("web:2");
    world.settle();
    assert_eq!(world.counts(["web:1", "web:2"]), [8, 2]);
    world.promote();
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.weights()), ([4, 6], (40, 60)));
    world.broken.insert("web:1".into());
    // Pods that are up stay up; only new ones do not come.
    let up = |world: &mut World, ready: i32| {
        for set in &mut world.sets {
            let image = set.template["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            set.replicas = set.wanted;
            let most = if image == "web:1" { ready } else { set.wanted };
            (set.ready, set.available) = (set.wanted.min(most), set.wanted.min(most));
        }
    };
    world.abort();
    for ready in [4, 5, 7, 8, 10] {
        for _ in 0..10 {
            world.round();
            up(&mut world, ready);
            let (stable, canary) = world.weights();
            assert_eq!(stable + canary, 100);
            assert!(stable <= ready * 10, "{stable} % on {ready} ready pods of 10");
            let carrying = world.of_image("web:2").unwrap().available;
            assert!(canary <= carrying * 10, "{canary} % on {carrying} new pods");
        }
    }
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((100, 0), [10, 0]));
    assert_eq!(world.serves("web-canary"), Some("web:1".into()));
}

#[test]
fn scale_steps_set_pods_apart_from_traffic() {
    let mut world = World::healthy(
        strategy(json!({ "steps": [
            { "setCanaryScale": { "replicas": 3 } }, { "setWeight": 10 }, { "pause": {} },
            { "setCanaryScale": { "weight": 50 } }, { "pause": {} },
            { "setCanaryScale": { "matchTrafficWeight": true } }, { "pause": {} },
        ] })),
        10,
    );
    world.set_image("web:2");
    for (canary, weight) in [(3, 10), (5, 10), (1, 10)] {
        world.settle();
        assert_eq!((world.counts(["web:1", "web:2"]), world.weights().1), ([10, canary], weight));
        world.promote();
    }
}

#[test]
fn a_version_that_has_pods_at_all_has_the_least_number_of_them() {
    let mut world = World::healthy(strategy(json!({ "minPodsPerReplicaSet": 3 })), 10);
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.weights()), ([10, 3], (80, 20)));
}

#[test]
fn header_and_mirror_rules_are_set_in_order_and_taken_away_at_the_end() {
    let mut world = World::healthy(
        strategy(json!({
            "trafficRouting": { "gatewayAPI": { "httpRoute": "web" }, "managedRoutes": [{ "name": "copy" }, { "name": "beta" }] },
            "steps": [
                { "setCanaryScale": { "weight": 20 } },
                { "setHeaderRoute": { "name": "beta", "match": [{ "headerName": "x-beta", "headerValue": { "exact": "1" } }] } },
                { "setMirrorRoute": { "name": "copy", "percentage": 35, "match": [{ "path": { "prefix": "/" } }] } },
                { "pause": {} },
                { "setHeaderRoute": { "name": "beta" } },
                { "pause": {} },
            ],
        })),
        10,
    );
    let names = |world: &World| {
        let seen = world.routes[0].seen.clone().unwrap();
        let headers: Vec<String> = seen.headers.into_iter().map(|rule| rule.name).collect();
        let mirrors: Vec<(String, i32)> =
            seen.mirrors.into_iter().map(|rule| (rule.name, rule.percentage)).collect();
        (headers, mirrors)
    };
    assert_eq!(names(&world), (vec![], vec![]));
    world.set_image("web:2");
    world.settle();
    assert_eq!(names(&world), (vec!["beta".into()], vec![("copy".into(), 35)]));
    assert_eq!(world.weights(), (100, 0));
    world.promote();
    world.settle();
    assert_eq!(names(&world), (vec![], vec![("copy".into(), 35)]));
    world.promote();
    world.settle();
    assert_eq!((names(&world), world.phase()), ((vec![], vec![]), Phase::Completed));
}

#[test]
fn a_change_of_mind_leaves_no_traffic_on_the_version_between() {
    let mut world = World::healthy(strategy(json!({})), 10);
    world.set_image("web:2");
    world.settle();
    world.promote();
    world.settle();
    world.set_image("web:3");
    world.broken.insert("web:3".into());
    world.settle();
    assert_eq!(world.weights(), (100, 0));
    assert_eq!(
        world.counts(["web:1", "web:2", "web:3"]),
        [10, 6, 2],
        "its Service still leads to the version between"
    );
    world.broken.clear();
    world.settle();
    assert_eq!((world.weights(), world.serves("web-canary")), ((80, 20), Some("web:3".into())));
    assert_eq!(world.counts(["web:1", "web:2", "web:3"]), [10, 0, 2]);
}

#[test]
fn going_back_to_stable_in_mid_rollout_moves_traffic_back() {
    for dynamic in [false, true] {
        let mut world = World::healthy(strategy(json!({ "dynamicStableScale": dynamic })), 10);
        world.set_image("web:2");
        world.settle();
        world.promote();
        world.settle();
        world.set_image("web:1");
        world.settle();
        assert_eq!((world.weights(), world.phase()), ((100, 0), Phase::Completed), "dynamic: {dynamic}");
        world.wait(31);
        assert_eq!(world.counts(["web:1", "web:2"]), [10, 0]);
    }
}

#[test]
fn a_full_promotion_keeps_traffic_on_ready_pods() {
    for dynamic in [false, true] {
        let mut world = World::healthy(strategy(json!({ "dynamicStableScale": dynamic })), 10);
        world.set_image("web:2");
        world.settle();
        world.edit(|status| status.promote_full = true);
        world.settle();
        assert_eq!((world.weights(), world.phase()), ((100, 0), Phase::Completed));
        assert_eq!(world.serves("web-stable"), Some("web:2".into()));
    }
}

#[test]
fn a_scale_in_mid_rollout_keeps_weights() {
    let mut world = World::healthy(strategy(json!({})), 10);
    world.set_image("web:2");
    world.settle();
    world.rollout.spec.replicas = 20;
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.weights()), ([20, 4], (80, 20)));
    world.rollout.spec.replicas = 5;
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.weights()), ([5, 1], (80, 20)));
    assert_eq!(world.phase(), Phase::Paused);
}

#[test]
fn old_versions_beyond_the_limit_go_before_their_delay() {
    let mut world = World::healthy(
        strategy(json!({ "scaleDownDelaySeconds": 1000, "scaleDownDelayRevisionLimit": 1, "steps": [] })),
        2,
    );
    for version in 2..=4 {
        world.set_image(&format!("web:{version}"));
        world.settle();
    }
    assert_eq!(world.counts(["web:1", "web:2", "web:3", "web:4"]), [0, 0, 2, 2]);
}

fn ab_test(extra: Value) -> Value {
    let mut test = json!({
        "stableService": "web-stable", "canaryService": "web-canary",
        "trafficRouting": { "gatewayAPI": { "httpRoute": "web" } },
        "variant": { "match": [{ "header": { "name": "x-variant", "value": { "exact": "b" } } },
                               { "cookie": { "name": "group", "value": { "exact": "b.1" } } }],
                     "stickyCookie": "variant" },
        "variantReplicas": 2,
    });
    test.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "abTest": test })
}

#[test]
fn an_ab_test_sends_matching_requests_to_the_new_version_until_a_person_decides() {
    let mut world = World::healthy(ab_test(json!({})), 4);
    world.set_image("web:2");
    world.settle();
    let seen = world.routes[0].seen.clone().unwrap();
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), ((100, 0), [4, 2]));
    let rule = &seen.headers[0];
    assert_eq!((rule.name.as_str(), rule.sticky_cookie.as_deref()), ("variant-b", Some("variant")));
    assert_eq!(rule.matches[1].header_name, "Cookie");
    assert!(rule.matches[1].header_value.regex.contains(r"group=b\.1"), "{:?}", rule.matches[1]);
    assert_eq!(world.phase(), Phase::Paused);
    world.promote();
    world.settle();
    assert_eq!((world.phase(), world.serves("web-stable")), (Phase::Completed, Some("web:2".into())));
    assert!(world.routes[0].seen.as_ref().unwrap().headers.is_empty());
}

#[test]
fn the_winner_of_an_ab_test_is_promoted_by_the_rule() {
    let analysis = json!({ "analysis": { "templates": [{ "templateName": "compare" }] }, "duration": "1h" });
    for (phase, expected, image) in [
        (RunPhase::Successful, Phase::Completed, "web:2"),
        (RunPhase::Failed, Phase::Failed, "web:1"),
        (RunPhase::Inconclusive, Phase::Paused, "web:1"),
    ] {
        let mut world = World::healthy(ab_test(analysis.clone()), 4);
        world.set_image("web:2");
        world.settle();
        assert!(world.runs.is_empty(), "both run for a while first");
        world.wait(3601);
        world.finish_run("web", phase);
        world.settle();
        assert_eq!((world.phase(), world.serves("web-stable")), (expected, Some(image.into())));
    }
}
