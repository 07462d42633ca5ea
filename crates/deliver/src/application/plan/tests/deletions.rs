//! What is deleted only after something happened: hooks of a deletion, and objects that ask to be confirmed.

use serde_json::{Value, json};
use windlass_api::application::{Deletion, status::Phase};
use windlass_manifest::health::Status;

use super::world::{World, config};

fn hook(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": "shop", "annotations": { "argocd.argoproj.io/hook": phase } },
        "spec": {},
    })
}

fn optioned(name: &str, options: &str) -> Value {
    let mut object = config(name, "1");
    object["metadata"]["annotations"] = json!({ "argocd.argoproj.io/sync-options": options });
    object
}

fn with_hooks() -> World {
    let mut world = World::new(&["east"]);
    world.commit(vec![config("a", "1"), hook("before", "PreDelete"), hook("after", "PostDelete")]);
    world.settle();
    assert_eq!((world.status.phase, world.names("east")), (Some(Phase::Healthy), vec!["a".to_owned()]));
    assert_eq!(world.status.clusters[0].deletion_hooks, Some(2));
    world.log.clear();
    world
}

fn finish(world: &mut World, name: &str, health: Status) {
    for (_, held) in world.place("east").objects.iter_mut().filter(|(id, _)| id.name == name) {
        held.health = health;
    }
}

#[test]
fn hooks_of_a_deletion_run_before_and_after_it_and_go_with_it() {
    let mut world = with_hooks();
    world.born = Status::Progressing;
    world.deleting = true;
    world.settle();
    assert_eq!(world.names("east"), ["a", "before"], "{:?}", world.log);
    assert_eq!(world.reason(), "RunningHooks", "{}", world.message());
    finish(&mut world, "before", Status::Healthy);
    world.settle();
    assert!(!world.released && !world.names("east").contains(&"a".to_owned()));
    assert!(world.names("east").contains(&"after".to_owned()), "{:?}", world.log);
    finish(&mut world, "after", Status::Healthy);
    world.settle();
    assert!(world.released && world.names("east").is_empty(), "{:?}", world.log);
    let applied: Vec<&String> = world.log.iter().filter(|line| line.contains("apply")).collect();
    assert_eq!(applied, ["east: apply Job shop/before", "east: apply Job shop/after"]);
}

#[test]
fn a_deletion_goes_on_after_a_crash_without_running_a_hook_twice() {
    for crash in 0..12 {
        let mut world = with_hooks();
        world.deleting = true;
        for _ in 0..crash {
            world.round(false);
        }
        if !world.released {
            world.round(true);
        }
        world.settle();
        assert!(world.released && world.names("east").is_empty(), "{crash}: {:?}", world.log);
        let runs = world.log.iter().filter(|line| line.contains("apply Job shop/before")).count();
        assert_eq!(runs, 1, "{crash}: {:?}", world.log);
        let first_delete = world.log.iter().position(|line| line.contains("delete ConfigMap")).unwrap();
        let last_run = world.log.iter().rposition(|line| line.contains("apply Job shop/before")).unwrap();
        assert!(last_run < first_delete, "{crash}: {:?}", world.log);
    }
}

#[test]
fn a_deletion_hook_that_fails_holds_the_deletion_and_says_what_to_do() {
    let mut world = with_hooks();
    world.born = Status::Degraded;
    world.deleting = true;
    world.settle();
    assert!(!world.released);
    assert_eq!((world.reason().as_str(), world.names("east").len()), ("HookFailed", 2));
    for part in ["Job shop/before", "windlass.dev/deletion-hooks: skip", "Orphan"] {
        assert!(world.message().contains(part), "{part}: {}", world.message());
    }
    // Taken away by somebody, it runs again.
    world.born = Status::Healthy;
    world.place("east").objects.retain(|id, _| id.name != "before");
    world.settle();
    assert!(world.released && world.names("east").is_empty(), "{:?}", world.log);
}

