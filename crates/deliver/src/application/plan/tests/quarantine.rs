//! A revision whose Rollout failed: held back, healed to nowhere, taken back in the repository, lifted, outlived.

use serde_json::json;
use windlass_api::application::{
    status::{DeploymentResult, Phase, REVERTED},
    sync::GitRollbackMode,
};
use windlass_api::condition;

use super::world::{World, config};
use crate::{application::observed::FailedRollout, trouble::Trouble};

fn failed(world: &World, cluster: &str) -> FailedRollout {
    FailedRollout {
        cluster: cluster.into(),
        object: "Rollout shop/web".into(),
        at: world.now,
        reason: "metric errors failed".into(),
    }
}

/// A good revision ran; a bad one was applied, and its Rollout failed.
fn quarantined(clusters: &[&str], prepare: impl FnOnce(&mut World)) -> (World, String, String) {
    let mut world = World::new(clusters);
    prepare(&mut world);
    let good = world.commit(vec![config("a", "1")]);
    world.settle();
    world.wait(60);
    world.born = windlass_manifest::health::Status::Degraded;
    let bad = world.commit(vec![config("a", "2")]);
    world.settle();
    world.wait(60);
    world.born = windlass_manifest::health::Status::Healthy;
    world.failed = vec![failed(&world, clusters[0])];
    world.settle();
    (world, good, bad)
}

#[test]
fn a_revision_whose_rollout_failed_is_quarantined_and_named_with_its_reason() {
    let (world, _, bad) = quarantined(&["east"], |_| ());
    let entry = world.status.quarantine.as_ref().unwrap();
    assert_eq!((entry.revision.as_str(), entry.cluster.as_str()), (bad.as_str(), "east"));
    assert_eq!((entry.object.as_str(), entry.reason.as_str()), ("Rollout shop/web", "metric errors failed"));
    assert_eq!((world.reason().as_str(), world.status.phase), ("Quarantined", Some(Phase::Degraded)));
    assert!(world.message().contains("metric errors failed"), "{}", world.message());
    let last = &world.status.history[0];
    assert_eq!((last.revision.as_str(), last.result), (bad.as_str(), DeploymentResult::Failed));
    assert_eq!(world.status.operation, None);
    assert_eq!(world.orders, [], "gitRollback is off");
}

#[test]
fn a_quarantined_revision_is_neither_applied_again_nor_healed_to() {
    let (mut world, ..) = quarantined(&["east"], |_| ());
    let work = world.log.len();
    world.edit("east", "a", |object| object["data"]["v"] = "1".into());
    world.requests.sync = Some("now by alice".into());
    world.wait(600);
    world.settle();
    assert_eq!(world.value("east", "a").as_deref(), Some("1"), "somebody put the good one back by hand");
    assert_eq!(world.log.len(), work, "{:?}", world.log);
    assert_eq!(world.reason(), "Quarantined");
}

#[test]
fn other_clusters_keep_and_are_healed_to_what_they_run_when_a_revision_is_quarantined() {
    let (mut world, ..) = quarantined(&["one", "two"], |world| {
        for name in ["one", "two"] {
            world.place(name).labels = [("wave".to_owned(), name.to_owned())].into();
        }
        let wave = |name: &str| json!({ "selector": { "matchLabels": { "wave": name } } });
        world.spec.progressive =
            serde_json::from_value(json!({ "waves": [wave("one"), wave("two")], "onFailure": "Halt" }))
                .unwrap();
    });
    assert_eq!(world.value("one", "a").as_deref(), Some("2"), "what runs is left as it is");
    assert_eq!(world.value("two", "a").as_deref(), Some("1"));
    // The first wave looks well again; the second one does not get it for that.
    for held in world.place("one").objects.values_mut() {
        held.health = windlass_manifest::health::Status::Healthy;
    }
    world.edit("two", "a", |object| object["data"]["v"] = "x".into());
    world.wait(600);
    world.settle();
    assert_eq!(world.value("two", "a").as_deref(), Some("1"), "{:?}", world.log);
    assert_eq!(world.reason(), "Quarantined");
}

#[test]
fn a_quarantine_ends_when_the_source_moves_past_it() {
    let (mut world, ..) = quarantined(&["east"], |_| ());
    // The same content by another name is the same failure.
    world.commit(vec![config("a", "2")]);
    world.settle();
    assert_eq!(world.reason(), "Quarantined");
    world.commit(vec![config("a", "3")]);
    world.settle();
    assert_eq!(world.value("east", "a").as_deref(), Some("3"));
    assert_eq!((world.status.quarantine.clone(), world.status.phase), (None, Some(Phase::Healthy)));
    let told = condition::get(&world.status.conditions, "Quarantined");
    assert_eq!(told, None, "the failure of another revision is not blamed on the one after it");
}

