//! The numbers of the status, the phase, and the words that say what is waited for.

use windlass_api::rollout::{
    RolloutStatus,
    status::{PauseCondition, PauseReason, Phase, TrafficWeights, WeightDestination},
};

use super::{
    draft::Draft,
    scene::{Scene, Way},
    steps::{self, Walk, words},
    traffic,
};
use crate::{
    observed::{ReplicaSetFacts, WorkloadFacts},
    revision::claim::selector_text,
};

/// The stored status with the numbers of now.
pub(crate) fn counted(scene: &Scene<'_>) -> RolloutStatus {
    let mut next = scene.status.as_ref().clone();
    let sum = |of: fn(&ReplicaSetFacts) -> i32| scene.roles.all.iter().map(|set| of(set)).sum::<i32>();
    next.observed_generation = scene.rollout.metadata.generation;
    next.replicas = sum(|set| set.replicas);
    next.updated_replicas = scene.roles.new.map_or(0, |new| new.replicas);
    next.ready_replicas = sum(|set| set.ready);
    next.available_replicas = sum(|set| set.available);
    next.hpa_replicas = next.replicas;
    next.selector = Some(selector_text(&scene.selector));
    next.workload_observed_generation = match &scene.observed.workload {
        Some(WorkloadFacts::Found { generation, .. }) => Some(*generation),
        _ => None,
    };
    if let Way::BlueGreen(blue_green) = &scene.way {
        let active = scene.service(&blue_green.active_service).and_then(|service| service.hash());
        let set = scene.roles.all.iter().find(|set| active.is_some() && set.hash() == active);
        if let (Some(set), Some(hash)) = (set, active) {
            next.hpa_replicas = set.replicas;
            next.available_replicas = set.available;
            next.ready_replicas = set.ready;
            let key = windlass_api::rollout::POD_TEMPLATE_HASH;
            next.selector = Some(format!("{},{key}={hash}", selector_text(&scene.selector)));
        }
    }
    next
}

/// Whether something moved between two statuses.
pub(crate) fn moved(before: &RolloutStatus, after: &RolloutStatus) -> bool {
    let old = |status: &RolloutStatus| status.replicas - status.updated_replicas;
    after.updated_replicas != before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
        || after.stable_rs != before.stable_rs
        || after.current_pod_hash != before.current_pod_hash
        || after.current_step_index != before.current_step_index
        || after.current_step_hash != before.current_step_hash
        || after.blue_green.active_selector != before.blue_green.active_selector
        || after.blue_green.preview_selector != before.blue_green.preview_selector
}

/// Writes what the routes say, and the columns that people see.
pub(crate) fn columns(scene: &Scene<'_>, draft: &mut Draft) {
    let Way::Canary(canary) = &scene.way else {
        draft.next.canary = windlass_api::rollout::status::CanaryStatus::default();
        draft.next.step = None;
        let switched = draft.next.blue_green.active_selector.as_deref() == Some(&scene.hash);
        draft.next.weight = Some(if switched { 100 } else { 0 });
        return;
    };
    draft.next.blue_green = windlass_api::rollout::status::BlueGreenStatus::default();
    let walk = Walk::new(scene, canary);
    let count = canary.steps.len();
    draft.next.step = (count > 0).then(|| format!("{}/{count}", draft.next.current_step_index.unwrap_or(0)));
    let hash_of = |name: Option<&str>| name.and_then(|name| scene.service(name)?.hash()).map(str::to_owned);
    draft.next.canary.weights =
        traffic::seen(scene).filter(|_| walk.routed()).map(|(canary_weight, stable_weight)| {
            let destination = |weight, service: Option<&String>| WeightDestination {
                weight,
                service_name: service.cloned(),
                pod_template_hash: hash_of(service.map(String::as_str)),
            };
            let additional = scene.observed.routes.iter().find_map(|route| route.seen.as_ref());
            TrafficWeights {
                canary: destination(canary_weight, canary.canary_service.as_ref()),
                stable: destination(stable_weight, canary.stable_service.as_ref()),
                additional: additional
                    .into_iter()
                    .flat_map(|seen| &seen.additional)
                    .map(|(service, weight)| destination(*weight, Some(service)))
                    .collect(),
                verified: Some(draft.settled),
            }
        });
    let promoted = draft.next.stable_rs == draft.next.current_pod_hash;
    draft.next.weight = Some(match &draft.next.canary.weights {
        _ if promoted => 100,
        Some(weights) => weights.canary.weight,
        None => steps::share_of_pods(scene),
    });
}

/// The whole in one word, and what is waited for. `stuck` and an abort are known already.
pub(crate) fn phase(scene: &Scene<'_>, draft: &Draft, stuck: bool) -> (Phase, Option<String>) {
    let next = &draft.next;
    let new = scene.roles.new.map_or(scene.name, |new| new.name.as_str());
    if next.abort {
        let why = next.abort_reason.as_deref().unwrap_or("asked for");
        let revision = next.revision.unwrap_or_default();
        return (
            Phase::Failed,
            Some(format!("RolloutAborted: the update to revision {revision} was taken back: {why}")),
        );
    }
    if stuck {
        return (
            Phase::Failed,
            Some(format!("ProgressDeadlineExceeded: ReplicaSet {new} has made no progress")),
        );
    }
    if scene.spec.paused {
        return (Phase::Paused, Some("paused by spec.paused".into()));
    }
    let promoted = next.stable_rs.is_some() && next.stable_rs == next.current_pod_hash;
    let going = if promoted && first(next) { Phase::Initializing } else { Phase::Progressing };
    let going = match &scene.way {
        Way::BlueGreen(_) if !promoted && next.stable_rs.is_some() => Phase::Preview,
        _ if next.stable_rs.is_none() => Phase::Initializing,
        _ => going,
    };
    if let Some(pause) = most_pressing(next) {
        let preview = pause.reason == PauseReason::BlueGreenPause;
        let phase = if preview { Phase::Preview } else { Phase::Paused };
        return (phase, Some(pause_words(scene, next, pause.reason)));
    }
    match waiting(scene, draft, promoted) {
        Some(what) => (going, Some(what)),
        None => (Phase::Completed, None),
    }
}

