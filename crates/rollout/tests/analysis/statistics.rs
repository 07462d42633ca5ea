//! What scipy says about the same samples; `tests/tools/statistics.py` made the table.

use serde::Deserialize;

use windlass_rollout::analysis::statistics::{Alternative, Counts, mann_whitney, sequential::log_factor};

#[derive(Deserialize)]
struct Table {
    rank: Vec<Rank>,
    batches: Vec<Batch>,
}

#[derive(Deserialize)]
struct Rank {
    first: Vec<f64>,
    second: Vec<f64>,
    alternative: String,
    exact: bool,
    u: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Batch {
    first: Counts,
    second: Counts,
    odds: f64,
    ratio: f64,
}

fn table() -> Table {
    serde_json::from_str(include_str!("../data/statistics.json")).unwrap()
}

#[test]
fn the_rank_test_agrees_with_an_independent_implementation() {
    let cases = table().rank;
    assert!(cases.len() > 60);
    for case in cases {
        let alternative = match case.alternative.as_str() {
            "greater" => Alternative::Greater,
            "less" => Alternative::Less,
            _ => Alternative::TwoSided,
        };
        let found = mann_whitney(&case.first, &case.second, alternative).unwrap();
        let sizes = (case.first.len(), case.second.len(), &case.alternative);
        assert_eq!(found.exact, case.exact, "{sizes:?}");
        assert!((found.u - case.u).abs() < 1e-9, "{sizes:?}: {found:?} {}", case.u);
        assert!((found.p_value - case.p).abs() < 1e-9 * case.p.max(1e-3), "{sizes:?}: {found:?} {}", case.p);
    }
}

#[test]
fn the_factor_of_a_batch_agrees_with_an_independent_implementation() {
    let cases = table().batches;
    assert!(cases.len() > 40);
    for case in cases {
        let found = log_factor(case.first, case.second, case.odds).exp();
        assert!((found / case.ratio - 1.0).abs() < 1e-6, "{:?} {:?}: {found}", case.first, case.ratio);
    }
}
