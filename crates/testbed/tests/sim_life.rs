//! What an API of the simulation does in its own time: workloads become healthy or fail, definitions become served,
//! rules refuse. All of it in virtual time, and the same for the same seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testbed::sim::{
    self, Faults, World,
    api::{Api, Next, OUTCOME},
};

const PACE: Duration = Duration::from_secs(2);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "example.com/main:1" }], "restartPolicy": "Never" },
    })
}

fn deployment(name: &str, outcome: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "labels": { OUTCOME: outcome } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": pod(name) },
    })
}

fn job(name: &str, outcome: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name, "labels": { OUTCOME: outcome } },
        "spec": { "template": pod(name) },
    })
}

fn status(api: &Api, kind: &str, name: &str) -> Value {
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    api.get(version, kind, "default", name).unwrap()["status"].clone()
}

fn condition(status: &Value, kind: &str) -> (String, String) {
    let found = status["conditions"].as_array().into_iter().flatten().find(|found| found["type"] == kind);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn is(condition: &(String, String), status: &str, reason: &str) -> bool {
    condition.0 == status && condition.1 == reason
}

/// Runs a scenario in a world with one cluster on which workloads run, twice: both times the same happens.
fn in_a_world<F, Fut>(scenario: F)
where
    F: Fn(World, Api) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let run = |seed| {
        sim::run(seed, &Faults::none(), |world: World| {
            let east = world.add_cluster("east");
            east.run_workloads(PACE);
            scenario(world, east)
        })
    };
    let (first, again) = (run(3), run(3));
    assert_eq!(first.result, Ok(()));
    assert_eq!(first.hash(), again.hash());
    assert_eq!(first.summary, again.summary);
}

#[test]
fn a_deployment_becomes_healthy_in_virtual_time_and_again_after_each_change() {
    in_a_world(|world, east| async move {
        let user = world.outsider_on("east", "user");
        user.create(DEPLOYMENTS, &deployment("web", "", 3)).await?;
        user.create(DEPLOYMENTS, &deployment("idle", "", 0)).await?;
        world.sleep(PACE / 2).await;
        anyhow::ensure!(status(&east, "Deployment", "web").get("observedGeneration").is_none());
        world.sleep(PACE).await;
        let begun = status(&east, "Deployment", "web");
        anyhow::ensure!(begun["observedGeneration"] == 1 && begun["unavailableReplicas"] == 3, "{begun}");
        anyhow::ensure!(
            is(&condition(&begun, "Available"), "False", "MinimumReplicasUnavailable"),
            "{begun}"
        );
        world.sleep(PACE).await;
        let done = status(&east, "Deployment", "web");
        anyhow::ensure!(
            done["availableReplicas"] == 3 && done.get("unavailableReplicas").is_none(),
            "{done}"
        );
        anyhow::ensure!(is(&condition(&done, "Progressing"), "True", "NewReplicaSetAvailable"), "{done}");
        let idle = status(&east, "Deployment", "idle");
        anyhow::ensure!(is(&condition(&idle, "Available"), "True", "MinimumReplicasAvailable"), "{idle}");
        let version = east.version();
        world.sleep(Duration::from_mins(10)).await;
        anyhow::ensure!(east.version() == version, "a healthy Deployment is written no more");
        user.merge(&format!("{DEPLOYMENTS}/web"), &json!({ "spec": { "replicas": 5 } })).await?;
        world.sleep(PACE + PACE / 2).await;
        anyhow::ensure!(status(&east, "Deployment", "web")["observedGeneration"] == 2);
        world.sleep(PACE).await;
        anyhow::ensure!(status(&east, "Deployment", "web")["availableReplicas"] == 5);
        // What the controller writes is its own, and never a field of who applied the object.
        let live = user.get(&format!("{DEPLOYMENTS}/web")).await?.unwrap();
        let entries = live["metadata"]["managedFields"].as_array().unwrap();
        let theirs = entries.iter().find(|entry| entry["manager"] == "kube-controller-manager").unwrap();
        anyhow::ensure!(
            theirs["subresource"] == "status" && theirs["fieldsV1"].get("f:spec").is_none(),
            "{theirs}"
        );
        Ok(())
    });
}

