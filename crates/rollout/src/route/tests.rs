#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::rollout::traffic::{HeaderMatch, RouteMatch, StringMatch};

use super::*;
use crate::observed::{HeaderRule, MirrorRule, RouteKind};

fn pair() -> Pair {
    Pair { namespace: "shop".into(), stable: "web".into(), canary: "web-canary".into() }
}

fn weight(canary: i32) -> TrafficWish {
    TrafficWish { stable: 100 - canary, canary, ..TrafficWish::default() }
}

fn exact(text: &str) -> StringMatch {
    StringMatch { exact: text.into(), ..StringMatch::default() }
}

fn prefix(text: &str) -> StringMatch {
    StringMatch { prefix: text.into(), ..StringMatch::default() }
}

fn seen(route: &Value) -> TrafficWish {
    read(route, RouteKind::Http, &pair()).unwrap()
}

fn backend(name: &str, weight: u32) -> Value {
    json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": weight })
}

fn route(rules: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7", "annotations": { "team": "a" } },
        "spec": { "parentRefs": [{ "name": "gate" }], "hostnames": ["shop.example"], "rules": rules }
    })
}

fn plain() -> Value {
    route(&json!([
        { "matches": [{ "path": { "type": "PathPrefix", "value": "/static" } }], "backendRefs": [backend("files", 1)] },
        {
            "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
            "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "add": [{ "name": "a", "value": "b" }] } }],
            "backendRefs": [backend("web", 100), backend("third", 5), backend("web-canary", 0)]
        }
    ]))
}

fn changed(route: &Value, wish: &TrafficWish) -> Value {
    ordered(route, wish, &[])
}

fn ordered(route: &Value, wish: &TrafficWish, order: &[String]) -> Value {
    let operations = change(route, RouteKind::Http, &pair(), wish, order).unwrap();
    apply(route, &operations).unwrap()
}

fn header(name: &str) -> HeaderRule {
    let matches = vec![
        HeaderMatch { header_name: "x-canary".into(), header_value: exact("always") },
        HeaderMatch { header_name: "x-build".into(), header_value: prefix("v2") },
    ];
    HeaderRule { name: name.into(), matches, sticky_cookie: None }
}

fn mirror(name: &str) -> MirrorRule {
    let matches =
        vec![RouteMatch { method: Some(exact("get")), path: Some(prefix("/api")), headers: BTreeMap::new() }];
    MirrorRule { name: name.into(), percentage: 35, matches }
}

#[test]
fn only_the_two_weights_of_a_route_move() {
    let before = plain();
    let after = changed(&before, &weight(20));
    assert_eq!(after["spec"]["rules"][1]["backendRefs"][0]["weight"], 80);
    assert_eq!(after["spec"]["rules"][1]["backendRefs"][1]["weight"], 5);
    assert_eq!(after["spec"]["rules"][1]["backendRefs"][2]["weight"], 20);
    assert_eq!(seen(&after), weight(20));
    let back = changed(&after, &weight(0));
    assert_eq!(serde_json::to_string(&back).unwrap(), serde_json::to_string(&before).unwrap());
    assert!(change(&back, RouteKind::Http, &pair(), &weight(0), &[]).unwrap().is_empty());
}

#[test]
fn a_weight_patch_does_not_undo_what_others_write_in_between() {
    let before = plain();
    let operations = change(&before, RouteKind::Http, &pair(), &weight(40), &[]).unwrap();
    let mut meanwhile = before.clone();
    meanwhile["metadata"]["resourceVersion"] = json!("8");
    meanwhile["spec"]["hostnames"] = json!(["new.example"]);
    meanwhile["spec"]["rules"][1]["backendRefs"][1]["weight"] = json!(9);
    let after = apply(&meanwhile, &operations).unwrap();
    assert_eq!(after["spec"]["hostnames"][0], "new.example");
    assert_eq!(after["spec"]["rules"][1]["backendRefs"][1]["weight"], 9);
    assert_eq!(seen(&after), weight(40));
    // A place where now another backend stands is not written to.
    meanwhile["spec"]["rules"][1]["backendRefs"].as_array_mut().unwrap().reverse();
    assert!(apply(&meanwhile, &operations).is_err());
}

