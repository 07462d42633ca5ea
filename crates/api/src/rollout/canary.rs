//! `canary`: a share of pods or traffic, step by step.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AntiAffinity, Other, PodMetadata, TrafficRouting,
    analysis::{BackgroundAnalysis, DryRun, RolloutAnalysis, RunArgument},
    traffic::{HeaderMatch, RouteMatch},
};
use crate::span::Span;

/// A share of pods or traffic, step by step. Without `trafficRouting` a weight is reached by numbers of pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Service of the new version. Needed with `trafficRouting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_service: Option<String>,
    /// Service of the version that runs. Needed with `trafficRouting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_service: Option<String>,
    /// What happens, in order. Without steps it is a rolling update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CanaryStep>,
    /// What splits the traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_routing: Option<TrafficRouting>,
    /// How many pods may be missing: a number or a percentage, rounded down. Default: 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be above `replicas`: a number or a percentage, rounded up. Default: 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// An analysis that goes on beside the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<BackgroundAnalysis>,
    /// Pods of the new version keep away from those of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,
    /// Labels and annotations of pods while they are the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_metadata: Option<PodMetadata>,
    /// Labels and annotations of pods while they are the version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_metadata: Option<PodMetadata>,
    /// How long the old version stays after it lost its traffic. Only with `trafficRouting`. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_seconds: Option<i32>,
    /// How many old versions may stay that long. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_revision_limit: Option<i32>,
    /// How long the new version stays after an abort; 0: for good. Only with `trafficRouting`. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub abort_scale_down_delay_seconds: Option<i32>,
    /// The old version shrinks as the new one grows. Only with `trafficRouting`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dynamic_stable_scale: bool,
    /// A version that has pods at all has at least so many. Only with `trafficRouting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_pods_per_replica_set: Option<i32>,
    /// A step goes on before all of its pods are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_progress_threshold: Option<ProgressThreshold>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// A step goes on when so many of its pods are available.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProgressThreshold {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub type_: ThresholdType,
    /// How many.
    pub value: i32,
}

/// What a threshold counts.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdType {
    /// Percent of the pods that the step wants.
    Percent,
    /// Pods.
    Pods,
}

/// One step: exactly one of its fields.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStep {
    /// The share of traffic, or of pods, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_weight: Option<i32>,
    /// Waits: for a time, or until promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// How many pods the new version has, whatever its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_canary_scale: Option<CanaryScale>,
    /// Measures; the step is over when the run was successful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<RolloutAnalysis>,
    /// Requests with some headers go to the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_header_route: Option<HeaderRoute>,
    /// Requests are copied to the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_mirror_route: Option<MirrorRoute>,
    /// Versions side by side for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<ExperimentStep>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// Waits.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// How long: seconds, or like `30s`, `5m`, `1h`. Default: until promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// How many pods the new version has: one of the three.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CanaryScale {
    /// Percent of `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// So many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// As many as the weight of the traffic asks for: takes an earlier scale back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub match_traffic_weight: bool,
}

/// Requests with some headers go to the new version; without `match` the rule is taken away.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HeaderRoute {
    /// Its name; has to be in `managedRoutes`.
    #[serde(default)]
    pub name: String,
    /// Any of them.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HeaderMatch>,
}

/// Requests are copied to the new version; without `match` the rule is taken away.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MirrorRoute {
    /// Its name; has to be in `managedRoutes`.
    #[serde(default)]
    pub name: String,
    /// Any of them.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<RouteMatch>,
    /// How many percent of them. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
}

/// Versions side by side for a while.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentStep {
    /// The versions.
    #[serde(default)]
    pub templates: Vec<ExperimentTemplate>,
    /// How long. Default: until the analyses are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// What is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analyses: Vec<ExperimentAnalysis>,
    /// Metrics that are measured but never decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<DryRun>,
    /// Labels and annotations of the `AnalysisRuns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis_run_metadata: Option<PodMetadata>,
    /// How long the pods stay afterwards. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_seconds: Option<i32>,
}

/// A version in an experiment.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentTemplate {
    /// Its name there.
    pub name: String,
    /// Which version.
    pub spec_ref: SpecRef,
    /// How many pods. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Labels and annotations of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodMetadata>,
    /// Its pods. Default: as the version's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Its share of the traffic. Only with `trafficRouting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// A Service for its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free::object")]
    pub service: Option<Value>,
}

/// Which version.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum SpecRef {
    /// The version that comes.
    Canary,
    /// The version that runs.
    Stable,
}

/// What is measured in an experiment.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentAnalysis {
    /// Its name there.
    pub name: String,
    /// The template.
    pub template_name: String,
    /// It is a `ClusterAnalysisTemplate`. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scope: bool,
    /// Values for its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<RunArgument>,
    /// The experiment is not over before this is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required_for_completion: bool,
}
