//! One cluster: what to do there, and what its line in the status says.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    application::{
        PolicyMode,
        status::{ClusterLine, HealthWord, HookResult, ObjectDifference, Operation, SyncWord},
        sync::Drift,
    },
    condition::whole_seconds,
};
use windlass_manifest::health::Status;

use super::{
    deletion, heal,
    prune::{self, Pruning},
    walk::{self, Progress, Rules, Walked},
};
use crate::{
    application::{
        contest::Reverts,
        observed::{Reverting, Target, Want},
    },
    fleet::{Extra, Found, State, Work},
    gate::Decision,
    object::ObjectId,
    trouble::Trouble,
};

/// Differences that are shown for one cluster.
const SHOWN: usize = 10;

/// What holds for all clusters of an Application in this round.
#[expect(clippy::struct_excessive_bools, reason = "each is a right or a wish of its own")]
pub(super) struct Terms<'a> {
    /// Now.
    pub(super) now: Timestamp,
    /// The operation under way, or the one that would begin.
    pub(super) operation: &'a Operation,
    /// A new revision may be applied.
    pub(super) may_sync: bool,
    /// What others changed may be taken back.
    pub(super) may_heal: bool,
    /// Deletions may be carried out.
    pub(super) may_prune: bool,
    /// Also those that ask to be confirmed.
    pub(super) confirmed: bool,
    /// Policy lets nothing of the change pass.
    pub(super) blocked: bool,
    /// What is desired failed and is not applied: not where it is new, and not where it runs and was changed.
    pub(super) quarantined: bool,
    /// What is done about what policy refuses.
    pub(super) mode: PolicyMode,
    /// What becomes of changes that others made.
    pub(super) drift: Drift,
    /// Objects that are no longer wanted are deleted.
    pub(super) prune: bool,
    /// Make the destination's namespace.
    pub(super) create_namespace: bool,
    /// Infrastructure elsewhere that has to be ready first.
    pub(super) waits_for: Option<&'a str>,
    /// How often what was reverted.
    pub(super) reverts: &'a Reverts,
    /// See [`Rules::retry_at`].
    pub(super) retry_at: &'a dyn Fn(Timestamp, u32) -> Timestamp,
    /// The Application, as `namespace/name`.
    pub(super) owner: &'a str,
    /// The desired commit.
    pub(super) commit: Option<&'a str>,
}

/// How a cluster stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// What is wanted is applied.
    Synced,
    /// It is being applied, or waited for.
    Working(String),
    /// It differs, and nothing is done about it.
    Idle,
    /// Something failed and is tried again.
    Failing(Trouble),
    /// It failed for good.
    Failed(Trouble),
    /// Policy refuses.
    Blocked,
    /// It cannot be looked at.
    Unreachable(Trouble),
}

/// The decision about one cluster.
#[derive(Clone, Debug)]
pub(super) struct TargetPlan {
    pub(super) line: ClusterLine,
    pub(super) steps: Vec<Vec<Work>>,
    pub(super) reverting: Vec<Reverting>,
    pub(super) hooks: Vec<HookResult>,
    pub(super) outcome: Outcome,
    /// What the inventory has to name before any of the steps is done.
    pub(super) inventory: BTreeSet<ObjectId>,
    /// When to look again at the latest.
    pub(super) wake: Option<Timestamp>,
    /// It is no destination any more and nothing of ours is left there.
    pub(super) over: bool,
}

/// Whether the cluster is on its way to another revision, or was asked to go the way again.
pub(super) fn is_new(target: &Target, line: &ClusterLine, operation: Option<&Operation>) -> bool {
    let Want::New { digest } = &target.want else { return false };
    if line.digest.as_ref() != Some(digest) {
        return true;
    }
    // Somebody asked for it: once more for every cluster that was last synced before.
    operation.is_some_and(|operation| {
        operation.by.is_some()
            && operation.digest == *digest
            && line.synced_at.as_ref().map(|at| at.0) < operation.started_at.as_ref().map(|at| at.0)
    })
}

