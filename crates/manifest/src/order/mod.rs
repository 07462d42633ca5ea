//! In which order objects are created, and in reverse deleted.
//!
//! Two things decide. The kind gives each object a stage: namespaces first, then definitions, then what others refer to,
//! then workloads, then the rest, and webhooks last, since they can stop everything else. Within and across stages, an
//! object comes after everything it refers to: the namespace it is in, the definition of its kind, the Secret it mounts,
//! the role it binds.
//!
//! ```text
//!   objects ─► references (who needs whom) ─► cycles broken ─► levels: (stage, steps within) ─► layers
//! ```
//!
//! Objects of one layer do not need each other and can be applied together. The layers depend on the objects alone, not
//! on the order they come in.

mod cycles;
mod index;
mod references;
mod stage;

use serde_json::Value;

pub use cycles::Cycle;
use index::Index;

/// The order of a number of objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// Places in the input, layer by layer; within a layer by identity.
    pub layers: Vec<Vec<usize>>,
    /// What referred to itself in a circle, and which reference is not kept to.
    pub cycles: Vec<Cycle>,
}

impl Order {
    /// The layers for deletion: whoever needs something goes before it.
    pub fn reverse(&self) -> Vec<Vec<usize>> {
        self.layers.iter().rev().cloned().collect()
    }

    /// All places in order of creation.
    pub fn flat(&self) -> impl Iterator<Item = usize> {
        self.layers.iter().flatten().copied()
    }
}

/// How much depends on a reference being kept to; the weakest of a cycle is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// A guess from a field's name in a kind of which nothing is known.
    Guess,
    /// The reference may be dangling for a while: pods wait for their Secrets.
    Soft,
    /// The API server refuses the object without it: namespace, definition, role of a binding.
    Hard,
}

/// A reference between objects, by their places in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// Who refers.
    pub(crate) from: usize,
    /// To whom.
    pub(crate) to: usize,
    pub(crate) strength: Strength,
}

/// The order in which to create these objects. Values that are no objects come last.
pub fn layers(objects: &[Value]) -> Order {
    let index = Index::new(objects);
    let mut edges = references::between(objects, &index);
    let cycles = cycles::break_all(&index, &mut edges);
    let levels = levels(objects, &edges);

    let mut places: Vec<usize> = (0..objects.len()).collect();
    places.sort_by(|a, b| (levels[*a], index.key(*a), *a).cmp(&(levels[*b], index.key(*b), *b)));
    let layers = places.chunk_by(|a, b| levels[*a] == levels[*b]).map(<[usize]>::to_vec).collect();
    Order { layers, cycles }
}

/// A stage, and how many steps of references lie before within it.
type Level = (u8, u32);

/// The lowest level for each object that is not below its stage and above everything it refers to. There are no cycles.
fn levels(objects: &[Value], edges: &[Edge]) -> Vec<Level> {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); objects.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); objects.len()];
    for edge in edges {
        needs[edge.from].push(edge.to);
        users[edge.to].push(edge.from);
    }
    let mut levels: Vec<Level> = objects.iter().map(|object| (stage::of(object), 0)).collect();
    let mut waiting: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..objects.len()).filter(|at| waiting[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        let (stage, step) = levels[at];
        for user in &users[at] {
            levels[*user] = levels[*user].max((stage, step + 1));
            waiting[*user] -= 1;
            if waiting[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests;
