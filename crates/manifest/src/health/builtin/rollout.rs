//! `Rollout`, `AnalysisRun` and `Experiment` of Windlass itself.

use serde_json::Value;

use super::is_true;
use crate::health::object::{flag, generation, int, text};
use crate::health::{Health, Status};

/// A failed rollout has gone back to its stable pods: it serves, but not what is wanted.
pub(super) fn rollout(object: &Value) -> Health {
    let message = || text(object, &["status", "message"]).to_owned();
    // Its controller always writes the generation that it read.
    let read = int(object, &["status", "observedGeneration"]);
    if read.is_none() || generation(object).is_some_and(|newest| read < Some(newest)) {
        return Health::new(Status::Progressing, "The newest generation is not observed yet");
    }
    if is_true(object, "InvalidSpec") == Some(true) {
        return Health::new(Status::Degraded, said(message(), "The spec cannot be followed"));
    }
    if flag(object, &["status", "abort"]) {
        let why = text(object, &["status", "abortReason"]).to_owned();
        let why = if why.trim().is_empty() { message() } else { why };
        return Health::new(Status::Degraded, said(why, "The update was aborted"));
    }
    match text(object, &["status", "phase"]) {
        "Completed" => Health::new(Status::Healthy, message()),
        "Paused" => Health::new(Status::Suspended, said(message(), "The update is paused")),
        "Preview" => Health::new(Status::Suspended, said(message(), "The new version waits for its switch")),
        "Failed" => Health::new(Status::Degraded, said(message(), "The update failed")),
        "Initializing" | "Progressing" => {
            Health::new(Status::Progressing, said(message(), "The update goes on"))
        }
        "" => Health::new(Status::Progressing, "Nothing is known of it yet"),
        other => Health::new(Status::Unknown, format!("Its phase {other} is not known")),
    }
}

pub(super) fn analysis_run(object: &Value) -> Health {
    let message = text(object, &["status", "message"]).to_owned();
    match text(object, &["status", "phase"]) {
        "Successful" => Health::new(Status::Healthy, message),
        "Failed" => Health::new(Status::Degraded, said(message, "The analysis failed")),
        "Error" => Health::new(Status::Degraded, said(message, "The analysis could not measure")),
        // Neither good nor bad: somebody has to look at it.
        "Inconclusive" => Health::new(Status::Unknown, said(message, "The analysis cannot tell")),
        "Pending" | "Running" | "" => Health::new(Status::Progressing, said(message, "The analysis goes on")),
        other => Health::new(Status::Unknown, format!("Its phase {other} is not known")),
    }
}

pub(super) fn experiment(object: &Value) -> Health {
    let message = text(object, &["status", "message"]).to_owned();
    if is_true(object, "InvalidSpec") == Some(true) {
        return Health::new(Status::Degraded, said(message, "The spec cannot be followed"));
    }
    match text(object, &["status", "phase"]) {
        "Successful" => Health::new(Status::Healthy, message),
        "Failed" => Health::new(Status::Degraded, said(message, "The experiment failed")),
        "Error" => Health::new(Status::Degraded, said(message, "The experiment could not be carried out")),
        "Inconclusive" => Health::new(Status::Unknown, said(message, "The experiment cannot tell")),
        "Pending" | "Running" | "" => {
            Health::new(Status::Progressing, said(message, "The experiment goes on"))
        }
        other => Health::new(Status::Unknown, format!("Its phase {other} is not known")),
    }
}

/// What the status says, or else what its word means.
fn said(message: String, otherwise: &str) -> String {
    if message.trim().is_empty() { otherwise.to_owned() } else { message }
}
