//! A Rollout that cannot be carried out: a condition says why, and everything stays where it is.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::{
    condition::{self, Truth},
    rollout::{
        RolloutStatus,
        status::{DEGRADED, HEALTHY, INVALID_SPEC, PROGRESSING, Phase},
    },
};
use windlass_cluster::{
    drive::{Plan, Wake},
    events::Note,
};

use super::action::Action;
use crate::{lint::Finding, observed::Observed};

/// Not everything that a spec names tells us when it appears.
const AGAIN: Duration = Duration::from_secs(20);

/// Says what is wrong; does nothing.
pub(super) fn plan(observed: &Observed, findings: &[Finding], now: Timestamp) -> Plan<Action, RolloutStatus> {
    let rollout = &observed.rollout;
    let before = rollout.status.clone().unwrap_or_default();
    let mut next = before.clone();
    let generation = rollout.metadata.generation;
    let message = findings.iter().map(Finding::message).collect::<Vec<_>>().join(" ");
    let reason = findings.first().map_or("InvalidSpec", |finding| finding.reason);
    next.observed_generation = generation;
    next.phase = Some(Phase::Failed);
    next.message = Some(format!("InvalidSpec: {message}"));
    let mut set = |type_, truth, reason: &str, message: &str| {
        condition::set(&mut next.conditions, type_, truth, reason, message, generation, now);
    };
    set(INVALID_SPEC, Truth::True, reason, &message);
    set(DEGRADED, Truth::True, "InvalidSpec", &message);
    set(HEALTHY, Truth::False, "InvalidSpec", &message);
    set(PROGRESSING, Truth::False, "InvalidSpec", &message);
    let told = condition::get(&before.conditions, INVALID_SPEC).map(|condition| condition.message.as_str());
    let notes = if told == Some(&message) {
        Vec::new()
    } else {
        vec![Note::warning("InvalidSpec", "Validate", message)]
    };
    Plan { actions: Vec::new(), status: Some(next), notes, wake: Wake::After(AGAIN), released: false }
}
