//! What bad input gets: a condition with reason and remedy, the last good state, and nobody else is delayed.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_api::application::status::SOURCE_READY;

use crate::house::{House, cluster, condition_of, config_map, ready};

/// An Application that runs well, and a neighbour that has to go on doing so.
async fn running(name: &str) -> House {
    running_with(name, false).await
}

/// The same; the first may be bounded to the namespace of the test.
async fn running_with(name: &str, bounded: bool) -> House {
    let house = House::new(
        name,
        &[("bad/map.yaml", &config_map("good", "1")), ("near/map.yaml", &config_map("near", "1"))],
    )
    .await;
    let own = house.namespace.name();
    let bounds = json!({ "destinations": [{ "cluster": "in-cluster", "namespace": own, "allowedNamespaces": [own] }] });
    house.app("bad", "bad", if bounded { bounds } else { json!({}) }).await;
    house.app("near", "near", json!({})).await;
    house.healthy("bad").await;
    house.healthy("near").await;
    house
}

/// The last good state runs; the neighbour gets its next commit.
async fn neighbour_goes_on(house: &House) {
    house.push(&[("near/map.yaml", Some(&config_map("near", "2")))]);
    house.healthy("near").await;
    assert_eq!(house.get("v1/ConfigMap", "near").await.unwrap()["data"]["value"], "2");
    assert_eq!(house.get("v1/ConfigMap", "good").await.unwrap()["data"]["value"], "1");
}

/// The same, and the last good state is healed.
async fn others_go_on(house: &House) {
    house.meddle("kubectl", "v1/ConfigMap", "good", &json!({ "data": { "value": "drifted" } })).await;
    house.push(&[("near/map.yaml", Some(&config_map("near", "2")))]);
    house.healthy("near").await;
    assert_eq!(house.get("v1/ConfigMap", "near").await.unwrap()["data"]["value"], "2");
    house
        .eventually("the last good state is healed", async || {
            let live = house.get("v1/ConfigMap", "good").await.unwrap();
            (live["data"]["value"] == "1").then_some(())
        })
        .await;
}

/// A bad commit is refused for a reason; all goes on; a good one heals it.
async fn refused(name: &str, files: &[(&str, Option<&str>)], reason: &str, parts: &[&str]) {
    let bounded = reason.ends_with("NotAllowed");
    let house = running_with(name, bounded).await;
    house.push(files);
    let message = house.says("bad", reason).await;
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
    // What cannot be rendered has no new objects: the old ones are healed meanwhile.
    if bounded || reason == "PolicyRefused" {
        neighbour_goes_on(&house).await;
    } else {
        others_go_on(&house).await;
    }
    let (still, ..) = ready(&house.status("bad").await);
    assert_eq!(still, message, "it still says so");
    let mut back: Vec<(&str, Option<&str>)> = files.iter().map(|(path, _)| (*path, None)).collect();
    let good = config_map("good", "3");
    back.retain(|(path, _)| *path != "bad/map.yaml");
    back.push(("bad/map.yaml", Some(&good)));
    house.push(&back);
    house.healthy("bad").await;
    assert_eq!(house.get("v1/ConfigMap", "good").await.unwrap()["data"]["value"], "3");
}

#[tokio::test]
async fn bad_yaml_is_named_with_file_line_and_column() {
    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good\ndata: {value: x}\n";
    refused("badyaml", &[("bad/map.yaml", Some(bad))], "InvalidYaml", &["bad/map.yaml", "line 4", "column"])
        .await;
}

#[tokio::test]
async fn an_unknown_kind_is_named_and_nothing_of_the_change_is_applied() {
    let odd = "apiVersion: example.org/v1\nkind: Gizmo\nmetadata: {name: odd}\n";
    let parts = ["Gizmo", "does not serve example.org/v1", "CustomResourceDefinition"];
    refused("unknown", &[("bad/odd.yaml", Some(odd))], "PolicyRefused", &parts).await;
}

#[tokio::test]
async fn an_object_that_stands_twice_is_named_with_both_places() {
    let again = config_map("good", "2");
    refused(
        "twice",
        &[("bad/again.yaml", Some(&again))],
        "DuplicateObject",
        &["again.yaml", "map.yaml", "good"],
    )
    .await;
}

#[tokio::test]
async fn an_object_outside_of_the_allowed_namespaces_is_refused() {
    let outside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: out, namespace: kube-system}\n";
    refused(
        "outside",
        &[("bad/out.yaml", Some(outside))],
        "NamespaceNotAllowed",
        &["kube-system", "allowedNamespaces"],
    )
    .await;
}

#[tokio::test]
async fn a_cluster_scoped_object_is_refused_unless_the_destination_allows_it() {
    let scoped = "apiVersion: v1\nkind: Namespace\nmetadata: {name: not-made-by-anybody}\n";
    refused(
        "scoped",
        &[("bad/scoped.yaml", Some(scoped))],
        "ClusterScopedNotAllowed",
        &["not-made-by-anybody", "allowClusterScoped"],
    )
    .await;
}

#[tokio::test]
async fn a_yaml_bomb_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        let again = vec![format!("*a{before}"); 8].join(", ");
        let _ = writeln!(bomb, "a{level}: &a{level} [{again}]");
    }
    bomb += "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n";
    refused("bomb", &[("bad/bomb.yaml", Some(&bomb))], "InvalidYaml", &["bad/bomb.yaml"]).await;
}

