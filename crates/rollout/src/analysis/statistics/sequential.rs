//! Is the share of events, such as failed requests, higher on one side? Asked as often as one likes.
//!
//! A usual test that is repeated until it gives alarm gives alarm some day, also without a difference. Here evidence is
//! collected as an *e-process*: a bet against “both sides have the same share” that can win only by luck if that is true.
//! Its value is 1 at the start, and the chance that it ever reaches `1/alpha` without a difference is at most `alpha`
//! (Ville's inequality), however often and whenever one looks, and whoever decides when to stop.
//!
//! The bet, for each batch of new requests since the last look: given how many requests each side had and how many events
//! there were in all, without a difference the events fall on the sides like balls drawn without replacement (the
//! hypergeometric distribution, as in Fisher's exact test). With odds `w` times as high on the first side they follow
//! Fisher's noncentral distribution. The likelihood ratio of the two is the batch's factor: it is 1 on average without a
//! difference, whatever the common share is, and even if that share changes from batch to batch, as traffic does over a
//! day. Factors of all batches are multiplied for each of a few odds, and the mean over the odds is the evidence.
//!
//! Assumes that events are independent of each other given the share of their batch.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

use super::Alternative;

/// Odds that are bet on: from hardly noticeable to drastic.
const ODDS: [f64; 7] = [1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0];

/// Requests and events of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Events, such as errors.
    pub events: u64,
    /// Requests, those with events among them.
    pub total: u64,
}

impl Counts {
    /// The share of events; `None` without requests.
    #[allow(clippy::cast_precision_loss, reason = "counts are far smaller than 2^52")]
    pub fn share(self) -> Option<f64> {
        (self.total > 0).then(|| self.events as f64 / self.total as f64)
    }

    /// What came on top of what was known. A counter that went back gives nothing.
    fn since(self, before: Self) -> Self {
        let total = self.total.saturating_sub(before.total);
        Self { total, events: self.events.saturating_sub(before.events).min(total) }
    }
}

/// Evidence so far. It is kept between looks, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Logarithm of the product of factors, for each of the odds that are bet on.
    logs: Vec<f64>,
    /// All that was seen of the first side.
    pub first: Counts,
    /// All that was seen of the second side.
    pub second: Counts,
}

impl Evidence {
    /// Nothing was seen yet.
    pub fn new(alternative: Alternative) -> Self {
        let logs = vec![0.0; odds(alternative).len()];
        Self { logs, first: Counts::default(), second: Counts::default() }
    }

    /// Whether this evidence was collected for the same question.
    pub fn is_for(&self, alternative: Alternative) -> bool {
        self.logs.len() == odds(alternative).len() && self.logs.iter().all(|log| log.is_finite())
    }

    /// Looks again: these are the counts since the beginning.
    #[must_use]
    pub fn look(&self, first: Counts, second: Counts, alternative: Alternative) -> Self {
        let batch = (first.since(self.first), second.since(self.second));
        let factors = log_factors(batch.0, batch.1, &odds(alternative));
        Self {
            logs: self.logs.iter().zip(factors).map(|(log, factor)| log + factor).collect(),
            first: Counts {
                total: first.total.max(self.first.total),
                events: first.events.max(self.first.events),
            },
            second: Counts {
                total: second.total.max(self.second.total),
                events: second.events.max(self.second.events),
            },
        }
    }

    /// The evidence against “no difference”: 20 means that it would be reached once in 20 times at most by chance.
    pub fn e_value(&self) -> f64 {
        let most = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !most.is_finite() {
            return 1.0;
        }
        let sum: f64 = self.logs.iter().map(|log| (log - most).exp()).sum();
        let mean = most + sum.ln() - ln_count(self.logs.len());
        mean.min(700.0).exp()
    }

    /// An upper bound of how likely chance alone gives as much evidence at any look.
    pub fn p_value(&self) -> f64 {
        (1.0 / self.e_value()).min(1.0)
    }

    /// The share of the first side minus that of the second; `None` without requests.
    pub fn effect(&self) -> Option<f64> {
        Some(self.first.share()? - self.second.share()?)
    }
}

fn odds(alternative: Alternative) -> Vec<f64> {
    let below = || ODDS.iter().map(|odds| 1.0 / odds);
    match alternative {
        Alternative::Greater => ODDS.to_vec(),
        Alternative::Less => below().collect(),
        Alternative::TwoSided => ODDS.iter().copied().chain(below()).collect(),
    }
}

/// Logarithm of the factor of one batch, at these odds.
pub fn log_factor(first: Counts, second: Counts, odds: f64) -> f64 {
    log_factors(first, second, &[odds]).first().copied().unwrap_or(0.0)
}

/// The same for several odds: what they have in common is computed once.
fn log_factors(first: Counts, second: Counts, odds: &[f64]) -> Vec<f64> {
    if first.total == 0 || second.total == 0 || first.events + second.events == 0 {
        return vec![0.0; odds.len()];
    }
    let urn = Urn {
        first: float(first.total),
        second: float(second.total),
        events: float(first.events + second.events),
    };
    let central = urn.log_sum(1.0);
    let factor = |odds: &f64| float(first.events) * odds.ln() - (urn.log_sum(*odds) - central);
    odds.iter().map(factor).collect()
}

