//! The Experiment controller on a real control plane with simulated nodes.

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Service};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{AnalysisRun, AnalysisTemplate, Experiment, analysis::Phase};
use windlass_testbed::prometheus::Prometheus;

use super::house::house;

fn template(name: &str, more: Value) -> Value {
    let mut template = json!({ "name": name, "replicas": 2, "selector": { "matchLabels": { "app": name } }, "template": {
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "example/app:1", "ports": [{ "containerPort": 8080 }] }] } } });
    template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    template
}

fn is(phase: Phase) -> impl Fn(&Experiment) -> bool {
    move |experiment| experiment.status.as_ref().is_some_and(|status| status.phase == phase)
}

#[tokio::test]
async fn an_experiment_runs_is_measured_and_leaves_nothing_behind() {
    let house = house().await;
    let namespace = house.namespace("experiment").await;
    let server = Prometheus::start(&[]).await.unwrap();
    let metric = json!({ "name": "m", "successCondition": "result[0] == 1", "interval": "1s", "count": 2,
        "provider": { "prometheus": { "address": server.url(), "query": "vector({{args.one}}) # {{args.hash}}" } } });
    let checks = json!({ "spec": { "args": [{ "name": "one", "value": "1" }, { "name": "hash" }], "metrics": [metric] } });
    house.make::<AnalysisTemplate>(&namespace, "checks", checks).await;
    let analyses = json!([{ "name": "check", "templateName": "checks", "requiredForCompletion": true,
        "args": [{ "name": "hash", "value": "{{templates.new.podTemplateHash}}" }] }]);
    let spec = json!({ "spec": { "templates": [template("old", json!({})), template("new", json!({ "service": { "name": "new-svc" } }))],
        "analyses": analyses, "scaleDownDelaySeconds": 2 } });
    house.make::<Experiment>(&namespace, "side", spec).await;

    let running = house
        .wait(&namespace, "side", "is available", |it: &Experiment| {
            it.status.as_ref().is_some_and(|status| status.available_at.is_some())
        })
        .await;
    let sets: Api<ReplicaSet> = house.api(&namespace);
    for name in ["side-old", "side-new"] {
        let set = sets.get(name).await.unwrap();
        assert_eq!(set.owner_references()[0].uid, running.uid().unwrap());
        assert!(set.labels().contains_key("windlass.dev/pod-template-hash"));
    }
    let service: Service = house.wait(&namespace, "new-svc", "is there", |_| true).await;
    let hash = running.status.as_ref().unwrap().template_statuses[1].pod_template_hash.clone().unwrap();
    assert_eq!(service.spec.unwrap().selector.unwrap()["windlass.dev/pod-template-hash"], hash);

    let done = house.wait(&namespace, "side", "succeeds", is(Phase::Successful)).await;
    let run = &done.status.unwrap().analysis_runs[0];
    let made: AnalysisRun = house.wait(&namespace, &run.analysis_run, "is there", |_| true).await;
    assert_eq!(
        made.spec.args.iter().find(|arg| arg.name == "hash").unwrap().value.as_deref(),
        Some(hash.as_str())
    );
    for name in ["side-old", "side-new"] {
        house
            .wait(&namespace, name, "has no pods", |set: &ReplicaSet| {
                set.status.as_ref().is_some_and(|status| status.replicas == 0)
            })
            .await;
    }
    house.gone::<Service>(&namespace, "new-svc").await;
}

#[tokio::test]
async fn a_failed_analysis_fails_the_experiment_and_its_pods_go() {
    let house = house().await;
    let namespace = house.namespace("experiment").await;
    let server = Prometheus::start(&[]).await.unwrap();
    let metric = json!({ "name": "m", "failureCondition": "result[0] == 1",
        "provider": { "prometheus": { "address": server.url(), "query": "vector(1)" } } });
    house.make::<AnalysisTemplate>(&namespace, "bad", json!({ "spec": { "metrics": [metric] } })).await;
    let spec = json!({ "spec": { "templates": [template("a", json!({}))], "scaleDownDelaySeconds": 0,
        "analyses": [{ "name": "check", "templateName": "bad" }] } });
    house.make::<Experiment>(&namespace, "bad", spec).await;
    let failed = house.wait(&namespace, "bad", "fails", is(Phase::Failed)).await;
    assert!(failed.status.unwrap().message.contains("failureLimit"));
    house
        .wait(&namespace, "bad-a", "has no pods", |set: &ReplicaSet| {
            set.status.as_ref().is_some_and(|status| status.replicas == 0)
        })
        .await;
}

#[tokio::test]
async fn an_experiment_is_ended_by_hand_and_a_foreign_replica_set_is_never_taken() {
    let house = house().await;
    let namespace = house.namespace("experiment").await;
    let spec = json!({ "spec": { "templates": [template("a", json!({}))], "scaleDownDelaySeconds": 0 } });
    house.make::<Experiment>(&namespace, "endless", spec).await;
    house.wait(&namespace, "endless", "runs", is(Phase::Running)).await;
    let experiments: Api<Experiment> = house.api(&namespace);
    experiments
        .patch("endless", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "terminate": true } })))
        .await
        .unwrap();
    house.wait(&namespace, "endless", "succeeds", is(Phase::Successful)).await;
    house
        .wait(&namespace, "endless-a", "has no pods", |set: &ReplicaSet| {
            set.status.as_ref().is_some_and(|status| status.replicas == 0)
        })
        .await;

    let foreign = json!({ "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "x" } }, "template": {
        "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "x" }] } } } });
    let before = house.make::<ReplicaSet>(&namespace, "clash-a", foreign).await;
    house
        .make::<Experiment>(
            &namespace,
            "clash",
            json!({ "spec": { "templates": [template("a", json!({}))] } }),
        )
        .await;
    let failed = house.wait(&namespace, "clash", "fails", is(Phase::Error)).await;
    assert!(failed.status.unwrap().message.contains("belongs to somebody else"));
    let sets: Api<ReplicaSet> = house.api(&namespace);
    assert_eq!(sets.get("clash-a").await.unwrap().spec, before.spec);
}

#[tokio::test]
async fn a_template_that_the_api_refuses_is_told() {
    let house = house().await;
    let namespace = house.namespace("experiment").await;
    let mut bad = template("a", json!({}));
    bad["template"]["spec"]["containers"][0]["name"] = json!("Not A Name");
    house.make::<Experiment>(&namespace, "refused", json!({ "spec": { "templates": [bad] } })).await;
    let failed = house.wait(&namespace, "refused", "fails", is(Phase::Error)).await;
    let message = failed.status.unwrap().message;
    assert!(message.contains("was refused") && message.contains("containers"), "{message}");
}
