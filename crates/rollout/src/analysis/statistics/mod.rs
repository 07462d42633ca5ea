//! The tests that canary and baseline are compared by. Pure: numbers in, numbers out.
//!
//! [`rank`] is for values such as latencies, [`sequential`] for shares of events that are looked at again and again.

pub mod rank;
pub mod sequential;

pub use rank::{MannWhitney, mann_whitney};
pub use sequential::{Counts, Evidence};

/// Which difference is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// The first sample is above the second.
    Greater,
    /// The first sample is below the second.
    Less,
    /// They differ, either way.
    TwoSided,
}

/// The value in the middle; `None` for an empty sample. Values that are not numbers are passed over.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}
