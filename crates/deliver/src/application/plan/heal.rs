//! What others changed is taken back: to what is wanted, or, while that is held back, to what runs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_api::application::{
    status::{ClusterLine, Contested, HealthWord, SyncWord},
    sync::Drift,
};

use super::{
    prune::{self, Pruning},
    standing,
    target::{Outcome, TargetPlan, Terms, drifted, earliest, wanted_ids, worst},
};
use crate::{
    application::{
        contest,
        observed::{Reverting, Target},
    },
    fleet::{Found, Work},
    gate::{Decision, Ruling},
    object::ObjectId,
    trouble::Trouble,
};

/// Takes back what others changed, or shows it.
pub(super) fn heal(
    terms: &Terms<'_>,
    target: &Target,
    decision: &Decision,
    old: &ClusterLine,
    plan: &mut TargetPlan,
) {
    let mut contested = Vec::new();
    let mut differs = false;
    let mut refused = None;
    for found in drifted(target, decision) {
        differs = true;
        if terms.drift != Drift::Revert || !terms.may_heal {
            continue;
        }
        let (id, one) = (found.wanted.id(), Reverting::of(found));
        let cluster = &target.member.name;
        let ruling = terms.reverts.decide(cluster, id, found.wanted.digest(), one.manager(), terms.now);
        let before = old.contested.iter().find(|before| before.object == id.short());
        match (ruling, before) {
            // The count was lost with a restart; the verdict was not.
            (contest::Decision::Revert, Some(before)) if !terms.reverts.knows(cluster, id) => {
                contested.push(before.clone());
            }
            (contest::Decision::Contested { manager, rounds }, _) => {
                contested.push(Contested { object: id.short(), manager, rounds });
            }
            (contest::Decision::Wait(until), _) => plan.wake = earliest(plan.wake, Some(until)),
            (contest::Decision::Revert, _) => match revert(terms, target, found) {
                Ok(Some(work)) => {
                    plan.reverting.push(one);
                    plan.steps.push(vec![work]);
                }
                Ok(None) => {}
                Err((trouble, next)) => {
                    plan.wake = earliest(plan.wake, next);
                    refused = Some(trouble);
                }
            },
        }
    }
    plan.line.sync = if differs { SyncWord::OutOfSync } else { SyncWord::Synced };
    plan.line.contested = contested;
    plan.outcome = match refused {
        Some(trouble) => Outcome::Failing(trouble),
        None if !plan.steps.is_empty() => Outcome::Working("taking changes back".into()),
        None if differs => Outcome::Idle,
        None => Outcome::Synced,
    };
    if terms.may_heal && terms.drift == Drift::Revert && plan.steps.is_empty() {
        // What was left over by a sync that was cut short is still to go.
        match prune::next(terms, target) {
            Pruning::Done => {}
            Pruning::Delete(work) => plan.steps.push(work),
            Pruning::Waiting(why) => plan.line.message = Some(why),
        }
    }
}

/// Something newer is held back: what runs is healed meanwhile. The line goes on telling of the newer one, but for how it
/// fares, which is how what runs does.
pub(super) fn keep(
    terms: &Terms<'_>,
    kept: &Target,
    old: &ClusterLine,
    held: &BTreeSet<ObjectId>,
    plan: &mut TargetPlan,
) {
    let idle = matches!(plan.outcome, Outcome::Idle | Outcome::Blocked | Outcome::Failing(_));
    if !idle || !plan.steps.is_empty() {
        return;
    }
    let decision = standing::judge(terms.mode, kept);
    let mut healing = TargetPlan { steps: Vec::new(), reverting: Vec::new(), wake: None, ..plan.clone() };
    heal(terms, kept, &decision, old, &mut healing);
    // What it runs stays in the inventory, also while it is not there.
    plan.inventory.extend(wanted_ids(kept, &decision.left_out).filter(|id| held.contains(id)));
    plan.inventory.extend(healing.steps.iter().flatten().map(Work::object));
    plan.line.contested = healing.line.contested;
    plan.line.health = worst(kept, &decision, held).map_or(HealthWord::Healthy, |(word, _)| word);
    plan.wake = earliest(plan.wake, healing.wake);
    plan.steps = healing.steps;
    plan.reverting = healing.reverting;
    if let Outcome::Failing(trouble) = healing.outcome
        && plan.outcome == Outcome::Idle
    {
        plan.line.message = Some(trouble.message());
    }
}

/// How a change is taken back, if it can be now; or why not, and when it is tried again.
fn revert(
    terms: &Terms<'_>,
    target: &Target,
    found: &Found,
) -> Result<Option<Work>, (Trouble, Option<Timestamp>)> {
    let id = found.wanted.id();
    let held = target.held(id, Some(found.wanted.digest()), terms.retry_at, terms.now);
    if let Some((trouble, next)) = held {
        return Err((trouble, Some(next)));
    }
    if found.live.as_ref().is_some_and(|live| live.deleting) {
        return Ok(None);
    }
    let Some(verdict) = &found.verdict else { return Ok(None) };
    match &verdict.ruling {
        Ruling::Refused(why) | Ruling::Error(why) => {
            let what =
                format!("{} was changed and cannot be put back: {}: {why}", id.short(), verdict.policy);
            Err((Trouble::passing("RevertRefused", what, "Mend the policy or the source"), None))
        }
        Ruling::Pass | Ruling::Warned(_) => Ok(Some(Work::Apply(found.wanted.clone()))),
    }
}
