//! `Deployment`, `StatefulSet`, `DaemonSet`, `ReplicaSet`, `HorizontalPodAutoscaler`.

use serde_json::Value;

use super::condition;
use crate::health::conditions::{self, Truth};
use crate::health::object::{at, flag, generation, int, list, text};
use crate::health::{Health, Status};

fn count(object: &Value, name: &str) -> i64 {
    int(object, &["status", name]).unwrap_or(0)
}

/// Pods wanted: one where nobody says.
fn wanted(object: &Value) -> i64 {
    int(object, &["spec", "replicas"]).unwrap_or(1)
}

/// Workloads always report the generation they read, so one that does not has not read any.
fn not_observed(object: &Value) -> bool {
    match (generation(object), int(object, &["status", "observedGeneration"])) {
        (Some(wanted), seen) => seen.unwrap_or(0) < wanted,
        (None, _) => at(object, &["status"]).is_none(),
    }
}

/// What is said of a spec that the controller has not read yet.
const UNREAD: &str = "The newest generation is not observed yet";

fn progressing(message: impl Into<std::borrow::Cow<'static, str>>) -> Health {
    Health::new(Status::Progressing, message)
}

pub(super) fn deployment(object: &Value) -> Health {
    if flag(object, &["spec", "paused"]) {
        return Health::new(Status::Suspended, "Deployment is paused");
    }
    if not_observed(object) {
        return progressing(UNREAD);
    }
    if let Some(stuck) = condition(object, "Progressing")
        && stuck.reason == "ProgressDeadlineExceeded"
    {
        let name = text(object, &["metadata", "name"]);
        return Health::new(
            Status::Degraded,
            format!("Deployment {name:?} made no progress before its deadline"),
        );
    }
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|failure| failure.truth == Truth::True)
    {
        return Health::new(Status::Degraded, failure.says());
    }
    let wanted = wanted(object);
    let updated = count(object, "updatedReplicas");
    let all = count(object, "replicas");
    let available = count(object, "availableReplicas");
    if updated < wanted {
        return progressing(format!("{updated} of {wanted} replicas are updated"));
    }
    if all > updated {
        return progressing(format!("{} old replicas are still there", all.saturating_sub(updated)));
    }
    if available < updated {
        return progressing(format!("{available} of {updated} updated replicas are available"));
    }
    Health::new(Status::Healthy, format!("{available} replicas are available"))
}

pub(super) fn stateful_set(object: &Value) -> Health {
    if not_observed(object) {
        return progressing(UNREAD);
    }
    let wanted = wanted(object);
    let ready = count(object, "readyReplicas");
    let updated = count(object, "updatedReplicas");
    if ready < wanted {
        return progressing(format!("{ready} of {wanted} pods are ready"));
    }
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Health::new(Status::Healthy, format!("{ready} pods are ready"));
    }
    if let Some(partition) = int(object, &["spec", "updateStrategy", "rollingUpdate", "partition"])
        && partition > 0
    {
        let due = wanted.saturating_sub(partition);
        if updated < due {
            return progressing(format!("{updated} of {due} pods above the partition are updated"));
        }
        return Health::new(Status::Healthy, format!("All {updated} pods above the partition are updated"));
    }
    let revision = text(object, &["status", "updateRevision"]);
    if revision != text(object, &["status", "currentRevision"]) {
        return progressing(format!("{updated} of {wanted} pods are at revision {revision}"));
    }
    Health::new(
        Status::Healthy,
        format!("{} pods are at revision {revision}", count(object, "currentReplicas")),
    )
}

pub(super) fn daemon_set(object: &Value) -> Health {
    if not_observed(object) {
        return progressing(UNREAD);
    }
    let wanted = count(object, "desiredNumberScheduled");
    let updated = count(object, "updatedNumberScheduled");
    let available = count(object, "numberAvailable");
    if text(object, &["spec", "updateStrategy", "type"]) != "OnDelete" && updated < wanted {
        return progressing(format!("{updated} of {wanted} pods are updated"));
    }
    if available < wanted {
        return progressing(format!("{available} of {wanted} pods are available"));
    }
    Health::new(Status::Healthy, format!("{available} pods are available"))
}

pub(super) fn replica_set(object: &Value) -> Health {
    if not_observed(object) {
        return progressing(UNREAD);
    }
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|failure| failure.truth == Truth::True)
    {
        return Health::new(Status::Degraded, failure.says());
    }
    let wanted = wanted(object);
    let available = count(object, "availableReplicas");
    if available < wanted {
        return progressing(format!("{available} of {wanted} replicas are available"));
    }
    if count(object, "replicas") > wanted {
        return progressing("Waiting for replicas that are too many to go");
    }
    Health::new(Status::Healthy, format!("{available} replicas are available"))
}

pub(super) fn autoscaler(object: &Value) -> Health {
    let annotated = text(object, &["metadata", "annotations", "autoscaling.alpha.kubernetes.io/conditions"]);
    let parsed: Option<Value> = serde_json::from_str(annotated).ok();
    let found = if list(object, &["status", "conditions"]).is_empty() {
        conditions::read(parsed.as_ref())
    } else {
        conditions::read(at(object, &["status", "conditions"]))
    };
    for one in &found {
        let failed =
            ["FailedGet", "FailedCompute", "FailedUpdate", "FailedConvert", "Invalid", "AmbiguousSelector"];
        if one.truth == Truth::False && failed.iter().any(|start| one.reason.starts_with(start)) {
            return Health::new(Status::Degraded, one.message.to_owned());
        }
    }
    let able = found.iter().find(|one| one.kind == "AbleToScale").or_else(|| found.first());
    match able {
        Some(able) if able.truth == Truth::True || able.kind != "AbleToScale" => {
            Health::new(Status::Healthy, able.message.to_owned())
        }
        Some(able) if able.reason == "BackoffDownscale" || able.reason == "BackoffBoth" => {
            Health::new(Status::Healthy, able.message.to_owned())
        }
        Some(able) => Health::new(Status::Progressing, able.says()),
        None if at(object, &["status", "currentReplicas"]).is_some() && generation(object).is_none() => {
            Health::new(Status::Healthy, "The autoscaler reports its replicas")
        }
        None => Health::new(Status::Progressing, "Waiting for the first decision"),
    }
}
