//! An Application is deleted in the middle of everything: what it made goes, or stays and is nobody's.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_testbed::sim::{Verb, World, invariants};

use crate::{
    STORM,
    bench::{APPLICATION, Bench, CLUSTERS, OTHER, SHOP, app, config_map_path},
    checks,
    deeds::{CONVERGE, Rng},
    ledger::Kind,
    stable,
};

/// Carries this in its source: it is not to be deleted.
const KEPT: &str = "three";

/// What happens to the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Delete,
    Orphan,
}

pub async fn scenario(world: World, policy: Policy) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    let neighbours = settle_neighbours(&world).await?;
    bench.commit(Kind::Good, &["one", "two", KEPT], |name, number| (name == KEPT).then(|| kept(number)));
    bench.start_all(&world);
    let rng = Rng::new(&world);
    rng.pause(&world, STORM).await;
    let user = world.outsider("user");
    let word = format!("{policy:?}");
    user.merge(APPLICATION, &json!({ "spec": { "deletion": word } })).await?;
    let there = present(&world);
    user.delete(APPLICATION).await?;
    world.sleep(STORM).await;
    world.calm().await?;
    world
        .eventually("the Application to be gone", CONVERGE, || app(&world).is_none())
        .await
        .with_context(|| format!("{:#}", app(&world).unwrap_or_default()["status"]))?;
    invariants::eventually_stable(&world, &stable()).await?;
    end(&world, policy, &there)?;
    for (cluster, before) in neighbours {
        let now = neighbour(&world, &cluster)?;
        ensure!(now == before, "the neighbours on {cluster} changed: {before:?} to {now:?}");
    }
    checks::always(&world, &bench)
}

/// Objects of others in the same namespace: they are as they were at the end.
async fn settle_neighbours(world: &World) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let mut all = BTreeMap::new();
    for cluster in CLUSTERS {
        let other = world.outsider_on(cluster, "kubectl-edit");
        for (name, owner) in [("neighbour", None), ("theirs", Some(OTHER))] {
            let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": SHOP }, "data": { "number": "foreign" } });
            if let Some(owner) = owner {
                object["metadata"]["annotations"] = json!({ "windlass.dev/owner": owner });
            }
            other.create(&format!("/api/v1/namespaces/{SHOP}/configmaps"), &object).await?;
        }
        all.insert(cluster.to_owned(), neighbour(world, cluster)?);
    }
    Ok(all)
}

fn neighbour(world: &World, cluster: &str) -> anyhow::Result<Vec<Value>> {
    let api = world.cluster(cluster).context("a cluster is gone")?;
    Ok(["neighbour", "theirs"].iter().filter_map(|name| api.get("v1", "ConfigMap", SHOP, name)).collect())
}

/// The names of our objects on each cluster.
fn present(world: &World) -> BTreeMap<&'static str, Vec<String>> {
    let names = |cluster: &str| {
        let objects = world.cluster(cluster).map(|api| api.objects()).unwrap_or_default();
        let ours = objects.into_iter().filter(|object| checks::owner(object) == Some("team/shop"));
        ours.filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
    };
    CLUSTERS.iter().map(|cluster| (*cluster, names(cluster))).collect()
}

fn end(world: &World, policy: Policy, there: &BTreeMap<&str, Vec<String>>) -> anyhow::Result<()> {
    for cluster in CLUSTERS {
        let objects = world.cluster(cluster).context("a cluster is gone")?.objects();
        let named = |name: &str| objects.iter().any(|object| object["metadata"]["name"] == name);
        for object in &objects {
            let marked = object["metadata"]["labels"].get("windlass.dev/application").is_some();
            let ours = marked || checks::owner(object) == Some("team/shop");
            ensure!(!ours, "still marked as ours on {cluster}: {object:#}");
        }
        for name in &there[cluster] {
            let stays = policy == Policy::Orphan || name == KEPT;
            ensure!(named(name) == stays, "{name} on {cluster} with {policy:?}: there {}", named(name));
        }
        if policy == Policy::Delete {
            ensure!(!named("one") && !named("two") && !named("key"), "left over on {cluster}: {objects:#?}");
        }
    }
    let deleted = checks::deeds(world).into_iter().find(|write| {
        write.call.verb == Verb::Delete
            && (policy == Policy::Orphan || write.call.name.as_deref() == Some(KEPT))
    });
    ensure!(
        deleted.is_none(),
        "deleted although it stays: {}",
        deleted.map(|write| write.line()).unwrap_or_default()
    );
    Ok(())
}

fn kept(number: u64) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {KEPT}\n  annotations: {{ windlass.dev/prune: disabled }}\ndata: {{ number: \"{number}\" }}\n"
    )
}

/// While a cluster cannot be reached its objects are not forgotten: the Application stays until they are gone.
pub async fn with_a_cluster_away(world: World) -> anyhow::Result<()> {
    let bench = Bench::set_up(&world).await?;
    bench.start_all(&world);
    world.eventually("the first delivery", CONVERGE, || bench.is_synced(&world)).await?;
    world.cut_off("south", windlass_testbed::sim::Unreachable::Refuses);
    world.outsider("user").delete(APPLICATION).await?;
    world.sleep(Duration::from_mins(3)).await;
    ensure!(app(&world).is_some(), "forgotten while south still has its objects");
    let other = world.outsider_on("east", "kubectl-edit");
    ensure!(other.get(&config_map_path("one")).await?.is_none(), "east waits for south");
    world.reconnect("south");
    world.eventually("the Application to be gone", CONVERGE, || app(&world).is_none()).await?;
    let left = present(&world);
    ensure!(left.values().all(Vec::is_empty), "left over: {left:?}");
    checks::always(&world, &bench)
}
