//! Revisions: the hash of a pod template, names and numbers of `ReplicaSets`, and which of them is which.

pub mod claim;
pub mod defaults;
pub mod hash;
pub mod roles;
pub mod template;

pub use claim::{Claim, claim};
pub use hash::{same_template, spell, steps_hash, template_hash};
pub use roles::Roles;

use crate::observed::ReplicaSetFacts;

/// The name of a revision's `ReplicaSet`.
pub fn replica_set_name(rollout: &str, hash: &str) -> String {
    format!("{rollout}-{hash}")
}

/// The number of the next revision: one more than the largest of the others.
pub fn next_revision<'a>(others: impl IntoIterator<Item = &'a ReplicaSetFacts>) -> i64 {
    others.into_iter().map(ReplicaSetFacts::revision).max().unwrap_or(0) + 1
}
