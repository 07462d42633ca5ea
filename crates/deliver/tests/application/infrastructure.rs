//! Infrastructure first, as Crossplane shows it: claims with Ready and Synced, and the Secret that they write.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_testbed::control_plane::User;

use crate::house::{House, cluster, config_map};

/// The definition of a claim, as a provider would bring it.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("kubes.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "kubes", "singular": "kube", "kind": "Kube", "listKind": "KubeList", "categories": ["claim"] },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}

/// What the provider says of a claim.
async fn provider_says(house: &House, namespace: &str, kind: &str, synced: &str, ready: &str) {
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let status =
        json!({ "status": { "conditions": [condition("Synced", synced), condition("Ready", ready)] } });
    let api = house.api(kind, namespace);
    api.patch_status("prod", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

#[tokio::test]
async fn infrastructure_comes_first_and_a_cluster_made_by_it_gets_the_application() {
    let house = House::new("infra", &[("app/map.yaml", &config_map("map", "1"))]).await;
    let test = house.namespace.name();
    let group = format!("{test}.example.org");
    let kind = format!("{group}/v1/Kube");
    house.apply("test", &definition(&group)).await;
    house
        .eventually("the kind is served", async || {
            house.api(&kind, &house.namespace).list(&kube::api::ListParams::default()).await.ok()
        })
        .await;
    let claim = format!(
        "apiVersion: {group}/v1\nkind: Kube\nmetadata: {{name: prod}}\nspec:\n  writeConnectionSecretToRef: {{name: prod-conn}}\n"
    );
    house.repo.commit_files(&[("infra/claim.yaml", Some(&claim))], "claim").unwrap();
    let target = house.other_namespace("made").await;
    let made = format!("made-{test}");
    let spec = json!({ "kubeconfig": { "secretRef": { "name": "prod-conn", "namespace": target.name() } }, "probe": { "interval": "2s" } });
    house.apply("test", &cluster(&made, &json!({ "made": test }), &spec)).await;
    let over = json!({
        "destinations": [{ "selector": { "matchLabels": { "made": test } }, "namespace": target.name() }],
        "infrastructure": { "path": "infra", "cluster": "in-cluster" },
    });
    house.app("web", "app", over).await;
    // Its cluster is no destination: the namespace of the first one holds there too.
    house.eventually("the claim is applied", async || house.get_in(&target, &kind, "prod").await).await;
    assert!(house.get_in(&target, "v1/ConfigMap", "map").await.is_none());
    provider_says(&house, &target, &kind, "True", "False").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(house.get_in(&target, "v1/ConfigMap", "map").await.is_none(), "not before it is ready");
    provider_says(&house, &target, &kind, "True", "True").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(house.get_in(&target, "v1/ConfigMap", "map").await.is_none(), "not before its secret is there");
    let kubeconfig = house.stack.control_plane.kubeconfig(&User::Admin).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "prod-conn", "namespace": target.name() },
        "stringData": { "kubeconfig": serde_saphyr::to_string(&kubeconfig).unwrap() },
    });
    house.apply("provider", &secret).await;
    house.healthy("web").await;
    assert!(house.get_in(&target, "v1/ConfigMap", "map").await.is_some());
    house.delete("windlass.dev/v1alpha1/Cluster", "", &made).await;
}
