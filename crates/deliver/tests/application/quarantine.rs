//! A Rollout fails: its revision is quarantined, and taken back in the repository where that is asked for.
//!
//! No rollout controller runs here: the tests write the status as it would.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::application::{
    LIFT_ANNOTATION,
    status::{DeploymentResult, Phase, REVERTED},
};
use windlass_testbed::git::Fault;

use crate::house::{House, condition_of, config_map};

const KIND: &str = "windlass.dev/v1alpha1/Rollout";
const USER: &str = "robot";
const PASSWORD: &str = "hush-quarantine";

fn rollout(image: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Rollout\nmetadata: {{name: web}}\nspec:\n  replicas: 1\n  \
         selector: {{matchLabels: {{app: web}}}}\n  strategy: {{canary: {{}}}}\n  template:\n    \
         metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: main, image: 'example.org/web:{image}'}}]}}\n---\n"
    )
}

/// The Rollout as soon as it has this image.
async fn with_image(house: &House, image: &str) -> Value {
    house
        .eventually("the Rollout has the new image", async || {
            let live = house.get(KIND, "web").await?;
            let has = live["spec"]["template"]["spec"]["containers"][0]["image"].as_str()?.ends_with(image);
            has.then_some(live)
        })
        .await
}

/// Writes what the rollout controller would about the newest spec.
async fn told(house: &House, image: &str, mut status: Value) {
    let live = with_image(house, image).await;
    status["observedGeneration"] = live["metadata"]["generation"].clone();
    let patch = json!({ "status": status });
    let api = house.api(KIND, &house.namespace);
    api.patch_status("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

async fn completed(house: &House, image: &str) {
    let status = json!({ "phase": "Completed", "abort": null, "abortedAt": null, "abortReason": null, "message": null });
    told(house, image, status).await;
}

async fn aborted(house: &House, image: &str) {
    with_image(house, image).await;
    // Nothing fails in the second that it begins in.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let now = jiff::Timestamp::now().to_string();
    told(
        house,
        image,
        json!({ "phase": "Failed", "abort": true, "abortedAt": now, "abortReason": "metric errors failed" }),
    )
    .await;
}

/// A good revision runs, with these settings; then a bad one came, and its Rollout failed.
async fn failed(name: &str, sync: Value, prepare: impl FnOnce(&House)) -> (House, String, String) {
    let files = [
        ("deploy/web.yaml", rollout("1")),
        ("deploy/map.yaml", config_map("map", "1")),
        ("other.txt", "1".into()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let house = House::new(name, &files).await;
    house.stack.server.user(USER, PASSWORD);
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "git" },
        "stringData": { "username": USER, "password": PASSWORD },
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(house.admin.clone(), &house.namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    house.app("web", "deploy", json!({ "source": { "secretRef": { "name": "git" } }, "sync": sync })).await;
    completed(&house, "1").await;
    let good = house.repo.tip().unwrap();
    house.healthy_at("web", &good).await;
    prepare(&house);
    let bad = house.push(&[
        ("deploy/web.yaml", Some(&rollout("2"))),
        ("deploy/new.yaml", Some(&config_map("new", "1"))),
        ("other.txt", Some("2")),
    ]);
    aborted(&house, "2").await;
    (house, good, bad)
}

fn messages(house: &House, branch: &str) -> String {
    house.repo.git(&["log", "--format=%H%n%B", branch]).unwrap()
}

#[tokio::test]
async fn a_revision_whose_rollout_fails_is_quarantined_and_not_applied_again() {
    let (house, _, bad) = failed("quarantine", json!({}), |_| ()).await;
    let message = house.says("web", "Quarantined").await;
    assert!(message.contains("metric errors failed"), "{message}");
    let status = house.status("web").await;
    let entry = status.quarantine.unwrap();
    assert_eq!((entry.revision.as_str(), entry.cluster.as_str()), (bad.as_str(), "in-cluster"));
    assert_eq!(entry.object, format!("Rollout {}/web", house.namespace.name()));
    assert_eq!(status.phase, Some(Phase::Degraded));
    assert_eq!(status.history[0].result, DeploymentResult::Failed);
    // Somebody goes back by hand; neither healing nor a sync brings the bad one back.
    let image = |image: &str| json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } } });
    house.meddle("kubectl", KIND, "web", &image("example.org/web:1")).await;
    house.annotate("web", "windlass.dev/sync", "now by bob").await;
    house
        .until("web", "the difference is seen", |status| {
            (!status.clusters[0].differences.is_empty()).then_some(())
        })
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let live = house.get(KIND, "web").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.org/web:1");
    assert_eq!(house.repo.tip().unwrap(), bad, "gitRollback is off");
    // A person lets it pass.
    house.annotate("web", LIFT_ANNOTATION, &format!("{bad} by alice")).await;
    completed(&house, "2").await;
    let status = house.healthy_at("web", &bad).await;
    assert_eq!(status.quarantine.unwrap().lifted.unwrap().by, "alice");
}