#[test]
fn header_and_mirror_rules_stand_in_front_in_the_order_of_managed_routes_and_go_without_a_trace() {
    let before = plain();
    let wish =
        TrafficWish { headers: vec![header("by-header")], mirrors: vec![mirror("by-mirror")], ..weight(10) };
    let after = ordered(&before, &wish, &["by-mirror".into(), "by-header".into()]);
    let rules = after["spec"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 4);
    assert_eq!(rules[0]["name"], "by-mirror");
    assert_eq!(rules[1]["name"], "by-header");
    assert_eq!(
        rules[0]["matches"],
        json!([{ "path": { "type": "PathPrefix", "value": "/api" }, "method": "GET" }])
    );
    let copy = &rules[0]["filters"][1]["requestMirror"];
    assert_eq!(copy["percent"], 35);
    assert_eq!(copy["backendRef"]["name"], "web-canary");
    assert_eq!(rules[0]["backendRefs"][0]["weight"], 90);
    assert_eq!(rules[1]["matches"].as_array().unwrap().len(), 2);
    assert_eq!(rules[1]["backendRefs"], json!([backend("web-canary", 1)]));
    assert_eq!(rules[1]["filters"], before["spec"]["rules"][1]["filters"]);
    assert_eq!(seen(&after), wish);
    assert!(change(&after, RouteKind::Http, &pair(), &wish, &[]).unwrap().is_empty());
    // The weights of a mirror rule move with the others.
    let more = changed(&after, &TrafficWish { stable: 50, canary: 50, ..wish });
    let more_seen = seen(&more);
    assert_eq!((more_seen.stable, more_seen.canary), (50, 50));
    let back = changed(&more, &weight(0));
    assert_eq!(serde_json::to_string(&back).unwrap(), serde_json::to_string(&before).unwrap());
}

#[test]
fn our_rules_are_known_again_where_the_schema_drops_names_and_orders_fields() {
    let mut after = changed(&plain(), &TrafficWish { headers: vec![header("h")], ..weight(0) });
    let rule = after["spec"]["rules"][0].as_object_mut().unwrap();
    rule.shift_remove("name");
    *rule = rule.clone().into_iter().rev().collect();
    assert!(
        change(
            &after,
            RouteKind::Http,
            &pair(),
            &TrafficWish { headers: vec![header("h")], ..weight(0) },
            &[]
        )
        .unwrap()
        .is_empty()
    );
    let back = changed(&after, &weight(0));
    assert_eq!(back, plain());
}

#[test]
fn a_rule_of_ours_that_others_edited_is_put_right() {
    let wish = TrafficWish { headers: vec![header("h")], ..weight(0) };
    let mut after = changed(&plain(), &wish);
    let right = after.clone();
    after["spec"]["rules"][0]["matches"] = json!([]);
    assert_eq!(changed(&after, &wish), right);
}

#[test]
fn rules_are_put_in_only_on_the_version_that_was_read() {
    let before = plain();
    let wish = TrafficWish { headers: vec![header("h")], ..weight(0) };
    let operations = change(&before, RouteKind::Http, &pair(), &wish, &[]).unwrap();
    let mut moved = before;
    moved["metadata"]["resourceVersion"] = json!("8");
    assert!(apply(&moved, &operations).is_err());
}

#[test]
fn a_route_without_our_backends_says_which_one_is_missing() {
    let none = BTreeMap::new();
    for (backends, word) in [
        (json!([backend("web", 1)]), "canary Service web-canary"),
        (json!([backend("web-canary", 1)]), "stable Service web"),
        (json!([backend("x", 1)]), "neither"),
    ] {
        let route = route(&json!([{ "backendRefs": backends }]));
        let trouble = check(&route, RouteKind::Http, &pair(), &none).unwrap();
        assert_eq!(trouble.reason, "RouteBackendMissing");
        assert!(trouble.what.contains(word), "{}", trouble.what);
        assert_eq!(change(&route, RouteKind::Http, &pair(), &weight(1), &[]).unwrap_err(), trouble);
    }
    let twice =
        route(&json!([{ "backendRefs": [backend("web", 1), backend("web", 1), backend("web-canary", 1)] }]));
    assert_eq!(check(&twice, RouteKind::Http, &pair(), &none).unwrap().reason, "RouteBackendAmbiguous");
}

