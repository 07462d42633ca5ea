//! Providers that come to a verdict by themselves: burn rates of an objective, and the canary beside the baseline.
//!
//! Both ask Prometheus. `{{window}}` in their queries stands for a length of time, such as `5m`. Without a condition
//! their own verdict counts; a `successCondition` or `failureCondition` of the metric takes its place.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::provider::Server;

/// How fast the error budget of an objective is used up, over a long and a short time.
///
/// With an objective of 99.9 % one request in a thousand may fail. A burn rate of 1 uses the budget up exactly at the
/// end of the objective's period, one of 14.4 uses two percent of a month's budget in an hour. A measurement fails when
/// over one pair of windows both burn too fast: the long one says that it matters, the short one that it still goes on.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.errorRatioQuery) != (has(self.errorQuery) || has(self.totalQuery))")
    .message("sloBurnRate: set errorRatioQuery, or errorQuery and totalQuery"))]
#[x_kube(validation = Rule::new("has(self.errorQuery) == has(self.totalQuery)")
    .message("sloBurnRate: errorQuery and totalQuery go together"))]
pub struct SloBurnRate {
    /// Who is asked.
    #[serde(flatten)]
    pub server: Server,

    /// Percent of good requests that are promised, such as 99.9.
    #[schemars(range(min = 0, max = 100))]
    pub objective: f64,

    /// The share of bad requests, from 0 to 1, over `{{window}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub error_ratio_query: Option<String>,

    /// The number or rate of bad requests over `{{window}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub error_query: Option<String>,

    /// The number or rate of all requests over `{{window}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub total_query: Option<String>,

    /// Pairs of windows. Default: 1h and 5m at 14.4, 6h and 30m at 6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub windows: Vec<Window>,
}

/// A pair of windows and the burn rate that is too much over both.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// The long one, such as `1h`.
    #[schemars(length(min = 1, max = 256))]
    pub long: String,
    /// The short one, such as `5m`; a twelfth of the long one is usual.
    #[schemars(length(min = 1, max = 256))]
    pub short: String,
    /// More than this, over both, is a failure.
    #[schemars(range(min = 0))]
    pub burn_rate: f64,
}

/// The canary beside the baseline, by a statistical test.
///
/// A measurement fails when the canary is worse, the difference is no chance (`alpha`), and it is large enough to matter
/// (`minimumEffect`). With fewer samples than `minimumSamples` there is no data (`noData`).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Compare {
    /// Who is asked.
    #[serde(flatten)]
    pub server: Server,

    /// How they are compared. `MannWhitney` for values such as latencies, `SequentialProportion` for shares such as
    /// failed requests.
    pub method: CompareMethod,

    /// The new version.
    pub canary: CompareSide,

    /// What it is compared with.
    pub baseline: CompareSide,

    /// Which direction is worse. Default: `Higher`.
    #[serde(default)]
    pub worse: Direction,

    /// How often chance alone may look like a difference. Default: 0.05. With `MannWhitney` this holds for each
    /// measurement, with `SequentialProportion` for all measurements of a run together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub alpha: Option<f64>,

    /// Smaller differences do not matter. It is Cliff's delta: how much more often the canary is above the baseline than
    /// below, from 0 to 1. For shares that is their difference. Default: 0.147 (small) for `MannWhitney`, 0 for
    /// `SequentialProportion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub minimum_effect: Option<f64>,

    /// So many values, or requests, of each side are needed for a verdict. Default: 8 for `MannWhitney`, 50 for
    /// `SequentialProportion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub minimum_samples: Option<u32>,

    /// `MannWhitney`: how far back values are taken. Default: since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub lookback: Option<String>,

    /// `MannWhitney`: the distance of two values. Default: 15s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub step: Option<String>,
}

/// How the canary is compared with the baseline.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareMethod {
    /// The ranks of values over some time: no assumption about their distribution.
    #[default]
    MannWhitney,
    /// Shares of events, looked at as often as one likes: the false alarms of all looks together stay below `alpha`.
    SequentialProportion,
}

/// Which direction is worse.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Higher is worse: latencies, errors.
    #[default]
    Higher,
    /// Lower is worse: successes, conversions.
    Lower,
    /// Any difference is worse.
    Either,
}

/// What is asked about one side.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.query) != (has(self.events) && has(self.total))")
    .message("compare: set query (MannWhitney), or events and total (SequentialProportion), for each side"))]
pub struct CompareSide {
    /// `MannWhitney`: the values, asked for over a range; every value of every series is one sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub query: Option<String>,

    /// `SequentialProportion`: how many events, such as errors, there were in `{{window}}`, the time since the run
    /// began: `sum(increase(http_requests_total{code=~"5.."}[{{window}}]))`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub events: Option<String>,

    /// `SequentialProportion`: how many requests there were in `{{window}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub total: Option<String>,
}
