//! `Experiment`: versions side by side for a while, measured, and taken away again.
//!
//! Field names are those of Argo Rollouts.

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::analysis::{Argument, DryRun, MeasurementRetention, Phase, RunMetadata};

/// What runs side by side, for how long, and what is measured meanwhile.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Experiment",
    plural = "experiments",
    singular = "experiment",
    shortname = "exp",
    category = "windlass",
    namespaced,
    status = "ExperimentStatus",
    derive = "PartialEq",
    doc = "Versions side by side for a while, measured, and taken away again.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentSpec {
    /// What runs side by side: one `ReplicaSet` each.
    #[schemars(length(min = 1, max = 16))]
    pub templates: Vec<ExperimentTemplate>,

    /// How long, counted from when all templates are available, such as `5m`. Default: until it is ended or an analysis
    /// ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub duration: Option<String>,

    /// Seconds that a template may take to become available. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub progress_deadline_seconds: Option<i32>,

    /// Ends the experiment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,

    /// What is measured meanwhile: one run each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub analyses: Vec<ExperimentAnalysis>,

    /// Seconds from the end to the removal of the pods. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_seconds: Option<i32>,

    /// Metrics that are measured and shown but never decide, in every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub dry_run: Vec<DryRun>,

    /// How many measurements of a metric the status of a run keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub measurement_retention: Vec<MeasurementRetention>,

    /// Labels and annotations of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis_run_metadata: Option<RunMetadata>,
}

/// One version.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentTemplate {
    /// Its name, unique within the experiment.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// Pods. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// Seconds that a pod has to be ready before it counts as available. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,

    /// Which pods are its own. It has to match the template's labels, and no other template's.
    pub selector: LabelSelector,

    /// The pods, as in a Deployment.
    #[schemars(schema_with = "crate::free::object")]
    pub template: Value,

    /// Makes a Service for the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ExperimentService>,
}

/// A Service for the pods of one version.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentService {
    /// Its name. Default: that of the `ReplicaSet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
}

/// What is measured while an experiment runs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentAnalysis {
    /// Its name, unique within the experiment.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// The template.
    #[schemars(length(min = 1, max = 253))]
    pub template_name: String,

    /// It is a `ClusterAnalysisTemplate`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scope: bool,

    /// Values for the template. They may hold `{{templates.NAME.podTemplateHash}}`,
    /// `{{templates.NAME.replicaset.name}}`, `{{experiment.availableAt}}` and `{{experiment.finishedAt}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub args: Vec<Argument>,

    /// The experiment does not end before this run has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required_for_completion: bool,
}

/// What an experiment found.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentStatus {
    /// How far it is, and how it ended.
    #[serde(default)]
    pub phase: Phase,

    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Each version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub template_statuses: Vec<TemplateStatus>,

    /// When all versions were available: the duration counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<Time>,

    /// When it ended: the delay before the pods are removed counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,

    /// Each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analysis_runs: Vec<ExperimentRunStatus>,

    /// `Progressing`, `Running`, `Completed`, `InvalidSpec`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far one version of an experiment is.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// Its name.
    pub name: String,
    /// Pods.
    #[serde(default)]
    pub replicas: i32,
    /// Pods of the wanted template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods that are available.
    #[serde(default)]
    pub available_replicas: i32,
    /// How far it is, and how it ended.
    #[serde(default)]
    pub status: TemplatePhase,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When its numbers last changed: the progress deadline counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Its Service, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The hash that its pods are labelled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_hash: Option<String>,
}

/// How far one version is, and how it ended.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TemplatePhase {
    /// Pods are being made.
    #[default]
    Progressing,
    /// All pods are available.
    Running,
    /// It ran to its end.
    Successful,
    /// Its pods did not become available in time, or ceased to be.
    Failed,
    /// Its `ReplicaSet` could not be made.
    Error,
}

impl TemplatePhase {
    /// Whether it has ended.
    pub const fn completed(self) -> bool {
        matches!(self, Self::Successful | Self::Failed | Self::Error)
    }
}

/// One run of an experiment.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentRunStatus {
    /// Name of the analysis.
    pub name: String,
    /// Name of the `AnalysisRun`; empty when it could not be made.
    #[serde(default)]
    pub analysis_run: String,
    /// How far it is, and how it ended.
    #[serde(default)]
    pub phase: Phase,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
