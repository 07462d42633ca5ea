//! Analyses as a Rollout asks for them: which templates, with which arguments.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PodMetadata;
pub use crate::analysis::{DryRun, FieldRef, MeasurementRetention, TemplateRef};

/// One `AnalysisRun` from one or more templates.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAnalysis {
    /// The templates; their metrics are measured together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<TemplateRef>,
    /// Values for the arguments of the templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<RunArgument>,
    /// Metrics that are measured but never decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<DryRun>,
    /// How many measurements are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurement_retention: Vec<MeasurementRetention>,
    /// Labels and annotations of the `AnalysisRun`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis_run_metadata: Option<PodMetadata>,
}

/// An `AnalysisRun` that goes on beside the steps.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundAnalysis {
    /// What is measured.
    #[serde(flatten)]
    pub run: RolloutAnalysis,
    /// The step that it begins with, counted from 0. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_step: Option<i32>,
}

/// A value for an argument.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunArgument {
    /// The argument's name.
    pub name: String,
    /// The value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
}

/// Where a value is taken from.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ValueFrom {
    /// The pod template hash of one of the two versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_hash_value: Option<HashOf>,
    /// A field of the Rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
}

/// One of the two versions.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashOf {
    /// The version that runs.
    Stable,
    /// The version that comes.
    Latest,
}
