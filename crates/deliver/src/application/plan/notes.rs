//! What people are told: derived from the status before and after, so that a repeated round repeats nothing.

use windlass_api::{
    ApplicationStatus,
    application::status::{Approval, DeploymentResult, Phase, REVERTED},
    condition::{self, READY},
};
use windlass_cluster::events::Note;

/// Violations that get an Event of their own.
const EVENTS: usize = 5;

/// Objects that a sentence names.
const NAMED: usize = 5;

/// What happened between two statuses.
pub(super) fn between(old: &ApplicationStatus, new: &ApplicationStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    phase(old, new, &mut notes);
    deployment(old, new, &mut notes);
    for violation in new.violations.iter().filter(|one| !old.violations.contains(one)).take(EVENTS) {
        let at = violation.cluster.as_deref().unwrap_or("every cluster");
        let message = format!("{} on {at}: {}: {}", violation.object, violation.policy, violation.message);
        notes.push(Note::warning("PolicyViolation", "Judge", message));
    }
    approval(old, new, &mut notes);
    if let Some(pin) = new.pin.as_ref().filter(|_| old.pin != new.pin) {
        let to = pin.to.as_deref().unwrap_or("the state before");
        let message = format!(
            "kept at {to} instead of {}: {}",
            pin.excludes,
            pin.reason.as_deref().unwrap_or("asked for")
        );
        notes.push(Note::normal("Pinned", "Pin", message));
    } else if old.pin.is_some() && new.pin.is_none() {
        notes.push(Note::normal("PinEnded", "Pin", "the source moved past the revision that was excluded"));
    }
    quarantine(old, new, &mut notes);
    drift(old, new, &mut notes);
    notes
}

/// What happened between two statuses of an Application that is being deleted.
pub(super) fn deletion(old: &ApplicationStatus, new: &ApplicationStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    approval(old, new, &mut notes);
    let ready = |status: &ApplicationStatus| condition::get(&status.conditions, READY).cloned();
    let before = ready(old).map(|before| before.reason);
    if let Some(after) = ready(new).filter(|after| Some(&after.reason) != before.as_ref()) {
        let fine = ["Deleting", "RunningHooks"].contains(&after.reason.as_str());
        match after.reason.as_str() {
            "ApprovalNeeded" => {}
            _ if fine => notes.push(Note::normal(after.reason, "Delete", after.message)),
            _ => notes.push(Note::warning(after.reason, "Delete", after.message)),
        }
    }
    notes
}

/// A revision failed, was let pass, was taken back in the repository, or is no longer what the source says.
fn quarantine(old: &ApplicationStatus, new: &ApplicationStatus, notes: &mut Vec<Note>) {
    let before = old.quarantine.as_ref();
    let Some(after) = &new.quarantine else {
        if let Some(before) = before {
            let message = format!("the source moved past {}", before.revision);
            notes.push(Note::normal("QuarantineEnded", "Quarantine", message));
        }
        return;
    };
    if before.is_none_or(|before| before.digest != after.digest) {
        let message = format!(
            "{} is not applied any more: {} on {}: {}",
            after.revision, after.object, after.cluster, after.reason
        );
        notes.push(Note::warning("Quarantined", "Quarantine", message));
    }
    if let Some(lifted) = after.lifted.as_ref().filter(|_| before.is_none_or(|one| one.lifted.is_none())) {
        let message = format!("{} lets {} pass", lifted.by, after.revision);
        notes.push(Note::normal("QuarantineLifted", "Quarantine", message));
    }
    if let Some(revert) = after.revert.as_ref().filter(|_| before.is_none_or(|one| one.revert.is_none())) {
        let message = format!("{} on {} takes {} back", revert.commit, revert.branch, after.revision);
        notes.push(Note::normal("Reverted", "Revert", message));
    }
    let refused = |status: &ApplicationStatus| {
        condition::get(&status.conditions, REVERTED).filter(|one| one.status == "False").cloned()
    };
    let known = refused(old).map(|one| one.reason);
    if let Some(now) = refused(new).filter(|now| Some(&now.reason) != known.as_ref()) {
        notes.push(Note::warning(now.reason, "Revert", now.message));
    }
}

fn approval(old: &ApplicationStatus, new: &ApplicationStatus, notes: &mut Vec<Note>) {
    let Some(approval) = new.approval.as_ref().filter(|_| old.approval != new.approval) else { return };
    let message = if approval.confirm {
        confirmation(approval)
    } else {
        format!(
            "{} of {} objects would be deleted; approve it with windlass approve",
            approval.deletions, approval.of
        )
    };
    notes.push(Note::warning("ApprovalNeeded", "Prune", message));
}

/// Who asks to be confirmed, for people.
pub(super) fn confirmation(approval: &Approval) -> String {
    let named = approval.objects.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = usize::try_from(approval.deletions).unwrap_or(usize::MAX).saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "Not deleted before somebody confirms it (Prune=confirm, Delete=confirm): {named}{more}. \
         Look at them and allow it with: windlass approve"
    )
}

fn phase(old: &ApplicationStatus, new: &ApplicationStatus, notes: &mut Vec<Note>) {
    let ready = |status: &ApplicationStatus| condition::get(&status.conditions, READY).cloned();
    let (Some(after), before) = (ready(new), ready(old)) else { return };
    let same = before
        .is_some_and(|before| (before.status, before.reason) == (after.status.clone(), after.reason.clone()));
    if same && old.phase == new.phase {
        return;
    }
    let fine = matches!(new.phase, Some(Phase::Healthy | Phase::Syncing | Phase::Pending));
    notes.push(if fine {
        Note::normal(after.reason.clone(), "Sync", after.message.clone())
    } else {
        Note::warning(after.reason.clone(), "Sync", after.message.clone())
    });
}

fn deployment(old: &ApplicationStatus, new: &ApplicationStatus, notes: &mut Vec<Note>) {
    let Some(last) = new.history.first() else { return };
    if old.history.first().is_some_and(|before| before.id == last.id && before.result == last.result) {
        return;
    }
    let revision = last.revision.get(..10).unwrap_or(&last.revision);
    let why = last.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    notes.push(match last.result {
        DeploymentResult::Succeeded => {
            Note::normal("Deployed", "Deploy", format!("{revision} runs everywhere"))
        }
        DeploymentResult::Superseded => {
            Note::normal("Superseded", "Deploy", format!("{revision} was overtaken by a newer revision"))
        }
        DeploymentResult::Failed => {
            Note::warning("DeploymentFailed", "Deploy", format!("{revision} failed{why}"))
        }
        DeploymentResult::RolledBack => {
            Note::warning("RolledBack", "Deploy", format!("{revision} was taken back{why}"))
        }
    });
}

/// A change in a cluster that was in sync before.
fn drift(old: &ApplicationStatus, new: &ApplicationStatus, notes: &mut Vec<Note>) {
    for line in &new.clusters {
        let before = old.clusters.iter().find(|before| before.name == line.name);
        let was_synced =
            before.is_some_and(|before| before.digest == line.digest && before.differences.is_empty());
        let Some(first) = line.differences.first().filter(|_| was_synced && line.digest.is_some()) else {
            continue;
        };
        let field = first.field.as_deref().map(|field| format!(" {field}")).unwrap_or_default();
        let by = first.manager.as_deref().map(|manager| format!(" by {manager}")).unwrap_or_default();
        let message = format!("{} on {}:{field} was changed{by}", first.object, line.name);
        notes.push(Note::warning("Drifted", "Compare", message));
    }
}
