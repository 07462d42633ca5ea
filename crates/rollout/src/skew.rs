//! Clocks that disagree: a time in a status that lies ahead of our clock, because another replica's clock ran fast or ours
//! was set back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::condition::whole_seconds;

/// Clocks of replicas may differ by this much without anybody noticing.
const TOLERANCE: Duration = Duration::from_secs(10);

/// Brings a time that lies in the future back to now: waits count from it, and nobody should wait for an hour that a clock
/// was set back by.
pub(crate) fn rebase(time: &mut Option<Time>, now: Timestamp) {
    if let Some(time) = time
        && is_ahead(time.0, now)
    {
        *time = Time(whole_seconds(now));
    }
}

/// Whether a time lies further in the future than clocks of replicas may differ by.
pub(crate) fn is_ahead(time: Timestamp, now: Timestamp) -> bool {
    time.duration_since(now) > TOLERANCE.try_into().unwrap_or(jiff::SignedDuration::ZERO)
}
