//! Two Applications want the same object: one has it, the other says whose it is, and nobody takes it away.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::{Verb, World, invariants};

use crate::{
    bench::{Bench, CLUSTERS, SHOP, config_map_path, is_at, make, named},
    checks,
    deeds::{CONVERGE, Rng},
    paper::MAIN,
    stable,
};

/// The Applications, each with the object that nobody else wants.
const APPS: [(&str, &str); 2] = [("shop", "mine"), ("other", "theirs")];
/// What both want.
const SHARED: &str = "shared";

fn url(app: &str) -> String {
    format!("https://git.example.com/{app}.git")
}

/// Pushes a commit of an Application, with or without the object that both want.
fn push(bench: &Bench, at: usize, number: usize, shared: bool) -> String {
    let (app, own) = APPS[at];
    let text = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "number": format!("{app} {number}") } })
        .to_string()
    };
    let (own, both) = (text(own), text(SHARED));
    let both = shared.then_some(both.as_str());
    bench.forge.push(&url(app), MAIN, &[("app/own.yaml", Some(&own)), ("app/shared.yaml", both)])
}

pub async fn scenario(world: World) -> anyhow::Result<()> {
    let bench = Bench::bare(&world).await?;
    for (at, (app, _)) in APPS.iter().enumerate() {
        push(&bench, at, 0, true);
        make(&world, app, &url(app), &json!({})).await?;
    }
    bench.start_all(&world);
    let rng = Rng::new(&world);
    for number in 1..8 {
        rng.pause(&world, Duration::from_secs(9)).await;
        if rng.below(4) == 0 {
            let other = world.outsider_on(CLUSTERS[rng.below(CLUSTERS.len())], "kubectl-edit");
            other.delete(&config_map_path(SHARED)).await?;
        } else {
            push(&bench, rng.below(2), number, rng.below(3) > 0);
        }
    }
    world.calm().await?;
    both_want_it(&world, &bench).await?;
    // Who does not want it any more makes room for the other.
    let first = push(&bench, 0, 101, false);
    let second = push(&bench, 1, 101, true);
    rest_at(&world, &first, &second).await?;
    for cluster in CLUSTERS {
        ensure!(holder(&world, cluster).as_deref() == Some("team/other"), "nobody gave way on {cluster}");
    }
    let second = push(&bench, 1, 102, false);
    rest_at(&world, &first, &second).await?;
    for cluster in CLUSTERS {
        ensure!(holder(&world, cluster).is_none(), "left over on {cluster}");
    }
    never_taken(&world)?;
    checks::house(&world)
}

/// Each cluster has one of them, who says so, while the other tells whose it is. Nothing moves.
async fn both_want_it(world: &World, bench: &Bench) -> anyhow::Result<()> {
    let commits = [push(bench, 0, 100, true), push(bench, 1, 100, true)];
    let settled = || {
        let holders: Vec<Option<String>> = CLUSTERS.iter().map(|cluster| holder(world, cluster)).collect();
        let told = APPS.iter().zip(&commits).all(|((app, _), commit)| {
            let status = named(world, app).unwrap_or_default()["status"].clone();
            let lost = holders.iter().flatten().any(|owner| *owner != format!("team/{app}"));
            status["sync"]["revision"] == commit.as_str()
                && (if lost { tells(&status) } else { is_at(world, app, commit) })
        });
        holders.iter().all(Option::is_some) && told
    };
    world
        .eventually("one of them to have it, and the other to say so", CONVERGE, settled)
        .await
        .with_context(|| {
            let all: Vec<Value> = APPS.iter().filter_map(|(app, _)| named(world, app)).collect();
            format!("{:#}", Value::from(all))
        })?;
    invariants::eventually_stable(world, &stable()).await?;
    ensure!(settled(), "not settled any more");
    Ok(())
}

fn tells(status: &Value) -> bool {
    status.to_string().contains("belongs to Application")
}

async fn rest_at(world: &World, first: &str, second: &str) -> anyhow::Result<()> {
    let there = || is_at(world, "shop", first) && is_at(world, "other", second);
    world.eventually("both to be there", CONVERGE, there).await.with_context(|| {
        let all: Vec<Value> = APPS.iter().filter_map(|(app, _)| named(world, app)).collect();
        format!("{:#}", Value::from(all))
    })?;
    invariants::eventually_stable(world, &stable()).await
}

/// Who has the object that both want.
fn holder(world: &World, cluster: &str) -> Option<String> {
    let object = world.cluster(cluster)?.get("v1", "ConfigMap", SHOP, SHARED)?;
    checks::owner(&object).map(str::to_owned)
}

/// An object changes its owner only by being deleted for the one and made for the other.
fn never_taken(world: &World) -> anyhow::Result<()> {
    let mut inventories: BTreeMap<String, Value> = BTreeMap::new();
    for write in world.writes() {
        if write.call.resource == "applications"
            && let Some(after) = &write.after
        {
            let name = after["metadata"]["name"].as_str().unwrap_or_default();
            inventories.insert(format!("team/{name}"), after["status"].clone());
        }
        let counts =
            write.call.resource == "configmaps" && write.accepted() && write.call.manager != "kubectl-edit";
        if !counts || write.call.cluster.is_empty() {
            continue;
        }
        let Some(had) = write.before.as_deref().and_then(checks::owner) else { continue };
        if write.call.verb == Verb::Delete {
            let held = inventories.get(had).cloned().unwrap_or_default();
            let name = format!("v1/ConfigMap/{SHOP}/{}", write.call.name.clone().unwrap_or_default());
            ensure!(
                checks::inventory(&held, &write.call.cluster).contains(&name)
                    || write.call.instance == "kubectl-edit",
                "deletes what {had} does not name: {}",
                write.line()
            );
        } else if let Some(wants) = checks::owner(&write.call.body) {
            ensure!(wants == had, "{wants} takes what {had} has: {}", write.line());
        }
    }
    Ok(())
}
