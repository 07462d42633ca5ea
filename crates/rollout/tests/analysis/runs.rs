//! The `AnalysisRun` controller on a real control plane, with a real Prometheus and real Jobs.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Secret},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{AnalysisRun, analysis::Phase};
use windlass_rollout::analysis::job::RUN_UID;
use windlass_testbed::prometheus::{Prometheus, Target};

use super::house::{house, phase};

const DEADLINE: Duration = Duration::from_mins(1);

fn asking(url: &str, query: &str, success: &str, more: Value) -> Value {
    let mut metric = json!({ "name": "m", "successCondition": success,
        "provider": { "prometheus": { "address": url, "query": query } } });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metric
}

#[tokio::test]
async fn a_run_measures_a_real_prometheus_until_it_is_good_or_bad() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let target = Target::start("web").await.unwrap();
    target.set("errors", &[], 1.0);
    let server = Prometheus::start(&[&target]).await.unwrap();
    server.wait_for("errors", |samples| samples.len() == 1, DEADLINE).await.unwrap();

    // Of the last minutes: a scrape that fails on a busy machine leaves a gap.
    let good = asking(
        &server.url(),
        "last_over_time(errors{job=\"{{args.job}}\"}[5m])",
        "result[0] < 5",
        json!({ "interval": "1s", "count": 3 }),
    );
    house
        .make::<AnalysisRun>(
            &namespace,
            "good",
            json!({ "spec": { "metrics": [good], "args": [{ "name": "job", "value": "web" }] } }),
        )
        .await;
    let latest = "last_over_time(errors[5m])";
    let watching = asking(&server.url(), latest, "result[0] < 5", json!({ "interval": "1s" }));
    house.make::<AnalysisRun>(&namespace, "watching", json!({ "spec": { "metrics": [watching] } })).await;

    let status = house.ended(&namespace, "good").await;
    assert_eq!((status.phase, status.metric_results[0].count), (Phase::Successful, 3));
    assert_eq!(status.metric_results[0].measurements[0].value, "[1]");
    assert_eq!(
        status.metric_results[0].metadata["ResolvedPrometheusQuery"],
        "last_over_time(errors{job=\"web\"}[5m])"
    );

    target.set("errors", &[], 50.0);
    let status = house.ended(&namespace, "watching").await;
    assert_eq!(status.phase, Phase::Failed);
    assert!(status.message.contains("failed (1) > failureLimit (0)"), "{}", status.message);
    let events: Api<Event> = Api::namespaced(house.client(), &namespace);
    for _ in 0..300 {
        let found = events.list(&ListParams::default()).await.unwrap();
        if found.iter().any(|event| event.reason.as_deref() == Some("AnalysisRunFailed")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no Event tells of the failure");
}

#[tokio::test]
async fn a_run_can_be_ended_and_goes_when_its_time_has_come() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let server = Prometheus::start(&[]).await.unwrap();
    let metric = asking(&server.url(), "vector(1)", "result[0] == 1", json!({ "interval": "1s" }));
    let spec = json!({ "spec": { "metrics": [metric], "ttlStrategy": { "secondsAfterCompletion": 1 } } });
    house.make::<AnalysisRun>(&namespace, "endless", spec).await;
    let measured = |run: &AnalysisRun| {
        run.status
            .as_ref()
            .is_some_and(|status| status.metric_results.first().is_some_and(|it| it.count >= 2))
    };
    house.wait(&namespace, "endless", "measures", measured).await;
    let runs: Api<AnalysisRun> = house.api(&namespace);
    runs.patch("endless", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "terminate": true } })))
        .await
        .unwrap();
    house.gone::<AnalysisRun>(&namespace, "endless").await;
}

