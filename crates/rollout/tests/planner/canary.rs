//! Canaries, simple updates and pauses, without routes.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use std::time::Duration;

use serde_json::json;
use windlass_api::{
    condition,
    rollout::status::{
        COMPLETED, DEGRADED, HEALTHY, PAUSED, PROGRESSING, PauseReason, Phase, RunPhase, TransitionKind,
    },
};
use windlass_cluster::drive::Wake;
use windlass_rollout::plan::Action;

use crate::world::World;

fn steps(steps: serde_json::Value) -> serde_json::Value {
    json!({ "canary": { "steps": steps, "maxSurge": 1, "maxUnavailable": 0 } })
}

fn holds(world: &World, type_: &str) -> String {
    condition::get(&world.status().conditions, type_).map_or("absent".into(), |found| found.status.clone())
}

#[test]
fn the_first_deployment_skips_all_steps() {
    let world = World::healthy(steps(json!([{ "setWeight": 20 }, { "pause": {} }])), 5);
    let status = world.status();
    assert_eq!(world.counts(["web:1"]), [5]);
    assert_eq!((status.current_step_index, status.step.as_deref()), (Some(2), Some("2/2")));
    assert_eq!(status.stable_rs, status.current_pod_hash);
    assert_eq!((holds(&world, HEALTHY), holds(&world, COMPLETED)), ("True".into(), "True".into()));
    let kinds: Vec<_> = status.transitions.iter().map(|transition| transition.kind).collect();
    assert_eq!(kinds, [TransitionKind::Deployed, TransitionKind::Published]);
}

#[test]
fn a_first_deployment_that_is_not_up_is_initializing() {
    let mut world = World::new(steps(json!([{ "setWeight": 20 }])), 3);
    world.broken.insert("web:1".into());
    world.settle();
    assert_eq!(world.phase(), Phase::Initializing);
    assert!(world.status().message.unwrap().contains("0 of 3"), "{:?}", world.status().message);
}

#[test]
fn a_simple_update_replaces_pods_within_surge_and_unavailability() {
    let mut world = World::healthy(json!({ "simple": { "maxSurge": 1, "maxUnavailable": 0 } }), 4);
    world.set_image("web:2");
    for _ in 0..40 {
        world.round();
        let wanted: i32 = world.sets.iter().map(|set| set.wanted).sum();
        let available: i32 = world.sets.iter().map(|set| set.available).sum();
        assert!(wanted <= 5 && available >= 4, "{wanted} {available}");
        world.kubelet();
    }
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([0, 4], Phase::Completed));
}

#[test]
fn weights_and_pauses_are_gone_through_in_order() {
    let mut world = World::healthy(
        steps(
            json!([{ "setWeight": 20 }, { "pause": { "duration": "10s" } }, { "setWeight": 60 }, { "pause": {} }]),
        ),
        5,
    );
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([4, 1], Phase::Paused));
    assert_eq!(world.status().current_step_index, Some(1));
    assert_eq!(holds(&world, PAUSED), "True");
    let Wake::After(wait) = world.plan().wake else { panic!("nothing wakes it") };
    assert!(wait > Duration::from_secs(9) && wait < Duration::from_secs(11), "{wait:?}");
    world.wait(9);
    assert_eq!(world.status().current_step_index, Some(1), "the time is not over");
    world.wait(2);
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([2, 3], Phase::Paused));
    assert_eq!(world.status().current_step_index, Some(3));
    world.wait(100_000);
    assert_eq!(world.phase(), Phase::Paused, "it waits until promoted");
    assert!(world.status().message.unwrap().contains("promoted"));
    world.promote();
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([0, 5], Phase::Completed));
    assert_eq!(world.status().transitions.last().unwrap().kind, TransitionKind::Upgraded);
    assert_eq!(holds(&world, PAUSED), "False");
}

