//! Rolling updates, and what every Rollout has.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::{
    Rollout,
    rollout::{
        DESIRED_REPLICAS, POD_TEMPLATE_HASH, REVISION,
        status::{COMPLETED, HEALTHY, Phase},
    },
};

use crate::house::{House, is, template};

#[tokio::test]
async fn a_rolling_update_replaces_the_pods_and_completes() {
    let house = House::new("simple").await;
    house.rollout(3, json!({ "simple": { "maxSurge": 1, "maxUnavailable": 0 } })).await;
    let status = house.until_done().await;
    assert!(is(&status, HEALTHY, "True") && is(&status, COMPLETED, "True"), "{:?}", status.conditions);
    house.until_sets(&[("v1", 3)]).await;
    house.set_version("v2").await;
    house.until_done().await;
    house.until_sets(&[("v2", 3)]).await;
    let status = house.status().await;
    assert_eq!((status.replicas, status.updated_replicas, status.available_replicas), (3, 3, 3));
}

#[tokio::test]
async fn replica_sets_and_pods_are_owned_named_and_labelled_by_the_hash() {
    let house = House::new("owned").await;
    let rollout = house.rollout(2, json!({ "simple": {} })).await;
    let status = house.until_done().await;
    let hash = status.stable_rs.unwrap();
    let sets = house.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1);
    let set = &sets[0];
    assert_eq!(set.name_any(), format!("web-{hash}"));
    assert_eq!(set.labels()[POD_TEMPLATE_HASH], hash);
    assert_eq!(set.annotations()[REVISION], "1");
    assert_eq!(set.annotations()[DESIRED_REPLICAS], "2");
    let owner = &set.owner_references()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        (rollout.metadata.uid.as_deref().unwrap(), Some(true))
    );
    house.until_sets(&[("v1", 2)]).await;
    let pods = house.pods().await;
    assert!(pods.iter().all(|pod| pod.labels()[POD_TEMPLATE_HASH] == hash));
}

#[tokio::test]
async fn an_autoscaler_scales_through_the_scale_subresource() {
    let house = House::new("scale").await;
    house.rollout(2, json!({ "simple": {} })).await;
    house.until_done().await;
    let api = house.api::<Rollout>();
    let scale = api.get_scale("web").await.unwrap();
    let status = scale.status.unwrap();
    assert_eq!(status.replicas, 2);
    assert!(status.selector.unwrap().contains("app=web"));
    let patch = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    api.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
    house.until_sets(&[("v1", 5)]).await;
    house.until_status("five are available", |status| status.available_replicas == 5).await;
}

#[tokio::test]
async fn old_replica_sets_beyond_the_history_limit_are_deleted() {
    let house = House::new("history").await;
    house.rollout_with(1, json!({ "simple": {} }), json!({ "revisionHistoryLimit": 1 })).await;
    house.until_done().await;
    for version in ["v2", "v3", "v4"] {
        house.set_version(version).await;
        house.until_done().await;
    }
    crate::house::until("only the last two are left", || async {
        let sets = house.sets().await;
        (sets.len() == 2 && sets.contains_key("v3") && sets.contains_key("v4")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_orphaned_replica_set_is_adopted_again_and_pods_stay() {
    let house = House::new("adopt").await;
    house.rollout(2, json!({ "simple": {} })).await;
    house.until_done().await;
    house.until_sets(&[("v1", 2)]).await;
    let sets = house.api::<ReplicaSet>();
    let before = sets.list(&ListParams::default()).await.unwrap().items.remove(0);
    let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    sets.patch(&before.name_any(), &PatchParams::default(), &orphan).await.unwrap();
    crate::house::until("it is ours again", || async {
        let set = sets.get(&before.name_any()).await.unwrap();
        set.owner_references().iter().any(|owner| owner.controller == Some(true)).then_some(())
    })
    .await;
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(house.pods().await.len(), 2);
}

#[tokio::test]
async fn a_quiet_rollout_is_not_written_to() {
    let house = House::new("quiet").await;
    house.rollout(2, json!({ "simple": {} })).await;
    house.until_done().await;
    house.until_sets(&[("v1", 2)]).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let before = house.get().await.metadata.resource_version;
    // A label on the ReplicaSet wakes the Rollout, which has nothing to do.
    let sets = house.api::<ReplicaSet>();
    let name = sets.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "somebody": "was here" } } }));
    sets.patch(&name, &PatchParams::default(), &touch).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(house.get().await.metadata.resource_version, before);
}

#[tokio::test]
async fn writing_a_default_out_is_no_new_revision() {
    let house = House::new("defaults").await;
    house.rollout(1, json!({ "simple": {} })).await;
    let before = house.until_done().await;
    let mut same = template("v1");
    same["spec"]["restartPolicy"] = json!("Always");
    same["spec"]["terminationGracePeriodSeconds"] = json!(30);
    house.patch(json!({ "spec": { "template": same } })).await;
    let after = house.until_done().await;
    assert_eq!(after.stable_rs, before.stable_rs);
    assert_eq!(house.sets().await.len(), 1);
}

#[tokio::test]
async fn a_paused_spec_stops_an_update_and_a_resumed_one_goes_on() {
    let house = House::new("paused").await;
    house.rollout(2, json!({ "simple": {} })).await;
    house.until_done().await;
    house.patch(json!({ "spec": { "paused": true, "template": template("v2") } })).await;
    let status = house.until_phase(Phase::Paused).await;
    assert!(is(&status, "Paused", "True"));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(house.sets().await.get("v2").map_or(0, |counts| counts.0), 0);
    house.patch(json!({ "spec": { "paused": false } })).await;
    house.until_done().await;
    house.until_sets(&[("v2", 2)]).await;
}