#[test]
fn whoever_lifts_a_quarantine_is_recorded_and_the_revision_goes_on() {
    let (mut world, _, bad) = quarantined(&["east"], |_| ());
    world.edit("east", "a", |object| object["data"]["v"] = "x".into());
    world.requests.lift = Some(format!("{} by bob", "0".repeat(40)));
    world.settle();
    assert_eq!(world.reason(), "Quarantined", "another revision was meant");
    world.requests.lift = Some(format!("{bad} by alice"));
    world.settle();
    let entry = world.status.quarantine.clone().unwrap();
    assert_eq!(entry.lifted.unwrap().by, "alice");
    assert_eq!(world.value("east", "a").as_deref(), Some("2"), "{:?}", world.log);
    assert_ne!(world.reason(), "Quarantined", "the same failure does not bring it back");
}

fn with_commits(world: &mut World) {
    world.spec.sync.git_rollback.mode = GitRollbackMode::Commit;
}

#[test]
fn a_quarantined_revision_is_reverted_once_and_only_after_the_status_tells_of_it() {
    let (world, good, bad) = quarantined(&["east"], with_commits);
    assert_eq!(world.orders.len(), 1, "{:#?}", world.orders);
    let order = &world.orders[0];
    assert_eq!((&order.good, &order.bad, order.branch.as_str()), (&good, &bad, "main"));
    let entry = world.status.quarantine.clone().unwrap();
    assert_eq!(entry.revert.unwrap().branch, "main");
    let told = condition::get(&world.status.conditions, REVERTED).unwrap();
    assert_eq!(told.status, "True");

    let (mut world, ..) = quarantined(&["east"], |_| ());
    world.status.quarantine = None;
    world.status.operation = None;
    with_commits(&mut world);
    let plan = world.round(false);
    assert_eq!((world.status.quarantine.is_some(), world.orders.len()), (true, 0), "{plan:?}");
    world.settle();
    assert_eq!(world.orders.len(), 1);
}

#[test]
fn a_revert_gets_a_branch_of_its_own_by_a_template_when_asked_for() {
    let (world, _, bad) = quarantined(&["east"], |world| {
        world.spec.sync.git_rollback.mode = GitRollbackMode::Branch;
    });
    assert_eq!(world.orders[0].branch, format!("windlass/revert-web-{}", &bad[..10]));
    let (world, _, bad) = quarantined(&["east"], |world| {
        world.spec.sync.git_rollback.mode = GitRollbackMode::Branch;
        world.spec.sync.git_rollback.branch = Some("fix/{revision}/{application}".into());
    });
    assert_eq!(world.orders[0].branch, format!("fix/{}/web", &bad[..10]));
}

#[test]
fn a_revert_that_was_refused_is_told_with_a_remedy_and_tried_again_later() {
    let (mut world, ..) = quarantined(&["east"], |world| {
        with_commits(world);
        world.pushes = Err(Trouble::standing("RevertRefused", "main is protected", "use a branch"));
    });
    let told = condition::get(&world.status.conditions, REVERTED).unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "RevertRefused"));
    assert!(told.message.contains("Use a branch"), "{}", told.message);
    let tried = world.orders.len();
    world.settle();
    assert_eq!(world.orders.len(), tried, "not before its time");
    world.pushes = Ok(());
    world.wait(600);
    world.settle();
    assert_eq!(world.orders.len(), tried + 1);
    assert_eq!(condition::get(&world.status.conditions, REVERTED).unwrap().status, "True");
}

#[test]
fn the_first_revision_of_all_cannot_be_reverted_and_says_so() {
    let mut world = World::new(&["east"]);
    with_commits(&mut world);
    world.born = windlass_manifest::health::Status::Degraded;
    world.commit(vec![config("a", "1")]);
    world.settle();
    world.wait(60);
    world.failed = vec![failed(&world, "east")];
    world.settle();
    assert_eq!((world.reason().as_str(), world.orders.len()), ("Quarantined", 0));
    let told = condition::get(&world.status.conditions, REVERTED).unwrap();
    assert_eq!(told.reason, "RevertImpossible");
}
