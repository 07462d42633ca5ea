//! `AnalysisRun`s and Experiments under the simulation: two replicas with leader election, and every fault that the API may
//! show. What is measured is on paper, so that a run with faults has to end like one without.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass_api::{
    AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate, Experiment,
    analysis::{Measurement, Phase},
    condition::whole_seconds,
};
use windlass_cluster::{clock::Clock, drive::Options};
use windlass_rollout::{
    analysis::{
        AnalysisController, AnalysisMetrics,
        measure::{Meter, Question},
        plan::Answer,
    },
    experiment::ExperimentController,
};
use windlass_testbed::sim::{
    self, Compare, Faults, Instance, World,
    api::Next,
    invariants::{self, Confines, Secrets, Stable},
};

use crate::wiring;

const HOME: &str = "shop";
const RESYNC: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(150);
const CANARY: &str = "canary-77aa";

/// A meter whose query says what each measurement comes to: `Successful Failed` is a success, then failures for ever.
struct Paper {
    clock: Clock,
}

impl Meter for Paper {
    async fn measure(&self, question: Question) -> Answer {
        let started = self.clock.now();
        tokio::time::sleep(Duration::from_millis(40)).await;
        let query = &question.metric.provider.prometheus.as_ref().unwrap().query;
        let words: Vec<&str> = query.split(' ').collect();
        let word = words[(question.attempt as usize - 1).min(words.len() - 1)];
        let phase: Phase = serde_json::from_value(json!(word)).unwrap();
        let stamp = |time| Some(Time(whole_seconds(time)));
        let measurement = Measurement {
            phase,
            value: question.attempt.to_string(),
            started_at: stamp(started),
            finished_at: stamp(self.clock.now()),
            ..Measurement::default()
        };
        Answer { metric: question.metric.name, attempt: question.attempt, measurement, ..Answer::default() }
    }
}

/// One replica with the controllers of runs and of experiments.
async fn replica(instance: Instance) {
    Box::pin(wiring::live(&instance, "windlass.dev/analysis", HOME, |services, stop| {
        let options = || Options { resync: RESYNC, ..Options::default() };
        let (client, clock) = (services.client.clone(), services.clock.clone());
        let meter = Paper { clock: clock.clone() };
        let runs = AnalysisController::new(client.clone(), meter, clock, AnalysisMetrics::default());
        let runs = runs.drive(services.clone(), options());
        let experiments = ExperimentController::new(client).drive(services, options());
        let warm = vec![runs.warm(), experiments.warm()];
        (warm, async move {
            tokio::join!(runs.run(stop.clone()), experiments.run(stop));
        })
    }))
    .await;
}

fn metric(name: &str, phases: &str, more: Value) -> Value {
    let mut metric = json!({ "name": name, "interval": "5s", "count": 3, "provider": { "prometheus": { "address": "http://paper", "query": phases } } });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metric
}

fn run(name: &str, metrics: Value, more: Value) -> Value {
    let mut spec = json!({ "metrics": metrics });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "AnalysisRun", "metadata": { "name": name, "namespace": HOME }, "spec": spec })
}

const RUNS: &str = "/apis/windlass.dev/v1alpha1/namespaces/shop/analysisruns";
const EXPERIMENTS: &str = "/apis/windlass.dev/v1alpha1/namespaces/shop/experiments";

