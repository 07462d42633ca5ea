//! The Application is being deleted: what it applied goes, or is let go of.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use windlass_api::{
    ApplicationStatus,
    application::{Deletion, status::Phase},
    condition::{self, READY, Truth},
};
use windlass_cluster::drive::{Plan, Wake};

use super::{
    inventory,
    prune::{self, Pruning},
};
use crate::{
    application::observed::{Action, Batch, Observed},
    fleet::{Extra, Work},
    object::ObjectId,
};

/// Decides about an Application that is being deleted.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, ApplicationStatus> {
    let owner = observed.key.to_string();
    let as_user = super::as_user(observed);
    let mut left: BTreeMap<String, BTreeSet<ObjectId>> = BTreeMap::new();
    let (mut batches, mut waits) = (Vec::new(), Vec::new());
    for target in &observed.targets {
        let name = &target.member.name;
        if let Some(trouble) = target.member.trouble.as_ref().or(target.unseen.as_ref()) {
            left.insert(name.clone(), target.extra.iter().map(|extra| extra.id.clone()).collect());
            waits.push(format!(
                "Cluster {name} cannot be cleaned up: {} If it is gone for good, delete its Cluster; \
                 to leave everything as it is, set spec.deletion to Orphan.",
                trouble.message()
            ));
            continue;
        }
        let ours: Vec<&Extra> = target
            .extra
            .iter()
            .filter(|extra| extra.live.as_ref().is_some_and(|live| live.owner.as_deref() == Some(&owner)))
            .collect();
        if ours.is_empty() {
            continue;
        }
        left.insert(name.clone(), ours.iter().map(|extra| extra.id.clone()).collect());
        let work = match observed.spec.deletion {
            Deletion::Orphan => release(&ours),
            Deletion::Delete => delete(&ours, &mut waits),
        };
        let held = work.iter().find_map(|work| target.attempts.get(&work.object()));
        if let Some(attempt) = held {
            waits.push(attempt.trouble.message());
        }
        if !work.is_empty() {
            let steps = vec![work];
            batches.push(Batch {
                cluster: name.clone(),
                as_user: as_user.clone(),
                steps,
                reverting: Vec::new(),
            });
        }
    }
    if left.is_empty() {
        return Plan { released: true, ..Plan::rest() };
    }
    let message = waits.first().cloned().unwrap_or_else(|| {
        let count: usize = left.values().map(BTreeSet::len).sum();
        match observed.spec.deletion {
            Deletion::Delete => format!("{count} objects are being deleted."),
            Deletion::Orphan => format!("{count} objects are being let go of."),
        }
    });
    let mut status = observed.status.clone();
    status.observed_generation = observed.generation;
    status.phase = Some(Phase::Pending);
    status.operation = None;
    status.inventory = inventory::grouped(&left);
    let generation = observed.generation;
    condition::set(&mut status.conditions, READY, Truth::False, "Deleting", &message, generation, now);
    let failing = observed.targets.iter().any(|target| !target.attempts.is_empty());
    let wake = if batches.is_empty() || failing {
        Wake::Retry { longest: std::time::Duration::from_secs(60) }
    } else {
        Wake::After(std::time::Duration::from_millis(200))
    };
    let actions = if batches.is_empty() {
        Vec::new()
    } else {
        vec![Action::Work { app: observed.key.clone(), batches }]
    };
    Plan { actions, status: Some(status), notes: Vec::new(), wake, released: false }
}

fn release(ours: &[&Extra]) -> Vec<Work> {
    let release = |extra: &&Extra| {
        let live = extra.live.as_ref()?;
        Some(Work::Release { id: extra.id.clone(), uid: live.uid.clone() })
    };
    ours.iter().filter_map(release).collect()
}

/// What goes next; an object that says that it has to stay is let go of.
fn delete(ours: &[&Extra], waits: &mut Vec<String>) -> Vec<Work> {
    let (stay, going): (Vec<&Extra>, Vec<&Extra>) =
        ours.iter().copied().partition(|extra| extra.live.as_ref().is_some_and(|live| live.keep));
    let mut work = release(&stay);
    match prune::layer(&going) {
        Pruning::Done => {}
        Pruning::Delete(more) => work.extend(more),
        Pruning::Waiting(why) => waits.push(crate::trouble::sentence(&why)),
    }
    work
}