#[test]
fn workloads_fail_or_stick_as_their_label_tells() {
    in_a_world(|world, east| async move {
        let user = world.outsider_on("east", "user");
        user.create(DEPLOYMENTS, &deployment("bad", "fails", 1)).await?;
        user.create(DEPLOYMENTS, &deployment("slow", "stuck", 1)).await?;
        for (name, outcome) in [("fine", ""), ("bad", "fails"), ("slow", "stuck")] {
            user.create(JOBS, &job(name, outcome)).await?;
        }
        world.sleep(PACE + PACE / 2).await;
        anyhow::ensure!(status(&east, "Job", "fine")["active"] == 1);
        world.sleep(PACE * 20).await;
        let bad = status(&east, "Deployment", "bad");
        anyhow::ensure!(is(&condition(&bad, "Progressing"), "False", "ProgressDeadlineExceeded"), "{bad}");
        let slow = status(&east, "Deployment", "slow");
        anyhow::ensure!(is(&condition(&slow, "Progressing"), "True", "ReplicaSetUpdated"), "{slow}");
        let fine = status(&east, "Job", "fine");
        anyhow::ensure!(fine["succeeded"] == 1 && fine.get("active").is_none(), "{fine}");
        anyhow::ensure!(
            condition(&fine, "Complete").0 == "True" && condition(&fine, "Failed").0.is_empty(),
            "{fine}"
        );
        let bad = status(&east, "Job", "bad");
        anyhow::ensure!(is(&condition(&bad, "Failed"), "True", "BackoffLimitExceeded"), "{bad}");
        anyhow::ensure!(status(&east, "Job", "slow").get("conditions").is_none());
        // Mended, it goes on.
        user.merge(&format!("{DEPLOYMENTS}/bad"), &json!({ "metadata": { "labels": { OUTCOME: null } } }))
            .await?;
        world.sleep(PACE * 3).await;
        anyhow::ensure!(status(&east, "Deployment", "bad")["availableReplicas"] == 1);
        Ok(())
    });
}

#[test]
fn a_small_controller_of_ones_own_acts_on_what_is_there_and_what_comes() {
    in_a_world(|world, east| async move {
        let user = world.outsider_on("east", "user");
        let services = "/api/v1/namespaces/default/services";
        let service = |name: &str| {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
                "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } })
        };
        user.create(services, &service("before")).await?;
        east.controller("v1", "Service", |service, _| {
            let change = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
            let done = service.pointer("/status/loadBalancer/ingress").is_some();
            (!done).then_some(Next { after: PACE, change })
        });
        user.create(services, &service("after")).await?;
        world.sleep(PACE * 2).await;
        for name in ["before", "after"] {
            let live = east.get("v1", "Service", "default", name).unwrap();
            anyhow::ensure!(live["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1", "{live}");
        }
        Ok(())
    });
}

#[test]
fn a_definition_that_comes_by_request_is_served_a_moment_later() {
    let group = "things.example.com";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("things.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    in_a_world(|world, east| {
        let definition = definition.clone();
        async move {
            let user = world.outsider_on("east", "user");
            let things = format!("/apis/{group}/v1/namespaces/default/things");
            user.create(DEFINITIONS, &definition).await?;
            anyhow::ensure!(user.get(&things).await?.is_none(), "served at once");
            anyhow::ensure!(user.get(&format!("/apis/{group}")).await?.is_none(), "discovered at once");
            world.sleep(Duration::from_secs(1)).await;
            anyhow::ensure!(
                user.get(&things).await?.is_some() && user.get(&format!("/apis/{group}")).await?.is_some()
            );
            let live = user.get(&format!("{DEFINITIONS}/things.{group}")).await?.unwrap();
            anyhow::ensure!(condition(&live["status"], "Established").0 == "True", "{live}");
            anyhow::ensure!(live["status"]["acceptedNames"]["kind"] == "Thing", "{live}");
            // A scenario that only prepares its world does not wait.
            world.api().install_crd(&serde_json::from_value(definition)?)?;
            anyhow::ensure!(world.outsider("user").get(&things).await?.is_some());
            drop(east);
            Ok(())
        }
    });
}

#[test]
fn a_rule_refuses_dry_runs_too_until_it_is_taken_back() {
    in_a_world(|world, east| async move {
        let user = world.outsider_on("east", "user");
        east.deny("no-latest", |object| {
            let images = object.pointer("/spec/template/spec/containers/0/image");
            images.is_some_and(|image| image == "example.com/main:1").then(|| "image is too old".to_owned())
        });
        for dry in ["", "&dryRun=All"] {
            let path = format!("{DEPLOYMENTS}/web?fieldManager=user&force=true{dry}");
            let media = "application/apply-patch+yaml";
            let (code, answer) =
                user.send(http::Method::PATCH, &path, media, &deployment("web", "", 1)).await?;
            anyhow::ensure!(code == 422 && answer["reason"] == "Invalid", "{code} {answer}");
            let said = answer["message"].as_str().unwrap();
            let shape = "ValidatingAdmissionPolicy 'no-latest' with binding 'no-latest' denied request: image is too old";
            anyhow::ensure!(said == format!("deployments.apps \"web\" is forbidden: {shape}"), "{said}");
        }
        anyhow::ensure!(user.get(&format!("{DEPLOYMENTS}/web")).await?.is_none());
        east.allow("no-latest");
        user.create(DEPLOYMENTS, &deployment("web", "", 1)).await?;
        Ok(())
    });
}
