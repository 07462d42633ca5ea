//! Clusters get a new revision wave by wave.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{analysis::TemplateRef, duration::Duration};

/// Waves of clusters, and what happens when one fails.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Progressive {
    /// In order. Clusters that no wave selects come last, together.
    #[schemars(length(min = 1, max = 32))]
    pub waves: Vec<Wave>,

    /// What happens when a cluster fails or becomes degraded. Default: `Rollback`.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// Clusters that get the revision together.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,

    /// Which of the destinations' clusters. One that an earlier wave has is not in this one. The label
    /// `windlass.dev/cluster` stands for the cluster's name.
    pub selector: LabelSelector,

    /// So many clusters at a time. Default: all of the wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_parallel: Option<u32>,

    /// How long all clusters of the wave have to be healthy before the next wave begins. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bake: Option<Duration>,

    /// Analyses that have to succeed before the next wave begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<WaveAnalysis>,
}

/// Analyses between two waves: an `AnalysisRun` is made in the Application's namespace and waited for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WaveAnalysis {
    /// Templates.
    #[schemars(length(min = 1, max = 16))]
    pub templates: Vec<TemplateRef>,
    /// Arguments of the templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub args: Vec<AnalysisArg>,
}

/// An argument of a template.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisArg {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What happens when a cluster fails or becomes degraded.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// No further cluster gets the revision; those that have it keep it.
    Halt,
    /// Clusters that have it go back to what they had before, and the revision is not tried again.
    #[default]
    Rollback,
}