/// Decides about one cluster.
pub(super) fn plan(
    terms: &Terms<'_>,
    target: &Target,
    old: &ClusterLine,
    held: &BTreeSet<ObjectId>,
    decision: &Decision,
) -> TargetPlan {
    let mut plan = TargetPlan {
        line: ClusterLine { name: target.member.name.clone(), ..old.clone() },
        steps: Vec::new(),
        reverting: Vec::new(),
        hooks: Vec::new(),
        outcome: Outcome::Idle,
        inventory: held.clone(),
        wake: None,
        over: false,
    };
    plan.line.message = None;
    let away = target.member.trouble.as_ref().or(target.unseen.as_ref());
    if let Some(trouble) = away {
        plan.line.sync = SyncWord::Unknown;
        plan.line.health = HealthWord::Unknown;
        plan.line.healthy_since = None;
        plan.line.differences.clear();
        plan.line.message = Some(trouble.message());
        plan.outcome = Outcome::Unreachable(trouble.clone());
        return plan;
    }
    plan.inventory = prune::still_there(held, target, terms.owner);
    if target.leaving {
        leave(terms, target, &mut plan);
        return plan;
    }
    plan.line.objects = Some(count(target));
    look(target, decision, held, &mut plan.line);
    if let Some(problem) = target.problems.first() {
        plan.line.sync = SyncWord::OutOfSync;
        plan.outcome = Outcome::Failing(problem.clone());
    } else if target.want == Want::Nothing {
        plan.line.sync = SyncWord::Unknown;
        plan.line.health = HealthWord::Unknown;
    } else if is_new(target, old, Some(terms.operation)) {
        go(terms, target, decision, &mut plan);
    } else if terms.quarantined && matches!(target.want, Want::New { .. }) {
        let differs = drifted(target, decision).next().is_some();
        plan.line.sync = if differs { SyncWord::OutOfSync } else { SyncWord::Synced };
        plan.outcome = if differs { Outcome::Idle } else { Outcome::Synced };
    } else {
        heal::heal(terms, target, decision, old, &mut plan);
    }
    if let Some(kept) = target.kept.as_deref() {
        heal::keep(terms, kept, old, held, &mut plan);
    }
    if plan.line.digest.as_deref() == target.digest() && target.digest().is_some() {
        plan.line.deletion_hooks = deletion_hooks(target);
    }
    finish(terms, target, old, &mut plan);
    plan
}

/// Applies a revision step by step, prunes, and runs what comes after.
fn go(terms: &Terms<'_>, target: &Target, decision: &Decision, plan: &mut TargetPlan) {
    plan.line.sync = SyncWord::OutOfSync;
    plan.line.contested.clear();
    if terms.blocked {
        plan.outcome = Outcome::Blocked;
        return;
    }
    if !terms.may_sync {
        plan.outcome = Outcome::Idle;
        return;
    }
    if let Some(cluster) = terms.waits_for.filter(|cluster| *cluster != target.member.name) {
        plan.outcome = Outcome::Working(format!("waits for the infrastructure on {cluster}"));
        return;
    }
    let rules = Rules {
        operation: terms.operation,
        left_out: &decision.left_out,
        retry_at: terms.retry_at,
        reverts: terms.reverts,
        now: terms.now,
    };
    plan.line.target = target.digest().map(str::to_owned);
    plan.inventory.extend(wanted_ids(target, &decision.left_out));
    let walked = walk::sync(target, &rules);
    if terms.create_namespace && namespace_is_missing(target) {
        let work = Work::EnsureNamespace(target.namespace.clone());
        if let Some((trouble, next)) = target.held(&work.object(), None, terms.retry_at, terms.now) {
            plan.wake = Some(next);
            plan.outcome = Outcome::Failing(trouble);
            return;
        }
        plan.steps.push(vec![work]);
    }
    if !take(target, &rules, walked, plan) {
        return;
    }
    match prune::next(terms, target) {
        Pruning::Done => {}
        Pruning::Delete(work) => {
            plan.steps.push(work);
            plan.outcome = Outcome::Working("deleting what is no longer wanted".into());
            return;
        }
        Pruning::Waiting(why) => {
            plan.outcome = Outcome::Working(why);
            return;
        }
    }
    let walked = walk::after(target, &rules);
    if take(target, &rules, walked, plan) {
        plan.outcome = Outcome::Synced;
        plan.line.sync = SyncWord::Synced;
        plan.line.revision = terms.commit.map(str::to_owned);
        plan.line.digest = target.digest().map(str::to_owned);
        plan.line.synced_at = Some(Time(whole_seconds(terms.now)));
    }
}