#[test]
fn a_port_that_the_service_does_not_offer_is_named() {
    let ports = BTreeMap::from([("web".to_owned(), vec![80]), ("web-canary".to_owned(), vec![8080, 9090])]);
    let trouble = check(&plain(), RouteKind::Http, &pair(), &ports).unwrap();
    assert!(trouble.what.contains("port 80 of Service web-canary"), "{}", trouble.what);
    assert!(trouble.remedy.contains("8080, 9090"));
    let ports = BTreeMap::from([("web".to_owned(), vec![80]), ("web-canary".to_owned(), vec![80])]);
    assert_eq!(check(&plain(), RouteKind::Http, &pair(), &ports), None);
}

#[test]
fn a_backend_of_another_kind_or_namespace_is_not_our_service() {
    for foreign in [
        json!({ "group": "example.com", "kind": "Service", "name": "web", "port": 80, "weight": 3 }),
        json!({ "kind": "ServiceImport", "name": "web", "port": 80, "weight": 3 }),
        json!({ "name": "web", "namespace": "other", "port": 80, "weight": 3 }),
    ] {
        let route =
            route(&json!([{ "backendRefs": [foreign, backend("web", 1), backend("web-canary", 1)] }]));
        let after = changed(&route, &weight(30));
        assert_eq!(after["spec"]["rules"][0]["backendRefs"][0], foreign);
        assert_eq!(seen(&after), weight(30));
    }
}

#[test]
fn a_grpc_route_takes_headers_but_no_paths() {
    let route = route(&json!([{
        "matches": [{ "method": { "type": "Exact", "service": "shop.Cart" } }],
        "backendRefs": [backend("web", 1), backend("web-canary", 1)]
    }]));
    let wish = TrafficWish { headers: vec![header("h")], ..weight(0) };
    let after = apply(&route, &change(&route, RouteKind::Grpc, &pair(), &wish, &[]).unwrap()).unwrap();
    assert_eq!(after["spec"]["rules"][0]["matches"][0]["method"]["service"], "shop.Cart");
    assert!(after["spec"]["rules"][0]["matches"][0].get("path").is_none());
    let wish = TrafficWish { mirrors: vec![mirror("m")], ..weight(0) };
    assert_eq!(
        change(&route, RouteKind::Grpc, &pair(), &wish, &[]).unwrap_err().reason,
        "MethodMatchNotSupported"
    );
}

fn any_rule() -> impl Strategy<Value = Value> {
    let names = prop_oneof![Just("web"), Just("web-canary"), Just("third"), Just("fourth")];
    let one = (names, 0..100u32, prop::option::of(1..4u32));
    let matched = prop::option::of("[a-z]{1,5}");
    (prop::collection::btree_map(0..4u8, one, 0..5), matched, any::<bool>()).prop_map(
        |(backends, path, filters)| {
            let mut seen = Vec::new();
            let mut list = Vec::new();
            for (name, weight, port) in backends.into_values() {
                if name.starts_with("web") && seen.contains(&name) {
                    continue;
                }
                seen.push(name);
                let mut one = json!({ "name": name, "port": port.unwrap_or(80) });
                if port.is_some() {
                    one["weight"] = json!(weight);
                }
                list.push(one);
            }
            let mut rule = json!({ "backendRefs": list });
            if let Some(path) = path {
                rule["matches"] = json!([{ "path": { "type": "Exact", "value": format!("/{path}") } }]);
            }
            if filters {
                rule["filters"] = json!([{ "type": "URLRewrite", "urlRewrite": { "hostname": "x" } }]);
            }
            rule
        },
    )
}

