//! What is no longer wanted: only what the inventory says we made, and what still says so itself.

use std::collections::BTreeSet;

use super::{inventory, target::Terms};
use crate::{
    application::{
        budget::{self, Said, Wish},
        observed::{Observed, Target, Want},
        program,
    },
    fleet::{Extra, Prune, Work},
    object::ObjectId,
};

/// What to delete next on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pruning {
    /// Nothing is left to delete.
    Done,
    /// These, side by side.
    Delete(Vec<Work>),
    /// Something else has to happen first.
    Waiting(String),
}

/// The objects that are no longer wanted and may be deleted: each is there, says that it is ours, does not say that it has
/// to stay, and takes nothing along that does.
pub(super) fn going<'t>(target: &'t Target, owner: &str) -> Vec<&'t Extra> {
    let ours = |extra: &&Extra| extra.live.as_ref().is_some_and(|live| live.owner.as_deref() == Some(owner));
    let stays = |extra: &&Extra| extra.live.as_ref().is_some_and(|live| live.fate.prune == Prune::No);
    let (stay, going): (Vec<&Extra>, Vec<&Extra>) = target.extra.iter().filter(ours).partition(stays);
    unshielded(going, &stay)
}

/// Whether an object asks to be confirmed before it is pruned.
fn asks(extra: &Extra) -> bool {
    extra.live.as_ref().is_some_and(|live| live.fate.prune == Prune::Confirm)
}

/// What of all that is no longer wanted may go, and what somebody has to approve first.
pub(crate) fn judge(observed: &Observed) -> budget::Verdict {
    let owner = observed.key.to_string();
    let mut wishes = Vec::new();
    if observed.spec.sync.prune {
        for target in &observed.targets {
            if !target.leaving && target.want == Want::Nothing {
                continue;
            }
            wishes.extend(going(target, &owner).into_iter().map(|extra| Wish {
                cluster: target.member.name.clone(),
                object: extra.id.clone(),
                confirm: asks(extra),
            }));
        }
    }
    budget::judge(&observed.spec.sync.deletion_budget, &wishes, &held(observed), said(observed))
}

/// How many objects the inventory holds, by cluster.
pub(super) fn held(observed: &Observed) -> budget::Held {
    let known = inventory::by_cluster(&observed.status.inventory);
    known.into_iter().map(|(cluster, objects)| (cluster, objects.len())).collect()
}

/// What somebody said about deletions.
pub(super) fn said(observed: &Observed) -> Said<'_> {
    Said { approved: observed.requests.approve.as_deref(), granted: observed.status.granted.as_ref() }
}

/// What the inventory still has to name: what is wanted, and what is no longer wanted but there and ours.
pub(super) fn still_there(held: &BTreeSet<ObjectId>, target: &Target, owner: &str) -> BTreeSet<ObjectId> {
    let gone: BTreeSet<&ObjectId> = target
        .extra
        .iter()
        .filter(|extra| extra.live.as_ref().is_none_or(|live| live.owner.as_deref() != Some(owner)))
        .map(|extra| &extra.id)
        .collect();
    held.iter().filter(|id| !gone.contains(id)).cloned().collect()
}

/// The next layer that is to go: who needs something goes before it, and is gone before it goes.
pub(super) fn next(terms: &Terms<'_>, target: &Target) -> Pruning {
    if !terms.prune {
        return Pruning::Done;
    }
    let going = going(target, terms.owner);
    if going.is_empty() {
        return Pruning::Done;
    }
    if !terms.may_prune {
        return Pruning::Waiting(format!("{} objects wait for an approval to be deleted", going.len()));
    }
    let (waiting, going): (Vec<&Extra>, Vec<&Extra>) =
        going.into_iter().partition(|extra| !terms.confirmed && asks(extra));
    let going = unshielded(going, &waiting);
    match waiting.first() {
        Some(first) if going.is_empty() => Pruning::Waiting(unconfirmed(first, waiting.len())),
        _ => layer(&going),
    }
}

/// Leaves out what would take those who wait with it: their namespaces, and the definitions of their kinds.
pub(super) fn unshielded<'a>(going: Vec<&'a Extra>, waiting: &[&Extra]) -> Vec<&'a Extra> {
    let takes_along = |extra: &&Extra| waiting.iter().any(|waiting| holds(&extra.id, &waiting.id));
    going.into_iter().filter(|extra| !takes_along(extra)).collect()
}

/// Whether deleting one object deletes the other.
pub(super) fn holds(outer: &ObjectId, inner: &ObjectId) -> bool {
    let namespace = outer.group.is_empty() && outer.kind == "Namespace" && outer.name == inner.namespace;
    let definition = outer.kind == "CustomResourceDefinition"
        && outer.name.split_once('.').is_some_and(|(_, group)| group == inner.group);
    namespace || definition
}

/// For people.
pub(super) fn unconfirmed(first: &Extra, count: usize) -> String {
    let more = if count > 1 { format!(" and {} more wait", count - 1) } else { " waits".into() };
    format!("{}{more} to be confirmed before it is deleted", first.id.short())
}

/// Of what is to go, what goes first.
pub(super) fn layer(going: &[&Extra]) -> Pruning {
    // The waves of what is no longer in the source are not known any more.
    let ids = going.iter().map(|extra| (extra.id.clone(), 0));
    let Some(first) = program::deletion_order(ids).into_iter().next() else { return Pruning::Done };
    let mut work = Vec::new();
    for extra in going.iter().filter(|extra| first.contains(&extra.id)) {
        match &extra.live {
            Some(live) if !live.deleting => {
                work.push(Work::Delete { id: extra.id.clone(), uid: live.uid.clone() });
            }
            _ => {}
        }
    }
    if work.is_empty() {
        let name = first.first().map(ObjectId::short).unwrap_or_default();
        return Pruning::Waiting(format!(
            "{name} is being deleted; something holds it by a finalizer if this lasts"
        ));
    }
    Pruning::Delete(work)
}
