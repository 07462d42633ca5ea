//! What the status says, and when to look again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use windlass_api::{
    ApplicationStatus,
    application::status::{DeploymentResult, Health, HealthWord, Movement, Phase, Sync, SyncWord, Violation},
    condition::{self, READY, Truth},
};
use windlass_cluster::drive::Wake;

use super::{
    FIRST_RETRY, HEALTH_TIMEOUT, INFRASTRUCTURE_TIMEOUT, LONGEST_RETRY, Outcome, TargetPlan, Verdicts, Want,
    conditions, inventory, notes, outcomes,
    target::{earliest, gravity, worst},
};
use crate::{
    application::observed::{Observed, SourceFacts},
    fleet::REFUSAL_HOLDS,
    gate::Decision,
    object::ObjectId,
    trouble::{Trouble, sentence},
};

/// Violations that are shown.
const VIOLATIONS: usize = 50;

/// Movements that are remembered.
const MOVEMENTS: usize = 10;

/// The verdict in words: phase, and reason and message of `Ready`.
struct Word {
    phase: Phase,
    ready: Truth,
    reason: String,
    message: String,
}

impl Word {
    fn not_ready(phase: Phase, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { phase, ready: Truth::False, reason: reason.into(), message: message.into() }
    }

    fn trouble(phase: Phase, trouble: &Trouble) -> Self {
        Self::not_ready(phase, trouble.reason, trouble.message())
    }
}

/// The status of an Application that is left alone.
pub(super) fn suspended(observed: &Observed, now: Timestamp) -> ApplicationStatus {
    let mut status = base(observed);
    status.operation = None;
    // Nobody looks: what was found before may not be so any more.
    status.sync.status = SyncWord::Unknown;
    status.health = Health { status: HealthWord::Suspended, message: None };
    let message = "Nothing is done for it. Set spec.suspend to false to go on.";
    set(&mut status, READY, Truth::False, "Suspended", message, now);
    status.phase = Some(Phase::Pending);
    status
}

/// The status of an Application whose spec cannot be followed.
pub(super) fn invalid(observed: &Observed, trouble: &Trouble, now: Timestamp) -> ApplicationStatus {
    let mut status = base(observed);
    status.sync.status = SyncWord::Unknown;
    set(&mut status, READY, Truth::False, trouble.reason, &trouble.message(), now);
    status.phase = Some(Phase::Failed);
    status
}

fn base(observed: &Observed) -> ApplicationStatus {
    ApplicationStatus { observed_generation: observed.generation, ..observed.status.clone() }
}

pub(super) fn set(
    status: &mut ApplicationStatus,
    type_: &str,
    truth: Truth,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let generation = status.observed_generation;
    condition::set(&mut status.conditions, type_, truth, reason, message, generation, now);
}

/// The status, and when to look again.
pub(super) fn of(verdicts: &Verdicts<'_>) -> (ApplicationStatus, Wake) {
    let observed = verdicts.observed;
    let mut status = base(observed);
    status.history.clone_from(&verdicts.course.history);
    status.operation.clone_from(&verdicts.course.operation);
    status.approval.clone_from(&verdicts.deletions.needs);
    status.granted.clone_from(&verdicts.deletions.granted);
    status.given_up.clone_from(&verdicts.course.given_up);
    let pinned = observed.desired.as_ref().and_then(|desired| desired.pin.clone());
    status.pin = verdicts.course.pin.clone().or(pinned);
    status.quarantine.clone_from(&verdicts.quarantine.entry);
    if let Some(request) = &verdicts.course.request {
        status.last_sync_request = Some(request.clone());
    }
    if let SourceFacts::Seen(seen) = &observed.source {
        status.movements = movements(observed, &seen.movements);
    }
    lines(verdicts, &mut status);
    violations(verdicts, &mut status);
    status.sync = sync(verdicts);
    status.health = health(verdicts);
    let word = word(verdicts, &status);
    conditions::set_all(verdicts, &mut status);
    set(&mut status, READY, word.ready, &word.reason, &word.message, verdicts.now);
    status.phase = Some(word.phase);
    let wake = wake(verdicts, &word);
    (status, wake)
}

