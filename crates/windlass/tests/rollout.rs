//! `windlass rollout` on a real API server, as people meet it. No controller runs here: what it would do is written by
//! the tests, so that each verb is seen alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use support::{bench::Bench, root, told};
use windlass_api::rollout::Rollout;

impl Bench {
    /// Runs a verb of Rollouts on the namespace.
    async fn verb(&self, args: &[&str]) -> String {
        self.run(&[&["rollout"], args].concat()).await
    }

    /// Runs a verb that has to work.
    async fn done(&self, args: &[&str]) -> String {
        let told = self.verb(args).await;
        assert!(told.starts_with("exit code: 0\n"), "{args:?}: {told}");
        told
    }

    /// Runs a verb that has to be refused.
    async fn refused(&self, args: &[&str]) -> String {
        let told = self.verb(args).await;
        assert!(told.starts_with("exit code: 1\n") && told.contains("error:"), "{args:?}: {told}");
        told
    }

    fn rollouts(&self) -> Api<Rollout> {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    async fn get(&self, name: &str) -> Rollout {
        self.rollouts().get(name).await.unwrap()
    }

    async fn create(&self, name: &str, spec: &Value, status: &Value) -> Rollout {
        let object = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": name }, "spec": spec,
        });
        self.rollouts()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
        self.status(name, status).await
    }

    /// What a controller would write.
    async fn status(&self, name: &str, status: &Value) -> Rollout {
        let patch = json!({ "status": status });
        self.rollouts().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap()
    }

    /// A `ReplicaSet` of a revision, as the controller makes it.
    async fn replica_set(&self, rollout: &Rollout, hash: &str, revision: i64, image: &str) {
        let labels = json!({ "app": "web", "windlass.dev/pod-template-hash": hash });
        let object = json!({
            "metadata": {
                "name": format!("{}-{hash}", rollout.name_any()), "labels": labels,
                "annotations": { "windlass.dev/revision": revision.to_string() },
                "ownerReferences": [{
                    "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "name": rollout.name_any(),
                    "uid": rollout.uid(), "controller": true,
                }],
            },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "app", "image": image }] },
                },
            },
        });
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), self.namespace.name());
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
}

fn spec() -> Value {
    json!({
        "replicas": 5,
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "image": "shop/web:2" }] },
        },
        "strategy": { "canary": { "steps": [{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }] } },
    })
}

fn paused() -> Value {
    json!({
        "observedGeneration": 1, "phase": "Paused", "currentStepIndex": 1, "step": "1/3", "weight": 20,
        "currentPodHash": "new1", "stableRS": "old1", "revision": 2, "controllerPause": true,
        "pauseConditions": [{ "reason": "CanaryPauseStep", "startTime": "2026-03-01T11:58:30.000000Z" }],
        "replicas": 6, "updatedReplicas": 1, "readyReplicas": 6, "availableReplicas": 6,
    })
}

#[tokio::test]
async fn each_control_verb_is_written_to_the_status_and_recorded_with_who_asked() {
    let bench = Bench::new("rollout-verbs").await;
    bench.create("web", &spec(), &paused()).await;
    assert!(bench.done(&["promote", "web"]).await.contains("rollout.windlass.dev/web: promoted"));
    let status = bench.get("web").await.status.unwrap();
    assert!(
        status.pause_conditions.is_empty() && status.controller_pause,
        "the controller takes it from here"
    );
    let control = status.controls.last().unwrap();
    assert_eq!((control.verb.as_str(), control.revision), ("promote", Some(2)));
    let by = control.by.clone().unwrap();
    assert!(!by.is_empty() && !by.contains("unknown"), "{by}");

    bench.status("web", &paused()).await;
    bench.done(&["promote", "web", "--full"]).await;
    assert!(bench.get("web").await.status.unwrap().promote_full);

    bench.done(&["abort", "web"]).await;
    assert!(bench.get("web").await.status.unwrap().abort);
    assert!(bench.refused(&["abort", "web"]).await.contains("is aborted already"));
    assert!(bench.refused(&["promote", "web"]).await.contains("hint: Try the update again with"));
    bench.done(&["retry", "web"]).await;
    assert!(!bench.get("web").await.status.unwrap().abort);
    assert!(bench.refused(&["retry", "web"]).await.contains("nothing to retry"));

    bench.done(&["pause", "web"]).await;
    assert!(bench.get("web").await.spec.paused);
    bench.done(&["resume", "web"]).await;
    assert!(!bench.get("web").await.spec.paused);

    bench.done(&["restart", "web", "--in", "1h"]).await;
    assert!(bench.get("web").await.spec.restart_at.is_some());

    bench.done(&["set-image", "web", "app=shop/web:3"]).await;
    let rollout = bench.get("web").await;
    let image = rollout.spec.template.as_ref().unwrap().pointer("/spec/containers/0/image").cloned();
    assert_eq!(image, Some(json!("shop/web:3")));
    assert!(bench.refused(&["set-image", "web", "ap=x"]).await.contains("Did you mean `app`?"));
    let controls = rollout.status.unwrap().controls;
    let verbs: Vec<&str> = controls.iter().map(|control| control.verb.as_str()).collect();
    let wanted = ["promote", "promote-full", "abort", "retry", "pause", "resume", "restart", "set-image"];
    assert_eq!(verbs, wanted, "what was refused is not recorded");
    assert_eq!(controls.last().unwrap().note.as_deref(), Some("app=shop/web:3"));
    let history = bench.done(&["history", "web"]).await;
    assert!(history.contains("Who asked for what:") && history.contains(&by), "{history}");
}

