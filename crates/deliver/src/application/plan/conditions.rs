//! The conditions besides `Ready`: each speaks of one thing.

use windlass_api::{
    ApplicationStatus,
    application::status::{
        ADMITTED, CONTESTED, HEALTHY, HealthWord, QUARANTINED, RENDERED, REVERTED, SOURCE_READY, SYNCED,
        SyncWord, Violation,
    },
    condition::Truth,
};

use super::{
    Verdicts,
    status::{decisions, differing, refusal, set},
};
use crate::{application::observed::SourceFacts, gate::Decision, trouble::sentence};

/// Sets them all.
pub(super) fn set_all(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let now = verdicts.now;
    source_condition(verdicts, status);
    match verdicts.observed.desired.as_ref().map(|desired| &desired.digest) {
        Some(Ok(_)) => set(status, RENDERED, Truth::True, "Rendered", "", now),
        Some(Err(trouble)) => {
            set(status, RENDERED, Truth::False, trouble.reason, &trouble.message(), now);
        }
        None => set(status, RENDERED, Truth::Unknown, "NotRendered", "There is no revision to render.", now),
    }
    admitted(verdicts, status);
    quarantined(verdicts, status);
    let (truth, reason) = match status.sync.status {
        SyncWord::Synced => (Truth::True, "Synced"),
        SyncWord::OutOfSync => (Truth::False, "OutOfSync"),
        SyncWord::Unknown => (Truth::Unknown, "Unknown"),
    };
    let message = if truth == Truth::False { differing(status) } else { String::new() };
    set(status, SYNCED, truth, reason, &message, now);
    let health = status.health.clone();
    let truth = match health.status {
        HealthWord::Healthy => Truth::True,
        HealthWord::Unknown => Truth::Unknown,
        _ => Truth::False,
    };
    let message = health.message.as_deref().map(sentence).unwrap_or_default();
    set(status, HEALTHY, truth, &format!("{:?}", health.status), &message, now);
    let contested =
        status.clusters.iter().find_map(|line| Some((line.name.clone(), line.contested.first()?.clone())));
    match contested {
        Some((cluster, contested)) => {
            let message = format!(
                "{cluster}: {} was put back {} times and changed again by {}. Let one of the two leave it alone.",
                contested.object, contested.rounds, contested.manager
            );
            set(status, CONTESTED, Truth::True, "ChangedAgain", &message, now);
        }
        None => status.conditions.retain(|condition| condition.type_ != CONTESTED),
    }
}

fn quarantined(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let now = verdicts.now;
    match verdicts.quarantine.trouble() {
        Some(trouble) => set(status, QUARANTINED, Truth::True, "RolloutFailed", &trouble.message(), now),
        None => status.conditions.retain(|condition| condition.type_ != QUARANTINED),
    }
    let pushed = verdicts.quarantine.entry.as_ref().and_then(|entry| entry.revert.as_ref());
    match (pushed, &verdicts.quarantine.refused) {
        (Some(revert), _) => {
            let message = format!("{} on {} takes it back.", revert.commit, revert.branch);
            set(status, REVERTED, Truth::True, "Pushed", &message, now);
        }
        (None, Some(trouble)) => {
            set(status, REVERTED, Truth::False, trouble.reason, &trouble.message(), now);
        }
        (None, None) => status.conditions.retain(|condition| condition.type_ != REVERTED),
    }
}

fn source_condition(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let now = verdicts.now;
    match &verdicts.observed.source {
        SourceFacts::NotLooked => {}
        SourceFacts::NotYet => {
            set(status, SOURCE_READY, Truth::Unknown, "Fetching", "The repository is being fetched.", now);
        }
        SourceFacts::Trouble(trouble) => {
            set(status, SOURCE_READY, Truth::False, trouble.reason, &trouble.message(), now);
        }
        SourceFacts::Seen(seen) => {
            if let Some(trouble) = &seen.stale {
                let message = format!("{} What was fetched last is used.", trouble.message());
                set(status, SOURCE_READY, Truth::False, trouble.reason, &message, now);
            } else {
                let name = seen.name.as_deref().unwrap_or("The revision");
                let message = format!("{name} is at {}.", seen.commit);
                set(status, SOURCE_READY, Truth::True, "Found", &message, now);
            }
        }
    }
}

fn admitted(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let now = verdicts.now;
    let all: Vec<Violation> = status.violations.clone();
    let refs: Vec<&Violation> = all.iter().collect();
    if decisions(verdicts).any(|decision| decision.blocked) {
        set(status, ADMITTED, Truth::False, "PolicyRefused", &refusal(&refs), now);
    } else if verdicts.decisions.iter().any(|decision: &Decision| !decision.left_out.is_empty()) {
        let message = format!("{} objects are left out because policy refuses them.", left_out(verdicts));
        set(status, ADMITTED, Truth::False, "LeftOut", &message, now);
    } else if !all.is_empty() {
        let message = format!("{} violations are reported only.", all.len());
        set(status, ADMITTED, Truth::True, "Violations", &message, now);
    } else {
        set(status, ADMITTED, Truth::True, "Passed", "", now);
    }
}

fn left_out(verdicts: &Verdicts<'_>) -> usize {
    verdicts.decisions.iter().map(|decision| decision.left_out.len()).sum()
}
