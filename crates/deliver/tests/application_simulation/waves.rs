//! Sync waves and health: what comes later waits until what comes first works, and for ever when it never does.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::{World, Write, invariants};

use crate::{
    bench::{Bench, CLUSTERS, is_at, make, named},
    checks,
    deeds::{CONVERGE, Rng},
    paper::MAIN,
    stable,
};

const URL: &str = "https://git.example.com/waves.git";
/// A Deployment begins after this time, and is ready after as much again.
const PACE: Duration = Duration::from_secs(2);
/// What becomes of the Deployment of a commit.
const OUTCOMES: [&str; 4] = ["fine", "fine", "stuck", "fails"];

pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::bare(&world).await?;
    for cluster in CLUSTERS {
        world.cluster(cluster).context("a cluster is gone")?.run_workloads(PACE);
    }
    let mut outcomes = BTreeMap::new();
    let mut push = |outcome: &'static str| {
        let number = outcomes.len() + 1;
        outcomes.insert(number.to_string(), outcome);
        let files = [("app/web.yaml", web(number, outcome)), ("app/after.yaml", after(number))];
        let changes: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (*path, Some(text.as_str()))).collect();
        bench.forge.push(URL, MAIN, &changes)
    };
    push("fine");
    let sync =
        json!({ "interval": "10s", "healthTimeout": "20s", "retry": { "first": "2s", "longest": "20s" } });
    make(&world, "waves", URL, &json!({ "sync": sync })).await?;
    bench.start_all(&world);
    let rng = Rng::new(&world);
    for _ in 0..5 {
        rng.pause(&world, Duration::from_secs(25)).await;
        push(OUTCOMES[rng.below(OUTCOMES.len())]);
    }
    world.calm().await?;
    let last = push("fine");
    world
        .eventually("the last commit", CONVERGE, || is_at(&world, "waves", &last))
        .await
        .with_context(|| format!("{:#}", named(&world, "waves").unwrap_or_default()["status"]))?;
    invariants::eventually_stable(&world, &stable()).await?;
    ensure!(is_at(&world, "waves", &last), "not there any more");
    in_order(&world, &outcomes)?;
    checks::house(&world)
}

/// Nothing of the second wave is applied before the Deployment of the same commit is ready on that cluster.
fn in_order(world: &World, outcomes: &BTreeMap<String, &str>) -> anyhow::Result<()> {
    let mut begun: BTreeMap<(String, String), Duration> = BTreeMap::new();
    let mut seen = 0;
    for write in checks::deeds(world) {
        let Some(number) = number(&write) else { continue };
        let at = (write.call.cluster.clone(), number.clone());
        if write.call.resource == "deployments" {
            begun.entry(at).or_insert(write.at);
            continue;
        }
        seen += 1;
        ensure!(outcomes.get(&number) == Some(&"fine"), "the first wave never worked: {}", write.line());
        let first = begun.get(&at).with_context(|| format!("before the first wave: {}", write.line()))?;
        let rest = write.at.saturating_sub(*first);
        // A change that comes while an older one is worked on is seen with that one's next step.
        ensure!(rest >= PACE, "{rest:?} after the first wave, which takes longer: {}", write.line());
    }
    ensure!(seen >= CLUSTERS.len(), "the second wave was never applied");
    Ok(())
}

fn number(write: &Write) -> Option<String> {
    write.call.body.pointer("/metadata/annotations/number").and_then(Value::as_str).map(str::to_owned)
}

/// A Deployment that ends as it says; first by its wave.
pub fn web(number: usize, outcome: &str) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "labels": { "sim.windlass.dev/outcome": outcome },
            "annotations": { "number": number.to_string() } },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": format!("example.com/main:{number}") }] } } },
    })
    .to_string()
}

fn after(number: usize) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "after",
            "annotations": { "number": number.to_string(), "windlass.dev/sync-wave": "1" } },
        "data": { "number": number.to_string() },
    })
    .to_string()
}
