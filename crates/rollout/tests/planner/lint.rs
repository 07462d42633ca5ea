//! What bad input gets: a condition with a reason and a remedy, and nothing moves.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use serde_json::{Value, json};
use windlass_api::{
    condition,
    rollout::{
        analysis::TemplateRef,
        status::{INVALID_SPEC, Phase},
    },
};
use windlass_rollout::{
    lint::{lint, lint_spec},
    observed::{Rival, RouteTrouble, TemplateFacts},
};

use crate::world::{World, rollout};

/// The reasons of what is wrong in a spec with this strategy.
fn reasons(strategy: Value) -> Vec<(String, &'static str)> {
    let findings = lint_spec(&rollout(strategy, 3));
    for finding in &findings {
        assert!(!finding.what.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
    }
    findings.into_iter().map(|finding| (finding.field, finding.reason)).collect()
}

fn has(strategy: Value, field: &str, reason: &str) {
    let found = reasons(strategy.clone());
    assert!(
        found.iter().any(|(at, why)| at.ends_with(field) && *why == reason),
        "{field} {reason}: {found:?} in {strategy}"
    );
}

fn routed(extra: Value) -> Value {
    let mut canary = json!({
        "canaryService": "c", "stableService": "s", "trafficRouting": { "gatewayAPI": { "httpRoute": "r" } },
    });
    canary.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "canary": canary })
}

#[test]
fn good_specs_have_no_findings() {
    for strategy in [
        json!({ "simple": {} }),
        json!({ "canary": {} }),
        json!({ "canary": { "steps": [{ "setWeight": 0 }, { "pause": {} }, { "setWeight": 100 }] } }),
        routed(json!({ "dynamicStableScale": true, "steps": [{ "setCanaryScale": { "replicas": 1 } }] })),
        json!({ "blueGreen": { "activeService": "a" } }),
        json!({ "canary": { "canaryService": "c", "stableService": "s", "trafficRouting": {
            "plugins": { "argoproj-labs/gatewayAPI": { "httpRoute": "r", "namespace": "shop" } } } } }),
    ] {
        assert_eq!(reasons(strategy.clone()), [], "{strategy}");
    }
}

#[test]
fn bad_strategies_are_refused_with_the_field_and_a_remedy() {
    has(json!({}), "strategy", "InvalidStrategy");
    has(json!({ "simple": {}, "canary": {} }), "strategy", "InvalidStrategy");
    has(json!({ "canary": { "maxSurge": 0, "maxUnavailable": "0%" } }), "maxSurge", "NoRoomToMove");
    has(json!({ "canary": { "maxSurge": "lots" } }), "maxSurge", "InvalidAmount");
    has(json!({ "canary": { "scaleDownDelaySeconds": 5 } }), "scaleDownDelaySeconds", "NeedsTrafficRouting");
    has(json!({ "canary": { "dynamicStableScale": true } }), "dynamicStableScale", "NeedsTrafficRouting");
    has(
        routed(json!({ "dynamicStableScale": true, "scaleDownDelaySeconds": 5 })),
        "dynamicStableScale",
        "InvalidCombination",
    );
    has(routed(json!({ "canaryService": "s" })), "stableService", "DuplicateService");
    has(routed(json!({ "canaryService": "" })), "canaryService", "MissingService");
    has(routed(json!({ "trafficRouting": {} })), "gatewayAPI", "MissingRoute");
    has(
        json!({ "blueGreen": { "activeService": "a", "previewService": "a" } }),
        "activeService",
        "DuplicateService",
    );
    has(json!({ "blueGreen": {} }), "activeService", "MissingService");
    has(
        json!({ "blueGreen": { "activeService": "a", "scaleDownDelayRevisionLimit": 11 } }),
        "scaleDownDelayRevisionLimit",
        "InvalidLimit",
    );
    has(
        json!({ "blueGreen": { "activeService": "a", "antiAffinity": {} } }),
        "antiAffinity",
        "InvalidAntiAffinity",
    );
    has(
        json!({ "abTest": { "stableService": "s", "canaryService": "c", "trafficRouting": { "gatewayAPI": { "httpRoute": "r" } } } }),
        "variant.match",
        "NoVariant",
    );
}

