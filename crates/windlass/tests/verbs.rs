//! The verbs that talk to the hub, on a real control plane: what kubectl and the API server make of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use support::{WINDLASS, bench::Bench, controller::SOON, eventually, told};
use windlass_api::{
    Application, Cluster,
    application::{APPROVE_ANNOTATION, PIN_ANNOTATION, SYNC_ANNOTATION, status::Pin},
};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    tools::{self, Tool},
};

const HEAD: &str = "aa11000000000000000000000000000000000009";
const BEFORE: &str = "bb22000000000000000000000000000000000009";
const GOOD: &str = "cc33000000000000000000000000000000000009";

impl Bench {
    fn apps(&self) -> Api<Application> {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    async fn create(&self, name: &str, status: &Value) -> Application {
        let app = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Application", "metadata": { "name": name },
            "spec": {
                "source": { "repoURL": "https://git.example/shop.git", "path": "deploy" },
                "destinations": [{ "cluster": "in-cluster" }],
            },
        });
        self.apps().create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
        self.status(name, status).await
    }

    /// What a controller would write.
    async fn status(&self, name: &str, status: &Value) -> Application {
        let patch = json!({ "status": status });
        self.apps().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap()
    }

    async fn annotation(&self, name: &str, key: &str) -> Option<String> {
        self.apps().get(name).await.unwrap().annotations().get(key).cloned()
    }
}

fn ready(truth: &str, reason: &str, message: &str) -> Value {
    json!([{
        "type": "Ready", "status": truth, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": "2026-03-01T11:50:00Z",
    }])
}

fn healthy() -> Value {
    json!({
        "observedGeneration": 1, "phase": "Healthy", "clusterSummary": "1/1",
        "sync": { "status": "Synced", "revision": HEAD, "shortRevision": "main@aa11000000" },
        "health": { "status": "Healthy" },
        "conditions": ready("True", "Healthy", "Everything runs."),
        "clusters": [{ "name": "in-cluster", "sync": "Synced", "health": "Healthy", "revision": HEAD }],
        "history": [
            { "id": 3, "revision": HEAD, "result": "Succeeded" },
            { "id": 2, "revision": BEFORE, "result": "Failed" },
            { "id": 1, "revision": GOOD, "result": "Succeeded" },
        ],
        "movements": [{ "from": BEFORE, "to": HEAD, "by": "dev-a", "forced": true, "at": "2026-03-01T11:50:00Z" }],
    })
}

#[tokio::test]
async fn get_shows_what_kubectl_shows_and_more() {
    let bench = Bench::new("verbs-get").await;
    assert!(bench.run(&["get", "apps"]).await.contains("no resources found in verbs-get"));
    bench.create("web", &healthy()).await;
    bench.create("api", &json!({ "phase": "Pending", "sync": {}, "health": {} })).await;
    let table = bench.run(&["get", "apps"]).await;
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2], ["NAME", "PHASE", "SYNC", "HEALTH", "REVISION", "CLUSTERS", "AGE"], "{table}");
    assert_eq!(lines[3][..6], ["api", "Pending", "Unknown", "Unknown", "<none>", "<none>"], "{table}");
    assert_eq!(lines[4][..6], ["web", "Healthy", "Synced", "Healthy", "main@aa11000000", "1/1"], "{table}");
    // kubectl's own view of the same object.
    let kubectl = Command::new(tools::path(Tool::Kubectl).unwrap())
        .args(["get", "wapp", "web", "-n", bench.namespace.name(), "--kubeconfig"])
        .arg(&bench.kubeconfig)
        .output()
        .unwrap();
    let kubectl = told(&kubectl);
    for word in ["NAME", "PHASE", "web", "Healthy", "Synced", "main@aa11000000", "1/1"] {
        assert!(kubectl.contains(word), "{word}: {kubectl}");
    }
    assert!(bench.run(&["get", "app", "web", "-o", "name"]).await.contains("application.windlass.dev/web\n"));
    let output =
        bench.command(&["get", "app", "web", "-o", "json", "-n", bench.namespace.name()]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["kind"], &json["status"]["sync"]["revision"]), (&json!("Application"), &json!(HEAD)));
    assert!(json["metadata"]["managedFields"].is_null());
    let output =
        bench.command(&["get", "apps", "-o", "yaml", "-n", bench.namespace.name()]).output().unwrap();
    let list: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let everywhere = told(&bench.command(&["get", "apps", "-A", "-o", "wide"]).output().unwrap());
    assert!(everywhere.contains("NAMESPACE") && everywhere.contains(bench.namespace.name()), "{everywhere}");
    let described = bench.run(&["describe", "app", "web"]).await;
    assert!(described.contains("Repository:  https://git.example/shop.git"), "{described}");
}

