//! `Cluster`: a Kubernetes cluster that Windlass may deliver to.
//!
//! It is cluster-scoped, like a Node: the fleet belongs to the platform team, a selector over it is one list, and
//! nobody gets to point the controller at a Secret without the cluster-wide right to create the kind. What a
//! tenant may do on a cluster is bounded by the account its Application is applied as, not by hiding the Cluster.
//! The labels that selectors match are the object's own `metadata.labels`.

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

/// Held by the Cluster controller until it has closed what it keeps open to the cluster.
pub const FINALIZER: &str = "windlass.dev/cluster";

/// Keys tried in the Secret, in this order, when `secretRef.key` is not given.
///
/// `kubeconfig` is what people and Crossplane write, `value` is what Cluster API writes.
pub const DEFAULT_SECRET_KEYS: [&str; 2] = ["kubeconfig", "value"];

/// How to reach one cluster, and how hard to use it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    singular = "cluster",
    shortname = "wcl",
    category = "windlass",
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "A Kubernetes cluster that Windlass may deliver to.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Latency", type_ = "string", json_path = ".status.latency"),
    printcolumn(name = "Probed", type_ = "date", json_path = ".status.lastProbe"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Server", type_ = "string", json_path = ".status.server", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.kubeconfig) != has(self.inCluster)")
    .message("set exactly one of spec.kubeconfig and spec.inCluster"))]
#[x_kube(validation = Rule::new("!has(self.burst) || !has(self.qps) || self.burst >= self.qps")
    .message("spec.burst must not be smaller than spec.qps"))]
pub struct ClusterSpec {
    /// Connect with a kubeconfig that a Secret holds. The Secret may appear later: the Cluster becomes ready then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigSource>,

    /// Connect to the cluster the controller itself runs in, with its own service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_cluster: Option<InCluster>,

    /// Requests a second that Windlass may send on average. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub qps: Option<u32>,

    /// Requests that may be sent at once above the average. Default: twice `qps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20000))]
    pub burst: Option<u32>,

    /// How the cluster is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeSpec>,

    /// Leave the cluster alone: no probes, nothing delivered. What runs there keeps running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// Where the kubeconfig is.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigSource {
    /// The Secret that holds it.
    pub secret_ref: SecretKeyRef,

    /// The context to use instead of the kubeconfig's current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub context: Option<String>,
}

/// One key of one Secret.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,

    /// Namespace of the Secret. Default: the namespace the controller runs in. The controller reads Secrets only in
    /// the namespaces it was started with (`--secret-namespaces`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,

    /// Key inside the Secret. Default: `kubeconfig`, else `value` (as Cluster API writes it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: Option<String>,
}

/// The controller's own cluster. It has no fields: the pod's service account says all.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct InCluster {}

/// How the cluster is checked.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.interval) || duration(self.interval) >= duration('1s')")
    .message("spec.probe.interval must be at least 1s"))]
#[x_kube(validation = Rule::new("!has(self.timeout) || (duration(self.timeout) >= duration('100ms') && duration(self.timeout) <= duration('60s'))")
    .message("spec.probe.timeout must be between 100ms and 60s"))]
pub struct ProbeSpec {
    /// Time between two checks of a reachable cluster. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,

    /// Time an answer may take. Default: 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What the controller last saw of the cluster.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whether the last probe got an answer and was let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<bool>,

    /// Kubernetes version of the cluster, as its API server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Time the API server took to answer, rounded up to 1, 2 or 5 × 10ⁿ ms so that noise is no news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,

    /// Address of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,

    /// When the cluster was last probed. Written with every change, and every few minutes while nothing changes; the
    /// metric `windlass_cluster_last_probe_timestamp_seconds` has it to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe: Option<Time>,

    /// `Ready`: the cluster can be delivered to; reason and message say why not, and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
