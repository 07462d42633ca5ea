//! What is measured, how often, and what counts as good.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::provider::Provider;

/// One thing that is measured.
///
/// Texts may hold `{{args.name}}`, therefore lengths of time are texts here and numbers may be texts.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Its name, unique within a run.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Time between two measurements, such as `30s`. Without it there is one measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub interval: Option<String>,

    /// Time before the first measurement. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub initial_delay: Option<String>,

    /// So many measurements. Default: 1; with `interval`: until the run is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<IntOrString>,

    /// A CEL expression over `result` that says whether a measurement is a success. Default: whatever is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub success_condition: Option<String>,

    /// A CEL expression over `result` that says whether a measurement is a failure. Default: whatever is no success.
    /// With both conditions, a measurement that meets neither is inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub failure_condition: Option<String>,

    /// So many failures are allowed before the metric has failed; -1 for any number, which needs
    /// `consecutiveSuccessLimit`. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_limit: Option<IntOrString>,

    /// So many inconclusive measurements are allowed before the metric is inconclusive. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive_limit: Option<IntOrString>,

    /// So many errors in a row are allowed before the metric is in error. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_error_limit: Option<IntOrString>,

    /// So many successes in a row make the metric successful at once. Default: 0, which means that this is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_success_limit: Option<IntOrString>,

    /// What a measurement is that found no data: nothing at all, an empty list, null, or values that are not numbers.
    /// Default: `Inconclusive`, unless a condition deals with it by name (`len(result)`, `isNaN`, `default`, `null`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_data: Option<NoData>,

    /// Where the value comes from.
    pub provider: Provider,
}

/// What a measurement without data is.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoData {
    /// Nobody can tell: somebody has to look.
    Inconclusive,
    /// No news is good news, for example where errors are counted.
    Success,
    /// There must be data.
    Failure,
}
