//! Something newer is held back: what runs is healed meanwhile, and the newer one is judged everywhere before it goes.

use serde_json::json;
use windlass_api::application::{
    PolicyMode,
    status::{Phase, SyncWord},
    sync::Drift,
};

use super::world::{World, config};
use crate::{
    application::depends::{Blocked, DEPENDENCY_NOT_READY},
    trouble::Trouble,
};

fn deployed(clusters: &[&str]) -> World {
    let mut world = World::new(clusters);
    world.commit(vec![config("a", "1"), config("b", "1")]);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy), "{:#?}", world.status);
    world.wait(60);
    world
}

/// Somebody changes one object and takes another one away.
fn meddle(world: &mut World) {
    world.edit("east", "a", |object| object["data"]["v"] = "x".into());
    world.place("east").objects.retain(|id, _| id.name != "b");
}

/// A newer commit that does not have `b` any more, held back by what `hold` does.
fn held(hold: impl FnOnce(&mut World)) -> World {
    let mut world = deployed(&["east"]);
    hold(&mut world);
    world.commit(vec![config("a", "2"), config("new", "1")]);
    world.settle();
    meddle(&mut world);
    world.settle();
    world
}

/// Policy refuses what comes with the newer commit.
fn refused(world: &mut World) {
    world.deny.insert("new".into());
}

#[track_caller]
fn is_healed(world: &World, reason: &str) {
    assert_eq!(world.value("east", "a").as_deref(), Some("1"), "{reason}: {:?}", world.log);
    assert_eq!(world.names("east"), ["a", "b"], "{reason}: what was taken away is made again");
    assert_eq!(world.reason(), reason, "{}", world.message());
    assert_eq!(world.status.sync.status, SyncWord::OutOfSync, "the newer one is still told");
    assert_eq!(world.status.sync.revision.as_ref(), Some(&world.head.0));
}

