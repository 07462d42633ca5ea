//! What the parts say about themselves: ready to serve, and still alive.
//!
//! The two are kept apart on purpose. Not ready means “send no traffic here now” and passes by itself; not
//! alive means “restart me” and must never depend on anything outside the process, or an API server that is
//! down takes every replica down with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// One check as a probe reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Path-like name, `cache/cluster`.
    pub name: String,
    /// Why the check fails; `None` when it passes.
    pub failure: Option<String>,
}

/// The state of one registration; two registrations of a name count as one check that needs both.
#[derive(Debug)]
struct Entry {
    name: String,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_id: BTreeMap<u64, Entry>,
}

/// Named checks; ready only when all of them are. Cheap to clone: all clones see the same checks.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<Entries>>);

impl Readiness {
    /// No checks yet, hence ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, not ready until its handle says so. Dropping the handle takes the check away.
    ///
    /// The reasons are shown to everyone who can reach `/readyz`: no secrets in them.
    #[must_use = "dropping the handle removes the check"]
    pub fn check(&self, name: impl Into<String>) -> ReadinessCheck {
        let mut entries = lock(&self.0);
        let id = entries.next;
        entries.next += 1;
        entries.by_id.insert(id, Entry { name: name.into(), failure: Some("not yet started".to_owned()) });
        ReadinessCheck { readiness: self.clone(), id }
    }

    /// True when every check passes.
    pub fn is_ready(&self) -> bool {
        lock(&self.0).by_id.values().all(|entry| entry.failure.is_none())
    }

    /// Every check by name.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks: BTreeMap<String, Option<String>> = BTreeMap::new();
        for entry in lock(&self.0).by_id.values() {
            let failure = checks.entry(entry.name.clone()).or_default();
            if failure.is_none() {
                failure.clone_from(&entry.failure);
            }
        }
        checks.into_iter().map(|(name, failure)| Check { name, failure }).collect()
    }
}

/// The side of a check that the part under check holds.
#[derive(Debug)]
pub struct ReadinessCheck {
    readiness: Readiness,
    id: u64,
}

impl ReadinessCheck {
    /// The check passes from now on.
    pub fn ready(&self) {
        self.set(None);
    }

    /// The check fails from now on, and this is why.
    pub fn not_ready(&self, why: impl Into<String>) {
        self.set(Some(why.into()));
    }

    fn set(&self, failure: Option<String>) {
        if let Some(entry) = lock(&self.readiness.0).by_id.get_mut(&self.id) {
            entry.failure = failure;
        }
    }
}

impl Drop for ReadinessCheck {
    fn drop(&mut self) {
        lock(&self.readiness.0).by_id.remove(&self.id);
    }
}

#[derive(Debug)]
struct Pulse {
    name: String,
    limit: Duration,
    last: Instant,
}

#[derive(Debug, Default)]
struct Pulses {
    next: u64,
    by_id: BTreeMap<u64, Pulse>,
}

/// A watchdog: loops beat, and `/healthz` fails when one has been silent for longer than it promised.
#[derive(Debug, Clone, Default)]
pub struct Liveness(Arc<Mutex<Pulses>>);

impl Liveness {
    /// No loops yet, hence alive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches a loop that promises to beat at least every `limit`. Dropping the heartbeat ends the watch.
    ///
    /// `limit` should be many times the usual interval: the consequence is a restart.
    #[must_use = "dropping the heartbeat ends the watch"]
    pub fn watch(&self, name: impl Into<String>, limit: Duration) -> Heartbeat {
        let mut pulses = lock(&self.0);
        let id = pulses.next;
        pulses.next += 1;
        pulses.by_id.insert(id, Pulse { name: name.into(), limit, last: Instant::now() });
        Heartbeat { liveness: self.clone(), id }
    }

    /// Every watched loop by name.
    pub fn checks(&self) -> Vec<Check> {
        let now = Instant::now();
        let pulses = lock(&self.0);
        let mut checks: Vec<Check> = pulses
            .by_id
            .values()
            .map(|pulse| {
                let silent = now.saturating_duration_since(pulse.last);
                let failure = (silent > pulse.limit).then(|| {
                    format!("silent for {} s, allowed are {} s", silent.as_secs(), pulse.limit.as_secs())
                });
                Check { name: pulse.name.clone(), failure }
            })
            .collect();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        checks
    }

    /// True when no watched loop is overdue.
    pub fn is_alive(&self) -> bool {
        self.checks().iter().all(|check| check.failure.is_none())
    }
}

/// What a watched loop holds and beats.
#[derive(Debug)]
pub struct Heartbeat {
    liveness: Liveness,
    id: u64,
}

impl Heartbeat {
    /// The loop is alive now.
    pub fn beat(&self) {
        if let Some(pulse) = lock(&self.liveness.0).by_id.get_mut(&self.id) {
            pulse.last = Instant::now();
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        lock(&self.liveness.0).by_id.remove(&self.id);
    }
}

/// A panic while the lock was held leaves plain data that is still good to read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_when_every_check_is() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let cache = readiness.check("cache/cluster");
        let lease = readiness.check("lease");
        assert!(!readiness.is_ready(), "a new check has not passed yet");
        cache.ready();
        assert!(!readiness.is_ready());
        lease.ready();
        assert!(readiness.is_ready());
        cache.not_ready("watch lost");
        assert_eq!(
            readiness.checks(),
            [
                Check { name: "cache/cluster".into(), failure: Some("watch lost".into()) },
                Check { name: "lease".into(), failure: None },
            ]
        );
        drop(cache);
        assert!(readiness.is_ready(), "a dropped check no longer counts");
    }

    #[test]
    fn two_registrations_of_a_name_both_count() {
        let readiness = Readiness::new();
        let first = readiness.check("cache");
        let second = readiness.check("cache");
        first.ready();
        assert_eq!(readiness.checks().len(), 1);
        assert!(!readiness.is_ready());
        assert!(readiness.checks()[0].failure.is_some());
        drop(second);
        assert!(readiness.is_ready(), "the first registration survives the second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_loop_is_not_alive() {
        let liveness = Liveness::new();
        let heart = liveness.watch("drive", Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(liveness.is_alive());
        heart.beat();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(liveness.is_alive());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(liveness.checks()[0].failure.as_deref(), Some("silent for 11 s, allowed are 10 s"));
        heart.beat();
        assert!(liveness.is_alive());
        tokio::time::advance(Duration::from_secs(11)).await;
        drop(heart);
        assert!(liveness.is_alive());
    }
}
