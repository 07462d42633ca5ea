//! A world of several clusters: what an instance meets on them, what invariants see of them, and a small controller
//! over three of them whose planted bugs are caught.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "sim_clusters/spreader.rs"]
mod spreader;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use spreader::{Bug, CLUSTERS, MANAGER, spread};
use windlass_testbed::sim::{
    self, Compare, Disruption, Fault, Faults, Instance, Match, Run, Twins, Unreachable, Verb, World,
    invariants::{self, Confines, Stable},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECOND: Duration = Duration::from_secs(1);

fn map(name: &str, role: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": name, "namespace": "default", "labels": { "role": role } },
    })
}

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn on(world: &World, cluster: &str, name: &str) -> Option<Value> {
    world.cluster(cluster).unwrap().get("v1", "ConfigMap", "default", name)
}

fn stable() -> Stable {
    Stable {
        within: Duration::from_mins(10),
        quiet: Duration::from_secs(40),
        resync: Duration::from_secs(20),
        resyncs: 2,
        ..Stable::default()
    }
}

/// Sources come, change and go.
async fn spreading(world: World, bug: Bug) -> anyhow::Result<()> {
    for cluster in CLUSTERS {
        world.add_cluster(cluster);
        // Somebody else's object, which has nothing to do with any of it.
        world.outsider_on(cluster, "tenant").create(MAPS, &map("own", "own", &json!({}))).await?;
    }
    world.start("a", move |instance| spread(instance, bug));
    let user = world.outsider("user");
    for name in ["one", "two", "three"] {
        user.create(MAPS, &map(name, "source", &json!({ "v": "1" }))).await?;
    }
    world.sleep(SECOND * 20).await;
    user.merge(&format!("{MAPS}/one"), &json!({ "data": { "v": "2" } })).await?;
    world.sleep(SECOND * 40).await;
    // By then every copy has been made everywhere, whatever happened: else the counts would rightly differ.
    world.calm().await?;
    world.sleep(SECOND * 40).await;
    user.delete(&format!("{MAPS}/two")).await?;
    invariants::eventually_stable(&world, &stable()).await?;
    for cluster in CLUSTERS {
        let copy = on(&world, cluster, "one-copy");
        anyhow::ensure!(
            copy.is_some_and(|copy| copy["data"]["v"] == "2"),
            "{cluster} has not got the last state"
        );
        anyhow::ensure!(on(&world, cluster, "two-copy").is_none(), "two is left over on {cluster}");
        anyhow::ensure!(on(&world, cluster, "own").is_some(), "{cluster} lost what is not ours");
    }
    invariants::deletes_are_guarded(&world, |object| object["metadata"]["labels"]["role"] == "copy")?;
    invariants::confined(
        &world,
        &Confines::default().manager(MANAGER).cluster("east").cluster("north").cluster("west"),
    )?;
    invariants::no_panic(&world)
}

fn chaos(seed: u64, bug: Bug) -> Run {
    let plan = Faults::chaos_over(seed, &["a"], &CLUSTERS, SECOND * 50);
    sim::compare_with_fault_free(seed, &plan, &Compare::default(), |world| spreading(world, bug))
}

/// The deeds are the same for every seed, and so is the end.
#[test]
fn three_clusters_come_to_rest_under_chaos() {
    let twins = Twins::new();
    sim::seeds("three_clusters_come_to_rest_under_chaos", 30, |seed| {
        let plan = Faults::chaos_over(seed, &["a"], &CLUSTERS, SECOND * 50);
        twins.compare(0, seed, &plan, &Compare::default(), |world, _| spreading(world, Bug::None))
    });
}

