//! Many deletions at once wait for somebody who says yes to exactly these.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::{Verb, World, invariants};

use crate::{
    STORM,
    bench::{APPLICATION, Bench, REPLICAS, app, is_at, make},
    checks,
    deeds::{self, CONVERGE, Rng},
    paper::MAIN,
    stable,
};

const URL: &str = "https://git.example.com/many.git";
const COUNT: usize = 14;

pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::bare(&world).await?;
    let full = push(&bench, COUNT);
    make(&world, "shop", URL, &json!({})).await?;
    bench.start_all(&world);
    world.eventually("the first delivery", CONVERGE, || is_at(&world, "shop", &full)).await?;
    let rng = Rng::new(&world);
    let less = push(&bench, 2);
    let first = asked(&world, &less).await?;
    approve(&world, "000000000000").await?;
    rng.pause(&world, STORM).await;
    no_deletion(&world)?;
    // Another set needs another yes: one for the first set does not count.
    let last = push(&bench, 3);
    ensure!(asked(&world, &last).await? != first, "another set has the same name");
    approve(&world, &first).await?;
    world.sleep(STORM).await;
    no_deletion(&world)?;
    rng.pause(&world, Duration::from_secs(20)).await;
    world.crash(REPLICAS[rng.below(2)]);
    // A cluster that was out of reach makes it another set, and a restart forgets the rest of one.
    let until = world.elapsed() + CONVERGE;
    while !is_at(&world, "shop", &last) {
        let status = || app(&world).unwrap_or_default()["status"].clone();
        ensure!(world.elapsed() < until, "what was approved is not done: {:#}", status());
        deeds::approve(&world, &world.outsider("user")).await?;
        world.sleep(Duration::from_secs(1)).await;
    }
    world.calm().await?;
    invariants::eventually_stable(&world, &stable()).await?;
    let deleted = checks::deeds(&world).iter().filter(|write| write.deleted()).count();
    ensure!(deleted == (COUNT - 3) * 3, "{deleted} deletions");
    checks::house(&world)
}

/// The name of the set of deletions that a commit waits for.
async fn asked(world: &World, commit: &str) -> anyhow::Result<String> {
    let id = || {
        let status = app(world)?["status"].clone();
        let id = status["approval"]["id"].as_str()?.to_owned();
        (status["sync"]["revision"] == commit).then_some(id)
    };
    world
        .eventually("the question", CONVERGE, || id().is_some())
        .await
        .with_context(|| format!("{:#}", app(world).unwrap_or_default()["status"]))?;
    id().context("the question is gone")
}

async fn approve(world: &World, id: &str) -> anyhow::Result<()> {
    let change = json!({ "metadata": { "annotations": { "windlass.dev/approve": id } } });
    world.outsider("user").merge(APPLICATION, &change).await.map(drop)
}

fn no_deletion(world: &World) -> anyhow::Result<()> {
    let deleted = checks::deeds(world).into_iter().find(|write| write.call.verb == Verb::Delete);
    ensure!(deleted.is_none(), "nobody said yes: {}", deleted.map(|write| write.line()).unwrap_or_default());
    Ok(())
}

/// A commit with the first so many objects.
fn push(bench: &Bench, count: usize) -> String {
    let files: Vec<(String, Option<String>)> = (0..COUNT)
        .map(|at| {
            let object: Value = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("m{at:02}") }, "data": { "count": count.to_string() } });
            (format!("app/m{at:02}.yaml"), (at < count).then(|| object.to_string()))
        })
        .collect();
    let changes: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_deref())).collect();
    bench.forge.push(URL, MAIN, &changes)
}
