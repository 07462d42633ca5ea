//! `blueGreen`: a whole second set of pods, then one switch.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AntiAffinity, Other, PodMetadata, RolloutAnalysis};

/// A whole second set of pods, then one switch of a Service.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BlueGreen {
    /// Service that users reach.
    #[serde(default)]
    pub active_service: String,
    /// Service of the new version before the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_service: Option<String>,
    /// How many pods the new version has before the switch is asked for. Default: as many as `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub preview_replica_count: Option<i32>,
    /// The switch happens by itself. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_promotion_enabled: Option<bool>,
    /// How long the new version is previewed before the switch happens by itself. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub auto_promotion_seconds: Option<i32>,
    /// How many pods may be missing during a restart. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How long the old version stays after the switch. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_seconds: Option<i32>,
    /// How many old versions may stay that long. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_revision_limit: Option<i32>,
    /// How long the new version stays after an abort; 0: for good. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub abort_scale_down_delay_seconds: Option<i32>,
    /// Has to be successful before the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_promotion_analysis: Option<RolloutAnalysis>,
    /// Has to be successful after the switch, else it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_promotion_analysis: Option<RolloutAnalysis>,
    /// Pods of the new version keep away from those of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinity>,
    /// Labels and annotations of pods while they are previewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_metadata: Option<PodMetadata>,
    /// Labels and annotations of pods while they are active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_metadata: Option<PodMetadata>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}
