//! The operation: when a new revision begins to be applied, goes on and ends, and what history says of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    application::status::{
        ClusterLine, Deployment, DeploymentResult, GivenUp, HealthWord, Operation, Pin, SyncWord,
    },
    condition::whole_seconds,
};

use super::{
    HEALTH_TIMEOUT, INFRASTRUCTURE_TIMEOUT, Observed, Opening, Outcome, Verdicts, Want, asked, is_for,
    outcomes, target,
};
use crate::{application::history, trouble::Trouble};

/// What becomes of the operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// The one under way, or just begun.
    pub(super) operation: Option<Operation>,
    /// History, with what ended.
    pub(super) history: Vec<Deployment>,
    /// A request for a sync that is carried out by it.
    pub(super) request: Option<String>,
    /// A pin that was set by itself.
    pub(super) pin: Option<Pin>,
    /// Why the last one failed, if it did just now.
    pub(super) failure: Option<String>,
    /// What is not tried again.
    pub(super) given_up: Option<GivenUp>,
}

/// Why a new revision is not applied although there is one.
pub(super) fn held(observed: &Observed, opening: &Opening) -> Option<Trouble> {
    let begun = running(observed).is_some();
    if let Some(blocked) = observed.blocked.as_ref().filter(|_| !begun) {
        return Some(blocked.trouble());
    }
    if !opening.open {
        let why = opening.why.clone().unwrap_or_else(|| "no sync window is open".into());
        return Some(Trouble::standing("WindowClosed", why, ""));
    }
    let pinned = observed.desired.as_ref().is_some_and(|desired| desired.pin.is_some());
    if !observed.spec.sync.automated && asked(observed).is_none() && !begun && !pinned {
        return Some(Trouble::standing(
            "ManualSync",
            "spec.sync.automated is false",
            "Apply it with: windlass sync",
        ));
    }
    given_up(observed).map(|given_up| {
        Trouble::standing(
            "GivenUp",
            given_up.message.clone(),
            "Mend the source, or try again with: windlass sync",
        )
    })
}

/// The operation under way, if it is for what is wanted now.
fn running(observed: &Observed) -> Option<&Operation> {
    let digest = observed.desired.as_ref()?.digest.as_ref().ok()?;
    observed.status.operation.as_ref().filter(|operation| is_for(operation, digest))
}

/// What failed for good, as long as nothing changed since.
fn given_up(observed: &Observed) -> Option<&GivenUp> {
    let given_up = observed.status.given_up.as_ref()?;
    let digest = observed.desired.as_ref()?.digest.as_ref().ok()?;
    let same = given_up.digest == *digest && given_up.generation == observed.generation;
    (same && asked(observed).is_none()).then_some(given_up)
}

/// A new operation for what is wanted.
pub(super) fn begin(observed: &Observed, now: Timestamp) -> Operation {
    let desired = observed.desired.as_ref();
    Operation {
        revision: desired.map(|desired| desired.commit.clone()).unwrap_or_default(),
        change_id: desired.and_then(|desired| desired.change_id.clone()),
        digest: desired.and_then(|desired| desired.digest.clone().ok()).unwrap_or_default(),
        started_at: Some(Time(whole_seconds(now))),
        by: asked(observed).map(who).or_else(|| desired?.pin.as_ref()?.by.clone()),
        ..Operation::default()
    }
}

/// `2026-01-01T00:00:00Z by alice` → `alice`.
fn who(request: &str) -> String {
    request.split_once(" by ").map_or(request, |(_, who)| who).trim().to_owned()
}

