//! What people do while the replicas run. All of it follows from the seed.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use windlass_testbed::sim::{Dice, Outsider, Unreachable, World};

use crate::{
    bench::{APPLICATION, Bench, CLUSTERS, NAMES, OTHER, SHOP, URL, app, config_map_path},
    ledger::Kind,
    paper::MAIN,
};

/// How many deeds there are in a storm.
const DEEDS: u64 = 10;
/// How long it may take to converge after the last commit: as long as the longest back-off of everything that may have
/// failed, one after the other.
pub const CONVERGE: Duration = Duration::from_mins(15);

/// Answers that follow from the seed.
pub struct Rng {
    dice: Dice,
    asked: std::cell::Cell<u64>,
}

impl Rng {
    pub fn new(world: &World) -> Self {
        Self { dice: Dice::new(world.seed()), asked: std::cell::Cell::new(0) }
    }

    /// Waits for up to so long.
    pub async fn pause(&self, world: &World, longest: Duration) {
        let longest = usize::try_from(longest.as_millis()).unwrap();
        world.sleep(Duration::from_millis(u64::try_from(self.below(longest)).unwrap())).await;
    }

    pub fn below(&self, end: usize) -> usize {
        self.asked.set(self.asked.get() + 1);
        let most = u64::try_from(end).unwrap() - 1;
        usize::try_from(self.dice.pick("deed", self.asked.get(), 0..=most)).unwrap()
    }

    pub fn names(&self) -> Vec<&'static str> {
        let count = 1 + self.below(NAMES.len());
        let first = self.below(NAMES.len());
        (0..count).map(|at| NAMES[(first + at) % NAMES.len()]).collect()
    }
}

/// A storm of deeds over about a minute.
pub async fn many(world: &World, bench: &Bench) -> anyhow::Result<()> {
    let rng = Rng::new(world);
    let mut tip = bench.last_commit();
    for _ in 0..DEEDS {
        let pause = [200, 1000, 4000, 9000][rng.below(4)] + u64::try_from(rng.below(1000)).unwrap();
        world.sleep(Duration::from_millis(pause)).await;
        match rng.below(5) {
            0 | 1 => tip = push(bench, &rng),
            2 => repository(bench, &rng, &tip),
            3 => user(world, &rng).await?,
            _ => {
                if rng.below(10) == 0 {
                    bench.lose_disk(["a", "b"][rng.below(2)]);
                }
                outsider(world, &rng).await?;
            }
        }
    }
    Ok(())
}

