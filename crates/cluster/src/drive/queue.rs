//! Which object is looked at next. Pure: time is an argument.
//!
//! Guarantees: an object is in work at most once at a time; a wake that arrives while it is in work leads to one
//! more round after it; a wake only ever brings a planned look forward; objects that failed last time
//! wait in a lane of their own, so that they cannot take every worker.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::key::Key;
use crate::backoff::Backoff;

/// Position in a lane: due time, then order of arrival.
type Slot = (Instant, u64);

/// What became of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, look again only on a change.
    Rest,
    /// Done, look again after this time.
    After(Duration),
    /// Failed or in trouble: back off, at most this long.
    Retry {
        /// The longest wait, or the queue's own bound.
        longest: Option<Duration>,
        /// The shortest wait, as a server asked for it.
        at_least: Option<Duration>,
    },
}

#[derive(Debug, Default)]
struct Entry {
    slot: Option<Slot>,
    running: bool,
    woken: bool,
    failures: u32,
}

/// The queue of one controller.
#[derive(Debug)]
pub struct Queue {
    entries: BTreeMap<Key, Entry>,
    healthy: BTreeMap<Slot, Key>,
    failing: BTreeMap<Slot, Key>,
    running: BTreeSet<Key>,
    running_failing: usize,
    workers: usize,
    backoff: Backoff,
    sequence: u64,
}

impl Queue {
    /// An empty queue for so many workers.
    pub fn new(workers: usize, backoff: Backoff) -> Self {
        Self {
            entries: BTreeMap::new(),
            healthy: BTreeMap::new(),
            failing: BTreeMap::new(),
            running: BTreeSet::new(),
            running_failing: 0,
            workers: workers.max(1),
            backoff,
            sequence: 0,
        }
    }

    /// Looks at the object at `at`, or earlier if that was planned already.
    pub fn wake(&mut self, key: &Key, at: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running {
            entry.woken = true;
            return;
        }
        if entry.slot.is_some_and(|(due, _)| due <= at) {
            return;
        }
        self.place(key, at);
    }

