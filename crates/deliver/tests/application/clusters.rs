//! Many clusters: who gets an Application, in which order, and by which replica.

use std::time::Duration;

use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{
    AnalysisRun, AnalysisTemplate, Cluster,
    application::status::{DeploymentResult, HealthWord},
};

use crate::{
    house::{House, config_map, deployment, ready},
    stack::{Make, Stack},
};

const CLUSTER: &str = "windlass.dev/v1alpha1/Cluster";

async fn label(house: &House, cluster: &str, labels: &Value) {
    let api: Api<Cluster> = Api::all(house.admin.clone());
    let patch = json!({ "metadata": { "labels": labels } });
    api.patch(cluster, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test]
async fn a_cluster_that_is_registered_or_labelled_later_gets_the_application_and_one_that_goes_deletes_nothing()
 {
    let house = House::new("select", &[("map.yaml", &config_map("map", "1"))]).await;
    let (east, west) = (house.other_namespace("east").await, house.other_namespace("west").await);
    let test = house.namespace.name();
    let (first, second) = (format!("east-{test}"), format!("west-{test}"));
    let at = |place: &str, namespace: &str| json!({ "selector": { "matchLabels": { "test": test, "place": place } }, "namespace": namespace });
    house.app("web", "", json!({ "destinations": [at("east", &east), at("west", &west)] })).await;
    let message = house.says("web", "NoClusters").await;
    assert!(message.contains("Register or label one"), "{message}");

    house.cluster(&first, &json!({ "test": test, "place": "east" })).await;
    house
        .eventually("the new cluster gets it", async || house.get_in(&east, "v1/ConfigMap", "map").await)
        .await;
    house.cluster(&second, &json!({})).await;
    house.healthy("web").await;
    assert!(house.get_in(&west, "v1/ConfigMap", "map").await.is_none());
    label(&house, &second, &json!({ "test": test, "place": "west" })).await;
    house
        .eventually("the labelled cluster gets it", async || house.get_in(&west, "v1/ConfigMap", "map").await)
        .await;
    house
        .until("web", "both run", |status| (status.cluster_summary.as_deref() == Some("2/2")).then_some(()))
        .await;

    house.delete(CLUSTER, "", &first).await;
    house
        .until("web", "one is left", |status| {
            (status.cluster_summary.as_deref() == Some("1/1")).then_some(())
        })
        .await;
    for namespace in [&east, &west] {
        assert!(house.get_in(namespace, "v1/ConfigMap", "map").await.is_some());
    }
    // A label that no longer matches is a decision: what was delivered there goes.
    label(&house, &second, &json!({ "place": "nowhere" })).await;
    house
        .eventually("what was delivered there goes", async || {
            house.get_in(&west, "v1/ConfigMap", "map").await.is_none().then_some(())
        })
        .await;
    assert!(house.get_in(&east, "v1/ConfigMap", "map").await.is_some(), "the other cluster is not touched");
    house.delete(CLUSTER, "", &second).await;
}

/// Two clusters, one in each wave. The first one bakes for three seconds.
pub async fn waves(name: &str, files: &str, sync: &Value) -> Waves {
    waves_after(name, files, sync, &json!({ "bake": "3s" })).await
}

/// The house, the namespaces and the names of the clusters.
pub type Waves = (House, [windlass_testbed::control_plane::Namespace; 2], [String; 2]);

/// Two clusters, one in each wave. `before` is what has to pass before the second.
async fn waves_after(name: &str, files: &str, sync: &Value, before: &Value) -> Waves {
    let house = House::new(name, &[("all.yaml", files)]).await;
    let spaces = [house.other_namespace("canary").await, house.other_namespace("rest").await];
    let test = house.namespace.name().to_owned();
    let clusters = [format!("canary-{test}"), format!("rest-{test}")];
    house.cluster(&clusters[0], &json!({ "test": test, "ring": "canary" })).await;
    house.cluster(&clusters[1], &json!({ "test": test, "ring": "rest" })).await;
    let mut canary = json!({ "name": "canary", "selector": { "matchLabels": { "ring": "canary" } } });
    canary.as_object_mut().unwrap().extend(before.as_object().unwrap().clone());
    let over = json!({
        "destinations": [
            { "cluster": clusters[0], "namespace": spaces[0].name() },
            { "cluster": clusters[1], "namespace": spaces[1].name() },
        ],
        "progressive": { "waves": [
            canary,
            { "name": "rest", "selector": { "matchLabels": { "ring": "rest" } } },
        ] },
        "sync": sync,
    });
    house.app("web", "", over).await;
    (house, spaces, clusters)
}

pub async fn value(house: &House, namespace: &str) -> Option<String> {
    let live = house.get_in(namespace, "v1/ConfigMap", "map").await?;
    live["data"]["value"].as_str().map(ToOwned::to_owned)
}

#[tokio::test]
async fn waves_go_one_after_the_other_with_a_time_to_bake() {
    let (house, spaces, clusters) = Box::pin(waves("waves", &config_map("map", "1"), &json!({}))).await;
    house.healthy("web").await;
    house.push(&[("all.yaml", Some(&config_map("map", "2")))]);
    house
        .eventually("the first wave has it", async || {
            (value(&house, &spaces[0]).await.as_deref() == Some("2")).then_some(())
        })
        .await;
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("1"), "the second waits");
    let status = house.healthy("web").await;
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("2"));
    let since = |name: &str| {
        let line = status.clusters.iter().find(|line| line.name == name).unwrap();
        (line.wave, line.synced_at.clone().unwrap().0)
    };
    let ((first, canary), (second, rest)) = (since(&clusters[0]), since(&clusters[1]));
    assert_eq!((first, second), (Some(1), Some(2)));
    assert!(rest.duration_since(canary).as_secs() >= 2, "{canary} {rest}");
    for cluster in &clusters {
        house.delete(CLUSTER, "", cluster).await;
    }
}

