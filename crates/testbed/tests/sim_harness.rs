//! The harness on a toy: the correct one passes under every fault, each planted bug is caught.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "sim_harness/toy.rs"]
mod toy;

use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};
use toy::{Bug, MANAGER, Toy};
use windlass_testbed::sim::{
    self, Compare, Disruption, Fault, Faults, Match, Run, StreamFault, Thaw, Verb, World,
    invariants::{self, Confines, Ready, Secrets, Stable},
};

const TOKEN: &str = "t0p-s3cr3t-token";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LASTING: Duration = Duration::from_secs(90);

#[allow(clippy::needless_pass_by_value)]
fn source(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": name, "namespace": "default", "labels": { "role": "source" } },
    })
}

fn board(world: &World, name: &str, bug: Bug, elect: bool) {
    world.start(name, move |instance| Toy { instance, bug, elect }.run());
}

async fn credentials(world: &World) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" }, "stringData": { "token": TOKEN },
    });
    world.outsider("user").create("/api/v1/namespaces/default/secrets", &secret).await.map(drop)
}

fn copy_is(world: &World, name: &str, data: &Value) -> bool {
    let copy = world.api().get("v1", "ConfigMap", "default", &format!("{name}-copy"));
    copy.is_some_and(|copy| copy["data"] == *data)
}

/// What a user does, at seeded moments: create, change, change back, delete, create again.
async fn deeds(world: &World) -> anyhow::Result<()> {
    let user = world.outsider("user");
    let mut rng = world.rng("user");
    let mut pause = || Duration::from_millis(rng.random_range(0..12_000));
    user.create(MAPS, &source("one", json!({ "a": "1" }))).await?;
    world.sleep(pause()).await;
    user.create(MAPS, &source("two", json!({ "b": "1" }))).await?;
    world.sleep(pause()).await;
    user.merge(&format!("{MAPS}/one"), &json!({ "data": { "a": "2" } })).await?;
    world.sleep(pause()).await;
    user.flip(&format!("{MAPS}/one"), &json!({ "data": { "a": "3" } }), &json!({ "data": { "a": "2" } }))
        .await?;
    // Long enough for every copy to exist, whatever happens: else the counts would rightly differ.
    world.sleep(Duration::from_mins(5)).await;
    user.delete(&format!("{MAPS}/two")).await?;
    world.sleep(pause()).await;
    user.create(MAPS, &source("three", json!({}))).await?;
    world.sleep(pause()).await;
    user.create(MAPS, &source("bad", json!({ "poison": "yes" }))).await?;
    user.create(MAPS, &source("zoe", json!({ "z": "1" }))).await.map(drop)
}

fn stable() -> Stable {
    Stable { within: Duration::from_mins(30), resync: Duration::from_mins(1), ..Stable::default() }
}

async fn checks(world: &World) -> anyhow::Result<()> {
    invariants::eventually_stable(world, &stable()).await?;
    for (name, data) in [("one", json!({ "a": "2" })), ("zoe", json!({ "z": "1" }))] {
        anyhow::ensure!(copy_is(world, name, &data), "{name} is not copied");
    }
    anyhow::ensure!(
        world.api().get("v1", "ConfigMap", "default", "two-copy").is_none(),
        "two-copy is left over"
    );
    invariants::deletes_are_guarded(world, |object| object["metadata"]["labels"]["role"] == "copy")?;
    let confines = Confines::default().manager(MANAGER).namespace("default").identity("");
    invariants::confined(world, &confines.kind("configmaps").kind("events").kind("leases"))?;
    invariants::no_panic(world)?;
    Secrets::planted([TOKEN]).nowhere(world, &[("metrics", "toy_rounds_total 7")], |_| false)
}

async fn alone(world: World, bug: Bug) -> anyhow::Result<()> {
    credentials(&world).await?;
    board(&world, "a", bug, false);
    deeds(&world).await?;
    checks(&world).await
}