    /// The object is gone: whatever was planned for it is dropped. A round in work ends by itself.
    pub fn forget(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            if let Some(slot) = entry.slot {
                self.healthy.remove(&slot);
                self.failing.remove(&slot);
            }
            if entry.running {
                self.entries.insert(
                    key.clone(),
                    Entry { running: true, failures: entry.failures, ..Entry::default() },
                );
            }
        }
    }

    /// Takes the next object that is due, if a worker is free for it.
    pub fn take(&mut self, now: Instant) -> Option<Key> {
        if self.running.len() >= self.workers {
            return None;
        }
        let healthy = self.healthy.first_key_value().map(|(slot, _)| *slot).filter(|(due, _)| *due <= now);
        let failing = self
            .failing
            .first_key_value()
            .map(|(slot, _)| *slot)
            .filter(|(due, _)| *due <= now && self.running_failing < self.failing_share());
        let key = match (healthy, failing) {
            (Some(_), None) => self.healthy.pop_first(),
            (Some(a), Some(b)) if a <= b => self.healthy.pop_first(),
            (_, Some(_)) => self.failing.pop_first(),
            (None, None) => None,
        }
        .map(|(_, key)| key)?;
        let entry = self.entries.entry(key.clone()).or_default();
        entry.slot = None;
        entry.running = true;
        entry.woken = false;
        self.running_failing += usize::from(entry.failures > 0);
        self.running.insert(key.clone());
        Some(key)
    }

    /// A round ended. `known` tells whether the object still exists.
    pub fn done(&mut self, key: &Key, outcome: Outcome, now: Instant, known: bool) {
        if !self.running.remove(key) {
            return;
        }
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.running_failing -= usize::from(entry.failures > 0);
        let woken = std::mem::take(&mut entry.woken);
        entry.running = false;
        if !known {
            self.entries.remove(key);
            return;
        }
        let due = match outcome {
            Outcome::Rest => {
                entry.failures = 0;
                None
            }
            Outcome::After(delay) => {
                entry.failures = 0;
                Some(now + delay)
            }
            Outcome::Retry { longest, at_least } => {
                entry.failures = entry.failures.saturating_add(1);
                let backoff = Backoff { longest: longest.unwrap_or(self.backoff.longest), ..self.backoff };
                let delay = backoff.delay(entry.failures, &key.to_string()).max(at_least.unwrap_or_default());
                Some(now + delay)
            }
        };
        match (woken, due) {
            (true, _) => self.place(key, now),
            (false, Some(due)) => self.place(key, due),
            (false, None) => {}
        }
    }

    /// When [`Queue::take`] could next give something, if no round ends before.
    pub fn next_due(&self) -> Option<Instant> {
        if self.running.len() >= self.workers {
            return None;
        }
        let healthy = self.healthy.first_key_value().map(|((due, _), _)| *due);
        let failing = self
            .failing
            .first_key_value()
            .map(|((due, _), _)| *due)
            .filter(|_| self.running_failing < self.failing_share());
        healthy.into_iter().chain(failing).min()
    }

    /// Objects that are due but wait for a worker.
    pub fn depth(&self, now: Instant) -> usize {
        [&self.healthy, &self.failing].into_iter().map(|lane| lane.range(..=(now, u64::MAX)).count()).sum()
    }

    /// Objects in work.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Objects known to the queue.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the queue knows no object.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn failing_share(&self) -> usize {
        self.workers.div_ceil(2)
    }

    fn place(&mut self, key: &Key, at: Instant) {
        self.sequence += 1;
        let slot = (at, self.sequence);
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(old) = entry.slot.replace(slot) {
            self.healthy.remove(&old);
            self.failing.remove(&old);
        }
        let lane = if entry.failures > 0 { &mut self.failing } else { &mut self.healthy };
        lane.insert(slot, key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
    const RETRY: Outcome = Outcome::Retry { longest: None, at_least: None };

    fn key(name: &str) -> Key {
        Key { namespace: None, name: name.into() }
    }

    #[test]
    fn a_wake_during_a_round_leads_to_exactly_one_more() {
        let (mut queue, now) = (Queue::new(4, BACKOFF), Instant::now());
        queue.wake(&key("a"), now);
        assert_eq!(queue.take(now), Some(key("a")));
        queue.wake(&key("a"), now);
        queue.wake(&key("a"), now);
        assert_eq!(queue.take(now), None, "never twice at a time");
        queue.done(&key("a"), Outcome::Rest, now, true);
        assert_eq!(queue.take(now), Some(key("a")));
        queue.done(&key("a"), Outcome::Rest, now, true);
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn failures_back_off_and_success_forgets_them() {
        let (mut queue, start) = (Queue::new(1, BACKOFF), Instant::now());
        queue.wake(&key("a"), start);
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..8 {
            queue.take(now).unwrap();
            queue.done(&key("a"), RETRY, now, true);
            let due = queue.next_due().unwrap();
            waits.push((due - now).as_secs_f64().round());
            now = due;
        }
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1] || pair[1] > 45.0), "{waits:?}");
        queue.take(now).unwrap();
        queue.done(&key("a"), Outcome::After(Duration::from_secs(5)), now, true);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(5)));
    }

    #[test]
    fn objects_in_trouble_leave_half_of_the_workers_to_the_others() {
        let (mut queue, now) = (Queue::new(4, BACKOFF), Instant::now());
        for name in ["a", "b", "c", "d", "e"] {
            queue.wake(&key(name), now);
        }
        for _ in 0..4 {
            let taken = queue.take(now).unwrap();
            queue.done(&taken, RETRY, now, true);
        }
        let later = now + Duration::from_secs(100);
        queue.wake(&key("fresh"), later);
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(later)).collect();
        assert_eq!(taken.len(), 4);
        assert!(taken.contains(&key("e")) && taken.contains(&key("fresh")), "{taken:?}");
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it() {
        let (mut queue, now) = (Queue::new(1, BACKOFF), Instant::now());
        queue.wake(&key("a"), now);
        queue.take(now).unwrap();
        let asked = Outcome::Retry { longest: None, at_least: Some(Duration::from_secs(30)) };
        queue.done(&key("a"), asked, now, true);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(30)));
    }

    #[test]
    fn a_deleted_object_is_forgotten_even_in_work() {
        let (mut queue, now) = (Queue::new(1, BACKOFF), Instant::now());
        queue.wake(&key("a"), now);
        queue.take(now).unwrap();
        queue.forget(&key("a"));
        queue.done(&key("a"), Outcome::After(Duration::from_secs(1)), now, false);
        assert!(queue.is_empty());
        assert_eq!((queue.running(), queue.next_due()), (0, None));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wake(u8, u64),
        Take,
        Done(u8, u8),
        Forget(u8),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..6u8, 0..20u64).prop_map(|(key, delay)| Step::Wake(key, delay)),
            Just(Step::Take),
            (0..6u8, 0..3u8).prop_map(|(key, outcome)| Step::Done(key, outcome)),
            (0..6u8).prop_map(Step::Forget),
            (0..30u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn no_object_is_lost_or_in_work_twice(steps in proptest::collection::vec(step(), 0..200)) {
            let mut queue = Queue::new(3, BACKOFF);
            let mut now = Instant::now();
            let mut running = BTreeSet::new();
            let mut owed = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Wake(n, delay) => {
                        queue.wake(&key(&n.to_string()), now + Duration::from_secs(delay));
                        owed.insert(n.to_string());
                    }
                    Step::Take => if let Some(taken) = queue.take(now) {
                        prop_assert!(running.insert(taken.name.to_string()));
                        owed.remove(&*taken.name);
                        prop_assert!(running.len() <= 3);
                    },
                    Step::Done(n, outcome) => if running.remove(&n.to_string()) {
                        let outcome = match outcome {
                            0 => Outcome::Rest,
                            1 => Outcome::After(Duration::from_secs(3)),
                            _ => RETRY,
                        };
                        queue.done(&key(&n.to_string()), outcome, now, true);
                    },
                    Step::Forget(n) => {
                        queue.forget(&key(&n.to_string()));
                        owed.remove(&n.to_string());
                    }
                    Step::Wait(seconds) => now += Duration::from_secs(seconds),
                }
                prop_assert_eq!(queue.running(), running.len());
            }
            // Whatever was woken and not yet taken comes out once everything in work has ended.
            for name in std::mem::take(&mut running) {
                queue.done(&key(&name), Outcome::Rest, now, true);
            }
            now += Duration::from_secs(1000);
            while let Some(taken) = queue.take(now) {
                owed.remove(&*taken.name);
                queue.done(&taken, Outcome::Rest, now, true);
            }
            prop_assert!(owed.is_empty(), "never looked at: {:?}", owed);
        }
    }
}