#[test]
fn a_promotion_of_one_pause_does_not_skip_the_next() {
    let mut world = World::healthy(
        steps(json!([{ "pause": {} }, { "pause": {} }, { "setWeight": 50 }, { "pause": {} }])),
        2,
    );
    world.set_image("web:2");
    for index in [0, 1, 3] {
        world.settle();
        assert_eq!((world.status().current_step_index, world.phase()), (Some(index), Phase::Paused));
        world.promote();
    }
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_verb_may_move_the_step_by_itself() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }])),
        5,
    );
    world.set_image("web:2");
    world.settle();
    world.edit(|status| {
        status.pause_conditions.clear();
        status.controller_pause = false;
        status.current_step_index = Some(2);
    });
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.status().current_step_index), ([2, 3], Some(3)));
}

#[test]
fn a_full_promotion_skips_steps_and_pauses() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }])),
        5,
    );
    world.set_image("web:2");
    world.settle();
    world.edit(|status| status.promote_full = true);
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([0, 5], Phase::Completed));
    assert!(!world.status().promote_full);
}

#[test]
fn an_abort_brings_the_stable_version_back_and_stays_failed_until_retried() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 60 }, { "pause": {} }])), 5);
    world.set_image("web:2");
    world.settle();
    assert_eq!(world.counts(["web:1", "web:2"]), [2, 3]);
    world.abort();
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([5, 0], Phase::Failed));
    assert_eq!((holds(&world, DEGRADED), holds(&world, PROGRESSING)), ("True".into(), "False".into()));
    let last = world.status().transitions.last().unwrap().clone();
    assert_eq!(
        (last.kind, last.revision, last.image.as_deref()),
        (TransitionKind::RolledBack, 1, Some("web:1"))
    );
    world.wait(100_000);
    assert_eq!(world.phase(), Phase::Failed);
    world.retry();
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([2, 3], Phase::Paused));
    assert!(world.status().aborted_at.is_none());
    world.promote();
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn an_abort_where_nothing_goes_on_changes_nothing() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 60 }, { "pause": {} }])), 5);
    world.abort();
    world.settle();
    assert_eq!(
        (world.counts(["web:1"]), world.phase(), world.status().abort),
        ([5], Phase::Completed, false)
    );
}

#[test]
fn a_new_template_in_mid_rollout_begins_at_the_first_step_and_the_one_between_goes() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 40 }, { "pause": {} }, { "setWeight": 80 }, { "pause": {} }])),
        5,
    );
    world.set_image("web:2");
    world.settle();
    world.promote();
    world.settle();
    assert_eq!(world.counts(["web:1", "web:2"]), [1, 4]);
    world.set_image("web:3");
    world.settle();
    assert_eq!(world.status().current_step_index, Some(1));
    assert_eq!(world.counts(["web:1", "web:2", "web:3"]), [3, 0, 2]);
}

#[test]
fn going_back_to_the_stable_template_skips_all_steps() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    world.set_image("web:2");
    world.settle();
    world.set_image("web:1");
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([5, 0], Phase::Completed));
    assert_eq!(world.status().current_step_index, Some(2));
    assert!(world.notes.contains(&"SkipSteps".to_owned()));
}

#[test]
fn an_aborted_update_ends_with_a_new_template() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    world.set_image("web:2");
    world.settle();
    world.abort();
    world.settle();
    world.set_image("web:3");
    world.settle();
    assert_eq!((world.phase(), world.status().abort), (Phase::Paused, false));
    assert_eq!(world.counts(["web:1", "web:2", "web:3"]), [3, 0, 2]);
}

#[test]
fn a_rollback_within_the_window_skips_steps_and_one_beyond_it_does_not() {
    for (window, phase) in [(3, Phase::Completed), (1, Phase::Paused)] {
        let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
        world.rollout.spec.rollback_window =
            Some(windlass_api::rollout::RollbackWindow { revisions: window });
        for version in 2..=3 {
            world.set_image(&format!("web:{version}"));
            world.settle();
            world.promote();
            world.settle();
        }
        world.set_image("web:1");
        world.settle();
        assert_eq!(world.phase(), phase, "window of {window}");
    }
}

