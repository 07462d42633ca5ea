//! Changes that somebody makes in the cluster again and again.
//!
//! A change in the cluster is taken back at once. When the same object is changed again, a person or a controller means
//! it: taking it back is tried more slowly each time, and after [`ROUNDS`] it is left alone and told. The waits are
//! [`WAITS`]: a second lets a controller that reacts to our write come to rest; ten seconds are longer than such a
//! controller usually needs for another try, so that a third round shows that it is no accident; longer waits would
//! only leave the object wrong for longer before the same is said.
//!
//! ```text
//!   differs ─► Revert ─► same ─► differs ─► wait 1 s ─► Revert ─► … ─► wait 10 s ─► Revert ─► … ─► Contested
//!                          └── 10 min without a difference, or something else is wanted: forgotten
//! ```

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windlass_manifest::digest::Digest;

use crate::object::ObjectId;

/// So often a change is taken back before it is left alone.
pub const ROUNDS: u32 = 3;

/// The waits before the second and the third time.
pub const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// An object that stays as wanted for so long is at peace.
pub const PEACE: Duration = Duration::from_secs(600);

/// What stands for a manager that did not give its name.
pub const UNKNOWN_MANAGER: &str = "unknown";

/// What is known of one object that was changed in its cluster.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    /// What we want it to be.
    wanted: Digest,
    /// How often it was put right.
    count: u32,
    /// When that was, the last time.
    last: Timestamp,
    /// Since when it is as wanted; `None` while it is not.
    calm_since: Option<Timestamp>,
    /// Who changed it last.
    manager: Option<String>,
}

/// What to do about a change in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Decision {
    /// Take it back now.
    Revert,
    /// Take it back, but not before this time.
    Wait(Timestamp),
    /// Leave it and tell.
    Contested {
        /// Who changes it.
        manager: String,
        /// How often it was taken back.
        rounds: u32,
    },
}

/// Which objects were put right, and how often. Kept in memory: after a restart the count begins anew, which costs
/// three more rounds and no more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reverts {
    records: BTreeMap<(String, ObjectId), Record>,
}

impl Reverts {
    /// What to do about an object that differs from what is wanted and was applied before.
    ///
    /// Guarantees: the same object with the same wish is never put right more than [`ROUNDS`] times without
    /// [`PEACE`] in between, and a waiting time is never longer than the longest of [`WAITS`].
    pub fn decide(
        &self,
        cluster: &str,
        object: &ObjectId,
        wanted: &Digest,
        manager: Option<&str>,
        now: Timestamp,
    ) -> Decision {
        let Some(record) = self.in_force(cluster, object, wanted, now) else { return Decision::Revert };
        if record.count >= ROUNDS {
            let manager = manager.or(record.manager.as_deref()).filter(|name| !name.is_empty());
            let manager = manager.unwrap_or(UNKNOWN_MANAGER).to_owned();
            return Decision::Contested { manager, rounds: record.count };
        }
        let place = usize::try_from(record.count).unwrap_or(usize::MAX).saturating_sub(1);
        let until = later(record.last, WAITS[place.min(WAITS.len() - 1)]);
        // A clock that was set back must not make anybody wait for longer than was meant.
        if now >= until || now < record.last { Decision::Revert } else { Decision::Wait(until) }
    }

    /// The object was put right.
    pub fn reverted(
        &mut self,
        cluster: &str,
        object: &ObjectId,
        wanted: &Digest,
        manager: Option<&str>,
        now: Timestamp,
    ) {
        let before = self.in_force(cluster, object, wanted, now);
        let (count, known) = before.map_or((0, None), |record| (record.count, record.manager.clone()));
        let record = Record {
            wanted: *wanted,
            count: count.saturating_add(1),
            last: now,
            calm_since: Some(now),
            manager: manager.map(str::to_owned).or(known),
        };
        self.records.insert((cluster.to_owned(), object.clone()), record);
    }

    /// The object was seen to differ: it is not at peace.
    pub fn differs(&mut self, cluster: &str, object: &ObjectId, wanted: &Digest, now: Timestamp) {
        if self.in_force(cluster, object, wanted, now).is_none() {
            self.records.remove(&(cluster.to_owned(), object.clone()));
        } else if let Some(record) = self.records.get_mut(&(cluster.to_owned(), object.clone())) {
            record.calm_since = None;
        }
    }

    /// The object was seen to be as wanted.
    pub fn same(&mut self, cluster: &str, object: &ObjectId, now: Timestamp) {
        if let Some(record) = self.records.get_mut(&(cluster.to_owned(), object.clone())) {
            record.calm_since.get_or_insert(now);
        }
    }

    /// Drops what is at peace, and what `keep` says is gone.
    pub fn sweep(&mut self, now: Timestamp, keep: impl Fn(&str, &ObjectId) -> bool) {
        self.records.retain(|(cluster, object), record| !at_peace(record, now) && keep(cluster, object));
    }

    /// Whether anything is remembered of an object.
    pub fn knows(&self, cluster: &str, object: &ObjectId) -> bool {
        self.records.contains_key(&(cluster.to_owned(), object.clone()))
    }