#[tokio::test]
async fn a_watch_shows_changes_until_nobody_reads_any_more() {
    let bench = Bench::new("verbs-watch").await;
    bench.create("web", &healthy()).await;
    let mut command = bench.command(&["get", "apps", "--watch", "-n", bench.namespace.name()]);
    let out = bench.home.path().join("out");
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let seen = |word: &'static str| {
        let out = out.clone();
        eventually("the watch shows it", SOON, move || {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            std::future::ready(if text.contains(word) { Ok(()) } else { Err(text) })
        })
    };
    seen("Healthy").await;
    bench.status("web", &json!({ "phase": "Degraded" })).await;
    seen("Degraded").await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn wrong_names_get_the_one_that_was_meant() {
    let bench = Bench::new("verbs-wrong").await;
    bench.create("checkout", &healthy()).await;
    for verb in
        [&["describe", "app"][..], &["why"], &["tree"], &["sync"], &["history"], &["undo"], &["approve"]]
    {
        let mut args = verb.to_vec();
        args.push("chekcout");
        let told = bench.run(&args).await;
        assert!(told.starts_with("exit code: 1\n"), "{verb:?}: {told}");
        assert!(told.contains("hint: Did you mean `checkout`?"), "{verb:?}: {told}");
    }
    assert!(bench.run(&["get", "pods"]).await.starts_with("exit code: 2\n"));
}

#[tokio::test]
async fn a_sync_is_asked_for_by_name_and_waited_for() {
    let bench = Bench::new("verbs-sync").await;
    bench.create("web", &healthy()).await;
    let told = bench.run(&["sync", "web"]).await;
    assert!(told.starts_with("exit code: 0\n") && told.contains("sync asked for"), "{told}");
    let first = bench.annotation("web", SYNC_ANNOTATION).await.unwrap();
    let (time, user) = first.split_once(" by ").unwrap();
    assert!(
        time.parse::<jiff::Timestamp>().is_ok() && !user.is_empty() && !user.contains("unknown"),
        "{first}"
    );

    // Asked again, and this time somebody takes it up.
    let waiting = bench.run(&["sync", "web", "--wait", "--timeout", "2m"]);
    let controller = async {
        let request = eventually("the request is there", SOON, || async {
            let now = bench.annotation("web", SYNC_ANNOTATION).await.unwrap();
            if now == first { Err(now) } else { Ok(now) }
        })
        .await;
        let operation = json!({ "revision": HEAD, "digest": "d", "step": "applying on in-cluster" });
        bench.status("web", &json!({ "phase": "Syncing", "operation": operation })).await;
        bench
            .status("web", &json!({ "phase": "Healthy", "operation": null, "lastSyncRequest": request }))
            .await;
    };
    let (told, ()) = tokio::join!(waiting, controller);
    assert!(
        told.starts_with("exit code: 0\n") && told.contains("aa11000000 is applied and healthy"),
        "{told}"
    );

    let late = bench.run(&["sync", "web", "--wait", "--timeout", "1s"]).await;
    assert!(late.starts_with("exit code: 1\n") && late.contains("is not synced within 1s"), "{late}");
    let patch = json!({ "spec": { "suspend": true } });
    bench.apps().patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert!(bench.run(&["sync", "web"]).await.contains("is suspended"));
}

