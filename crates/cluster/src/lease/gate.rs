//! The question that is asked before every write: is this shard still ours?

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use crate::clock::Clock;

/// The lease of the shard is not ours (any more): nothing was or will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is not held by this replica")]
pub struct Fenced {
    /// The shard.
    pub shard: u32,
}

/// How far one shard's lease can be trusted, by both clocks: the monotonic one stands still while a machine is
/// suspended, the wall clock can be set; the earlier end counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    pub(crate) until: Instant,
    pub(crate) wall_until: Timestamp,
}

/// The shards this replica holds, each with the count of gains at the time it was gained: a loss and a gain in
/// between give another value.
pub type Held = BTreeMap<u32, u64>;

#[derive(Debug, Default)]
struct Shard {
    trust: Option<Trust>,
    /// No new write may start; those under way may end.
    closing: bool,
    writes: usize,
}

#[derive(Debug)]
enum Kind {
    /// No election: everything is ours (command line, tests of a single process).
    Open,
    Leased {
        shards: Mutex<BTreeMap<u32, Shard>>,
        gains: AtomicU64,
        clock: Clock,
    },
}

/// See the module's text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    kind: Arc<Kind>,
    shards: u32,
    held: watch::Sender<Held>,
}

impl Gate {
    /// A gate that is always open.
    pub fn open() -> Self {
        Self { kind: Arc::new(Kind::Open), shards: 1, held: watch::Sender::new(BTreeMap::from([(0, 1)])) }
    }