/// Takes over what a walk found; whether it came to its end.
fn take(target: &Target, rules: &Rules<'_>, walked: Walked, plan: &mut TargetPlan) -> bool {
    plan.steps.extend(walked.steps);
    plan.hooks.extend(walked.hooks);
    plan.reverting.extend(walked.reverting);
    plan.line.contested.extend(walked.contested);
    plan.outcome = match walked.progress {
        Progress::Done => return plan.steps.is_empty(),
        Progress::Working(what) | Progress::Waiting(what) => Outcome::Working(what),
        Progress::Failing(trouble, next) => {
            plan.wake = next;
            Outcome::Failing(trouble)
        }
        Progress::Failed(trouble) => {
            let after = walk::failed(target, rules);
            plan.steps.extend(after.steps);
            plan.hooks.extend(after.hooks);
            if after.progress == Progress::Done || matches!(after.progress, Progress::Failed(_)) {
                Outcome::Failed(trouble)
            } else {
                Outcome::Working(format!("running SyncFail hooks: {}", trouble.what))
            }
        }
    };
    false
}

/// Hooks that run when the Application is deleted.
fn deletion_hooks(target: &Target) -> Option<u32> {
    let members = target.parts.iter().flat_map(|part| &part.program.members);
    u32::try_from(members.filter(|member| member.runs_at_deletion()).count()).ok().filter(|count| *count > 0)
}

/// A cluster that is no destination any more: what we applied there goes, within the budget.
fn leave(terms: &Terms<'_>, target: &Target, plan: &mut TargetPlan) {
    plan.line.differences.clear();
    plan.line.sync = SyncWord::OutOfSync;
    if !terms.prune {
        // Left as it is, and no longer ours to look after: nothing there says that it is ours.
        let ours: Vec<&Extra> =
            target.extra.iter().filter(|extra| deletion::is_ours(extra, terms.owner)).collect();
        let work = deletion::release(&ours);
        if work.is_empty() {
            plan.over = true;
            plan.outcome = Outcome::Synced;
            return;
        }
        plan.outcome = Outcome::Working("no longer a destination: letting go of what is there".into());
        if terms.may_heal {
            plan.steps.push(work);
        }
        return;
    }
    match prune::next(terms, target) {
        Pruning::Done => {
            plan.over = true;
            plan.outcome = Outcome::Synced;
        }
        Pruning::Delete(work) => {
            plan.steps.push(work);
            plan.outcome = Outcome::Working("no longer a destination: deleting".into());
        }
        Pruning::Waiting(why) => plan.outcome = Outcome::Working(format!("no longer a destination: {why}")),
    }
}

/// What the line says of differences and health.
fn look(target: &Target, decision: &Decision, held: &BTreeSet<ObjectId>, line: &mut ClusterLine) {
    line.differences = drifted(target, decision).flat_map(differences).take(SHOWN).collect();
    line.health = if held.is_empty() && line.digest.is_none() {
        HealthWord::Missing
    } else {
        worst(target, decision, held).map_or(HealthWord::Healthy, |(word, _)| word)
    };
}

/// Wanted objects that are not as wanted; hooks are not compared.
pub(super) fn drifted<'a>(target: &'a Target, decision: &'a Decision) -> impl Iterator<Item = &'a Found> {
    target.parts.iter().flat_map(|part| {
        part.found
            .iter()
            .zip(&part.program.members)
            .filter(|(found, member)| {
                member.hook.is_none()
                    && found.state != State::Same
                    && !decision.left_out.contains(found.wanted.id())
            })
            .map(|(found, _)| found)
    })
}

fn differences(found: &Found) -> Vec<ObjectDifference> {
    let object = found.wanted.id().short();
    let one = |live: &str| {
        vec![ObjectDifference {
            object: object.clone(),
            live: Some(live.to_owned()),
            ..ObjectDifference::default()
        }]
    };
    match &found.state {
        State::Same => Vec::new(),
        State::Missing => one("missing"),
        State::UnknownKind => one("its kind is not served"),
        State::Foreign(owner) => one(&format!("owned by Application {owner}")),
        State::Unknown(trouble) => one(&trouble.what),
        State::Differs(all) => all
            .iter()
            .take(SHOWN)
            .map(|difference| ObjectDifference {
                object: object.clone(),
                field: Some(difference.path.to_string()),
                wanted: difference.wanted.as_ref().map(ToString::to_string),
                live: difference.live.as_ref().map(ToString::to_string),
                manager: difference.owner.as_ref().map(|owner| owner.manager.clone()),
            })
            .collect(),
    }
}

