//! Policy before anything is applied, and what an account may do.

use serde_json::{Value, json};

use crate::house::{House, config_map, deployment, ready};

/// A policy that refuses `ConfigMaps` with `data.value` of "forbidden" in one namespace, and waits until it is in force.
pub async fn policy(house: &House) -> String {
    let name = format!("no-forbidden-{}", house.namespace.name());
    house
        .apply(
            "test",
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": { "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
                    }] },
                    "validations": [{
                        "expression": "!has(object.data) || !('value' in object.data) || object.data.value != 'forbidden'",
                        "message": "forbidden is not allowed",
                    }],
                },
            }),
        )
        .await;
    house
        .apply(
            "test",
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": { "name": name },
                "spec": {
                    "policyName": name, "validationActions": ["Deny"],
                    "matchResources": { "namespaceSelector": { "matchLabels": {
                        "kubernetes.io/metadata.name": house.namespace.name(),
                    } } },
                },
            }),
        )
        .await;
    let probe: kube::api::DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "probe", "namespace": house.namespace.name() }, "data": { "value": "forbidden" },
    }))
    .unwrap();
    let dry = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    house
        .eventually("the policy is in force", async || {
            let api = house.api("v1/ConfigMap", &house.namespace);
            api.create(&dry, &probe).await.is_err().then_some(())
        })
        .await;
    name
}

fn files() -> String {
    config_map("good", "1") + &config_map("evil", "forbidden")
}

#[tokio::test]
async fn strict_applies_nothing_on_any_cluster_of_a_change_that_one_refuses() {
    let house = House::new("strict", &[("all.yaml", &files())]).await;
    let name = policy(&house).await;
    let elsewhere = house.other_namespace("strict-free").await;
    let second = format!("second-{}", house.namespace.name());
    house.cluster(&second, &json!({})).await;
    let both = json!({ "destinations": [
        { "cluster": "in-cluster", "namespace": house.namespace.name() },
        { "cluster": second, "namespace": elsewhere.name() },
    ] });
    house.app("web", "", both).await;
    let message = house.says("web", "PolicyRefused").await;
    for part in ["evil", &name, "orbidden is not allowed", "Nothing of the change is applied"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let status = house.status("web").await;
    assert_eq!(status.violation_count, Some(1), "{:?}", status.violations);
    assert_eq!(status.violations[0].policy, name);
    assert_eq!(status.violations[0].cluster.as_deref(), Some("in-cluster"));
    let metrics = house.stack.metrics();
    let line = metrics
        .lines()
        .find(|line| {
            line.starts_with("windlass_application_policy_violations")
                && line.contains(house.namespace.name())
        })
        .unwrap();
    assert!(line.ends_with(" 1"), "{line}");
    event(&house, "PolicyViolation", "evil").await;
    for (namespace, object) in [
        (house.namespace.name(), "good"),
        (house.namespace.name(), "evil"),
        (elsewhere.name(), "good"),
        (elsewhere.name(), "evil"),
    ] {
        assert!(house.get_in(namespace, "v1/ConfigMap", object).await.is_none(), "{namespace}/{object}");
    }
    house.push(&[("all.yaml", Some(&(config_map("good", "1") + &config_map("evil", "mended"))))]);
    house.healthy("web").await;
    assert!(house.get_in(&elsewhere, "v1/ConfigMap", "evil").await.is_some());
    house.delete("windlass.dev/v1alpha1/Cluster", "", &second).await;
}

#[tokio::test]
async fn permissive_leaves_out_what_is_refused_and_applies_the_rest() {
    let house = House::new("permissive", &[("all.yaml", &files())]).await;
    let name = policy(&house).await;
    house.app("web", "", json!({ "policy": { "mode": "permissive" } })).await;
    let status = house.healthy("web").await;
    assert!(house.get("v1/ConfigMap", "good").await.is_some());
    assert!(house.get("v1/ConfigMap", "evil").await.is_none());
    assert_eq!(status.violations[0].policy, name);
    let (message, truth, reason) = crate::house::condition_of(&status, "Admitted");
    assert_eq!((truth.as_str(), reason.as_str()), ("False", "LeftOut"), "{message}");
}

#[tokio::test]
async fn audit_applies_what_can_be_applied_and_names_what_cannot() {
    let house = House::new("audit", &[("all.yaml", &files())]).await;
    let name = policy(&house).await;
    house
        .app(
            "web",
            "",
            json!({ "policy": { "mode": "audit" }, "sync": { "retry": { "first": "1s", "longest": "2s" } } }),
        )
        .await;
    house.eventually("the rest is applied", async || house.get("v1/ConfigMap", "good").await).await;
    let message = house
        .until("web", "what failed is told", |status| {
            let (message, truth, _) = ready(status);
            (truth == "False" && message.contains("evil")).then_some(message)
        })
        .await;
    assert!(message.contains("forbidden"), "{message}");
    let status = house.status("web").await;
    assert!(status.violations.iter().any(|violation| violation.policy == name), "{:?}", status.violations);
    assert!(house.get("v1/ConfigMap", "evil").await.is_none());
}

#[tokio::test]
async fn a_warning_is_reported_and_blocks_nothing() {
    let old = config_map("map", "1")
        + &deployment("warned", 0)
            .replace("spec: {containers", "spec: {nodeSelector: {beta.kubernetes.io/os: linux}, containers");
    let house = House::new("warned", &[("all.yaml", &old)]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    event(&house, "PolicyViolation", "deprecated since").await;
}

/// Waits for an Event of the namespace with this reason and these words.
async fn event(house: &House, reason: &str, words: &str) {
    let events = house.api("events.k8s.io/v1/Event", &house.namespace);
    house
        .eventually("an Event tells of it", async || {
            let all = events.list(&kube::api::ListParams::default()).await.unwrap();
            let tells = |event: &kube::api::DynamicObject| {
                let note = event.data["note"].as_str().unwrap_or_default();
                event.data["reason"] == reason && note.contains(words)
            };
            all.items.iter().any(tells).then_some(())
        })
        .await;
}

pub fn definition(group: &str) -> String {
    let crd: Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gizmos.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": {
                    "size": { "type": "integer", "maximum": 3 },
                } } },
            } } }],
        },
    });
    crd.to_string()
}