#[tokio::test]
async fn secrets_reach_the_server_and_nothing_else() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let server = Prometheus::start(&[]).await.unwrap();
    server.token("windlass", "planted-secret");
    let metric = asking(&server.url(), "vector(1) * 1 # {{args.token}}", "result[0] == 1", json!({}));
    let mut metric = metric;
    metric["provider"]["prometheus"]["headers"] =
        json!([{ "key": "Authorization", "value": "Bearer {{args.token}}" }]);
    let args =
        json!([{ "name": "token", "valueFrom": { "secretKeyRef": { "name": "login", "key": "token" } } }]);
    house
        .make::<AnalysisRun>(&namespace, "login", json!({ "spec": { "metrics": [metric], "args": args } }))
        .await;
    // The Secret comes late: until then the measurement is an error that names it.
    let waiting = |run: &AnalysisRun| {
        run.status.as_ref().is_some_and(|status| status.metric_results.first().is_some_and(|it| it.error > 0))
    };
    let run = house.wait(&namespace, "login", "misses the Secret", waiting).await;
    assert!(
        run.status.unwrap().metric_results[0].measurements[0].message.contains("Secret login does not exist")
    );
    house.make::<Secret>(&namespace, "login", json!({ "stringData": { "token": "planted-secret" } })).await;
    let status = house.ended(&namespace, "login").await;
    assert_eq!(status.phase, Phase::Successful, "{status:?}");
    let text = serde_json::to_string(&status).unwrap();
    assert!(!text.contains("planted-secret") && text.contains("*****"), "{text}");
}

fn job(command: &str) -> Value {
    json!({ "name": "smoke", "provider": { "job": { "metadata": { "labels": { "team": "shop" } }, "spec": { "backoffLimit": 0, "template": {
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "example/smoke:1", "command": [command] }] } } } } } })
}

async fn finish(name: &str, namespace: &str, condition: &str) {
    let jobs: Api<Job> = house().await.api(namespace);
    let now = jiff::Timestamp::now().to_string();
    let before = if condition == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    let conditions: Vec<Value> = [before, condition]
        .iter()
        .map(|type_| json!({ "type": type_, "status": "True", "reason": "Told", "message": "by the test", "lastProbeTime": now, "lastTransitionTime": now }))
        .collect();
    let mut status =
        json!({ "conditions": conditions, "startTime": now, "active": 0, "ready": 0, "terminating": 0 });
    if condition == "Complete" {
        status["completionTime"] = json!(now);
        status["succeeded"] = json!(1);
    } else {
        status["failed"] = json!(1);
    }
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status })))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_job_measures_is_owned_by_its_run_and_decides() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    for (name, condition, wanted) in
        [("pass", "Complete", Phase::Successful), ("fail", "Failed", Phase::Failed)]
    {
        // A suspended Job is left alone by the cluster: the test says how it ends.
        let mut metric = job("true");
        metric["provider"]["job"]["spec"]["suspend"] = json!(true);
        house.make::<AnalysisRun>(&namespace, name, json!({ "spec": { "metrics": [metric] } })).await;
        let started = |run: &AnalysisRun| {
            run.status.as_ref().is_some_and(|status| {
                status.metric_results.first().is_some_and(|it| !it.measurements.is_empty())
            })
        };
        let run = house.wait(&namespace, name, "starts its Job", started).await;
        let uid = run.uid().unwrap();
        let jobs: Api<Job> = house.api(&namespace);
        let found =
            jobs.list(&ListParams::default().labels(&format!("{RUN_UID}={uid}"))).await.unwrap().items;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].owner_references()[0].uid, uid);
        assert_eq!(found[0].labels()["team"], "shop");
        finish(&found[0].name_any(), &namespace, condition).await;
        let status = house.ended(&namespace, name).await;
        assert_eq!(status.phase, wanted, "{status:?}");
        assert_eq!(status.metric_results[0].measurements[0].metadata["job-name"], found[0].name_any());
    }
}

