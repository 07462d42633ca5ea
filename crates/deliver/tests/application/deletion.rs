//! What happens before, with and after the end of an Application, and what goes only when somebody confirms it.

use kube::api::DeleteParams;
use serde_json::json;
use windlass_api::application::{APPROVE_ANNOTATION, DELETION_HOOKS_ANNOTATION};

use crate::{
    house::{House, annotated, config_map},
    order::job,
};

async fn deleted(house: &House) {
    house.apps().delete("web", &DeleteParams::default()).await.unwrap();
}

async fn is_gone(house: &House) {
    house
        .eventually("the Application goes", async || {
            house.apps().get_opt("web").await.unwrap().is_none().then_some(())
        })
        .await;
}

/// Waits until Ready is False for this reason, of an Application that is being deleted.
async fn held(house: &House, reason: &str) -> String {
    house
        .eventually(reason, async || {
            let (message, _, found) = crate::house::ready(&house.status("web").await);
            (found == reason).then_some(message)
        })
        .await
}

#[tokio::test]
async fn hooks_run_before_and_after_an_application_is_deleted() {
    let files = config_map("map", "1")
        + &job("before", "argocd.argoproj.io/hook: PreDelete", "")
        + &job("after", "argocd.argoproj.io/hook: PostDelete", "");
    let house = House::new("delhooks", &[("all.yaml", &files)]).await;
    house.stack.control_plane.ensure_nodes(1).await.unwrap();
    house.app("web", "", json!({})).await;
    let status = house.healthy("web").await;
    assert_eq!(status.clusters[0].deletion_hooks, Some(2));
    for name in ["before", "after"] {
        assert!(house.get("batch/v1/Job", name).await.is_none(), "a sync does not run {name}");
    }
    deleted(&house).await;
    house.eventually("the hook after runs", async || house.get("batch/v1/Job", "after").await).await;
    assert!(house.get("v1/ConfigMap", "map").await.is_none(), "everything else is gone by then");
    is_gone(&house).await;
    for name in ["before", "after"] {
        house.gone("batch/v1/Job", name).await;
    }
}

#[tokio::test]
async fn a_hook_that_fails_holds_a_deletion_until_somebody_passes_it_over() {
    let files = config_map("map", "1")
        + &job("backup", "argocd.argoproj.io/hook: PreDelete", "testbed.windlass.dev/pod: job-fails");
    let house = House::new("delfail", &[("all.yaml", &files)]).await;
    house.stack.control_plane.ensure_nodes(1).await.unwrap();
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    deleted(&house).await;
    let message = held(&house, "HookFailed").await;
    for part in ["backup", "windlass.dev/deletion-hooks: skip", "Orphan"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(
        house.get("v1/ConfigMap", "map").await.is_some(),
        "nothing is deleted before the hook ended well"
    );
    house.annotate("web", DELETION_HOOKS_ANNOTATION, "skip").await;
    is_gone(&house).await;
    house.gone("v1/ConfigMap", "map").await;
}

#[tokio::test]
async fn what_asks_to_be_confirmed_goes_when_somebody_approves_it() {
    let options = "argocd.argoproj.io/sync-options: 'Prune=confirm,Delete=confirm'";
    let files = config_map("keep", "1") + &annotated("first", options) + &annotated("second", options);
    let house = House::new("confirm", &[("all.yaml", &files)]).await;
    house.app("web", "", json!({})).await;
    house.healthy("web").await;
    house.push(&[("all.yaml", Some(&(config_map("keep", "2") + &annotated("second", options))))]);
    let message = house.says("web", "ApprovalNeeded").await;
    assert!(message.contains("/first on in-cluster") && !message.contains("second"), "{message}");
    assert_eq!(house.get("v1/ConfigMap", "keep").await.unwrap()["data"]["value"], "2");
    assert!(house.get("v1/ConfigMap", "first").await.is_some());
    let approval = house.status("web").await.approval.unwrap();
    assert!(approval.confirm);
    house.annotate("web", APPROVE_ANNOTATION, &approval.id).await;
    house.healthy("web").await;
    assert!(house.get("v1/ConfigMap", "first").await.is_none());

    deleted(&house).await;
    let message = held(&house, "ApprovalNeeded").await;
    assert!(message.contains("/second on in-cluster"), "{message}");
    house.gone("v1/ConfigMap", "keep").await;
    assert!(house.get("v1/ConfigMap", "second").await.is_some());
    let approval = house.status("web").await.approval.unwrap();
    house.annotate("web", APPROVE_ANNOTATION, &approval.id).await;
    is_gone(&house).await;
    house.gone("v1/ConfigMap", "second").await;
}
