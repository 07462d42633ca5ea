//! `AnalysisTemplate`, `ClusterAnalysisTemplate` and [`AnalysisRun`]: how a new version is judged.
//!
//! A template says what is measured and what counts as good; it is never measured itself. Every attempt makes one
//! [`AnalysisRun`] from templates and arguments. Field names are those of Argo Rollouts. What is measured is in
//! [`metric`] and [`provider`], the two providers that Argo Rollouts does not have in [`judge`], a run and what it
//! found in [`run`]. How templates become a run is in [`merge`].

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a path")]

pub mod judge;
pub mod merge;
pub mod metric;
pub mod provider;
pub mod run;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use judge::{Compare, CompareMethod, CompareSide, Direction, SloBurnRate, Window};
pub use metric::{Metric, NoData};
pub use provider::{
    Authentication, Header, Job, JobMetadata, OAuth2, Prometheus, Provider, RangeQuery, Server, Web,
};
pub use run::{
    AnalysisRun, AnalysisRunSpec, AnalysisRunStatus, Measurement, MetricResult, Phase, RunSummary,
};

/// What is measured for workloads of one namespace.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "AnalysisTemplate",
    plural = "analysistemplates",
    singular = "analysistemplate",
    shortname = "at",
    category = "windlass",
    namespaced,
    derive = "PartialEq",
    doc = "What is measured, and what counts as good, for workloads of one namespace.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisTemplateSpec {
    /// What is measured. Names are unique, also across all templates that end up in one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub metrics: Vec<Metric>,

    /// What has to be known before measuring: `{{args.name}}` in any text of a metric. One without a value has to be
    /// given by whoever makes the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub args: Vec<Argument>,

    /// Metrics that are measured and shown but never decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub dry_run: Vec<DryRun>,

    /// How many measurements of a metric the status keeps. Default: 10 of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub measurement_retention: Vec<MeasurementRetention>,

    /// Other templates whose metrics, arguments and settings are taken in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub templates: Vec<TemplateRef>,
}

/// What is measured for workloads of every namespace.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "ClusterAnalysisTemplate",
    plural = "clusteranalysistemplates",
    singular = "clusteranalysistemplate",
    shortname = "cat",
    category = "windlass",
    derive = "PartialEq",
    doc = "What is measured, and what counts as good, for workloads of every namespace.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ClusterAnalysisTemplateSpec {
    /// The same as an `AnalysisTemplate` has.
    #[serde(flatten)]
    pub template: AnalysisTemplateSpec,
}

/// A value that metrics refer to as `{{args.name}}`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Argument {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// The value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub value: Option<String>,

    /// Where the value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
}

/// Where an argument's value is.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ValueFrom {
    /// In a Secret of the run's namespace. It is read when something is measured and kept nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,

    /// In a field of the object that the run is made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
}

/// One key of a Secret.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// One field of an object.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// Such as `metadata.labels['app']` or `status.currentStepIndex`.
    #[schemars(length(min = 1, max = 1024))]
    pub field_path: String,
}

/// Metrics that never decide.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// A regular expression over names of metrics; `*` or `.*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub metric_name: String,
}

/// How many measurements of some metrics the status keeps.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MeasurementRetention {
    /// A regular expression over names of metrics; `*` or `.*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub metric_name: String,
    /// So many at most; 0 means the default of 10.
    #[schemars(range(min = 0, max = 1000))]
    pub limit: i32,
}

/// A template by its name.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    /// Name of an `AnalysisTemplate` of the same namespace, or of a `ClusterAnalysisTemplate`.
    #[schemars(length(min = 1, max = 253))]
    pub template_name: String,

    /// It is a `ClusterAnalysisTemplate`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scope: bool,
}

/// Labels and annotations for the runs that are made.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RunMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How long a finished run stays.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct TtlStrategy {
    /// Seconds after its end, where nothing more particular is said.
    #[serde(rename = "secondsAfterCompletion", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub completion: Option<i32>,
    /// Seconds after a failure.
    #[serde(rename = "secondsAfterFailure", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failure: Option<i32>,
    /// Seconds after a success.
    #[serde(rename = "secondsAfterSuccess", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub success: Option<i32>,
}
