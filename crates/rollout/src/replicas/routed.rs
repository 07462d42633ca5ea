//! Numbers of pods that follow the weight of the traffic.

use super::{Counts, Pods, share};

/// What the numbers follow.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// `spec.replicas`.
    pub replicas: i32,
    /// The weight that stands for all traffic.
    pub full: i32,
    /// Wanted share of the new version, or its wanted number of pods.
    pub scale: Scale,
    /// The old version shrinks as the new one grows.
    pub dynamic: bool,
    /// A version that has pods at all has at least so many.
    pub at_least: Option<i32>,
    /// The update is being taken back.
    pub aborting: bool,
    /// Shares of canary and stable as the routes have them now.
    pub weights: Option<(i32, i32)>,
}

/// How the new version's number of pods is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A share of `replicas`.
    Weight(i32),
    /// So many; the stable version gets all of `replicas` even if it is dynamic.
    Replicas(i32),
}

/// How many pods both versions should have.
///
/// A dynamic stable version has pods for the larger of the share that it has and the share that it should have, so that
/// pods are there before traffic comes and go after it has left; while aborting the same holds for the new version.
pub fn counts(goal: &Goal) -> Counts {
    let pods = |weight| share(goal.replicas, weight, goal.full);
    let (canary, weight) = match goal.scale {
        Scale::Replicas(replicas) => (replicas, 0),
        Scale::Weight(weight) => (at_least(goal, pods(weight)), weight),
    };
    if !goal.dynamic {
        return Counts { canary, stable: goal.replicas };
    }
    let mut counts = Counts { canary, stable: pods(goal.full - weight) };
    if let Some((canary_weight, stable_weight)) = goal.weights {
        counts.stable = counts.stable.max(pods(stable_weight));
        if goal.aborting {
            counts.canary = counts.canary.max(pods(canary_weight));
        }
    }
    Counts { canary: at_least(goal, counts.canary), stable: at_least(goal, counts.stable) }
}

fn at_least(goal: &Goal, count: i32) -> i32 {
    match goal.at_least {
        Some(least) if count > 0 => count.max(least.min(goal.replicas)),
        _ => count,
    }
}

/// The share that a dynamic canary should have while it is taken back: the weight of the last step that is smaller than
/// what the new version still has to carry, so that stable pods come in the same portions in which they went.
pub fn stepping_back(replicas: i32, full: i32, weights: &[i32], canary: Pods, stable: Pods) -> i32 {
    let carried = (replicas - stable.available).max(canary.available);
    weights.iter().rev().copied().find(|weight| share(replicas, *weight, full) < carried).unwrap_or(0)
}

/// The share of traffic that a dynamic canary keeps while it is taken back: never more than it has, and never less than
/// what ready stable pods can take over.
pub fn returning(replicas: i32, full: i32, wanted: i32, now: Option<i32>, stable: Pods) -> i32 {
    if replicas <= 0 {
        return 0;
    }
    let ready =
        i32::try_from(i64::from(full) * i64::from(stable.available) / i64::from(replicas)).unwrap_or(full);
    let uncovered = (full - ready).max(0);
    let Some(now) = now else { return uncovered.max(wanted) };
    if wanted <= 0 {
        return uncovered.min(now);
    }
    if ready < full - wanted { now } else { wanted.min(now) }
}
