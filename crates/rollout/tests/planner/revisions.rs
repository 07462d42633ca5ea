//! Hashes, names, numbers, and whose `ReplicaSets` they are.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::rollout::{POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY, status::Phase};
use windlass_rollout::{
    observed::ReplicaSetFacts,
    plan::Action,
    revision::{same_template, template_hash},
};

use crate::world::World;

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{
            "name": "web", "image": "web:1",
            "ports": [{ "containerPort": 80 }],
            "readinessProbe": { "httpGet": { "port": 80 } },
            "resources": { "limits": { "cpu": "1" } },
        }], "volumes": [{ "name": "v", "configMap": { "name": "c" } }, { "name": "t", "emptyDir": {} }] },
    })
}

#[test]
fn writing_a_default_out_is_no_new_revision() {
    let mut written = template();
    written["metadata"]["creationTimestamp"] = Value::Null;
    written["spec"]["restartPolicy"] = json!("Always");
    written["spec"]["dnsPolicy"] = json!("ClusterFirst");
    written["spec"]["terminationGracePeriodSeconds"] = json!(30.0);
    written["spec"]["securityContext"] = json!({});
    written["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    written["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    written["spec"]["containers"][0]["readinessProbe"]["periodSeconds"] = json!(10);
    written["spec"]["containers"][0]["readinessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    written["spec"]["containers"][0]["resources"]["requests"] = json!({ "cpu": "1" });
    written["spec"]["volumes"][0]["configMap"]["defaultMode"] = json!(420);
    assert_eq!(template_hash(&template(), 0), template_hash(&written, 0));
    assert!(same_template(&template(), &written));
}

#[test]
fn every_real_change_is_a_new_revision() {
    let base = template_hash(&template(), 0);
    let changes: [(&str, Value); 6] = [
        ("/spec/containers/0/image", json!("web:2")),
        ("/spec/containers/0/name", json!("other")),
        ("/spec/containers/0/ports/0/containerPort", json!(81)),
        ("/metadata/labels/app", json!("shop")),
        ("/spec/volumes/1", json!({ "name": "t" })),
        ("/spec/containers/0/resources/limits/cpu", json!("2")),
    ];
    for (path, value) in changes {
        let mut changed = template();
        *changed.pointer_mut(path).unwrap() = value;
        assert_ne!(template_hash(&changed, 0), base, "{path}");
        assert!(!same_template(&changed, &template()), "{path}");
    }
    assert_ne!(template_hash(&template(), 1), base, "a collision leads to another hash");
}

#[test]
fn a_hash_is_ten_letters_and_digits_without_vowels_and_stays_the_same() {
    let hash = template_hash(&template(), 0);
    assert_eq!(hash.len(), 10);
    assert!(hash.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{hash}");
    assert_eq!(hash, template_hash(&template(), 0));
}

proptest! {
    #[test]
    fn the_order_of_fields_does_not_change_a_hash(names in proptest::collection::btree_set("[a-z]{1,8}", 1..8)) {
        let env = |names: Vec<&String>| -> Value {
            let map: serde_json::Map<String, Value> = names.into_iter().map(|n| (n.clone(), json!("x"))).collect();
            json!({ "metadata": { "annotations": map }, "spec": { "containers": [] } })
        };
        let forward = env(names.iter().collect());
        let backward = env(names.iter().rev().collect());
        prop_assert_eq!(template_hash(&forward, 0), template_hash(&backward, 0));
    }
}

fn canary() -> Value {
    json!({ "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }] } })
}

#[test]
fn revisions_count_up_and_a_rollback_gets_a_new_number_and_keeps_the_old_ones() {
    let mut world = World::healthy(json!({ "simple": {} }), 2);
    world.set_image("web:2");
    world.settle();
    world.set_image("web:1");
    world.settle();
    let first = world.of_image("web:1").unwrap();
    assert_eq!(first.annotations[REVISION], "3");
    assert_eq!(first.annotations[REVISION_HISTORY], "1");
    assert_eq!(world.of_image("web:2").unwrap().annotations[REVISION], "2");
    assert_eq!(world.rollout.metadata.annotations.as_ref().unwrap()[REVISION], "3");
    assert_eq!(world.status().revision, Some(3));
}

#[test]
fn an_orphan_that_the_selector_matches_is_adopted_and_used() {
    let mut world = World::healthy(canary(), 2);
    world.sets[0].controller = None;
    let plan = world.plan();
    assert!(matches!(&plan.actions[..], [Action::AdoptReplicaSet { .. }]), "{:?}", plan.actions);
    world.settle();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.sets.len(), 1);
}

#[test]
fn a_replica_set_of_another_controller_is_never_touched() {
    let mut world = World::healthy(canary(), 2);
    let mut foreign = world.sets[0].clone();
    (foreign.uid, foreign.name) = ("foreign".into(), "foreign".into());
    foreign.controller = Some("somebody".into());
    world.sets.push(foreign.clone());
    world.set_image("web:2");
    world.settle();
    assert_eq!(world.sets.iter().find(|set| set.uid == "foreign").unwrap().wanted, foreign.wanted);
    assert_eq!(world.status().replicas, 2);
}

#[test]
fn an_owned_replica_set_that_the_selector_no_longer_matches_is_released() {
    let mut world = World::healthy(canary(), 2);
    let mut stray = world.sets[0].clone();
    (stray.uid, stray.name) = ("stray".into(), "stray".into());
    stray.labels.insert("app".into(), "other".into());
    world.sets.push(stray);
    let plan = world.plan();
    assert!(
        plan.actions
            .iter()
            .any(|action| matches!(action, Action::ReleaseReplicaSet { uid, .. } if uid == "stray"))
    );
}

#[test]
fn a_name_that_somebody_else_has_leads_to_another_hash() {
    let mut world = World::new(canary(), 2);
    let hash = template_hash(world.rollout.spec.template.as_ref().unwrap(), 0);
    world.sets.push(ReplicaSetFacts {
        name: format!("web-{hash}"),
        uid: "foreign".into(),
        controller: Some("somebody".into()),
        labels: [(POD_TEMPLATE_HASH.to_owned(), hash.clone())].into(),
        template: Arc::new(json!({})),
        ..ReplicaSetFacts::default()
    });
    world.settle();
    assert_eq!(world.status().collision_count, Some(1));
    assert_ne!(world.status().current_pod_hash, Some(hash));
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn old_revisions_beyond_the_limit_are_deleted_oldest_first() {
    let mut world = World::healthy(json!({ "simple": {} }), 1);
    world.rollout.spec.revision_history_limit = Some(2);
    for version in 2..=6 {
        world.set_image(&format!("web:{version}"));
        world.settle();
    }
    let left: Vec<bool> =
        (1..=6).map(|version| world.of_image(&format!("web:{version}")).is_some()).collect();
    assert_eq!(left, [false, false, false, true, true, true]);
}
