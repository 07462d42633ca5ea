//! Defaults that the API server fills in and does not describe.
//!
//! They matter only inside of what is replaced as a whole: elsewhere a field that nobody applied is nobody's business.

use serde_json::{Value, json};

use super::Field;

/// Adds what is known about the fields of a type.
pub(super) fn note(name: &str, fields: &mut [Field]) {
    for field in fields {
        if let Some(default) = default(name, &field.name) {
            field.default = Some(default);
        }
        field.filled = is_filled(name, &field.name);
    }
}

fn default(owner: &str, field: &str) -> Option<Value> {
    Some(match (owner, field) {
        (
            "admissionregistration.v1.RuleWithOperations"
            | "admissionregistration.v1.NamedRuleWithOperations",
            "scope",
        ) => json!("*"),
        ("admissionregistration.v1.MatchResources", "matchPolicy") => json!("Equivalent"),
        ("batch.v1.PodFailurePolicyOnPodConditionsPattern", "status") => json!("True"),
        (
            "core.v1.EndpointPort" | "discovery.v1.EndpointPort" | "networking.v1.NetworkPolicyPort",
            "protocol",
        ) => {
            json!("TCP")
        }
        ("core.v1.ObjectFieldSelector" | "core.v1.PersistentVolumeClaim", "apiVersion") => json!("v1"),
        ("core.v1.PersistentVolumeClaim", "kind") => json!("PersistentVolumeClaim"),
        ("core.v1.PersistentVolumeClaimSpec", "volumeMode") => json!("Filesystem"),
        ("core.v1.PodCertificateProjection", "maxExpirationSeconds") => json!(86400),
        ("core.v1.ResourceFieldSelector", "divisor") => json!("0"),
        ("core.v1.ServiceAccountTokenProjection", "expirationSeconds") => json!(3600),
        ("rbac.v1.RoleRef", "apiGroup") => json!("rbac.authorization.k8s.io"),
        ("resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest", "allocationMode") => {
            json!("ExactCount")
        }
        ("resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest", "count") => json!(1),
        _ => return None,
    })
}

/// Fields that the server or its controllers fill in from other fields.
fn is_filled(owner: &str, field: &str) -> bool {
    match owner {
        // The most and the least decide what is usual.
        "core.v1.LimitRangeItem" => matches!(field, "default" | "defaultRequest"),
        // The volume controller completes the reference of a claim that it has bound.
        "core.v1.ObjectReference" => matches!(field, "apiVersion" | "kind" | "uid" | "resourceVersion"),
        // Users and groups have a group, service accounts have none.
        "rbac.v1.Subject" => field == "apiGroup",
        _ => false,
    }
}
