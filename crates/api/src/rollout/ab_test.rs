//! `abTest`: some requests go to the new version, always the same ones, until it is known which is better.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Other, PodMetadata, RolloutAnalysis, TrafficRouting, traffic::StringMatch};
use crate::span::Span;

/// The version that runs is variant A, the new one is variant B. Requests that match get B, all others get A.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AbTest {
    /// Service of variant A.
    #[serde(default)]
    pub stable_service: String,
    /// Service of variant B.
    #[serde(default)]
    pub canary_service: String,
    /// What tells requests apart.
    #[serde(default)]
    pub traffic_routing: TrafficRouting,
    /// Who gets variant B.
    #[serde(default)]
    pub variant: Variant,
    /// How many pods variant B has. Default: as many as `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub variant_replicas: Option<i32>,
    /// How long both run before anything is decided. Default: until the analysis is done, or until decided by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Compares the variants: successful means that B wins, failed that A stays; inconclusive asks for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<RolloutAnalysis>,
    /// Who decides. Default: `Rule`.
    #[serde(default)]
    pub promotion: Promotion,
    /// How many pods may be missing: a number or a percentage, rounded down. Default: 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be above `replicas`: a number or a percentage, rounded up. Default: 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// How long the loser stays after it lost its traffic. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_delay_seconds: Option<i32>,
    /// Labels and annotations of pods of variant B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_metadata: Option<PodMetadata>,
    /// Labels and annotations of pods of variant A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_metadata: Option<PodMetadata>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// Who gets variant B.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Variant {
    /// Name of the rule on the route. Default: `variant-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Any of them.
    #[serde(rename = "match", default)]
    #[schemars(length(max = 16))]
    pub matches: Vec<VariantMatch>,
    /// Who got variant B once keeps it: a cookie of this name is set and matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub sticky_cookie: Option<String>,
}

/// A header or a cookie: exactly one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.header) != has(self.cookie)")
    .message("set exactly one of header and cookie in every match"))]
pub struct VariantMatch {
    /// A header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<NamedMatch>,
    /// A cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<NamedMatch>,
}

/// A header or cookie with a value.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedMatch {
    /// Its name.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: StringMatch,
}

/// Who decides which variant wins.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Promotion {
    /// The analysis; without one, a person.
    #[default]
    Rule,
    /// A person, by promote or abort, whatever the analysis says; a failed analysis still ends the test.
    Manual,
}