#[tokio::test]
async fn undo_and_rollback_pin_and_unpin() {
    let bench = Bench::new("verbs-undo").await;
    bench.create("web", &healthy()).await;
    let pin = async || -> Option<Pin> {
        bench.annotation("web", PIN_ANNOTATION).await.map(|text| serde_json::from_str(&text).unwrap())
    };
    let told = bench.run(&["undo", "web", "--reason", "broken"]).await;
    assert!(told.contains("aa11000000 is taken back, it goes to bb22000000"), "{told}");
    let undone = pin().await.unwrap();
    assert_eq!((undone.to, undone.excludes.as_str()), (None, HEAD));
    assert_eq!(undone.reason.as_deref(), Some("broken"));
    assert!(undone.by.is_some() && undone.at.is_some());
    assert!(bench.run(&["undo", "web"]).await.contains("is pinned already"));
    assert!(bench.run(&["undo", "web", "--off"]).await.contains("no longer pinned"));
    assert!(pin().await.is_none());
    assert!(bench.run(&["rollback", "web", "--off"]).await.starts_with("exit code: 1\n"));

    let told = bench.run(&["rollback", "web"]).await;
    assert!(told.contains("goes back to cc33000000 (deployment 1)"), "{told}");
    assert_eq!(pin().await.unwrap().to.as_deref(), Some(GOOD));
    let told = bench.run(&["rollback", "web", "2"]).await;
    assert!(told.contains("deployment 2 itself ended as Failed"), "{told}");
    let chosen = pin().await.unwrap();
    assert_eq!((chosen.to.as_deref(), chosen.excludes.as_str()), (Some(BEFORE), HEAD));
    assert!(bench.run(&["rollback", "web", "9"]).await.contains("There are: 3, 2, 1"));
    let history = bench.run(&["history", "web"]).await;
    for part in ["ID   REVISION", "Failed", "The source moved:", "dev-a", "forced"] {
        assert!(history.contains(part), "{part}: {history}");
    }
}

#[tokio::test]
async fn deletions_are_approved_only_as_they_were_shown() {
    let bench = Bench::new("verbs-approve").await;
    bench.create("web", &healthy()).await;
    assert!(bench.run(&["approve", "web", "--yes"]).await.contains("nothing of Application"));
    let approval = json!({ "id": "x1", "deletions": 12, "of": 20, "objects": ["Service shop/old"] });
    bench.status("web", &json!({ "approval": approval })).await;
    // Nobody to ask: nothing happens.
    let told = bench.run(&["approve", "web"]).await;
    assert!(told.starts_with("exit code: 2\n") && told.contains("--yes"), "{told}");
    assert_eq!(bench.annotation("web", APPROVE_ANNOTATION).await, None);
    let told = bench.run(&["approve", "web", "--yes"]).await;
    assert!(told.contains("Service shop/old") && told.contains("and 11 more"), "{told}");
    assert_eq!(bench.annotation("web", APPROVE_ANNOTATION).await.as_deref(), Some("x1"));
    assert!(bench.run(&["approve", "web"]).await.contains("approved already"));
}

