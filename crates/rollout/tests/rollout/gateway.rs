//! Canary updates with routes of the Gateway API.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_api::rollout::status::{INVALID_SPEC, Phase};

use crate::house::{House, is, reason, until};

fn backend(name: &str, weight: u32) -> Value {
    json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": weight })
}

/// A route with unrelated rules, filters and a third backend.
fn route(kind: &str) -> Value {
    let pair = json!([backend("stable", 100), backend("third", 7), backend("canary", 0)]);
    let rules = if kind == "HTTPRoute" {
        json!([
            {
                "matches": [{ "path": { "type": "PathPrefix", "value": "/static" } }],
                "filters": [{ "type": "URLRewrite", "urlRewrite": { "hostname": "files.example" } }],
                "backendRefs": [backend("third", 1)], "timeouts": { "request": "3s" },
            },
            {
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "filters": [{ "type": "RequestHeaderModifier",
                    "requestHeaderModifier": { "add": [{ "name": "x-shop", "value": "yes" }] } }],
                "backendRefs": pair,
            },
        ])
    } else {
        json!([{ "matches": [{ "method": { "type": "Exact", "service": "shop.Cart" } }], "backendRefs": pair }])
    };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": { "name": "web", "annotations": { "team": "shop" } },
        "spec": { "parentRefs": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gate" }],
            "hostnames": ["shop.example"], "rules": rules },
    })
}

struct Shop {
    house: House,
    kind: &'static str,
}

impl Shop {
    async fn new(name: &str, kind: &'static str, canary: Value) -> Self {
        let house = House::new(name).await;
        house.service("stable").await;
        house.service("canary").await;
        let shop = Self { house, kind };
        let object: DynamicObject = serde_json::from_value(route(kind)).unwrap();
        shop.house.routes(kind).create(&PostParams::default(), &object).await.unwrap();
        let field = if kind == "HTTPRoute" { "httpRoute" } else { "grpcRoute" };
        let mut strategy = json!({
            "stableService": "stable", "canaryService": "canary", "scaleDownDelaySeconds": 1,
            "abortScaleDownDelaySeconds": 1,
            "trafficRouting": { "gatewayAPI": { field: "web" },
                "managedRoutes": [{ "name": "mirrored" }, { "name": "by-header" }] },
        });
        for (field, value) in canary.as_object().unwrap() {
            strategy[field] = value.clone();
        }
        shop.house.rollout(4, json!({ "canary": strategy })).await;
        shop.house.until_done().await;
        shop
    }

    async fn route(&self) -> Value {
        let object = self.house.routes(self.kind).get("web").await.unwrap();
        serde_json::to_value(object).unwrap()
    }

    /// The spec as text, with the two weights taken out.
    async fn bare(&self) -> String {
        let mut route = self.route().await;
        for rule in route["spec"]["rules"].as_array_mut().unwrap() {
            for backend in rule["backendRefs"].as_array_mut().unwrap() {
                if backend["name"] != "third" {
                    backend["weight"] = Value::Null;
                }
            }
        }
        format!("{} {}", route["spec"], route["metadata"]["annotations"])
    }

    async fn weights(&self) -> (i64, i64) {
        let route = self.route().await;
        let rules = route["spec"]["rules"].as_array().unwrap();
        let rule = rules.iter().rev().find(|rule| rule["backendRefs"].as_array().unwrap().len() > 2).unwrap();
        (
            rule["backendRefs"][0]["weight"].as_i64().unwrap(),
            rule["backendRefs"][2]["weight"].as_i64().unwrap(),
        )
    }

    async fn until_weights(&self, wanted: (i64, i64)) {
        until(&format!("weights {wanted:?}"), || async { (self.weights().await == wanted).then_some(()) })
            .await;
    }