    /// How many objects are remembered.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn in_force(&self, cluster: &str, object: &ObjectId, wanted: &Digest, now: Timestamp) -> Option<&Record> {
        let record = self.records.get(&(cluster.to_owned(), object.clone()))?;
        (record.wanted == *wanted && !at_peace(record, now)).then_some(record)
    }
}

fn at_peace(record: &Record, now: Timestamp) -> bool {
    record.calm_since.is_some_and(|since| now >= later(since, PEACE))
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const WANTED: Digest = [1; 32];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn web() -> ObjectId {
        "apps/v1/Deployment/shop/web".parse().unwrap()
    }

    fn fought(rounds: u32) -> Reverts {
        let mut reverts = Reverts::default();
        for round in 0..rounds {
            reverts.reverted("east", &web(), &WANTED, Some("kubectl-edit"), at(i64::from(round) * 20));
        }
        reverts
    }

    #[test]
    fn a_change_is_taken_back_at_once_then_more_slowly_then_not_at_all() {
        let ask = |reverts: &Reverts, now| reverts.decide("east", &web(), &WANTED, Some("hpa"), now);
        assert_eq!(ask(&fought(0), at(0)), Decision::Revert);
        assert_eq!(ask(&fought(1), at(0)), Decision::Wait(at(1)));
        assert_eq!(ask(&fought(1), at(1)), Decision::Revert);
        assert_eq!(ask(&fought(2), at(21)), Decision::Wait(at(30)));
        assert_eq!(ask(&fought(2), at(30)), Decision::Revert);
        assert_eq!(ask(&fought(3), at(45)), Decision::Contested { manager: "hpa".into(), rounds: 3 });
    }

    #[test]
    fn a_contested_object_stays_so_while_it_differs_and_is_forgotten_after_peace() {
        let mut reverts = fought(3);
        reverts.differs("east", &web(), &WANTED, at(50));
        let contested = Decision::Contested { manager: "kubectl-edit".into(), rounds: 3 };
        assert_eq!(reverts.decide("east", &web(), &WANTED, None, at(100_000)), contested);
        reverts.sweep(at(100_000), |_, _| true);
        reverts.same("east", &web(), at(100_000));
        reverts.same("east", &web(), at(100_300));
        assert_eq!(reverts.decide("east", &web(), &WANTED, None, at(100_599)), contested);
        assert_eq!(reverts.decide("east", &web(), &WANTED, None, at(100_600)), Decision::Revert);
        reverts.sweep(at(100_600), |_, _| true);
        assert!(reverts.is_empty());
    }

    #[test]
    fn another_wish_another_cluster_and_another_object_begin_anew() {
        let reverts = fought(3);
        let other: ObjectId = "apps/v1/Deployment/shop/other".parse().unwrap();
        assert_eq!(reverts.decide("east", &web(), &[2; 32], None, at(45)), Decision::Revert);
        assert_eq!(reverts.decide("west", &web(), &WANTED, None, at(45)), Decision::Revert);
        assert_eq!(reverts.decide("east", &other, &WANTED, None, at(45)), Decision::Revert);
        let mut reverts = fought(3);
        reverts.differs("east", &web(), &[2; 32], at(45));
        assert!(reverts.is_empty(), "what was wanted before is of no interest");
    }

    #[test]
    fn a_manager_without_a_name_is_called_unknown() {
        let mut reverts = Reverts::default();
        for second in 0..3 {
            reverts.reverted("east", &web(), &WANTED, None, at(second));
        }
        let wanted = Decision::Contested { manager: UNKNOWN_MANAGER.into(), rounds: 3 };
        assert_eq!(reverts.decide("east", &web(), &WANTED, None, at(9)), wanted);
        assert_eq!(reverts.decide("east", &web(), &WANTED, Some(""), at(9)), wanted);
    }

    #[test]
    fn what_is_gone_is_not_remembered() {
        let mut reverts = fought(2);
        reverts.sweep(at(30), |cluster, _| cluster != "east");
        assert_eq!(reverts.len(), 0);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nobody_wait() {
        assert_eq!(fought(2).decide("east", &web(), &WANTED, None, at(-5000)), Decision::Revert);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Somebody changes the object again after a while, over and over.
        #[test]
        fn nobody_is_fought_for_ever(gaps in proptest::collection::vec(0..400_i64, 1..60)) {
            let mut reverts = Reverts::default();
            let mut now = 0;
            let mut done = 0;
            for gap in gaps {
                now += gap;
                reverts.differs("east", &web(), &WANTED, at(now));
                loop {
                    match reverts.decide("east", &web(), &WANTED, Some("hpa"), at(now)) {
                        Decision::Revert => {
                            reverts.reverted("east", &web(), &WANTED, Some("hpa"), at(now));
                            done += 1;
                            break;
                        }
                        Decision::Wait(until) => {
                            prop_assert!(until > at(now) && until <= at(now + 10));
                            now = until.as_second() - 1_800_000_000;
                        }
                        Decision::Contested { .. } => break,
                    }
                }
            }
            prop_assert!(done <= ROUNDS);
        }
    }
}