#[tokio::test]
async fn why_follows_what_stands_in_the_way() {
    let bench = Bench::new("verbs-why").await;
    bench.create("web", &healthy()).await;
    let told = bench.run(&["why", "web"]).await;
    assert!(told.starts_with("exit code: 0\n") && told.contains("Everything runs as committed."), "{told}");
    let depends = |on: &str| json!({ "spec": { "dependsOn": [{ "name": on }] } });
    for (name, on, reason) in
        [("first", "second", "DependencyNotReady"), ("second", "third", "SourceNotReady")]
    {
        bench.create(name, &json!({})).await;
        bench.apps().patch(name, &PatchParams::default(), &Patch::Merge(&depends(on))).await.unwrap();
        let status = json!({
            "observedGeneration": 2, "phase": "Failed", "conditions": ready("False", reason, &format!("{name} is stuck.")),
        });
        bench.status(name, &status).await;
    }
    let told = bench.run(&["why", "first"]).await;
    assert!(told.starts_with("exit code: 1\n") && !told.contains("error:"), "{told}");
    for part in ["DependencyNotReady", "SourceNotReady: second is stuck.", "third does not exist."] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[tokio::test]
async fn the_tree_shows_live_objects_and_what_they_made() {
    let bench = Bench::new("verbs-tree").await;
    let deployments: Api<Deployment> = Api::namespaced(bench.client.clone(), bench.namespace.name());
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web:1" }] },
            },
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let mut status = healthy();
    let namespace = bench.namespace.name();
    let elsewhere = format!("{namespace}-away");
    status["inventory"] = json!([{ "clusters": ["in-cluster", elsewhere], "objects": [
        format!("apps/v1/Deployment/{namespace}/web"), format!("v1/ConfigMap/{namespace}/gone"),
    ] }]);
    status["clusters"] = json!([
        { "name": "in-cluster", "sync": "Synced", "health": "Healthy" },
        { "name": elsewhere, "sync": "Unknown", "health": "Unknown", "message": "no answer" },
    ]);
    bench.create("web", &status).await;
    let told = eventually("the pod is in the tree", SOON, || async {
        let told = bench.run(&["tree", "web"]).await;
        if told.contains("Pod ") { Ok(told) } else { Err(told) }
    })
    .await;
    for part in
        ["Cluster in-cluster", "Deployment", "ReplicaSet", "ConfigMap", "Missing       it is not there"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        told.contains(&format!("objects on {elsewhere} are not read: there is no Cluster of that name")),
        "{told}"
    );

    // With a Cluster whose kubeconfig may be read, the other one is live too.
    let kubeconfig = std::fs::read_to_string(&bench.kubeconfig).unwrap();
    register(&bench, &elsewhere, &kubeconfig).await;
    let told = bench.run(&["tree", "web", "--cluster", &elsewhere]).await;
    assert!(told.contains("ReplicaSet") && !told.contains("in-cluster"), "{told}");
    let described = told_cluster(&bench, &elsewhere);
    assert!(described.contains(&format!("Secret {namespace}/{elsewhere}")), "{described}");
    assert!(!described.contains("certificate-authority-data"));
    let clusters: Api<Cluster> = Api::all(bench.client.clone());
    clusters.delete(&elsewhere, &DeleteParams::default()).await.unwrap();
    assert!(bench.run(&["tree", "web", "--cluster", "nowhere"]).await.contains("It goes to: in-cluster"));
}

fn told_cluster(bench: &Bench, name: &str) -> String {
    told(&bench.command(&["describe", "cluster", name]).output().unwrap())
}

async fn register(bench: &Bench, name: &str, kubeconfig: &str) {
    let fleet =
        support::fleet::Fleet { client: bench.client.clone(), namespace: bench.namespace.name().to_owned() };
    fleet.register(name, kubeconfig).await;
}

/// A plane of its own: the shared one has the kinds.
#[tokio::test]
async fn without_the_kinds_the_way_to_install_them_is_told() {
    let plane = ControlPlane::builder().name("verbs-bare").start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = plane.kubeconfig_path(&User::Admin).unwrap();
    for args in [&["get", "apps"][..], &["get", "clusters"], &["why", "web"]] {
        let told = run_bare(home.path(), &kubeconfig, args);
        assert!(told.starts_with("exit code: 1\n"), "{args:?}: {told}");
        assert!(told.contains("windlass crds | kubectl apply --server-side -f -"), "{args:?}: {told}");
    }
    // And then it works.
    let crds = Command::new(WINDLASS).arg("crds").output().unwrap().stdout;
    let file = home.path().join("crds.yaml");
    std::fs::write(&file, crds).unwrap();
    let kubectl = Command::new(tools::path(Tool::Kubectl).unwrap())
        .args(["apply", "--server-side", "-f"])
        .arg(&file)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap();
    assert!(kubectl.status.success(), "{}", told(&kubectl));
    eventually("the kinds are served", Duration::from_secs(60), || async {
        let told = run_bare(home.path(), &kubeconfig, &["get", "apps", "-A"]);
        if told.starts_with("exit code: 0\n") { Ok(()) } else { Err(told) }
    })
    .await;
}

fn run_bare(home: &Path, kubeconfig: &Path, args: &[&str]) -> String {
    let mut command = support::windlass(home);
    command.args(args).arg(format!("--kubeconfig={}", kubeconfig.display()));
    told(&command.output().unwrap())
}