/// The route with the pair's weights taken out of every rule that has both.
fn bare(route: &Value) -> String {
    let mut route = route.clone();
    for rule in route["spec"]["rules"].as_array_mut().unwrap() {
        let backends = rule["backendRefs"].as_array_mut().unwrap();
        let names: Vec<_> = backends.iter().map(|one| one["name"].clone()).collect();
        if names.contains(&json!("web")) && names.contains(&json!("web-canary")) {
            for one in backends.iter_mut().filter(|one| one["name"].as_str().unwrap().starts_with("web")) {
                one.as_object_mut().unwrap().shift_remove("weight");
            }
        }
    }
    serde_json::to_string(&route).unwrap()
}

proptest! {
    #[test]
    fn a_random_route_stays_byte_identical_but_for_the_two_weights(
        rules in prop::collection::vec(any_rule(), 1..5),
        weights in prop::collection::vec((0..=100i32, any::<bool>(), any::<bool>(), 0..10i32), 1..5),
    ) {
        let before = route(&json!(rules));
        let mut now = before.clone();
        for (canary, with_header, with_mirror, extra) in weights {
            let mut wish = weight(canary);
            if with_header {
                wish.headers.push(header("h"));
            }
            if with_mirror {
                wish.mirrors.push(mirror("m"));
            }
            if extra > 5 && canary < 80 {
                wish.stable -= extra;
                wish.additional.insert("trial".into(), extra);
            }
            let Ok(operations) = change(&now, RouteKind::Http, &pair(), &wish, &["m".into()]) else {
                prop_assert!(read(&now, RouteKind::Http, &pair()).is_err());
                return Ok(());
            };
            now = apply(&now, &operations).unwrap();
            prop_assert_eq!(seen(&now), wish.clone());
            prop_assert!(change(&now, RouteKind::Http, &pair(), &wish, &[]).unwrap().is_empty());
        }
        now = changed(&now, &weight(0));
        prop_assert_eq!(bare(&now), bare(&before));
    }
}

#[test]
fn services_of_an_experiment_stand_beside_the_pair_and_go_again() {
    let before = plain();
    let wish = TrafficWish {
        stable: 85,
        canary: 10,
        additional: BTreeMap::from([("trial".to_owned(), 5)]),
        ..TrafficWish::default()
    };
    let after = changed(&before, &wish);
    let backends = after["spec"]["rules"][1]["backendRefs"].as_array().unwrap();
    assert_eq!(backends[3], backend("trial", 5));
    assert_eq!(seen(&after), wish);
    // Somebody takes it out: that is seen.
    let mut edited = after.clone();
    edited["spec"]["rules"][1]["backendRefs"].as_array_mut().unwrap().pop();
    assert_ne!(seen(&edited), wish);
    assert_eq!(changed(&edited, &wish), after);
    let back = changed(&after, &weight(0));
    assert_eq!(serde_json::to_string(&back).unwrap(), serde_json::to_string(&before).unwrap());
}

#[test]
fn rules_that_disagree_are_not_taken_for_any_wish() {
    let mut route = route(&json!([
        { "backendRefs": [backend("web", 80), backend("web-canary", 20)] },
        { "backendRefs": [backend("web", 50), backend("web-canary", 50)] }
    ]));
    let found = seen(&route);
    assert_eq!((found.stable, found.canary), (80, 50));
    route = changed(&route, &weight(50));
    assert_eq!(seen(&route), weight(50));
}

#[test]
fn a_sticky_variant_sets_its_cookie_and_takes_those_who_bring_it() {
    let rule = HeaderRule { sticky_cookie: Some("ab.t".into()), ..header("variant-b") };
    let after = changed(&plain(), &TrafficWish { headers: vec![rule], ..weight(0) });
    let rule = &after["spec"]["rules"][0];
    assert_eq!(rule["matches"].as_array().unwrap().len(), 3);
    assert_eq!(rule["matches"][2]["headers"][0]["value"], r"(.*; *)?ab\.t=variant-b(;.*)?");
    let filters = rule["filters"].as_array().unwrap();
    assert_eq!(filters[1]["responseHeaderModifier"]["add"][0]["value"], "ab.t=variant-b; Path=/");
}
