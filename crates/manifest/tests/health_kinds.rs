//! Kinds one by one: what their controllers write, and what it means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use windlass_manifest::health::{Rules, Status, health};
use windlass_manifest::parse::{Limits, parse};

/// Judges every document of a text; each names what it wants in a field of its own.
fn check(text: &str) {
    let mut wrong = Vec::new();
    for document in parse(text, &Limits::default()).unwrap() {
        let mut object = document.value;
        let wanted = object.as_object_mut().unwrap().remove("want").unwrap();
        let judged = health(&object);
        if judged.status.as_str() != wanted {
            wrong.push(format!("{} {object}: want {wanted}, got {judged:?}", document.position));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn workloads_are_healthy_when_their_newest_spec_is_rolled_out() {
    check(include_str!("health/workloads.yaml"));
}

#[test]
fn the_rest_of_the_api_server_is_judged_by_its_own_words() {
    check(include_str!("health/cluster.yaml"));
}

#[test]
fn rollouts_runs_and_experiments_are_judged_by_their_phase_and_what_they_have_read() {
    check(include_str!("health/own.yaml"));
}

#[test]
fn popular_operators_are_judged_by_what_their_status_means() {
    check(include_str!("health/operators.yaml"));
}

#[test]
fn whole_families_of_operators_are_judged_by_rules_and_by_convention() {
    check(include_str!("health/data.yaml"));
    check(include_str!("health/platforms.yaml"));
    check(include_str!("health/delivery.yaml"));
}

#[test]
fn kinds_nobody_wrote_a_rule_for_are_judged_by_convention() {
    check(include_str!("health/strangers.yaml"));
    check(include_str!("health/by_conditions.yaml"));
    check(include_str!("health/by_phase.yaml"));
}

const WIDGETS: &str = "
group: example.com
kinds: [Widget]
rules:
  - when: has(status.broken) && status.broken.exists(b, b.grave)
    status: Degraded
    message: ${size(status.broken)} broken, first ${status.broken[0].name}
  - when: conditions.Fine.isTrue && num(status.made) >= num(spec.wanted)
    status: Healthy
    message: all ${status.made} made, ${conditions.Fine.message}
otherwise:
  status: Progressing
  message: ${num(status.made)} of ${spec.wanted}
---
groups: [_.example.org]
kinds: ['*']
rules:
  - when: 'true'
    status: Suspended
    message: by suffix
";

#[test]
fn rules_of_the_user_come_first_and_speak_the_same_form() {
    let rules = Rules::with(WIDGETS).unwrap();
    let judge = |text: &str| rules.health(&parse(text, &Limits::default()).unwrap().remove(0).value);
    let broken = judge(
        "{apiVersion: example.com/v1, kind: Widget, spec: {wanted: 3}, status: {broken: [{name: axle, grave: true}]}}",
    );
    assert_eq!((broken.status, broken.message.as_str()), (Status::Degraded, "1 broken, first axle"));
    let fine = judge(
        "{apiVersion: example.com/v1, kind: Widget, spec: {wanted: 3}, \
         status: {made: '3', conditions: [{type: Fine, status: 'True', message: good}]}}",
    );
    assert_eq!((fine.status, fine.message.as_str()), (Status::Healthy, "all 3 made, good"));
    let early = judge("{apiVersion: example.com/v1, kind: Widget, spec: {wanted: 3}}");
    assert_eq!((early.status, early.message.as_str()), (Status::Progressing, "0 of 3"));
    assert_eq!(judge("{apiVersion: deep.example.org/v1, kind: Any}").status, Status::Suspended);
    // What the user says about a built-in kind counts too.
    let own =
        Rules::with("{group: apps, kinds: [Deployment], rules: [{when: 'true', status: Unknown}]}").unwrap();
    let deployment =
        parse("{apiVersion: apps/v1, kind: Deployment}", &Limits::default()).unwrap().remove(0).value;
    assert_eq!(own.health(&deployment).status, Status::Unknown);
}

#[test]
fn a_mistake_in_a_rule_is_told_with_its_place_when_the_rule_is_read() {
    let wrong = |text: &str| Rules::with(text).unwrap_err();
    let unknown = wrong("{group: a.b, kinds: [C], rules: [{when: statsu.phase == 'x', status: Healthy}]}");
    assert_eq!(unknown.category(), "expression");
    assert!(unknown.to_string().contains("rule 1: there is no variable statsu"), "{unknown}");
    let call = wrong("{group: a.b, kinds: [C], rules: [{when: fails(status.phase), status: Healthy}]}");
    assert!(call.to_string().contains("there is no function fails"), "{call}");
    let syntax = wrong("{group: a.b, kinds: [C], rules: [{when: 'status.phase ==', status: Healthy}]}");
    assert_eq!(syntax.category(), "expression");
    let message = wrong("{group: a.b, kinds: [C], otherwise: {status: Healthy, message: '${status.phase'}}");
    assert!(message.to_string().contains("without its"), "{message}");
    for text in [
        "{group: a.b, kinds: [C], rules: [{when: 'true', status: Fine}]}",
        "{group: a.b, kinds: [C], rule: []}",
        "{kinds: [C]}",
        "]",
    ] {
        assert_eq!(wrong(text).category(), "form", "{text}");
    }
}

#[test]
fn a_rule_that_stumbles_over_an_odd_object_leaves_it_to_the_next() {
    let rules = Rules::with(
        "{group: a.b, kinds: [C], rules: [{when: status.got > 3, status: Degraded}, \
         {when: 'status.got.startsWith(\"x\")', status: Suspended}, {when: 'status.list[7].x == 1', status: Unknown}], \
         otherwise: {status: Healthy, message: 'n is ${status.got}'}}",
    )
    .unwrap();
    let judge = |text: &str| rules.health(&parse(text, &Limits::default()).unwrap().remove(0).value);
    assert_eq!(judge("{apiVersion: a.b/v1, kind: C, status: {got: 4}}").status, Status::Degraded);
    assert_eq!(judge("{apiVersion: a.b/v1, kind: C, status: {got: xyz}}").status, Status::Suspended);
    assert_eq!(judge("{apiVersion: a.b/v1, kind: C, status: {got: [1]}}").message, "n is 1");
    assert_eq!(judge("{apiVersion: a.b/v1, kind: C}").message, "n is ");
}

#[test]
fn what_is_no_object_is_unknown_and_messages_are_cut() {
    assert_eq!(health(&serde_json::json!(null)).status, Status::Unknown);
    assert_eq!(health(&serde_json::json!({ "metadata": { "name": "x" } })).status, Status::Unknown);
    let long = "ä".repeat(100_000);
    let object = serde_json::json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "Failed", "message": long }] },
    });
    let judged = health(&object);
    assert_eq!(judged.status, Status::Degraded);
    assert!(judged.message.len() < 1100 && judged.message.ends_with('…'));
}

#[test]
fn what_is_not_healthy_always_has_a_message() {
    for object in [
        serde_json::json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Pending" } }),
        serde_json::json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Failed" } }),
        serde_json::json!({ "apiVersion": "example.com/v1", "kind": "Widget", "status": { "ready": false } }),
    ] {
        let judged = health(&object);
        assert!(judged.status != Status::Healthy && !judged.message.is_empty(), "{object}: {judged:?}");
    }
}

#[test]
fn statuses_are_written_as_their_words() {
    for status in [
        Status::Healthy,
        Status::Progressing,
        Status::Degraded,
        Status::Suspended,
        Status::Missing,
        Status::Unknown,
    ] {
        assert_eq!(serde_json::to_value(status).unwrap(), status.to_string());
    }
}