#[test]
fn spec_paused_holds_everything_where_it_is() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": { "duration": 5 } }])), 5);
    world.rollout.spec.paused = true;
    world.set_image("web:2");
    world.wait(1000);
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([5, 0], Phase::Paused));
    assert_eq!(world.of_image("web:2").unwrap().wanted, 0, "the revision is there already");
    world.rollout.spec.paused = false;
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.phase()), ([3, 2], Phase::Paused));
    world.rollout.spec.paused = true;
    world.wait(1000);
    assert_eq!(world.counts(["web:1", "web:2"]), [3, 2], "a pause step is not left either");
    world.rollout.spec.paused = false;
    world.wait(1);
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_scale_in_mid_rollout_keeps_the_share() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    world.set_image("web:2");
    world.settle();
    world.rollout.spec.replicas = 10;
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.status().current_step_index), ([6, 4], Some(1)));
    world.rollout.spec.replicas = 5;
    world.settle();
    assert_eq!((world.counts(["web:1", "web:2"]), world.status().current_step_index), ([3, 2], Some(1)));
    assert_eq!(world.phase(), Phase::Paused);
}

#[test]
fn a_healthy_rollout_scales_both_ways() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    for replicas in [12, 2, 0, 3] {
        world.rollout.spec.replicas = replicas;
        world.settle();
        assert_eq!((world.counts(["web:1"]), world.phase()), ([replicas], Phase::Completed));
        assert_eq!(world.status().hpa_replicas, replicas);
    }
}

#[test]
fn pods_that_never_become_ready_hold_the_update_and_are_told_after_the_deadline() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    world.rollout.spec.progress_deadline_seconds = Some(60);
    world.broken.insert("web:2".into());
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.phase(), world.status().current_step_index), (Phase::Progressing, Some(0)));
    world.wait(50);
    assert_eq!(world.phase(), Phase::Progressing);
    world.wait(20);
    assert_eq!(world.phase(), Phase::Failed);
    let progressing = condition::get(&world.status().conditions, PROGRESSING).unwrap().clone();
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_str()),
        ("False", "ProgressDeadlineExceeded")
    );
    world.broken.clear();
    world.settle();
    assert_eq!(world.phase(), Phase::Paused, "it goes on when pods are ready after all");
}

#[test]
fn the_deadline_counts_from_the_last_progress_and_not_while_paused() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }])),
        5,
    );
    world.rollout.spec.progress_deadline_seconds = Some(60);
    world.rollout.spec.progress_deadline_abort = true;
    world.set_image("web:2");
    world.settle();
    world.wait(1000);
    assert_eq!(world.phase(), Phase::Paused);
    world.broken.insert("web:2".into());
    world.promote();
    world.settle();
    world.wait(50);
    assert_eq!(world.phase(), Phase::Progressing);
    world.wait(20);
    assert_eq!((world.phase(), world.status().abort), (Phase::Failed, true));
    assert!(world.status().abort_reason.unwrap().contains("deadline"));
    world.retry();
    world.settle();
    assert_eq!(
        (world.phase(), world.status().abort),
        (Phase::Progressing, false),
        "a retry has its own time"
    );
    world.wait(61);
    assert_eq!(world.phase(), Phase::Failed);
}

#[test]
fn a_full_promotion_is_past_all_steps_before_its_pods_are_there() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 20 }, { "pause": {} }])), 5);
    world.broken.insert("web:2".into());
    world.set_image("web:2");
    world.settle();
    world.edit(|status| status.promote_full = true);
    world.settle();
    assert_eq!((world.phase(), world.status().current_step_index), (Phase::Progressing, Some(2)));
    world.broken.clear();
    world.settle();
    assert_eq!((world.phase(), world.counts(["web:1", "web:2"])), (Phase::Completed, [0, 5]));
}

