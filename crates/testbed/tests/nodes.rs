//! What simulated pods do, by label and annotation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use support::eventually;
use windlass_testbed::control_plane::{ControlPlane, Namespace};
use windlass_testbed::nodes::{self, Behavior, EXIT_CODE, FINISH_AFTER, MESSAGE, POD_LABEL, READY_AFTER};

async fn with_nodes() -> (&'static ControlPlane, Namespace) {
    let control_plane = ControlPlane::shared().await.unwrap();
    control_plane.ensure_nodes(2).await.unwrap();
    (control_plane, control_plane.namespace("nodes").await.unwrap())
}

fn pod(name: &str, behavior: Option<Behavior>, annotations: &Value, restart: &str) -> Pod {
    let labels = behavior.map_or_else(|| json!({}), |behavior| json!({ POD_LABEL: behavior.label() }));
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": {
            "restartPolicy": restart,
            "containers": [{ "name": "main", "image": "example" }, { "name": "side", "image": "example" }],
        },
    }))
    .unwrap()
}

fn job(name: &str, behavior: Option<Behavior>, annotations: &Value, restart: &str) -> Job {
    let pod = serde_json::to_value(pod("ignored", behavior, annotations, restart)).unwrap();
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "backoffLimit": 0,
            "template": { "metadata": { "labels": labels, "annotations": annotations }, "spec": pod["spec"] },
        },
    }))
    .unwrap()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn first_container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

async fn wait_for(pods: &Api<Pod>, name: &str, what: &str, check: impl Fn(&Pod) -> bool) -> Pod {
    eventually(&format!("{name}: {what}"), || async { pods.get(name).await.ok().filter(|pod| check(pod)) })
        .await
}

#[tokio::test]
async fn a_pod_is_ready_at_once_and_can_be_deleted() {
    let (control_plane, namespace) = with_nodes().await;
    assert!(nodes::ready(&control_plane.admin()).await.unwrap().len() >= 2);
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    pods.create(&PostParams::default(), &pod("plain", None, &json!({}), "Always")).await.unwrap();
    let ready = wait_for(&pods, "plain", "ready", is_ready).await;
    assert_eq!(phase(&ready), "Running");
    let status = ready.status.unwrap();
    assert!(status.pod_ip.is_some_and(|ip| ip.starts_with("10.244.")));
    assert!(status.container_statuses.unwrap().iter().all(|container| container.ready));
    pods.delete("plain", &DeleteParams::default()).await.unwrap();
    eventually("the pod is gone", || async { pods.get_opt("plain").await.unwrap().is_none().then_some(()) })
        .await;
}

#[tokio::test]
async fn a_slow_pod_is_ready_after_its_time_and_not_before() {
    let (control_plane, namespace) = with_nodes().await;
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    // The annotation alone chooses the behavior too.
    let start = Instant::now();
    pods.create(&PostParams::default(), &pod("slow", None, &json!({ READY_AFTER: "6s" }), "Always"))
        .await
        .unwrap();
    wait_for(&pods, "slow", "running but not ready", |pod| phase(pod) == "Running" && !is_ready(pod)).await;
    wait_for(&pods, "slow", "ready", is_ready).await;
    assert!(start.elapsed() >= Duration::from_secs(6), "ready after {:?}", start.elapsed());
}

#[tokio::test]
async fn a_pod_that_is_never_ready_runs_and_stays_unready() {
    let (control_plane, namespace) = with_nodes().await;
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    let object = pod("never", Some(Behavior::NeverReady), &json!({}), "Always");
    pods.create(&PostParams::default(), &object).await.unwrap();
    wait_for(&pods, "never", "running", |pod| phase(pod) == "Running").await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    let later = pods.get("never").await.unwrap();
    assert_eq!((phase(&later), is_ready(&later)), ("Running", false));
}

#[tokio::test]
async fn a_crash_loop_counts_restarts() {
    let (control_plane, namespace) = with_nodes().await;
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    let annotations = json!({ EXIT_CODE: "137", MESSAGE: "said \"no\"" });
    pods.create(&PostParams::default(), &pod("crash", Some(Behavior::CrashLoop), &annotations, "Always"))
        .await
        .unwrap();
    let twice = wait_for(&pods, "crash", "two restarts and waiting", |pod| {
        first_container(pod).is_some_and(|container| {
            let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
            container.restart_count >= 2
                && waiting.is_some_and(|w| w.reason.as_deref() == Some("CrashLoopBackOff"))
        })
    })
    .await;
    let container = first_container(&twice).unwrap();
    let last = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.message.as_deref()), (137, Some("said \"no\"")));
    assert!(!is_ready(&twice));
}

#[tokio::test]
async fn jobs_succeed_fail_and_hang() {
    let (control_plane, namespace) = with_nodes().await;
    let jobs: Api<Job> = Api::namespaced(control_plane.admin(), &namespace);
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    let failure = json!({ EXIT_CODE: "3", MESSAGE: "no such table", FINISH_AFTER: "1s" });
    for object in [
        job("good", None, &json!({}), "Never"),
        job("bad", Some(Behavior::JobFails), &failure, "Never"),
        job("bad-in-place", Some(Behavior::JobFails), &failure, "OnFailure"),
        job("hangs", Some(Behavior::JobHangs), &json!({}), "Never"),
    ] {
        jobs.create(&PostParams::default(), &object).await.unwrap();
    }
    let has = |name: &'static str, kind: &'static str| {
        let jobs = jobs.clone();
        async move {
            eventually(&format!("{name} is {kind}"), || async {
                let conditions = jobs.get(name).await.ok()?.status?.conditions?;
                conditions.iter().any(|c| c.type_ == kind && c.status == "True").then_some(())
            })
            .await;
        }
    };
    tokio::join!(has("good", "Complete"), has("bad", "Failed"), has("bad-in-place", "Failed"));

    let failed = pods.list(&ListParams::default().labels("job-name=bad")).await.unwrap();
    let ended =
        first_container(&failed.items[0]).unwrap().state.as_ref().unwrap().terminated.clone().unwrap();
    assert_eq!((ended.exit_code, ended.message.as_deref()), (3, Some("no such table")));
    assert_eq!(phase(&failed.items[0]), "Failed");

    let hanging = jobs.get("hangs").await.unwrap().status.unwrap();
    assert_eq!((hanging.active, hanging.succeeded, hanging.failed), (Some(1), None, None));
    jobs.delete("hangs", &DeleteParams::background()).await.unwrap();
    eventually("the pod of the deleted Job is gone", || async {
        let left = pods.list(&ListParams::default().labels("job-name=hangs")).await.ok()?;
        left.items.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn deployments_become_available_and_scale_down() {
    let (control_plane, namespace) = with_nodes().await;
    let deployments: Api<Deployment> = Api::namespaced(control_plane.admin(), &namespace);
    let object: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "example" }] },
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &object).await.unwrap();
    eventually("three replicas", || async {
        (deployments.get("web").await.ok()?.status?.available_replicas? == 3).then_some(())
    })
    .await;
    let patch = kube::api::Patch::Merge(json!({ "spec": { "replicas": 1 } }));
    deployments.patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(control_plane.admin(), &namespace);
    eventually("one pod", || async {
        (pods.list(&ListParams::default()).await.ok()?.items.len() == 1).then_some(())
    })
    .await;
}
