//! An `HTTPRoute` or `GRPCRoute` as a value: the weights of our two backends, and rules of our own. Nothing else moves.
//!
//! Comes in: a route as the API gave it, the [`Pair`] of Services, what is wanted ([`TrafficWish`]). Goes out: what is
//! there now ([`read()`]), what is in the way ([`RouteTrouble`]), and the smallest JSON patch that brings the wish about
//! ([`change()`]).
//!
//! **Weights.** In every rule that names both Services, the pair gets the wished weights, which sum to 100 (or
//! `maxTrafficWeight`). A third backend keeps the weight that its owner wrote: beside the pair it counts against that
//! sum. A rule that names only one of the two is not ours. Services of an experiment are put beside the pair and taken
//! out again.
//!
//! **Rules of our own** (header and mirror rules) stand before all others, in the order of `managedRoutes`. Each is made
//! from a rule with the pair, so that its paths, filters and time-outs stay what they are. What is ours is remembered in
//! the annotation [`MANAGED`]: older Gateway API schemas drop a rule's `name`.
//!
//! **Writing.** A JSON patch with `test` operations. Weights are guarded by the names of the two backends at that place:
//! an edit of anything else in between is no conflict and is never undone. Rules are put in and taken out only on the
//! version that was read.

mod change;
mod matches;
mod memory;
mod patch;
mod read;
mod rules;
pub mod service;
#[cfg(test)]
mod tests;

pub use change::change;
pub use patch::{Mismatch, Operation, apply};
pub use read::{check, read};

use serde::Serialize;

use crate::observed::RouteTrouble;
#[allow(unused_imports, reason = "named in the text above")]
use crate::observed::TrafficWish;

/// Annotation on a route: what on it is ours.
pub const MANAGED: &str = "windlass.dev/managed-rules";

/// The two Services between which traffic is divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The namespace that both are in.
    pub namespace: String,
    /// Name of the stable Service.
    pub stable: String,
    /// Name of the canary Service.
    pub canary: String,
}

fn trouble(reason: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> RouteTrouble {
    RouteTrouble { reason, what: what.into(), remedy: remedy.into() }
}
