#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::identity::ObjectKey;

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    if let Value::Object(more) = more {
        object.as_object_mut().unwrap().extend(more);
    }
    object
}

/// `kind name` in order, layers separated.
fn names(objects: &[Value]) -> Vec<Vec<String>> {
    let name = |at: usize| {
        let object = &objects[at];
        format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
    };
    layers(objects).layers.into_iter().map(|layer| layer.into_iter().map(name).collect()).collect()
}

fn position(names: &[Vec<String>], name: &str) -> usize {
    names
        .iter()
        .position(|layer| layer.iter().any(|other| other == name))
        .unwrap_or_else(|| panic!("{name} in {names:?}"))
}

/// An application with a bit of everything, in the worst order.
fn shop() -> Vec<Value> {
    let n = Some("shop");
    let mut objects = vec![
        object("v1", "Namespace", None, "shop", json!({})),
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            None,
            "widgets.example.org",
            json!({"spec": {"group": "example.org", "names": {"kind": "Widget"}, "conversion": {"webhook": {"clientConfig": {
                "service": {"namespace": "shop", "name": "hook"}}}}}}),
        ),
        object("v1", "ServiceAccount", n, "web", json!({"imagePullSecrets": [{"name": "pull"}]})),
        object("v1", "Secret", n, "pull", json!({})),
        object(
            "v1",
            "ConfigMap",
            n,
            "settings",
            json!({"data": {"serviceName": "web", "secretName": "pull"}}),
        ),
        object("scheduling.k8s.io/v1", "PriorityClass", None, "high", json!({})),
        object("storage.k8s.io/v1", "StorageClass", None, "fast", json!({})),
        object("v1", "PersistentVolumeClaim", n, "data", json!({"spec": {"storageClassName": "fast"}})),
        object("rbac.authorization.k8s.io/v1", "Role", n, "reader", json!({})),
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            n,
            "web-reader",
            json!({"roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]}),
        ),
        object("v1", "Service", n, "web", json!({"spec": {"selector": {"app": "web"}}})),
        object("v1", "Service", n, "hook", json!({"spec": {"selector": {"app": "hook"}}})),
        object(
            "apps/v1",
            "Deployment",
            n,
            "web",
            json!({"spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "serviceAccountName": "web", "priorityClassName": "high", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [{"envFrom": [{"configMapRef": {"name": "settings"}}]}]}}}}),
        ),
        object(
            "apps/v1",
            "Deployment",
            n,
            "hook",
            json!({"spec": {"template": {"metadata": {"labels": {"app": "hook"}}}}}),
        ),
        object("example.org/v1", "Widget", n, "w", json!({"spec": {"configMapRef": {"name": "settings"}}})),
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            n,
            "web",
            json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
        ),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            n,
            "web",
            json!({"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"name": "web"}}}]}}]}}),
        ),
        object(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            None,
            "hook",
            json!({"webhooks": [{"clientConfig": {
            "service": {"namespace": "shop", "name": "hook"}}}]}),
        ),
    ];
    objects.reverse();
    objects
}

#[test]
fn everything_comes_after_what_it_needs() {
    let names = names(&shop());
    let before =
        |a: &str, b: &str| assert!(position(&names, a) < position(&names, b), "{a} before {b}: {names:#?}");
    assert_eq!(names[0], ["Namespace shop"]);
    assert_eq!(names.last().unwrap(), &["ValidatingWebhookConfiguration hook"], "{names:#?}");
    before("CustomResourceDefinition widgets.example.org", "Widget w");
    before("Secret pull", "ServiceAccount web");
    before("ServiceAccount web", "RoleBinding web-reader");
    before("Role reader", "RoleBinding web-reader");
    before("ServiceAccount web", "Deployment web");
    before("RoleBinding web-reader", "Deployment web");
    before("ConfigMap settings", "Deployment web");
    before("StorageClass fast", "PersistentVolumeClaim data");
    before("PersistentVolumeClaim data", "Deployment web");
    before("PriorityClass high", "Deployment web");
    before("Service web", "Ingress web");
    before("Deployment web", "HorizontalPodAutoscaler web");
    before("Deployment hook", "ValidatingWebhookConfiguration hook");
    before("CustomResourceDefinition widgets.example.org", "Deployment hook");
    assert!(layers(&shop()).cycles.is_empty());
}

#[test]
fn what_is_not_among_the_objects_is_not_waited_for() {
    let one = object(
        "apps/v1",
        "Deployment",
        Some("n"),
        "a",
        json!({"spec": {"template": {"spec": {"serviceAccountName": "x"}}}}),
    );
    let account = |namespace| object("v1", "ServiceAccount", namespace, "x", json!({}));
    let order = layers(std::slice::from_ref(&one));
    assert_eq!((order.layers, order.cycles.len()), (vec![vec![0]], 0));
    // The account of another namespace is another account.
    let index = index::Index::new(&[one.clone(), account(Some("m"))]);
    assert!(references::between(&[one.clone(), account(Some("m"))], &index).is_empty());
    let index = index::Index::new(&[one.clone(), account(Some("n"))]);
    assert_eq!(references::between(&[one, account(Some("n"))], &index).len(), 1);
}

#[test]
fn an_aggregated_api_comes_after_its_server_and_before_its_objects() {
    let n = Some("metrics");
    let objects = [
        object("custom.metrics.k8s.io/v1", "Thing", n, "t", json!({})),
        object(
            "apiregistration.k8s.io/v1",
            "APIService",
            None,
            "v1.custom.metrics.k8s.io",
            json!({"spec": {"group": "custom.metrics.k8s.io",
            "version": "v1", "service": {"namespace": "metrics", "name": "adapter"}}}),
        ),
        object(
            "apps/v1",
            "Deployment",
            n,
            "adapter",
            json!({"spec": {"template": {"metadata": {"labels": {"app": "a"}}}}}),
        ),
        object("v1", "Service", n, "adapter", json!({"spec": {"selector": {"app": "a"}}})),
    ];
    assert_eq!(layers(&objects).layers, [vec![3], vec![2], vec![1], vec![0]]);
}

#[test]
fn routes_and_bindings_follow_what_they_name() {
    let n = Some("n");
    let objects = [
        object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            n,
            "r",
            json!({"spec": {"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]}}),
        ),
        object("gateway.networking.k8s.io/v1", "Gateway", n, "g", json!({"spec": {"gatewayClassName": "c"}})),
        object("gateway.networking.k8s.io/v1", "GatewayClass", None, "c", json!({})),
        object("v1", "Service", n, "s", json!({})),
        object(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
            None,
            "b",
            json!({"spec": {"policyName": "p"}}),
        ),
        object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None, "p", json!({})),
    ];
    assert_eq!(layers(&objects).layers, [vec![3], vec![2], vec![1], vec![0], vec![5], vec![4]]);
}

#[test]
fn a_circle_is_named_and_broken_at_its_weakest_reference() {
    let n = Some("n");
    let objects = [
        object(
            "v1",
            "Secret",
            n,
            "token",
            json!({"metadata": {"name": "token", "namespace": "n",
            "annotations": {"kubernetes.io/service-account.name": "web"}}}),
        ),
        object("v1", "ServiceAccount", n, "web", json!({"secrets": [{"name": "token"}]})),
    ];
    let order = layers(&objects);
    assert_eq!(order.layers, [vec![1], vec![0]], "the server needs the account for the token");
    assert_eq!(
        order.cycles[0].to_string(),
        "Secret n/token and ServiceAccount n/web need each other; ServiceAccount n/web is created without waiting for Secret n/token"
    );
    assert_eq!(order.cycles.len(), 1);
}

#[test]
fn what_is_no_object_comes_last() {
    let objects = [json!(null), json!({"kind": "A"}), object("v1", "ConfigMap", None, "a", json!({}))];
    let order = layers(&objects);
    assert_eq!(order.layers.last().unwrap(), &[0, 1]);
    assert_eq!(order.flat().count(), 3);
    assert_eq!(layers(&[]), Order::default());
}

#[test]
fn a_long_chain_takes_no_deep_stack() {
    let objects: Vec<Value> = (0..20_000)
        .map(|at| {
            object(
                "example.org/v1",
                "Link",
                Some("n"),
                &format!("l{at}"),
                json!({"spec": {"nextRef":
            {"apiVersion": "example.org/v1", "kind": "Link", "name": format!("l{}", at + 1)}}}),
            )
        })
        .collect();
    let order = layers(&objects);
    assert_eq!(order.layers.len(), 20_000);
    assert_eq!(order.layers[0], [19_999]);
}

/// Objects whose references are drawn at random, circles included.
fn any_objects() -> impl Strategy<Value = Vec<Value>> {
    let reference = (0..12_usize, 0..4_usize);
    let one = (0..4_usize, prop::collection::vec(reference, 0..3));
    prop::collection::vec(one, 1..12).prop_map(|drawn| {
        let kinds = ["Link", "Secret", "ServiceAccount", "ConfigMap"];
        drawn
            .iter()
            .enumerate()
            .map(|(at, (kind, references))| {
                let refs: Vec<Value> = references
                    .iter()
                    .map(|(to, field)| {
                        let name = format!("o{to}");
                        match field {
                            0 => json!({"secretRef": {"name": name}}),
                            1 => json!({"serviceAccountName": name}),
                            2 => json!({"configMapRef": {"name": name}}),
                            _ => json!({"otherRef": {"apiVersion": "example.org/v1", "kind": "Link", "name": name}}),
                        }
                    })
                    .collect();
                let api_version = if *kind == 0 { "example.org/v1" } else { "v1" };
                object(api_version, kinds[*kind], Some("n"), &format!("o{at}"), json!({"spec": refs}))
            })
            .collect()
    })
}

fn layer_keys(objects: &[Value], order: &Order) -> Vec<BTreeSet<ObjectKey>> {
    order
        .layers
        .iter()
        .map(|layer| layer.iter().map(|at| ObjectKey::of(&objects[*at]).unwrap()).collect())
        .collect()
}

proptest! {
    #[test]
    fn every_object_has_one_place_after_all_that_it_needs(objects in any_objects()) {
        let order = layers(&objects);
        let mut places: Vec<usize> = order.flat().collect();
        places.sort_unstable();
        prop_assert_eq!(places, (0..objects.len()).collect::<Vec<_>>());

        let layer_of = |at: usize| order.layers.iter().position(|layer| layer.contains(&at)).unwrap();
        let index = index::Index::new(&objects);
        let broken: BTreeSet<_> = order.cycles.iter().map(|cycle| cycle.broken.clone()).collect();
        for edge in references::between(&objects, &index) {
            let ends = (index.key(edge.from).unwrap().clone(), index.key(edge.to).unwrap().clone());
            prop_assert!(layer_of(edge.to) < layer_of(edge.from) || broken.contains(&ends), "{ends:?}");
        }
        for cycle in &order.cycles {
            prop_assert!(cycle.members.contains(&cycle.broken.0) && cycle.members.contains(&cycle.broken.1));
        }
        let mut back = order.reverse();
        back.reverse();
        prop_assert_eq!(back, order.layers);
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        (objects, shuffled) in any_objects().prop_flat_map(|objects| (Just(objects.clone()), Just(objects).prop_shuffle()))
    ) {
        let (one, other) = (layers(&objects), layers(&shuffled));
        prop_assert_eq!(layer_keys(&objects, &one), layer_keys(&shuffled, &other));
        prop_assert_eq!(one.cycles, other.cycles);
    }
}

#[test]
fn a_knot_of_hundreds_of_objects_is_undone_in_time() {
    let names: Vec<String> = (0..300).map(|at| format!("a{at:03}")).collect();
    let refs: Value =
        names.iter().map(|name| json!({"kind": "Widget", "group": "example.org", "name": name})).collect();
    let objects: Vec<Value> = names
        .iter()
        .map(|name| {
            object("example.org/v1", "Widget", Some("x"), name, json!({"spec": {"widgetRefs": refs}}))
        })
        .collect();
    let order = layers(&objects);
    assert_eq!(order.flat().count(), objects.len());
    assert!(!order.cycles.is_empty() && order.cycles.len() < 100, "{}", order.cycles.len());
    let sentence = order.cycles[0].to_string();
    assert!(sentence.contains(" and 292 more need each other"), "{sentence}");
}
