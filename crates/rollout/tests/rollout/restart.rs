//! Pods made anew by `restartAt`.

use std::collections::BTreeSet;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::house::{House, until};

async fn uids(house: &House) -> BTreeSet<String> {
    house.pods().await.iter().filter_map(ResourceExt::uid).collect()
}

#[tokio::test]
async fn a_restart_makes_every_pod_anew_and_notes_when() {
    let house = House::new("restart").await;
    house.rollout(3, json!({ "simple": { "maxSurge": 0, "maxUnavailable": 1 } })).await;
    house.until_done().await;
    house.until_sets(&[("v1", 3)]).await;
    let before = uids(&house).await;
    house.restart().await;
    until("all are new", || async {
        let now = uids(&house).await;
        (now.len() == 3 && now.is_disjoint(&before)).then_some(())
    })
    .await;
    house.until_status("noted", |status| status.restarted_at.is_some()).await;
    house.until_done().await;
}

#[tokio::test]
async fn a_restart_waits_for_the_disruption_budget() {
    let house = House::new("budget").await;
    house.rollout(2, json!({ "simple": {} })).await;
    house.until_done().await;
    house.until_sets(&[("v1", 2)]).await;
    let budget = house
        .create::<PodDisruptionBudget>(json!({
            "metadata": { "name": "web" },
            "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
        }))
        .await;
    let budgets = house.api::<PodDisruptionBudget>();
    until("the budget is counted", || async {
        let status = budgets.get(&budget.name_any()).await.unwrap().status?;
        (status.current_healthy == Some(2)).then_some(())
    })
    .await;
    let before = uids(&house).await;
    house.restart().await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(uids(&house).await, before, "the budget allows no disruption");
    budgets.delete(&budget.name_any(), &DeleteParams::default()).await.unwrap();
    until("all are new", || async {
        let now = uids(&house).await;
        (now.len() == 2 && now.is_disjoint(&before)).then_some(())
    })
    .await;
}
