//! Numbers of pods that nothing follows from are written together, a little later.
//!
//! While an update goes on the numbers change with every pod, and each write of a status costs the API server more than the
//! pod did. Whatever is decided (a step, a pause, a phase, a condition) is written at once, with the numbers of that moment.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use windlass_api::RolloutStatus;
use windlass_cluster::drive::Key;

/// The longest that numbers wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Since when the numbers of Rollouts wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Lag(Mutex<BTreeMap<Key, Timestamp>>);

impl Lag {
    /// How long the write of the next status may wait; `None` if it is due.
    pub(crate) fn wait(
        &self,
        key: &Key,
        stored: Option<&RolloutStatus>,
        next: &RolloutStatus,
        now: Timestamp,
    ) -> Option<Duration> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left =
            stored.filter(|stored| *stored != next && decided(stored) == decided(next)).and_then(|_| {
                let since = *waiting.entry(key.clone()).or_insert(now);
                let waited = Duration::try_from(now.duration_since(since)).unwrap_or(LONGEST);
                LONGEST.checked_sub(waited).filter(|left| !left.is_zero())
            });
        if left.is_none() {
            waiting.remove(key);
        }
        left
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A status without the numbers of pods, and without the words that tell them.
fn decided(status: &RolloutStatus) -> RolloutStatus {
    let mut rest = RolloutStatus {
        message: None,
        weight: None,
        replicas: 0,
        updated_replicas: 0,
        ready_replicas: 0,
        available_replicas: 0,
        hpa_replicas: 0,
        last_progress_time: None,
        ..status.clone()
    };
    for condition in &mut rest.conditions {
        condition.message.clear();
    }
    rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use windlass_api::rollout::status::Phase;

    #[test]
    fn numbers_wait_for_a_second_and_decisions_never() {
        let (lag, key) = (Lag::default(), Key { namespace: Some("shop".into()), name: "web".into() });
        let at = |millis: i64| Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap();
        let stored =
            RolloutStatus { replicas: 4, phase: Some(Phase::Progressing), ..RolloutStatus::default() };
        let more = RolloutStatus { replicas: 5, message: Some("5 of 6".into()), ..stored.clone() };
        let done = RolloutStatus { phase: Some(Phase::Completed), ..more.clone() };
        let wait = |stored: Option<&RolloutStatus>, next: &RolloutStatus, millis: i64| {
            lag.wait(&key, stored, next, at(millis)).map(|left| left.as_millis())
        };
        assert_eq!(wait(None, &more, 0), None);
        assert_eq!(wait(Some(&stored), &stored, 0), None);
        assert_eq!(wait(Some(&stored), &more, 0), Some(1000));
        assert_eq!(wait(Some(&stored), &more, 400), Some(600));
        assert_eq!(wait(Some(&stored), &done, 500), None);
        assert_eq!(wait(Some(&stored), &more, 600), Some(1000));
        assert_eq!(wait(Some(&stored), &more, 1600), None);
    }
}
