//! Health holds for any JSON: it ends, it does not panic, and it is never more hopeful than the object.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_manifest::health::{Status, generic, health};

/// Kinds with a judge of their own, kinds with rules, and one that nobody knows.
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("policy/v1", "PodDisruptionBudget"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("storage.k8s.io/v1", "VolumeAttachment"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("gateway.networking.k8s.io/v1", "BackendTLSPolicy"),
    ("argoproj.io/v1alpha1", "Rollout"),
    ("cert-manager.io/v1", "Certificate"),
    ("cluster.x-k8s.io/v1beta1", "Cluster"),
    ("kafka.strimzi.io/v1beta2", "Kafka"),
    ("promoter.argoproj.io/v1alpha1", "PromotionStrategy"),
    ("strange.example.net/v1", "Thing"),
];

/// Kinds whose controllers say which generation they read.
const COUNTING: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("cert-manager.io/v1", "Certificate"),
    ("kafka.strimzi.io/v1beta2", "Kafka"),
    ("strange.example.net/v1", "Thing"),
];

/// Words that judges look for, so that the random objects come near to real ones.
const KEYS: &[&str] = &[
    "conditions",
    "type",
    "status",
    "reason",
    "message",
    "phase",
    "state",
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "availableReplicas",
    "parents",
    "listeners",
    "containerStatuses",
    "waiting",
    "suspend",
    "paused",
    "health",
    "ready",
    "error",
    "environments",
    "active",
    "ingress",
    "loadBalancer",
];

const WORDS: &[&str] = &[
    "True",
    "False",
    "Unknown",
    "Ready",
    "Available",
    "Running",
    "Failed",
    "Pending",
    "Accepted",
    "Progressing",
    "",
    "CrashLoopBackOff",
    "Paused",
    "NotReady",
    "3/3",
    "ä…\u{0}",
    "Bound",
    "0",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(prop::sample::select(KEYS), inner, 0..6).prop_map(|map| Value::Object(
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    (prop::sample::select(KINDS), any_json(), any_json(), any_json(), any::<bool>()).prop_map(
        |((version, kind), metadata, spec, status, map)| {
            let mut object = Map::new();
            object.insert("apiVersion".into(), (*version).into());
            object.insert("kind".into(), (*kind).into());
            object.insert("metadata".into(), if map { json!({ "generation": 2 }) } else { metadata });
            object.insert("spec".into(), spec);
            object.insert("status".into(), status);
            Value::Object(object)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_of_any_kind_is_judged(object in any_object()) {
        let judged = health(&object);
        prop_assert!(judged.message.len() < 1100);
        prop_assert_eq!(&judged, &health(&object), "the same object has the same health");
        generic(&object);
    }

    #[test]
    fn anything_that_is_being_deleted_is_not_healthy(mut object in any_object()) {
        object["metadata"] = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        prop_assert_ne!(health(&object).status, Status::Healthy);
        prop_assert_ne!(generic(&object).status, Status::Healthy);
    }

    #[test]
    fn an_unread_generation_is_not_healthy(mut object in any_object(), kind in prop::sample::select(COUNTING)) {
        object["apiVersion"] = json!(kind.0);
        object["kind"] = json!(kind.1);
        object["metadata"] = json!({ "generation": 7 });
        if !object["status"].is_object() {
            object["status"] = json!({});
        }
        object["status"]["observedGeneration"] = json!(6);
        prop_assert_ne!(health(&object).status, Status::Healthy);
    }

    #[test]
    fn a_fault_beside_good_words_is_not_healthy(mut object in any_object(), fault in prop::sample::select(
        &["Degraded", "Stalled", "Failed", "ReconcileError", "HasErrors", "Unhealthy", "InvalidSpec"][..])) {
        object["apiVersion"] = json!("strange.example.net/v1");
        object["kind"] = json!("Thing");
        object["metadata"] = json!({});
        object["status"] = json!({ "phase": "Ready", "conditions": [
            { "type": "Ready", "status": "True" }, { "type": fault, "status": "True" } ] });
        prop_assert_ne!(health(&object).status, Status::Healthy);
    }
}
