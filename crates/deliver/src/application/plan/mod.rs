//! Decides about an `Application`. Pure: facts in, plan out.
//!
//! ```text
//!   facts ─► standing (gate: may anything pass? what else holds it?) ─► budget (deletions) ─► operation (begin, go on, end)
//!         ─► each cluster: walk the steps · heal · prune ─► inventory first, then work ─► status, notes, wake
//! ```
//!
//! Guarantees: nothing is applied that the inventory does not name yet; nothing is deleted that the inventory, the object
//! itself and the budget do not all allow; with `strict` nothing of a refused change is applied anywhere; replanning after
//! everything is done gives no work and the same status.

mod conditions;
mod deletion;
mod heal;
pub(crate) mod inventory;
mod notes;
mod operation;
pub(crate) mod prune;
mod quarantine;
mod standing;
mod status;
mod target;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use windlass_api::{
    ApplicationStatus,
    application::status::{ClusterLine, Operation},
};
use windlass_cluster::drive::{Plan, Wake};

pub(crate) use operation::timed_out;
pub(crate) use standing::kept;

use self::{
    operation::Course,
    quarantine::Standstill,
    target::{Outcome, TargetPlan, Terms},
};
use super::{
    budget,
    observed::{Action, Batch, Observed, Part, PartKind, Target, Want},
    windows::{self, Opening},
};
use crate::{
    fleet::{State, Work},
    gate::Decision,
    trouble::Trouble,
};

/// Longest wait before something that failed is looked at again.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// Wait before the first repetition, if the spec says nothing.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest wait between repetitions, if the spec says nothing.
const LAST_RETRY: Duration = Duration::from_secs(180);
/// Time in which a revision has to become healthy, if the spec says nothing.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(600);
/// Time in which infrastructure has to become ready, if the spec says nothing.
const INFRASTRUCTURE_TIMEOUT: Duration = Duration::from_secs(1800);

/// Decides.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, ApplicationStatus> {
    if observed.deleting {
        return deletion::plan(observed, now);
    }
    if observed.spec.suspend {
        return settled(observed, status::suspended(observed, now), Wake::OnChange);
    }
    if let Some(trouble) = observed.invalid.first() {
        return settled(observed, status::invalid(observed, trouble, now), Wake::OnChange);
    }
    if observed.waits_for_fetch() {
        // Said before and still true as far as anybody knows: a restart writes nothing.
        return settled(observed, observed.status.clone(), Wake::OnChange);
    }
    match windows::look(&observed.spec.sync.windows, now, asked(observed).is_some()) {
        Ok(opening) => decide(observed, &opening, now),
        Err(trouble) => settled(observed, status::invalid(observed, &trouble, now), Wake::OnChange),
    }
}

fn settled(observed: &Observed, status: ApplicationStatus, wake: Wake) -> Plan<Action, ApplicationStatus> {
    let notes = notes::between(&observed.status, &status);
    Plan { actions: Vec::new(), status: Some(status), notes, wake, released: false }
}

/// All that was decided, before it becomes a status.
struct Verdicts<'a> {
    observed: &'a Observed,
    opening: &'a Opening,
    now: Timestamp,
    course: Course,
    decisions: Vec<Decision>,
    /// Of clusters whose wave has not come.
    ahead: Vec<Decision>,
    deletions: budget::Verdict,
    plans: Vec<TargetPlan>,
    /// Why a new revision is not applied although there is one.
    held: Option<Trouble>,
    /// The revision that failed, and whether it is held back for it.
    quarantine: Standstill,
}

fn decide(observed: &Observed, opening: &Opening, now: Timestamp) -> Plan<Action, ApplicationStatus> {
    let quarantine = quarantine::of(observed, now);
    let standing::Standing { decisions, ahead, blocked, held } = standing::of(observed, opening);
    let held = quarantine.trouble().or(held);
    let course = operation::course(observed, held.is_none() && !blocked, now);
    let deletions = prune::judge(observed);
    // One that is not begun was asked for by nobody: it does not send anybody the way again.
    let provisional =
        course.operation.clone().unwrap_or_else(|| Operation { by: None, ..operation::begin(observed, now) });
    let retry_at = |at: Timestamp, count: u32| retry_at(observed, at, count);
    let owner = observed.key.to_string();
    let sync = &observed.spec.sync;
    let terms = Terms {
        now,
        operation: &provisional,
        may_sync: course.operation.is_some() && held.is_none(),
        may_heal: (sync.automated || course.operation.is_some()) && opening.open,
        may_prune: deletions.allowed && opening.open && (sync.automated || course.operation.is_some()),
        confirmed: deletions.confirmed,
        blocked,
        quarantined: quarantine.holds,
        mode: observed.spec.policy.mode,
        drift: sync.drift,
        prune: sync.prune,
        create_namespace: sync.create_namespace,
        waits_for: infrastructure_elsewhere(observed),
        reverts: &observed.reverts,
        retry_at: &retry_at,
        owner: &owner,
        commit: observed.desired.as_ref().map(|desired| desired.commit.as_str()),
    };
    let known = inventory::by_cluster(&observed.status.inventory);
    let plans: Vec<TargetPlan> = observed
        .targets
        .iter()
        .zip(&decisions)
        .map(|(target, decision)| {
            let held = known.get(&target.member.name).cloned().unwrap_or_default();
            target::plan(&terms, target, &line(observed, target), &held, decision)
        })
        .collect();
    let verdicts =
        Verdicts { observed, opening, now, course, decisions, ahead, deletions, plans, held, quarantine };
    verdicts.carry_out(&known)
}