/// A commit of some kind.
fn push(bench: &Bench, rng: &Rng) -> String {
    let names = rng.names();
    let one = names[rng.below(names.len())];
    match rng.below(8) {
        0 => bench.commit(Kind::Broken, &names, |name, _| (name == one).then(|| "kind: [\n".into())),
        1 => bench.commit(Kind::Empty, &[], |_, _| None),
        2 => bench.commit(Kind::Refused, &names, |name, number| {
            (name == one).then(|| {
                format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\ndata: {{ number: \"{number}\", policy: bad }}\n"
                )
            })
        }),
        3 => bench.commit(Kind::Forced, &names, |_, _| None),
        _ => bench.push(&names),
    }
}

/// What happens to the repository itself.
fn repository(bench: &Bench, rng: &Rng, tip: &str) {
    match rng.below(4) {
        0 => bench.forge.delete_branch(URL, MAIN),
        1 => bench.forge.point(URL, MAIN, tip),
        2 => bench.forge.set_down(URL, true),
        _ => bench.forge.set_down(URL, false),
    }
}

/// What the user of the Application changes.
async fn user(world: &World, rng: &Rng) -> anyhow::Result<()> {
    let user = world.outsider("user");
    let sync = |value: Value| json!({ "spec": { "sync": value } });
    let part = json!([{ "cluster": "east", "namespace": SHOP }, { "cluster": "west", "namespace": SHOP }]);
    match rng.below(8) {
        0 => user.merge(APPLICATION, &sync(json!({ "prune": false }))).await.map(drop),
        1 => user.merge(APPLICATION, &sync(json!({ "prune": true }))).await.map(drop),
        2 => user.merge(APPLICATION, &json!({ "spec": { "suspend": true } })).await.map(drop),
        3 => user.merge(APPLICATION, &json!({ "spec": { "suspend": null } })).await.map(drop),
        4 => user.flip(APPLICATION, &sync(json!({ "prune": false })), &sync(json!({ "prune": true }))).await,
        5 => user.merge(APPLICATION, &json!({ "spec": { "destinations": part } })).await.map(drop),
        6 => user.merge(APPLICATION, &json!({ "spec": { "destinations": all() } })).await.map(drop),
        _ => approve(world, &user).await,
    }
}

fn all() -> Value {
    json!([{ "selector": { "matchLabels": { "env": "prod" } }, "namespace": SHOP }])
}

/// Says yes to whatever waits for it.
pub async fn approve(world: &World, user: &Outsider) -> anyhow::Result<()> {
    let Some(id) = app(world).and_then(|app| app["status"]["approval"]["id"].as_str().map(str::to_owned))
    else {
        return Ok(());
    };
    user.merge(APPLICATION, &json!({ "metadata": { "annotations": { "windlass.dev/approve": id } } }))
        .await
        .map(drop)
}

/// What others do to objects on a cluster.
async fn outsider(world: &World, rng: &Rng) -> anyhow::Result<()> {
    let cluster = CLUSTERS[rng.below(CLUSTERS.len())];
    let name = NAMES[rng.below(NAMES.len())];
    let other = world.outsider_on(cluster, "kubectl-edit");
    let path = config_map_path(name);
    let there = other.get(&path).await?;
    let foreign = |owner: Option<&str>| {
        let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": SHOP }, "data": { "number": "foreign" } });
        if let Some(owner) = owner {
            object["metadata"]["annotations"] = json!({ "windlass.dev/owner": owner });
        }
        object
    };
    let collection = format!("/api/v1/namespaces/{SHOP}/configmaps");
    match (rng.below(6), there.is_some()) {
        (0 | 1, true) => {
            other.merge(&path, &json!({ "data": { "number": "mine", "more": "x" } })).await.map(drop)
        }
        (2, true) => other.delete(&path).await,
        (3, true) => other.take_fields(&path, &foreign(None)).await.map(drop),
        (4, true) => {
            let taken = json!({ "metadata": { "annotations": { "windlass.dev/owner": OTHER } } });
            other.merge(&path, &taken).await.map(drop)
        }
        (4, false) => other.create(&collection, &foreign(Some(OTHER))).await.map(drop),
        (5, false) => other.create(&collection, &foreign(None)).await.map(drop),
        (5, true) => {
            let how = if rng.below(2) == 0 { Unreachable::Refuses } else { Unreachable::Hangs };
            world.cut_off(cluster, how);
            world.sleep(Duration::from_secs(1 + u64::try_from(rng.below(40)).unwrap())).await;
            world.reconnect(cluster);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whoever stands in the way goes, the Application is as it was, and a last good commit is pushed.
pub async fn tidy_up(world: &World, bench: &Bench) -> anyhow::Result<()> {
    for cluster in CLUSTERS {
        world.reconnect(cluster);
        let other = world.outsider_on(cluster, "kubectl-edit");
        for name in NAMES {
            let path = config_map_path(name);
            let owner = other.get(&path).await?.and_then(|object| {
                object["metadata"]["annotations"]["windlass.dev/owner"].as_str().map(str::to_owned)
            });
            if owner.is_none_or(|owner| owner == OTHER) {
                // Also what is nobody's: whether it is taken over depends on what was wanted when.
                other.send(Method::DELETE, &path, "application/json", &Value::Null).await?;
            }
        }
    }
    let spec = json!({ "spec": { "suspend": null, "destinations": all(), "sync": { "prune": true } } });
    world.outsider("user").merge(APPLICATION, &spec).await?;
    bench.forge.set_down(URL, false);
    bench.forge.point(URL, MAIN, &bench.last_commit());
    let rng = Rng { dice: Dice::new(world.seed()), asked: std::cell::Cell::new(1000) };
    bench.push(&rng.names());
    Ok(())
}

/// Waits until the last commit runs everywhere, with approvals given as they are asked for.
pub async fn converge(world: &World, bench: &Bench, commit: &str) -> anyhow::Result<()> {
    let user = world.outsider("user");
    let until = world.elapsed() + CONVERGE;
    while !bench.is_synced(world) {
        if world.elapsed() > until {
            let app = app(world).unwrap_or_default();
            anyhow::bail!("{commit} did not converge within {CONVERGE:?}; status: {:#}", app["status"]);
        }
        approve(world, &user).await?;
        world.sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
