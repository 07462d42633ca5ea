//! Bad input: a condition with a reason and a remedy, and nothing moves.

use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use serde_json::json;
use windlass_api::{
    Rollout,
    rollout::{MANAGED_BY, status::INVALID_SPEC},
};

use crate::house::{House, is};

#[tokio::test]
async fn a_service_that_is_missing_is_named_and_noticed_when_it_comes() {
    let house = House::new("no-service").await;
    house.rollout(1, json!({ "blueGreen": { "activeService": "active" } })).await;
    let status = house.until_status("told", |status| is(status, INVALID_SPEC, "True")).await;
    let condition = status.conditions.iter().find(|one| one.type_ == INVALID_SPEC).unwrap();
    assert!(condition.message.contains("active"), "{}", condition.message);
    house.service("active").await;
    house.until_done().await;
    house.until_selected("active", "v1").await;
    assert!(!is(&house.status().await, INVALID_SPEC, "True"));
}

#[tokio::test]
async fn of_two_rollouts_on_one_service_the_older_keeps_it() {
    let house = House::new("rivals").await;
    house.service("active").await;
    house.rollout(1, json!({ "blueGreen": { "activeService": "active" } })).await;
    house.until_done().await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    house
        .create::<Rollout>(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": "other" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "app": "web", "of": "other" } },
                "template": {
                    "metadata": { "labels": { "app": "web", "of": "other" } },
                    "spec": { "containers": [{ "name": "main", "image": "example.com/other:v1" }] },
                },
                "strategy": { "blueGreen": { "activeService": "active" } },
            },
        }))
        .await;
    let api = house.api::<Rollout>();
    crate::house::until("the younger is told", || async {
        let status = api.get("other").await.unwrap().status?;
        is(&status, INVALID_SPEC, "True").then_some(())
    })
    .await;
    house.until_selected("active", "v1").await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
    crate::house::until("the other goes on when the first is gone", || async {
        let status = api.get("other").await.unwrap().status?;
        (!is(&status, INVALID_SPEC, "True")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_field_of_argo_rollouts_that_we_do_not_have_is_refused_by_name() {
    let house = House::new("unknown").await;
    house.service("stable").await;
    house.service("canary").await;
    let routing = json!({ "istio": { "virtualService": { "name": "web" } } });
    let strategy = json!({
        "stableService": "stable", "canaryService": "canary", "trafficRouting": routing,
        "steps": [{ "setWeight": 10 }],
    });
    house.rollout(1, json!({ "canary": strategy })).await;
    let status = house.until_status("told", |status| is(status, INVALID_SPEC, "True")).await;
    let condition = status.conditions.iter().find(|one| one.type_ == INVALID_SPEC).unwrap();
    assert!(condition.message.contains("istio"), "{}", condition.message);
}

#[tokio::test]
async fn a_service_that_no_rollout_names_any_more_selects_what_it_did_before() {
    let house = House::new("freed").await;
    for name in ["active", "next"] {
        house.service(name).await;
    }
    house.rollout(1, json!({ "blueGreen": { "activeService": "active" } })).await;
    house.until_done().await;
    house.until_selected("active", "v1").await;
    let is_free = async |name: &str| {
        let api = house.api::<Service>();
        crate::house::until(&format!("{name} is free"), || async {
            let service = api.get(name).await.unwrap();
            let selector = service.spec.and_then(|spec| spec.selector).unwrap();
            let marked = service.metadata.annotations.unwrap_or_default().contains_key(MANAGED_BY);
            (selector == [("app".to_owned(), "web".to_owned())].into() && !marked).then_some(())
        })
        .await;
    };
    house.patch(json!({ "spec": { "strategy": { "blueGreen": { "activeService": "next" } } } })).await;
    house.until_selected("next", "v1").await;
    is_free("active").await;
    house.api::<Rollout>().delete("web", &DeleteParams::default()).await.unwrap();
    is_free("next").await;
}