#[tokio::test]
async fn a_file_of_a_hundred_megabytes_is_refused() {
    let large = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large}}\ndata:\n  a: {}\n",
        "x".repeat(100 << 20)
    );
    refused("large", &[("bad/large.yaml", Some(&large))], "InputTooLarge", &["large.yaml"]).await;
}

#[tokio::test]
async fn a_symbolic_link_out_of_the_tree_is_refused() {
    let house = running("link").await;
    house.repo.commit("link").link("bad/passwd.yaml", "../../../../etc/passwd").write().unwrap();
    house.tell();
    let (message, reason) = house
        .until("bad", "the link is refused", |status| {
            let (message, truth, reason) = ready(status);
            (truth == "False" && message.contains("passwd.yaml")).then_some((message, reason))
        })
        .await;
    assert!(!message.contains("root:"), "{reason}: {message}");
    others_go_on(&house).await;
}

#[tokio::test]
async fn a_deleted_branch_and_a_force_push_keep_the_last_good_state() {
    let house = running("branches").await;
    house.repo.branch("side").unwrap();
    house.app("bad", "bad", json!({ "source": { "revision": "side" } })).await;
    let tip = house.repo.tip().unwrap();
    house.healthy_at("bad", &tip).await;
    house.repo.delete_branch("side").unwrap();
    house.tell();
    let message = house
        .until("bad", "the branch is gone", |status| {
            let (message, truth, reason) = condition_of(status, SOURCE_READY);
            (truth == "False" && reason.starts_with("Revision")).then_some(message)
        })
        .await;
    assert!(message.contains("side"), "{message}");
    others_go_on(&house).await;

    // Back on main, whose last commit is replaced by another.
    house.app("bad", "bad", json!({})).await;
    house.healthy("bad").await;
    let forced =
        house.repo.force_push(&[("bad/map.yaml", Some(&config_map("good", "forced")))], "again").unwrap();
    house.tell();
    let status = house.healthy_at("bad", &forced).await;
    assert_eq!(house.get("v1/ConfigMap", "good").await.unwrap()["data"]["value"], "forced");
    assert!(status.movements.iter().any(|movement| movement.forced), "{:?}", status.movements);
}

#[tokio::test]
async fn a_repository_that_does_not_answer_keeps_the_last_good_state_and_heals() {
    let house = running("away").await;
    house.repo.fault(windlass_testbed::git::Fault::ServerError);
    let commit = house.push(&[("bad/map.yaml", Some(&config_map("good", "2")))]);
    house
        .until("bad", "the source is stale", |status| {
            let (message, truth, _) = condition_of(status, SOURCE_READY);
            (truth == "False" && message.contains("What was fetched last is used")).then_some(())
        })
        .await;
    house.meddle("kubectl", "v1/ConfigMap", "good", &json!({ "data": { "value": "drifted" } })).await;
    house
        .eventually("drift is healed meanwhile", async || {
            let live = house.get("v1/ConfigMap", "good").await.unwrap();
            (live["data"]["value"] == "1").then_some(())
        })
        .await;
    house.repo.clear_faults();
    house.healthy_at("bad", &commit).await;
}

#[tokio::test]
async fn a_kubeconfig_to_nowhere_delays_no_other_cluster() {
    let house = running("nowhere").await;
    let name = format!("dead-{}", house.namespace.name());
    let kubeconfig =
        house.stack.control_plane.kubeconfig(&windlass_testbed::control_plane::User::Admin).unwrap();
    let text = serde_saphyr::to_string(&kubeconfig)
        .unwrap()
        .replace(&house.stack.control_plane.url(), "https://127.0.0.1:9");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "dead", "namespace": house.namespace.name() },
        "stringData": { "kubeconfig": text },
    });
    house.apply("test", &secret).await;
    let spec =
        json!({ "kubeconfig": { "secretRef": { "name": "dead", "namespace": house.namespace.name() } } });
    house.apply("test", &cluster(&name, &json!({}), &spec)).await;
    let both: Value = json!({ "destinations": [
        { "cluster": name, "namespace": house.namespace.name() },
        { "cluster": "in-cluster", "namespace": house.namespace.name() },
    ] });
    let commit = house.push(&[("bad/map.yaml", Some(&config_map("good", "2")))]);
    house.app("bad", "bad", both).await;
    let message = house.says("bad", "ClusterUnreachable").await;
    assert!(message.contains(&name), "{message}");
    house
        .eventually("the other cluster gets it", async || {
            let live = house.get("v1/ConfigMap", "good").await.unwrap();
            (live["data"]["value"] == "2").then_some(())
        })
        .await;
    let status = house
        .until("bad", "the other cluster runs it", |status| {
            let done = status.clusters.iter().any(|line| line.revision.as_deref() == Some(commit.as_str()));
            done.then(|| status.clone())
        })
        .await;
    let line = |name: &str| status.clusters.iter().find(|line| line.name == name).cloned().unwrap();
    assert_eq!(line("in-cluster").revision.as_deref(), Some(commit.as_str()));
    assert!(line(&name).message.is_some());
    house.delete("windlass.dev/v1alpha1/Cluster", "", &name).await;
}
