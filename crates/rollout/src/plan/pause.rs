//! Pauses and aborts in the status.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use windlass_api::{
    condition::whole_seconds,
    rollout::status::{PauseCondition, PauseReason},
};

use super::{draft::Draft, scene::Scene};

/// Begins to wait.
pub(crate) fn add(scene: &Scene<'_>, draft: &mut Draft, reason: PauseReason) {
    if draft.next.pause_conditions.iter().any(|pause| pause.reason == reason) {
        return;
    }
    draft.next.pause_conditions.push(PauseCondition { reason, start_time: start(scene.now) });
    draft.next.controller_pause = true;
}

/// The time as the API keeps it.
pub(crate) fn start(time: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time))
}

/// Waits for nothing any more.
pub(crate) fn clear(draft: &mut Draft) {
    draft.next.pause_conditions.clear();
    draft.next.controller_pause = false;
}

/// Looks again when a pause is over.
pub(crate) fn wake(draft: &mut Draft, reason: PauseReason, length: Option<Duration>) {
    let pause = draft.next.pause_conditions.iter().find(|pause| pause.reason == reason);
    if let (Some(pause), Some(length)) = (pause, length)
        && let Ok(end) = pause.start_time.0.checked_add(length)
    {
        draft.wake_at(end);
    }
}

/// Whether the pause of the stored step is over: its time has passed, or a person resumed.
pub(crate) fn over(scene: &Scene<'_>, length: Option<Duration>) -> bool {
    let Some(pause) = scene.paused_for(PauseReason::CanaryPauseStep) else {
        return scene.resumed();
    };
    let end = length.and_then(|length| pause.start_time.0.checked_add(length).ok());
    end.is_some_and(|end| end <= scene.now)
}

/// Whether something else than a pause step is waited for.
pub(crate) fn blocks(draft: &Draft) -> bool {
    draft.next.pause_conditions.iter().any(|pause| pause.reason != PauseReason::CanaryPauseStep)
}

/// Nobody can say whether it is good or bad: a person decides. One who just resumed gets a new run first.
pub(crate) fn unclear(scene: &Scene<'_>, draft: &mut Draft, reason: PauseReason) {
    if !scene.resumed() {
        add(scene, draft, reason);
    }
}

/// Takes the update back.
pub(crate) fn abort(scene: &Scene<'_>, draft: &mut Draft, why: String) {
    if scene.status.abort || scene.promoted() {
        return;
    }
    draft.next.abort = true;
    draft.next.abort_reason = Some(why);
    if draft.next.aborted_at.is_none() {
        draft.next.aborted_at = Some(Time(whole_seconds(scene.now)));
    }
}

/// A person tries again: what was noted about the abort goes.
pub(crate) fn retried(scene: &Scene<'_>, draft: &mut Draft) {
    if scene.status.abort && scene.promoted() {
        // Nothing goes on that could be taken back.
        draft.next.abort = false;
        draft.next.aborted_at = None;
        draft.next.abort_reason = None;
        return;
    }
    if scene.status.abort {
        if draft.next.aborted_at.is_none() {
            draft.next.aborted_at = Some(Time(whole_seconds(scene.now)));
        }
        return;
    }
    if scene.status.aborted_at.is_some() {
        draft.next.aborted_at = None;
        draft.next.abort_reason = None;
        draft.next.last_progress_time = Some(Time(whole_seconds(scene.now)));
        draft.note("RolloutRetry", "Retry", "Tries again after an abort");
    }
}