/// Begins, goes on with, or supersedes the operation.
pub(super) fn course(observed: &Observed, may_begin: bool, now: Timestamp) -> Course {
    let mut course = Course {
        operation: observed.status.operation.clone(),
        history: observed.status.history.clone(),
        given_up: given_up(observed).cloned(),
        ..Course::default()
    };
    let usable = observed.desired.as_ref().and_then(|desired| Some((desired, desired.digest.as_ref().ok()?)));
    let usable = usable.filter(|(desired, _)| !desired.empty);
    if let Some(operation) = &course.operation {
        let same = usable.is_some_and(|(_, digest)| is_for(operation, digest));
        if !same {
            record(&mut course.history, operation, DeploymentResult::Superseded, None, now);
            course.operation = None;
        }
    }
    let Some((desired, _)) = usable else { return course };
    let request = asked(observed);
    let pending = observed.targets.iter().any(|target| {
        target.member.trouble.is_none() && target::is_new(target, &super::line(observed, target), None)
    });
    if may_begin && (request.is_some() || (pending && course.operation.is_none())) {
        course.operation = Some(begin(observed, now));
        course.request = request.map(str::to_owned);
    }
    // What an operation says of its revision follows the source as long as the objects stay the same.
    if let Some(operation) = &mut course.operation {
        operation.revision.clone_from(&desired.commit);
        operation.change_id.clone_from(&desired.change_id);
    }
    course
}

/// Ends the operation when it is done, failed or taken back.
pub(super) fn end(verdicts: &mut Verdicts<'_>) {
    let (observed, now) = (verdicts.observed, verdicts.now);
    let hooks: Vec<_> = verdicts.plans.iter().flat_map(|plan| plan.hooks.clone()).collect();
    verdicts.quarantine.mark(&mut verdicts.course.history);
    let Some(mut operation) = verdicts.course.operation.take() else { return };
    operation.hooks.extend(hooks);
    // After a restart nobody knows what was tried before: what was said holds for as long as it fails.
    let failing = verdicts.plans.iter().any(|plan| matches!(plan.outcome, Outcome::Failing(_)));
    let said = operation.failures.filter(|_| failing);
    operation.failures = failures(observed).filter(|count| *count > 0).or(said);
    operation.step = step(verdicts);
    if verdicts.plans.iter().any(|plan| plan.outcome == Outcome::Blocked) {
        // It begins anew when policy lets it pass.
        return;
    }
    let lasting = gave_up(verdicts);
    if let Some(message) = &lasting {
        let digest = operation.digest.clone();
        verdicts.course.given_up =
            Some(GivenUp { digest, generation: observed.generation, message: message.clone() });
    }
    let failure = rolled_back(observed).map(|why| (DeploymentResult::RolledBack, why)).or_else(|| {
        let why = verdicts.quarantine.why().or(lasting).or_else(|| late(verdicts, &operation))?;
        Some((DeploymentResult::Failed, why))
    });
    if let Some((result, why)) = failure {
        record(&mut verdicts.course.history, &operation, result, Some(why.clone()), now);
        if result == DeploymentResult::RolledBack {
            verdicts.course.pin = back(observed, &operation, &why, now);
        }
        verdicts.course.failure = Some(why);
    } else if succeeded(verdicts) {
        record(&mut verdicts.course.history, &operation, DeploymentResult::Succeeded, None, now);
    } else {
        verdicts.course.operation = Some(operation);
    }
}

/// What the operation is at, for people.
fn step(verdicts: &Verdicts<'_>) -> Option<String> {
    let at =
        outcomes(&verdicts.plans, &verdicts.observed.targets).find_map(|(outcome, line)| match outcome {
            Outcome::Working(what) => Some(format!("{}: {what}", line.name)),
            Outcome::Failing(trouble) => Some(format!("{}: {}", line.name, trouble.what)),
            _ => None,
        });
    let waves = || verdicts.observed.rollout.as_ref().filter(|rollout| !rollout.notes.is_empty());
    at.or_else(|| waves().map(|rollout| rollout.notes.join("; ")))
        .or_else(|| Some("waiting until everything is healthy".into()))
}

/// How often in a row the same thing was tried in vain.
fn failures(observed: &Observed) -> Option<u32> {
    observed.targets.iter().flat_map(|target| target.attempts.values()).map(|attempt| attempt.count).max()
}

/// Why the operation is not tried again: a hook failed, or something failed as often as it may.
fn gave_up(verdicts: &Verdicts<'_>) -> Option<String> {
    let observed = verdicts.observed;
    let limit = observed.spec.sync.retry.as_ref().and_then(|retry| retry.limit);
    let spent = limit.zip(failures(observed)).is_some_and(|(limit, count)| count > limit);
    outcomes(&verdicts.plans, &observed.targets).find_map(|(outcome, line)| match outcome {
        Outcome::Failed(trouble) => Some(format!("{}: {}", line.name, trouble.message())),
        Outcome::Failing(trouble) if spent => Some(format!("{}: {}", line.name, trouble.message())),
        _ => None,
    })
}

