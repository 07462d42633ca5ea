//! The kinds of Kubernetes itself, as its own tools judge them.

use serde_json::Value;

use super::conditions::{self, Truth};
use super::object::{at, deleting, map, text};
use super::{Health, Status};

mod cluster;
mod gateway;
mod jobs;
mod network;
mod pod;
mod rollout;
mod storage;
mod workloads;

/// The health of an object of a built-in kind, or nothing for other kinds.
pub(super) fn health(group: &str, kind: &str, object: &Value) -> Option<Health> {
    let judge: fn(&Value) -> Health = match (group, kind) {
        ("apps" | "extensions", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set,
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => workloads::replica_set,
        ("", "Pod") => pod::pod,
        ("batch", "Job") => jobs::job,
        ("batch", "CronJob") => jobs::cron_job,
        ("", "PersistentVolumeClaim") => storage::claim,
        ("", "PersistentVolume") => storage::volume,
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment,
        ("", "Service") => network::service,
        ("networking.k8s.io" | "extensions", "Ingress") => network::ingress,
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::autoscaler,
        ("apiregistration.k8s.io", "APIService") => cluster::api_service,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::definition,
        ("", "Namespace") => cluster::namespace,
        ("", "Node") => cluster::node,
        ("policy", "PodDisruptionBudget") => cluster::disruption_budget,
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::signing_request,
        ("gateway.networking.k8s.io", "Gateway") => gateway::gateway,
        ("gateway.networking.k8s.io", "GatewayClass") => gateway::class,
        ("gateway.networking.k8s.io", "BackendTLSPolicy") => gateway::policy,
        ("gateway.networking.k8s.io", "HTTPRoute" | "GRPCRoute" | "TCPRoute" | "TLSRoute" | "UDPRoute") => {
            gateway::route
        }
        ("windlass.dev", "Rollout") => rollout::rollout,
        ("windlass.dev", "AnalysisRun") => rollout::analysis_run,
        ("windlass.dev", "Experiment") => rollout::experiment,
        ("windlass.dev", "AnalysisTemplate" | "ClusterAnalysisTemplate") => plain_data,
        _ if is_plain_data(group, kind, object) => plain_data,
        _ => return None,
    };
    Some(if deleting(object) { leaving(group, kind, object) } else { judge(object) })
}

fn leaving(group: &str, kind: &str, object: &Value) -> Health {
    match (group, kind) {
        ("apiextensions.k8s.io", _) => Health::new(Status::Progressing, "The kind is being removed"),
        ("", "Namespace") => cluster::namespace(object),
        _ => Health::deleting(),
    }
}

/// Groups that come with the API server. Their kinds report a status only where they are judged above or by the generic
/// rule; without a status they are data.
const OURS: &[&str] = &[
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "extensions",
    "events.k8s.io",
    "rbac.authorization.k8s.io",
    "networking.k8s.io",
    "storage.k8s.io",
    "scheduling.k8s.io",
    "node.k8s.io",
    "admissionregistration.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
    "gateway.networking.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "apiregistration.k8s.io",
    "storagemigration.k8s.io",
];

/// Kinds with a status that says nothing about health.
const COUNTERS: &[&str] =
    &["ResourceQuota", "FlowSchema", "PriorityLevelConfiguration", "NetworkPolicy", "ResourceClaim"];

fn is_plain_data(group: &str, kind: &str, object: &Value) -> bool {
    OURS.contains(&group)
        && (COUNTERS.contains(&kind) || map(object, &["status"]).is_none_or(serde_json::Map::is_empty))
}

fn plain_data(object: &Value) -> Health {
    Health::new(Status::Healthy, format!("{} exists; its kind has no other state", text(object, &["kind"])))
}

/// The newest condition of a type.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<conditions::Condition<'a>> {
    conditions::find(at(object, &["status", "conditions"]), kind)
}

/// Whether a condition is `True`.
fn is_true(object: &Value, kind: &str) -> Option<bool> {
    condition(object, kind).map(|condition| condition.truth == Truth::True)
}
