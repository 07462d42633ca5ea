//! Objects that nobody wrote.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::identity::group_of;

/// Why an object is not written to a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum SkipReason {
    /// A controller made it from another object, which is what counts.
    ControllerMade {
        /// Kind of the owner.
        kind: String,
        /// Name of the owner.
        name: String,
    },
    /// The control plane makes it in every cluster or namespace by itself.
    MadeByControlPlane,
    /// A token of a service account, filled in by the control plane.
    ServiceAccountToken,
    /// The memory of a tool.
    ToolState {
        /// The tool.
        tool: &'static str,
    },
    /// A report about what is, not a wish for what should be.
    RuntimeState,
}

impl SkipReason {
    /// One word for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::ControllerMade { .. } => "ControllerMade",
            Self::MadeByControlPlane => "MadeByControlPlane",
            Self::ServiceAccountToken => "ServiceAccountToken",
            Self::ToolState { .. } => "ToolState",
            Self::RuntimeState => "RuntimeState",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControllerMade { kind, name } => write!(f, "made by the controller of {kind} {name}"),
            Self::MadeByControlPlane => f.write_str("made by the control plane"),
            Self::ServiceAccountToken => f.write_str("a service account's token"),
            Self::ToolState { tool } => write!(f, "bookkeeping of {tool}"),
            Self::RuntimeState => f.write_str("a report of the running system, not a wish"),
        }
    }
}

/// The reason to skip an object, if there is one.
pub(super) fn reason(object: &Value) -> Option<SkipReason> {
    let kind = object.get("kind")?.as_str()?;
    let group = group_of(object)?;
    let metadata = object.get("metadata");
    if let Some(owner) = controller(metadata) {
        return Some(owner);
    }
    if is_runtime(group, kind) {
        return Some(SkipReason::RuntimeState);
    }
    let note = |list: &str, key: &str| metadata?.get(list)?.get(key)?.as_str();
    let named = |name: &str| metadata.and_then(|metadata| metadata.get("name")?.as_str()) == Some(name);
    match (group, kind) {
        ("", "Secret") => secret(object),
        ("", "ConfigMap") if named("kube-root-ca.crt") => Some(SkipReason::MadeByControlPlane),
        ("", "ConfigMap") if is_helm_record(note("labels", "owner"), note("labels", "status")) => {
            Some(SkipReason::ToolState { tool: "Helm" })
        }
        ("", "ConfigMap" | "Endpoints") if note("annotations", LEADER).is_some() => {
            Some(SkipReason::RuntimeState)
        }
        ("", "Endpoints")
            if note("annotations", "endpoints.kubernetes.io/last-change-trigger-time").is_some()
                || note("labels", "endpoints.kubernetes.io/managed-by").is_some()
                || is_written_by_controller_manager(metadata) =>
        {
            Some(SkipReason::MadeByControlPlane)
        }
        ("", "Service" | "Endpoints") | ("discovery.k8s.io", "EndpointSlice")
            if named("kubernetes") && is_in_default(metadata) =>
        {
            Some(SkipReason::MadeByControlPlane)
        }
        ("", "Pod") if note("annotations", "kubernetes.io/config.mirror").is_some() => {
            Some(SkipReason::MadeByControlPlane)
        }
        ("apiregistration.k8s.io", "APIService")
            if note("labels", "kube-aggregator.kubernetes.io/automanaged").is_some() =>
        {
            Some(SkipReason::MadeByControlPlane)
        }
        _ => None,
    }
}

/// The service account `default`, as the control plane makes it in every namespace: as soon as somebody adds something
/// to it, it is an object like others.
pub(super) fn is_bare_default_account(fields: &Map<String, Value>) -> bool {
    fields.get("kind").and_then(Value::as_str) == Some("ServiceAccount")
        && fields.get("apiVersion").and_then(Value::as_str) == Some("v1")
        && fields.keys().all(|key| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        && fields.get("metadata").and_then(Value::as_object).is_some_and(|metadata| {
            metadata.get("name").and_then(Value::as_str) == Some("default")
                && metadata.keys().all(|key| matches!(key.as_str(), "name" | "namespace"))
        })
}

const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

fn controller(metadata: Option<&Value>) -> Option<SkipReason> {
    let owners = metadata?.get("ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    Some(SkipReason::ControllerMade { kind: text("kind"), name: text("name") })
}

fn is_runtime(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Event" | "ComponentStatus" | "Binding"),
        "events.k8s.io" => kind == "Event",
        "coordination.k8s.io" => matches!(kind, "Lease" | "LeaseCandidate"),
        "storage.k8s.io" => matches!(kind, "CSINode" | "CSIStorageCapacity" | "VolumeAttachment"),
        "networking.k8s.io" => kind == "IPAddress",
        "resource.k8s.io" => kind == "ResourceSlice",
        "internal.apiserver.k8s.io" => kind == "StorageVersion",
        "metrics.k8s.io" | "custom.metrics.k8s.io" | "external.metrics.k8s.io" => true,
        _ => false,
    }
}

fn secret(object: &Value) -> Option<SkipReason> {
    match object.get("type")?.as_str()? {
        "kubernetes.io/service-account-token" => Some(SkipReason::ServiceAccountToken),
        "helm.sh/release.v1" => Some(SkipReason::ToolState { tool: "Helm" }),
        _ => None,
    }
}

/// Helm can keep its releases in config maps too; it finds them by these labels.
fn is_helm_record(owner: Option<&str>, status: Option<&str>) -> bool {
    owner == Some("helm") && status.is_some()
}

fn is_in_default(metadata: Option<&Value>) -> bool {
    metadata.and_then(|metadata| metadata.get("namespace")?.as_str()) == Some("default")
}

fn is_written_by_controller_manager(metadata: Option<&Value>) -> bool {
    let managers = metadata.and_then(|metadata| metadata.get("managedFields")?.as_array());
    managers.is_some_and(|managers| {
        managers
            .iter()
            .any(|entry| entry.get("manager").and_then(Value::as_str) == Some("kube-controller-manager"))
    })
}
