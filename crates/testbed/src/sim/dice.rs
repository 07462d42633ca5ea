//! Seeded decisions that do not depend on the order in which they are asked.
//!
//! A shared random stream would give a request another delay as soon as two tasks swap their order, and a
//! `HashMap` inside a controller is enough for that. Here every decision is a function of the seed, of what is
//! decided and about what: the same question always has the same answer.

use std::{
    fmt::{self, Write as _},
    ops::RangeInclusive,
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Answers questions from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    seed: u64,
}

impl Dice {
    /// Dice for one run.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A generator for one question about one subject, where one number is not enough.
    pub fn rng(&self, question: &str, subject: impl fmt::Display) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.number(question, subject))
    }

    /// True with the given probability.
    pub fn chance(&self, question: &str, subject: impl fmt::Display, probability: f64) -> bool {
        // The upper 53 bits are what a double holds.
        #[allow(clippy::cast_precision_loss)]
        let drawn = (self.number(question, subject) >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < probability
    }

    /// A whole number of the range; its start when it is empty.
    pub fn pick(&self, question: &str, subject: impl fmt::Display, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        let width = high.saturating_sub(low);
        let number = self.number(question, subject);
        low + width.checked_add(1).map_or(number, |count| number % count)
    }

    /// Every question has one number; asked thousands of times in a run, so no cipher is spent on it.
    fn number(self, question: &str, subject: impl fmt::Display) -> u64 {
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        // Writing to a hash does not fail.
        let _ok = write!(hash, "{} {question} {subject}", self.seed);
        mix(hash.0)
    }
}

/// FNV-1a.
struct Hash(u64);

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// Spreads every bit over all others, as `SplitMix64` does at its end.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_depend_on_seed_question_and_subject_only() {
        let dice = Dice::new(7);
        let first = dice.pick("delay", "a", 0..=u64::MAX);
        let _other = dice.pick("delay", "b", 0..=u64::MAX);
        assert_eq!(first, dice.pick("delay", "a", 0..=u64::MAX));
        assert_ne!(first, dice.pick("delay", "b", 0..=u64::MAX));
        assert_ne!(first, dice.pick("fault", "a", 0..=u64::MAX));
        assert_ne!(first, Dice::new(8).pick("delay", "a", 0..=u64::MAX));
    }

    #[test]
    fn chance_follows_its_probability() {
        let dice = Dice::new(1);
        let hits = (0..2000).filter(|n| dice.chance("x", n, 0.25)).count();
        assert!((400..600).contains(&hits), "{hits} of 2000");
        assert!(!dice.chance("x", "y", 0.0));
        assert!(dice.chance("x", "y", 1.0));
    }
}
