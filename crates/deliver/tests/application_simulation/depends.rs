//! An Application that depends on another is delivered once that one works, and not before.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_testbed::sim::{World, invariants};

use crate::{
    bench::{Bench, CLUSTERS, OWNER, URL, is_at, make, named},
    checks,
    deeds::{CONVERGE, Rng},
    paper::MAIN,
    stable, waves,
};

const BASE: &str = "https://git.example.com/base.git";

pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::bare(&world).await?;
    for cluster in CLUSTERS {
        world.cluster(cluster).context("a cluster is gone")?.run_workloads(Duration::from_secs(3));
    }
    let rng = Rng::new(&world);
    let push = |number: usize, outcome: &str| {
        bench.forge.push(BASE, MAIN, &[("app/web.yaml", Some(&waves::web(number, outcome)))])
    };
    push(1, ["fine", "stuck", "fails"][rng.below(3)]);
    bench.push(&["one", "two"]);
    make(&world, "shop", URL, &json!({ "dependsOn": [{ "name": "base" }] })).await?;
    bench.start_all(&world);
    rng.pause(&world, Duration::from_secs(20)).await;
    make(&world, "base", BASE, &json!({})).await?;
    rng.pause(&world, Duration::from_secs(30)).await;
    let base = push(2, "fine");
    bench.push(&rng.names());
    world.calm().await?;
    let last = bench.last_commit();
    let there = || is_at(&world, "base", &base) && is_at(&world, "shop", &last);
    world.eventually("both to be there", CONVERGE, there).await.with_context(|| {
        let status = |name| named(&world, name).unwrap_or_default()["status"].clone();
        format!("{:#}\n{:#}", status("base"), status("shop"))
    })?;
    invariants::eventually_stable(&world, &stable()).await?;
    ensure!(there(), "not there any more");
    after_its_base(&world)?;
    checks::end(&world, &bench, &last)?;
    checks::house(&world)
}

/// The first thing that is delivered comes after the first moment at which the base was healthy.
fn after_its_base(world: &World) -> anyhow::Result<()> {
    let healthy = world.writes().into_iter().find_map(|write| {
        let after = write.after.as_ref().filter(|after| after["metadata"]["name"] == "base")?;
        (write.call.resource == "applications" && after["status"]["phase"] == "Healthy").then_some(write.seq)
    });
    let healthy = healthy.context("the base was never healthy")?;
    let early = checks::deeds(world)
        .into_iter()
        .find(|write| write.seq < healthy && write.after.as_deref().and_then(checks::owner) == Some(OWNER));
    ensure!(early.is_none(), "before its base: {}", early.map(|write| write.line()).unwrap_or_default());
    Ok(())
}
