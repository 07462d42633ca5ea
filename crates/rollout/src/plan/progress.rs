//! Progress: what counts as movement, and when there was none for too long.

use jiff::Timestamp;
use windlass_api::rollout::{
    RolloutStatus,
    status::{HEALTHY, PAUSED},
};

use super::{
    older,
    scene::{Scene, Way},
    steps::Walk,
};

const DEFAULT_DEADLINE: i32 = 600;

/// When there has been no progress for too long, if that can be said now.
pub(crate) fn deadline(scene: &Scene<'_>) -> Option<Timestamp> {
    let status = &scene.status;
    let paused = scene.spec.paused || !status.pause_conditions.is_empty();
    // The time of a new attempt begins when it is stored.
    let retried = status.aborted_at.is_some();
    if paused || status.abort || retried || indefinite(scene) || older::waiting(scene) {
        return None;
    }
    let seconds = scene.spec.progress_deadline_seconds.unwrap_or(DEFAULT_DEADLINE);
    status.last_progress_time.as_ref().map(|time| older::after(time.0, seconds))
}

/// Steps that take as long as they take.
fn indefinite(scene: &Scene<'_>) -> bool {
    let Way::Canary(canary) = &scene.way else { return false };
    let walk = Walk::new(scene, canary);
    !scene.promoted()
        && walk
            .step(walk.stored())
            .is_some_and(|step| step.pause.is_some() || step.analysis.is_some() || step.experiment.is_some())
}

/// Whether an update has made no progress for too long and is to be taken back for that.
pub(crate) fn gives_up(scene: &Scene<'_>) -> bool {
    scene.spec.progress_deadline_abort
        && scene.has_stable()
        && !scene.promoted()
        && !super::status::moved(&scene.status, &super::status::counted(scene))
        && deadline(scene).is_some_and(|deadline| deadline < scene.now)
}

/// Whether a pause ended, or what was healthy is so no more: both count as a new beginning.
pub(crate) fn begins_anew(before: &RolloutStatus, after: &RolloutStatus) -> bool {
    let holds = |status: &RolloutStatus, type_: &str| {
        windlass_api::condition::get(&status.conditions, type_)
            .is_some_and(|condition| condition.status == "True")
    };
    holds(before, PAUSED) && !holds(after, PAUSED) || holds(before, HEALTHY) && !holds(after, HEALTHY)
}