#[tokio::test]
async fn a_verb_that_makes_no_sense_changes_nothing() {
    let bench = Bench::new("rollout-refused").await;
    let mut done = paused();
    for (field, value) in
        [("phase", json!("Completed")), ("stableRS", json!("new1")), ("pauseConditions", json!([]))]
    {
        done[field] = value;
    }
    bench.create("web", &spec(), &done).await;
    let before = bench.get("web").await;
    for verb in ["promote", "abort", "retry", "resume", "undo"] {
        bench.refused(&[verb, "web"]).await;
    }
    assert!(bench.refused(&["promote", "wbe"]).await.contains("Did you mean `web`?"));
    assert_eq!(bench.get("web").await.resource_version(), before.resource_version());
}

#[tokio::test]
async fn a_status_that_moves_meanwhile_is_never_overwritten() {
    let bench = Bench::new("rollout-race").await;
    bench.create("web", &spec(), &paused()).await;
    // A controller that writes all the time.
    let (api, stop) = (bench.rollouts(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let writer = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let patch = json!({ "status": { "message": number.to_string() } });
                api.patch_status("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            }
            number
        }
    });
    bench.done(&["abort", "web"]).await;
    bench.done(&["retry", "web"]).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let last = writer.await.unwrap();
    let status = bench.get("web").await.status.unwrap();
    assert_eq!(status.message, Some(last.to_string()));
    assert_eq!(status.controls.len(), 2);
    assert_eq!(status.pause_conditions.len(), 1, "only what the verb is about was written");
}

#[tokio::test]
async fn undo_copies_the_template_of_an_earlier_revision() {
    let bench = Bench::new("rollout-undo").await;
    let rollout = bench.create("web", &spec(), &paused()).await;
    for (hash, revision, image) in
        [("aaa", 1, "shop/web:0"), ("old1", 2, "shop/web:1"), ("new1", 3, "shop/web:2")]
    {
        bench.replica_set(&rollout, hash, revision, image).await;
    }
    let image = async || {
        let template = bench.get("web").await.spec.template.unwrap();
        assert!(template.pointer("/metadata/labels/windlass.dev~1pod-template-hash").is_none(), "{template}");
        template.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap().to_owned()
    };
    assert!(bench.done(&["undo", "web"]).await.contains("goes back to revision 2"));
    assert_eq!(image().await, "shop/web:1");
    bench.done(&["undo", "web", "--to-revision", "1"]).await;
    assert_eq!(image().await, "shop/web:0");
    assert!(bench.refused(&["undo", "web", "--to-revision", "9"]).await.contains("There are: 3, 2, 1"));
    let tree = bench.done(&["get", "web"]).await;
    assert!(tree.contains("ReplicaSet web-old1") && tree.contains("stable"), "{tree}");
}