/// What did not become ready in time.
fn late(verdicts: &Verdicts<'_>, operation: &Operation) -> Option<String> {
    let observed = verdicts.observed;
    outcomes(&verdicts.plans, &observed.targets)
        .find_map(|(_, line)| timed_out(observed, line, verdicts.now))
        .or_else(|| infrastructure_late(verdicts, operation))
}

/// Why a cluster counts as failed: what was applied there did not become healthy in time.
pub(crate) fn timed_out(observed: &Observed, line: &ClusterLine, now: Timestamp) -> Option<String> {
    let timeout: Duration = observed.spec.sync.health_timeout.map_or(HEALTH_TIMEOUT, Into::into);
    let synced = line.synced_at.as_ref()?.0;
    let wanted = observed.desired.as_ref()?.digest.as_ref().ok()?;
    let late = line.digest.as_ref() == Some(wanted)
        && line.sync == SyncWord::Synced
        && matches!(line.health, HealthWord::Progressing | HealthWord::Degraded | HealthWord::Missing)
        && now.duration_since(synced).unsigned_abs() >= timeout
        && now > synced;
    late.then(|| {
        format!(
            "{}: not healthy {} s after it was applied: {}",
            line.name,
            timeout.as_secs(),
            line.message.as_deref().unwrap_or("no reason given")
        )
    })
}

fn infrastructure_late(verdicts: &Verdicts<'_>, operation: &Operation) -> Option<String> {
    let infrastructure = verdicts.observed.spec.infrastructure.as_ref()?;
    let timeout: Duration = infrastructure.timeout.map_or(INFRASTRUCTURE_TIMEOUT, Into::into);
    let began = operation.started_at.as_ref()?.0;
    let late = verdicts.now > began && verdicts.now.duration_since(began).unsigned_abs() >= timeout;
    let waits = verdicts.observed.targets.iter().any(|target| {
        target
            .parts
            .iter()
            .any(|part| part.kind == super::PartKind::Infrastructure && !super::is_ready(target, part))
    });
    (late && waits).then(|| format!("the infrastructure is not ready after {} s", timeout.as_secs()))
}

/// Why the revision is taken back, if waves say so.
fn rolled_back(observed: &Observed) -> Option<String> {
    observed.rollout.as_ref()?.rollback().map(str::to_owned)
}

/// The pin that takes it back.
fn back(observed: &Observed, operation: &Operation, why: &str, now: Timestamp) -> Option<Pin> {
    let good = history::previous_good(&observed.status.history, &operation.revision)?;
    Some(Pin {
        to: Some(good.revision.clone()),
        excludes: operation.revision.clone(),
        by: None,
        at: Some(Time(whole_seconds(now))),
        reason: Some(why.to_owned()),
    })
}

/// Every cluster that can be reached runs it, healthy, and none waits for its wave.
fn succeeded(verdicts: &Verdicts<'_>) -> bool {
    let targets = &verdicts.observed.targets;
    let mut any = targets.iter().all(|target| target.leaving) && !targets.is_empty();
    for (plan, target) in verdicts.plans.iter().zip(targets).filter(|(_, target)| !target.leaving) {
        match &plan.outcome {
            Outcome::Unreachable(_) => {}
            Outcome::Synced
                if plan.line.health == HealthWord::Healthy && matches!(target.want, Want::New { .. }) =>
            {
                any = true;
            }
            _ => return false,
        }
    }
    any
}

fn record(
    into: &mut Vec<Deployment>,
    operation: &Operation,
    result: DeploymentResult,
    message: Option<String>,
    now: Timestamp,
) {
    history::record(
        into,
        Deployment {
            id: 0,
            revision: operation.revision.clone(),
            change_id: operation.change_id.clone(),
            digest: Some(operation.digest.clone()),
            started_at: operation.started_at.clone(),
            finished_at: Some(Time(whole_seconds(now))),
            by: operation.by.clone(),
            result,
            message,
        },
    );
}
