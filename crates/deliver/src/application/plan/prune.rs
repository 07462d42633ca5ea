//! What is no longer wanted: only what the inventory says we made, and what still says so itself.

use std::collections::BTreeSet;

use super::target::Terms;
use crate::{
    application::{observed::Target, program},
    fleet::{Extra, Work},
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

/// Whether an object that is no longer wanted may be deleted: it is there, it says that it is ours, and it does not say
/// that it has to stay.
pub(super) fn may_go(extra: &Extra, owner: &str) -> bool {
    extra.live.as_ref().is_some_and(|live| live.owner.as_deref() == Some(owner) && !live.keep)
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
    let going: Vec<&Extra> = target.extra.iter().filter(|extra| may_go(extra, terms.owner)).collect();
    if going.is_empty() {
        return Pruning::Done;
    }
    if !terms.may_prune {
        return Pruning::Waiting(format!("{} objects wait for an approval to be deleted", going.len()));
    }
    layer(&going)
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
