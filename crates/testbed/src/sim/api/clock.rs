//! The API server's clock, handed in so that no wall clock is ever read.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the API takes its time from.
pub type TimeSource = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// 2026-01-01T00:00:00Z plus what tokio's clock counts from now on.
pub(super) fn from_epoch() -> TimeSource {
    const EPOCH_SECONDS: i64 = 1_767_225_600;
    let start = Instant::now();
    Arc::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::ZERO);
        let epoch = Timestamp::from_second(EPOCH_SECONDS).unwrap_or_default();
        epoch.checked_add(elapsed).unwrap_or(epoch)
    })
}

/// A time as Kubernetes writes it in metadata: whole seconds in UTC.
pub(super) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or_default().to_string()
}