    pub(crate) fn leased(shards: u32, clock: Clock) -> Self {
        Self {
            kind: Arc::new(Kind::Leased { shards: Mutex::default(), gains: AtomicU64::new(0), clock }),
            shards: shards.max(1),
            held: watch::Sender::new(BTreeMap::new()),
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// The shards that are held, and a signal when they change.
    pub fn held(&self) -> watch::Receiver<Held> {
        self.held.subscribe()
    }

    /// Whether a write for the shard may start at this moment.
    pub fn check(&self, shard: u32) -> Result<(), Fenced> {
        if self.remaining(shard, true).is_zero() { Err(Fenced { shard }) } else { Ok(()) }
    }

    /// Runs `write` while the shard is ours; drops it when the lease is lost or the trust in it ends before.
    pub async fn fenced<T>(&self, shard: u32, write: impl Future<Output = T>) -> Result<T, Fenced> {
        self.check(shard)?;
        let mut held = self.held.subscribe();
        let _under_way = self.count(shard);
        let mut write = std::pin::pin!(write);
        // Looked at before each step: a process that stood still goes on with whatever became due meanwhile, such as the
        // repetition of a request, before anybody tells it that the lease is lost.
        let mut steps = std::pin::pin!(std::future::poll_fn(|context| {
            if self.remaining(shard, false).is_zero() {
                return Poll::Ready(Err(Fenced { shard }));
            }
            write.as_mut().poll(context).map(Ok)
        }));
        loop {
            let left = self.remaining(shard, false);
            if left.is_zero() {
                return Err(Fenced { shard });
            }
            tokio::select! {
                biased;
                output = steps.as_mut() => return output,
                // A renewal may have moved the end by the time it is reached, a loss ends the trust at once: look again.
                _ = held.changed() => {}
                () = tokio::time::sleep(left.min(Duration::from_secs(3600))) => {}
            }
        }
    }

    /// Trusts the shard's lease for so long. A trust that had lapsed in between counts as gained anew: rounds were
    /// turned away meanwhile, and somebody has to look at their objects again.
    pub(crate) fn trust(&self, shard: u32, trust: Trust) {
        let gained = self.remaining(shard, false).is_zero();
        let Some(mut shards) = self.lock() else { return };
        let state = shards.entry(shard).or_default();
        (state.trust, state.closing) = (Some(trust), false);
        drop(shards);
        if let (true, Kind::Leased { gains, .. }) = (gained, &*self.kind) {
            let count = gains.fetch_add(1, Ordering::SeqCst) + 1;
            self.held.send_modify(|held| {
                held.insert(shard, count);
            });
        }
    }

    /// Lets no new write start and waits for those under way, at most this long.
    pub(crate) async fn drain(&self, shard: u32, patience: Duration) {
        let busy = || {
            self.lock().and_then(|shards| shards.get(&shard).map(|state| state.writes > 0)).unwrap_or(false)
        };
        if let Some(mut shards) = self.lock() {
            shards.entry(shard).or_default().closing = true;
        }
        let end = Instant::now() + patience;
        while busy() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn lose(&self, shard: u32) {
        let Some(mut shards) = self.lock() else { return };
        let lost = shards.get_mut(&shard).and_then(|state| state.trust.take()).is_some();
        drop(shards);
        if lost {
            self.held.send_modify(|held| {
                held.remove(&shard);
            });
        }
    }

    /// Time for which the shard can be trusted; zero if it is not held, or for a new write if it is being given up.
    fn remaining(&self, shard: u32, starting: bool) -> Duration {
        let Kind::Leased { clock, .. } = &*self.kind else { return Duration::MAX };
        let trust = self.lock().and_then(|shards| {
            let state = shards.get(&shard)?;
            state.trust.filter(|_| !(starting && state.closing))
        });
        let Some(trust) = trust else { return Duration::ZERO };
        let wall = Duration::try_from(trust.wall_until.duration_since(clock.now())).unwrap_or_default();
        trust.until.saturating_duration_since(Instant::now()).min(wall)
    }

    fn lock(&self) -> Option<MutexGuard<'_, BTreeMap<u32, Shard>>> {
        match &*self.kind {
            Kind::Open => None,
            Kind::Leased { shards, .. } => Some(shards.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn count(&self, shard: u32) -> UnderWay<'_> {
        if let Some(mut shards) = self.lock() {
            shards.entry(shard).or_default().writes += 1;
        }
        UnderWay { gate: self, shard }
    }
}

/// Counts a write until it ends, however it ends.
struct UnderWay<'a> {
    gate: &'a Gate,
    shard: u32,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(mut shards) = self.gate.lock()
            && let Some(state) = shards.get_mut(&self.shard)
        {
            state.writes = state.writes.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    fn gate() -> (Gate, Arc<AtomicI64>) {
        let wall = Arc::new(AtomicI64::new(1_000));
        let reader = wall.clone();
        let clock = Clock::from_fn(move || Timestamp::from_second(reader.load(Ordering::SeqCst)).unwrap());
        (Gate::leased(2, clock), wall)
    }

    fn trust(seconds: i64) -> Trust {
        Trust {
            until: Instant::now() + Duration::from_secs(seconds.unsigned_abs()),
            wall_until: Timestamp::from_second(1_000 + seconds).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trust_ends_by_itself_on_the_monotonic_clock() {
        let (gate, _) = gate();
        assert_eq!(gate.check(1), Err(Fenced { shard: 1 }));
        gate.trust(1, trust(5));
        assert_eq!(gate.check(1), Ok(()));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(gate.check(1), Err(Fenced { shard: 1 }));
    }

    #[tokio::test(start_paused = true)]
    async fn trust_ends_when_the_machine_was_suspended() {
        let (gate, wall) = gate();
        gate.trust(0, trust(5));
        wall.store(1_006, Ordering::SeqCst);
        assert_eq!(gate.check(0), Err(Fenced { shard: 0 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_under_way_is_dropped_when_the_trust_ends_and_goes_on_when_renewed() {
        let (gate, _) = gate();
        gate.trust(0, trust(5));
        let slow = gate.fenced(0, tokio::time::sleep(Duration::from_secs(60))).await;
        assert_eq!(slow, Err(Fenced { shard: 0 }));

        gate.trust(0, trust(5));
        let renewing = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            gate.trust(0, Trust { until: Instant::now() + Duration::from_secs(100), ..trust(1000) });
        };
        let (slow, ()) = tokio::join!(gate.fenced(0, tokio::time::sleep(Duration::from_secs(60))), renewing);
        assert_eq!(slow, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_drops_the_write_at_once() {
        let (gate, _) = gate();
        gate.trust(0, trust(500));
        let losing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gate.lose(0);
        };
        let begin = Instant::now();
        let (write, ()) = tokio::join!(gate.fenced(0, tokio::time::sleep(Duration::from_secs(60))), losing);
        assert_eq!(write, Err(Fenced { shard: 0 }));
        assert!(begin.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn draining_lets_writes_end_but_none_begin() {
        let (gate, _) = gate();
        gate.trust(0, trust(500));
        let draining = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            gate.drain(0, Duration::from_secs(5)).await;
            assert_eq!(gate.check(0), Err(Fenced { shard: 0 }));
        };
        let (write, ()) = tokio::join!(gate.fenced(0, tokio::time::sleep(Duration::from_secs(1))), draining);
        assert_eq!(write, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trust_that_lapsed_and_came_back_is_a_gain() {
        let (gate, _) = gate();
        gate.trust(0, trust(5));
        let mut held = gate.held();
        held.borrow_and_update();
        gate.trust(0, trust(6));
        assert!(!held.has_changed().unwrap(), "a renewal in time is no news");
        tokio::time::advance(Duration::from_secs(7)).await;
        gate.trust(0, trust(20));
        assert!(held.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_loss_and_a_gain_in_between_are_noticed() {
        let (gate, _) = gate();
        gate.trust(0, trust(5));
        let mut held = gate.held();
        let before = held.borrow_and_update().clone();
        gate.lose(0);
        gate.trust(0, trust(5));
        assert_ne!(*held.borrow(), before);
    }
}
