//! `spec.restartAt`: pods that are older are made anew, a few at a time, by the eviction API, so that disruption budgets
//! are kept.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::rollout::Rollout;

use super::{action::Action, draft::Draft, scene::Scene};
use crate::observed::{PodFacts, ReplicaSetFacts};

/// A budget may refuse: then it is asked again, without waiting for a change.
const AGAIN: Duration = Duration::from_secs(10);

/// Whether a restart is asked for, its time has come, and it is not over.
pub(crate) fn due(rollout: &Rollout, now: Timestamp) -> bool {
    let done = rollout.status.as_ref().and_then(|status| status.restarted_at.as_ref());
    rollout.spec.restart_at.as_ref().is_some_and(|at| Some(at) != done && at.0 <= now)
}

/// Evicts pods that are too old, as many as may be missing, and at least one at a time. Whether any was: then the
/// numbers of available pods are no longer to be trusted, and nothing else is scaled in this round.
pub(crate) fn sync(scene: &Scene<'_>, draft: &mut Draft) -> bool {
    let Some(at) = &scene.spec.restart_at else { return false };
    if scene.status.restarted_at.as_ref() == Some(at) {
        return false;
    }
    if at.0 > scene.now {
        draft.wake_at(at.0);
        return false;
    }
    let Some(pods) = &scene.observed.pods else { return false };
    let pods: Vec<&PodFacts> = by_priority(scene)
        .into_iter()
        .flat_map(|set| pods.iter().filter(move |pod| pod.replica_set == set.uid))
        .collect();
    let old: Vec<_> = pods.iter().filter(|pod| pod.created < at.0).collect();
    if old.is_empty() {
        draft.next.restarted_at = Some(at.clone());
        draft.note("RolloutRestarted", "Restart", "All pods were made anew");
        return false;
    }
    let wanted: i32 = scene.roles.all.iter().map(|set| set.wanted).sum();
    let available = pods.iter().filter(|pod| pod.available && !pod.deleting).count();
    let available = i32::try_from(available).unwrap_or(i32::MAX);
    let at_once = scene.limits().unavailable.max(1);
    let spare = available - (scene.replicas().max(wanted) - at_once);
    let spare = usize::try_from(spare).unwrap_or(0);
    let mut evicted = false;
    for pod in old.iter().filter(|pod| !pod.deleting).take(spare) {
        evicted = true;
        draft.last(Action::EvictPod { name: pod.name.clone(), uid: pod.uid.clone() });
    }
    draft.waits_for(format!("restarts: {} pods are older than {}", old.len(), at.0));
    if let Ok(again) = scene.now.checked_add(AGAIN) {
        draft.wake_at(again);
    }
    evicted
}

/// Stable, then new, then others.
fn by_priority<'a>(scene: &Scene<'a>) -> Vec<&'a ReplicaSetFacts> {
    let roles = &scene.roles;
    let first = roles
        .stable
        .into_iter()
        .chain(roles.new.filter(|new| roles.stable.is_none_or(|stable| stable.uid != new.uid)));
    first.chain(roles.other.iter().copied()).collect()
}