#[tokio::test]
async fn undo_and_set_image_change_the_workload_that_is_referred_to() {
    let bench = Bench::new("rollout-workload").await;
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "metadata": { "name": "web-deploy" },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "app", "image": "shop/web:2" }] } },
        },
    });
    let api: Api<Deployment> = Api::namespaced(bench.client.clone(), bench.namespace.name());
    api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let mut spec = spec();
    spec.as_object_mut().unwrap().remove("template");
    spec["workloadRef"] = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web-deploy" });
    let rollout = bench.create("web", &spec, &paused()).await;
    bench.replica_set(&rollout, "old1", 1, "shop/web:1").await;
    bench.replica_set(&rollout, "new1", 2, "shop/web:2").await;
    let image = async || {
        let spec = api.get("web-deploy").await.unwrap().spec.unwrap().template.spec.unwrap();
        spec.containers[0].image.clone().unwrap()
    };
    bench.done(&["set-image", "web", "app=shop/web:3"]).await;
    assert_eq!(image().await, "shop/web:3");
    bench.done(&["undo", "web"]).await;
    assert_eq!(image().await, "shop/web:1");
    api.delete("web-deploy", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_exit_code_of_status_says_how_it_fares() {
    let bench = Bench::new("rollout-status").await;
    bench.create("web", &spec(), &paused()).await;
    let code = async |args: &[&str]| bench.verb(args).await.lines().next().unwrap().to_owned();
    assert_eq!(code(&["status", "web"]).await, "exit code: 4");
    assert_eq!(code(&["status", "web", "--watch", "--timeout", "1s"]).await, "exit code: 4");
    bench.status("web", &json!({ "phase": "Progressing", "pauseConditions": null })).await;
    assert_eq!(code(&["status", "web"]).await, "exit code: 3");
    assert_eq!(code(&["status", "web", "--watch", "--timeout", "1s"]).await, "exit code: 3");
    bench
        .status("web", &json!({ "phase": "Failed", "abort": true, "message": "Metric errors failed" }))
        .await;
    assert_eq!(code(&["status", "web", "--watch"]).await, "exit code: 1");
    let mut command = bench.command(&[
        "rollout",
        "status",
        "web",
        "--watch",
        "--timeout",
        "60s",
        "-n",
        bench.namespace.name(),
    ]);
    bench.status("web", &json!({ "phase": "Progressing", "abort": null })).await;
    let watching = tokio::task::spawn_blocking(move || told(&command.output().unwrap()));
    bench.status("web", &json!({ "phase": "Completed", "stableRS": "new1" })).await;
    let told = watching.await.unwrap();
    assert!(told.starts_with("exit code: 0\n") && told.contains("Completed"), "{told}");
    let list = bench.done(&["list"]).await;
    assert!(list.contains("SET-WEIGHT") && list.contains("Canary") && list.contains("Completed"), "{list}");
}

fn offline(args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    told(&support::windlass(home.path()).current_dir(root()).arg("rollout").args(args).output().unwrap())
}

#[test]
fn the_examples_have_no_findings() {
    for name in ["canary", "blue-green", "checkout", "gateway"] {
        let file = format!("examples/rollouts/{name}.yaml");
        let told = offline(&["lint", "-f", &file, "--strict"]);
        assert!(told.starts_with("exit code: 0\n") && told.contains("nothing is wrong"), "{name}: {told}");
    }
}

#[test]
fn lint_tells_every_fault_by_its_field_and_looks_up_what_is_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let yaml = std::fs::read_to_string(root().join("examples/rollouts/gateway.yaml")).unwrap();
    let wrong = yaml.replace("selector: { app: api }", "selector: { app: other }");
    std::fs::write(&file, wrong.replace("httpRoute: api\n", "httpRoute: api\n        istio: {}\n")).unwrap();
    let told = offline(&["lint", "-f", file.to_str().unwrap()]);
    assert!(told.starts_with("exit code: 1\n") && told.contains("istio"), "{told}");
    std::fs::write(&file, wrong).unwrap();
    let told = offline(&["lint", "-f", file.to_str().unwrap()]);
    assert!(told.contains("WrongSelector") && told.contains("app=other"), "{told}");
    let template = "apiVersion: windlass.dev/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: t}\nspec:\n  metrics:\n  - name: m\n    count: 3\n    successCondition: result >\n    provider: {datadog: {query: x}}\n";
    std::fs::write(&file, template).unwrap();
    let told = offline(&["lint", "-f", file.to_str().unwrap()]);
    for word in ["spec.metrics[0]: count is more than 1", "successCondition", "datadog"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn simulate_shows_a_rollout_as_table_chart_drawing_and_json() {
    let base = ["simulate", "-f", "examples/rollouts/canary.yaml", "--series", "examples/rollouts/bad.csv"];
    let with = |more: &[&str]| offline(&[&base[..], more].concat());
    let table = with(&[]);
    assert!(
        table.starts_with("exit code: 0\n")
            && table.contains("Aborted after")
            && table.contains("at step 3/4"),
        "{table}"
    );
    assert!(with(&["-o", "chart"]).contains("share of the new version"));
    assert!(with(&["-o", "svg"]).contains("<svg"));
    assert!(with(&["-o", "json"]).contains("\"end\": \"aborted\""));
    let told =
        offline(&["simulate", "-f", "examples/rollouts/canary.yaml", "--series", "examples/README.md"]);
    assert!(told.starts_with("exit code: 1\n") && told.contains("is no table of series"), "{told}");
}