    async fn edit(&self, patch: Value) {
        let api = self.house.routes(self.kind);
        api.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

#[tokio::test]
async fn a_route_is_byte_identical_but_for_the_two_weights_through_a_whole_rollout() {
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let steps =
            json!({ "steps": [{ "setWeight": 20 }, { "pause": {} }, { "setWeight": 60 }, { "pause": {} }] });
        let shop = Shop::new("routed", kind, steps).await;
        let before = shop.bare().await;
        assert_eq!(shop.weights().await, (100, 0));
        shop.house.set_version("v2").await;
        for (step, weight) in [(1, 20), (3, 60)] {
            let status = shop.house.until_paused_at(step).await;
            assert_eq!(shop.weights().await, (100 - weight, weight), "a step counts when it can be seen");
            assert_eq!(status.canary.weights.unwrap().verified, Some(true));
            assert_eq!(shop.bare().await, before);
            assert_eq!(shop.house.selected("stable").await.as_deref(), Some("v1"));
            assert_eq!(shop.house.selected("canary").await.as_deref(), Some("v2"));
            shop.house.promote().await;
        }
        shop.house.until_done().await;
        shop.until_weights((100, 0)).await;
        assert_eq!(shop.bare().await, before);
        assert_eq!(shop.house.selected("stable").await.as_deref(), Some("v2"));
        shop.house.until_sets(&[("v2", 4)]).await;
    }
}

#[tokio::test]
async fn an_abort_brings_all_traffic_back_and_the_canary_goes_after_its_delay() {
    let steps = json!({ "steps": [{ "setWeight": 50 }, { "pause": {} }] });
    let shop = Shop::new("aborted", "HTTPRoute", steps).await;
    shop.house.set_version("v2").await;
    shop.house.until_paused_at(1).await;
    assert_eq!(shop.weights().await, (50, 50));
    shop.house.abort().await;
    shop.until_weights((100, 0)).await;
    shop.house.until_phase(Phase::Failed).await;
    shop.house.until_sets(&[("v1", 4)]).await;
    shop.house.retry().await;
    shop.house.until_paused_at(1).await;
    assert_eq!(shop.weights().await, (50, 50));
}

#[tokio::test]
async fn weights_and_selectors_that_others_edit_are_put_back_and_the_rest_stays() {
    let steps = json!({ "steps": [{ "setWeight": 30 }, { "pause": {} }] });
    let shop = Shop::new("edited", "HTTPRoute", steps).await;
    shop.house.set_version("v2").await;
    shop.house.until_paused_at(1).await;
    let mut rules = shop.route().await["spec"]["rules"].clone();
    rules[1]["backendRefs"][0]["weight"] = json!(0);
    rules[1]["backendRefs"][1]["weight"] = json!(9);
    rules[0]["timeouts"] = json!({ "request": "9s" });
    shop.edit(json!({ "spec": { "rules": rules, "hostnames": ["new.example"] } })).await;
    shop.until_weights((70, 30)).await;
    let route = shop.route().await;
    assert_eq!(route["spec"]["rules"][1]["backendRefs"][1]["weight"], 9);
    assert_eq!(route["spec"]["rules"][0]["timeouts"]["request"], "9s");
    assert_eq!(route["spec"]["hostnames"][0], "new.example");
    let services = shop.house.api::<k8s_openapi::api::core::v1::Service>();
    let wrong = json!({
        "metadata": { "labels": { "more": "x" } },
        "spec": { "selector": { windlass_api::rollout::POD_TEMPLATE_HASH: "other" } },
    });
    services.patch("stable", &PatchParams::default(), &Patch::Merge(wrong)).await.unwrap();
    shop.house.until_selected("stable", "v1").await;
    let service = services.get("stable").await.unwrap();
    assert_eq!(service.metadata.labels.unwrap()["more"], "x");
    assert_eq!(service.spec.unwrap().selector.unwrap()["app"], "web");
}

#[tokio::test]
async fn header_and_mirror_routes_come_in_their_order_and_go_at_the_end() {
    let steps = json!({ "steps": [
        { "setCanaryScale": { "weight": 25 } },
        { "setHeaderRoute": { "name": "by-header", "match": [
            { "headerName": "x-canary", "headerValue": { "exact": "always" } },
            { "headerName": "x-build", "headerValue": { "prefix": "v2." } } ] } },
        { "setMirrorRoute": { "name": "mirrored", "percentage": 35, "match": [
            { "method": { "exact": "GET" }, "path": { "prefix": "/api" } } ] } },
        { "pause": {} },
        { "setWeight": 40 },
        { "pause": {} },
    ] });
    let shop = Shop::new("headers", "HTTPRoute", steps).await;
    let before = shop.bare().await;
    shop.house.set_version("v2").await;
    shop.house.until_paused_at(3).await;
    let route = shop.route().await;
    let rules = route["spec"]["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["name"], &rules[1]["name"]), (&json!("mirrored"), &json!("by-header")));
    assert_eq!(rules.len(), 4);
    assert_eq!(rules[0]["filters"][1]["requestMirror"]["percent"], 35);
    assert_eq!(rules[0]["matches"][0]["path"]["value"], "/api");
    assert_eq!(rules[1]["backendRefs"].as_array().unwrap().len(), 1);
    assert_eq!(rules[1]["matches"].as_array().unwrap().len(), 2);
    assert_eq!(shop.weights().await, (100, 0));
    // Somebody takes a rule of ours out: it comes again.
    let mut fewer = route["spec"]["rules"].clone();
    fewer.as_array_mut().unwrap().remove(1);
    shop.edit(json!({ "spec": { "rules": fewer } })).await;
    until("the rule is back", || async {
        let route = shop.route().await;
        (route["spec"]["rules"][1]["name"] == "by-header").then_some(())
    })
    .await;
    shop.house.promote().await;
    shop.house.until_paused_at(5).await;
    assert_eq!(shop.route().await["spec"]["rules"][0]["backendRefs"][2]["weight"], 40);
    shop.house.promote().await;
    shop.house.until_done().await;
    until("nothing of ours is left", || async { (shop.bare().await == before).then_some(()) }).await;
}

#[tokio::test]
async fn a_route_that_is_missing_or_without_our_backend_is_a_condition_and_traffic_stays() {
    let steps = json!({ "steps": [{ "setWeight": 30 }, { "pause": {} }] });
    let shop = Shop::new("missing", "HTTPRoute", steps).await;
    let rules = shop.route().await["spec"]["rules"].clone();
    let mut without = rules.clone();
    without[1]["backendRefs"].as_array_mut().unwrap().pop();
    shop.edit(json!({ "spec": { "rules": without } })).await;
    let status = shop.house.until_status("told", |status| is(status, INVALID_SPEC, "True")).await;
    let condition = status.conditions.iter().find(|one| one.type_ == INVALID_SPEC).unwrap();
    assert!(condition.message.contains("canary"), "{}", condition.message);
    shop.house.set_version("v2").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(shop.house.selected("stable").await.as_deref(), Some("v1"));
    shop.edit(json!({ "spec": { "rules": rules } })).await;
    shop.house.until_paused_at(1).await;
    shop.house.routes("HTTPRoute").delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    let status = shop.house.until_status("told again", |status| is(status, INVALID_SPEC, "True")).await;
    assert!(!reason(&status, INVALID_SPEC).is_empty());
}

#[tokio::test]
async fn with_dynamic_stable_scale_the_weight_goes_back_as_stable_pods_become_ready() {
    let steps = json!({ "dynamicStableScale": true, "scaleDownDelaySeconds": null, "steps": [{ "setWeight": 75 }, { "pause": {} }] });
    let shop = Shop::new("dynamic", "HTTPRoute", steps).await;
    shop.house.set_version("v2").await;
    shop.house.until_paused_at(1).await;
    shop.house.until_sets(&[("v1", 1), ("v2", 3)]).await;
    shop.house.abort().await;
    shop.until_weights((100, 0)).await;
    shop.house.until_sets(&[("v1", 4)]).await;
    shop.house.until_phase(Phase::Failed).await;
}

#[tokio::test]
async fn the_plug_in_of_argo_rollouts_is_read_as_our_own_field() {
    let routing = json!({ "plugins": { "argoproj-labs/gatewayAPI": { "httpRoute": "web" } } });
    let steps = json!({ "trafficRouting": routing, "steps": [{ "setWeight": 10 }, { "pause": {} }] });
    let shop = Shop::new("plugin", "HTTPRoute", steps).await;
    shop.house.set_version("v2").await;
    shop.house.until_paused_at(1).await;
    assert_eq!(shop.weights().await, (90, 10));
}