/// The movements that were told before, with those that came since.
///
/// Every replica keeps its own record: when another one takes the lead, what it has not seen is not forgotten, and a name
/// that stayed where it was is no news.
fn movements(observed: &Observed, seen: &[Movement]) -> Vec<Movement> {
    let known = &observed.status.movements;
    let same_spec = observed.status.observed_generation == observed.generation;
    let Some(last) = known.first().filter(|_| same_spec) else { return seen.to_vec() };
    let place =
        seen.iter().position(|one| one == last).or_else(|| seen.iter().position(|one| one.to == last.to));
    match place {
        Some(place) => seen[..place].iter().chain(known).take(MOVEMENTS).cloned().collect(),
        None => seen.to_vec(),
    }
}

fn lines(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let mut held: BTreeMap<String, BTreeSet<ObjectId>> = inventory::by_cluster(&status.inventory);
    held.retain(|cluster, _| !verdicts.observed.lost.contains(cluster));
    let mut lines = Vec::new();
    for plan in &verdicts.plans {
        if plan.over {
            held.remove(&plan.line.name);
            continue;
        }
        held.insert(plan.line.name.clone(), plan.inventory.clone());
        let mut line = plan.line.clone();
        line.wave =
            verdicts.observed.rollout.as_ref().and_then(|rollout| {
                rollout.waves.get(&line.name).and_then(|wave| u32::try_from(wave + 1).ok())
            });
        lines.push(line);
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let well = |line: &&windlass_api::application::status::ClusterLine| {
        line.sync == SyncWord::Synced && line.health == HealthWord::Healthy
    };
    status.cluster_summary = Some(format!("{}/{}", lines.iter().filter(well).count(), lines.len()));
    status.clusters = lines;
    status.inventory = inventory::grouped(&held);
}

fn violations(verdicts: &Verdicts<'_>, status: &mut ApplicationStatus) {
    let all: Vec<Violation> =
        decisions(verdicts).flat_map(|decision| decision.violations.iter().cloned()).collect();
    status.violation_count = u32::try_from(all.len()).ok().filter(|count| *count > 0);
    status.violations = all.into_iter().take(VIOLATIONS).collect();
}

/// What policy says of every cluster, also of those whose wave has not come.
pub(super) fn decisions<'v>(verdicts: &'v Verdicts<'_>) -> impl Iterator<Item = &'v Decision> {
    verdicts.decisions.iter().chain(&verdicts.ahead)
}

fn sync(verdicts: &Verdicts<'_>) -> Sync {
    let observed = verdicts.observed;
    let desired = observed.desired.as_ref();
    let name = match &observed.source {
        SourceFacts::Seen(seen) => seen.name.clone(),
        _ => None,
    };
    let commit = desired.map(|desired| desired.commit.clone());
    let short = commit.as_deref().map(|commit| {
        let commit = commit.get(..10).unwrap_or(commit);
        match name {
            Some(name) if desired.is_some_and(|desired| desired.pin.is_none()) => format!("{name}@{commit}"),
            _ => commit.to_owned(),
        }
    });
    let before = &observed.status.sync;
    Sync {
        status: sync_word(verdicts),
        revision: commit.or_else(|| before.revision.clone()),
        short_revision: short.or_else(|| before.short_revision.clone()),
        change_id: desired.map_or_else(|| before.change_id.clone(), |desired| desired.change_id.clone()),
        digest: desired.and_then(|desired| desired.digest.clone().ok()),
    }
}

fn sync_word(verdicts: &Verdicts<'_>) -> SyncWord {
    let observed = verdicts.observed;
    let Some(Ok(digest)) = observed.desired.as_ref().map(|desired| desired.digest.as_ref()) else {
        return SyncWord::Unknown;
    };
    let mut word = if observed.targets.is_empty() { SyncWord::Unknown } else { SyncWord::Synced };
    for (plan, target) in verdicts.plans.iter().zip(&observed.targets) {
        let waits =
            !target.leaving && matches!(&target.want, Want::Keep { digest: kept, .. } if kept != digest);
        let out = plan.line.sync == SyncWord::OutOfSync && !plan.over;
        if waits || out {
            return SyncWord::OutOfSync;
        }
        if plan.line.sync == SyncWord::Unknown {
            word = SyncWord::Unknown;
        }
    }
    if verdicts.deletions.needs.is_some() { SyncWord::OutOfSync } else { word }
}

fn health(verdicts: &Verdicts<'_>) -> Health {
    let mut worst_so_far = (0, Health { status: HealthWord::Healthy, message: None });
    let mut any = false;
    for ((plan, target), decision) in
        verdicts.plans.iter().zip(&verdicts.observed.targets).zip(&verdicts.decisions)
    {
        if target.leaving {
            continue;
        }
        any = true;
        let gravity = gravity(plan.line.health);
        if gravity > worst_so_far.0 {
            let said = worst(target.running(), decision, &plan.inventory)
                .map(|(_, said)| said)
                .or_else(|| plan.line.message.clone());
            let message = said.map(|said| format!("{}: {said}", plan.line.name));
            worst_so_far = (gravity, Health { status: plan.line.health, message });
        }
    }
    if any { worst_so_far.1 } else { Health::default() }
}

/// The whole in one word, with the reason: what is most in the way comes first.
fn word(verdicts: &Verdicts<'_>, status: &ApplicationStatus) -> Word {
    source_word(verdicts)
        .or_else(|| verdicts.quarantine.trouble().map(|trouble| Word::trouble(Phase::Degraded, &trouble)))
        .or_else(|| policy_word(verdicts))
        .or_else(|| failing_word(verdicts))
        .or_else(|| waiting_word(verdicts, status))
        .unwrap_or_else(|| running_word(verdicts, status))
}

fn source_word(verdicts: &Verdicts<'_>) -> Option<Word> {
    let observed = verdicts.observed;
    match &observed.source {
        SourceFacts::Trouble(trouble) => return Some(Word::trouble(Phase::Failed, trouble)),
        SourceFacts::NotYet if observed.status.clusters.iter().all(|line| line.digest.is_none()) => {
            let message = "The repository is being fetched for the first time.";
            return Some(Word::not_ready(Phase::Pending, "Fetching", message));
        }
        _ => {}
    }
    let desired = observed.desired.as_ref()?;
    match &desired.digest {
        Err(trouble) => Some(Word::trouble(Phase::Failed, trouble)),
        Ok(_) if desired.empty => {
            let kept = if observed.status.inventory.is_empty() { "" } else { " What runs is kept." };
            let message = format!(
                "The source renders to no object at all.{kept} Mend the path; to remove everything, delete the Application."
            );
            Some(Word::not_ready(Phase::Failed, "NothingRendered", message))
        }
        Ok(_) => None,
    }
}

fn policy_word(verdicts: &Verdicts<'_>) -> Option<Word> {
    let blocked = verdicts.plans.iter().any(|plan| plan.outcome == Outcome::Blocked);
    if !blocked {
        return None;
    }
    let refusing = decisions(verdicts).filter(|decision| decision.blocked);
    let all: Vec<&Violation> = refusing.flat_map(|decision| &decision.violations).collect();
    Some(Word::not_ready(Phase::Failed, "PolicyRefused", refusal(&all)))
}

pub(super) fn refusal(all: &[&Violation]) -> String {
    let Some(first) = all.first() else { return "Policy refuses the change.".into() };
    let more = if all.len() > 1 { format!(" ({} more)", all.len() - 1) } else { String::new() };
    let at = first.cluster.as_deref().map(|cluster| format!(" on {cluster}")).unwrap_or_default();
    format!(
        "{}{at} is refused by {}: {}{more} Nothing of the change is applied: mend what is refused, or talk to whoever keeps the policy.",
        first.object,
        first.policy,
        sentence(&first.message)
    )
}

fn failing_word(verdicts: &Verdicts<'_>) -> Option<Word> {
    let found =
        outcomes(&verdicts.plans, &verdicts.observed.targets).find_map(|(outcome, line)| match outcome {
            Outcome::Failing(trouble) | Outcome::Failed(trouble) => Some((trouble, line)),
            _ => None,
        });
    if let Some((trouble, line)) = found {
        let message = format!("{}: {}", line.name, trouble.message());
        return Some(Word::not_ready(Phase::Failed, trouble.reason, message));
    }
    verdicts
        .course
        .failure
        .as_ref()
        .map(|why| Word::not_ready(Phase::Degraded, "DeploymentFailed", sentence(why)))
}

/// What it waits for before it begins, or goes on.
fn waiting_word(verdicts: &Verdicts<'_>, status: &ApplicationStatus) -> Option<Word> {
    if let Some(approval) = verdicts.deletions.needs.as_ref().filter(|approval| approval.confirm) {
        return Some(Word::not_ready(Phase::Pending, "ApprovalNeeded", notes::confirmation(approval)));
    }
    if let Some(approval) = &verdicts.deletions.needs {
        let message = format!(
            "{} of {} objects would be deleted, which is more than spec.sync.deletionBudget allows. \
             Look at them and allow it with: windlass approve",
            approval.deletions, approval.of
        );
        return Some(Word::not_ready(Phase::Pending, "ApprovalNeeded", message));
    }
    if verdicts.observed.targets.iter().all(|target| target.leaving) {
        let message =
            "No cluster matches spec.destinations. Register or label one: it gets the Application then.";
        return Some(Word::not_ready(Phase::Pending, "NoClusters", message));
    }
    let held = verdicts.held.as_ref()?;
    if held.reason == "GivenUp" {
        return Some(Word::trouble(Phase::Failed, held));
    }
    let pending = verdicts.plans.iter().zip(&verdicts.observed.targets).any(|(plan, target)| {
        plan.outcome == Outcome::Idle
            && matches!(target.want, Want::New { .. })
            && plan.line.sync == SyncWord::OutOfSync
    });
    if !pending {
        return None;
    }
    let deployed = status.clusters.iter().any(|line| line.digest.is_some());
    let phase = if deployed { running_phase(status.health.status) } else { Phase::Pending };
    Some(Word::trouble(phase, held))
}

fn running_phase(health: HealthWord) -> Phase {
    match health {
        HealthWord::Healthy | HealthWord::Suspended => Phase::Healthy,
        HealthWord::Progressing => Phase::Syncing,
        HealthWord::Degraded | HealthWord::Missing | HealthWord::Unknown => Phase::Degraded,
    }
}

/// Nothing stands in the way: how it runs.
fn running_word(verdicts: &Verdicts<'_>, status: &ApplicationStatus) -> Word {
    if let Some(halted) = verdicts.observed.rollout.as_ref().and_then(|rollout| rollout.halted()) {
        return Word::not_ready(Phase::Degraded, "Halted", sentence(halted));
    }
    let said = || status.health.message.as_deref().map(sentence).unwrap_or_default();
    if let Some(operation) = &status.operation {
        if status.health.status == HealthWord::Degraded && status.sync.status == SyncWord::Synced {
            return Word::not_ready(Phase::Degraded, "Degraded", said());
        }
        let step = operation.step.as_deref().map(sentence).unwrap_or_default();
        return Word::not_ready(Phase::Syncing, "Syncing", step);
    }
    let away: Vec<&str> = verdicts
        .plans
        .iter()
        .filter(|plan| matches!(plan.outcome, Outcome::Unreachable(_)))
        .map(|plan| plan.line.name.as_str())
        .collect();
    if let Some(line) = status.clusters.iter().find(|line| away.contains(&line.name.as_str())) {
        let message = line.message.clone().unwrap_or_default();
        let message = of_cluster(&line.name, &message);
        return Word::not_ready(Phase::Degraded, "ClusterUnreachable", message);
    }
    if let Some(line) = status.clusters.iter().find(|line| !line.contested.is_empty()) {
        let message = format!("{}: {}", line.name, line.message.clone().unwrap_or_default());
        return Word::not_ready(Phase::Degraded, "Contested", message);
    }
    let failed = status
        .history
        .first()
        .filter(|last| last.result == DeploymentResult::Failed && last.digest == status.sync.digest);
    let phase = running_phase(status.health.status);
    match (phase, failed) {
        (Phase::Syncing, Some(last)) => {
            let why = last.message.as_deref().map(sentence).unwrap_or_default();
            Word::not_ready(Phase::Degraded, "DeploymentFailed", why)
        }
        (Phase::Healthy, _) if status.sync.status == SyncWord::Synced => {
            let count = status.clusters.len();
            let clusters = if count == 1 { "cluster" } else { "clusters" };
            let message = format!("{} runs on {count} {clusters}.", short(status));
            Word { phase, ready: Truth::True, reason: "Healthy".into(), message }
        }
        (Phase::Healthy, _) => Word::not_ready(phase, "OutOfSync", differing(status)),
        (Phase::Syncing, None) => Word::not_ready(phase, "Progressing", said()),
        (_, _) => Word::not_ready(phase, format!("{:?}", status.health.status), said()),
    }
}

/// What is wrong with a cluster, with its name. Most sentences name it already.
fn of_cluster(name: &str, message: &str) -> String {
    let named = message.strip_prefix("Cluster ").and_then(|rest| rest.strip_prefix(name));
    if named.is_some_and(|rest| rest.starts_with(' ')) {
        return message.to_owned();
    }
    format!("Cluster {name}: {message}")
}

fn short(status: &ApplicationStatus) -> String {
    status.sync.short_revision.clone().unwrap_or_else(|| "What is committed".into())
}

pub(super) fn differing(status: &ApplicationStatus) -> String {
    let first = status.clusters.iter().find_map(|line| Some((line, line.differences.first()?)));
    let Some((line, first)) = first else { return "What runs is not what is committed.".into() };
    let field = first.field.as_deref().map(|field| format!(" {field}")).unwrap_or_default();
    let by = first.manager.as_deref().map(|manager| format!(", written by {manager}")).unwrap_or_default();
    let live = first.live.as_deref().unwrap_or("missing");
    format!("{}: {}{field} is {live}{by}.", line.name, first.object)
}

/// When to look again.
fn wake(verdicts: &Verdicts<'_>, word: &Word) -> Wake {
    let observed = verdicts.observed;
    let mut at = verdicts.opening.changes_at;
    for plan in &verdicts.plans {
        at = earliest(at, plan.wake);
        at = earliest(at, deadline(observed, plan));
    }
    at = earliest(at, verdicts.quarantine.wake);
    if observed.unsure {
        at = earliest(at, verdicts.now.checked_add(FIRST_RETRY).ok());
    }
    at = earliest(at, observed.rollout.as_ref().and_then(|rollout| rollout.wake));
    if let (Some(infrastructure), Some(operation)) =
        (&observed.spec.infrastructure, &verdicts.course.operation)
    {
        let timeout: Duration = infrastructure.timeout.map_or(INFRASTRUCTURE_TIMEOUT, Into::into);
        let end = operation.started_at.as_ref().and_then(|began| began.0.checked_add(timeout).ok());
        at = earliest(at, end.filter(|end| *end > verdicts.now));
    }
    let wait = at.map(|at| at.duration_since(verdicts.now).max(jiff::SignedDuration::ZERO).unsigned_abs());
    let troubled = word.phase == Phase::Failed
        || verdicts.plans.iter().any(|plan| matches!(plan.outcome, Outcome::Failing(_) | Outcome::Blocked));
    // A refusal is asked for anew when it is no longer remembered: nobody tells us that a policy was mended.
    let refused = verdicts.plans.iter().any(|plan| plan.outcome == Outcome::Blocked);
    let longest = if refused { REFUSAL_HOLDS } else { LONGEST_RETRY };
    match wait {
        Some(wait) if troubled => Wake::Retry { longest: wait.clamp(Duration::from_secs(1), longest) },
        Some(wait) => Wake::After(wait.max(Duration::from_millis(50))),
        None if troubled => Wake::Retry { longest },
        None => Wake::OnChange,
    }
}

/// When a cluster that is not healthy yet counts as failed.
fn deadline(observed: &Observed, plan: &TargetPlan) -> Option<Timestamp> {
    if plan.line.health == HealthWord::Healthy || plan.line.sync != SyncWord::Synced {
        return None;
    }
    observed.status.operation.as_ref()?;
    let timeout: Duration = observed.spec.sync.health_timeout.map_or(HEALTH_TIMEOUT, Into::into);
    plan.line.synced_at.as_ref()?.0.checked_add(timeout).ok()
}