impl Verdicts<'_> {
    fn carry_out(
        mut self,
        known: &BTreeMap<String, BTreeSet<crate::object::ObjectId>>,
    ) -> Plan<Action, ApplicationStatus> {
        let named = |plan: &TargetPlan| {
            let known = known.get(&plan.line.name);
            plan.steps.iter().flatten().all(|work| match work {
                Work::Apply(wanted) | Work::Put(wanted) | Work::Replace { wanted, .. } => {
                    known.is_some_and(|known| known.contains(wanted.id()))
                }
                _ => true,
            })
        };
        let as_user = as_user(self.observed);
        let mut first = false;
        let mut batches = Vec::new();
        for plan in self.plans.iter_mut().filter(|plan| !plan.steps.is_empty()) {
            if named(plan) {
                batches.push(Batch {
                    cluster: plan.line.name.clone(),
                    as_user: as_user.clone(),
                    steps: std::mem::take(&mut plan.steps),
                    reverting: std::mem::take(&mut plan.reverting),
                });
            } else {
                // What is not in the inventory is not made: the status is written first, the work comes in the next round.
                first = true;
            }
        }
        operation::end(&mut self);
        let reverting = quarantine::revert(self.observed, &mut self.quarantine, self.now);
        let (status, mut wake) = status::of(&self);
        // Waves follow what the status says of the clusters: once that is another, somebody else may begin.
        let waves_move = self.observed.rollout.is_some() && status.clusters != self.observed.status.clusters;
        if first || waves_move || !batches.is_empty() || reverting.is_some() {
            wake = Wake::After(Duration::ZERO);
        }
        let mut actions = Vec::new();
        if !batches.is_empty() {
            actions.push(Action::Work { app: self.observed.key.clone(), batches });
        }
        actions.extend(self.observed.analysis.clone().map(Action::Analyse));
        // What is pushed is known to be quarantined: the status says so before.
        actions.extend(reverting);
        let notes = notes::between(&self.observed.status, &status);
        Plan { actions, status: Some(status), notes, wake, released: false }
    }
}

/// The line of a cluster as it was.
fn line(observed: &Observed, target: &Target) -> ClusterLine {
    let name = &target.member.name;
    observed.status.clusters.iter().find(|line| line.name == *name).cloned().unwrap_or_default()
}

/// The cluster whose infrastructure has to be ready before others get anything.
fn infrastructure_elsewhere(observed: &Observed) -> Option<&str> {
    let cluster = observed.spec.infrastructure.as_ref()?.cluster.as_deref()?;
    let target = observed.targets.iter().find(|target| target.member.name == cluster);
    let ready = target.is_some_and(|target| {
        let parts = || target.parts.iter().filter(|part| part.kind == PartKind::Infrastructure);
        target.unseen.is_none() && parts().next().is_some() && parts().all(|part| is_ready(target, part))
    });
    (!ready).then_some(cluster)
}

fn is_ready(target: &Target, part: &Part) -> bool {
    target.missing_secrets.is_empty()
        && part.found.iter().all(|found| {
            found.state == State::Same
                && found
                    .live
                    .as_ref()
                    .is_some_and(|live| live.health.status == windlass_manifest::health::Status::Healthy)
        })
}

/// A request for a sync that was not carried out yet.
fn asked(observed: &Observed) -> Option<&str> {
    let asked = observed.requests.sync.as_deref()?;
    (observed.status.last_sync_request.as_deref() != Some(asked)).then_some(asked)
}

/// When something that failed is tried again: doubled with each failure.
fn retry_at(observed: &Observed, at: Timestamp, count: u32) -> Timestamp {
    let retry = observed.spec.sync.retry.as_ref();
    let first = retry.and_then(|retry| retry.first).map_or(FIRST_RETRY, Into::into);
    let longest = retry.and_then(|retry| retry.longest).map_or(LAST_RETRY, Into::into);
    let wait =
        first.saturating_mul(1u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX)).min(longest);
    at.checked_add(wait).unwrap_or(at)
}

/// The account that everything is applied as.
pub(super) fn as_user(observed: &Observed) -> Option<String> {
    let account = observed.account.as_deref()?;
    let namespace = observed.key.namespace.as_deref().unwrap_or_default();
    Some(format!("system:serviceaccount:{namespace}:{account}"))
}

/// Outcomes of the clusters that take part.
fn outcomes<'a>(
    plans: &'a [TargetPlan],
    targets: &'a [Target],
) -> impl Iterator<Item = (&'a Outcome, &'a ClusterLine)> {
    plans
        .iter()
        .zip(targets)
        .filter(|(_, target)| !target.leaving)
        .map(|(plan, _)| (&plan.outcome, &plan.line))
}

/// `Operation`s are compared by what they are for.
fn is_for(operation: &Operation, digest: &str) -> bool {
    operation.digest == digest
}
