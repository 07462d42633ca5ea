//! 200 Applications under random commits: everything arrives, and the memory stays flat.
//!
//! A minute in `make test`; `make soak-deliver` runs it for an hour (`WINDLASS_SOAK_SECONDS`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use support::{
    controller::{Replica, Start},
    eventually,
    fleet::install_crds,
};
use windlass_api::Application;
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    git::{GitServer, Repo},
    measure,
};

const APPLICATIONS: usize = 200;

/// Generous: the machine may be busy with other tests.
const LIMIT: Duration = Duration::from_mins(5);

/// Memory that is no growth: what an allocator keeps for a while.
const SLACK: u64 = 8 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_random_commits_everything_arrives_and_the_memory_stays_flat() {
    let seconds =
        std::env::var("WINDLASS_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("soak").await.unwrap();
    install_crds(&plane.admin()).await;
    let server = GitServer::start().await.unwrap();
    let mut world = World::new(server.empty_repo("fleet").unwrap());
    let work = tempfile::tempdir().unwrap();
    let replica = Replica::start(Start {
        kubeconfig: &plane.kubeconfig_path(&User::Admin).unwrap(),
        namespace: namespace.name(),
        identity: "soak",
        args: vec![format!("--work-dir={}", work.path().display()), "--log-level=warn".to_owned()],
    });
    replica.ready().await;
    let apps: Api<Application> = Api::namespaced(plane.admin(), namespace.name());
    let made = futures::stream::iter(0..APPLICATIONS).map(|n| {
        let (apps, app) = (apps.clone(), application(n, &world.repo.url(), namespace.name()));
        async move { apps.create(&PostParams::default(), &app).await.map(drop).unwrap() }
    });
    made.buffer_unordered(8).collect::<Vec<()>>().await;
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin(), namespace.name());
    world.arrives(&maps).await;

    let (begin, span) = (Instant::now(), Duration::from_secs(seconds));
    let mut samples = Vec::new();
    let mut commits = 0_u32;
    while begin.elapsed() < span {
        world.commit();
        commits += 1;
        tokio::time::sleep(Duration::from_millis(400)).await;
        samples.push(measure::memory(replica.child.pid()).unwrap());
    }
    world.arrives(&maps).await;
    // The first third warms up: caches fill, the allocator finds its size.
    let third = samples.len() / 3;
    let most = |part: &[u64]| part.iter().copied().max().unwrap_or_default();
    let (middle, last) = (most(&samples[third..2 * third]), most(&samples[2 * third..]));
    eprintln!(
        "{commits} commits; {} KiB at most in the middle, {} KiB at the end",
        middle / 1024,
        last / 1024
    );
    assert!(commits >= 20, "{commits} commits are no soak");
    assert!(last <= middle + middle * 15 / 100 + SLACK, "the memory grows: {samples:?}");
}

fn application(n: usize, url: &str, namespace: &str) -> Application {
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
        "metadata": { "name": format!("app-{n:03}") },
        "spec": {
            "source": { "repoURL": url, "revision": "main", "path": format!("apps/app-{n:03}") },
            "destinations": [{ "cluster": "in-cluster", "namespace": namespace }],
            "sync": { "interval": "1s", "prune": true },
        },
    }))
    .unwrap()
}

/// The repository, and what should come of it.
struct World {
    repo: Repo,
    wanted: BTreeMap<String, String>,
    dice: u64,
    turn: u32,
}

impl World {
    fn new(repo: Repo) -> Self {
        let mut commit = repo.commit("everything");
        let mut wanted = BTreeMap::new();
        for n in 0..APPLICATIONS {
            let name = format!("base-{n:03}");
            commit = commit.file(&format!("apps/app-{n:03}/base.yaml"), config_map(&name, "0"));
            wanted.insert(name, "0".to_owned());
        }
        commit.write().unwrap();
        Self { repo, wanted, dice: 7, turn: 0 }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap() % sides
    }

    /// Changes, adds and removes objects of a few Applications.
    fn commit(&mut self) {
        self.turn += 1;
        let value = self.turn.to_string();
        let mut commit = self.repo.commit(&format!("turn {value}"));
        for _ in 0..=self.roll(4) {
            let n = self.roll(APPLICATIONS);
            let extra = format!("extra-{n:03}");
            let path = format!("apps/app-{n:03}/extra.yaml");
            match self.roll(4) {
                0 if self.wanted.remove(&extra).is_some() => commit = commit.remove(&path),
                1 => {
                    commit = commit.file(&path, config_map(&extra, &value));
                    self.wanted.insert(extra, value.clone());
                }
                _ => {
                    let name = format!("base-{n:03}");
                    commit = commit.file(&format!("apps/app-{n:03}/base.yaml"), config_map(&name, &value));
                    self.wanted.insert(name, value.clone());
                }
            }
        }
        commit.write().unwrap();
    }

    /// Waits until what is there is what was committed.
    async fn arrives(&self, maps: &Api<ConfigMap>) {
        eventually("what was committed runs", LIMIT, || async {
            let ours = ListParams::default().labels("windlass.dev/application");
            let live = maps.list(&ours).await.map_err(|error| error.to_string())?;
            let live: BTreeMap<String, String> = live
                .into_iter()
                .map(|map| (map.name_any(), map.data.unwrap_or_default().remove("value").unwrap_or_default()))
                .collect();
            let wrong = self.wanted.iter().filter(|(name, value)| live.get(*name) != Some(value)).count();
            let left = live.keys().filter(|name| !self.wanted.contains_key(*name)).count();
            if wrong + left == 0 {
                Ok(())
            } else {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Err(format!("{wrong} are not as committed, {left} are left over"))
            }
        })
        .await;
    }
}

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value:?}\n")
}
