//! The kwok stages: which objects they take and what they make of them.

use anyhow::Context;
use serde_json::{Value, json};

use super::template::{Containers, NODE_STATUS, pod_status};
use super::{Behavior, FINISH_AFTER, POD_LABEL, READY_AFTER};

/// How long a crashed container waits before it is started again.
const BACK_OFF_MILLIS: u32 = 10_000;

/// The file for kwok's `--config`.
pub(crate) fn kwok_config() -> anyhow::Result<String> {
    let documents: Result<Vec<String>, _> = stages().iter().map(serde_json::to_string_pretty).collect();
    // JSON documents are YAML documents.
    Ok(documents.context("cannot write the kwok stages")?.join("\n---\n"))
}

fn stages() -> Vec<Value> {
    use Behavior::{CrashLoop, JobFails, JobHangs, NeverReady, Ready, Slow};
    let pending = || vec![field(".status.phase", "In", &["Pending"])];
    let running = || vec![field(".status.phase", "In", &["Running"])];
    let is_ready = |operator| field(READY, operator, &["True"]);
    let finite = field(".spec.restartPolicy", "In", &["Never", "OnFailure"]);
    vec![
        node_stage(),
        pod_stage("pod-run-ready", &[Ready, JobFails, JobHangs], pending())
            .next(pod_status("Running", Containers::Started { ready: true })),
        pod_stage("pod-run-unready", &[Slow, NeverReady, CrashLoop], pending())
            .next(pod_status("Running", Containers::Started { ready: false })),
        pod_stage("pod-slow-ready", &[Slow], [running(), vec![is_ready("NotIn")]].concat())
            .after(5_000, Some(READY_AFTER))
            .next(pod_status("Running", Containers::BecameReady)),
        pod_stage("pod-succeed", &[Ready, Slow], [running(), vec![is_ready("In"), finite]].concat())
            .after(200, Some(FINISH_AFTER))
            .next(pod_status("Succeeded", Containers::Completed)),
        pod_stage("pod-fail", &[JobFails], running())
            .after(200, Some(FINISH_AFTER))
            .next(pod_status("Failed", Containers::Failed)),
        pod_stage("pod-crash", &[CrashLoop], [running(), vec![exists(RUNNING_CONTAINER)]].concat())
            .after(200, Some(FINISH_AFTER))
            .event("Warning", "BackOff", "Back-off before a failed container is started again")
            .next(pod_status("Running", Containers::CrashLoop)),
        pod_stage("pod-restart", &[CrashLoop], [running(), vec![exists(WAITING_CONTAINER)]].concat())
            .after(BACK_OFF_MILLIS, None)
            .next(pod_status("Running", Containers::Restarted)),
        json!({
            "apiVersion": API_VERSION,
            "kind": "Stage",
            "metadata": { "name": "pod-delete" },
            "spec": {
                "resourceRef": { "apiGroup": "v1", "kind": "Pod" },
                "selector": { "matchExpressions": [exists(".metadata.deletionTimestamp")] },
                "next": { "delete": true },
            },
        }),
    ]
}

const API_VERSION: &str = "kwok.x-k8s.io/v1alpha1";
const READY: &str = r#".status.conditions[]? | select(.type == "Ready") | .status"#;
const RUNNING_CONTAINER: &str = ".status.containerStatuses[0].state.running";
const WAITING_CONTAINER: &str = ".status.containerStatuses[0].state.waiting";

/// The behaviour of a pod as a jq expression. What crashes is started again unless the pod says `Never`.
fn behavior() -> String {
    format!(
        r#".spec.restartPolicy as $restart
        | (.metadata.labels["{POD_LABEL}"]
           // (if .metadata.annotations["{READY_AFTER}"] then "{slow}" else "{ready}" end))
        | if . == "{fails}" and $restart != "Never" then "{crash}" else . end"#,
        slow = Behavior::Slow.label(),
        ready = Behavior::Ready.label(),
        fails = Behavior::JobFails.label(),
        crash = Behavior::CrashLoop.label(),
    )
}

fn field(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": operator, "values": values })
}

fn exists(key: &str) -> Value {
    json!({ "key": key, "operator": "Exists" })
}

fn node_stage() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Stage",
        "metadata": { "name": "node-ready" },
        "spec": {
            "resourceRef": { "apiGroup": "v1", "kind": "Node" },
            "selector": { "matchExpressions": [field(READY, "NotIn", &["True"])] },
            "next": { "statusTemplate": NODE_STATUS },
        },
    })
}

struct PodStage {
    value: Value,
}

fn pod_stage(name: &str, behaviors: &[Behavior], conditions: Vec<Value>) -> PodStage {
    let labels: Vec<&str> = behaviors.iter().map(|behavior| behavior.label()).collect();
    let mut expressions = vec![
        json!({ "key": ".metadata.deletionTimestamp", "operator": "DoesNotExist" }),
        field(&behavior(), "In", &labels),
    ];
    expressions.extend(conditions);
    let value = json!({
        "apiVersion": API_VERSION,
        "kind": "Stage",
        "metadata": { "name": name },
        "spec": {
            "resourceRef": { "apiGroup": "v1", "kind": "Pod" },
            "selector": { "matchExpressions": expressions },
            "next": {},
        },
    });
    PodStage { value }
}

impl PodStage {
    fn after(mut self, millis: u32, annotation: Option<&str>) -> Self {
        let mut delay = json!({ "durationMilliseconds": millis });
        if let Some(name) = annotation {
            delay["durationFrom"] = json!({ "expressionFrom": format!(".metadata.annotations[\"{name}\"]") });
        }
        self.value["spec"]["delay"] = delay;
        self
    }

    fn event(mut self, kind: &str, reason: &str, message: &str) -> Self {
        self.value["spec"]["next"]["event"] = json!({ "type": kind, "reason": reason, "message": message });
        self
    }

    fn next(mut self, status: String) -> Value {
        self.value["spec"]["next"]["statusTemplate"] = status.into();
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behavior_starts() {
        let stages = serde_json::Value::from(stages()).to_string();
        for behavior in Behavior::ALL {
            assert!(stages.contains(&format!("\"{}\"", behavior.label())), "{behavior:?} has no stage");
        }
    }
}
