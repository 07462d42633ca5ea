//! The real API server agrees: with what is known about its kinds, with what sanitize takes away, and with what the
//! differ calls a difference.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "api_server/draw.rs"]
mod draw;
#[path = "api_server/edits.rs"]
mod edits;
#[path = "api_server/owned.rs"]
mod owned;
#[path = "api_server/server.rs"]
mod server;
#[path = "api_server/shapes.rs"]
mod shapes;

use std::time::Duration;

use serde_json::{Value, json};
use server::Server;
use windlass_manifest::canonical::encode;
use windlass_manifest::diff::{Change, Difference, diff, diff_with};
use windlass_manifest::identity::Identity;
use windlass_manifest::order::layers;
use windlass_manifest::parse::{Limits, objects, parse};
use windlass_manifest::sanitize::{Sanitized, sanitize};
use windlass_manifest::schema::Schema;
use windlass_testbed::control_plane::ControlPlane;

/// One of nearly everything, for a namespace of this name.
fn wide(namespace: &str) -> Vec<Value> {
    read(&include_str!("api_server/wide.yaml").replace("NS", namespace))
}

fn read(text: &str) -> Vec<Value> {
    let documents = parse(text, &Limits::default()).unwrap();
    objects(documents).unwrap().into_iter().map(|object| object.value).collect()
}

fn in_order(objects: &[Value]) -> Vec<&Value> {
    let order = layers(objects);
    assert!(order.cycles.is_empty(), "{:?}", order.cycles);
    order.flat().map(|at| &objects[at]).collect()
}

fn name(object: &Value) -> String {
    Identity::of(object).unwrap().to_string()
}

/// An object without what every write changes.
fn still(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata.remove("resourceVersion");
    object
}

/// Reads an object until a condition holds.
async fn until(server: &Server, object: &Value, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..240 {
        let live = server.get(object).await;
        if holds(&live) {
            return live;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("{} did not get there: {}", name(object), server.get(object).await)
}

#[tokio::test]
async fn what_is_known_about_the_built_in_kinds_is_what_the_api_server_says() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let fresh = shapes::text(&shapes::schemas(&control_plane.admin()).await);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/built_in.txt");
    if std::env::var_os("WINDLASS_UPDATE").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    let missing: Vec<&str> = fresh.lines().filter(|line| !committed.lines().any(|l| l == *line)).collect();
    assert!(committed == fresh, "stale, run with WINDLASS_UPDATE=1; new lines:\n{}", missing.join("\n"));
}

/// Created by hand, read back, sanitized, written as YAML, read again and applied by somebody new: nothing changes. And
/// the same YAML makes the same objects in a cluster that has none of them.
#[tokio::test]
async fn a_sanitized_object_says_the_same_to_the_api_server() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let all = wide("captured");
    assert!(all.len() > 40);
    for object in in_order(&all) {
        server.create(object, "somebody").await;
    }
    let mut captured = Vec::new();
    for object in in_order(&all) {
        let live = match object["kind"].as_str().unwrap() {
            "PersistentVolumeClaim" => {
                until(&server, object, |live| live["status"]["phase"] == "Bound").await
            }
            "PersistentVolume" => {
                until(&server, object, |live| live["spec"]["claimRef"]["uid"].is_string()).await
            }
            "ClusterRole" if object.get("aggregationRule").is_some() => {
                until(&server, object, |live| !live["rules"].as_array().unwrap().is_empty()).await
            }
            "Deployment" => {
                until(&server, object, |live| live["status"]["observedGeneration"].is_number()).await
            }
            "CustomResourceDefinition" => {
                until(&server, object, |live| live["status"]["conditions"].is_array()).await
            }
            _ => server.get(object).await,
        };
        assert_eq!(read(&encode(&live)), std::slice::from_ref(&live), "{} as it lives", name(&live));

        let Sanitized::Keep(clean) = sanitize(live.clone()) else { panic!("{} was skipped", name(&live)) };
        check_clean(&clean);
        let text = encode(&clean);
        assert_eq!(read(&text), std::slice::from_ref(&clean), "{}", name(&live));
        captured.push(text.clone());

        // Controllers may write in between: then it is tried again.
        let mut tries = 0;
        loop {
            let before = server.get(object).await;
            let after = server.apply(&clean, &text, "newcomer", true).await;
            if still(before.clone()) == still(after.clone()) {
                break;
            }
            tries += 1;
            assert!(tries < 20, "{}:\n{}\n{}", name(&live), still(before), still(after));
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
    restore(&captured).await;
}

/// What the server and the scheduler pick is told from what somebody chose.
#[tokio::test]
async fn only_what_nobody_chose_is_taken_for_picked() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let namespace = control_plane.namespace("picked").await.unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chosen", "namespace": &*namespace},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "name": "a", "nodePort": 30007}, {"port": 81, "name": "b"}]}});
    server.create(&service, "somebody").await;
    // An edit of something else does not make anybody the author of what the server picked.
    server.patch(&service, &json!({"spec": {"selector": {"a": "b"}}}), "somebody-else").await;
    let live = server.get(&service).await;
    assert!(live["spec"]["ports"][1]["nodePort"].is_number() && live["spec"]["clusterIP"].is_string());
    let clean = sanitize(live).keep().unwrap();
    assert_eq!(clean["spec"]["ports"][0]["nodePort"], 30007);
    assert_eq!(clean.pointer("/spec/ports/1/nodePort"), None);
    assert_eq!(clean.pointer("/spec/clusterIP"), None);

    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": &*namespace},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "c:1"}]}})
    };
    server.create(&pod("bound"), "somebody").await;
    server.bind(&pod("bound"), "node-1").await;
    let live = server.get(&pod("bound")).await;
    assert_eq!(live["spec"]["nodeName"], "node-1");
    let clean = sanitize(live).keep().unwrap();
    for path in [
        "/spec/nodeName",
        "/spec/priority",
        "/spec/preemptionPolicy",
        "/spec/volumes",
        "/spec/containers/0/volumeMounts",
    ] {
        assert_eq!(clean.pointer(path), None, "{path}");
    }
    let mut placed = pod("placed");
    placed["spec"]["nodeName"] = "node-2".into();
    server.create(&placed, "somebody").await;
    let clean = sanitize(server.get(&placed).await).keep().unwrap();
    assert_eq!(clean["spec"]["nodeName"], "node-2");
}

