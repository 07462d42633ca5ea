//! `ReplicaSets` that are neither new nor stable: they lose their pods, some after a while, and at last they go.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::{condition::whole_seconds, rollout::SCALE_DOWN_DEADLINE};

use super::{
    action::Action,
    draft::Draft,
    scene::{Scene, Way},
    steps::Walk,
};
use crate::{
    observed::{ReplicaSetFacts, RunFacts},
    skew,
};

const DEFAULT_DELAY: i32 = 30;
const DEFAULT_HISTORY: i32 = 10;

/// How long an old version stays after it lost its traffic.
fn delay(scene: &Scene<'_>) -> i32 {
    match &scene.way {
        Way::BlueGreen(blue_green) => blue_green.scale_down_delay_seconds.unwrap_or(DEFAULT_DELAY),
        Way::Canary(canary) if canary.traffic_routing.is_some() => {
            canary.scale_down_delay_seconds.unwrap_or(DEFAULT_DELAY)
        }
        Way::Canary(_) => 0,
    }
}

/// How many old versions may stay that long.
fn revision_limit(scene: &Scene<'_>) -> i32 {
    let limit = match &scene.way {
        Way::BlueGreen(blue_green) => blue_green.scale_down_delay_revision_limit,
        Way::Canary(canary) => canary.scale_down_delay_revision_limit,
    };
    limit.unwrap_or(i32::MAX)
}

/// Newest revision first.
fn newest_first<'a>(scene: &Scene<'a>) -> Vec<&'a ReplicaSetFacts> {
    let mut sets = scene.roles.other.clone();
    sets.sort_by(|a, b| b.revision().cmp(&a.revision()).then_with(|| b.created.cmp(&a.created)));
    sets
}

/// Whether a Service or a weight still leads to the `ReplicaSet`.
fn referenced(scene: &Scene<'_>, set: &ReplicaSetFacts) -> bool {
    let Some(hash) = set.hash() else { return false };
    let status = &scene.status;
    let stored = [
        status.stable_rs.as_deref(),
        status.current_pod_hash.as_deref(),
        status.blue_green.active_selector.as_deref(),
        status.blue_green.preview_selector.as_deref(),
    ];
    let served = scene.observed.services.values().flatten().any(|service| service.hash() == Some(hash));
    served || stored.contains(&Some(hash))
}

/// Scales old revisions of a canary down, as far as enough pods stay available.
pub(crate) fn canary(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let available: i32 = scene.roles.all.iter().map(|set| set.available).sum();
    let mut spare = available - scene.limits().least();
    let mut kept = 0;
    for set in newest_first(scene).into_iter().filter(|set| set.wanted > 0) {
        // Pods that never came up are no loss.
        let healthy = set.available.min(set.wanted);
        if spare <= 0 || walk.routed() && referenced(scene, set) {
            scale(scene, draft, set, healthy);
            continue;
        }
        let count = if walk.routed() {
            let leaving = scene.promoted() || set.deadline().is_some();
            if leaving && !walk.canary.dynamic_stable_scale {
                delayed(scene, draft, set, healthy, &mut kept)
            } else {
                0
            }
        } else {
            (healthy - spare).max(0)
        };
        spare -= healthy - count.min(healthy);
        scale(scene, draft, set, count);
    }
}

/// Scales old revisions of a blue-green update down, after their delay. While they wait they have the size of the Rollout, so
/// that a way back finds enough of them.
pub(crate) fn blue_green(scene: &Scene<'_>, draft: &mut Draft) {
    let mut kept = 0;
    for set in newest_first(scene).into_iter().filter(|set| set.wanted > 0) {
        if !referenced(scene, set) {
            let now = set.deadline().map_or(set.wanted, |_| scene.replicas());
            let count = delayed(scene, draft, set, now, &mut kept);
            scale(scene, draft, set, count);
        }
    }
}

fn scale(scene: &Scene<'_>, draft: &mut Draft, set: &ReplicaSetFacts, count: i32) {
    if count != set.wanted {
        draft.scale(set, count, scene.replicas());
    }
    if count == 0 && set.annotations.contains_key(SCALE_DOWN_DEADLINE) {
        draft.patch(set).annotations.insert(SCALE_DOWN_DEADLINE.into(), None);
    }
}

/// How many pods an old version keeps for now: it gets a deadline, and `now` of them until it has passed.
fn delayed(scene: &Scene<'_>, draft: &mut Draft, set: &ReplicaSetFacts, now: i32, kept: &mut i32) -> i32 {
    let delay = delay(scene);
    *kept += 1;
    if *kept > revision_limit(scene) || delay == 0 {
        return 0;
    }
    let latest = after(scene.now, delay);
    let deadline = deadline(set, latest).unwrap_or_else(|| {
        draft.patch(set).annotations.insert(SCALE_DOWN_DEADLINE.into(), Some(latest.to_string()));
        latest
    });
    if deadline <= scene.now {
        return 0;
    }
    draft.wake_at(deadline);
    now
}

/// The deadline of a `ReplicaSet`. One beyond the latest that is asked for does not count: a clock was set back.
pub(crate) fn deadline(set: &ReplicaSetFacts, latest: Timestamp) -> Option<Timestamp> {
    set.deadline().filter(|deadline| !skew::is_ahead(*deadline, latest))
}

/// So many seconds later, in whole seconds.
pub(crate) fn after(now: Timestamp, seconds: i32) -> Timestamp {
    let wait = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    now.checked_add(wait).map_or(now, whole_seconds)
}

/// Whether an old version still waits for its deadline.
pub(crate) fn waiting(scene: &Scene<'_>) -> bool {
    scene.roles.other.iter().any(|set| set.annotations.contains_key(SCALE_DOWN_DEADLINE))
}

/// New and stable `ReplicaSets` have no deadline, but for a new one that goes after an abort.
pub(crate) fn without_deadline(draft: &mut Draft, set: Option<&ReplicaSetFacts>) {
    if let Some(set) = set.filter(|set| set.annotations.contains_key(SCALE_DOWN_DEADLINE)) {
        draft.patch(set).annotations.insert(SCALE_DOWN_DEADLINE.into(), None);
    }
}

/// Deletes the oldest of the old revisions that have no pods, beyond the limit, and the runs that were made for them.
pub(crate) fn history(scene: &Scene<'_>, draft: &mut Draft) {
    let limit = scene.spec.revision_history_limit.unwrap_or(DEFAULT_HISTORY);
    let sets: Vec<_> = scene.roles.other.iter().filter(|set| !set.deleting).collect();
    let beyond = sets.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for set in sets.into_iter().take(beyond) {
        let in_use = set.replicas != 0 || set.wanted != 0 || set.unobserved || referenced(scene, set);
        if in_use {
            continue;
        }
        draft.last(Action::DeleteReplicaSet { name: set.name.clone(), uid: set.uid.clone() });
        let of_set = |run: &&RunFacts| {
            let hash = run.labels.get(windlass_api::rollout::POD_TEMPLATE_HASH).map(String::as_str);
            hash.is_some() && hash == set.hash() && !run.deleting
        };
        for run in scene.observed.runs.iter().filter(of_set) {
            draft.last(Action::DeleteRun { name: run.name.clone(), uid: run.uid.clone() });
        }
    }
}