#[test]
fn a_twin_that_is_known_already_still_tells_every_difference() {
    let twins = Twins::new();
    let scenario = |world: World, class: u64| async move {
        let value = if world.is_faulty() && world.seed() == 2 { 7 } else { class };
        anyhow::ensure!(class < 9, "no such class");
        world.outsider("user").create(MAPS, &map("m", "own", &json!({ "v": value.to_string() }))).await?;
        Ok(())
    };
    let plan = Faults::none().with(Fault::slow(SECOND));
    let compared = |class, seed| twins.compare(class, seed, &plan, &Compare::default(), scenario).result;
    assert_eq!((compared(0, 1), compared(0, 3), compared(1, 1)), (Ok(()), Ok(()), Ok(())));
    assert!(compared(0, 2).unwrap_err().contains("v1/ConfigMap/default/m: ends otherwise"));
    assert_eq!(compared(7, 2), Ok(()));
    for _ in 0..2 {
        assert!(compared(9, 1).unwrap_err().contains("without any fault (class 9): no such class"));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_over_several_clusters() {
    let first = chaos(5, Bug::None);
    let again = chaos(5, Bug::None);
    assert_eq!(first.trace.first_difference(&again.trace), None);
    assert_eq!(first.hash(), again.hash());
    assert_ne!(first.hash(), chaos(6, Bug::None).hash());
    let seen = |cluster: &str| first.writes.iter().any(|write| write.call.cluster == cluster);
    assert!(CLUSTERS.iter().all(|cluster| seen(cluster)) && seen(""), "{:?}", first.writes.len());
}

/// The first of the seeds that catches a bug, with what it says.
fn caught(bug: Bug, seeds: u64) -> String {
    (0..seeds)
        .find_map(|seed| chaos(seed, bug).result.err())
        .unwrap_or_else(|| panic!("{bug:?} was not caught by {seeds} seeds"))
}

#[test]
fn bugs_that_only_show_with_several_clusters_are_caught() {
    let says = |bug, words: &[&str]| {
        let why = caught(bug, 40);
        assert!(words.iter().any(|words| why.contains(words)), "{bug:?}: {why}");
    };
    says(Bug::GivesAClusterUp, &["has not got the last state", "left over on", "after a restart"]);
    says(Bug::TakesErrorsForEmptiness, &["created", "deleted"]);
    says(Bug::DeletesByName, &["deletes without a UID precondition"]);
    says(Bug::WritesToTheHub, &["has not got the last state", "foreign cluster"]);
}

/// One cluster that hangs delays the others of a controller that waits for it, and no others.
#[test]
fn one_after_the_other_is_caught_by_a_cluster_that_hangs() {
    let run = |bug| {
        let away =
            Disruption::Unreachable { cluster: "east".into(), how: Unreachable::Hangs, lasting: SECOND * 60 };
        sim::run(3, &Faults::none().at(SECOND, away), move |world| async move {
            for cluster in CLUSTERS {
                world.add_cluster(cluster);
            }
            world.start("a", move |instance| spread(instance, bug));
            world.sleep(SECOND * 5).await;
            world.outsider("user").create(MAPS, &map("one", "source", &json!({}))).await?;
            let healthy = ["north", "west"];
            let ready = |world: &World, cluster: &str| on(world, cluster, "one-copy").is_some();
            invariants::others_unaffected(&world, SECOND * 30, &healthy, ready).await
        })
        .result
    };
    assert_eq!(run(Bug::None), Ok(()));
    assert!(run(Bug::OneAfterTheOther).unwrap_err().contains("not ready in time: north, west"));
}

#[test]
fn a_crash_around_any_write_to_any_cluster_changes_nothing() {
    let run = sim::every_crash(2, "a", &Compare::default(), |world| spreading(world, Bug::None));
    assert_eq!(run.result, Ok(()));
    let to = |cluster: &str| run.writes.iter().filter(|write| write.call.cluster == cluster).count();
    assert!(CLUSTERS.iter().all(|cluster| to(cluster) > 3), "{}", run.writes.len());
}

#[test]
fn every_cluster_has_its_own_objects_and_versions() {
    let run = sim::run(1, &Faults::none(), |world| async move {
        let (east, west) = (world.add_cluster("east"), world.add_cluster("west"));
        let before = (world.api().version(), west.version());
        let tenant = world.outsider_on("east", "tenant");
        let made = tenant.create(MAPS, &map("m", "own", &json!({}))).await?;
        assert_eq!((world.api().version(), west.version()), before);
        assert!(on(&world, "", "m").is_none() && on(&world, "west", "m").is_none());
        assert_eq!(on(&world, "east", "m").unwrap()["metadata"]["uid"], made["metadata"]["uid"]);
        let twin = world.outsider_on("west", "tenant").create(MAPS, &map("m", "own", &json!({}))).await?;
        assert_ne!(made["metadata"]["uid"], twin["metadata"]["uid"]);
        assert_eq!(world.clusters(), ["", "east", "west"]);
        assert_eq!(world.add_cluster("east").version(), east.version(), "there is one east");
        assert!(world.cluster("south").is_none());
        Ok(())
    });
    assert_eq!(run.result, Ok(()));
    let named: Vec<String> = run.summary.objects.keys().map(ToString::to_string).collect();
    assert!(named.contains(&"v1/ConfigMap/default/m on east".to_owned()), "{named:?}");
}

/// What an instance met, in order.
type Met = Arc<Mutex<Vec<String>>>;

fn note(met: &Met, what: impl Into<String>) {
    met.lock().unwrap().push(what.into());
}

fn told(met: &Met) -> Vec<String> {
    met.lock().unwrap().clone()
}

/// Asks every cluster once a second, waits ten at most, and notes how it went.
async fn asker(instance: Instance, met: Met) {
    let mut asked = Vec::new();
    for cluster in ["", "east", "west", "nowhere"] {
        let (client, met) = (instance.cluster(cluster), met.clone());
        asked.push(async move {
            for _ in 0..8 {
                let list = ListParams::default();
                let answer = tokio::time::timeout(SECOND * 10, maps(client.clone()).list(&list)).await;
                note(
                    &met,
                    match answer {
                        Err(_) => format!("{cluster} time-out"),
                        Ok(Ok(_)) => format!("{cluster} answers"),
                        Ok(Err(kube::Error::Api(status))) => format!("{cluster} {}", status.code),
                        Ok(Err(_)) => format!("{cluster} broken"),
                    },
                );
                tokio::time::sleep(SECOND).await;
            }
        });
    }
    futures::future::join_all(asked).await;
    std::future::pending::<()>().await;
}

fn asked(plan: &Faults) -> Vec<String> {
    let met = Met::default();
    let run = sim::run(4, plan, |world| {
        let met = met.clone();
        async move {
            world.add_cluster("east");
            world.add_cluster("west");
            world.start("a", move |instance| asker(instance, met.clone()));
            world.sleep(SECOND * 120).await;
            Ok(())
        }
    });
    assert_eq!(run.result, Ok(()));
    told(&met)
}

fn count(met: &[String], what: &str) -> usize {
    met.iter().filter(|line| *line == what).count()
}

#[test]
fn a_fault_can_be_for_one_cluster_alone() {
    let met = asked(&Faults::none().with(Fault::forbidden().on(Match::any().cluster("east"))));
    assert_eq!(
        (count(&met, "east 403"), count(&met, "west answers"), count(&met, " answers")),
        (8, 8, 8),
        "{met:?}"
    );
    let met = asked(&Faults::none().with(Fault::forbidden().on(Match::any().cluster(""))));
    assert_eq!((count(&met, "east answers"), count(&met, " 403")), (8, 8), "{met:?}");
    assert_eq!(count(&met, "nowhere broken"), 8, "a cluster that is not there cannot be reached: {met:?}");
}

#[test]
fn a_cluster_that_refuses_fails_at_once_and_comes_back() {
    let away =
        Disruption::Unreachable { cluster: "east".into(), how: Unreachable::Refuses, lasting: SECOND * 4 };
    let met = asked(&Faults::none().at(SECOND / 2, away));
    let broken = count(&met, "east broken");
    assert!((3..=5).contains(&broken) && count(&met, "east answers") == 8 - broken, "{met:?}");
    assert_eq!((count(&met, "west answers"), count(&met, " answers")), (8, 8), "{met:?}");
}

#[test]
fn a_cluster_that_hangs_answers_when_it_is_back() {
    let away = |lasting| Disruption::Unreachable { cluster: "east".into(), how: Unreachable::Hangs, lasting };
    let met = asked(&Faults::none().at(SECOND / 2, away(SECOND * 8)));
    assert_eq!((count(&met, "east answers"), count(&met, "west answers")), (8, 8), "{met:?}");
    let met = asked(&Faults::none().at(SECOND / 2, away(SECOND * 25)));
    assert_eq!((count(&met, "east time-out"), count(&met, "east answers")), (2, 6), "{met:?}");
    assert_eq!(count(&met, "west answers"), 8, "{met:?}");
}

/// Follows the maps of a cluster and notes every event.
async fn follower(instance: Instance, met: Met) {
    let api = maps(instance.cluster("east"));
    loop {
        let Ok(list) = api.list(&ListParams::default()).await else {
            tokio::time::sleep(SECOND).await;
            continue;
        };
        note(&met, "list");
        let version = list.metadata.resource_version.unwrap_or_default();
        let Ok(events) = api.watch(&WatchParams::default(), &version).await else { continue };
        let mut events = events.boxed();
        loop {
            match events.try_next().await {
                Ok(Some(WatchEvent::Added(map))) => note(&met, format!("+{}", map.metadata.name.unwrap())),
                Ok(Some(_)) => {}
                Ok(None) => break note(&met, "end"),
                Err(_) => break note(&met, "break"),
            }
        }
    }
}

fn followed(how: Unreachable) -> Vec<String> {
    let met = Met::default();
    let run = sim::run(9, &Faults::none(), |world| {
        let met = met.clone();
        async move {
            world.add_cluster("east");
            let tenant = world.outsider_on("east", "tenant");
            world.start("a", move |instance| follower(instance, met.clone()));
            world.sleep(SECOND * 5).await;
            tenant.create(MAPS, &map("one", "own", &json!({}))).await?;
            world.sleep(SECOND * 5).await;
            world.cut_off("east", how);
            tenant.create(MAPS, &map("two", "own", &json!({}))).await?;
            world.sleep(SECOND * 20).await;
            world.note("still away");
            world.reconnect("east");
            world.sleep(SECOND * 5).await;
            tenant.create(MAPS, &map("three", "own", &json!({}))).await?;
            world.sleep(SECOND * 5).await;
            Ok(())
        }
    });
    assert_eq!(run.result, Ok(()));
    told(&met)
}

#[test]
fn watches_of_a_hanging_cluster_catch_up_and_those_of_a_refusing_one_break() {
    assert_eq!(followed(Unreachable::Hangs), ["list", "+one", "+two", "+three"]);
    assert_eq!(followed(Unreachable::Refuses), ["list", "+one", "break", "list", "+three"]);
}

/// Makes a map on east every second.
async fn maker(instance: Instance) {
    for n in 0.. {
        let name = format!("m-{}-{n}", instance.incarnation);
        let object: ConfigMap = serde_json::from_value(map(&name, "own", &json!({}))).unwrap();
        let _again = maps(instance.cluster("east")).create(&PostParams::default(), &object).await;
        tokio::time::sleep(SECOND).await;
    }
}

fn made(world: &World) -> usize {
    world.cluster("east").unwrap().objects().iter().filter(|object| object["kind"] == "ConfigMap").count()
}

#[test]
fn crashes_and_pauses_hold_for_every_cluster() {
    let run = sim::run(1, &Faults::none(), |world| async move {
        world.add_cluster("east");
        world.start_once("a", maker);
        world.sleep(SECOND * 10).await;
        world.pause("a");
        world.sleep(SECOND).await;
        let before = made(&world);
        anyhow::ensure!(before > 5, "{before}");
        world.sleep(SECOND * 20).await;
        anyhow::ensure!(made(&world) == before, "a paused instance wrote to a cluster");
        world.resume("a");
        world.sleep(SECOND * 5).await;
        anyhow::ensure!(made(&world) > before);
        world.crash("a");
        world.sleep(SECOND).await;
        let before = made(&world);
        world.sleep(SECOND * 20).await;
        anyhow::ensure!(made(&world) == before, "a dead instance wrote to a cluster");
        let writes = world.instance_writes();
        anyhow::ensure!(
            writes.iter().all(|write| write.call.cluster == "east" && write.call.verb == Verb::Create)
        );
        anyhow::ensure!(writes[0].line().contains("create@east configmaps"), "{}", writes[0].line());
        Ok(())
    });
    assert_eq!(run.result, Ok(()));
}

/// A view that is frozen stands still on every cluster, each at its own version; one can be frozen alone.
#[test]
fn a_frozen_view_stands_still_on_every_cluster() {
    let met = Met::default();
    let run = sim::run(2, &Faults::none(), |world| {
        let met = met.clone();
        async move {
            world.add_cluster("east");
            world.add_cluster("west");
            let tenant = world.outsider_on("east", "tenant");
            let told_of = met.clone();
            world.start("a", move |instance| follower(instance, met.clone()));
            world.sleep(SECOND * 5).await;
            world.freeze("a", None);
            tenant.create(MAPS, &map("one", "own", &json!({}))).await?;
            world.sleep(SECOND * 20).await;
            anyhow::ensure!(told(&told_of) == ["list"], "{:?}", told(&told_of));
            world.thaw("a", None, sim::Thaw::CatchUp);
            world.sleep(SECOND * 5).await;
            anyhow::ensure!(told(&told_of) == ["list", "+one"], "{:?}", told(&told_of));
            world.freeze_on("west", "a", None);
            tenant.create(MAPS, &map("two", "own", &json!({}))).await?;
            world.sleep(SECOND * 5).await;
            anyhow::ensure!(told(&told_of).len() == 3, "{:?}", told(&told_of));
            Ok(())
        }
    });
    assert_eq!(run.result, Ok(()));
}
