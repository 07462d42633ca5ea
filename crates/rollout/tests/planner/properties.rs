//! What holds whatever happens: random versions, sizes, verbs, failures and crashes.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::rollout::status::{Phase, RunPhase};
use windlass_rollout::{
    plan::{Action, as_canary},
    replicas::Limits,
};

use crate::world::{RolloutPlan, World};

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Round,
    Pods,
    Wait(u64),
    Image(u8),
    Scale(i32),
    Promote,
    PromoteFull,
    Abort,
    Retry,
    Break(u8),
    Heal,
    Hold(bool),
    Run(RunPhase),
    Crash(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Round),
        6 => Just(Event::Pods),
        2 => (1..40u64).prop_map(Event::Wait),
        2 => (1..5u8).prop_map(Event::Image),
        1 => (0..12i32).prop_map(Event::Scale),
        2 => Just(Event::Promote),
        1 => Just(Event::PromoteFull),
        1 => Just(Event::Abort),
        1 => Just(Event::Retry),
        1 => (1..5u8).prop_map(Event::Break),
        1 => Just(Event::Heal),
        1 => any::<bool>().prop_map(Event::Hold),
        2 => prop_oneof![Just(RunPhase::Successful), Just(RunPhase::Failed), Just(RunPhase::Inconclusive)].prop_map(Event::Run),
        2 => (0..6usize).prop_map(Event::Crash),
    ]
}

fn strategies() -> impl Strategy<Value = Value> {
    let routed = |extra: Value| {
        let mut canary = json!({
            "canaryService": "c", "stableService": "s", "trafficRouting": { "gatewayAPI": { "httpRoute": "r" } },
            "steps": [{ "setWeight": 10 }, { "pause": { "duration": 5 } }, { "setWeight": 50 },
                      { "analysis": { "templates": [{ "templateName": "t" }] } }, { "setWeight": 90 }, { "pause": {} }],
        });
        canary.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "canary": canary })
    };
    let steps = json!([{ "setWeight": 20 }, { "pause": { "duration": 5 } }, { "setWeight": 60 },
        { "analysis": { "templates": [{ "templateName": "t" }] } }, { "pause": {} }]);
    prop_oneof![
        Just(json!({ "simple": {} })),
        Just(json!({ "simple": { "maxSurge": 0, "maxUnavailable": 1 } })),
        Just(json!({ "canary": { "steps": steps, "maxSurge": 1, "maxUnavailable": 0 } })),
        Just(json!({ "canary": { "steps": steps, "maxSurge": 0, "maxUnavailable": "50%" } })),
        Just(routed(json!({}))),
        Just(routed(json!({ "dynamicStableScale": true }))),
        Just(routed(json!({ "minPodsPerReplicaSet": 2, "abortScaleDownDelaySeconds": 3 }))),
        Just(json!({ "blueGreen": { "activeService": "a", "previewService": "p" } })),
        Just(
            json!({ "blueGreen": { "activeService": "a", "previewReplicaCount": 1, "autoPromotionSeconds": 7,
            "prePromotionAnalysis": { "templates": [{ "templateName": "t" }] } } })
        ),
    ]
}

fn limits(world: &World) -> Option<Limits> {
    let strategy = &world.rollout.spec.strategy;
    let replicas = world.rollout.spec.replicas;
    if let Some(simple) = &strategy.simple {
        return Some(Limits::rolling(replicas, simple.max_surge.as_ref(), simple.max_unavailable.as_ref()));
    }
    let canary = strategy.canary.as_ref().filter(|canary| canary.traffic_routing.is_none())?;
    Some(Limits::rolling(replicas, canary.max_surge.as_ref(), canary.max_unavailable.as_ref()))
}

fn wanted(world: &World) -> i32 {
    world.sets.iter().map(|set| set.wanted).sum()
}

fn available(world: &World) -> i32 {
    world.sets.iter().map(|set| set.available).sum()
}

fn check(before: &World, after: &World, plan: &RolloutPlan) -> Result<(), TestCaseError> {
    if let Some(limits) = limits(after) {
        let (was, is) = (wanted(before), wanted(after));
        prop_assert!(is <= limits.most() || is <= was, "{is} pods are wanted, {} are allowed", limits.most());
        let (was, is) = (available(before), available(after));
        prop_assert!(
            is >= limits.least().min(was),
            "{is} of {was} available pods are left, {} are needed",
            limits.least()
        );
    }
    for action in &plan.actions {
        if let Action::SetTraffic { wish, canary_service, .. } = action {
            let sum = wish.stable + wish.canary + wish.additional.values().sum::<i32>();
            prop_assert_eq!(sum, 100);
            let hash = after.services[canary_service].as_ref().unwrap().hash().unwrap_or_default().to_owned();
            let serving = before.sets.iter().find(|set| set.hash() == Some(&hash));
            let ready = serving.is_some_and(|set| set.available > 0);
            prop_assert!(
                wish.canary == 0 || ready,
                "{} % of the traffic for pods that are not ready",
                wish.canary
            );
        }
    }
    Ok(())
}

