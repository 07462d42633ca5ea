//! Somebody changes an object again and again: it is put right a few times, then it is left alone and told.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::World;

use crate::{
    bench::{Bench, app, config_map_path},
    checks,
    deeds::{CONVERGE, Rng},
};

/// As the product says of itself.
const ROUNDS: usize = 3;
const WHO: &str = "stubborn";

pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    bench.start_all(&world);
    world.eventually("the first delivery", CONVERGE, || bench.is_synced(&world)).await?;
    let before = checks::deeds(&world).len();
    let rng = Rng::new(&world);
    let until = world.elapsed() + Duration::from_mins(15);
    while world.elapsed() < until {
        insist(&world).await?;
        rng.pause(&world, Duration::from_secs(8)).await;
    }
    let line = contested(&world).context("nobody says that it is contested")?;
    ensure!(line["manager"] == WHO, "another manager is named: {line}");
    let writes: Vec<String> =
        checks::deeds(&world).iter().skip(before).map(windlass_testbed::sim::Write::line).collect();
    ensure!(writes.len() == ROUNDS, "{} writes: {writes:#?}", writes.len());
    // A commit is another wish, and it is delivered.
    bench.push(&["one", "three"]);
    world.eventually("the next commit", CONVERGE, || bench.is_synced(&world)).await?;
    checks::end(&world, &bench, &bench.last_commit())?;
    checks::always(&world, &bench)
}

/// Makes an object say "mine" unless it does.
async fn insist(world: &World) -> anyhow::Result<()> {
    let other = world.outsider_on("east", WHO);
    let path = config_map_path("one");
    let mine = other.get(&path).await?.is_some_and(|object| object["data"]["number"] == "mine");
    if !mine {
        other.merge(&path, &json!({ "data": { "number": "mine" } })).await?;
    }
    Ok(())
}

fn contested(world: &World) -> Option<Value> {
    let status = app(world)?["status"].clone();
    let east = status["clusters"].as_array()?.iter().find(|line| line["name"] == "east")?.clone();
    east["contested"].as_array()?.first().cloned()
}
