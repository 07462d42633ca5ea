//! Single decisions.

use serde_json::json;
use windlass_api::application::{
    Deletion, PolicyMode,
    status::{DeploymentResult, Phase, SyncWord},
    sync::Drift,
};
use windlass_manifest::health::Status;

use super::world::{World, config};
use crate::{tracking, trouble::Trouble};

fn deployed(clusters: &[&str]) -> World {
    let mut world = World::new(clusters);
    world.commit(vec![config("a", "1"), config("b", "1")]);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy), "{:#?}", world.status);
    world
}

#[test]
fn a_commit_is_applied_everywhere_and_told() {
    let world = deployed(&["east", "west"]);
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!(world.names("west"), ["a", "b"]);
    assert_eq!(world.status.sync.status, SyncWord::Synced);
    assert_eq!(world.status.cluster_summary.as_deref(), Some("2/2"));
    assert_eq!(world.reason(), "Healthy");
    assert_eq!(world.status.history.len(), 1);
    assert_eq!(world.status.history[0].result, DeploymentResult::Succeeded);
    assert_eq!(world.status.inventory.len(), 1, "both clusters share an entry");
}

#[test]
fn the_inventory_is_written_before_anything_is_applied() {
    let mut world = World::new(&["east"]);
    world.commit(vec![config("a", "1")]);
    let first = world.round(false);
    assert!(first.actions.is_empty() && world.names("east").is_empty());
    assert_eq!(world.status.inventory[0].objects, ["v1/ConfigMap/shop/a"]);
    assert_eq!(world.status.phase, Some(Phase::Syncing));
    let second = world.round(false);
    assert_eq!(second.actions.len(), 1);
    assert_eq!(world.names("east"), ["a"]);
}

#[test]
fn what_fails_is_tried_again_after_longer_and_longer_waits() {
    let observed = deployed(&["east"]).observe();
    let begin = jiff::Timestamp::UNIX_EPOCH;
    let wait = |count| super::super::retry_at(&observed, begin, count).duration_since(begin).as_secs();
    assert_eq!([1, 2, 3, 6, 7, 40].map(wait), [5, 10, 20, 160, 180, 180]);
}

