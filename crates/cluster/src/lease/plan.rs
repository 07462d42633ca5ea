//! The decision about all leases of one installation. Pure: time is an argument, in any monotonic unit of origin.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::backoff::stable_hash;

/// The timing of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease lasts that nobody renews.
    pub duration: Duration,
    /// How often a holder renews.
    pub renew: Duration,
    /// How much before its end a holder stops trusting its own lease.
    pub margin: Duration,
}

impl Default for Timing {
    /// Take-over after a crash within 11 s, three missed renewals tolerated.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            renew: Duration::from_millis(2500),
            margin: Duration::from_millis(1500),
        }
    }
}

/// One lease as this replica sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who holds it; `None` after a release.
    pub holder: Option<String>,
    /// The number of shards it was taken under.
    pub shards: u32,
    /// When this replica first saw this state of it.
    pub since: Duration,
    /// How long it lasts from then.
    pub lasts: Duration,
}

impl Seen {
    fn live(&self, now: Duration) -> bool {
        self.holder.is_some() && now < self.since + self.lasts
    }

    fn held_by(&self, me: &str) -> bool {
        self.holder.as_deref() == Some(me)
    }
}

/// All that a decision is made from.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// This replica.
    pub me: &'a str,
    /// Number of shards this replica was started with.
    pub shards: u32,
    /// The leases of the shards, by number; also ones beyond `shards`, left by another number.
    pub leases: &'a BTreeMap<u32, Seen>,
    /// The member leases, by replica.
    pub members: &'a BTreeMap<String, Seen>,
    /// When this replica last renewed each lease it holds: the time the request was sent.
    pub renewed: &'a BTreeMap<u32, Duration>,
    /// When it last renewed its member lease.
    pub beaten: Option<Duration>,
    /// False while this replica could not act (caches cold) or is on its way out: it then takes nothing.
    pub willing: bool,
    /// The timing.
    pub timing: Timing,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Step {
    /// Renew or make this replica's member lease.
    Beat,
    /// Delete the member lease of a replica that is gone.
    Bury(String),
    /// Make or take over the lease of a shard.
    Take(u32),
    /// Renew the lease of a shard.
    Renew(u32),
    /// Let go of a shard: it belongs to another replica now.
    Release(u32),
}

/// The steps to do now, and when to look again if nothing is seen before.
pub fn plan(view: &View<'_>, now: Duration) -> (Vec<Step>, Duration) {
    let mut steps = Vec::new();
    let mut next = now + view.timing.renew;
    let mut due = |at: Duration| next = next.min(at.max(now));

    if view.shards > 1 && view.willing {
        match view.beaten {
            Some(at) if now < at + view.timing.renew => due(at + view.timing.renew),
            _ => steps.push(Step::Beat),
        }
    }
    for (member, seen) in view.members {
        let dead = now >= seen.since + seen.lasts * 6;
        if dead && member != view.me {
            steps.push(Step::Bury(member.clone()));
        }
    }

    let assigned = assignment(view, now);
    let foreign = view
        .leases
        .values()
        .any(|seen| seen.shards != view.shards && !seen.held_by(view.me) && seen.live(now));
    for shard in 0..view.shards {
        let mine = assigned.get(&shard).is_some_and(|owner| owner == view.me);
        match view.leases.get(&shard) {
            Some(seen) if seen.held_by(view.me) => {
                if foreign || !mine {
                    steps.push(Step::Release(shard));
                } else {
                    match view.renewed.get(&shard) {
                        Some(at) if now < *at + view.timing.renew => due(*at + view.timing.renew),
                        // A lease in our name that we have not renewed is from an earlier life of this process.
                        _ => steps.push(Step::Renew(shard)),
                    }
                }
            }
            Some(seen) if seen.live(now) => due(seen.since + seen.lasts),
            _ if mine && view.willing && !foreign && opened(view, shard, now) => {
                steps.push(Step::Take(shard));
            }
            _ => {}
        }
    }
    // Leases of a larger number of shards that this replica held under its earlier number.
    for (shard, seen) in view.leases.range(view.shards..) {
        if seen.held_by(view.me) {
            steps.push(Step::Release(*shard));
        }
    }
    for seen in view.members.values().chain(view.leases.values()) {
        if seen.live(now) {
            due(seen.since + seen.lasts);
        }
    }
    (steps, next)
}

/// Shard 0 decides which number of shards is in force; the others are taken only under that number.
fn opened(view: &View<'_>, shard: u32, now: Duration) -> bool {
    shard == 0 || view.leases.get(&0).is_some_and(|seen| seen.shards == view.shards && seen.live(now))
}

/// Which live member each shard belongs to: by rendezvous hashing, at most ⌈shards ÷ members⌉ each, so every replica
/// comes to the same answer and few shards move when a member comes or goes.
pub fn assignment(view: &View<'_>, now: Duration) -> BTreeMap<u32, String> {
    let mut live: Vec<&str> = view
        .members
        .iter()
        .filter(|(_, seen)| seen.live(now) && seen.shards == view.shards)
        .map(|(name, _)| name.as_str())
        .collect();
    if view.willing && !live.contains(&view.me) && (view.shards == 1 || live.is_empty()) {
        live.push(view.me);
    }
    if view.shards == 1 {
        // A single leader needs no members: whoever finds the lease free takes it.
        return if view.willing || view.renewed.contains_key(&0) {
            BTreeMap::from([(0, view.me.to_owned())])
        } else {
            BTreeMap::new()
        };
    }
    live.sort_unstable();
    let mut owners = BTreeMap::new();
    let Some(cap) = usize::try_from(view.shards).ok().map(|shards| shards.div_ceil(live.len().max(1))) else {
        return owners;
    };
    let mut load: BTreeMap<&str, usize> = BTreeMap::new();
    for shard in 0..view.shards {
        let best = live
            .iter()
            .filter(|member| load.get(**member).copied().unwrap_or(0) < cap)
            .max_by_key(|member| (stable_hash(format!("{shard}/{member}").as_bytes()), **member));
        if let Some(best) = best {
            *load.entry(best).or_default() += 1;
            owners.insert(shard, (*best).to_owned());
        }
    }
    owners
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
