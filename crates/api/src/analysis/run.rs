//! `AnalysisRun`: one attempt to judge a version, and what it found.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{Argument, DryRun, MeasurementRetention, Metric, TtlStrategy};

/// What one run measures. It is made whole: changes of templates do not reach a run that is there.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "AnalysisRun",
    plural = "analysisruns",
    singular = "analysisrun",
    shortname = "ar",
    category = "windlass",
    namespaced,
    status = "AnalysisRunStatus",
    derive = "PartialEq",
    doc = "One attempt to judge a version by measurements.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisRunSpec {
    /// What is measured.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub metrics: Vec<Metric>,

    /// Values that metrics refer to as `{{args.name}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub args: Vec<Argument>,

    /// Ends the run: nothing more is measured, and what was measured decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,

    /// Metrics that are measured and shown but never decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub dry_run: Vec<DryRun>,

    /// How many measurements of a metric the status keeps. Default: 10 of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub measurement_retention: Vec<MeasurementRetention>,

    /// How long the run stays after its end. Default: until somebody deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_strategy: Option<TtlStrategy>,
}

/// How far a run, a metric or a measurement is, and how it ended.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was measured yet.
    #[default]
    Pending,
    /// It goes on.
    Running,
    /// It is good.
    Successful,
    /// It is bad.
    Failed,
    /// It could not be measured.
    Error,
    /// It is neither good nor bad: somebody has to look.
    Inconclusive,
}

impl Phase {
    /// Whether it has ended.
    pub const fn completed(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The word in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Inconclusive => "Inconclusive",
        }
    }

    /// How bad it is: of several, the worst decides.
    pub const fn badness(self) -> u8 {
        match self {
            Self::Successful => 0,
            Self::Running => 1,
            Self::Pending => 2,
            Self::Inconclusive => 3,
            Self::Error => 4,
            Self::Failed => 5,
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a run found.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisRunStatus {
    /// How far it is, and how it ended.
    #[serde(default)]
    pub phase: Phase,

    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// What was found for each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_results: Vec<MetricResult>,

    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// How many metrics ended how.
    #[serde(default)]
    pub run_summary: RunSummary,

    /// The same for metrics that do not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run_summary: Option<RunSummary>,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}

/// How many metrics ended how.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// All metrics.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: i32,
    /// Those that were good.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub successful: i32,
    /// Those that were bad.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i32,
    /// Those that nobody could tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inconclusive: i32,
    /// Those that could not be measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i32,
}

/// What was found for one metric.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricResult {
    /// Name of the metric.
    pub name: String,

    /// How far it is, and how it ended.
    #[serde(default)]
    pub phase: Phase,

    /// The latest measurements, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,

    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Measurements without error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: i32,

    /// Good ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub successful: i32,

    /// Bad ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i32,

    /// Those that nobody could tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inconclusive: i32,

    /// Those that failed for technical reasons.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i32,

    /// Errors since the last measurement without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub consecutive_error: i32,

    /// Successes since the last measurement that was none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub consecutive_success: i32,

    /// The metric does not decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,

    /// What the provider has to say, such as the query with its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// One measurement.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// How far it is, and how it ended.
    #[serde(default)]
    pub phase: Phase,

    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,

    /// The value that was found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,

    /// What the provider has to say, such as the name of a Job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,

    /// When a measurement that takes its time is looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_at: Option<Time>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
