//! Virtual time: a fixed epoch plus what tokio's paused clock has counted, and per-instance jumps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z: every simulated world begins here.
const EPOCH_SECONDS: i64 = 1_767_225_600;

/// A wall clock inside the simulation.
///
/// Clones share their jumps. [`Clock::instance`] gives a clock that runs with this one but jumps on its own,
/// which is how one controller's host can be wrong about the time while the API server's is right.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    jump_ms: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that shows the epoch now. Must be called inside the simulation's runtime.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), jump_ms: Arc::default() }
    }

    /// A clock that runs with this one and has jumps of its own.
    #[must_use]
    pub fn instance(&self) -> Self {
        Self { start: self.start, jump_ms: Arc::default() }
    }

    /// The wall time as this clock shows it, jumps included.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        let shown = elapsed.saturating_add(SignedDuration::from_millis(self.jump_ms.load(Ordering::Relaxed)));
        epoch().saturating_add(shown).unwrap_or(Timestamp::MAX)
    }

    /// Virtual time since the world began. Monotonic: jumps do not show here.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Moves the wall clock, forwards or back.
    pub fn jump(&self, by: SignedDuration) {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.jump_ms.fetch_add(by, Ordering::Relaxed);
    }

    /// The clock as a closure, for code that takes its time from one.
    pub fn to_fn(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Virtual milliseconds since the world began: the scheduler's tick.
    pub(crate) fn tick(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The tokio instant of a tick.
    pub(crate) fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

/// The time at which every simulated world begins.
pub fn epoch() -> Timestamp {
    Timestamp::from_second(EPOCH_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn runs_with_virtual_time_and_jumps_alone() {
        let world = Clock::start();
        let host = world.instance();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(world.now().to_string(), "2026-01-01T01:00:00Z");
        host.jump(SignedDuration::from_mins(-90));
        assert_eq!(host.now().to_string(), "2025-12-31T23:30:00Z");
        assert_eq!(world.now().to_string(), "2026-01-01T01:00:00Z");
        assert_eq!(host.elapsed(), Duration::from_secs(3600));
    }
}
