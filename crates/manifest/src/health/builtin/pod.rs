//! Pod.

use serde_json::Value;

use super::condition;
use crate::health::conditions::Truth;
use crate::health::object::{at, int, list, text};
use crate::health::{Health, Status};

fn containers(object: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
        .into_iter()
        .flat_map(|kind| list(object, &["status", kind]))
}

/// A container that cannot start: its image is not to be had, it crashes, its configuration is wrong.
fn stuck(object: &Value) -> Option<Health> {
    let mut found: Vec<&str> = Vec::new();
    for container in containers(object) {
        let reason = text(container, &["state", "waiting", "reason"]);
        if reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff") {
            let message = text(container, &["state", "waiting", "message"]);
            found.push(if message.is_empty() { reason } else { message });
        }
    }
    (!found.is_empty()).then(|| Health::new(Status::Degraded, found.join(", ")))
}

fn failed(object: &Value) -> Health {
    let said = text(object, &["status", "message"]);
    if !said.is_empty() {
        return Health::new(Status::Degraded, said.to_owned());
    }
    for container in containers(object) {
        let Some(end) = at(container, &["state", "terminated"]) else { continue };
        let name = text(container, &["name"]);
        let (message, reason) = (text(end, &["message"]), text(end, &["reason"]));
        if !message.is_empty() {
            return Health::new(Status::Degraded, message.to_owned());
        }
        if reason == "OOMKilled" {
            return Health::new(
                Status::Degraded,
                format!("container {name:?} ran out of memory (OOMKilled)"),
            );
        }
        if let Some(code) = int(end, &["exitCode"]).filter(|code| *code != 0) {
            return Health::new(Status::Degraded, format!("container {name:?} failed with exit code {code}"));
        }
    }
    Health::new(Status::Degraded, text(object, &["status", "reason"]).to_owned())
}

fn running(object: &Value, restarts: bool) -> Health {
    let said = text(object, &["status", "message"]).to_owned();
    if !restarts {
        return Health::new(Status::Progressing, said);
    }
    let ready = condition(object, "Ready");
    if ready.as_ref().is_some_and(|ready| ready.truth == Truth::True) {
        return Health::new(Status::Healthy, said);
    }
    // Not ready after a crash is a fault; not ready before the first is a start.
    if containers(object).any(|container| at(container, &["lastState", "terminated"]).is_some()) {
        let why = ready.map(|ready| ready.says()).unwrap_or_default();
        return Health::new(Status::Degraded, why);
    }
    Health::new(Status::Progressing, ready.map_or(said, |ready| ready.says()))
}

pub(super) fn pod(object: &Value) -> Health {
    let restarts = matches!(text(object, &["spec", "restartPolicy"]), "" | "Always");
    if restarts && let Some(health) = stuck(object) {
        return health;
    }
    match text(object, &["status", "phase"]) {
        "Pending" | "" => {
            let why = condition(object, "PodScheduled").filter(|scheduled| scheduled.truth == Truth::False);
            let said = text(object, &["status", "message"]);
            let message = match why {
                Some(why) => why.says(),
                None if said.is_empty() => "The pod is pending".to_owned(),
                None => said.to_owned(),
            };
            Health::new(Status::Progressing, message)
        }
        "Succeeded" => Health::new(Status::Healthy, text(object, &["status", "message"]).to_owned()),
        "Failed" => failed(object),
        "Running" => running(object, restarts),
        other => Health::new(Status::Unknown, format!("The phase of the pod is {other}")),
    }
}
