//! A weight that is reached by numbers of pods, because nothing splits the traffic.
//!
//! Three things are done in this order, each as far as it may go: pods that are missing come (stable before new), old
//! revisions go first (by the caller), then pods that are too many go. While old revisions still have pods nothing else
//! shrinks.

use super::{Counts, Limits, Pods};

/// What to reach.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The limits on the way.
    pub limits: Limits,
    /// Share of the new version.
    pub weight: i32,
    /// The weight that stands for everything.
    pub full: i32,
}

/// The next numbers on the way to the goal.
///
/// `stable` is `None` when the new version is the stable one, or there is none yet: then all pods are new ones.
/// `older` is the number of pods that all other revisions want.
pub fn next(goal: &Goal, canary: Option<Pods>, stable: Option<Pods>, older: i32) -> Counts {
    let limits = &goal.limits;
    let target = match stable {
        Some(_) => split(goal),
        None => Counts { canary: limits.replicas, stable: 0 },
    };
    let have =
        Counts { canary: canary.map_or(0, |pods| pods.wanted), stable: stable.map_or(0, |pods| pods.wanted) };
    let mut counts = grow(limits, have, target, canary.is_some(), older);
    if older > 0 {
        return counts;
    }
    // The side that shrinks counts with all pods it wants: those that never came up must not hold the update back.
    let growing = canary.is_none() || target.canary >= have.canary;
    let counted = if growing {
        canary.map_or(0, Pods::staying) + have.stable
    } else {
        have.canary + stable.map_or(0, Pods::staying)
    };
    let spare = counted - limits.least();
    if spare <= 0 {
        return counts;
    }
    if !growing {
        counts.canary = shrink(have.canary, target.canary, spare, counts.canary);
        (counts.canary, counts.stable) = within(limits, (canary, counts.canary), (stable, counts.stable));
    } else if stable.is_some() {
        counts.stable = shrink(have.stable, target.stable, spare, counts.stable);
        (counts.stable, counts.canary) = within(limits, (stable, counts.stable), (canary, counts.canary));
    }
    counts
}

/// Pods that are missing come as far as the surge allows, stable ones first.
fn grow(limits: &Limits, have: Counts, target: Counts, exists: bool, older: i32) -> Counts {
    let mut room = limits.most() - (have.canary + have.stable + older);
    let mut take = |have: i32, target: i32| {
        let come = (target - have).min(room).max(0);
        room -= come;
        have + come
    };
    let stable = take(have.stable, target.stable);
    let canary = if exists { take(have.canary, target.canary) } else { have.canary };
    Counts { canary, stable }
}

fn shrink(have: i32, target: i32, spare: i32, otherwise: i32) -> i32 {
    if have > target { target.max(have - spare) } else { otherwise }
}

/// Brings the sum under the most that is allowed: the side that does not shrink gives way first, but keeps as many
/// available pods as the least asks for; what is still too much goes from the side that shrinks.
fn within(
    limits: &Limits,
    (shrinking, mut shrunk): (Option<Pods>, i32),
    (keeping, mut kept): (Option<Pods>, i32),
) -> (i32, i32) {
    let Some(keeping) = keeping else { return (shrunk, kept) };
    let excess = |shrunk: i32, kept: i32| (shrunk + kept - limits.most()).max(0);
    kept -= excess(shrunk, kept);
    let available = shrinking.map_or(0, |pods| pods.available.min(shrunk)) + keeping.available.min(kept);
    let lost = (keeping.available - kept).max(0);
    let lacking = (limits.least() - available).max(0);
    kept += lost.min(lacking);
    shrunk -= excess(shrunk, kept);
    (shrunk, kept)
}

/// The numbers of pods that come nearest to the weight: with `replicas` pods, or with one more if a surge is allowed.
/// A weight between the ends gets at least one pod on either side, unless there is one pod and no surge.
pub fn split(goal: &Goal) -> Counts {
    let Goal { limits, weight, full } = goal;
    let (replicas, full) = (limits.replicas, (*full).max(1));
    if replicas == 0 {
        return Counts::default();
    }
    let product = i64::from(replicas) * i64::from(*weight);
    let floor = i32::try_from(product.div_euclid(i64::from(full))).unwrap_or(0);
    let ceil = super::share(replicas, *weight, full);
    let may_vanish = *weight == full || *weight == 0 || (replicas == 1 && limits.surge == 0);
    let mut options = Vec::with_capacity(4);
    if ceil < replicas || may_vanish {
        options.push((ceil, replicas));
    }
    if !tied(*weight, full, replicas) && (floor != 0 || may_vanish) {
        options.push((floor, replicas));
    }
    if limits.surge > 0 {
        options.push((ceil, replicas + 1));
        if !tied(*weight, full, replicas + 1) && (floor != 0 || may_vanish) {
            options.push((floor, replicas + 1));
        }
    }
    // The first of the best: an earlier option needs fewer pods, or has more new ones.
    let best = options.into_iter().reduce(
        |best, option| {
            if nearer(option, best, *weight, full) { option } else { best }
        },
    );
    best.map_or(Counts { canary: 0, stable: replicas }, |(canary, total)| Counts {
        canary,
        stable: total - canary,
    })
}

/// Whether rounding up and rounding down are equally far from the weight; then the larger number is taken.
fn tied(weight: i32, full: i32, pods: i32) -> bool {
    let product = i64::from(pods) * i64::from(weight);
    2 * product.rem_euclid(i64::from(full)) == i64::from(full)
}

/// Whether the share `a.0 / a.1` is strictly nearer to the weight than `b.0 / b.1`.
fn nearer(a: (i32, i32), b: (i32, i32), weight: i32, full: i32) -> bool {
    let distance = |(canary, total): (i32, i32)| {
        (i128::from(canary) * i128::from(full) - i128::from(weight) * i128::from(total)).abs()
    };
    distance(a) * i128::from(b.1) < distance(b) * i128::from(a.1)
}