/// The object that fares worst, if any is not healthy. Hooks do not count, nor does what is missing and was never
/// applied: a change that is held back does not make what runs any worse.
pub(super) fn worst(
    target: &Target,
    decision: &Decision,
    held: &BTreeSet<ObjectId>,
) -> Option<(HealthWord, String)> {
    let mut worst: Option<(u8, HealthWord, String)> = None;
    for part in &target.parts {
        for (found, member) in part.found.iter().zip(&part.program.members) {
            if member.hook.is_some() || decision.left_out.contains(found.wanted.id()) {
                continue;
            }
            let (word, said) = match &found.live {
                None if !held.contains(found.wanted.id()) => continue,
                None => (HealthWord::Missing, "it is not there".to_owned()),
                Some(live) => (word(live.health.status), live.health.message.clone()),
            };
            let gravity = gravity(word);
            if gravity > 0 && worst.as_ref().is_none_or(|(before, ..)| gravity > *before) {
                let said = if said.trim().is_empty() { format!("{word:?}") } else { said };
                worst = Some((gravity, word, format!("{}: {said}", found.wanted.id().short())));
            }
        }
    }
    worst.map(|(_, word, said)| (word, said))
}

/// How grave a word is; the whole is as bad as its worst part.
pub(super) fn gravity(word: HealthWord) -> u8 {
    match word {
        HealthWord::Healthy => 0,
        HealthWord::Unknown => 1,
        HealthWord::Progressing => 2,
        HealthWord::Suspended => 3,
        HealthWord::Missing => 4,
        HealthWord::Degraded => 5,
    }
}

fn word(status: Status) -> HealthWord {
    match status {
        Status::Healthy => HealthWord::Healthy,
        Status::Progressing => HealthWord::Progressing,
        Status::Degraded => HealthWord::Degraded,
        Status::Suspended => HealthWord::Suspended,
        Status::Missing => HealthWord::Missing,
        Status::Unknown => HealthWord::Unknown,
    }
}

/// What holds whatever was decided: since when it is well, and what the line says.
fn finish(terms: &Terms<'_>, target: &Target, old: &ClusterLine, plan: &mut TargetPlan) {
    let well = plan.line.sync == SyncWord::Synced && plan.line.health == HealthWord::Healthy;
    plan.line.healthy_since = well.then(|| {
        let same = old.digest == plan.line.digest;
        let before = old.healthy_since.clone().filter(|_| same);
        before.unwrap_or_else(|| Time(whole_seconds(terms.now)))
    });
    if plan.line.message.is_some() {
        return;
    }
    plan.line.message = match &plan.outcome {
        Outcome::Working(what) => Some(crate::trouble::sentence(what)),
        Outcome::Failing(trouble) | Outcome::Failed(trouble) => Some(trouble.message()),
        Outcome::Blocked => Some("Policy refuses the change; nothing of it is applied.".into()),
        Outcome::Idle | Outcome::Synced | Outcome::Unreachable(_) => match plan.line.contested.first() {
            Some(contested) => Some(format!(
                "{} is contested: {} changed it back {} times. Let one of the two leave the field alone.",
                contested.object, contested.manager, contested.rounds
            )),
            None => worst(target.running(), &Decision::pass(), &plan.inventory).map(|(_, said)| said),
        },
    };
}

fn namespace_is_missing(target: &Target) -> bool {
    // Unjudged objects in the destination's namespace are what its absence looks like.
    target.found().any(|found| {
        found.wanted.id().namespace == target.namespace
            && matches!(found.state, State::Missing)
            && found.verdict.is_none()
    }) && !target.found().any(|found| {
        let id = found.wanted.id();
        id.kind == "Namespace" && id.group.is_empty() && id.name == target.namespace
    })
}

pub(super) fn wanted_ids<'a>(
    target: &'a Target,
    left_out: &'a BTreeSet<ObjectId>,
) -> impl Iterator<Item = ObjectId> + 'a {
    target.found().map(|found| found.wanted.id()).filter(|id| !left_out.contains(id)).cloned()
}

fn count(target: &Target) -> u32 {
    u32::try_from(target.found().count()).unwrap_or(u32::MAX)
}

pub(super) fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
