//! Rollouts that a real Prometheus judges, with every controller at work.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use windlass_api::{
    AnalysisRun, AnalysisTemplate, Experiment,
    analysis::Phase as Verdict,
    rollout::{POD_TEMPLATE_HASH, status::Phase},
};
use windlass_testbed::prometheus::Prometheus;

use crate::house::{House, template, until};

/// A namespace with a template `errors` that fails above a share of 0.05; the share is an argument.
async fn house(name: &str, server: &Prometheus, more: Value) -> House {
    let house = House::new(name).await;
    let mut metric = json!({ "name": "errors", "successCondition": "result[0] <= 0.05",
        "provider": { "prometheus": { "address": server.url(), "query": "vector({{args.share}})" } } });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    house
        .create::<AnalysisTemplate>(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "AnalysisTemplate", "metadata": { "name": "errors" },
            "spec": { "args": [{ "name": "share" }], "metrics": [metric] },
        }))
        .await;
    house
}

/// An analysis with this share of errors.
fn analysis(share: &str) -> Value {
    json!({ "templates": [{ "templateName": "errors" }], "args": [{ "name": "share", "value": share }] })
}

/// A new version and a new strategy in one change.
async fn update(house: &House, version: &str, strategy: Value) {
    house.patch(json!({ "spec": { "template": template(version), "strategy": strategy } })).await;
}

async fn verdicts(house: &House) -> Vec<Verdict> {
    let runs = house.api::<AnalysisRun>().list(&ListParams::default()).await.unwrap();
    runs.items.into_iter().filter_map(|run| Some(run.status?.phase)).collect()
}

#[tokio::test]
async fn an_inline_analysis_lets_a_good_version_on_and_sends_a_bad_one_back() {
    let server = Prometheus::start(&[]).await.unwrap();
    let house = house("inline", &server, json!({})).await;
    let strategy =
        |share| json!({ "canary": { "steps": [{ "setWeight": 50 }, { "analysis": analysis(share) }] } });
    house.rollout(4, strategy("0.01")).await;
    house.until_done().await;
    assert!(verdicts(&house).await.is_empty(), "the first version is not judged");

    house.set_version("v2").await;
    house.until_done().await;
    assert_eq!(verdicts(&house).await, [Verdict::Successful]);

    update(&house, "v3", strategy("0.4")).await;
    let status = house.until_phase(Phase::Failed).await;
    assert!(status.abort);
    let message = status.message.unwrap_or_default();
    assert!(message.contains("errors"), "{message}");
    house.until_sets(&[("v2", 4)]).await;
    let runs = house.api::<AnalysisRun>().list(&ListParams::default()).await.unwrap();
    let failed = runs
        .items
        .iter()
        .find(|run| run.status.as_ref().is_some_and(|status| status.phase == Verdict::Failed));
    assert_eq!(failed.unwrap().labels()[POD_TEMPLATE_HASH], house.hash("v3").await);
}

#[tokio::test]
async fn a_background_analysis_that_fails_sends_the_version_back_in_the_middle_of_a_pause() {
    let server = Prometheus::start(&[]).await.unwrap();
    let house = house("background", &server, json!({ "interval": "1s", "failureLimit": 1 })).await;
    let strategy = |share| {
        let mut background = analysis(share);
        background["startingStep"] = json!(1);
        json!({ "canary": { "analysis": background, "steps": [{ "setWeight": 25 }, { "pause": {} }] } })
    };
    house.rollout(4, strategy("0.01")).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    until("it is measured", || async { verdicts(&house).await.contains(&Verdict::Running).then_some(()) })
        .await;
    house.promote().await;
    house.until_done().await;
    until("the run has ended with its rollout", || async {
        (verdicts(&house).await == [Verdict::Successful]).then_some(())
    })
    .await;

    update(&house, "v3", strategy("0.4")).await;
    house.until_phase(Phase::Failed).await;
    house.until_sets(&[("v2", 4)]).await;
}

#[tokio::test]
async fn a_blue_green_switch_is_judged_before_and_after() {
    let server = Prometheus::start(&[]).await.unwrap();
    let house = house("switch", &server, json!({})).await;
    house.service("active").await;
    let strategy = |before, after| {
        json!({ "blueGreen": { "activeService": "active", "scaleDownDelaySeconds": 60,
            "prePromotionAnalysis": analysis(before), "postPromotionAnalysis": analysis(after) } })
    };
    house.rollout(2, strategy("0.01", "0.01")).await;
    house.until_done().await;

    update(&house, "v2", strategy("0.4", "0.01")).await;
    house.until_phase(Phase::Failed).await;
    assert_eq!(house.selected("active").await.as_deref(), Some("v1"), "it was switched before it was judged");

    update(&house, "v3", strategy("0.01", "0.4")).await;
    house
        .until_status("the run after the switch has failed", |status| {
            let run = status.blue_green.post_promotion_analysis_run_status.as_ref();
            run.is_some_and(|run| run.status == windlass_api::rollout::status::RunPhase::Failed)
        })
        .await;
    house.until_phase(Phase::Failed).await;
    house.until_selected("active", "v1").await;

    update(&house, "v4", strategy("0.01", "0.01")).await;
    house.until_done().await;
    house.until_selected("active", "v4").await;
}

#[tokio::test]
async fn an_experiment_step_runs_two_versions_side_by_side_and_goes_on() {
    let server = Prometheus::start(&[]).await.unwrap();
    let house = house("experiment", &server, json!({})).await;
    let strategy = |share| {
        let args = json!([{ "name": "share", "value": share }]);
        json!({ "canary": { "steps": [{ "experiment": {
            "duration": 2,
            "templates": [
                { "name": "baseline", "specRef": "stable" },
                { "name": "canary", "specRef": "canary", "metadata": { "labels": { "role": "trial" } } },
            ],
            "analyses": [{ "name": "errors", "templateName": "errors", "requiredForCompletion": true, "args": args }],
        } }] } })
    };
    house.rollout(3, strategy("0.01")).await;
    let stable = house.until_done().await.stable_rs.unwrap();
    house.set_version("v2").await;
    let experiment = until("the experiment runs", || async {
        let all = house.api::<Experiment>().list(&ListParams::default()).await.unwrap();
        all.items.into_iter().find(|one| one.status.as_ref().is_some_and(|s| s.available_at.is_some()))
    })
    .await;
    let name = experiment.name_any();
    for (part, trial) in [("baseline", false), ("canary", true)] {
        let set = house.api::<ReplicaSet>().get(&format!("{name}-{part}")).await.unwrap();
        assert_eq!(set.owner_references()[0].uid, experiment.uid().unwrap());
        assert_ne!(set.labels()[POD_TEMPLATE_HASH], stable, "a Service of the Rollout would reach it");
        let pods = set.spec.unwrap().template.unwrap().metadata.unwrap().labels.unwrap();
        assert_eq!(pods.get("role").map(String::as_str) == Some("trial"), trial);
    }
    let stable = house.until_done().await.stable_rs;

    update(&house, "v3", strategy("0.4")).await;
    let status = house.until_phase(Phase::Failed).await;
    assert!(status.abort);
    assert_eq!(status.stable_rs, stable);
}
