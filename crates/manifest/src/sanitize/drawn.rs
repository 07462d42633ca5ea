//! Objects drawn at random.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Values that hold the names on the lists, at all kinds of places.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec![
            "None",
            "x",
            "x-token-ab12c",
            "kubernetes",
            "kube-api-access-abcde",
            "orphan"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let names = vec![
            "metadata",
            "spec",
            "status",
            "template",
            "jobTemplate",
            "creationTimestamp",
            "labels",
            "annotations",
            "clusterIP",
            "clusterIPs",
            "ports",
            "nodePort",
            "nodeName",
            "volumeName",
            "finalizers",
            "ownerReferences",
            "name",
            "secrets",
            "serviceAccount",
            "serviceAccountName",
            "selector",
            "matchLabels",
            "job-name",
            "conversion",
            "strategy",
            "webhooks",
            "clientConfig",
            "caBundle",
            "volumeClaimTemplates",
            "claimRef",
            "uid",
            "rules",
            "aggregationRule",
            "kubectl.kubernetes.io/last-applied-configuration",
            "cert-manager.io/inject-ca-from",
            "volumes",
            "projected",
            "containers",
            "volumeMounts",
            "taints",
            "key",
            "managedFields",
            "resourceVersion",
            "kubernetes.io/metadata.name",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let kinds = vec![
        ("v1", "Service"),
        ("v1", "Pod"),
        ("v1", "Namespace"),
        ("v1", "Node"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "PersistentVolume"),
        ("v1", "ServiceAccount"),
        ("v1", "Secret"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("example.org/v1", "Thing"),
    ];
    (prop::sample::select(kinds), any_value(), any_value(), any_value()).prop_map(
        |((api_version, kind), metadata, spec, more)| {
            let mut object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
            if more.is_object() {
                let fields = object.as_object_mut().unwrap();
                for (key, value) in more.as_object().unwrap() {
                    fields.entry(key.clone()).or_insert(value.clone());
                }
            }
            object
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn to_sanitize_twice_is_to_sanitize_once(object in any_object()) {
        if let Sanitized::Keep(once) = sanitize(object) {
            prop_assert_eq!(sanitize(once.clone()), Sanitized::Keep(once));
        }
    }
}
