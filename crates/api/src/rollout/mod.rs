//! `Rollout`: a new version reaches traffic step by step.
//!
//! Field names and shapes are those of Argo Rollouts, so that a manifest moves over by changing its apiVersion. What it
//! wants is in [`RolloutSpec`], one file a strategy; what was found and done is in [`status`]. A field that is not known
//! here is kept by the schema (`other`) and refused by name by the controller, never dropped.

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a path")]

pub mod ab_test;
pub mod analysis;
pub mod blue_green;
pub mod canary;
pub mod simple;
pub mod status;
pub mod traffic;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ab_test::AbTest;
pub use analysis::RolloutAnalysis;
pub use blue_green::BlueGreen;
pub use canary::{Canary, CanaryStep};
pub use simple::Simple;
pub use status::RolloutStatus;
pub use traffic::TrafficRouting;

/// Held while `CDEvents` have to be told that a Rollout was removed.
pub const FINALIZER: &str = "windlass.dev/rollout";

/// Label on `ReplicaSets`, pods, `AnalysisRuns` and in Service selectors: the hash of the pod template.
pub const POD_TEMPLATE_HASH: &str = "windlass.dev/pod-template-hash";
/// Annotation on `ReplicaSets` and on the Rollout: the number of the revision.
pub const REVISION: &str = "windlass.dev/revision";
/// Annotation on `ReplicaSets`: the numbers that this template had before, with commas between them.
pub const REVISION_HISTORY: &str = "windlass.dev/revision-history";
/// Annotation on `ReplicaSets`: `spec.replicas` of the Rollout when the `ReplicaSet` was last scaled.
pub const DESIRED_REPLICAS: &str = "windlass.dev/desired-replicas";
/// Annotation on `ReplicaSets`: when it is scaled to zero, in RFC 3339.
pub const SCALE_DOWN_DEADLINE: &str = "windlass.dev/scale-down-deadline";
/// Annotation on Services: the Rollout that moves the selector.
pub const MANAGED_BY: &str = "windlass.dev/managed-by-rollouts";
/// Annotation on `ReplicaSets`: the pod metadata that was put in, as JSON, so that it can be taken out again.
pub const EPHEMERAL_METADATA: &str = "windlass.dev/ephemeral-metadata";
/// Label on `AnalysisRuns`: what the run was made for, one of the `RUN_…` words.
pub const RUN_TYPE: &str = "windlass.dev/rollout-type";
/// Label on `AnalysisRuns` of a step: its index.
pub const STEP_INDEX: &str = "windlass.dev/step-index";

/// Fields that are not known here.
pub type Other = BTreeMap<String, Value>;

/// What runs, and how a new version of it takes over.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Rollout",
    plural = "rollouts",
    singular = "rollout",
    shortname = "ro",
    category = "windlass",
    namespaced,
    status = "RolloutStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A new version reaches traffic step by step, is judged by metrics, and goes back by itself when it is worse.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.HPAReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Up-to-date", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Step", type_ = "string", json_path = ".status.step"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".status.weight"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// How many pods. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// The pods of this Rollout; has to match the labels of the template. With `workloadRef`: the Deployment's, if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// What every pod looks like: a `PodTemplateSpec`. Empty with `workloadRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free::object")]
    pub template: Option<Value>,

    /// A workload whose template and selector are taken instead of the Rollout's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadRef>,

    /// How long a new pod has to be ready before it counts as available. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,

    /// How many old `ReplicaSets` are kept. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,

    /// How long there may be no progress before the Rollout counts as stuck, since the last progress. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub progress_deadline_seconds: Option<i32>,

    /// A stuck update is aborted. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress_deadline_abort: bool,

    /// Stops at once: nothing is scaled and no step is taken until it is false again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// Pods that are older than this are made anew, a few at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_at: Option<Time>,

    /// Going back to one of the last revisions skips steps and analyses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_window: Option<RollbackWindow>,

    /// How many `AnalysisRuns` and Experiments are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<RunHistory>,

    /// How a new version takes over.
    #[serde(default)]
    pub strategy: Strategy,

    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// How a new version takes over: exactly one of them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// A rolling update, as a Deployment does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simple: Option<Simple>,
    /// A share of pods or traffic, step by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// A whole second set of pods, then one switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blue_green: Option<BlueGreen>,
    /// Some requests go to the new version, always the same ones, until it is known which is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ab_test: Option<AbTest>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// A workload whose template and selector are taken.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// `apps/v1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `Deployment`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name, in the same namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether the workload's own pods are taken away. Default: `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
}

/// Whether the pods of a referenced workload are taken away.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum ScaleDown {
    /// They stay.
    #[default]
    Never,
    /// To zero once the Rollout is healthy.
    OnSuccess,
    /// As pods of the Rollout become ready.
    Progressively,
}

/// Going back to one of the last revisions skips steps and analyses.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RollbackWindow {
    /// How many revisions back.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub revisions: i32,
}

/// How many `AnalysisRuns` and Experiments are kept.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunHistory {
    /// Successful ones. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_run_history_limit: Option<i32>,
    /// Failed, erroneous and inconclusive ones. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub unsuccessful_run_history_limit: Option<i32>,
}

/// Labels and annotations of pods that they have only while they play a part.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Pods of the new version keep away from nodes with pods of the old one: exactly one of the two.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AntiAffinity {
    /// If it can be helped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_during_scheduling_ignored_during_execution: Option<Preferred>,
    /// Always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<Required>,
}

/// How strongly the scheduler keeps pods apart.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Preferred {
    /// From 1 to 100.
    #[serde(default)]
    pub weight: i32,
}

/// Has no settings.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Required {}

const fn one() -> i32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_zero(number: &i32) -> bool {
    *number == 0
}