#[tokio::test]
async fn the_revert_commit_is_pushed_once_and_becomes_healthy() {
    let (house, good, bad) = failed("revert", json!({ "gitRollback": { "mode": "Commit" } }), |_| ()).await;
    completed(&house, "1").await;
    let revert = house
        .eventually("the revert is pushed", async || {
            house.repo.tip().ok().filter(|tip| *tip != good && *tip != bad)
        })
        .await;
    let status = house.healthy_at("web", &revert).await;
    assert_eq!(status.quarantine, None);
    let log = messages(&house, "main");
    assert_eq!(log.matches(&format!("Windlass-Reverts: {bad}")).count(), 1, "{log}");
    assert!(log.contains("metric errors failed"), "{log}");
    assert_eq!(house.repo.file("deploy/web.yaml").unwrap().unwrap(), rollout("1").into_bytes());
    assert_eq!(house.repo.file("deploy/new.yaml").unwrap(), None);
    assert_eq!(house.repo.file("other.txt").unwrap().unwrap(), b"2", "it is not the Application's");
    house.gone("v1/ConfigMap", "new").await;
}

#[tokio::test]
async fn the_revert_is_pushed_to_a_branch_for_somebody_to_merge() {
    let (house, _, bad) = failed("branch", json!({ "gitRollback": { "mode": "Branch" } }), |_| ()).await;
    let entry = house
        .until("web", "the branch is told", |status| {
            status.quarantine.clone().filter(|entry| entry.revert.is_some())
        })
        .await;
    let revert = entry.revert.unwrap();
    assert_eq!(revert.branch, format!("windlass/revert-web-{}", &bad[..10]));
    assert_eq!(house.repo.tip_of(&revert.branch).unwrap(), revert.commit);
    assert_eq!(house.repo.tip().unwrap(), bad, "main stays");
    assert_eq!(
        house.repo.file_at(&revert.commit, "deploy/web.yaml").unwrap().unwrap(),
        rollout("1").into_bytes()
    );
    house.says("web", "Quarantined").await;
}

#[tokio::test]
async fn a_refused_push_of_a_revert_is_told_with_a_remedy_and_without_credentials() {
    let refuse = |house: &House| house.repo.fault(Fault::RejectPush("main is frozen".into()));
    let (house, _, bad) = failed("refused", json!({ "gitRollback": { "mode": "Commit" } }), refuse).await;
    let message = house
        .until("web", "the refusal is told", |status| {
            let (message, truth, reason) = condition_of(status, REVERTED);
            (truth == "False" && reason == "RevertRefused").then_some(message)
        })
        .await;
    assert!(message.contains("gitRollback.mode to Branch"), "{message}");
    let status = serde_json::to_string(&house.status("web").await).unwrap();
    assert!(!status.contains(PASSWORD), "{status}");
    assert_eq!(house.repo.tip().unwrap(), bad);
    assert_eq!(condition_of(&house.status("web").await, "Quarantined").1, "True");
}
