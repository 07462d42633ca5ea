//! Rollouts at various places, for the tests of verbs.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::rollout::Rollout;

/// The time that the tests take for now.
pub(super) fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn rollout(strategy: &Value, status: &Value) -> Rollout {
    let labels = json!({ "app": "web" });
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-web", "generation": 2,
            "creationTimestamp": "2026-03-01T10:00:00Z",
        },
        "spec": {
            "replicas": 5,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "app", "image": "shop/web:2" }] },
            },
            "strategy": strategy,
        },
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn canary() -> Value {
    json!({ "canary": { "steps": [
        { "setWeight": 20 }, { "pause": {} }, { "analysis": { "templates": [{ "templateName": "errors" }] } },
        { "setWeight": 60 },
    ] } })
}

fn updating(index: i32, phase: &str, more: &Value) -> Value {
    let mut status = json!({
        "observedGeneration": 2, "phase": phase, "currentStepIndex": index, "step": format!("{index}/4"),
        "currentPodHash": "new1", "stableRS": "old1", "revision": 2, "weight": 20,
        "replicas": 6, "updatedReplicas": 1, "readyReplicas": 6, "availableReplicas": 6,
    });
    for (name, value) in more.as_object().unwrap() {
        status[name] = value.clone();
    }
    status
}

fn pause(reason: &str) -> Value {
    json!([{ "reason": reason, "startTime": "2026-03-01T11:58:30.000000Z" }])
}

/// At its pause step.
pub(super) fn paused() -> Rollout {
    let more = json!({ "pauseConditions": pause("CanaryPauseStep"), "controllerPause": true });
    rollout(&canary(), &updating(1, "Paused", &more))
}

/// In the middle of an analysis.
pub(super) fn analysing() -> Rollout {
    let run = json!({ "name": "web-new1-2-2", "status": "Running" });
    rollout(
        &canary(),
        &updating(2, "Progressing", &json!({ "canary": { "currentStepAnalysisRunStatus": run } })),
    )
}

/// After an analysis that nobody can tell.
pub(super) fn inconclusive() -> Rollout {
    let run = json!({ "name": "web-new1-2-2", "status": "Inconclusive" });
    let more = json!({
        "pauseConditions": pause("InconclusiveAnalysisRun"), "controllerPause": true,
        "canary": { "currentStepAnalysisRunStatus": run },
    });
    rollout(&canary(), &updating(2, "Paused", &more))
}

/// Taken back.
pub(super) fn aborted() -> Rollout {
    let more =
        json!({ "abort": true, "abortedAt": "2026-03-01T11:59:00Z", "message": "Metric errors failed" });
    rollout(&canary(), &updating(0, "Failed", &more))
}

/// Nothing goes on.
pub(super) fn completed() -> Rollout {
    let more = json!({ "stableRS": "new1", "weight": 100, "updatedReplicas": 5, "replicas": 5 });
    rollout(&canary(), &updating(4, "Completed", &more))
}

/// Before its switch.
pub(super) fn blue_green() -> Rollout {
    let strategy = json!({ "blueGreen": { "activeService": "web", "autoPromotionEnabled": false } });
    let more = json!({ "pauseConditions": pause("BlueGreenPause"), "controllerPause": true, "step": null });
    rollout(&strategy, &updating(0, "Preview", &more))
}
