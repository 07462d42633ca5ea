//! The Application is being deleted: what it applied goes, or is let go of.
//!
//! ```text
//!   each cluster: PreDelete hooks end well ─► objects go, layer by layer ─► PostDelete hooks end well ─► hooks go ─► released
//! ```
//!
//! How far it has come follows from what is there. Stored are the hooks that ended well, for what a hook made may be gone
//! by then, and the names of hooks that have still to run, in the inventory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    ApplicationStatus,
    application::{
        DELETION_HOOKS_ANNOTATION, Deletion,
        status::{Approval, Granted, HookResult, Operation, Phase},
        sync::DeletionBudget,
    },
    condition::{self, READY, Truth, whole_seconds},
};
use windlass_cluster::drive::{Plan, Wake};

use super::{
    inventory, notes,
    prune::{self, Pruning},
    retry_at,
    walk::{self, Progress, Rules, Walked},
};
use crate::{
    application::{
        budget::{self, Wish},
        observed::{Action, Batch, Observed, Target},
        program::SyncPhase,
    },
    fleet::{Extra, Found, Prune, Work},
    object::ObjectId,
    trouble::{Trouble, sentence},
};

/// Stands for the digest of an operation that is a deletion.
const DELETION: &str = "deletion";

/// No budget: who deletes an Application means all of it. Only what asks to be confirmed is asked for.
const NO_BUDGET: DeletionBudget = DeletionBudget { max_objects: u32::MAX, max_percent: 100 };

/// Decides about an Application that is being deleted.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, ApplicationStatus> {
    let consent = consent(observed);
    let mut farewell = Farewell {
        observed,
        now,
        owner: observed.key.to_string(),
        confirmed: consent.confirmed,
        known: inventory::by_cluster(&observed.status.inventory),
        operation: operation(observed, now),
        left: BTreeMap::new(),
        batches: Vec::new(),
        waits: Vec::new(),
        ended: Vec::new(),
        write_first: false,
    };
    for target in &observed.targets {
        farewell.cluster(target);
    }
    if farewell.left.is_empty() {
        return Plan { released: true, ..Plan::rest() };
    }
    farewell.told(consent.needs, consent.granted)
}

/// Whether those that ask to be confirmed (`Delete=confirm`) may go.
fn consent(observed: &Observed) -> budget::Verdict {
    let owner = observed.key.to_string();
    let mut wishes = Vec::new();
    for target in observed.targets.iter().filter(|_| observed.spec.deletion == Deletion::Delete) {
        wishes.extend(target.extra.iter().filter(|extra| is_ours(extra, &owner) && asks(extra)).map(
            |extra| Wish { cluster: target.member.name.clone(), object: extra.id.clone(), confirm: true },
        ));
    }
    budget::judge(&NO_BUDGET, &wishes, &prune::held(observed), prune::said(observed))
}

pub(super) fn is_ours(extra: &Extra, owner: &str) -> bool {
    extra.live.as_ref().is_some_and(|live| live.owner.as_deref() == Some(owner))
}

fn asks(extra: &Extra) -> bool {
    extra.live.as_ref().is_some_and(|live| live.fate.delete == Prune::Confirm)
}

/// The run of the deletion's hooks: the same as long as the Application is the same.
fn operation(observed: &Observed, now: Timestamp) -> Operation {
    let began = Some(Time(whole_seconds(observed.deleted_at.unwrap_or(now))));
    let known = observed.status.operation.clone();
    known.filter(|known| known.digest == DELETION && known.started_at == began).unwrap_or_else(|| Operation {
        revision: observed.status.sync.revision.clone().unwrap_or_default(),
        digest: DELETION.into(),
        started_at: began,
        ..Operation::default()
    })
}

/// Why it is not over yet.
struct Wait {
    reason: &'static str,
    message: String,
}

struct Farewell<'a> {
    observed: &'a Observed,
    now: Timestamp,
    owner: String,
    confirmed: bool,
    known: BTreeMap<String, BTreeSet<ObjectId>>,
    operation: Operation,
    /// What the inventory still has to name.
    left: BTreeMap<String, BTreeSet<ObjectId>>,
    batches: Vec<Batch>,
    waits: Vec<Wait>,
    /// Hooks that ended well in this round.
    ended: Vec<HookResult>,
    /// The status has to be written before there is anything to do.
    write_first: bool,
}