#[tokio::test]
async fn a_wave_that_fails_is_rolled_back_and_the_next_never_gets_it() {
    let good = config_map("map", "1") + &deployment("web", 0);
    let sync = json!({ "healthTimeout": "4s" });
    let (house, spaces, clusters) = Box::pin(waves("rollback", &good, &sync)).await;
    let first = house.repo.tip().unwrap();
    house.healthy("web").await;
    let stuck =
        deployment("web", 1).replace("spec: {containers", "spec: {nodeSelector: {no: where}, containers");
    let bad = house.push(&[("all.yaml", Some(&(config_map("map", "2") + &stuck)))]);
    let status = house
        .until("web", "it is taken back", |status| {
            let done = status.history.iter().any(|known| known.result == DeploymentResult::RolledBack);
            (done && ready(status).1 == "True" && status.health.status == HealthWord::Healthy)
                .then(|| status.clone())
        })
        .await;
    assert_eq!(value(&house, &spaces[0]).await.as_deref(), Some("1"));
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("1"));
    let pin = status.pin.unwrap();
    assert_eq!((pin.excludes, pin.to), (bad, Some(first)));
    // A commit that mends it ends the pin.
    house.push(&[("all.yaml", Some(&(config_map("map", "3") + &deployment("web", 0))))]);
    let status = house.healthy("web").await;
    assert_eq!(status.pin, None);
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("3"));
    for cluster in &clusters {
        house.delete(CLUSTER, "", cluster).await;
    }
}

/// The run that is under way, once it is made.
async fn run_under_way(house: &House) -> AnalysisRun {
    let api: Api<AnalysisRun> = Api::namespaced(house.admin.clone(), house.namespace.name());
    house
        .eventually("a run is made", async || {
            let runs = api.list(&ListParams::default()).await.unwrap();
            runs.items.into_iter().find(|run| run.status.is_none())
        })
        .await
}

