//! What was deployed, going back, and the end of an Application.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use windlass_api::application::{PIN_ANNOTATION, status::DeploymentResult};

use crate::house::{House, config_map, deployment};

#[tokio::test]
async fn undo_and_rollback_are_pins_that_end_when_the_source_moves_on() {
    let house = House::new("undo", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({})).await;
    let one = house.repo.tip().unwrap();
    house.healthy("web").await;
    let two = house.push(&[("map.yaml", Some(&config_map("map", "2")))]);
    house.healthy("web").await;
    let three = house.push(&[("map.yaml", Some(&config_map("map", "3")))]);
    let status = house.healthy("web").await;
    let told: Vec<&str> = status.history.iter().map(|known| known.revision.as_str()).collect();
    assert_eq!(told, [three.as_str(), two.as_str(), one.as_str()]);
    assert!(status.history.iter().all(|known| known.result == DeploymentResult::Succeeded));

    // Undo: the state before, without saying which. The git server need not be there.
    house.repo.fault(windlass_testbed::git::Fault::ServerError);
    house
        .annotate(
            "web",
            PIN_ANNOTATION,
            &json!({ "excludes": three, "by": "alice", "reason": "bad" }).to_string(),
        )
        .await;
    let status = house.healthy_at("web", &two).await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "2");
    let pin = status.pin.unwrap();
    assert_eq!((pin.to.as_deref(), pin.by.as_deref()), (Some(two.as_str()), Some("alice")));
    house.repo.clear_faults();

    // Rollback: to a revision that is named.
    house
        .annotate("web", PIN_ANNOTATION, &json!({ "excludes": three, "to": one, "by": "alice" }).to_string())
        .await;
    house.healthy_at("web", &one).await;
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "1");

    let four = house.push(&[("map.yaml", Some(&config_map("map", "4")))]);
    let status = house.healthy_at("web", &four).await;
    assert_eq!(status.pin, None);
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "4");
}

#[tokio::test]
async fn a_deleted_application_takes_what_it_made_with_it_and_nothing_else() {
    let house = House::new("delete", &[("map.yaml", &(config_map("a", "1") + &config_map("b", "1")))]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.app("web", "", json!({ "suspend": true })).await;
    house.says("web", "Suspended").await;
    // Somebody takes one of them over.
    house
        .meddle(
            "kubectl",
            "v1/ConfigMap",
            "b",
            &json!({ "metadata": { "annotations": { "windlass.dev/owner": "else/where" } } }),
        )
        .await;
    house.apps().delete("web", &DeleteParams::default()).await.unwrap();
    house.gone("v1/ConfigMap", "a").await;
    house
        .eventually("the Application goes", async || {
            house.apps().get_opt("web").await.unwrap().is_none().then_some(())
        })
        .await;
    assert!(house.get("v1/ConfigMap", "b").await.is_some());
}

#[tokio::test]
async fn orphan_leaves_everything_and_lets_go_of_it() {
    let house = House::new("orphan", &[("map.yaml", &config_map("map", "1"))]).await;
    house.app("web", "", json!({ "deletion": "Orphan" })).await;
    house.healthy("web").await;
    house.apps().delete("web", &DeleteParams::default()).await.unwrap();
    house
        .eventually("the Application goes", async || {
            house.apps().get_opt("web").await.unwrap().is_none().then_some(())
        })
        .await;
    let live = house.get("v1/ConfigMap", "map").await.unwrap();
    assert_eq!(live["metadata"]["annotations"].get("windlass.dev/owner"), None, "{live}");
    assert_eq!(live["data"]["value"], "1");
    // Whoever comes next may take it.
    house.app("next", "", json!({})).await;
    house.healthy("next").await;
}

#[tokio::test]
async fn an_object_of_another_application_is_never_taken() {
    let house = House::new(
        "taken",
        &[("map.yaml", &config_map("map", "1")), ("b/map.yaml", &config_map("map", "2"))],
    )
    .await;
    house.app("first", "", json!({ "source": { "directory": { "recurse": false } } })).await;
    house.healthy("first").await;
    house.app("second", "b", json!({})).await;
    let message = house.says("second", "OwnedByAnother").await;
    assert!(message.contains(&format!("{}/first", house.namespace.name())), "{message}");
    assert_eq!(house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"], "1");
    house.apps().delete("second", &DeleteParams::default()).await.unwrap();
    house
        .eventually("the second goes", async || {
            house.apps().get_opt("second").await.unwrap().is_none().then_some(())
        })
        .await;
    assert!(house.get("v1/ConfigMap", "map").await.is_some());
}

/// The uids of the pods of the namespace, by name.
async fn pods(house: &House) -> BTreeMap<String, String> {
    let all = house.api("v1/Pod", &house.namespace).list(&ListParams::default()).await.unwrap();
    all.items.into_iter().map(|pod| (pod.metadata.name.unwrap(), pod.metadata.uid.unwrap())).collect()
}

#[tokio::test]
async fn what_others_made_is_adopted_without_restarting_a_pod() {
    let tools = ["kubectl-client-side-apply", "argocd-controller", "kustomize-controller", "helm"];
    let names = ["kubectl", "argo", "flux", "helm"];
    let files: String = names.iter().map(|name| deployment(name, 1)).collect();
    let house = House::new("adopt", &[("all.yaml", &files)]).await;
    house.stack.control_plane.ensure_nodes(1).await.unwrap();
    for (name, tool) in names.iter().zip(tools) {
        let object: Value =
            serde_saphyr::from_str(deployment(name, 1).trim_end().trim_end_matches("---")).unwrap();
        let mut object = object;
        object["metadata"]["namespace"] = house.namespace.name().into();
        object["metadata"]["labels"] = match *name {
            "argo" => json!({ "app.kubernetes.io/instance": "argo" }),
            "flux" => json!({ "kustomize.toolkit.fluxcd.io/name": "flux" }),
            "helm" => json!({ "app.kubernetes.io/managed-by": "Helm" }),
            _ => json!({}),
        };
        if *name == "flux" {
            house.apply(tool, &object).await;
        } else {
            house.create(tool, &object).await;
        }
    }
    let before = house
        .eventually("all pods are there", async || Some(pods(&house).await).filter(|pods| pods.len() == 4))
        .await;
    let mut templates = BTreeMap::new();
    for name in names {
        let live = house.get("apps/v1/Deployment", name).await.unwrap();
        // The generation of a Deployment follows its annotations too, and ours are new.
        templates.insert(name, live["spec"].clone());
    }
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    for name in names {
        let live = house.get("apps/v1/Deployment", name).await.unwrap();
        assert_eq!(
            live["metadata"]["annotations"]["windlass.dev/owner"],
            format!("{}/web", house.namespace.name())
        );
        assert_eq!(templates[name], live["spec"], "{name}");
    }
    assert_eq!(pods(&house).await, before);
}