fn prepare(world: &World) -> anyhow::Result<()> {
    for crd in
        [AnalysisRun::crd(), AnalysisTemplate::crd(), ClusterAnalysisTemplate::crd(), Experiment::crd()]
    {
        world.api().install_crd(&crd)?;
    }
    world
        .api()
        .create("user", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } }))?;
    world.api().run_workloads(Duration::from_secs(2));
    // ReplicaSets have as many available pods as they want, after a while.
    world.api().controller("apps/v1", "ReplicaSet", |object, _| {
        let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        let has = object.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or(0);
        let status = json!({ "replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted });
        (has != wanted).then(|| Next { after: Duration::from_secs(3), change: json!({ "status": status }) })
    });
    Ok(())
}

fn phase(world: &World, kind: &str, name: &str) -> Option<String> {
    let object = world.api().get("windlass.dev/v1alpha1", kind, HOME, name)?;
    Some(object.pointer("/status/phase")?.as_str()?.to_owned())
}

async fn scenario(world: World) -> anyhow::Result<()> {
    prepare(&world)?;
    world.start("a", replica);
    world.start("b", replica);
    let user = world.outsider("user");
    let secret = k8s_openapi::ByteString(CANARY.as_bytes().to_vec());
    user.create("/api/v1/namespaces/shop/secrets", &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login", "namespace": HOME }, "data": { "token": secret } })).await?;
    user.create(RUNS, &run("good", json!([metric("m", "Successful", json!({}))]), json!({}))).await?;
    user.create(
        RUNS,
        &run(
            "bad",
            json!([
                metric("m", "Successful Failed", json!({})),
                metric("n", "Successful", json!({ "count": 50 }))
            ]),
            json!({}),
        ),
    )
    .await?;
    user.create(
        RUNS,
        &run(
            "bumpy",
            json!([metric("m", "Error Error Successful", json!({ "consecutiveErrorLimit": 90 }))]),
            json!({}),
        ),
    )
    .await?;
    user.create(
        RUNS,
        &run(
            "short",
            json!([metric("m", "Successful", json!({ "count": 1 }))]),
            json!({ "ttlStrategy": { "secondsAfterCompletion": 20 } }),
        ),
    )
    .await?;
    let mut secret = metric("m", "Successful", json!({ "consecutiveErrorLimit": 90 }));
    secret["provider"]["prometheus"]["headers"] =
        json!([{ "key": "Authorization", "value": "{{args.token}}" }]);
    let args =
        json!([{ "name": "token", "valueFrom": { "secretKeyRef": { "name": "login", "key": "token" } } }]);
    user.create(RUNS, &run("login", json!([secret]), json!({ "args": args }))).await?;
    let job = json!({ "name": "smoke", "consecutiveErrorLimit": 90, "provider": { "job": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "x" }] } } } } } });
    user.create(RUNS, &run("job", json!([job]), json!({}))).await?;
    let template = |name: &str| {
        json!({ "name": name, "replicas": 2, "selector": { "matchLabels": { "app": name } }, "service": {}, "template": {
        "metadata": { "labels": { "app": name } }, "spec": { "containers": [{ "name": "c", "image": "x", "ports": [{ "containerPort": 80 }] }] } } })
    };
    let analysis = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "AnalysisTemplate", "metadata": { "name": "checks", "namespace": HOME },
        "spec": { "metrics": [metric("m", "Successful", json!({}))] } });
    user.create("/apis/windlass.dev/v1alpha1/namespaces/shop/analysistemplates", &analysis).await?;
    let experiment = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Experiment", "metadata": { "name": "side", "namespace": HOME },
        "spec": { "templates": [template("one"), template("two")], "duration": "20s", "scaleDownDelaySeconds": 5,
            "analyses": [{ "name": "check", "templateName": "checks", "requiredForCompletion": true }] } });
    user.create(EXPERIMENTS, &experiment).await?;
    world.sleep(Duration::from_secs(40)).await;
    user.create(RUNS, &run("endless", json!([{ "name": "m", "interval": "5s", "provider": { "prometheus": { "address": "http://paper", "query": "Successful" } } }]), json!({ "terminate": true }))).await?;
    world.sleep(Duration::from_secs(60)).await;
    invariants::eventually_stable(&world, &stable()).await?;

    for (name, wanted) in [
        ("good", "Successful"),
        ("bad", "Failed"),
        ("bumpy", "Successful"),
        ("login", "Successful"),
        ("job", "Successful"),
        ("endless", "Successful"),
        ("side-check", "Successful"),
    ] {
        let found = phase(&world, "AnalysisRun", name);
        anyhow::ensure!(found.as_deref() == Some(wanted), "{name}: {found:?}");
    }
    anyhow::ensure!(phase(&world, "AnalysisRun", "short").is_none(), "its time had come");
    anyhow::ensure!(phase(&world, "Experiment", "side").as_deref() == Some("Successful"), "the experiment");
    for name in ["side-one", "side-two"] {
        let set = world.api().get("apps/v1", "ReplicaSet", HOME, name).unwrap();
        anyhow::ensure!(set["spec"]["replicas"] == 0, "{name} is left");
        anyhow::ensure!(world.api().get("v1", "Service", HOME, name).is_none(), "Service {name} is left");
    }
    check(&world)
}

fn stable() -> Stable {
    let rule = Stable { quiet: QUIET, resync: RESYNC, resyncs: 2, ..Stable::default() };
    rule.allow(|write| write.call.resource == "leases" || write.call.resource == "events")
}

/// What holds at every moment of every run.
fn check(world: &World) -> anyhow::Result<()> {
    invariants::no_panic(world)?;
    invariants::deletes_are_guarded(world, |object| {
        matches!(object["kind"].as_str(), Some("Lease" | "Job" | "AnalysisRun" | "Service"))
    })?;
    let kinds = [
        "analysisruns.windlass.dev",
        "experiments.windlass.dev",
        "jobs.batch",
        "replicasets.apps",
        "services",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
    ];
    invariants::confined(world, &kinds.into_iter().fold(Confines::default(), Confines::kind))?;
    Secrets::planted([CANARY]).nowhere(world, &[], |_| false)
}

/// Times, and errors on the way, may differ. How everything ended may not.
fn compare() -> Compare {
    let rule = Compare::default().objects(|object| {
        let phases: Vec<Value> = object
            .pointer("/status/metricResults")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|result| {
                json!([
                    result["name"],
                    result["phase"],
                    result["count"],
                    result["successful"],
                    result["failed"]
                ])
            })
            .collect();
        if object["kind"] == "AnalysisRun" {
            object["status"] = json!([
                object["status"]["phase"],
                if object["metadata"]["name"] == "bad" { vec![] } else { phases }
            ]);
        } else if object["kind"] == "Experiment" {
            object["status"] =
                json!([object["status"]["phase"], object["status"]["templateStatuses"][0]["status"]]);
        } else if object["kind"] == "ReplicaSet" {
            object["status"] = Value::Null;
        }
        // A Job that was refused on the way is made again under another name.
        object["kind"] != "Job"
    });
    rule.counts(|_| false)
}

#[test]
fn runs_and_experiments_end_alike_under_every_fault() {
    sim::seeds("runs_and_experiments_end_alike_under_every_fault", 6, |seed| {
        let plan = Faults::chaos(seed, &["a", "b"], Duration::from_secs(80));
        sim::compare_with_fault_free(seed, &plan, &compare(), scenario)
    });
}
