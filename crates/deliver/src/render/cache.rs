//! What was rendered: kept by key, within a number of bytes, and rendered once when many ask at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::{Duration, Instant};

use super::{Rendered, key::Key, objects};
use crate::trouble::Trouble;

/// How long a standing trouble is kept. Equal inputs fail alike, and an Application with a bad chart that is woken by
/// other events would run the tool each time; not for long, since a tool may also fail because of the machine.
const TROUBLE_KEPT: Duration = Duration::from_secs(30);

/// About what an entry without objects takes.
const ENTRY: usize = 512;

/// How a render ended.
pub(super) type Outcome = Result<Arc<Rendered>, Trouble>;

/// What was rendered.
pub(super) struct Cache {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Key, Entry>,
    /// By last use.
    order: BTreeMap<u64, Key>,
    bytes: usize,
    uses: u64,
    flights: BTreeMap<Key, Arc<Flight>>,
}

struct Entry {
    outcome: Outcome,
    until: Option<Instant>,
    bytes: usize,
    used: u64,
}

type Flight = tokio::sync::Mutex<Option<Outcome>>;

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known under a key.
    pub(super) fn get(&self, key: &Key) -> Option<Outcome> {
        let mut inner = self.inner();
        if inner.entries.get(key)?.until.is_some_and(|until| until <= Instant::now()) {
            inner.remove(key);
            return None;
        }
        inner.uses += 1;
        let now = inner.uses;
        let entry = inner.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.used, now);
        let outcome = entry.outcome.clone();
        inner.order.remove(&before);
        inner.order.insert(now, *key);
        Some(outcome)
    }

    fn put(&self, key: Key, outcome: Outcome) {
        let (bytes, until) = match &outcome {
            Ok(rendered) => (ENTRY + objects::size(rendered), None),
            Err(trouble) if trouble.waits_for_change => {
                (ENTRY + trouble.what.len(), Some(Instant::now() + TROUBLE_KEPT))
            }
            Err(_) => return,
        };
        let mut inner = self.inner();
        inner.remove(&key);
        // What would push out everything else is not kept.
        if bytes > self.limit {
            return;
        }
        inner.uses += 1;
        let used = inner.uses;
        inner.order.insert(used, key);
        inner.entries.insert(key, Entry { outcome, until, bytes, used });
        inner.bytes += bytes;
        while inner.bytes > self.limit {
            let Some((_, oldest)) = inner.order.first_key_value() else { break };
            let oldest = *oldest;
            inner.remove(&oldest);
        }
    }

    /// What is known under a key, else what `render` gives. Of equal calls at the same time one renders; when it is
    /// dropped, the next does. The flag says whether this call rendered.
    pub(super) async fn get_or<F: Future<Output = Outcome>>(
        &self,
        key: Key,
        render: impl FnOnce() -> F,
    ) -> (Outcome, bool) {
        if let Some(outcome) = self.get(&key) {
            return (outcome, false);
        }
        let mut seat = Seat { cache: self, key, flight: None };
        // Dropped before the seat, which then sees who is left.
        let flight = self.inner().flights.entry(key).or_default().clone();
        seat.flight = Some(flight.clone());
        let mut landed = flight.lock().await;
        if let Some(outcome) = landed.clone().or_else(|| self.get(&key)) {
            return (outcome, false);
        }
        let outcome = render().await;
        self.put(key, outcome.clone());
        *landed = Some(outcome.clone());
        (outcome, true)
    }
}

impl Inner {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

/// A place in a flight: the last one that leaves ends it.
struct Seat<'a> {
    cache: &'a Cache,
    key: Key,
    flight: Option<Arc<Flight>>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut inner = self.cache.inner();
        self.flight = None;
        // Only the map has it. Others that sit in it have two each, so that the last one to leave sees it alone.
        if inner.flights.get(&self.key).is_some_and(|flight| Arc::strong_count(flight) == 1) {
            inner.flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn rendered(name: &str, bytes: usize) -> Arc<Rendered> {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\ndata: {{ a: {} }}",
            "x".repeat(bytes)
        );
        Arc::new(objects::seal(objects::of_file("a", text.as_bytes()).unwrap()).unwrap())
    }

    #[tokio::test]
    async fn equal_calls_share_one_render() {
        let (cache, count) = (Cache::new(1 << 20), AtomicUsize::new(0));
        let ask = || async {
            let render = || async {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(Trouble::passing("X", "a", "b"))
            };
            cache.get_or([1; 32], render).await.0
        };
        let all = futures::future::join_all((0..10).map(|_| ask())).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(cache.inner().flights.is_empty());
        // What may pass by itself is not kept.
        assert!(cache.get(&[1; 32]).is_none());
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_does_not_take_the_render_with_it() {
        let cache = Cache::new(1 << 20);
        let never = cache.get_or([1; 32], std::future::pending);
        let waits = cache.get_or([1; 32], || async { Ok(rendered("a", 1)) });
        tokio::pin!(waits);
        {
            tokio::pin!(never);
            assert!(futures::poll!(never.as_mut()).is_pending());
            assert!(futures::poll!(waits.as_mut()).is_pending());
        }
        assert!(waits.await.0.is_ok());
    }

    #[tokio::test]
    async fn what_was_not_used_for_longest_goes_first() {
        let cache = Cache::new(30_000);
        for name in 1..=2 {
            cache.put([name; 32], Ok(rendered("a", 10_000)));
        }
        assert!(cache.get(&[1; 32]).is_some());
        cache.put([3; 32], Ok(rendered("a", 10_000)));
        assert!(cache.get(&[2; 32]).is_none());
        assert!(cache.get(&[1; 32]).is_some() && cache.get(&[3; 32]).is_some());
        cache.put([4; 32], Ok(rendered("a", 100_000)));
        assert!(cache.get(&[4; 32]).is_none() && cache.get(&[3; 32]).is_some());
        assert!(cache.inner().bytes <= 30_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_standing_trouble_is_told_again_for_a_while_only() {
        let cache = Cache::new(1 << 20);
        cache.put([1; 32], Err(Trouble::standing("X", "a", "b")));
        assert!(cache.get(&[1; 32]).is_some_and(|outcome| outcome.is_err()));
        tokio::time::advance(TROUBLE_KEPT).await;
        assert!(cache.get(&[1; 32]).is_none());
        assert_eq!(cache.inner().bytes, 0);
    }
}