#[test]
fn what_runs_is_healed_while_policy_refuses_what_is_newer() {
    let mut world = held(refused);
    is_healed(&world, "PolicyRefused");
    assert_eq!(world.status.violations.len(), 1);
    let (before, work) = (world.status.clone(), world.log.len());
    world.settle();
    assert_eq!((world.status.clone(), world.log.len()), (before, work), "then it rests");
    world.deny.clear();
    world.settle();
    assert_eq!(world.names("east"), ["a", "new"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn what_runs_is_healed_while_what_is_newer_does_not_fit_or_waits_for_another_application() {
    let problem = Trouble::standing("NamespaceNotAllowed", "a is in namespace x", "move it");
    let mut world = held(|world| world.problem = Some(problem));
    is_healed(&world, "NamespaceNotAllowed");
    world.problem = None;
    world.settle();
    assert_eq!(world.names("east"), ["a", "new"]);

    let path = vec![super::world::app()];
    let blocked = Blocked { path, reason: DEPENDENCY_NOT_READY, why: "it is not".into() };
    let mut world = held(|world| world.blocked = Some(blocked));
    is_healed(&world, DEPENDENCY_NOT_READY);
    world.blocked = None;
    world.settle();
    assert_eq!(world.names("east"), ["a", "new"]);
}

#[test]
fn deletions_that_wait_for_an_approval_do_not_keep_the_rest_from_being_healed() {
    let mut world = World::new(&["east"]);
    world.commit((0..20).map(|n| config(&format!("c{n:02}"), "1")).collect());
    world.settle();
    world.commit(vec![config("c00", "2"), config("c01", "2")]);
    world.settle();
    assert_eq!(world.reason(), "ApprovalNeeded");
    world.wait(60);
    world.edit("east", "c00", |object| object["data"]["v"] = "x".into());
    world.settle();
    assert_eq!(world.value("east", "c00").as_deref(), Some("2"));
    assert_eq!((world.reason().as_str(), world.names("east").len()), ("ApprovalNeeded", 20));
}

#[test]
fn nothing_is_healed_where_nothing_would_be_without_something_newer() {
    let left = |world: &World| {
        assert_eq!(world.value("east", "a").as_deref(), Some("x"), "{:?}", world.log);
        assert_eq!(world.names("east"), ["a"]);
    };
    left(&held(|world| {
        refused(world);
        world.spec.sync.drift = Drift::Report;
    }));
    left(&held(|world| world.spec.sync.automated = false));
    left(&held(|world| {
        refused(world);
        world.spec.suspend = true;
    }));
    let deny = json!([{ "kind": "Deny", "schedule": "* * * * *", "duration": "1h" }]);
    left(&held(|world| world.spec.sync.windows = serde_json::from_value(deny).unwrap()));
}

#[test]
fn whoever_changes_what_runs_again_and_again_is_named_also_while_something_newer_is_refused() {
    let mut world = deployed(&["east"]);
    world.deny.insert("new".into());
    world.commit(vec![config("a", "2"), config("b", "1"), config("new", "1")]);
    world.settle();
    for _ in 0..8 {
        world.edit("east", "a", |object| object["data"]["v"] = "x".into());
        world.wait(100);
        world.settle();
    }
    assert_eq!(world.value("east", "a").as_deref(), Some("x"));
    assert_eq!(world.status.clusters[0].contested.len(), 1);
    let reverts = world.log.iter().filter(|line| line.contains("apply ConfigMap shop/a")).count();
    assert_eq!(reverts, 1 + 3, "the first apply and three rounds");
    assert_eq!(world.reason(), "PolicyRefused");
}

#[test]
fn a_change_that_was_begun_is_not_taken_back_because_it_cannot_go_on() {
    let mut world = deployed(&["east"]);
    let in_wave = |name: &str, wave: &str| {
        let mut object = config(name, "2");
        object["metadata"]["annotations"] = json!({ "argocd.argoproj.io/sync-wave": wave });
        object
    };
    world.born = windlass_manifest::health::Status::Progressing;
    world.commit(vec![in_wave("a", "0"), in_wave("b", "1")]);
    world.settle();
    assert_eq!(world.value("east", "a").as_deref(), Some("2"));
    world.deny.insert("b".into());
    world.settle();
    assert_eq!(world.reason(), "PolicyRefused");
    assert_eq!(world.value("east", "a").as_deref(), Some("2"), "{:?}", world.log);
    assert_eq!(world.value("east", "b").as_deref(), Some("1"));
}

/// Three clusters, each a wave of its own.
fn in_waves() -> World {
    let mut world = World::new(&["one", "three", "two"]);
    for name in ["one", "two", "three"] {
        world.place(name).labels = [("wave".to_owned(), name.to_owned())].into();
    }
    let wave = |name: &str| json!({ "selector": { "matchLabels": { "wave": name } } });
    world.commit(vec![config("a", "1")]);
    world.settle();
    world.spec.progressive =
        serde_json::from_value(json!({ "waves": [wave("one"), wave("two"), wave("three")] })).unwrap();
    world.wait(60);
    world.settle();
    assert_eq!(world.status.phase, Some(Phase::Healthy), "{:#?}", world.status);
    world
}

#[test]
fn a_refusal_in_a_later_wave_stops_the_change_before_the_first_one() {
    let mut world = in_waves();
    world.deny.insert("three/a".into());
    world.commit(vec![config("a", "2")]);
    world.settle();
    for cluster in ["one", "two", "three"] {
        assert_eq!(world.value(cluster, "a").as_deref(), Some("1"), "{cluster}");
    }
    assert_eq!((world.reason().as_str(), world.status.phase), ("PolicyRefused", Some(Phase::Failed)));
    assert!(world.message().contains("on three"), "{}", world.message());
    assert_eq!(world.status.violations[0].cluster.as_deref(), Some("three"));
    world.edit("one", "a", |object| object["data"]["v"] = "x".into());
    world.settle();
    assert_eq!(world.value("one", "a").as_deref(), Some("1"), "what runs is healed meanwhile");
    world.deny.clear();
    world.settle();
    for cluster in ["one", "two", "three"] {
        assert_eq!(world.value(cluster, "a").as_deref(), Some("2"), "{cluster}");
    }
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn what_is_refused_in_a_later_wave_is_left_out_or_told_where_policy_is_not_strict() {
    for mode in [PolicyMode::Permissive, PolicyMode::Audit] {
        let mut world = in_waves();
        world.spec.policy.mode = mode;
        world.deny.insert("three/a".into());
        world.commit(vec![config("a", "2")]);
        world.round(false);
        assert_eq!(world.status.violations.len(), 1, "{mode:?}: it is known from the first");
        world.settle();
        assert_eq!(world.value("two", "a").as_deref(), Some("2"), "{mode:?}");
    }
}

#[test]
fn a_cluster_of_a_later_wave_that_is_away_holds_nobody_up_and_is_judged_when_it_is_back() {
    let mut world = in_waves();
    world.deny.insert("three/a".into());
    world.place("three").away = true;
    world.commit(vec![config("a", "2")]);
    world.settle();
    assert_eq!(world.value("one", "a").as_deref(), Some("2"));
    assert_eq!(world.value("two", "a").as_deref(), Some("2"));
    world.place("three").away = false;
    world.settle();
    assert_eq!(world.value("three", "a").as_deref(), Some("1"));
    assert_eq!(world.reason(), "PolicyRefused", "{}", world.message());
    assert_eq!(world.value("one", "a").as_deref(), Some("2"), "who has it keeps it");
}