fn chaos(seed: u64, bug: Bug) -> Run {
    let plan = Faults::chaos(seed, &["a"], LASTING);
    sim::compare_with_fault_free(seed, &plan, &Compare::default(), |world| alone(world, bug))
}

#[test]
fn correct_toy_is_stable_under_chaos() {
    sim::seeds("correct_toy_is_stable_under_chaos", 200, |seed| chaos(seed, Bug::None));
}

#[test]
fn correct_toy_survives_a_crash_at_every_write() {
    let run = sim::every_crash(1, "a", &Compare::default(), |world| alone(world, Bug::None));
    assert_eq!(run.result, Ok(()));
    assert!(run.writes.iter().filter(|write| write.call.instance == "a").count() > 10);
}

#[test]
fn same_seed_same_trace_and_other_seeds_differ() {
    let first = chaos(11, Bug::None);
    let again = chaos(11, Bug::None);
    assert_eq!(first.trace.first_difference(&again.trace), None);
    assert_eq!(first.hash(), again.hash());
    assert_ne!(first.hash(), chaos(12, Bug::None).hash());
}

#[test]
fn chaos_strikes_with_every_fault() {
    let mut struck = std::collections::BTreeMap::<&str, u64>::new();
    for seed in 0..60 {
        let plan = Faults::chaos(seed, &["a"], LASTING);
        for (fault, count) in sim::run(seed, &plan, |world| alone(world, Bug::None)).strikes {
            *struck.entry(fault).or_default() += count;
        }
    }
    // A toy that lists without pages and watches from fresh versions meets these too seldom to be counted on.
    let rare = ["expired"];
    for fault in Faults::catalogue() {
        let count = struck.get(fault.name).copied().unwrap_or_default();
        assert!(count > 0 || rare.contains(&fault.name), "{} never struck: {struck:?}", fault.name);
    }
}

/// The first of the seeds that catches a bug, with what it says.
fn caught(bug: Bug, seeds: u64, run: impl Fn(u64) -> Run) -> String {
    for seed in 0..seeds {
        if let Err(why) = run(seed).result {
            return why;
        }
    }
    panic!("{bug:?} is not caught in {seeds} seeds");
}

#[test]
fn planted_bugs_are_caught_under_chaos() {
    for (bug, says) in [
        (Bug::MissingPrecondition, "without a UID precondition"),
        (Bug::ForgetsCleanup, "two-copy is left over"),
        (Bug::WritesEveryResync, "still writing"),
        (Bug::LeaksInEvent, "planted secret is in a write"),
        (Bug::LeaksInLog, "planted secret is in the log"),
        (Bug::GivesUp, "although nothing changed"),
        (Bug::Panics, "panicked"),
        (Bug::PoisonStopsAll, "zoe is not copied"),
        (Bug::ForgetsWhatItMade, ""),
        (Bug::WritesElsewhere, "foreign namespace"),
    ] {
        let why = caught(bug, 40, |seed| chaos(seed, bug));
        assert!(why.contains(says), "{bug:?} is caught for another reason: {why}");
    }
}

/// A crash between the copy and the late finalizer, then a delete before the restart: nobody cleans up.
#[test]
fn late_finalizer_is_caught_by_crashes() {
    let scenario = |bug| {
        move |world: World| async move {
            credentials(&world).await?;
            world.start_once("a", move |instance| Toy { instance, bug, elect: false }.run());
            let user = world.outsider("user");
            user.create(MAPS, &source("one", json!({ "a": "1" }))).await?;
            world.sleep(Duration::from_mins(2)).await;
            user.delete(&format!("{MAPS}/one")).await?;
            world.restart("a");
            invariants::eventually_stable(&world, &stable()).await?;
            let left = world.api().get("v1", "ConfigMap", "default", "one-copy");
            anyhow::ensure!(left.is_none(), "one-copy is left over");
            Ok(())
        }
    };
    let blind = Compare::default().counts(|_| false);
    assert_eq!(sim::every_crash(1, "a", &blind, scenario(Bug::None)).result, Ok(()));
    let why = sim::every_crash(1, "a", &blind, scenario(Bug::FinalizerTooLate)).result.unwrap_err();
    assert!(why.contains("crash-after-write") && why.contains("left over"), "{why}");
}

