//! What to say about a cluster. Pure.

use std::time::Duration as StdDuration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use windlass_api::{
    ClusterSpec, ClusterStatus,
    condition::{self, READY, Truth},
    duration::Duration,
};
use windlass_cluster::{
    drive::{Plan, Wake},
    events::Note,
};

use super::observe::{Reached, Trouble};
use crate::trouble::sentence;

/// Time between two probes of a reachable cluster if the spec says nothing.
pub const DEFAULT_INTERVAL: StdDuration = StdDuration::from_secs(30);
/// Time an answer may take if the spec says nothing.
pub const DEFAULT_TIMEOUT: StdDuration = StdDuration::from_secs(10);
/// Longest wait between two probes of a cluster that does not answer.
const LONGEST_RETRY: StdDuration = StdDuration::from_secs(60);

/// All that the decision is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The object's name.
    pub name: String,
    /// The generation that was observed.
    pub generation: Option<i64>,
    /// What is wanted.
    pub spec: ClusterSpec,
    /// What was said before.
    pub status: ClusterStatus,
    /// The object is being deleted.
    pub deleting: bool,
    /// What was found.
    pub reach: Reach,
    /// A status that says nothing new is still written after this time, so that `lastProbe` stays believable.
    pub heartbeat: StdDuration,
}

/// What was found when the cluster was looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// Not looked for: suspended or being deleted.
    NotTried,
    /// Something stands in the way.
    Trouble(Trouble),
    /// It answered and let us in.
    Reached(Reached),
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Close what is open to the cluster of this name and forget how to reach it.
    Disconnect {
        /// Name of the Cluster.
        cluster: String,
    },
}

/// Decides.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, ClusterStatus> {
    let disconnect = || vec![Action::Disconnect { cluster: observed.name.clone() }];
    if observed.deleting {
        return Plan { actions: disconnect(), released: true, ..Plan::rest() };
    }
    let interval =
        observed.spec.probe.as_ref().and_then(|probe| probe.interval).map_or(DEFAULT_INTERVAL, Into::into);
    let (status, wake) = match &observed.reach {
        Reach::NotTried => (suspended(observed, now), Wake::OnChange),
        Reach::Trouble(trouble) => {
            let wake = if trouble.waits_for_change {
                Wake::OnChange
            } else {
                Wake::Retry { longest: LONGEST_RETRY.max(interval) }
            };
            (troubled(observed, trouble, now), wake)
        }
        Reach::Reached(reached) => (reachable(observed, reached, now), Wake::After(interval)),
    };
    let notes = notes(&observed.status, &status);
    let status = if worth_writing(observed, &status, now) { status } else { observed.status.clone() };
    let actions =
        if observed.spec.suspend && !is_suspended(&observed.status) { disconnect() } else { Vec::new() };
    Plan { actions, status: Some(status), notes, wake, released: false }
}

/// The status when no decision was possible at all, for example while the hub's own API fails.
pub fn stalled(
    status: &ClusterStatus,
    generation: Option<i64>,
    message: &str,
    now: Timestamp,
) -> ClusterStatus {
    let mut status = ClusterStatus { observed_generation: generation, ..status.clone() };
    condition::set(&mut status.conditions, READY, Truth::Unknown, "NotObserved", message, generation, now);
    status
}

fn suspended(observed: &Observed, now: Timestamp) -> ClusterStatus {
    let mut status = unknown(observed);
    let message = "The cluster is left alone. Set spec.suspend to false to use it again.";
    set_ready(&mut status, Truth::False, "Suspended", message, now);
    status
}

fn troubled(observed: &Observed, trouble: &Trouble, now: Timestamp) -> ClusterStatus {
    let mut status =
        ClusterStatus { reachable: Some(false), server: trouble.server.clone(), ..unknown(observed) };
    if trouble.probed {
        status.last_probe = Some(Time(condition::whole_seconds(now)));
    }
    let message = format!("{} {}", sentence(&trouble.what), sentence(&trouble.remedy));
    set_ready(&mut status, Truth::False, trouble.reason, message.trim(), now);
    status
}

/// What was known of a cluster is not kept: it may be another one by now, and a status that depends on what was
/// before cannot be trusted.
fn unknown(observed: &Observed) -> ClusterStatus {
    ClusterStatus {
        observed_generation: observed.generation,
        last_probe: observed.status.last_probe.clone(),
        conditions: observed.status.conditions.clone(),
        ..ClusterStatus::default()
    }
}

fn reachable(observed: &Observed, reached: &Reached, now: Timestamp) -> ClusterStatus {
    let mut status = ClusterStatus {
        observed_generation: observed.generation,
        reachable: Some(true),
        version: Some(reached.version.clone()),
        latency: Some(latency(observed.status.latency, reached.latency)),
        server: reached.server.clone(),
        last_probe: Some(Time(condition::whole_seconds(now))),
        conditions: observed.status.conditions.clone(),
    };
    let message = format!("The cluster answers as Kubernetes {}.", reached.version);
    set_ready(&mut status, Truth::True, "Reachable", &message, now);
    status
}

fn set_ready(status: &mut ClusterStatus, truth: Truth, reason: &str, message: &str, now: Timestamp) {
    let generation = status.observed_generation;
    condition::set(&mut status.conditions, READY, truth, reason, message, generation, now);
}

/// Anything but a later `lastProbe` is worth a write; that alone only once per heartbeat.
fn worth_writing(observed: &Observed, new: &ClusterStatus, now: Timestamp) -> bool {
    let old = &observed.status;
    if (ClusterStatus { last_probe: None, ..old.clone() })
        != (ClusterStatus { last_probe: None, ..new.clone() })
    {
        return true;
    }
    let Some(last) = &old.last_probe else { return new.last_probe.is_some() };
    // Also when the time that was written lies ahead: then a clock was set back, or another replica's is ahead.
    now.duration_since(last.0).unsigned_abs() >= observed.heartbeat
}

/// Rounded up to 1, 2 or 5 × 10ⁿ ms, and left as it was when it moved by a single step: noise is no news.
fn latency(old: Option<Duration>, new: StdDuration) -> Duration {
    let rounded = step_of(new);
    match old.map(|old| step_of(old.0)) {
        Some(before) if before.abs_diff(rounded) <= 1 => millis(before),
        _ => millis(rounded),
    }
}

/// Number of the first step that is not smaller: 0 → 1 ms, 1 → 2 ms, 2 → 5 ms, 3 → 10 ms …
fn step_of(latency: StdDuration) -> u32 {
    (0..21).find(|step| latency <= millis(*step).0).unwrap_or(21)
}

fn millis(step: u32) -> Duration {
    let unit = [1, 2, 5][step as usize % 3];
    Duration(StdDuration::from_millis(unit * 10u64.saturating_pow(step / 3)))
}

/// Tells people about a change of the verdict, once: the note follows from the status before.
fn notes(old: &ClusterStatus, new: &ClusterStatus) -> Vec<Note> {
    let (Some(after), before) =
        (condition::get(&new.conditions, READY), condition::get(&old.conditions, READY))
    else {
        return Vec::new();
    };
    if before.is_some_and(|before| (&before.status, &before.reason) == (&after.status, &after.reason)) {
        return Vec::new();
    }
    let note = if after.status == "True" || after.reason == "Suspended" {
        Note::normal(after.reason.clone(), "Probe", after.message.clone())
    } else {
        Note::warning(after.reason.clone(), "Probe", after.message.clone())
    };
    vec![note]
}

fn is_suspended(status: &ClusterStatus) -> bool {
    condition::get(&status.conditions, READY).is_some_and(|ready| ready.reason == "Suspended")
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
