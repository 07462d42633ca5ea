//! What splits the traffic.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::Other;

/// What splits the traffic.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrafficRouting {
    /// Routes of the Gateway API.
    #[serde(rename = "gatewayAPI", default, skip_serializing_if = "Option::is_none")]
    pub gateway_api: Option<GatewayApi>,
    /// Names of the header and mirror rules that steps set, in the order that they have on the route.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_routes: Vec<ManagedRoute>,
    /// Settings of routers by name. `argoproj-labs/gatewayAPI` is read as `gatewayAPI`; others are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::free::objects_by_name")]
    pub plugins: BTreeMap<String, serde_json::Value>,
    /// The weight that stands for all traffic. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_traffic_weight: Option<i32>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// Routes of the Gateway API in the namespace of the Rollout.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayApi {
    /// An `HTTPRoute`.
    #[serde(rename = "httpRoute", default, skip_serializing_if = "Option::is_none")]
    pub http_route: Option<String>,
    /// `HTTPRoutes`.
    #[serde(rename = "httpRoutes", default, skip_serializing_if = "Vec::is_empty")]
    pub http_routes: Vec<NamedRoute>,
    /// A `GRPCRoute`.
    #[serde(rename = "grpcRoute", default, skip_serializing_if = "Option::is_none")]
    pub grpc_route: Option<String>,
    /// `GRPCRoutes`.
    #[serde(rename = "grpcRoutes", default, skip_serializing_if = "Vec::is_empty")]
    pub grpc_routes: Vec<NamedRoute>,
    /// Namespace of the routes: only the Rollout's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields that are not known here: refused by name.
    #[serde(flatten)]
    #[schemars(schema_with = "crate::free::others")]
    pub other: Other,
}

/// A route.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedRoute {
    /// Its name.
    pub name: String,
    /// Header rules may be put on it. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_header_routes: Option<bool>,
}

/// A rule that a step sets.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ManagedRoute {
    /// Its name.
    pub name: String,
}

/// A text: exactly one of the three.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct StringMatch {
    /// All of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exact: String,
    /// Its beginning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// A regular expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub regex: String,
}

/// A header with a value.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// Its name.
    pub header_name: String,
    /// Its value.
    #[serde(default)]
    pub header_value: StringMatch,
}

/// Requests: all of what is set has to match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct RouteMatch {
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<StringMatch>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<StringMatch>,
    /// Headers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, StringMatch>,
}
