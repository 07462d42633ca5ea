//! Waves and hooks, as Argo CD's annotations and ours say it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::house::{House, annotated};

pub fn job(name: &str, annotations: &str, behavior: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec:\n  \
         backoffLimit: 0\n  template:\n    metadata: {{labels: {{{behavior}}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: main, image: 'example.org/main:1'}}]}}\n---\n"
    )
}

fn made(object: &Value) -> Timestamp {
    object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn hooks_and_waves_of_argo_cd_run_in_their_order() {
    let files = job("before", "argocd.argoproj.io/hook: PreSync", "")
        + &annotated("first", "argocd.argoproj.io/sync-wave: '-1'")
        + &job("between", "argocd.argoproj.io/sync-wave: '1'", "")
        + &annotated("last", "argocd.argoproj.io/sync-wave: '2'")
        + &job("after", "argocd.argoproj.io/hook: PostSync", "");
    let house = House::new("hooks", &[("all.yaml", &files)]).await;
    house.stack.control_plane.ensure_nodes(1).await.unwrap();
    house.app("ordered", "", json!({})).await;
    let status = house.healthy("ordered").await;
    let before = house.get("batch/v1/Job", "before").await.unwrap();
    let first = house.get("v1/ConfigMap", "first").await.unwrap();
    let between = house.get("batch/v1/Job", "between").await.unwrap();
    let last = house.get("v1/ConfigMap", "last").await.unwrap();
    let after = house.get("batch/v1/Job", "after").await.unwrap();
    for job in [&before, &between, &after] {
        assert_eq!(job["status"]["succeeded"], 1, "{job}");
    }
    let done =
        |job: &Value| -> Timestamp { job["status"]["completionTime"].as_str().unwrap().parse().unwrap() };
    assert!(done(&before) <= made(&first), "the hook before ended before anything was applied");
    assert!(version(&first) < version(&last), "waves are applied in their order");
    assert!(done(&between) <= made(&last), "a wave waits until the one before is healthy");
    assert!(made(&last) <= made(&after), "the hook after comes last");
    assert_eq!(status.history.len(), 1);
}

#[tokio::test]
async fn a_hook_that_fails_stops_the_sync_and_is_named() {
    let files = job("breaks", "argocd.argoproj.io/hook: PreSync", "testbed.windlass.dev/pod: job-fails")
        + &annotated("never", "");
    let house = House::new("hookfail", &[("all.yaml", &files)]).await;
    house.stack.control_plane.ensure_nodes(1).await.unwrap();
    house.app("failing", "", json!({})).await;
    let message = house
        .until("failing", "the hook failed", |status| {
            status.given_up.as_ref().map(|given_up| given_up.message.clone())
        })
        .await;
    assert!(message.contains("breaks"), "{message}");
    assert!(house.get("v1/ConfigMap", "never").await.is_none());
}
