//! What the cluster itself is made of: definitions of kinds, API services, namespaces, nodes, disruption budgets.

use serde_json::Value;

use super::{condition, is_true};
use crate::health::conditions::Truth;
use crate::health::object::{at, deleting, flag, int, list, text, unread};
use crate::health::{Health, Status};

fn progressing(message: impl Into<std::borrow::Cow<'static, str>>) -> Health {
    Health::new(Status::Progressing, message)
}

pub(super) fn definition(object: &Value) -> Health {
    if list(object, &["status", "conditions"]).is_empty() {
        return progressing("Waiting for conditions");
    }
    if let Some(end) = condition(object, "Terminating").filter(|end| end.truth == Truth::True) {
        return progressing(format!("The kind is being removed: {}", end.message));
    }
    if let Some(names) = condition(object, "NamesAccepted").filter(|names| names.truth == Truth::False) {
        return Health::new(Status::Degraded, format!("The names are not accepted: {}", names.message));
    }
    match condition(object, "Established") {
        Some(there) if there.truth == Truth::True => {}
        Some(there) if there.truth == Truth::False && there.reason != "Installing" => {
            return Health::new(Status::Degraded, "The kind is not established");
        }
        _ => return progressing("The kind is being installed"),
    }
    if let Some(schema) =
        condition(object, "NonStructuralSchema").filter(|schema| schema.truth == Truth::True)
    {
        return Health::new(Status::Degraded, format!("The schema is not structural: {}", schema.message));
    }
    Health::new(Status::Healthy, "The kind is served")
}

pub(super) fn api_service(object: &Value) -> Health {
    match condition(object, "Available") {
        Some(available) if available.truth == Truth::True => Health::new(Status::Healthy, available.says()),
        Some(available) => progressing(available.says()),
        None => progressing("Waiting for the service to be available"),
    }
}

pub(super) fn namespace(object: &Value) -> Health {
    if deleting(object) || text(object, &["status", "phase"]) == "Terminating" {
        // What holds the namespace back is told by the conditions that are true.
        let held =
            ["NamespaceFinalizersRemaining", "NamespaceContentRemaining", "NamespaceDeletionContentFailure"]
                .iter()
                .find_map(|kind| condition(object, kind).filter(|held| held.truth == Truth::True));
        return progressing(held.map_or_else(
            || "pending deletion".to_owned(),
            |held| format!("pending deletion: {}", held.message),
        ));
    }
    match text(object, &["status", "phase"]) {
        "Active" => Health::new(Status::Healthy, "The namespace is active"),
        "" => progressing("Waiting for the namespace to be active"),
        other => Health::new(Status::Unknown, format!("The phase of the namespace is {other}")),
    }
}

pub(super) fn node(object: &Value) -> Health {
    match condition(object, "Ready") {
        Some(ready) if ready.truth == Truth::True => {
            if flag(object, &["spec", "unschedulable"]) {
                return Health::new(Status::Suspended, "The node takes no new pods (cordoned)");
            }
            Health::new(Status::Healthy, ready.says())
        }
        Some(ready) => Health::new(Status::Degraded, ready.says()),
        None => progressing("Waiting for the node to report that it is ready"),
    }
}

pub(super) fn disruption_budget(object: &Value) -> Health {
    if at(object, &["status"]).is_none() || unread(object) {
        return progressing("Waiting for the status");
    }
    let Some(allowed) = condition(object, "DisruptionAllowed") else {
        let (have, want) =
            (int(object, &["status", "currentHealthy"]), int(object, &["status", "desiredHealthy"]));
        return match (have, want) {
            (Some(have), Some(want)) if have >= want => {
                Health::new(Status::Healthy, format!("{have} of {want} pods are healthy"))
            }
            _ => progressing("Waiting for the status"),
        };
    };
    let status = match allowed.reason {
        "SyncFailed" => Status::Degraded,
        _ if allowed.truth == Truth::True => Status::Healthy,
        // A budget that forbids every disruption is how single pods are guarded; too few pods are another matter.
        _ if int(object, &["status", "currentHealthy"]) < int(object, &["status", "desiredHealthy"]) => {
            Status::Degraded
        }
        _ => Status::Healthy,
    };
    Health::new(status, format!("PodDisruptionBudget has {}", allowed.reason))
}

pub(super) fn signing_request(object: &Value) -> Health {
    for kind in ["Denied", "Failed"] {
        if let Some(found) = condition(object, kind).filter(|found| found.truth == Truth::True) {
            return Health::new(Status::Degraded, found.says());
        }
    }
    if !text(object, &["status", "certificate"]).is_empty() {
        return Health::new(Status::Healthy, "The certificate is issued");
    }
    if is_true(object, "Approved") == Some(true) {
        return progressing("The request is approved; waiting for the certificate");
    }
    progressing("Waiting for approval")
}
