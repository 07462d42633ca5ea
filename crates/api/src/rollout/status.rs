//! What was found and done for a `Rollout`. What is done is remembered here and nowhere else.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;

/// Phase of an `AnalysisRun` or Experiment.
pub use crate::analysis::Phase as RunPhase;

/// Condition: enough pods are available.
pub const AVAILABLE: &str = "Available";
/// Condition: an update goes on and moves, or is over.
pub const PROGRESSING: &str = "Progressing";
/// Condition: something waits for a time or for a person.
pub const PAUSED: &str = "Paused";
/// Condition: what is wanted runs, all of it, and nothing else.
pub const HEALTHY: &str = "Healthy";
/// Condition: the newest revision is the stable one.
pub const COMPLETED: &str = "Completed";
/// Condition: it was aborted, is stuck, or cannot be carried out.
pub const DEGRADED: &str = "Degraded";
/// Condition: the spec, or what it names, is wrong; only there while it is.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// Condition: pods cannot be made, such as for a quota; only there while it is so.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Verbs of people that are remembered.
pub const CONTROLS: usize = 20;
/// Transitions that are remembered.
pub const TRANSITIONS: usize = 10;

/// What the controller last found and did.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The whole in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Available`, `Progressing`, `Paused`, `Healthy`, `Completed`, `Degraded`, and `InvalidSpec` while it is so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The update is taken back. Set by a person, by a failed analysis, or by the progress deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_at: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// What it waits for. A person takes an entry away to go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_conditions: Vec<PauseCondition>,
    /// The controller paused: if `pauseConditions` is empty nevertheless, a person resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub controller_pause: bool,
    /// A person asked to skip all that is left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub promote_full: bool,

    /// Hash of the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_hash: Option<String>,
    /// Hash of the version that runs.
    #[serde(rename = "stableRS", default, skip_serializing_if = "Option::is_none")]
    pub stable_rs: Option<String>,
    /// Hash of the steps that the index counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step_hash: Option<String>,
    /// The step, counted from 0; as many as there are steps when all are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step_index: Option<i32>,
    /// `2/8`: steps that are done, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The share of the new version: of traffic, or without routes of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Number of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// How often two templates had the same hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,

    /// Pods of all revisions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Pods of the newest revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Pods that are available.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Pods that an autoscaler counts. Always written: the scale subresource needs it.
    #[serde(rename = "HPAReplicas", default)]
    pub hpa_replicas: i32,
    /// Selector of the pods that an autoscaler counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// `spec.restartAt` of the last restart that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<Time>,
    /// When something last moved; the progress deadline counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progress_time: Option<Time>,
    /// Generation of the referenced workload that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_observed_generation: Option<i64>,

    /// Of the canary, simple and A/B strategies.
    #[serde(default, skip_serializing_if = "CanaryStatus::is_empty")]
    pub canary: CanaryStatus,
    /// Of the blue-green strategy.
    #[serde(default, skip_serializing_if = "BlueGreenStatus::is_empty")]
    pub blue_green: BlueGreenStatus,

    /// What people asked for, newest last, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
    /// What became of revisions, newest last, at most 10. `CDEvents` are made from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
    /// The number of the last transition that all sinks of `CDEvents` have taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<i64>,
}

/// The whole in one word.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The first revision comes up.
    Initializing,
    /// An update goes on.
    Progressing,
    /// Blue-green: the new version is up and waits for its switch.
    Preview,
    /// It waits for a time or for a person.
    Paused,
    /// What is wanted runs.
    Completed,
    /// It was aborted, is stuck, or cannot be carried out.
    Failed,
}

/// Something that is waited for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PauseCondition {
    /// Why.
    pub reason: PauseReason,
    /// Since when.
    pub start_time: MicroTime,
}

/// Why it waits.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PauseReason {
    /// The analysis did not say whether it is good or bad.
    InconclusiveAnalysisRun,
    /// The experiment did not say whether it is good or bad.
    InconclusiveExperiment,
    /// A pause step.
    CanaryPauseStep,
    /// Before the switch of a blue-green update.
    BlueGreenPause,
    /// The steps were changed while they were gone through: go on with the new ones from the first?
    StepsChanged,
}

impl PauseReason {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InconclusiveAnalysisRun => "InconclusiveAnalysisRun",
            Self::InconclusiveExperiment => "InconclusiveExperiment",
            Self::CanaryPauseStep => "CanaryPauseStep",
            Self::BlueGreenPause => "BlueGreenPause",
            Self::StepsChanged => "StepsChanged",
        }
    }
}

/// Of the canary, simple and A/B strategies.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// The run of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step_analysis_run_status: Option<RunStatus>,
    /// The run beside the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_background_analysis_run_status: Option<RunStatus>,
    /// Name of the experiment of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_experiment: Option<String>,
    /// Weights as they were read back from the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<TrafficWeights>,
}

impl CanaryStatus {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Of the blue-green strategy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BlueGreenStatus {
    /// Hash that the preview Service selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_selector: Option<String>,
    /// Hash that the active Service selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_selector: Option<String>,
    /// The preview was good: the new version may grow from `previewReplicaCount` to its full size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scale_up_preview_check_point: bool,
    /// The run before the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_promotion_analysis_run_status: Option<RunStatus>,
    /// The run after the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_promotion_analysis_run_status: Option<RunStatus>,
}

impl BlueGreenStatus {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An `AnalysisRun` as the Rollout sees it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub status: RunPhase,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Who gets which share of the traffic.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrafficWeights {
    /// The new version.
    pub canary: WeightDestination,
    /// The version that runs.
    pub stable: WeightDestination,
    /// Versions of an experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional: Vec<WeightDestination>,
    /// All routes have what is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

/// A share of the traffic.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WeightDestination {
    /// The share.
    pub weight: i32,
    /// The Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The version behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_hash: Option<String>,
}

/// Something that a person asked for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// `promote`, `promote-full`, `abort`, `retry`, `undo`, `pause`, `resume`, `restart`, `set-image`.
    pub verb: String,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    pub at: Time,
    /// In which revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// More about it, such as the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What became of a revision.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// Counts up from 1 for the life of the Rollout.
    pub number: i64,
    /// What happened.
    pub kind: TransitionKind,
    /// The revision.
    pub revision: i64,
    /// Its template.
    pub hash: String,
    /// Image of its first container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When.
    pub at: Time,
}

/// What became of a revision, in the words of `CDEvents`.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum TransitionKind {
    /// The first revision is up.
    Deployed,
    /// A new revision became the stable one.
    Upgraded,
    /// A revision is reachable through traffic: a share of it, or the whole.
    Published,
    /// An update was taken back: the revision is the one that was restored.
    RolledBack,
    /// The Rollout is gone.
    Removed,
}