#[tokio::test]
async fn objects_of_a_kind_and_a_namespace_that_the_same_change_brings_are_judged_and_applied() {
    let house = House::new("brought", &[("readme.txt", "x")]).await;
    let (group, other) =
        (format!("{}.example.org", house.namespace.name()), format!("{}-made", house.namespace.name()));
    let gizmo = |size: u32| {
        format!(
            "apiVersion: {group}/v1\nkind: Gizmo\nmetadata: {{name: one, namespace: {other}}}\nspec: {{size: {size}}}\n"
        )
    };
    let made = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {other}}}\n");
    house
        .repo
        .commit_files(
            &[
                ("a/crd.json", Some(&definition(&group))),
                ("a/ns.yaml", Some(&made)),
                ("a/gizmo.yaml", Some(&gizmo(7))),
            ],
            "all",
        )
        .unwrap();
    // Nobody gives these objects a status: the Application says itself what is healthy.
    let wide = json!({
        "destinations": [{
            "cluster": "in-cluster", "namespace": house.namespace.name(),
            "allowedNamespaces": [other], "allowClusterScoped": true,
        }],
        "health": [{ "group": group, "kinds": ["Gizmo"], "rules": [{ "status": "Healthy" }] }],
    });
    house.app("web", "a", wide).await;
    let message = house
        .until("web", "its schema refuses it", |status| {
            let (message, truth, _) = ready(status);
            (truth == "False" && message.contains("Gizmo") && message.contains("size")).then_some(message)
        })
        .await;
    assert!(message.contains("less than or equal to 3"), "{message}");
    house.push(&[("a/gizmo.yaml", Some(&gizmo(2)))]);
    house.healthy("web").await;
    let live = house.get_in(&other, &format!("{group}/v1/Gizmo"), "one").await.unwrap();
    assert_eq!(live["spec"]["size"], 2);
    house.apps().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn an_application_can_do_no_more_than_its_account() {
    let house = House::new("tenant", &[("map.yaml", &config_map("map", "1"))]).await;
    let team = house.namespace.name();
    for object in [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "team", "namespace": team } }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "team", "namespace": team },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "team", "namespace": team },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "team" },
            "subjects": [{ "kind": "ServiceAccount", "name": "team", "namespace": team }],
        }),
    ] {
        house.apply("test", &object).await;
    }
    house.app("web", "", json!({ "sync": { "serviceAccountName": "team" } })).await;
    house.healthy("web").await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: grab}\n";
    house.push(&[("secret.yaml", Some(secret)), ("map.yaml", Some(&config_map("map", "2")))]);
    let message = house.says("web", "PolicyRefused").await;
    for part in ["grab", "rbac", &format!("system:serviceaccount:{team}:team")] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(house.get("v1/Secret", "grab").await.is_none());
    assert_eq!(
        house.get("v1/ConfigMap", "map").await.unwrap()["data"]["value"],
        "1",
        "strict: nothing of it"
    );
}
