//! A plan while it is being made: actions by the place that they have in the order of a round.
//!
//! The order keeps traffic on ready pods after a crash at any place: what grows, then Services, then routes, then runs,
//! and only then what shrinks.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use windlass_api::rollout::{DESIRED_REPLICAS, RolloutStatus};
use windlass_cluster::{
    drive::{Plan, Wake},
    events::Note,
};

use super::action::{Action, ReplicaSetPatch};
use crate::observed::ReplicaSetFacts;

/// A plan while it is being made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The status as it will be stored.
    pub(crate) next: RolloutStatus,
    pub(crate) notes: Vec<Note>,
    first: Vec<Action>,
    patches: BTreeMap<String, (i32, ReplicaSetPatch)>,
    traffic: Vec<Action>,
    runs: Vec<Action>,
    last: Vec<Action>,
    wake: Option<Timestamp>,
    /// The routes say what is wanted, or there are none.
    pub(crate) settled: bool,
    /// What is waited for, said best by whoever waits; the first one counts.
    pub(crate) waits_for: Option<String>,
}

impl Draft {
    pub(crate) fn new(status: &RolloutStatus) -> Self {
        Self { next: status.clone(), settled: true, ..Self::default() }
    }

    /// Before all else: what grows, and what names things.
    pub(crate) fn first(&mut self, action: Action) {
        self.first.push(action);
    }

    /// Services, then routes.
    pub(crate) fn traffic(&mut self, action: Action) {
        self.traffic.push(action);
    }

    pub(crate) fn run(&mut self, action: Action) {
        self.runs.push(action);
    }

    /// After all else.
    pub(crate) fn last(&mut self, action: Action) {
        self.last.push(action);
    }

    /// The one patch of a `ReplicaSet` in this round.
    pub(crate) fn patch(&mut self, set: &ReplicaSetFacts) -> &mut ReplicaSetPatch {
        let fresh = || {
            let patch = ReplicaSetPatch {
                name: set.name.clone(),
                uid: set.uid.clone(),
                ..ReplicaSetPatch::default()
            };
            (set.wanted, patch)
        };
        &mut self.patches.entry(set.uid.clone()).or_insert_with(fresh).1
    }

    /// Scales a `ReplicaSet`, and notes the Rollout's size on it.
    pub(crate) fn scale(&mut self, set: &ReplicaSetFacts, count: i32, replicas: i32) {
        if set.wanted != count {
            self.patch(set).replicas = Some(count);
            let way = if count > set.wanted { "up" } else { "down" };
            let message = format!(
                "Scaled {way} ReplicaSet {} (revision {}) from {} to {count}",
                set.name,
                set.revision(),
                set.wanted
            );
            self.note("ScalingReplicaSet", "Scale", message);
        }
        if set.desired() != Some(replicas) {
            self.patch(set).annotations.insert(DESIRED_REPLICAS.into(), Some(replicas.to_string()));
        }
    }

    pub(crate) fn note(&mut self, reason: &str, action: &str, message: impl Into<String>) {
        self.notes.push(Note::normal(reason, action, message));
    }

    pub(crate) fn warn(&mut self, reason: &str, action: &str, message: impl Into<String>) {
        self.notes.push(Note::warning(reason, action, message));
    }

    /// Looks again at this time at the latest.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    pub(crate) fn waits_for(&mut self, what: impl Into<String>) {
        self.waits_for.get_or_insert_with(|| what.into());
    }

    pub(crate) fn into_plan(self, now: Timestamp) -> Plan<Action, RolloutStatus> {
        let (down, up): (Vec<_>, Vec<_>) = self
            .patches
            .into_values()
            .filter(|(_, patch)| !patch.is_empty())
            .partition(|(wanted, patch)| patch.replicas.is_some_and(|count| count < *wanted));
        let patch = |(_, patch): (i32, ReplicaSetPatch)| Action::PatchReplicaSet(Box::new(patch));
        let mut actions = self.first;
        actions.extend(up.into_iter().map(patch));
        actions.extend(self.traffic);
        actions.extend(self.runs);
        actions.extend(down.into_iter().map(patch));
        actions.extend(self.last);
        let wake = self.wake.map_or(Wake::OnChange, |at| Wake::After(until(now, at)));
        Plan { actions, status: Some(self.next), notes: self.notes, wake, released: false }
    }
}

/// The time until then, and a little more, so that the clock has passed it.
fn until(now: Timestamp, at: Timestamp) -> Duration {
    let left = at.duration_since(now);
    Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)
}