/// Requests of both sides, and how many of them are events.
#[derive(Clone, Copy)]
struct Urn {
    first: f64,
    second: f64,
    events: f64,
}

impl Urn {
    /// Logarithm of the weight of `x` events on the first side, but for a constant.
    fn log_weight(self, x: f64) -> f64 {
        -(ln_gamma(x + 1.0)
            + ln_gamma(self.first - x + 1.0)
            + ln_gamma(self.events - x + 1.0)
            + ln_gamma(self.second - self.events + x + 1.0))
    }

    /// Weight of `x + 1` over that of `x`. It falls with `x`.
    fn ratio(self, x: f64) -> f64 {
        (self.first - x) * (self.events - x) / ((x + 1.0) * (self.second - self.events + x + 1.0))
    }

    /// Logarithm of the sum over all `x` of weight times odds to the power of `x`.
    fn log_sum(self, odds: f64) -> f64 {
        let (least, most) = ((self.events - self.second).max(0.0), self.events.min(self.first));
        let mode = self.mode(odds, least, most);
        let mut sum = 1.0;
        let (mut x, mut term) = (mode, 1.0);
        while x < most && term > sum * 1e-18 {
            term *= self.ratio(x) * odds;
            sum += term;
            x += 1.0;
        }
        (x, term) = (mode, 1.0);
        while x > least && term > sum * 1e-18 {
            x -= 1.0;
            term /= self.ratio(x) * odds;
            sum += term;
        }
        self.log_weight(mode) + mode * odds.ln() + sum.ln()
    }

    /// The `x` with the largest weight, by halving.
    fn mode(self, odds: f64, least: f64, most: f64) -> f64 {
        let (mut low, mut high) = (least, most);
        while low < high {
            let middle = f64::midpoint(low, high).floor();
            if self.ratio(middle) * odds >= 1.0 { low = middle + 1.0 } else { high = middle }
        }
        low
    }
}

/// Logarithm of how many odds there are.
fn ln_count(count: usize) -> f64 {
    float(count as u64).ln()
}

#[allow(clippy::cast_precision_loss, reason = "counts are far smaller than 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn draw(dice: &mut ChaCha8Rng, requests: u64, share: f64) -> u64 {
        (0..requests).filter(|_| dice.random::<f64>() < share).count() as u64
    }

    /// In how many of `runs` an alarm comes up, with a look after each of `looks` batches.
    fn alarms(seed: u64, runs: u32, looks: u32, shares: impl Fn(u32) -> (f64, f64), alpha: f64) -> u32 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let run = |dice: &mut ChaCha8Rng| {
            let (mut canary, mut baseline) = (Counts::default(), Counts::default());
            let mut evidence = Evidence::new(Alternative::Greater);
            (0..looks).any(|look| {
                let shares = shares(look);
                canary.total += 10;
                canary.events += draw(dice, 10, shares.0);
                baseline.total += 40;
                baseline.events += draw(dice, 40, shares.1);
                evidence = evidence.look(canary, baseline, Alternative::Greater);
                evidence.e_value() >= 1.0 / alpha
            })
        };
        (0..runs).map(|_| u32::from(run(&mut dice))).sum()
    }

    #[test]
    fn looking_all_the_time_gives_false_alarm_no_more_often_than_the_level() {
        // 40 looks in each of 600 runs; a fixed test at each look would give alarm in about a third of them.
        for (alpha, share) in [(0.05, 0.05), (0.2, 0.3)] {
            let found = alarms(7, 600, 40, |_| (share, share), alpha);
            assert!(f64::from(found) <= alpha * 600.0, "{found} of 600 at {alpha}");
        }
    }

    #[test]
    fn a_share_that_changes_for_both_sides_gives_no_alarm() {
        let tide = |look: u32| if look % 20 < 10 { (0.02, 0.02) } else { (0.4, 0.4) };
        let found = alarms(11, 400, 40, tide, 0.05);
        assert!(found <= 20, "{found} of 400");
    }

    #[test]
    fn a_canary_that_fails_three_times_as_often_is_found() {
        let found = alarms(13, 100, 60, |_| (0.15, 0.05), 0.05);
        assert!(found >= 90, "{found} of 100");
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let (canary, baseline) = (Counts { events: 9, total: 100 }, Counts { events: 3, total: 400 });
        let once = Evidence::new(Alternative::TwoSided).look(canary, baseline, Alternative::TwoSided);
        assert_eq!(once.look(canary, baseline, Alternative::TwoSided), once);
        let reset = Counts { events: 0, total: 0 };
        assert_eq!(
            once.look(reset, reset, Alternative::TwoSided),
            once,
            "a counter that went back gives nothing"
        );
        let text = serde_json::to_string(&once).unwrap();
        assert_eq!(
            serde_json::from_str::<Evidence>(&text).unwrap().e_value().to_bits(),
            once.e_value().to_bits()
        );
    }

    #[test]
    fn large_batches_are_counted_without_going_through_all_of_them() {
        let (canary, baseline) = (
            Counts { events: 2_000_000, total: 100_000_000 },
            Counts { events: 18_000_000, total: 900_000_000 },
        );
        let evidence = Evidence::new(Alternative::Greater).look(canary, baseline, Alternative::Greater);
        assert!(evidence.e_value() < 1.0, "{}", evidence.e_value());
    }
}
