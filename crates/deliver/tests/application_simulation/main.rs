//! The Application controller under the simulation: a hub and three clusters, two replicas with leader election,
//! repositories on paper, people who push, edit, delete and change their mind, and every fault that the APIs may show.
//!
//! Replay a seed: `WINDLASS_SEED=17 cargo test --workspace --test application_simulation <name> -- --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod budget;
mod checks;
mod claims;
mod deeds;
mod deletion;
mod depends;
mod fights;
mod ledger;
#[allow(dead_code)]
#[path = "../support/paper.rs"]
mod paper;
mod pins;
mod replica;
mod waves;
#[path = "../../../cluster/tests/support/wiring.rs"]
mod wiring;

use std::time::Duration;

use windlass_testbed::sim::{
    self, Compare, Faults, World,
    invariants::{self, Stable},
};

use bench::{Bench, CLUSTERS, REPLICAS};
use deletion::Policy;

const RESYNC: Duration = Duration::from_secs(60);
/// Longer than the longest wait between repetitions in the Application's spec. A run is quiet only after it converged, so
/// that no longer back-off is left over.
const QUIET: Duration = Duration::from_secs(40);
/// How long faults strike.
const STORM: Duration = Duration::from_secs(45);

fn stable() -> Stable {
    let rule = Stable { quiet: QUIET, resync: RESYNC, resyncs: 1, ..Stable::default() };
    rule.allow(|write| checks::is_question(write) || checks::is_bookkeeping(write))
}

/// Calm, a last good commit, and what has to hold then and for ever.
async fn come_to_rest(world: &World, bench: &Bench) -> anyhow::Result<()> {
    world.calm().await?;
    deeds::tidy_up(world, bench).await?;
    let commit = bench.last_commit();
    deeds::converge(world, bench, &commit).await?;
    invariants::eventually_stable(world, &stable()).await?;
    checks::end(world, bench, &commit)?;
    checks::always(world, bench)
}

async fn storm(world: World) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    bench.start_all(&world);
    deeds::many(&world, &bench).await?;
    come_to_rest(&world, &bench).await
}

/// Pushes, prunes, a drift and a deletion, one after the other: short, for a crash at every write.
async fn short(world: World) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    bench.start_all(&world);
    bench.push(&["one", "two", "three"]);
    world.sleep(Duration::from_secs(45)).await;
    let user = world.outsider_on(CLUSTERS[0], "kubectl-edit");
    user.merge(&bench::config_map_path("one"), &serde_json::json!({ "data": { "number": "mine" } }))
        .await
        .ok();
    bench.push(&["one", "four"]);
    world.sleep(Duration::from_secs(45)).await;
    come_to_rest(&world, &bench).await
}

/// Every fault that the APIs may show, and clusters out of reach.
fn chaos(seed: u64) -> Faults {
    Faults::chaos_over(seed, &REPLICAS, &CLUSTERS, STORM)
}

#[test]
fn applications_converge_under_every_fault() {
    sim::seeds("applications_converge_under_every_fault", 1000, |seed| sim::run(seed, &chaos(seed), storm));
}

#[test]
fn a_pin_holds_until_the_source_moves_on() {
    sim::seeds("a_pin_holds_until_the_source_moves_on", 20, |seed| {
        sim::run(seed, &chaos(seed), pins::scenario)
    });
}

#[test]
fn a_deleted_application_takes_everything_with_it_that_it_made_and_nothing_else() {
    sim::seeds("a_deleted_application_takes_everything_with_it_that_it_made_and_nothing_else", 20, |seed| {
        sim::run(seed, &chaos(seed), |world| deletion::scenario(world, Policy::Delete))
    });
}

#[test]
fn what_a_deleted_application_leaves_behind_stays_as_it_is() {
    sim::seeds("what_a_deleted_application_leaves_behind_stays_as_it_is", 20, |seed| {
        sim::run(seed, &chaos(seed), |world| deletion::scenario(world, Policy::Orphan))
    });
}

#[test]
fn a_deletion_waits_for_a_cluster_that_is_away() {
    sim::seeds("a_deletion_waits_for_a_cluster_that_is_away", 10, |seed| {
        sim::run(seed, &Faults::none(), deletion::with_a_cluster_away)
    });
}

#[test]
fn a_later_wave_waits_until_the_one_before_works() {
    sim::seeds("a_later_wave_waits_until_the_one_before_works", 20, |seed| {
        sim::run(seed, &chaos(seed), waves::scenario)
    });
}

#[test]
fn of_two_applications_that_want_an_object_one_has_it() {
    sim::seeds("of_two_applications_that_want_an_object_one_has_it", 20, |seed| {
        sim::run(seed, &chaos(seed), claims::scenario)
    });
}

#[test]
fn many_deletions_wait_for_a_yes_to_exactly_these() {
    sim::seeds("many_deletions_wait_for_a_yes_to_exactly_these", 10, |seed| {
        // It takes longer than a storm.
        let plan = Faults::chaos_over(seed, &REPLICAS, &CLUSTERS, STORM * 5);
        sim::run(seed, &plan, budget::scenario)
    });
}

#[test]
fn who_changes_an_object_again_and_again_is_named_and_not_fought_for_ever() {
    sim::seeds("who_changes_an_object_again_and_again_is_named_and_not_fought_for_ever", 10, |seed| {
        sim::run(seed, &Faults::none(), fights::scenario)
    });
}

#[test]
fn an_application_is_delivered_after_what_it_depends_on() {
    sim::seeds("an_application_is_delivered_after_what_it_depends_on", 20, |seed| {
        sim::run(seed, &chaos(seed), depends::scenario)
    });
}

#[test]
fn a_crash_around_any_write_of_a_delivery_changes_nothing() {
    // Which of two replicas leads differs from crash to crash, and with it what is fetched when: the ends are judged by
    // the scenario itself.
    let blind = Compare::default().objects(|_| false).counts(|_| false);
    sim::seeds("a_crash_around_any_write_of_a_delivery_changes_nothing", 1, |seed| {
        sim::every_crash(seed, "a", &blind, short)
    });
}

/// A replica that stands still for longer than its lease, in the middle of a delivery, applies nothing afterwards.
#[test]
fn a_paused_leader_delivers_nothing_more() {
    sim::seeds("a_paused_leader_delivers_nothing_more", 50, |seed| {
        sim::run(seed, &Faults::none(), |world| async move {
            let bench = Bench::set_up(&world).await?;
            bench.start(&world, "a");
            bench.push(&["one", "two"]);
            world
                .eventually("the first delivery", Duration::from_secs(90), || bench.is_synced(&world))
                .await?;
            bench.start(&world, "b");
            world.sleep(Duration::from_secs(3)).await;
            bench.push(&["one", "three", "four"]);
            // Somewhere between the fetch and the end of the work.
            world.sleep(Duration::from_millis(29_000 + (seed * 53) % 3000)).await;
            world.pause("a");
            bench.push(&["two", "four"]);
            world
                .eventually("the second leader to deliver", Duration::from_mins(2), || {
                    bench.is_synced(&world)
                })
                .await?;
            world.resume("a");
            world.sleep(Duration::from_secs(20)).await;
            come_to_rest(&world, &bench).await
        })
    });
}
