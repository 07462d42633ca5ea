//! Which `ReplicaSet` is the new one, the stable one, and which are left over.

use serde_json::Value;

use super::{hash::same_template, replica_set_name};
use crate::observed::ReplicaSetFacts;

/// The parts that `ReplicaSets` play.
#[derive(Clone, Debug, Default)]
pub struct Roles<'a> {
    /// All of ours, oldest first.
    pub all: Vec<&'a ReplicaSetFacts>,
    /// That of the newest template.
    pub new: Option<&'a ReplicaSetFacts>,
    /// That of the version that runs; may be the new one.
    pub stable: Option<&'a ReplicaSetFacts>,
    /// The others, oldest first.
    pub other: Vec<&'a ReplicaSetFacts>,
}

impl<'a> Roles<'a> {
    /// Finds the parts: the new one by the hash, else by a template that makes the same pods.
    pub fn find(
        all: Vec<&'a ReplicaSetFacts>,
        template: &Value,
        hash: &str,
        stable: Option<&str>,
        plain: impl Fn(&ReplicaSetFacts) -> Value,
    ) -> Self {
        let by_hash = |hash: &str| all.iter().copied().find(|set| set.hash() == Some(hash) && !set.deleting);
        let new = by_hash(hash).or_else(|| {
            all.iter()
                .copied()
                .find(|set| set.hash().is_some() && !set.deleting && same_template(&plain(set), template))
        });
        let stable = stable
            .filter(|hash| !hash.is_empty())
            .and_then(|hash| new.filter(|set| set.hash() == Some(hash)).or_else(|| by_hash(hash)));
        let is = |set: &ReplicaSetFacts, part: Option<&ReplicaSetFacts>| {
            part.is_some_and(|part| part.uid == set.uid)
        };
        let other = all.iter().copied().filter(|set| !is(set, new) && !is(set, stable)).collect();
        Self { all, new, stable, other }
    }

    /// The stable one, if it is another than the new one.
    pub fn old(&self) -> Option<&'a ReplicaSetFacts> {
        self.stable.filter(|stable| self.new.is_none_or(|new| new.uid != stable.uid))
    }

    /// All but the new one.
    pub fn older(&self) -> impl Iterator<Item = &'a ReplicaSetFacts> + '_ {
        self.all.iter().copied().filter(|set| self.new.is_none_or(|new| new.uid != set.uid))
    }
}

/// Whether somebody else, or another template of ours, has the name that the new `ReplicaSet` would get.
pub fn collides(
    replica_sets: &[ReplicaSetFacts],
    rollout: &str,
    owner: &str,
    hash: &str,
    template: &Value,
    plain: impl Fn(&ReplicaSetFacts) -> Value,
) -> bool {
    let name = replica_set_name(rollout, hash);
    replica_sets.iter().filter(|set| set.name == name).any(|set| {
        let foreign = set.controller.as_deref().is_some_and(|uid| uid != owner);
        foreign || !same_template(&plain(set), template)
    })
}