#[test]
fn what_is_no_longer_committed_is_pruned_unless_it_says_no() {
    let mut world = deployed(&["east"]);
    world.commit(vec![config("a", "2")]);
    world.settle();
    assert_eq!(world.names("east"), ["a"]);
    let mut keep = config("k", "1");
    keep["metadata"]["annotations"] = json!({ "windlass.dev/prune": "disabled" });
    world.commit(vec![config("a", "2"), keep]);
    world.settle();
    world.commit(vec![config("a", "3")]);
    world.settle();
    assert_eq!(world.names("east"), ["a", "k"]);
    world.spec.sync.prune = false;
    world.commit(vec![config("c", "1")]);
    world.settle();
    assert_eq!(world.names("east"), ["a", "c", "k"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn an_empty_render_deletes_nothing() {
    let mut world = deployed(&["east"]);
    world.commit(Vec::new());
    world.settle();
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!((world.reason().as_str(), world.status.phase), ("NothingRendered", Some(Phase::Failed)));
    world.commit(vec![config("a", "1"), config("b", "1")]);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn many_deletions_wait_for_an_approval_of_exactly_these() {
    let mut world = World::new(&["east"]);
    world.commit((0..20).map(|n| config(&format!("c{n:02}"), "1")).collect());
    world.settle();
    world.commit((0..5).map(|n| config(&format!("c{n:02}"), "2")).collect());
    world.settle();
    assert_eq!(world.names("east").len(), 20);
    assert_eq!((world.reason().as_str(), world.status.phase), ("ApprovalNeeded", Some(Phase::Pending)));
    let approval = world.status.approval.clone().unwrap();
    assert_eq!((approval.deletions, approval.of), (15, 20));
    world.requests.approve = Some("another".into());
    world.settle();
    assert_eq!(world.names("east").len(), 20);
    world.requests.approve = Some(approval.id);
    world.settle();
    assert_eq!(world.names("east").len(), 5);
    assert_eq!((world.status.approval.clone(), world.status.phase), (None, Some(Phase::Healthy)));
}

#[test]
fn an_approval_holds_while_its_objects_go_layer_by_layer() {
    let mut world = World::new(&["east", "west"]);
    let service = |n: usize| {
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": format!("s{n:02}"), "namespace": "shop" },
            "spec": { "ports": [{ "port": 80 }] } })
    };
    let account = |n: usize| {
        json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": format!("a{n:02}"), "namespace": "shop" } })
    };
    let kept = || vec![config("kept", "1")];
    let all = kept().into_iter().chain((0..15).map(service)).chain((0..15).map(account)).collect();
    world.commit(all);
    world.settle();
    world.commit(kept());
    world.settle();
    let approval = world.status.approval.clone().unwrap();
    assert_eq!((approval.deletions, approval.of), (60, 62));
    world.requests.approve = Some(approval.id);
    world.settle();
    assert_eq!(
        (world.names("east"), world.names("west")),
        (vec!["kept".to_owned()], vec!["kept".to_owned()])
    );
    assert_eq!((world.status.approval.clone(), world.status.phase), (None, Some(Phase::Healthy)));
}

#[test]
fn strict_applies_nothing_of_a_refused_change_anywhere() {
    let mut world = deployed(&["east", "west"]);
    world.deny.insert("bad".into());
    world.commit(vec![config("a", "2"), config("b", "1"), config("bad", "1")]);
    world.settle();
    for cluster in ["east", "west"] {
        assert_eq!(world.names(cluster), ["a", "b"]);
        assert_eq!(world.clusters[cluster].objects.values().next().unwrap().object["data"]["v"], "1");
    }
    assert_eq!((world.reason().as_str(), world.status.phase), ("PolicyRefused", Some(Phase::Failed)));
    assert_eq!(world.status.violations.len(), 2);
    world.deny.clear();
    world.settle();
    assert_eq!(world.names("west"), ["a", "b", "bad"]);
    assert_eq!((world.status.violations.len(), world.status.phase), (0, Some(Phase::Healthy)));
}

#[test]
fn permissive_leaves_out_what_is_refused_and_audit_only_tells() {
    for (mode, names) in [(PolicyMode::Permissive, vec!["a"]), (PolicyMode::Audit, vec!["a", "bad"])] {
        let mut world = World::new(&["east"]);
        world.spec.policy.mode = mode;
        world.deny.insert("bad".into());
        world.commit(vec![config("a", "1"), config("bad", "1")]);
        world.settle();
        assert_eq!(world.names("east"), names, "{mode:?}");
        assert_eq!(world.status.phase, Some(Phase::Healthy), "{mode:?}");
    }
}

#[test]
fn drift_is_taken_back_or_shown() {
    for (drift, value) in [(Drift::Revert, "1"), (Drift::Report, "x"), (Drift::Absorb, "x")] {
        let mut world = deployed(&["east"]);
        world.spec.sync.drift = drift;
        world.edit("east", "a", |object| object["data"]["v"] = "x".into());
        world.wait(60);
        world.settle();
        assert_eq!(
            world.clusters["east"].objects.values().next().unwrap().object["data"]["v"],
            value,
            "{drift:?}"
        );
        let synced = world.status.sync.status == SyncWord::Synced;
        assert_eq!(synced, drift == Drift::Revert, "{drift:?}");
    }
}

#[test]
fn somebody_who_changes_it_back_again_and_again_is_named_and_left_alone() {
    let mut world = deployed(&["east"]);
    for _ in 0..8 {
        world.edit("east", "a", |object| object["data"]["v"] = "x".into());
        world.wait(100);
        world.settle();
    }
    assert_eq!(world.clusters["east"].objects.values().next().unwrap().object["data"]["v"], "x");
    assert_eq!((world.reason().as_str(), world.status.phase), ("Contested", Some(Phase::Degraded)));
    let reverts = world.log.iter().filter(|line| line.contains("apply ConfigMap shop/a")).count();
    assert_eq!(reverts, 1 + 3, "the first apply and three rounds");
    world.commit(vec![config("a", "2"), config("b", "1")]);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn an_object_of_another_application_is_never_taken_nor_deleted() {
    let mut world = World::new(&["east"]);
    world.edit("east", "a", |object| {
        object["metadata"]["annotations"] = json!({ tracking::OWNER: "other/app" });
    });
    world.commit(vec![config("a", "1"), config("b", "1")]);
    world.settle();
    assert_eq!(world.reason(), "OwnedByAnother");
    world.commit(vec![config("b", "1")]);
    world.settle();
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
    world.deleting = true;
    world.settle();
    assert!(world.released);
    assert_eq!(world.names("east"), ["a"]);
}

#[test]
fn a_broken_source_leaves_everything_running_and_healed() {
    let mut world = deployed(&["east"]);
    world.broken = Some(Trouble::standing("RevisionNotFound", "main is gone", "push it"));
    world.edit("east", "a", |object| object["data"]["v"] = "x".into());
    world.wait(60);
    world.settle();
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!(world.clusters["east"].objects.values().next().unwrap().object["data"]["v"], "1");
    assert_eq!((world.reason().as_str(), world.status.phase), ("RevisionNotFound", Some(Phase::Failed)));
}

#[test]
fn one_cluster_that_is_away_delays_no_other_and_catches_up() {
    let mut world = World::new(&["east", "west"]);
    world.place("west").away = true;
    world.commit(vec![config("a", "1")]);
    world.settle();
    assert_eq!(world.names("east"), ["a"]);
    assert_eq!((world.reason().as_str(), world.status.phase), ("ClusterUnreachable", Some(Phase::Degraded)));
    world.place("west").away = false;
    world.settle();
    assert_eq!(world.names("west"), ["a"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn a_cluster_that_is_no_destination_any_more_is_cleaned_up_and_no_other() {
    let mut world = deployed(&["east", "west"]);
    world.spec.destinations.retain(|one| one.cluster.as_deref() == Some("east"));
    world.settle();
    assert!(world.names("west").is_empty());
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!(world.status.clusters.len(), 1);
}

#[test]
fn a_cluster_that_is_left_without_pruning_keeps_its_objects_and_they_are_nobodys() {
    let mut world = deployed(&["east", "west"]);
    world.spec.sync.prune = false;
    world.spec.destinations.retain(|one| one.cluster.as_deref() == Some("east"));
    world.settle();
    assert_eq!(world.names("west"), ["a", "b"]);
    let mut left = world.place("west").objects.values();
    assert!(left.all(|held| tracking::owner(&held.object).is_none()));
    assert_eq!(world.status.clusters.len(), 1);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn a_deleted_application_takes_its_objects_along_or_lets_them_go() {
    for deletion in [Deletion::Delete, Deletion::Orphan] {
        let mut world = deployed(&["east"]);
        world.spec.deletion = deletion;
        world.deleting = true;
        world.settle();
        assert!(world.released, "{deletion:?}");
        assert_eq!(world.names("east").is_empty(), deletion == Deletion::Delete);
    }
}

#[test]
fn a_deleted_application_waits_for_a_cluster_that_is_away_and_says_what_to_do() {
    let mut world = deployed(&["east"]);
    world.place("east").away = true;
    world.deleting = true;
    world.round(false);
    world.round(false);
    assert!(!world.released);
    let ready = windlass_api::condition::get(&world.status.conditions, "Ready").unwrap();
    assert!(ready.message.contains("Orphan"), "{}", ready.message);
}

#[test]
fn without_automation_a_change_waits_until_somebody_asks() {
    let mut world = World::new(&["east"]);
    world.spec.sync.automated = false;
    world.commit(vec![config("a", "1")]);
    world.settle();
    assert!(world.names("east").is_empty());
    assert_eq!((world.reason().as_str(), world.status.phase), ("ManualSync", Some(Phase::Pending)));
    world.requests.sync = Some("2026-01-01T00:00:00Z by alice".into());
    world.settle();
    assert_eq!(world.names("east"), ["a"]);
    assert_eq!(world.status.history[0].by.as_deref(), Some("alice"));
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn a_suspended_application_is_left_alone() {
    let mut world = deployed(&["east"]);
    world.spec.suspend = true;
    world.commit(vec![config("a", "2")]);
    world.settle();
    assert_eq!(world.names("east"), ["a", "b"]);
    assert_eq!(world.reason(), "Suspended");
    world.spec.suspend = false;
    world.settle();
    assert_eq!(world.names("east"), ["a"]);
}

#[test]
fn a_newer_revision_supersedes_the_one_under_way() {
    let mut world = World::new(&["east"]);
    world.born = Status::Progressing;
    world.commit(vec![config("a", "1")]);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Syncing));
    world.born = Status::Healthy;
    world.commit(vec![config("a", "2")]);
    world.settle();
    let results: Vec<DeploymentResult> = world.status.history.iter().map(|one| one.result).collect();
    assert_eq!(results, [DeploymentResult::Succeeded, DeploymentResult::Superseded]);
}

#[test]
fn what_does_not_become_healthy_in_time_has_failed_and_may_recover() {
    let mut world = World::new(&["east"]);
    world.born = Status::Progressing;
    world.commit(vec![config("a", "1")]);
    world.settle();
    world.wait(601);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Degraded));
    assert_eq!(world.status.history[0].result, DeploymentResult::Failed);
    for held in world.place("east").objects.values_mut() {
        held.health = Status::Healthy;
    }
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

fn job(name: &str, phase: &str, policy: &str) -> serde_json::Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": "shop", "annotations": {
            "argocd.argoproj.io/hook": phase, "argocd.argoproj.io/hook-delete-policy": policy } },
        "spec": {},
    })
}