/// Nothing of this cluster is left in the object.
fn check_clean(object: &Value) {
    for path in [
        "/status",
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/managedFields",
        "/metadata/creationTimestamp",
        "/metadata/generation",
        "/spec/volumeName",
        "/spec/claimRef/uid",
        "/spec/template/metadata/labels/controller-uid",
        "/spec/ports/0/nodePort",
        "/spec/healthCheckNodePort",
    ] {
        assert_eq!(object.pointer(path), None, "{}: {path}", name(object));
    }
    if let Some(address) = object.pointer("/spec/clusterIP") {
        assert_eq!(address, "None");
    }
}

/// Applies captured files to a cluster of their own, and captures them again there.
async fn restore(captured: &[String]) {
    let other = ControlPlane::builder().name("restored").start().await.unwrap();
    let server = Server(other.admin());
    let all: Vec<Value> = captured.iter().flat_map(|text| read(text)).collect();
    for object in in_order(&all) {
        server.apply(object, &encode(object), "restorer", false).await;
    }
    for (object, text) in all.iter().zip(captured) {
        let live = server.get(object).await;
        let again = encode(&sanitize(live).keep().unwrap());
        assert_eq!(&again, text, "{}", name(object));
    }
}

const US: &str = "windlass";

/// Applied by us in odd spellings: no difference. Changed by somebody else: exactly that one.
#[tokio::test]
async fn only_what_somebody_changed_differs_from_what_we_applied() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let all = wide("differed");
    for object in in_order(&all) {
        server.apply(object, &encode(object), US, false).await;
    }
    let shown =
        |differences: &[Difference]| -> Vec<String> { differences.iter().map(ToString::to_string).collect() };
    let mut wrong = Vec::new();
    for object in &all {
        let live = server.get(object).await;
        let found = shown(&diff(object, &live, US));
        if !found.is_empty() {
            wrong.push(format!("{} as applied: {found:?}", name(object)));
        }
        let foreign =
            json!({"metadata": {"labels": {"touch": "2"}, "annotations": {"example.org/theirs": "x"}}});
        let touched = server.patch(object, &foreign, "somebody").await;
        let found = shown(&diff(object, &touched, US));
        if found != ["metadata.labels.touch: wanted \"1\", live \"2\", set by somebody (Update)"] {
            wrong.push(format!("{} touched: {found:?}", name(object)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Changes by somebody else, and what the differ has to say about each.
#[tokio::test]
async fn a_foreign_change_is_named_by_its_field_and_its_manager() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let all = wide("edited");
    for object in in_order(&all) {
        server.apply(object, &encode(object), US, false).await;
    }
    for (kind, patch, wanted) in edits::cases() {
        let object = all.iter().find(|object| object["kind"] == kind).unwrap();
        let live = server.patch(object, &patch, "somebody").await;
        let found: Vec<String> = diff(object, &live, US).iter().map(shown_whole).collect();
        assert_eq!(
            found,
            Some(wanted).into_iter().filter(|wanted| !wanted.is_empty()).collect::<Vec<_>>(),
            "{kind} {patch}"
        );
        // Back to how it was, for the next change.
        let live = server.apply(object, &encode(object), US, false).await;
        let left: Vec<String> = diff(object, &live, US).iter().map(ToString::to_string).collect();
        assert!(left.is_empty(), "{kind} {patch} applied again: {left:?}");
    }
    // A Widget with a finalizer keeps its namespace; nobody else takes it off.
    let widget = all.iter().find(|object| object["kind"] == "Widget").unwrap();
    server.patch(widget, &json!({"metadata": {"finalizers": null}}), "somebody").await;
}

/// A sentence that is not cut.
fn shown_whole(difference: &Difference) -> String {
    let text = difference.to_string();
    if !text.contains('…') {
        return text;
    }
    let value = |value: &Option<windlass_manifest::diff::FieldValue>| {
        value.as_ref().map(|value| value.shown().to_string())
    };
    let owner = difference.owner.as_ref().map(|owner| format!(", set by {owner}")).unwrap_or_default();
    format!(
        "{}: wanted {}, live {}{owner}",
        difference.path,
        value(&difference.wanted).unwrap(),
        value(&difference.live).unwrap()
    )
}

/// Drawn objects, applied by us and by others and edited by hand: there is a difference exactly when an apply would
/// change something.
#[tokio::test]
async fn there_is_a_difference_exactly_when_an_apply_would_change_something() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let namespace = control_plane.namespace("drawn").await.unwrap();
    let definition =
        wide(&namespace).into_iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap();
    server.apply(&definition, &encode(&definition), US, false).await;
    until(&server, &definition, |live| {
        live["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        })
    })
    .await;
    let schema = Schema::built_in().with_definitions([&definition]);
    let (mut changes, mut quiet) = (0, 0);
    let seeds = std::env::var("WINDLASS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(160);
    for seed in 0..seeds {
        let mut dice = draw::Dice::new(seed);
        let drawn = |dice: &mut draw::Dice| match seed % 2 {
            0 => draw::deployment(dice, &namespace, seed),
            _ => draw::widget(dice, &namespace, seed),
        };
        let first = drawn(&mut dice);
        if server.try_apply(&first, US, false).await.is_none() {
            continue;
        }
        if dice.one_in(2) {
            server.try_apply(&drawn(&mut dice), "other", false).await;
        }
        let patch = draw::edit(&mut dice);
        if dice.one_in(2) {
            server.patch(&first, &patch, "editor").await;
        }
        let second = if dice.one_in(3) { first.clone() } else { drawn(&mut dice) };
        let live = server.get(&first).await;
        let Some(dry) = server.try_apply(&second, US, true).await else { continue };
        let differences = diff_with(&schema, &second, &live, US);
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let changed = content(&live) != content(&dry);
        let context =
            || format!("seed {seed}\nfirst {first}\nsecond {second}\nlive {live}\ndry {dry}\n{shown:#?}");
        // A field that others hold too stays when we let go of it: told as a removal, though nothing changes.
        let only_lets_go = differences.iter().all(|difference| difference.change() == Change::Remove);
        let differs = !differences.is_empty();
        assert!(changed == differs || (!changed && only_lets_go), "{}", context());
        if changed {
            changes += 1;
        } else {
            quiet += 1;
        }
        if server.try_apply(&second, US, false).await.is_some() {
            let left: Vec<String> = diff_with(&schema, &second, &server.get(&second).await, US)
                .iter()
                .map(ToString::to_string)
                .collect();
            assert!(left.is_empty(), "after an apply: {left:?}\n{}", context());
        }
    }
    assert!(changes > 30 && quiet > 10, "{changes} {quiet}");
}

/// What an apply is about: not what the server and controllers note, nor the order of items that have keys.
fn content(object: &Value) -> Value {
    let mut object = still(object.clone());
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("generation");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    sort_keyed(&mut object);
    object
}

fn sort_keyed(value: &mut Value) {
    let keyed = ["containers", "env", "ports", "volumes", "imagePullSecrets", "tags", "parts"];
    if let Value::Object(fields) = value {
        for (name, value) in fields.iter_mut() {
            if let Value::Array(items) = value {
                items.iter_mut().for_each(sort_keyed);
                if keyed.contains(&name.as_str()) {
                    items.sort_by_key(ToString::to_string);
                }
            }
            sort_keyed(value);
        }
    }
}
