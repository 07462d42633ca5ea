//! References that go in a circle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::index::Index;
use super::{Edge, Strength};
use crate::identity::ObjectKey;

/// How often the weakest reference alone is given up. Objects that still need each other after that are knotted beyond
/// what a person could read, and each further round would cost a look at all references.
const MOST_ROUNDS: usize = 16;
/// How many members a sentence names.
const MOST_NAMED: usize = 8;

/// Objects that need each other in a circle, and the reference that was given up to get out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Everything in the circle, sorted.
    pub members: Vec<ObjectKey>,
    /// Who refers, and to whom: `from` is created before `to` all the same.
    pub broken: (ObjectKey, ObjectKey),
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unnamed = self.members.len().saturating_sub(MOST_NAMED);
        for (at, member) in self.members.iter().take(MOST_NAMED).enumerate() {
            let joint = if at == 0 {
                ""
            } else if at + 1 == self.members.len() {
                " and "
            } else {
                ", "
            };
            write!(f, "{joint}{member}")?;
        }
        if unnamed > 0 {
            write!(f, " and {unnamed} more")?;
        }
        let (from, to) = &self.broken;
        write!(f, " need each other; {from} is created without waiting for {to}")
    }
}

/// Takes references away until none go in a circle: each time the weakest one of a circle, and among equals the one
/// whose names come last, so that the choice does not depend on the order of the input. After a number of rounds all
/// references of a circle go that are as weak as the weakest one, so that there is an end to it soon.
pub(super) fn break_all(index: &Index, edges: &mut Vec<Edge>) -> Vec<Cycle> {
    let mut cycles = Vec::new();
    for round in 1.. {
        let component = components(edges);
        let mut weakest: BTreeMap<usize, Edge> = BTreeMap::new();
        for edge in edges.iter().filter(|edge| component[edge.from] == component[edge.to]) {
            let known = weakest.entry(component[edge.from]).or_insert(*edge);
            if rank(index, edge) > rank(index, known) {
                *known = *edge;
            }
        }
        if weakest.is_empty() {
            break;
        }
        let mut members: BTreeMap<usize, Vec<ObjectKey>> = BTreeMap::new();
        for (at, number) in component.iter().enumerate() {
            if weakest.contains_key(number) {
                members.entry(*number).or_default().extend(index.key(at).cloned());
            }
        }
        // The same object may stand twice in the input: then all of its references to the same go.
        let ends = |edge: &Edge| index.key(edge.from).cloned().zip(index.key(edge.to).cloned());
        let given_up: HashSet<_> = weakest.values().filter_map(ends).collect();
        let knotted = |edge: &Edge| {
            round > MOST_ROUNDS
                && component[edge.from] == component[edge.to]
                && weakest.get(&component[edge.from]).is_some_and(|known| edge.strength <= known.strength)
        };
        edges.retain(|edge| !knotted(edge) && ends(edge).is_some_and(|ends| !given_up.contains(&ends)));
        for (number, mut members) in members {
            members.sort();
            members.dedup();
            if let Some(broken) = weakest.get(&number).and_then(ends) {
                cycles.push(Cycle { members, broken });
            }
        }
    }
    cycles.sort_by(|a: &Cycle, b: &Cycle| (&a.members, &a.broken).cmp(&(&b.members, &b.broken)));
    cycles
}

/// The greatest is given up first.
fn rank<'i>(
    index: &'i Index,
    edge: &Edge,
) -> (Reverse<Strength>, Option<&'i ObjectKey>, Option<&'i ObjectKey>) {
    (Reverse(edge.strength), index.key(edge.from), index.key(edge.to))
}

/// For each object the number of its strongly connected component: two objects share one when each needs the other,
/// directly or through others. Tarjan's algorithm, with a stack of its own, since references can go deep.
fn components(edges: &[Edge]) -> Vec<usize> {
    let count = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap_or(0);
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for edge in edges {
        next[edge.from].push(edge.to);
    }
    let mut search = Search {
        next,
        order: vec![None; count],
        low: vec![0; count],
        open: Vec::new(),
        is_open: vec![false; count],
        component: vec![usize::MAX; count],
        found: 0,
        clock: 0,
    };
    for start in 0..count {
        if search.order[start].is_none() {
            search.from(start);
        }
    }
    search.component
}

struct Search {
    next: Vec<Vec<usize>>,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    open: Vec<usize>,
    is_open: Vec<bool>,
    component: Vec<usize>,
    found: usize,
    clock: usize,
}

impl Search {
    fn from(&mut self, start: usize) {
        // Each entry is an object and how many of its references have been followed.
        let mut stack = vec![(start, 0)];
        self.enter(start);
        while let Some((at, followed)) = stack.pop() {
            if let Some(to) = self.next[at].get(followed).copied() {
                stack.push((at, followed + 1));
                match self.order[to] {
                    None => {
                        self.enter(to);
                        stack.push((to, 0));
                    }
                    Some(order) if self.is_open[to] => self.low[at] = self.low[at].min(order),
                    Some(_) => {}
                }
                continue;
            }
            if let Some((above, _)) = stack.last() {
                self.low[*above] = self.low[*above].min(self.low[at]);
            }
            if self.order[at] == Some(self.low[at]) {
                self.close(at);
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.order[at] = Some(self.clock);
        self.low[at] = self.clock;
        self.clock += 1;
        self.open.push(at);
        self.is_open[at] = true;
    }

    fn close(&mut self, root: usize) {
        while let Some(at) = self.open.pop() {
            self.is_open[at] = false;
            self.component[at] = self.found;
            if at == root {
                break;
            }
        }
        self.found += 1;
    }
}