#[test]
fn bad_steps_are_refused_with_their_index() {
    let step = |step: Value| json!({ "canary": { "steps": [{ "setWeight": 1 }, step] } });
    has(step(json!({ "setWeight": 101 })), "steps[1].setWeight", "InvalidWeight");
    has(step(json!({ "setWeight": -1 })), "steps[1].setWeight", "InvalidWeight");
    has(step(json!({ "pause": { "duration": -5 } })), "pause.duration", "InvalidDuration");
    has(step(json!({ "pause": { "duration": "soon" } })), "pause.duration", "InvalidDuration");
    has(step(json!({})), "steps[1]", "InvalidStep");
    has(step(json!({ "setWeight": 5, "pause": {} })), "steps[1]", "InvalidStep");
    has(step(json!({ "setCanaryScale": { "replicas": 1 } })), "setCanaryScale", "NeedsTrafficRouting");
    has(step(json!({ "setHeaderRoute": { "name": "x" } })), "setHeaderRoute", "NeedsTrafficRouting");
    has(step(json!({ "analysis": {} })), "analysis.templates", "NoTemplate");
    has(
        step(json!({ "analysis": { "templates": [{ "templateName": "t" }], "args": [
            { "name": "a", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['none']" } } }] } })),
        "args[0]",
        "UnknownFieldPath",
    );
    has(
        step(json!({ "experiment": { "templates": [{ "name": "a", "specRef": "canary", "weight": 5 }] } })),
        "templates[0].weight",
        "NeedsTrafficRouting",
    );
    let header =
        json!([{ "setHeaderRoute": { "name": "x", "match": [{ "headerName": "h", "headerValue": {} }] } }]);
    has(routed(json!({ "steps": header })), "setHeaderRoute", "UnmanagedRoute");
    has(routed(json!({ "steps": header })), "match[0]", "InvalidMatch");
}

#[test]
fn a_field_that_windlass_does_not_have_is_refused_by_name_and_never_dropped() {
    has(json!({ "canary": { "pingPong": { "pingService": "a" } } }), "canary.pingPong", "UnsupportedField");
    has(
        json!({ "canary": { "steps": [{ "plugin": { "name": "x" } }] } }),
        "steps[0].plugin",
        "UnsupportedField",
    );
    has(routed(json!({ "trafficRouting": { "istio": {} } })), "trafficRouting.istio", "UnsupportedField");
    has(
        routed(json!({ "trafficRouting": { "plugins": { "other/router": {} } } })),
        "plugins",
        "UnsupportedField",
    );
    has(json!({ "canary": { "setp": [] } }), "canary.setp", "UnknownField");
    let written = json!({ "canary": { "pingPong": { "pingService": "a" } } });
    let kept = serde_json::to_value(&rollout(written.clone(), 1).spec.strategy).unwrap();
    assert_eq!(kept, written, "what is not known stays as it was written");
}

#[test]
fn bad_templates_and_selectors_are_refused() {
    let with = |path: &str, value: Value| {
        let mut object = serde_json::to_value(rollout(json!({ "simple": {} }), 1)).unwrap();
        *object.pointer_mut(path).unwrap() = value;
        let findings = lint_spec(&serde_json::from_value(object).unwrap());
        findings.into_iter().map(|finding| finding.reason).collect::<Vec<_>>()
    };
    assert_eq!(with("/spec/selector/matchLabels", json!({ "app": "other" })), ["SelectorMismatch"]);
    assert_eq!(with("/spec/selector/matchLabels", json!({})), ["EmptySelector"]);
    assert_eq!(with("/spec/selector", Value::Null), ["MissingField"]);
    assert_eq!(with("/spec/template", Value::Null), ["MissingField"]);
    assert_eq!(with("/spec/template/spec/containers", json!([])), ["MissingField"]);
    assert_eq!(with("/spec/template/spec/containers/0/image", json!("")), ["MissingField"]);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let mut object = rollout(json!({ "simple": {} }), 1);
    object.spec.min_ready_seconds = 30;
    object.spec.progress_deadline_seconds = Some(30);
    assert_eq!(lint_spec(&object)[0].reason, "InvalidDeadline");
    object.spec.replicas = -1;
    assert!(lint_spec(&object).iter().any(|finding| finding.field == "spec.replicas"));
}

/// Breaks a healthy world in mid-rollout and says why nothing moves.
fn stopped(change: impl FnOnce(&mut World)) -> String {
    let mut world = World::healthy(routed(json!({ "steps": [{ "setWeight": 20 }, { "pause": {} }] })), 5);
    world.set_image("web:2");
    world.settle();
    let before = (world.weights(), world.counts(["web:1", "web:2"]));
    change(&mut world);
    let plan = world.round();
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    assert_eq!((world.weights(), world.counts(["web:1", "web:2"])), before, "traffic and pods stay");
    assert_eq!(world.phase(), Phase::Failed);
    let found = condition::get(&world.status().conditions, INVALID_SPEC).unwrap().clone();
    assert_eq!(found.status, "True");
    assert!(found.message.ends_with('.'), "{}", found.message);
    found.reason
}

#[test]
fn what_a_spec_names_has_to_be_there_and_to_fit() {
    assert_eq!(stopped(|world| *world.services.get_mut("s").unwrap() = None), "ServiceNotFound");
    assert_eq!(
        stopped(|world| {
            let service = world.services.get_mut("c").unwrap().as_mut().unwrap();
            service.selector.insert("app".into(), "other".into());
        }),
        "WrongSelector"
    );
    assert_eq!(
        stopped(|world| world.services.get_mut("c").unwrap().as_mut().unwrap().has_port = false),
        "MissingPort"
    );
    assert_eq!(
        stopped(|world| {
            world.routes[0].trouble = Some(RouteTrouble {
                reason: "RouteNotFound",
                what: "it is not there".into(),
                remedy: "make it".into(),
            });
        }),
        "RouteNotFound"
    );
}

#[test]
fn a_finding_goes_when_its_cause_goes_and_the_update_goes_on() {
    let mut world = World::healthy(routed(json!({ "steps": [{ "setWeight": 20 }, { "pause": {} }] })), 5);
    world.set_image("web:2");
    world.settle();
    let service = world.services["s"].clone();
    world.services.insert("s".into(), None);
    world.round();
    world.services.insert("s".into(), service);
    world.settle();
    assert_eq!(world.phase(), Phase::Paused);
    assert!(condition::get(&world.status().conditions, INVALID_SPEC).is_none());
}

#[test]
fn two_rollouts_on_one_service_are_told_and_the_older_one_keeps_it() {
    let world = World::new(json!({ "blueGreen": { "activeService": "a" } }), 1);
    let mut observed = world.observe();
    for (older, findings) in [(true, 1), (false, 0)] {
        observed.rivals = vec![Rival { service: "a".into(), rollout: "other".into(), older }];
        assert_eq!(lint(&observed).len(), findings);
    }
    // Who moves its selector already keeps it, as long as it is there and names it.
    observed.services.get_mut("a").unwrap().as_mut().unwrap().managed_by = Some("other".into());
    assert_eq!(lint(&observed).len(), 1);
    observed.rivals.clear();
    assert_eq!(lint(&observed).len(), 0);
}

#[test]
fn a_template_that_is_not_there_is_told() {
    let world = World::new(
        json!({ "canary": { "steps": [{ "analysis": { "templates": [{ "templateName": "t" }] } }] } }),
        1,
    );
    let mut observed = world.observe();
    observed.templates.values_mut().for_each(|facts| *facts = None);
    assert_eq!(lint(&observed)[0].reason, "TemplateNotFound");
}

#[test]
fn every_argument_of_a_template_needs_a_value_from_somewhere() {
    let step = |args: serde_json::Value| {
        let analysis = json!({ "templates": [{ "templateName": "t" }], "args": args });
        World::new(json!({ "canary": { "steps": [{ "analysis": analysis }] } }), 1)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let named = |name: &str| TemplateRef { template_name: name.into(), cluster_scope: false };
    let asks =
        TemplateFacts { open: names(&["host"]), nested: vec![named("more")], ..TemplateFacts::default() };
    let found = |world: &World, more: Option<TemplateFacts>| {
        let mut observed = world.observe();
        observed.templates = [(named("t"), Some(asks.clone())), (named("more"), more)].into();
        lint(&observed).into_iter().map(|finding| (finding.field, finding.reason)).collect::<Vec<_>>()
    };
    let none = step(json!([]));
    let missing = [("spec.strategy.canary.steps[0].analysis.args".to_owned(), "MissingArgument")];
    assert_eq!(found(&none, Some(TemplateFacts::default())), missing);
    let gives = TemplateFacts { given: names(&["host"]), ..TemplateFacts::default() };
    assert_eq!(found(&none, Some(gives)), []);
    // The one that is not there may give it.
    assert_eq!(found(&none, None), []);
    assert_eq!(
        found(&step(json!([{ "name": "host", "value": "shop" }])), Some(TemplateFacts::default())),
        []
    );
}

#[test]
fn a_workload_reference_needs_a_deployment_and_no_template_beside_it() {
    let mut world = World::new(json!({ "simple": {} }), 1);
    world.rollout.spec.workload_ref = Some(windlass_api::rollout::WorkloadRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "web".into(),
        scale_down: None,
    });
    let reasons = |world: &World| lint(&world.observe()).into_iter().map(|f| f.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&world), ["TemplateAndWorkload", "WorkloadNotFound"]);
    world.rollout.spec.template = None;
    assert_eq!(reasons(&world), ["WorkloadNotFound"]);
    world.rollout.spec.workload_ref.as_mut().unwrap().kind = "StatefulSet".into();
    assert_eq!(reasons(&world), ["UnsupportedWorkload"]);
}