#[test]
fn a_failed_step_analysis_aborts_and_a_retry_makes_a_new_run() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 40 }, { "analysis": { "templates": [{ "templateName": "errors" }],
            "args": [{ "name": "hash", "valueFrom": { "podTemplateHashValue": "Latest" } },
                     { "name": "old", "valueFrom": { "podTemplateHashValue": "Stable" } },
                     { "name": "ns", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }] } }])),
        5,
    );
    world.set_image("web:2");
    for _ in 0..20 {
        let plan = world.round();
        world.kubelet();
        if let Some(Action::CreateRun(run)) = plan.actions.iter().find(|a| matches!(a, Action::CreateRun(_)))
        {
            assert_eq!(run.args["ns"], "shop");
            assert_eq!(Some(&run.args["hash"]), world.status().current_pod_hash.as_ref());
            assert_eq!(Some(&run.args["old"]), world.status().stable_rs.as_ref());
        }
    }
    assert_eq!(world.runs.len(), 1, "one run for one attempt");
    assert!(world.status().message.unwrap().contains("AnalysisRun"));
    world.finish_run("web", RunPhase::Failed);
    world.settle();
    assert_eq!((world.phase(), world.counts(["web:1", "web:2"])), (Phase::Failed, [5, 0]));
    world.retry();
    world.settle();
    assert_eq!(world.runs.len(), 2);
    world.finish_run("web", RunPhase::Successful);
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn an_inconclusive_analysis_pauses_and_measures_again_when_resumed() {
    let mut world = World::healthy(
        steps(json!([{ "setWeight": 40 }, { "analysis": { "templates": [{ "templateName": "errors" }] } }])),
        5,
    );
    world.set_image("web:2");
    world.settle();
    world.finish_run("web", RunPhase::Inconclusive);
    world.settle();
    assert_eq!(world.phase(), Phase::Paused);
    assert_eq!(world.status().pause_conditions[0].reason, PauseReason::InconclusiveAnalysisRun);
    world.promote();
    world.settle();
    assert_eq!((world.runs.len(), world.phase()), (2, Phase::Progressing));
    world.finish_run("web", RunPhase::Successful);
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_background_analysis_begins_at_its_step_and_ends_with_the_update() {
    let mut world = World::healthy(
        json!({ "canary": {
            "steps": [{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }],
            "analysis": { "templates": [{ "templateName": "errors" }], "startingStep": 2 },
        } }),
        5,
    );
    world.set_image("web:2");
    world.settle();
    assert!(world.runs.is_empty());
    world.promote();
    world.settle();
    assert_eq!(world.runs.len(), 1);
    assert!(!world.runs[0].terminating);
    world.promote();
    world.settle();
    assert!(world.runs[0].terminating);
    assert_eq!(world.phase(), Phase::Completed);
    world.set_image("web:3");
    world.settle();
    world.promote();
    world.settle();
    world.finish_run("web", RunPhase::Error);
    world.settle();
    assert_eq!((world.phase(), world.counts(["web:2", "web:3"])), (Phase::Failed, [5, 0]));
}

#[test]
fn an_experiment_step_runs_and_judges() {
    let strategy = steps(json!([{ "experiment": { "duration": "5m", "templates": [
        { "name": "baseline", "specRef": "stable" }, { "name": "canary", "specRef": "canary", "replicas": 2 }],
        "analyses": [{ "name": "errors", "templateName": "errors" }] } }, { "setWeight": 50 }, { "pause": {} }]));
    for (phase, expected) in [
        (RunPhase::Successful, Phase::Paused),
        (RunPhase::Failed, Phase::Failed),
        (RunPhase::Inconclusive, Phase::Paused),
    ] {
        let mut world = World::healthy(strategy.clone(), 4);
        world.set_image("web:2");
        world.settle();
        assert_eq!(world.experiments.len(), 1);
        world.experiments[0].phase = phase;
        world.settle();
        assert_eq!(world.phase(), expected);
        let at = if phase == RunPhase::Successful { Some(2) } else { Some(0) };
        assert_eq!(world.status().current_step_index, at);
    }
}

#[test]
fn steps_that_are_changed_in_mid_rollout_wait_for_a_word_and_nothing_moves() {
    let mut world = World::healthy(steps(json!([{ "setWeight": 40 }, { "pause": {} }])), 5);
    world.set_image("web:2");
    world.settle();
    let new: windlass_api::rollout::Strategy =
        serde_json::from_value(steps(json!([{ "setWeight": 80 }, { "setWeight": 20 }, { "pause": {} }])))
            .unwrap();
    let old = std::mem::replace(&mut world.rollout.spec.strategy, new.clone());
    world.wait(1000);
    assert_eq!((world.phase(), world.counts(["web:1", "web:2"])), (Phase::Paused, [3, 2]));
    assert!(world.status().message.unwrap().contains("StepsChanged"));
    world.rollout.spec.strategy = old;
    world.settle();
    assert!(world.status().message.unwrap().contains("CanaryPauseStep"), "{:?}", world.status().message);
    world.rollout.spec.strategy = new;
    world.settle();
    world.promote();
    world.settle();
    assert_eq!((world.status().current_step_index, world.counts(["web:1", "web:2"])), (Some(2), [4, 1]));
}

#[test]
fn a_restart_replaces_old_pods_one_by_one_and_asks_again_when_refused() {
    let mut world = World::healthy(json!({ "canary": { "maxUnavailable": 0, "maxSurge": 1 } }), 3);
    world.now = world.now.checked_add(Duration::from_secs(100)).unwrap();
    let at = windlass_api::condition::whole_seconds(world.now);
    world.rollout.spec.restart_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
    world.protected = true;
    world.now = world.now.checked_add(Duration::from_secs(1)).unwrap();
    let plan = world.round();
    let evictions = plan.actions.iter().filter(|action| matches!(action, Action::EvictPod { .. })).count();
    assert_eq!(evictions, 1, "never more than may be missing");
    assert!(matches!(plan.wake, Wake::After(_)), "a refusal is asked again");
    assert_eq!(world.phase(), Phase::Progressing);
    world.protected = false;
    for _ in 0..10 {
        world.round();
        world.kubelet();
    }
    assert!(world.pods.iter().all(|pod| pod.created >= at));
    assert_eq!(world.status().restarted_at.unwrap().0, at);
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn pods_have_the_metadata_of_the_part_that_they_play() {
    let mut world = World::healthy(
        json!({ "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }],
            "canaryMetadata": { "labels": { "role": "canary" }, "annotations": { "note": "new" } },
            "stableMetadata": { "labels": { "role": "stable" } } } }),
        2,
    );
    let roles = |world: &World, image: &str| -> Vec<Option<String>> {
        let uid = &world.of_image(image).unwrap().uid;
        world
            .pods
            .iter()
            .filter(|pod| pod.replica_set == *uid)
            .map(|pod| pod.labels.get("role").cloned())
            .collect()
    };
    assert_eq!(roles(&world, "web:1"), vec![Some("stable".into()); 2]);
    world.set_image("web:2");
    world.settle();
    assert_eq!(roles(&world, "web:2"), [Some("canary".into())]);
    world.promote();
    world.settle();
    assert_eq!(roles(&world, "web:2"), vec![Some("stable".into()); 2]);
    assert!(world.pods.iter().all(|pod| !pod.annotations.contains_key("note")));
    assert!(world.of_image("web:1").unwrap().template.pointer("/metadata/labels/role").is_none());
    assert_eq!(world.sets.len(), 2, "metadata is no new revision");
}

#[test]
fn new_pods_keep_away_from_the_stable_version() {
    let mut world = World::healthy(
        json!({ "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }],
            "antiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {} } } }),
        2,
    );
    assert!(world.of_image("web:1").unwrap().template.pointer("/spec/affinity").is_none());
    world.set_image("web:2");
    world.settle();
    let set = world.of_image("web:2").unwrap();
    let terms = &set.template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let rule = &terms[0]["labelSelector"]["matchExpressions"][0];
    assert_eq!(rule["values"][0].as_str(), world.status().stable_rs.as_deref());
    world.promote();
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.sets.len(), 2, "the rule is no new revision");
}

#[test]
fn a_pause_is_no_longer_than_asked_for_when_the_clock_is_set_back() {
    let mut world = World::healthy(
        steps(
            json!([{ "setWeight": 20 }, { "pause": { "duration": "30s" } }, { "setWeight": 60 }, { "pause": {} }]),
        ),
        5,
    );
    world.set_image("web:2");
    world.settle();
    assert_eq!((world.phase(), world.status().current_step_index), (Phase::Paused, Some(1)));
    world.now = world.now.checked_sub(std::time::Duration::from_secs(3000)).unwrap();
    world.settle();
    world.wait(29);
    assert_eq!(world.status().current_step_index, Some(1));
    world.wait(2);
    assert_eq!(world.status().current_step_index, Some(3));
}