/// Restarted into the past: a source that it knew before is not in the list, its copy is.
#[test]
fn stale_cache_is_caught_by_time_travel() {
    let travel = |seed, bug| {
        let scenario = move |world: World| async move {
            credentials(&world).await?;
            let past = world.version();
            board(&world, "a", bug, false);
            world.outsider("user").create(MAPS, &source("one", json!({ "a": "1" }))).await?;
            world
                .eventually("the copy", Duration::from_mins(1), || {
                    copy_is(&world, "one", &json!({ "a": "1" }))
                })
                .await?;
            world.sleep(Duration::from_secs(5)).await;
            if world.is_faulty() {
                world.freeze_at("a", None, &past);
                world.crash("a");
                world.sleep(Duration::from_secs(90)).await;
                world.thaw("a", None, Thaw::CatchUp);
            }
            invariants::eventually_stable(&world, &stable()).await
        };
        let plan = Faults::none().with(Fault::slow(Duration::from_millis(50)).chance(0.1));
        sim::compare_with_fault_free(seed, &plan, &Compare::default(), scenario)
    };
    sim::seeds("stale_cache_is_caught_by_time_travel", 20, |seed| travel(seed, Bug::None));
    let why = caught(Bug::ActsOnStaleCache, 3, |seed| travel(seed, Bug::ActsOnStaleCache));
    assert!(why.contains("one-copy: created 2 times, without faults 1"), "{why}");
}

#[test]
fn a_hung_watch_is_survived_or_caught() {
    let hang = |seed, bug| {
        let hang = Fault::stream(StreamFault::Hang).nth(1);
        sim::run(seed, &Faults::none().with(hang), |world: World| async move {
            credentials(&world).await?;
            board(&world, "a", bug, false);
            world.sleep(Duration::from_secs(20)).await;
            world.outsider("user").create(MAPS, &source("one", json!({ "a": "1" }))).await?;
            let copied = || copy_is(&world, "one", &json!({ "a": "1" }));
            world.eventually("the copy beside a hung watch", Duration::from_mins(10), copied).await
        })
    };
    sim::seeds("a_hung_watch_is_survived_or_caught", 20, |seed| hang(seed, Bug::None));
    let why = caught(Bug::TrustsWatch, 3, |seed| hang(seed, Bug::TrustsWatch));
    assert!(why.contains("hung watch"), "{why}");
}

fn two(seed: u64, bug: Bug) -> Run {
    let mut plan = Faults::none();
    let lasting = Duration::from_secs(40);
    for second in [20, 90, 160] {
        let instance = if second == 90 { "b" } else { "a" }.to_owned();
        plan = plan.at(Duration::from_secs(second), Disruption::Pause { instance, lasting });
    }
    sim::run(seed, &plan, |world: World| async move {
        credentials(&world).await?;
        for name in ["a", "b"] {
            board(&world, name, bug, true);
        }
        let user = world.outsider("user");
        for number in 0..60 {
            let name = format!("s{}", number % 4);
            let object = source(&name, json!({ "n": number.to_string() }));
            user.take_fields(&format!("{MAPS}/{name}"), &object).await?;
            world.sleep(Duration::from_secs(4)).await;
        }
        invariants::eventually_stable(&world, &stable()).await?;
        invariants::one_effective_writer(&world, |write| write.call.resource == "events")
    })
}

#[test]
fn two_leaders_are_caught_and_a_fenced_pair_passes() {
    sim::seeds("two_leaders_are_caught_and_a_fenced_pair_passes", 8, |seed| two(seed, Bug::None));
    for bug in [Bug::TwoWriters, Bug::NeverChecksLease] {
        let why = caught(bug, 40, |seed| two(seed, bug));
        assert!(why.contains("took over"), "{bug:?}: {why}");
    }
}

