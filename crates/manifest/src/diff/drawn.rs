//! Properties of the differ over objects drawn at random, with the names of real fields at the wrong places too.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::digest::digest;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        prop::sample::select(vec![1.0, 0.5]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "1", "1000m", "TCP", "2026-01-01T00:00:00Z", "YQ==", "k:{}"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        let names = vec![
            "spec",
            "template",
            "containers",
            "name",
            "ports",
            "containerPort",
            "protocol",
            "env",
            "resources",
            "limits",
            "cpu",
            "selector",
            "matchLabels",
            "tolerations",
            "finalizers",
            "labels",
            "replicas",
            "strategy",
            "x",
            "a.b/c",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// Field sets, well formed or not.
fn any_set() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!({})), Just(json!(1)), Just(json!({".": {}}))];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let names = vec![
            "f:spec",
            "f:template",
            "f:containers",
            "f:name",
            "f:ports",
            "f:env",
            "f:metadata",
            "f:labels",
            "f:finalizers",
            "k:{\"name\":\"a\"}",
            "k:{\"containerPort\":1,\"protocol\":\"TCP\"}",
            "k:{",
            "k:1",
            "v:\"a\"",
            "v:",
            "i:0",
            ".",
            "x",
            "",
        ];
        prop::collection::btree_map(prop::sample::select(names), inner, 0..5)
            .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let kinds = vec![
        ("apps/v1", "Deployment"),
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("example.org/v1", "Thing"),
    ];
    (prop::sample::select(kinds), any_value(), any_value(), any_value()).prop_map(|((api_version, kind), metadata, spec, data)| {
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "data": data})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_object_does_not_differ_from_itself(object in any_object()) {
        prop_assert_eq!(compare(&object, &object), vec![]);
        prop_assert_eq!(diff(&object, &object, "windlass"), vec![]);
    }

    #[test]
    fn two_documents_differ_both_ways_or_not_at_all(a in any_object(), b in any_object()) {
        let mut b = b;
        b["apiVersion"] = a["apiVersion"].clone();
        b["kind"] = a["kind"].clone();
        prop_assert_eq!(compare(&a, &b).len(), compare(&b, &a).len());
        prop_assert!(digest(&a) != digest(&b) || compare(&a, &b).is_empty());
    }

    #[test]
    fn no_field_set_makes_the_differ_stumble(wanted in any_object(), live in any_object(), ours in any_set(), theirs in any_set()) {
        let mut live = live;
        if let Value::Object(metadata) = &mut live["metadata"] {
            let entry = |manager: &str, set| json!({"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": set});
            metadata.insert("managedFields".into(), json!([entry("windlass", ours), entry("other", theirs)]));
        }
        for difference in diff(&wanted, &live, "windlass") {
            prop_assert!(difference.wanted.is_some() || difference.live.is_some());
            prop_assert!(!difference.to_string().is_empty());
        }
    }
}