#[test]
fn a_deletion_hook_can_be_passed_over_and_orphaning_runs_none() {
    let mut world = with_hooks();
    world.born = Status::Degraded;
    world.deleting = true;
    world.settle();
    world.requests.skip_deletion_hooks = true;
    world.settle();
    assert!(world.released && world.names("east").is_empty(), "{:?}", world.log);

    let mut world = with_hooks();
    world.spec.deletion = Deletion::Orphan;
    world.deleting = true;
    world.settle();
    assert!(world.released);
    assert_eq!(world.names("east"), ["a"]);
    assert!(!world.log.iter().any(|line| line.contains("Job")), "{:?}", world.log);
}

#[test]
fn what_asks_to_be_confirmed_is_not_pruned_before_it_is() {
    let mut world = World::new(&["east"]);
    world.commit(vec![
        config("a", "1"),
        config("gone", "1"),
        optioned("precious", "Prune=confirm"),
        optioned("dear", "Prune=confirm"),
    ]);
    world.settle();
    world.commit(vec![config("a", "2")]);
    world.settle();
    assert_eq!(world.names("east"), ["a", "dear", "precious"], "the others go");
    assert_eq!(world.reason(), "ApprovalNeeded");
    for part in ["ConfigMap shop/precious on east", "ConfigMap shop/dear on east", "windlass approve"] {
        assert!(world.message().contains(part), "{part}: {}", world.message());
    }
    let approval = world.status.approval.clone().unwrap();
    assert!(approval.confirm && approval.deletions == 2);
    world.requests.approve = Some(approval.id);
    world.settle();
    assert_eq!(world.names("east"), ["a"]);
    assert_eq!((world.status.phase, world.status.granted.clone()), (Some(Phase::Healthy), None));
}

#[test]
fn an_approval_lasts_until_the_last_layer_of_its_set_is_gone() {
    let mut world = World::new(&["east"]);
    let deployment = |name: String| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": "shop" }, "spec": {} })
    };
    let keep = config("keep", "1");
    let mut all = vec![keep.clone()];
    all.extend((0..12).map(|n| config(&format!("c{n:02}"), "1")));
    all.extend((0..12).map(|n| deployment(format!("d{n:02}"))));
    world.commit(all);
    world.settle();
    world.commit(vec![keep]);
    world.settle();
    assert_eq!(world.names("east").len(), 25);
    world.requests.approve = world.status.approval.clone().map(|approval| approval.id);
    world.settle();
    assert_eq!(world.names("east"), ["keep"], "one approval is enough: {}", world.message());
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}

#[test]
fn what_asks_to_be_confirmed_stays_when_the_application_goes_until_it_is() {
    let mut world = World::new(&["east"]);
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    world.commit(vec![namespace, config("a", "1"), optioned("precious", "Delete=confirm")]);
    world.settle();
    world.deleting = true;
    world.settle();
    assert!(!world.released);
    assert_eq!(world.reason(), "ApprovalNeeded", "{}", world.message());
    assert!(world.message().contains("ConfigMap shop/precious on east"), "{}", world.message());
    assert_eq!(world.names("east"), ["precious", "shop"], "its namespace stays with it");
    world.requests.approve = world.status.approval.clone().map(|approval| approval.id);
    world.settle();
    assert!(world.released && world.names("east").is_empty());
}

#[test]
fn the_namespace_of_an_object_that_has_to_stay_stays_too() {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    let with = |options: &str| vec![namespace.clone(), config("a", "1"), optioned("kept", options)];
    let mut world = World::new(&["east"]);
    world.commit(with("Delete=false"));
    world.settle();
    world.deleting = true;
    world.settle();
    assert!(world.released);
    assert_eq!(world.names("east"), ["kept", "shop"]);

    let mut world = World::new(&["east"]);
    world.commit(with("Prune=false"));
    world.settle();
    world.commit(vec![config("b", "1")]);
    world.settle();
    assert_eq!(world.names("east"), ["b", "kept", "shop"]);
    assert_eq!(world.status.phase, Some(Phase::Healthy));
}
