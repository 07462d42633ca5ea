//! The Mann–Whitney U test: are the values of one sample larger than those of the other?
//!
//! It looks at ranks only, so nothing is assumed about the distribution: latencies have long tails. Beside how unlikely
//! the difference is by chance (`p_value`) it tells how large it is (`effect`): with many values also a difference that
//! matters to nobody is significant.
//!
//! The distribution of U is computed exactly for small samples without ties, and taken from the normal approximation
//! with correction for ties and continuity otherwise.

use statrs::function::erf::erfc;

use super::Alternative;

/// Pairs of values up to which the distribution is computed exactly.
const MOST_PAIRS: usize = 400;

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// How many pairs have the larger value in the first sample; ties count one half.
    pub u: f64,
    /// How likely chance alone gives such a difference, or a larger one.
    pub p_value: f64,
    /// Cliff's delta, which is also the rank-biserial correlation: how much more often the first sample is above the
    /// second than below, from -1 to 1.
    pub effect: f64,
    /// The distribution was computed and not approximated.
    pub exact: bool,
}

/// Compares two samples. `None` when one of them has no number in it.
pub fn mann_whitney(first: &[f64], second: &[f64], alternative: Alternative) -> Option<MannWhitney> {
    let ranked = Ranked::new(first, second)?;
    let exact = !ranked.tied && ranked.first * ranked.second <= MOST_PAIRS;
    let p_value = if exact { ranked.exact(alternative) } else { ranked.normal(alternative) };
    let pairs = ranked.pairs();
    Some(MannWhitney { u: ranked.u, p_value, effect: 2.0 * ranked.u / pairs - 1.0, exact })
}

/// Both samples in one order.
struct Ranked {
    first: usize,
    second: usize,
    u: f64,
    tied: bool,
    /// Sum of t³ - t over groups of t equal values.
    ties: f64,
}

impl Ranked {
    fn new(first: &[f64], second: &[f64]) -> Option<Self> {
        let tagged = |values: &[f64], of_first: bool| -> Vec<(f64, bool)> {
            values.iter().filter(|value| !value.is_nan()).map(|value| (*value, of_first)).collect()
        };
        let (mut all, other) = (tagged(first, true), tagged(second, false));
        let (first, second) = (all.len(), other.len());
        if first == 0 || second == 0 {
            return None;
        }
        all.extend(other);
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut ranks_of_first, mut ties, mut start) = (0.0, 0.0, 0);
        while start < all.len() {
            let same =
                |other: &(f64, bool)| other.0.partial_cmp(&all[start].0) == Some(std::cmp::Ordering::Equal);
            let group = all[start..].iter().take_while(|other| same(other)).count();
            // Equal values share the mean of their ranks.
            let rank = float(2 * start + group + 1) / 2.0;
            let of_first = all[start..start + group].iter().filter(|(_, of_first)| *of_first).count();
            ranks_of_first += rank * float(of_first);
            ties += float(group).powi(3) - float(group);
            start += group;
        }
        let u = ranks_of_first - float(first * (first + 1)) / 2.0;
        Some(Self { first, second, u, tied: ties > 0.0, ties })
    }

    fn pairs(&self) -> f64 {
        float(self.first) * float(self.second)
    }

    fn exact(&self, alternative: Alternative) -> f64 {
        let counts = distribution(self.first, self.second);
        let all: f64 = counts.iter().sum();
        let at_least = |u: f64| {
            counts.iter().enumerate().filter(|(value, _)| float(*value) >= u).map(|(_, n)| n).sum::<f64>()
                / all
        };
        let (above, below) = (at_least(self.u), at_least(self.pairs() - self.u));
        match alternative {
            Alternative::Greater => above,
            Alternative::Less => below,
            Alternative::TwoSided => (2.0 * above.min(below)).min(1.0),
        }
    }

    fn normal(&self, alternative: Alternative) -> f64 {
        let total = float(self.first + self.second);
        let variance = self.pairs() / 12.0 * (total + 1.0 - self.ties / (total * (total - 1.0)));
        if variance <= 0.0 {
            return 1.0;
        }
        let above = |u: f64| upper_tail((u - self.pairs() / 2.0 - 0.5) / variance.sqrt());
        let (greater, less) = (above(self.u), above(self.pairs() - self.u));
        match alternative {
            Alternative::Greater => greater,
            Alternative::Less => less,
            Alternative::TwoSided => (2.0 * greater.min(less)).min(1.0),
        }
    }
}

/// In how many orders of `first` + `second` different values each U comes up.
///
/// The largest of all values is either of the first sample, and above all of the second, or of the second.
fn distribution(first: usize, second: usize) -> Vec<f64> {
    let mut before: Vec<Vec<f64>> = vec![vec![1.0]; second + 1];
    for i in 1..=first {
        let mut now: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=second {
            let mut counts = vec![0.0; i * j + 1];
            for (u, count) in before[j].iter().enumerate() {
                counts[u + j] += count;
            }
            for (u, count) in now[j - 1].iter().enumerate() {
                counts[u] += count;
            }
            now.push(counts);
        }
        before = now;
    }
    before.pop().unwrap_or_default()
}

/// How much of a standard normal distribution lies above.
fn upper_tail(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

#[allow(clippy::cast_precision_loss, reason = "samples are far smaller than 2^52")]
fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_that_do_not_overlap_have_the_largest_effect() {
        let found =
            mann_whitney(&[10.0, 11.0, 12.0, 13.0], &[1.0, 2.0, 3.0, 4.0], Alternative::Greater).unwrap();
        assert_eq!((found.u, found.effect, found.exact), (16.0, 1.0, true));
        // One order of the 70 that four and four values can have.
        assert!((found.p_value - 1.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn without_values_there_is_no_verdict() {
        assert_eq!(mann_whitney(&[], &[1.0], Alternative::TwoSided), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0], Alternative::TwoSided), None);
        assert_eq!(mann_whitney(&[1.0; 30], &[1.0; 30], Alternative::Greater).unwrap().p_value, 1.0);
    }

    proptest! {
        #[test]
        fn turning_the_samples_round_turns_the_verdict_round(
            first in prop::collection::vec(0u8..40, 1..25), second in prop::collection::vec(0u8..40, 1..25),
        ) {
            let (first, second): (Vec<f64>, Vec<f64>) =
                (first.into_iter().map(f64::from).collect(), second.into_iter().map(f64::from).collect());
            let there = mann_whitney(&first, &second, Alternative::Greater).unwrap();
            let back = mann_whitney(&second, &first, Alternative::Less).unwrap();
            prop_assert!((there.p_value - back.p_value).abs() < 1e-9);
            prop_assert!((there.effect + back.effect).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&there.p_value) && (-1.0..=1.0).contains(&there.effect));
        }
    }
}