impl Farewell<'_> {
    fn cluster(&mut self, target: &Target) {
        let name = &target.member.name;
        if let Some(trouble) = target.member.trouble.as_ref().or(target.unseen.as_ref()) {
            self.left.insert(name.clone(), target.extra.iter().map(|extra| extra.id.clone()).collect());
            let message = format!(
                "Cluster {name} cannot be cleaned up: {} If it is gone for good, delete its Cluster; \
                 to leave everything as it is, set spec.deletion to Orphan.",
                trouble.message()
            );
            self.waits.push(Wait { reason: "Deleting", message });
            return;
        }
        let ours: Vec<&Extra> = target.extra.iter().filter(|extra| is_ours(extra, &self.owner)).collect();
        match self.observed.spec.deletion {
            Deletion::Orphan => {
                self.leave(target, ours.iter().map(|extra| &extra.id));
                self.push(target, vec![release(&ours)]);
            }
            Deletion::Delete => self.delete(target, &ours),
        }
    }

    fn delete(&mut self, target: &Target, ours: &[&Extra]) {
        let hooks: Vec<&Found> = target.found().collect();
        let everything =
            || ours.iter().map(|extra| &extra.id).chain(hooks.iter().map(|hook| hook.wanted.id()));
        if let Some(problem) = target.problems.first() {
            // What is to run before the end is not known: to go on would be to leave it out.
            self.leave(target, self.inventory(target).iter());
            self.hold(target, problem);
            return;
        }
        if !self.ran(target, SyncPhase::PreDelete) {
            self.leave(target, everything());
            return;
        }
        // A hook that comes after everything else still needs a place to run in.
        let after = hooks_of(target, SyncPhase::PostDelete);
        let (last, first): (Vec<&Extra>, Vec<&Extra>) = ours
            .iter()
            .copied()
            .partition(|extra| after.iter().any(|hook| prune::holds(&extra.id, hook.wanted.id())));
        if !first.is_empty() {
            self.leave(target, everything());
            let work = self.next(&first);
            self.push(target, vec![work]);
            return;
        }
        if !self.ran(target, SyncPhase::PostDelete) {
            self.leave(target, everything());
            return;
        }
        let run: Vec<Extra> =
            hooks.iter().map(|hook| extra_of(hook)).filter(|one| is_ours(one, &self.owner)).collect();
        let rest: Vec<&Extra> = run.iter().chain(last).collect();
        self.leave(target, rest.iter().map(|extra| &extra.id));
        let work = self.next(&rest);
        self.push(target, vec![work]);
    }

    /// What goes next; an object that says that it has to stay is let go of.
    fn next(&mut self, ours: &[&Extra]) -> Vec<Work> {
        let keeps = |extra: &&Extra| extra.live.as_ref().is_some_and(|live| live.fate.delete == Prune::No);
        let kept: Vec<&Extra> = ours.iter().copied().filter(keeps).collect();
        // What holds such an object is let go of with it: it would take the object along.
        let stays =
            |extra: &&Extra| keeps(extra) || kept.iter().any(|kept| prune::holds(&extra.id, &kept.id));
        let (stay, going): (Vec<&Extra>, Vec<&Extra>) = ours.iter().copied().partition(stays);
        let mut work = release(&stay);
        let (waiting, going): (Vec<&Extra>, Vec<&Extra>) =
            going.into_iter().partition(|extra| !self.confirmed && asks(extra));
        let going = prune::unshielded(going, &waiting);
        match prune::layer(&going) {
            Pruning::Done => {}
            Pruning::Delete(more) => work.extend(more),
            Pruning::Waiting(why) => self.waits.push(Wait { reason: "Deleting", message: sentence(&why) }),
        }
        work
    }

    /// Whether the hooks of a phase are through; if not, what is to be done about it is noted.
    fn ran(&mut self, target: &Target, phase: SyncPhase) -> bool {
        let observed = self.observed;
        let retry = |at: Timestamp, count: u32| retry_at(observed, at, count);
        let rules = Rules {
            operation: &self.operation,
            left_out: &BTreeSet::new(),
            retry_at: &retry,
            reverts: &observed.reverts,
            now: self.now,
        };
        let Walked { steps, progress, hooks, .. } = walk::deletion(target, &rules, phase);
        let ended = hooks.into_iter().filter(|hook| hook.succeeded);
        let before = self.ended.len();
        self.ended.extend(ended);
        self.push(target, steps);
        match progress {
            Progress::Done => {
                // What a hook was there for may be deleted next, and the hook with it: that it ran is written first.
                let news = self.ended.len() > before;
                self.write_first |= news;
                return !news;
            }
            Progress::Working(_) => {}
            Progress::Waiting(what) => {
                let message = sentence(&format!("{}: {what}", target.member.name));
                self.waits.push(Wait { reason: "RunningHooks", message });
            }
            Progress::Failing(trouble, _) | Progress::Failed(trouble) => self.hold(target, &trouble),
        }
        false
    }

    /// Something about the hooks is wrong: nothing more is deleted on this cluster.
    fn hold(&mut self, target: &Target, trouble: &Trouble) {
        let what = trouble.what.trim_end_matches('.');
        let message = format!(
            "{}: {what}. Nothing more is deleted there before its deletion hooks ended well. Delete a hook that failed to \
             run it again, annotate the Application with {DELETION_HOOKS_ANNOTATION}: skip to go without them, or set \
             spec.deletion to Orphan.",
            target.member.name
        );
        self.waits.insert(0, Wait { reason: trouble.reason, message });
    }

    fn inventory(&self, target: &Target) -> BTreeSet<ObjectId> {
        self.known.get(&target.member.name).cloned().unwrap_or_default()
    }

    fn leave<'i>(&mut self, target: &Target, ids: impl Iterator<Item = &'i ObjectId>) {
        let ids: BTreeSet<ObjectId> = ids.cloned().collect();
        if !ids.is_empty() {
            self.left.insert(target.member.name.clone(), ids);
        }
    }

    /// Takes work on; what the inventory does not name yet waits for the next round.
    fn push(&mut self, target: &Target, steps: Vec<Vec<Work>>) {
        let known = self.inventory(target);
        let unnamed = steps.iter().flatten().any(|work| match work {
            Work::Apply(wanted) => !known.contains(wanted.id()),
            _ => false,
        });
        if unnamed {
            self.write_first = true;
            return;
        }
        let tried = steps.iter().flatten().find_map(|work| target.attempts.get(&work.object()));
        if let Some(attempt) = tried {
            self.waits.push(Wait { reason: "Deleting", message: attempt.trouble.message() });
        }
        let steps: Vec<Vec<Work>> = steps.into_iter().filter(|step| !step.is_empty()).collect();
        if !steps.is_empty() {
            self.batches.push(Batch {
                cluster: target.member.name.clone(),
                as_user: super::as_user(self.observed),
                steps,
                reverting: Vec::new(),
            });
        }
    }

    fn told(mut self, needs: Option<Approval>, granted: Option<Granted>) -> Plan<Action, ApplicationStatus> {
        let observed = self.observed;
        let mut status = observed.status.clone();
        status.observed_generation = observed.generation;
        status.phase = Some(Phase::Pending);
        let Wait { reason, message } = self.first_wait(needs.as_ref());
        self.operation.hooks.append(&mut self.ended);
        self.operation.step = Some(message.clone());
        let hooks = observed.targets.iter().any(|target| target.found().next().is_some());
        status.operation = hooks.then_some(self.operation);
        (status.approval, status.granted) = (needs, granted);
        status.inventory = inventory::grouped(&self.left);
        let generation = observed.generation;
        condition::set(&mut status.conditions, READY, Truth::False, reason, &message, generation, self.now);
        let failing = observed.targets.iter().any(|target| !target.attempts.is_empty());
        let wake = if self.write_first {
            Wake::After(Duration::ZERO)
        } else if self.batches.is_empty() || failing {
            Wake::Retry { longest: Duration::from_secs(60) }
        } else {
            Wake::After(Duration::from_millis(200))
        };
        let actions = if self.batches.is_empty() {
            Vec::new()
        } else {
            vec![Action::Work { app: observed.key.clone(), batches: self.batches }]
        };
        let notes = notes::deletion(&observed.status, &status);
        Plan { actions, status: Some(status), notes, wake, released: false }
    }

    /// What is most in the way.
    fn first_wait(&mut self, needs: Option<&Approval>) -> Wait {
        let grave =
            self.waits.iter().position(|wait| wait.reason != "Deleting" && wait.reason != "RunningHooks");
        if let Some(at) = grave {
            return self.waits.swap_remove(at);
        }
        if let Some(approval) = needs {
            return Wait { reason: "ApprovalNeeded", message: notes::confirmation(approval) };
        }
        if !self.waits.is_empty() {
            return self.waits.swap_remove(0);
        }
        let count: usize = self.left.values().map(BTreeSet::len).sum();
        let message = match self.observed.spec.deletion {
            Deletion::Delete => format!("{count} objects are being deleted."),
            Deletion::Orphan => format!("{count} objects are being let go of."),
        };
        Wait { reason: "Deleting", message }
    }
}

/// Hooks of a phase.
fn hooks_of(target: &Target, phase: SyncPhase) -> Vec<&Found> {
    let of = |part: &'_ crate::application::observed::Part| -> Vec<usize> {
        part.program.of(phase).flat_map(|step| step.objects.iter().copied()).collect()
    };
    target.parts.iter().flat_map(|part| of(part).into_iter().filter_map(|at| part.found.get(at))).collect()
}

/// A hook as something that is to go.
fn extra_of(hook: &Found) -> Extra {
    Extra { id: hook.wanted.id().clone(), live: hook.live.clone() }
}

/// Lets go of objects: they stay, and are nobody's.
pub(super) fn release(ours: &[&Extra]) -> Vec<Work> {
    let release = |extra: &&Extra| {
        let live = extra.live.as_ref()?;
        Some(Work::Release { id: extra.id.clone(), uid: live.uid.clone() })
    };
    ours.iter().filter_map(release).collect()
}