/// Neighbours: sources swapped under the writer, specs flipped, fields of a copy taken, a finalizer that is stuck.
#[test]
fn correct_toy_lives_with_meddlers() {
    sim::seeds("correct_toy_lives_with_meddlers", 30, |seed| {
        let one = format!("{MAPS}/one");
        let flip = Fault::flipped(&one, &json!({ "data": { "a": "9" } }), &json!({ "data": { "a": "1" } }));
        let plan = Faults::none()
            .with(Fault::recreated().chance(0.5).at_most(3))
            .with(flip.chance(0.5).at_most(3))
            .with(Fault::conflict_storm().chance(0.5).at_most(5));
        sim::run(seed, &plan, |world: World| async move {
            credentials(&world).await?;
            board(&world, "a", Bug::None, false);
            let (user, data) = (world.outsider("user"), json!({ "a": "1" }));
            for name in ["one", "two"] {
                user.create(MAPS, &source(name, data.clone())).await?;
            }
            let copied = || copy_is(&world, "one", &data) && copy_is(&world, "two", &data);
            world.eventually("copies", Duration::from_mins(5), copied).await?;
            let taken = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one-copy" }, "data": { "a": "taken" } });
            world.outsider("thief").take_fields(&format!("{MAPS}/one-copy"), &taken).await?;
            world
                .eventually("the field back", Duration::from_mins(5), || copy_is(&world, "one", &data))
                .await?;
            let two = format!("{MAPS}/two");
            world.outsider("other").hold(&two, "example.com/stuck").await?;
            user.delete(&two).await?;
            invariants::eventually_stable(&world, &stable()).await?;
            let there = |name: &str| world.api().get("v1", "ConfigMap", "default", name).is_some();
            anyhow::ensure!(there("two") && !there("two-copy"), "held by another, cleaned up by us");
            world.outsider("other").let_go(&two, "example.com/stuck").await?;
            anyhow::ensure!(!there("two"), "two is still there");
            Ok(())
        })
    });
}

/// Ready=True has to carry the generation that it speaks of.
#[test]
fn ready_without_a_current_generation_is_caught() {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let report = |observed: Value| {
        let crd = crd.clone();
        move |world: World| async move {
            let (user, path) = (world.outsider("user"), "/apis/example.com/v1/namespaces/default/widgets");
            user.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
            // A definition takes a moment until its kind is served.
            world.sleep(Duration::from_secs(1)).await;
            let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "a": 1 } });
            user.create(path, &widget).await?;
            world.start_once("a", move |instance| {
                let mut ready = json!({ "type": "Ready", "status": "True", "reason": "R", "message": "m" });
                if observed.is_number() {
                    ready["observedGeneration"] = observed.clone();
                }
                let status = json!({ "status": { "conditions": [ready] } }).to_string();
                let request = http::Request::patch(format!("{path}/w/status?fieldManager=toy"))
                    .header("content-type", "application/merge-patch+json")
                    .body(status.into_bytes())
                    .unwrap();
                async move {
                    instance.client.request::<Value>(request).await.unwrap();
                }
            });
            world.sleep(Duration::from_secs(10)).await;
            invariants::ready_is_current(&world, Ready::AtCommit)
        }
    };
    let run = |observed: Value| sim::run(1, &Faults::none(), report(observed)).result;
    assert_eq!(run(json!(1)), Ok(()));
    assert!(run(json!(7)).unwrap_err().contains("observedGeneration 7 at generation 1"));
    assert!(run(Value::Null).unwrap_err().contains("without observedGeneration"));
}