#[test]
fn hooks_run_once_for_each_revision_before_and_after_the_rest() {
    let mut world = World::new(&["east"]);
    world.commit(vec![
        config("a", "1"),
        job("pre", "PreSync", "HookSucceeded"),
        job("post", "PostSync", "BeforeHookCreation"),
    ]);
    world.settle();
    let applied =
        |world: &World| world.log.iter().filter(|line| line.contains("apply")).cloned().collect::<Vec<_>>();
    assert_eq!(
        applied(&world),
        ["east: apply Job shop/pre", "east: apply ConfigMap shop/a", "east: apply Job shop/post"]
    );
    assert_eq!(world.status.phase, Some(Phase::Healthy));
    assert_eq!(world.names("east"), ["a", "post"], "the one that succeeded went");
    world.wait(60);
    world.edit("east", "a", |object| object["data"]["v"] = "x".into());
    world.settle();
    assert_eq!(applied(&world).len(), 4, "healing runs no hook: {:?}", world.log);
    world.commit(vec![
        config("a", "2"),
        job("pre", "PreSync", "HookSucceeded"),
        job("post", "PostSync", "BeforeHookCreation"),
    ]);
    world.settle();
    assert_eq!(applied(&world).len(), 7, "{:?}", world.log);
}

#[test]
fn a_hook_that_fails_stops_the_sync_until_somebody_asks() {
    let mut world = World::new(&["east"]);
    world.born = Status::Degraded;
    world.commit(vec![
        config("a", "1"),
        job("pre", "PreSync", "BeforeHookCreation"),
        job("alarm", "SyncFail", "HookSucceeded"),
    ]);
    while !world.log.iter().any(|line| line.contains("apply Job shop/pre")) {
        world.round(false);
    }
    world.born = Status::Healthy;
    world.settle();
    assert_eq!((world.reason().as_str(), world.status.phase), ("GivenUp", Some(Phase::Failed)));
    assert!(!world.names("east").contains(&"a".to_owned()));
    assert!(world.log.iter().any(|line| line.contains("apply Job shop/alarm")), "{:?}", world.log);
    assert_eq!(world.status.history[0].result, DeploymentResult::Failed);
    world.requests.sync = Some("now by alice".into());
    world.wait(5);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy), "{:#?} {:?}", world.status, world.log);
}

#[test]
fn waves_wait_for_the_health_of_the_one_before() {
    let mut world = World::new(&["east"]);
    let in_wave = |name: &str, wave: &str| {
        let mut object = config(name, "1");
        object["metadata"]["annotations"] = json!({ "argocd.argoproj.io/sync-wave": wave });
        object
    };
    world.born = Status::Progressing;
    world.commit(vec![in_wave("first", "-1"), in_wave("second", "2")]);
    world.settle();
    assert_eq!(world.names("east"), ["first"]);
    for held in world.place("east").objects.values_mut() {
        held.health = Status::Healthy;
    }
    world.born = Status::Healthy;
    world.settle();
    assert_eq!(world.names("east"), ["first", "second"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}