#[tokio::test]
async fn ending_a_run_deletes_its_job_and_a_foreign_job_is_never_touched() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let jobs: Api<Job> = house.api(&namespace);
    let foreign = json!({ "spec": { "suspend": true, "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "x" }] } } } });
    house.make::<Job>(&namespace, "foreign", foreign).await;
    let mut metric = job("true");
    metric["provider"]["job"]["spec"]["suspend"] = json!(true);
    house.make::<AnalysisRun>(&namespace, "cut", json!({ "spec": { "metrics": [metric] } })).await;
    let started = |run: &AnalysisRun| {
        run.status
            .as_ref()
            .is_some_and(|status| status.metric_results.first().is_some_and(|it| !it.measurements.is_empty()))
    };
    let run = house.wait(&namespace, "cut", "starts its Job", started).await;
    let name = run.status.unwrap().metric_results[0].measurements[0].metadata["job-name"].clone();
    let runs: Api<AnalysisRun> = house.api(&namespace);
    runs.patch("cut", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "terminate": true } })))
        .await
        .unwrap();
    assert_eq!(house.ended(&namespace, "cut").await.phase, Phase::Inconclusive);
    house.gone::<Job>(&namespace, &name).await;

    // Somebody writes the name of another Job into a status.
    house
        .make::<AnalysisRun>(
            &namespace,
            "forged",
            json!({ "spec": { "metrics": [job("true")], "terminate": true } }),
        )
        .await;
    house.ended(&namespace, "forged").await;
    let measurements = json!([{ "phase": "Running", "metadata": { "job-name": "foreign" } }]);
    let status = json!({ "status": { "phase": "Running", "metricResults": [{ "name": "smoke", "phase": "Running", "measurements": measurements }] } });
    runs.patch_status("forged", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    house.ended(&namespace, "forged").await;
    assert!(jobs.get_opt("foreign").await.unwrap().is_some(), "it belongs to somebody else");
}

#[tokio::test]
async fn a_job_that_the_api_refuses_is_an_error_that_says_why() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let mut metric = job("true");
    metric["provider"]["job"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    metric["consecutiveErrorLimit"] = json!(0);
    house.make::<AnalysisRun>(&namespace, "refused", json!({ "spec": { "metrics": [metric] } })).await;
    let status = house.ended(&namespace, "refused").await;
    assert_eq!(status.phase, Phase::Error);
    assert!(status.message.contains("restartPolicy"), "{}", status.message);
}

#[tokio::test]
async fn a_slow_provider_does_not_keep_other_runs_waiting() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let server = Prometheus::start(&[]).await.unwrap();
    let slow = Prometheus::start(&[]).await.unwrap();
    slow.fault(windlass_testbed::prometheus::Fault::Hang);
    for number in 0..30 {
        let mut metric = asking(&slow.url(), "up", "result[0] == 1", json!({}));
        metric["provider"]["prometheus"]["timeout"] = json!(60);
        house
            .make::<AnalysisRun>(
                &namespace,
                &format!("slow-{number}"),
                json!({ "spec": { "metrics": [metric] } }),
            )
            .await;
    }
    let metric = asking(&server.url(), "vector(1)", "result[0] == 1", json!({}));
    house.make::<AnalysisRun>(&namespace, "quick", json!({ "spec": { "metrics": [metric] } })).await;
    assert_eq!(house.ended(&namespace, "quick").await.phase, Phase::Successful);
    let runs: Api<AnalysisRun> = house.api(&namespace);
    let waiting = runs
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .filter(|run| phase(run) == Phase::Running)
        .count();
    assert!(waiting >= 25, "the slow ones are still measured: {waiting}");
    runs.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn unknown_providers_are_kept_by_the_api_and_refused_by_name() {
    let house = house().await;
    let namespace = house.namespace("analysis").await;
    let metric = json!({ "name": "m", "provider": { "datadog": { "query": "avg:x", "interval": "5m" } } });
    house.make::<AnalysisRun>(&namespace, "elsewhere", json!({ "spec": { "metrics": [metric] } })).await;
    let status = house.ended(&namespace, "elsewhere").await;
    assert_eq!(status.phase, Phase::Error);
    assert!(status.message.contains("datadog"), "{}", status.message);
}