/// What a client sees of each refusal, and that a lost response was applied while a refused request was not.
#[test]
fn faults_show_what_a_real_server_shows() {
    let faults = [
        (Fault::internal_error(), 500, false),
        (Fault::too_many_requests(3), 429, false),
        (Fault::unavailable(), 503, false),
        (Fault::forbidden(), 403, false),
        (Fault::webhook_timeout(), 500, false),
        (Fault::disconnect(), 0, false),
        (Fault::lost_response(), 0, true),
    ];
    for (fault, code, applied) in faults {
        let name = fault.name;
        let plan = Faults::none().with(fault.on(Match::any().instance("a").verbs([Verb::Create])));
        let run = sim::run(1, &plan, |world: World| async move {
            let (seen, got) = tokio::sync::oneshot::channel();
            let seen = std::sync::Mutex::new(Some(seen));
            world.start_once("a", move |instance| {
                let seen = seen.lock().unwrap().take().unwrap();
                async move {
                    let object = serde_json::from_value(source("m", json!({}))).unwrap();
                    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
                        kube::Api::namespaced(instance.client, "default");
                    seen.send(maps.create(&kube::api::PostParams::default(), &object).await).unwrap();
                }
            });
            let error = got.await?.expect_err("the request has to fail");
            let found = if let kube::Error::Api(status) = &error { status.code } else { 0 };
            anyhow::ensure!(found == code, "answered {found} {error}");
            let there = world.api().get("v1", "ConfigMap", "default", "m").is_some();
            anyhow::ensure!(there == applied, "applied: {there}");
            Ok(())
        });
        assert_eq!(run.result, Ok(()), "{name}");
        assert_eq!(run.strikes[name], 1);
    }
}

#[test]
fn a_gauge_keeps_its_peak_and_a_clock_jumps_alone() {
    let run = sim::run(1, &Faults::none(), |world: World| async move {
        let level = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(3));
        let read = level.clone();
        world.gauge("queue", move || read.load(std::sync::atomic::Ordering::Relaxed));
        world.sleep(Duration::from_secs(1)).await;
        level.store(90, std::sync::atomic::Ordering::Relaxed);
        world.sleep(Duration::from_secs(1)).await;
        level.store(1, std::sync::atomic::Ordering::Relaxed);
        invariants::bounded(&world, "queue", 90)?;
        let why = invariants::bounded(&world, "queue", 10).unwrap_err().to_string();
        anyhow::ensure!(why.contains("reached 90"), "{why}");
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        world.start_once("a", move |instance| {
            let tell = tell.lock().unwrap().take().unwrap();
            async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                tell.send(instance.clock.now()).unwrap();
            }
        });
        world.jump("a", jiff::SignedDuration::from_hours(-2));
        let shown = told.await?;
        anyhow::ensure!(
            world.now().duration_since(shown) == jiff::SignedDuration::from_hours(2),
            "shows {shown}"
        );
        Ok(())
    });
    assert_eq!(run.result, Ok(()));
}

/// What a seed runner says when it fails.
fn complaint(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).expect_err("the seeds have to fail");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_failing_seed_says_how_to_replay_it() {
    let said = complaint(|| {
        sim::seeds("some_test", 3, |seed| {
            sim::run(seed, &Faults::none(), |world: World| async move {
                world.outsider("user").create(MAPS, &source("one", json!({}))).await?;
                anyhow::bail!("planted failure")
            })
        });
    });
    assert!(said.contains("of some_test fails: planted failure"), "{said}");
    if std::env::var_os("WINDLASS_SEED").is_none() {
        assert!(
            said.contains("user#0") && said.contains("create /api/v1/namespaces/default/configmaps"),
            "{said}"
        );
        assert!(said.contains("WINDLASS_SEED=0 cargo test"), "{said}");
        assert!(said.contains("--test sim_harness some_test -- --nocapture"), "{said}");
    }
}

#[test]
fn a_run_that_is_no_function_of_its_seed_is_caught() {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let said = complaint(|| {
        sim::seeds("some_test", 1, |seed| {
            sim::run(seed, &Faults::none(), |world: World| async move {
                let run = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                world.sleep(Duration::from_millis(run)).await;
                world.note("slept");
                Ok(())
            })
        });
    });
    assert!(said.contains("the same seed gave another trace"), "{said}");
}
