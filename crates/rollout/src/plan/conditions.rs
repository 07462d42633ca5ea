//! Conditions, the phase, the progress deadline and what people are told: from the stored status to the next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    condition::{self, Truth, whole_seconds},
    rollout::{
        RolloutStatus,
        status::{
            AVAILABLE, COMPLETED, DEGRADED, HEALTHY, INVALID_SPEC, PAUSED, PROGRESSING, Phase,
            REPLICA_FAILURE, TransitionKind,
        },
    },
};

use super::{draft::Draft, progress, scene::Scene, status, transitions};
use crate::observed::ReplicaSetFacts;

/// Completes the next status.
pub(crate) fn conclude(scene: &Scene<'_>, draft: &mut Draft) {
    status::columns(scene, draft);
    let before = scene.status.as_ref();
    let moved = status::moved(before, &draft.next);
    let deadline = progress::deadline(scene);
    let was_stuck = condition::get(&before.conditions, PROGRESSING)
        .is_some_and(|progressing| progressing.reason == "ProgressDeadlineExceeded");
    let over = deadline.is_some_and(|deadline| deadline < scene.now);
    let (word, _) = status::phase(scene, draft, false);
    let stuck = word != Phase::Completed
        && word != Phase::Paused
        && !moved
        && (over || was_stuck && deadline.is_some());
    let (phase, message) = status::phase(scene, draft, stuck);
    draft.next.phase = Some(phase);
    draft.next.message = message;
    set_all(scene, draft, stuck);
    if moved || progress::begins_anew(before, &draft.next) || draft.next.last_progress_time.is_none() {
        draft.next.last_progress_time = Some(Time(whole_seconds(scene.now)));
    }
    if !stuck
        && phase != Phase::Completed
        && let Some(deadline) = deadline.filter(|deadline| *deadline >= scene.now)
    {
        draft.wake_at(super::older::after(deadline, 1));
    }
    if phase == Phase::Completed {
        healthy(scene, draft);
    }
    tell(scene, draft);
}

/// The first healthy revision is told as deployed, and as published.
fn healthy(scene: &Scene<'_>, draft: &mut Draft) {
    if draft.next.transitions.is_empty() {
        transitions::record(scene, draft, TransitionKind::Deployed);
    }
    let revision = scene.revision();
    let back = draft
        .next
        .transitions
        .iter()
        .any(|known| known.kind == TransitionKind::RolledBack && known.revision == revision);
    if !back {
        transitions::record(scene, draft, TransitionKind::Published);
    }
}

fn set_all(scene: &Scene<'_>, draft: &mut Draft, stuck: bool) {
    let generation = scene.rollout.metadata.generation;
    let next = &mut draft.next;
    let phase = next.phase;
    let message = next.message.clone().unwrap_or_default();
    let paused = scene.spec.paused || !next.pause_conditions.is_empty();
    let completed = next.stable_rs.is_some() && next.stable_rs == next.current_pod_hash;
    let healthy = phase == Some(Phase::Completed);
    let new = scene.roles.new.map_or(scene.name, |new| new.name.as_str()).to_owned();
    let conditions = &mut next.conditions;
    conditions.retain(|condition| condition.type_ != INVALID_SPEC && condition.type_ != REPLICA_FAILURE);
    let mut set = |type_: &str, truth: Truth, reason: &str, message: &str| {
        condition::set(conditions, type_, truth, reason, message, generation, scene.now);
    };
    let available = next.available_replicas >= scene.replicas();
    set(
        AVAILABLE,
        truth(available),
        "AvailableReason",
        if available { "enough pods are available" } else { "fewer pods are available than wanted" },
    );
    let (progressing, reason, words) = if next.abort {
        (Truth::False, "RolloutAborted", message.clone())
    } else if stuck {
        (Truth::False, "ProgressDeadlineExceeded", message.clone())
    } else if paused {
        (Truth::Unknown, "RolloutPaused", message.clone())
    } else if healthy {
        (Truth::True, "NewReplicaSetAvailable", format!("ReplicaSet {new} is available"))
    } else {
        (Truth::True, "ReplicaSetUpdated", message.clone())
    };
    set(PROGRESSING, progressing, reason, &words);
    set(
        PAUSED,
        truth(paused && !next.abort),
        "RolloutPaused",
        if paused { &message } else { "it is not paused" },
    );
    set(HEALTHY, truth(healthy), "RolloutHealthy", if healthy { "what is wanted runs" } else { &message });
    let words = if completed { "the newest revision is the stable one" } else { &message };
    set(COMPLETED, truth(completed), "RolloutCompleted", words);
    let degraded = next.abort || stuck;
    let reason = if next.abort {
        "RolloutAborted"
    } else if stuck {
        "ProgressDeadlineExceeded"
    } else {
        "AsExpected"
    };
    set(DEGRADED, truth(degraded), reason, if degraded { &message } else { "nothing is wrong" });
    if let Some((reason, message)) = failure(scene) {
        set(REPLICA_FAILURE, Truth::True, &reason, &message);
    }
}

/// Why pods cannot be made: the new `ReplicaSet`'s reason first.
fn failure(scene: &Scene<'_>) -> Option<(String, String)> {
    let failure = |set: &ReplicaSetFacts| set.failure.clone();
    scene.roles.new.and_then(failure).or_else(|| scene.roles.all.iter().find_map(|set| failure(set)))
}

const fn truth(holds: bool) -> Truth {
    if holds { Truth::True } else { Truth::False }
}

/// What people are told, from the difference between the stored status and the next.
fn tell(scene: &Scene<'_>, draft: &mut Draft) {
    let before = scene.status.as_ref();
    let after = draft.next.clone();
    let message = after.message.clone().unwrap_or_default();
    let was_paused = !before.pause_conditions.is_empty() || holds(before, PAUSED);
    let is_paused = holds(&after, PAUSED);
    if is_paused && !was_paused {
        draft.note("RolloutPaused", "Pause", message.clone());
    } else if was_paused && !is_paused && !after.abort {
        draft.note("RolloutResumed", "Resume", "Goes on");
    }
    if after.abort && before.phase != Some(Phase::Failed) {
        draft.warn("RolloutAborted", "Abort", message.clone());
    } else if after.phase == Some(Phase::Failed) && before.phase != Some(Phase::Failed) {
        draft.warn("ProgressDeadlineExceeded", "Progress", message);
    }
    if after.stable_rs != before.stable_rs && after.stable_rs.is_some() {
        let revision = after.revision.unwrap_or_default();
        let message = format!("Revision {revision} ({}) is the stable one now", scene.hash);
        draft.note("RolloutCompleted", "Promote", message);
    }
    if after.phase == Some(Phase::Completed) && before.phase != Some(Phase::Completed) {
        draft.note("RolloutHealthy", "Complete", "What is wanted runs");
    }
}

fn holds(status: &RolloutStatus, type_: &str) -> bool {
    condition::get(&status.conditions, type_).is_some_and(|condition| condition.status == "True")
}
