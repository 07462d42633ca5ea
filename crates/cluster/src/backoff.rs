//! How long to wait after the n-th failure in a row. Pure, so that the same failures wait the same time.

use std::time::Duration;

/// Exponential back-off with a spread that depends on the caller, not on chance.
///
/// Guarantees: the delay lies within ±20 % of `first × 2ⁿ`, never above `longest` by more than that, and the same
/// `(salt, failures)` always gives the same delay. Different salts (object keys, replica names) are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The delay that is not exceeded (but for the spread).
    pub longest: Duration,
}

impl Backoff {
    /// The delay after so many failures in a row.
    pub fn delay(&self, failures: u32, salt: &str) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1u32.checked_shl(failures.saturating_sub(1).min(20)).unwrap_or(u32::MAX));
        let base = doubled.min(self.longest);
        let hash = stable_hash(salt.as_bytes())
            .wrapping_add(u64::from(failures).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // 0.8 … 1.2 in 400 steps
        let spread = 800 + u32::try_from(mix(hash) % 401).unwrap_or(0);
        base * spread / 1000
    }
}

/// FNV-1a: a hash that stays the same over processes and releases, unlike `std`'s.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(fnv)
}

/// The finisher of splitmix64: every input bit reaches every output bit.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(60) };

    proptest! {
        #[test]
        fn the_delay_doubles_within_its_spread_and_is_bounded(failures in 1u32..500, salt in "[a-z]{1,8}") {
            let delay = BACKOFF.delay(failures, &salt);
            let exact = Duration::from_millis(500).saturating_mul(1 << (failures - 1).min(20)).min(BACKOFF.longest);
            prop_assert!(delay >= exact.mul_f64(0.799) && delay <= exact.mul_f64(1.201));
            prop_assert_eq!(delay, BACKOFF.delay(failures, &salt));
        }
    }

    #[test]
    fn different_objects_are_spread() {
        let delays: std::collections::BTreeSet<_> =
            (0..100).map(|n| BACKOFF.delay(3, &format!("object-{n}"))).collect();
        assert!(delays.len() > 50, "{}", delays.len());
    }

    #[test]
    fn the_hash_is_the_same_in_every_release() {
        assert_eq!(stable_hash(b"default/example"), 0xc320_acb0_a9bc_3f27);
    }
}