/// What the controller of runs would say of it.
async fn end(house: &House, run: &AnalysisRun, phase: &str, message: &str) {
    let api: Api<AnalysisRun> = Api::namespaced(house.admin.clone(), house.namespace.name());
    let status = json!({ "status": { "phase": phase, "message": message } });
    api.patch_status(&run.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

#[tokio::test]
async fn a_wave_waits_for_the_run_of_its_templates_and_is_taken_back_when_it_fails() {
    let analysis = json!({ "analysis": {
        "templates": [{ "templateName": "checks" }], "args": [{ "name": "service", "value": "shop" }],
    } });
    let (house, spaces, clusters) =
        Box::pin(waves_after("judged", &config_map("map", "1"), &json!({}), &analysis)).await;
    let first = house.repo.tip().unwrap();
    house
        .until("web", "the missing template is told", |status| {
            ready(status).0.contains("AnalysisTemplate checks does not exist").then_some(())
        })
        .await;
    let template = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "AnalysisTemplate", "metadata": { "name": "checks" },
        "spec": { "args": [{ "name": "service" }], "metrics": [{ "name": "errors", "provider": { "prometheus": {
            "address": "http://prometheus.example", "query": "errors{service=\"{{args.service}}\"}" } } }] },
    });
    let templates: Api<AnalysisTemplate> = Api::namespaced(house.admin.clone(), house.namespace.name());
    let template = serde_json::from_value(template).unwrap();
    templates.create(&PostParams::default(), &template).await.unwrap();

    let run = run_under_way(&house).await;
    assert_eq!(run.spec.metrics[0].name, "errors");
    assert_eq!(run.spec.args[0].value.as_deref(), Some("shop"));
    assert_eq!(run.owner_references()[0].name, "web", "it goes with the Application");
    assert_eq!(value(&house, &spaces[1]).await, None, "the second wave waits");
    end(&house, &run, "Successful", "").await;
    house.healthy("web").await;
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("1"));

    let bad = house.push(&[("all.yaml", Some(&config_map("map", "2")))]);
    let run = run_under_way(&house).await;
    assert_eq!(value(&house, &spaces[0]).await.as_deref(), Some("2"));
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("1"));
    house
        .until("web", "it is told what is waited for", |status| {
            ready(status).0.contains(&format!("waits for analysis {}", run.name_any())).then_some(())
        })
        .await;
    end(&house, &run, "Failed", "errors is 3").await;
    let status = house
        .until("web", "it is taken back", |status| {
            let back = status.history.iter().find(|known| known.result == DeploymentResult::RolledBack)?;
            let why = back.message.clone().unwrap_or_default();
            (ready(status).1 == "True" && why.contains("errors is 3")).then(|| status.clone())
        })
        .await;
    assert_eq!(value(&house, &spaces[0]).await.as_deref(), Some("1"));
    assert_eq!(value(&house, &spaces[1]).await.as_deref(), Some("1"));
    let pin = status.pin.unwrap();
    assert_eq!((pin.excludes, pin.to), (bad, Some(first)));
    for cluster in &clusters {
        house.delete(CLUSTER, "", cluster).await;
    }
}

#[tokio::test]
async fn shards_are_worked_on_by_one_replica_each_and_taken_over_when_it_dies() {
    let make = |identity: &str| Make {
        name: Some("sharded".to_owned()),
        shards: Some((4, "sharded".to_owned(), identity.to_owned())),
    };
    let one: &'static Stack = Box::leak(Box::new(Stack::start(make("one")).await));
    let two = Stack::start(make("two")).await;
    let house = House::on(one, "shards", &[("start.txt", "x")], Some("sharded".to_owned())).await;
    let names: Vec<String> = (0..12).map(|at| format!("app-{at}")).collect();
    let files: Vec<(String, String)> =
        names.iter().map(|name| (format!("{name}/map.yaml"), config_map(name, "1"))).collect();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    house.repo.commit_files(&files, "all").unwrap();
    for name in &names {
        house.app(name, name, json!({ "sync": { "interval": "2s" } })).await;
    }
    for name in &names {
        let status = house.healthy(name).await;
        assert_eq!(status.history.len(), 1, "{name} was deployed once: {:?}", status.history);
    }
    let worked = |stack: &Stack| {
        let text = stack.metrics();
        let line =
            text.lines().find(|line| line.starts_with("windlass_deliver_objects_total{result=\"done\"}"));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
    };
    assert_eq!(worked(one) + worked(&two), 12, "each object is applied by one replica, once");
    one.kill();
    for name in &names {
        let file = format!("{name}/map.yaml");
        house.repo.commit_files(&[(&file, Some(&config_map(name, "2")))], "more").unwrap();
    }
    for name in &names {
        house
            .eventually(&format!("the other replica delivers {name}"), async || {
                let live = house.get("v1/ConfigMap", name).await.unwrap();
                (live["data"]["value"] == "2").then_some(())
            })
            .await;
    }
    assert_eq!(worked(one) + worked(&two), 24, "none is applied twice");
    for name in &names {
        house.apps().delete(name, &DeleteParams::default()).await.unwrap();
    }
    house
        .eventually("all are gone", async || {
            let left = house.apps().list(&ListParams::default()).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
    two.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
}
