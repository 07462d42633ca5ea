//! When a kind has its turn.

use serde_json::Value;

use crate::identity::group_of;

/// Everything that is neither known nor a workload.
const OTHERS: u8 = 6;
/// What can stop everything else.
const GATES: u8 = 8;
/// What is no object at all.
const NOTHING: u8 = 9;

/// The stage of an object.
pub(super) fn of(object: &Value) -> u8 {
    let (Some(group), Some(kind)) = (group_of(object), object.get("kind").and_then(Value::as_str)) else {
        return NOTHING;
    };
    match (group, kind) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", _) => 1,
        ("scheduling.k8s.io" | "node.k8s.io" | "storage.k8s.io", _)
        | ("networking.k8s.io", "IngressClass")
        | ("", "ResourceQuota" | "LimitRange") => 2,
        ("", "ServiceAccount" | "Secret" | "ConfigMap" | "PersistentVolume" | "PersistentVolumeClaim")
        | ("rbac.authorization.k8s.io", _) => 3,
        // Policies before the pods they protect, addresses before the pods that look them up.
        ("", "Service" | "Endpoints")
        | ("discovery.k8s.io" | "policy", _)
        | ("networking.k8s.io", "NetworkPolicy") => 4,
        ("", "Pod" | "ReplicationController") | ("apps" | "batch", _) => 5,
        ("apiregistration.k8s.io", _) => OTHERS - 1,
        ("networking.k8s.io", "Ingress") | ("autoscaling", _) => 7,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration"
            | "MutatingWebhookConfiguration"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding",
        ) => GATES,
        _ => OTHERS,
    }
}
