//! A Rollout in words: what its strategy is called, where it is, what it waits for.

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::rollout::{
    CanaryStep, Rollout, RolloutStatus,
    status::{PauseReason, Phase},
};

use crate::show::line;

/// The status, or an empty one.
pub(super) fn status(rollout: &Rollout) -> RolloutStatus {
    rollout.status.clone().unwrap_or_default()
}

/// `shop/web`
pub(super) fn title(rollout: &Rollout) -> String {
    format!("{}/{}", rollout.namespace().unwrap_or_default(), rollout.name_any())
}

/// The phase in a word.
pub(super) fn phase(rollout: &Rollout) -> &'static str {
    match rollout.status.as_ref().and_then(|status| status.phase) {
        None => "Unknown",
        Some(Phase::Initializing) => "Initializing",
        Some(Phase::Progressing) => "Progressing",
        Some(Phase::Preview) => "Preview",
        Some(Phase::Paused) => "Paused",
        Some(Phase::Completed) => "Completed",
        Some(Phase::Failed) => "Failed",
    }
}

/// The controller has not looked at the newest spec yet: the status speaks of an earlier one.
pub(super) fn is_behind(rollout: &Rollout) -> bool {
    let seen = rollout.status.as_ref().and_then(|status| status.observed_generation);
    seen != rollout.metadata.generation
}

/// The strategy's name.
pub(super) fn strategy(rollout: &Rollout) -> &'static str {
    let strategy = &rollout.spec.strategy;
    if strategy.canary.is_some() {
        "Canary"
    } else if strategy.blue_green.is_some() {
        "BlueGreen"
    } else if strategy.ab_test.is_some() {
        "ABTest"
    } else if strategy.simple.is_some() {
        "Simple"
    } else {
        "<none>"
    }
}

/// Steps of a canary; none for other strategies.
pub(super) fn steps(rollout: &Rollout) -> &[CanaryStep] {
    rollout.spec.strategy.canary.as_ref().map_or(&[], |canary| canary.steps.as_slice())
}

/// How many steps there are. Those of an A/B test are made by the controller, which counts them in the status.
pub(super) fn step_count(rollout: &Rollout) -> usize {
    let own = steps(rollout).len();
    let counted =
        rollout.status.as_ref().and_then(|status| status.step.as_deref()?.split_once('/')?.1.parse().ok());
    if rollout.spec.strategy.ab_test.is_some() { counted.unwrap_or(0) } else { own }
}

/// The step that it is at, counted from 0.
pub(super) fn step_index(rollout: &Rollout) -> usize {
    let index = rollout.status.as_ref().and_then(|status| status.current_step_index).unwrap_or(0);
    usize::try_from(index).unwrap_or(0).min(step_count(rollout))
}

/// The weight that the steps ask for at this moment; `None` without steps.
pub(super) fn set_weight(rollout: &Rollout) -> Option<i32> {
    let (steps, status) = (steps(rollout), status(rollout));
    if steps.is_empty() {
        return None;
    }
    let index = step_index(rollout);
    let routing = rollout.spec.strategy.canary.as_ref().and_then(|canary| canary.traffic_routing.as_ref());
    let full = routing.and_then(|routing| routing.max_traffic_weight).unwrap_or(100);
    Some(if status.abort {
        0
    } else if index >= steps.len() {
        full
    } else {
        steps[..=index].iter().rev().find_map(|step| step.set_weight).unwrap_or(0)
    })
}

/// An update goes on, or was taken back: the newest template is not the stable one.
pub(super) fn is_updating(status: &RolloutStatus) -> bool {
    status.current_pod_hash.is_some() && status.current_pod_hash != status.stable_rs
}

/// What it waits for, on one line.
pub(super) fn waits_for(rollout: &Rollout, now: Timestamp) -> Option<String> {
    let status = status(rollout);
    if is_behind(rollout) {
        return Some("The controller has not seen the newest spec yet".to_owned());
    }
    if rollout.spec.paused && !status.abort {
        return Some(format!("It is paused: windlass rollout resume {}", rollout.name_any()));
    }
    let by_hand = format!("windlass rollout promote {}", rollout.name_any());
    let told = status.message.as_deref().map(line).filter(|text| !text.is_empty());
    let Some(pause) = status.pause_conditions.first() else { return told };
    let since = crate::show::span(now.as_second() - pause.start_time.0.as_second());
    let why = match pause.reason {
        PauseReason::CanaryPauseStep => {
            let step = steps(rollout).get(step_index(rollout)).and_then(|step| step.pause.as_ref());
            match step.and_then(|pause| pause.duration.as_ref()) {
                Some(duration) => return Some(format!("A pause of {duration}, since {since}")),
                None => "A pause until it is promoted",
            }
        }
        PauseReason::BlueGreenPause => "The switch to the new version",
        PauseReason::InconclusiveAnalysisRun => "An analysis that did not say whether it is good or bad",
        PauseReason::InconclusiveExperiment => "An experiment that did not say whether it is good or bad",
        PauseReason::StepsChanged => "The steps were changed under way",
    };
    Some(format!("{why}, since {since}: {by_hand}"))
}
