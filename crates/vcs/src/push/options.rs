//! How persistent a push is.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::id::CommitId;

/// What happens when the remote does not have the branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is an error.
    #[default]
    Refuse,
    /// The branch begins a history of its own.
    Orphan,
    /// The branch begins at this commit, which must be in the repository.
    From(CommitId),
}

/// How persistent a push is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What happens when the remote does not have the branch.
    pub missing: Missing,
    /// How often the remote is tried, the first time included.
    pub attempts: u32,
    /// After this no new attempt begins.
    pub patience: Duration,
    /// The wait after the first attempt; it doubles each time, and a random part of it is left out.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
    /// Makes the random parts the same every time, for tests.
    pub seed: Option<u64>,
}

impl Default for Options {
    /// Ten attempts within five minutes, with waits from 50 ms to 5 s.
    fn default() -> Self {
        Self {
            missing: Missing::default(),
            attempts: 10,
            patience: Duration::from_secs(300),
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_secs(5),
            seed: None,
        }
    }
}

/// The waits between attempts.
pub(super) struct Waits {
    next: Duration,
    longest: Duration,
    random: StdRng,
}

impl Waits {
    pub(super) fn new(options: &Options) -> Self {
        let random = match options.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        Self { next: options.first_wait, longest: options.longest_wait, random }
    }

    /// The next wait: anything up to the current length, so that those who collided once do not collide again.
    pub(super) fn next(&mut self) -> Duration {
        let most = self.next.min(self.longest);
        self.next = self.next.saturating_mul(2).min(self.longest);
        most.mul_f64(self.random.random_range(0.1..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_differ_by_seed() {
        let options = |seed| Options { seed: Some(seed), ..Options::default() };
        let waits = |seed| {
            let mut waits = Waits::new(&options(seed));
            (0..20).map(|_| waits.next()).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(waits(3)[0] <= Duration::from_millis(50));
        assert!(waits(3).iter().all(|wait| *wait <= Duration::from_secs(5) && !wait.is_zero()));
        assert!(waits(3)[10..].iter().any(|wait| *wait > Duration::from_secs(1)));
    }
}