fn happen(world: &mut World, event: &Event) -> Result<(), TestCaseError> {
    match event {
        Event::Round => {
            let before = world.clone();
            let plan = world.round();
            check(&before, world, &plan)?;
        }
        Event::Pods => world.kubelet(),
        Event::Wait(seconds) => {
            world.now = world.now.checked_add(std::time::Duration::from_secs(*seconds)).unwrap();
        }
        Event::Image(version) => world.set_image(&format!("web:{version}")),
        Event::Scale(replicas) => world.rollout.spec.replicas = *replicas,
        Event::Promote => world.promote(),
        Event::PromoteFull => world.edit(|status| status.promote_full = true),
        Event::Abort => world.abort(),
        Event::Retry => world.retry(),
        Event::Break(version) => {
            world.broken.insert(format!("web:{version}"));
        }
        Event::Heal => world.broken.clear(),
        Event::Hold(paused) => world.rollout.spec.paused = *paused,
        Event::Run(phase) => {
            if let Some(run) = world.runs.iter_mut().rfind(|run| !run.phase.completed()) {
                run.phase = *phase;
            }
        }
        Event::Crash(actions) => world.crash_after(*actions),
    }
    Ok(())
}

/// Everything that is waited for comes: pods, times, runs and people.
fn to_the_end(world: &mut World) {
    world.broken.clear();
    world.rollout.spec.paused = false;
    for _ in 0..40 {
        world.wait(61);
        for run in &mut world.runs {
            if !run.phase.completed() {
                run.phase = RunPhase::Successful;
            }
        }
        world.promote();
        world.wait(61);
        if world.phase() == Phase::Completed || world.status().abort {
            world.wait(61);
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_limits_hold_and_the_end_is_reached(
        strategy in strategies(),
        replicas in 0..8i32,
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let mut world = World::healthy(strategy, replicas);
        for event in &events {
            happen(&mut world, event)?;
        }
        world.settle();
        let status = world.status();
        prop_assert!(
            status.phase == Some(Phase::Completed) || status.message.is_some_and(|message| !message.is_empty()),
            "it waits and does not say for what"
        );
        prop_assert!(world.plan().actions.is_empty(), "replanning gives nothing");
        to_the_end(&mut world);
        let status = world.status();
        prop_assert!(status.phase == Some(Phase::Completed) || status.abort, "{:?}: {:?}", status.phase, status.message);
        if let Some(route) = world.routes.first() {
            let seen = route.seen.clone().unwrap();
            prop_assert_eq!((seen.stable, seen.canary), (100, 0));
            let stable = world.services["s"].as_ref().unwrap().hash().map(str::to_owned);
            prop_assert!(stable == status.stable_rs || replicas == 0 || world.rollout.spec.replicas == 0);
        }
    }

    #[test]
    fn a_crash_after_any_action_leads_to_the_same_end(
        strategy in strategies(),
        events in proptest::collection::vec(event(), 0..20),
        crashes in proptest::collection::vec(0..5usize, 1..5),
    ) {
        let events: Vec<Event> = events.into_iter().filter(|event| !matches!(event, Event::Crash(_))).collect();
        let mut calm = World::healthy(strategy, 4);
        let mut shaken = calm.clone();
        for event in &events {
            happen(&mut calm, event)?;
            happen(&mut shaken, event)?;
            calm.settle();
            for crash in &crashes {
                shaken.crash_after(*crash);
                shaken.round();
                shaken.kubelet();
            }
            shaken.settle();
        }
        let images = ["web:1", "web:2", "web:3", "web:4"];
        prop_assert_eq!(calm.counts(images), shaken.counts(images));
        let (one, other) = (calm.status(), shaken.status());
        prop_assert_eq!((one.phase, one.stable_rs, one.current_step_index), (other.phase, other.stable_rs, other.current_step_index));
        let seen = |world: &World| world.routes.iter().map(|route| route.seen.clone()).collect::<Vec<_>>();
        prop_assert_eq!(seen(&calm), seen(&shaken));
    }

    #[test]
    fn an_aborted_update_ends_with_all_traffic_and_pods_on_stable(
        strategy in strategies(), rounds in 0..40usize, replicas in 1..8i32,
    ) {
        let mut world = World::healthy(strategy, replicas);
        let stable = world.status().stable_rs;
        world.set_image("web:2");
        for _ in 0..rounds {
            world.round();
            world.kubelet();
            for run in &mut world.runs {
                run.phase = RunPhase::Successful;
            }
            world.promote();
        }
        prop_assume!(world.status().stable_rs == stable && world.status().current_pod_hash != stable);
        world.abort();
        world.run_out();
        let status = world.status();
        prop_assert_eq!((status.phase, status.stable_rs.clone()), (Some(Phase::Failed), stable));
        prop_assert_eq!(world.counts(["web:1"]), [replicas]);
        for service in ["s", "a"] {
            if let Some(Some(facts)) = world.services.get(service) {
                prop_assert_eq!(facts.hash(), status.stable_rs.as_deref());
            }
        }
        if !world.routes.is_empty() {
            prop_assert_eq!(world.weights(), (100, 0));
            prop_assert_eq!(world.counts(["web:2"]), [0]);
        }
    }
}

#[test]
fn an_ab_test_is_a_canary_in_another_dress() {
    let strategy: windlass_api::rollout::Strategy = serde_json::from_value(json!({ "abTest": {
        "stableService": "s", "canaryService": "c", "trafficRouting": { "gatewayAPI": { "httpRoute": "r" } },
        "variant": { "match": [{ "header": { "name": "x", "value": { "exact": "b" } } }] },
    } }))
    .unwrap();
    let canary = as_canary(strategy.ab_test.as_ref().unwrap());
    assert_eq!(canary.steps.len(), 3);
    assert_eq!(canary.traffic_routing.unwrap().managed_routes[0].name, "variant-b");
}