/// The pause that a person has to know of first: one that no time ends.
fn most_pressing(status: &RolloutStatus) -> Option<&PauseCondition> {
    let timed = |pause: &&PauseCondition| {
        matches!(pause.reason, PauseReason::CanaryPauseStep | PauseReason::BlueGreenPause)
    };
    let pauses = &status.pause_conditions;
    pauses.iter().find(|pause| !timed(pause)).or_else(|| pauses.first())
}

/// No revision was ever healthy before.
fn first(status: &RolloutStatus) -> bool {
    status.transitions.is_empty()
}

/// What is waited for; nothing when all that is wanted runs.
fn waiting(scene: &Scene<'_>, draft: &Draft, promoted: bool) -> Option<String> {
    let next = &draft.next;
    let replicas = scene.replicas();
    if scene.spec.restart_at.is_some()
        && super::restart::due(scene.rollout, scene.now)
        && next.restarted_at != scene.spec.restart_at
    {
        return Some(draft.waits_for.clone().unwrap_or_else(|| "the pods are being made anew".into()));
    }
    if !promoted {
        return Some(on_the_way(scene, draft));
    }
    if next.updated_replicas < replicas {
        return Some(format!("{} of {replicas} pods are of the newest revision", next.updated_replicas));
    }
    if next.available_replicas < next.updated_replicas {
        return Some(format!(
            "{} of {} new pods are available",
            next.available_replicas, next.updated_replicas
        ));
    }
    match &scene.way {
        Way::BlueGreen(blue_green) => {
            let switched = next.blue_green.active_selector == next.current_pod_hash;
            (!switched).then(|| format!("waits for the switch of Service {}", blue_green.active_service))
        }
        Way::Canary(canary) if canary.traffic_routing.is_none() => {
            let old = next.replicas - next.updated_replicas;
            (old > 0).then(|| format!("waits until {old} old pods are gone"))
        }
        Way::Canary(_) => {
            (!draft.settled).then(|| draft.waits_for.clone().unwrap_or_else(|| "waits for the routes".into()))
        }
    }
}

fn on_the_way(scene: &Scene<'_>, draft: &Draft) -> String {
    let (new, count) = scene.roles.new.map_or((0, 0), |new| (new.available, new.wanted));
    let pods = format!("{new} of {count} new pods are available");
    match &scene.way {
        Way::BlueGreen(blue_green) => {
            let status = &draft.next.blue_green;
            let runs =
                [&status.post_promotion_analysis_run_status, &status.pre_promotion_analysis_run_status];
            let run = runs.into_iter().flatten().find(|run| !run.status.completed());
            run.map_or_else(
                || format!("{pods}; then Service {} is switched", blue_green.active_service),
                |run| format!("waits for AnalysisRun {}", run.name),
            )
        }
        Way::Canary(canary) => {
            let walk = Walk::new(scene, canary);
            let mut place = walk.stored();
            place.index =
                draft.next.current_step_index.and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
            let at = walk.step(place).map_or_else(
                || "all steps are done".into(),
                |step| format!("step {}/{} ({})", place.index + 1, canary.steps.len(), words(step)),
            );
            let run = draft
                .next
                .canary
                .current_step_analysis_run_status
                .as_ref()
                .filter(|run| !run.status.completed());
            let what = match (run, &draft.waits_for) {
                (Some(run), _) => format!("waits for AnalysisRun {}", run.name),
                (None, Some(waits)) => waits.clone(),
                (None, None) => pods,
            };
            format!("{at}: {what}")
        }
    }
}

fn pause_words(scene: &Scene<'_>, next: &RolloutStatus, reason: PauseReason) -> String {
    let word = reason.as_str();
    let until = |length: Option<std::time::Duration>| {
        let pause = next.pause_conditions.iter().find(|pause| pause.reason == reason)?;
        let end = pause.start_time.0.checked_add(length?).ok()?;
        Some(format!("{word}: goes on at {}", windlass_api::condition::whole_seconds(end)))
    };
    let by_hand = || format!("{word}: waits until it is promoted");
    match (reason, &scene.way) {
        (PauseReason::CanaryPauseStep, Way::Canary(canary)) => {
            let index = next.current_step_index.and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
            let pause = canary.steps.get(index).and_then(|step| step.pause.as_ref());
            until(pause.and_then(|pause| pause.duration.as_ref()?.length())).unwrap_or_else(by_hand)
        }
        (PauseReason::BlueGreenPause, Way::BlueGreen(blue_green)) => {
            let seconds = blue_green.auto_promotion_seconds.filter(|seconds| *seconds > 0);
            let seconds = seconds.filter(|_| blue_green.auto_promotion_enabled != Some(false));
            until(seconds.map(|seconds| std::time::Duration::from_secs(u64::from(seconds.unsigned_abs()))))
                .unwrap_or_else(by_hand)
        }
        (PauseReason::StepsChanged, _) => {
            format!("{word}: promote to begin with the first of the new steps, or put the old ones back")
        }
        _ => format!("{word}: promote to measure again, or abort"),
    }
}
