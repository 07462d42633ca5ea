//! How many requests a listener takes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: so many at once, so many a second after that.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket. Less than one a second or at once counts as one.
    pub(super) fn new(rate: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            rate: f64::from(rate.max(1)),
            burst,
            level: Mutex::new(Level { tokens: burst, at: Instant::now() }),
        }
    }

    /// Takes one, or says how long to wait for it.
    pub(super) fn take(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = now.saturating_duration_since(level.at).as_secs_f64() * self.rate;
        level.tokens = (level.tokens + gained).min(self.burst);
        level.at = now;
        if level.tokens >= 1.0 {
            level.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - level.tokens) / self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_and_then_at_the_rate() {
        let bucket = Bucket::new(10, 3);
        for _ in 0..3 {
            assert_eq!(bucket.take(), Ok(()));
        }
        let wait = bucket.take().unwrap_err();
        assert!(wait > Duration::from_millis(90) && wait <= Duration::from_millis(101), "{wait:?}");
        tokio::time::advance(Duration::from_millis(110)).await;
        assert_eq!(bucket.take(), Ok(()));
        assert!(bucket.take().is_err());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(
            (0..10).filter(|_| bucket.take().is_ok()).count(),
            3,
            "it never holds more than the burst"
        );
    }
}
