//! Undo and rollback: an Application is kept at an older revision, for exactly as long as the source is where it was.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::{World, invariants};

use crate::{
    bench::{APPLICATION, Bench, CLUSTERS, app},
    checks,
    deeds::{self, CONVERGE, Rng},
    stable,
};

/// Pushes, undoes and rolls back while everything fails; then an undo that holds, and a push that ends it.
pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    bench.start_all(&world);
    let rng = Rng::new(&world);
    for _ in 0..8 {
        rng.pause(&world, Duration::from_secs(9)).await;
        match rng.below(6) {
            0..3 => drop(bench.push(&rng.names())),
            3 => pin(&world, &bench.last_commit(), None).await?,
            4 => {
                let back = bench.some_commit(rng.below(100));
                pin(&world, &bench.last_commit(), Some(&back)).await?;
            }
            _ => unpin(&world).await?,
        }
    }
    crate::come_to_rest(&world, &bench).await?;
    // There is something before it for certain, whatever was fetched of all that.
    let commit = bench.push(&["one", "two", "six"]);
    deeds::converge(&world, &bench, &commit).await?;
    hold(&world, &bench).await?;
    // A pin ends when the source moves past it, also with its annotation in place.
    bench.push(&rng.names());
    crate::come_to_rest(&world, &bench).await?;
    let status = app(&world).context("the Application is gone")?["status"].clone();
    ensure!(status["pin"].is_null(), "the pin is still told: {}", status["pin"]);
    Ok(())
}

/// The state before is what runs, for as long as nobody pushes.
async fn hold(world: &World, bench: &Bench) -> anyhow::Result<()> {
    let head = bench.last_commit();
    pin(world, &head, None).await?;
    let pinned = || {
        let status = app(world).unwrap_or_default()["status"].clone();
        let to = status["pin"]["to"].clone();
        let lines = status["clusters"].as_array().cloned().unwrap_or_default();
        let there = |line: &Value| line["revision"] == to && line["sync"] == "Synced";
        status["phase"] == "Healthy"
            && to.is_string()
            && status["pin"]["excludes"] == head.as_str()
            && lines.len() == CLUSTERS.len()
            && lines.iter().all(there)
    };
    let until = world.elapsed() + CONVERGE;
    while !pinned() {
        ensure!(world.elapsed() < until, "not pinned: {:#}", app(world).unwrap_or_default()["status"]);
        deeds::approve(world, &world.outsider("user")).await?;
        world.sleep(Duration::from_millis(500)).await;
    }
    invariants::eventually_stable(world, &stable()).await?;
    ensure!(pinned(), "not pinned any more: {:#}", app(world).unwrap_or_default()["status"]);
    let to = app(world).unwrap_or_default()["status"]["pin"]["to"].as_str().unwrap_or_default().to_owned();
    let entry = bench.ledger.lock().unwrap().commit(&to).cloned().context("a pin to nowhere")?;
    checks::runs(world, &entry)
}

/// As `windlass undo` and `windlass rollback` write it.
async fn pin(world: &World, excludes: &str, to: Option<&str>) -> anyhow::Result<()> {
    let mut pin = json!({ "excludes": excludes, "by": "somebody" });
    if let Some(to) = to.filter(|to| *to != excludes) {
        pin["to"] = to.into();
    }
    annotate(world, &pin.to_string().into()).await
}

async fn unpin(world: &World) -> anyhow::Result<()> {
    annotate(world, &Value::Null).await
}

async fn annotate(world: &World, value: &Value) -> anyhow::Result<()> {
    let change = json!({ "metadata": { "annotations": { "windlass.dev/pin": value } } });
    world.outsider("user").merge(APPLICATION, &change).await.map(drop)
}
