//! Deployments and Jobs that come to something, as their controllers and kubelets would bring them there.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Api, Next, clock::seconds};

/// The label that tells a simulated workload how it ends.
pub const OUTCOME: &str = "sim.windlass.dev/outcome";

/// How a workload ends, by [`OUTCOME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// `fails`: a Deployment exceeds its deadline, a Job its retries.
    Fails,
    /// `stuck`: begun, and never further.
    Stuck,
}

impl Api {
    /// Deployments and Jobs become healthy: begun `pace` after each change, done `pace` after that. With the label
    /// `sim.windlass.dev/outcome` on the object itself `fails` makes them fail and `stuck` leaves them begun.
    ///
    /// Only their status moves: no `ReplicaSet`s, no Pods.
    pub fn run_workloads(&self, pace: Duration) {
        self.controller("apps/v1", "Deployment", move |object, now| deployment(object, now, pace));
        self.controller("batch/v1", "Job", move |object, now| job(object, now, pace));
    }
}

fn outcome(object: &Value) -> Outcome {
    match object.pointer("/metadata/labels").and_then(|labels| labels.get(OUTCOME)).and_then(Value::as_str) {
        Some("fails") => Outcome::Fails,
        Some("stuck") => Outcome::Stuck,
        _ => Outcome::Fine,
    }
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let now = seconds(now);
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    })
}

fn reason_of<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == kind);
    found.next().and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

fn deployment(object: &Value, now: Timestamp, pace: Duration) -> Option<Next> {
    let name = super::state::meta(object, "name");
    let generation = number(object, "/metadata/generation").unwrap_or_default();
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let count = (wanted > 0).then_some(wanted);
    if number(object, "/status/observedGeneration") != Some(generation) {
        let status = json!({
            "observedGeneration": generation, "replicas": count, "updatedReplicas": count,
            "readyReplicas": null, "availableReplicas": null, "unavailableReplicas": count,
            "conditions": [
                condition("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now),
                condition("Progressing", "True", "ReplicaSetUpdated", &format!("ReplicaSet \"{name}\" is progressing."), now),
            ],
        });
        // The revision counts changes of the template; a change of any other kind counts here too.
        let annotations = json!({ "deployment.kubernetes.io/revision": generation.to_string() });
        return Some(Next {
            after: pace,
            change: json!({ "metadata": { "annotations": annotations }, "status": status }),
        });
    }
    let progressing = reason_of(object, "Progressing");
    match outcome(object) {
        Outcome::Stuck => None,
        Outcome::Fails if progressing == "ProgressDeadlineExceeded" => None,
        Outcome::Fails => {
            let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
            let conditions = [
                condition(
                    "Available",
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                    now,
                ),
                condition("Progressing", "False", "ProgressDeadlineExceeded", &message, now),
            ];
            Some(Next { after: pace * 5, change: json!({ "status": { "conditions": conditions } }) })
        }
        Outcome::Fine if progressing == "NewReplicaSetAvailable" => None,
        Outcome::Fine => {
            let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
            let status = json!({
                "readyReplicas": count, "availableReplicas": count, "unavailableReplicas": null,
                "conditions": [
                    condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now),
                    condition("Progressing", "True", "NewReplicaSetAvailable", &message, now),
                ],
            });
            Some(Next { after: pace, change: json!({ "status": status }) })
        }
    }
}

fn job(object: &Value, now: Timestamp, pace: Duration) -> Option<Next> {
    let suspended = object.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map_or(0, Vec::len);
    if suspended || conditions > 0 {
        return None;
    }
    let completions = number(object, "/spec/completions").unwrap_or(1);
    if object.pointer("/status/startTime").is_none() {
        let status = json!({ "startTime": seconds(now), "active": completions, "ready": 0 });
        return Some(Next { after: pace, change: json!({ "status": status }) });
    }
    let ended = |kind: &str, reason: &str, message: &str| {
        let mut ended = condition(kind, "True", reason, message, now);
        if let Some(ended) = ended.as_object_mut() {
            ended.shift_remove("lastUpdateTime");
            ended.insert("lastProbeTime".into(), seconds(now).into());
        }
        ended
    };
    let status = match outcome(object) {
        Outcome::Stuck => return None,
        Outcome::Fails => {
            let why = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
            json!({ "active": null, "ready": 0, "failed": 1, "conditions": [
                ended("FailureTarget", why.0, why.1), ended("Failed", why.0, why.1),
            ] })
        }
        Outcome::Fine => {
            let why = ("CompletionsReached", "Reached expected number of succeeded pods");
            json!({ "active": null, "ready": 0, "succeeded": completions, "completionTime": seconds(now), "conditions": [
                ended("SuccessCriteriaMet", why.0, why.1), ended("Complete", why.0, why.1),
            ] })
        }
    };
    Some(Next { after: pace, change: json!({ "status": status }) })
}
