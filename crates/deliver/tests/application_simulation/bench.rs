//! What a scenario stands on: the clusters, the repository with all that was pushed to it, and the Application.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass_api::{Application, Cluster};
use windlass_testbed::sim::World;

use crate::{
    ledger::{Kind, Ledger},
    paper::{Disk, Forge, MAIN},
    replica::replica,
};

/// The namespace of the leases.
pub const HOME: &str = "windlass-system";
pub const TEAM: &str = "team";
pub const SHOP: &str = "shop";
pub const OWNER: &str = "team/shop";
/// Somebody else's Application.
pub const OTHER: &str = "team/other";
pub const URL: &str = "https://git.example.com/shop.git";
pub const REPLICAS: [&str; 2] = ["a", "b"];
pub const CLUSTERS: [&str; 3] = ["east", "south", "west"];
/// The objects that commits choose from.
pub const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
pub const CANARY: &str = "canary-8c1f";
pub const APPLICATION: &str = "/apis/windlass.dev/v1alpha1/namespaces/team/applications/shop";

/// Made once for all seeds: deriving a schema takes longer than anything else that a world begins with.
static DEFINITIONS: LazyLock<[CustomResourceDefinition; 2]> =
    LazyLock::new(|| [Cluster::crd(), Application::crd()]);

/// The path of one of our objects.
pub fn config_map_path(name: &str) -> String {
    format!("/api/v1/namespaces/{SHOP}/configmaps/{name}")
}

/// The servers, the disks and what was pushed. Clones are the same bench.
#[derive(Clone, Default)]
pub struct Bench {
    pub forge: Forge,
    disks: Arc<Mutex<BTreeMap<String, Disk>>>,
    pub ledger: Arc<Mutex<Ledger>>,
}

impl Bench {
    /// Makes everything that is there before the first replica starts, and the Application `shop` with a first commit.
    pub async fn set_up(world: &World) -> anyhow::Result<Self> {
        let bench = Self::bare(world).await?;
        bench.push(&["one", "two"]);
        make(world, "shop", URL, &json!({})).await?;
        Ok(bench)
    }

    /// The hub and its clusters, without any Application.
    pub async fn bare(world: &World) -> anyhow::Result<Self> {
        let hub = world.api();
        for definition in DEFINITIONS.iter() {
            hub.install_crd(definition)?;
        }
        for name in [HOME, TEAM] {
            hub.create("user", &namespace(name))?;
        }
        let user = world.outsider("user");
        for name in CLUSTERS {
            let api = world.add_cluster(name);
            api.create("user", &namespace(SHOP))?;
            api.deny("no-bad", |object| {
                (object.pointer("/data/policy") == Some(&json!("bad")))
                    .then(|| "bad is not allowed".to_owned())
            });
            let cluster = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
                "metadata": { "name": name, "labels": { "env": "prod" } },
                "spec": { "kubeconfig": { "secretRef": { "name": name } } } });
            user.create("/apis/windlass.dev/v1alpha1/clusters", &cluster).await?;
            let ready = json!({ "status": { "version": "v1.36.3", "conditions": [{ "type": "Ready",
                "status": "True", "reason": "Reachable", "message": "It answers.", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
            user.merge(&format!("/apis/windlass.dev/v1alpha1/clusters/{name}/status"), &ready).await?;
        }
        Ok(Self::default())
    }

    /// Starts both replicas.
    pub fn start_all(&self, world: &World) {
        for name in REPLICAS {
            self.start(world, name);
        }
    }

    /// Starts a replica whose disk outlives its crashes.
    pub fn start(&self, world: &World, name: &str) {
        let bench = self.clone();
        world.start(name, move |instance| {
            let disk = bench.disks.lock().unwrap().entry(instance.name.clone()).or_default().clone();
            replica(bench.forge.clone(), disk, instance)
        });
    }

    /// The disk of a replica is gone when it starts the next time.
    pub fn lose_disk(&self, name: &str) {
        self.disks.lock().unwrap().remove(name);
    }

    /// A good commit with exactly these objects, and a Secret.
    pub fn push(&self, names: &[&str]) -> String {
        self.commit(Kind::Good, names, |_, _| None)
    }

    /// A commit: every object carries the number of its commit, so that everybody can see which one it is from.
    pub fn commit(
        &self,
        kind: Kind,
        names: &[&str],
        special: impl Fn(&str, u64) -> Option<String>,
    ) -> String {
        let mut ledger = self.ledger.lock().unwrap();
        let number = ledger.next();
        let mut files: Vec<(String, Option<String>)> = NAMES
            .iter()
            .map(|name| {
                let text = special(name, number).or_else(|| Some(config_map(name, number)));
                (format!("app/{name}.yaml"), text.filter(|_| names.contains(name)))
            })
            .collect();
        let secret = (!names.is_empty()).then(|| secret(number));
        files.push(("app/secret.yaml".into(), secret));
        files.push(("app/README.md".into(), Some(format!("commit {number}"))));
        let changes: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_deref())).collect();
        let commit = if kind == Kind::Forced {
            let files: Vec<(&str, &str)> =
                changes.iter().filter_map(|(path, text)| Some((*path, (*text)?))).collect();
            self.forge.force_push(URL, MAIN, &files)
        } else {
            self.forge.push(URL, MAIN, &changes)
        };
        ledger.note(&commit, kind, names);
        commit
    }

    /// One of all commits, by any number.
    pub fn some_commit(&self, number: usize) -> String {
        self.ledger.lock().unwrap().some(number).commit.clone()
    }

    /// The newest commit.
    pub fn last_commit(&self) -> String {
        self.ledger.lock().unwrap().last().commit.clone()
    }

    /// Whether the newest commit is applied everywhere and works, as the status says.
    pub fn is_synced(&self, world: &World) -> bool {
        is_at(world, "shop", &self.last_commit())
    }
}

/// Makes an Application of this name that follows a repository. `more` is merged into its spec.
pub async fn make(world: &World, name: &str, url: &str, more: &Value) -> anyhow::Result<()> {
    let mut app = application(name, url);
    for (field, value) in more.as_object().into_iter().flatten() {
        app["spec"][field.as_str()] = value.clone();
    }
    let user = world.outsider("user");
    user.create("/apis/windlass.dev/v1alpha1/namespaces/team/applications", &app).await.map(drop)
}

/// Whether a commit of an Application is applied everywhere and works, as the status says.
pub fn is_at(world: &World, name: &str, commit: &str) -> bool {
    let Some(app) = named(world, name) else { return false };
    let status = &app["status"];
    let lines = status["clusters"].as_array().cloned().unwrap_or_default();
    status["phase"] == "Healthy"
        && status["sync"]["status"] == "Synced"
        && status["sync"]["revision"] == commit
        && status["observedGeneration"] == app["metadata"]["generation"]
        && lines.len() == CLUSTERS.len()
        && lines.iter().all(|line| line["revision"] == commit && line["sync"] == "Synced")
}

/// The Application `shop` as it is stored.
pub fn app(world: &World) -> Option<Value> {
    named(world, "shop")
}

/// An Application as it is stored.
pub fn named(world: &World, name: &str) -> Option<Value> {
    world.api().get("windlass.dev/v1alpha1", "Application", TEAM, name)
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn application(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
        "metadata": { "name": name, "namespace": TEAM },
        "spec": {
            "source": { "repoURL": url, "path": "app" },
            "destinations": [{ "selector": { "matchLabels": { "env": "prod" } }, "namespace": SHOP }],
            "sync": { "interval": "10s", "retry": { "first": "2s", "longest": "20s" } },
        },
    })
}

fn config_map(name: &str, number: u64) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\ndata: {{ number: \"{number}\" }}\n"
    )
}

fn secret(number: u64) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\n  labels: {{ number: \"{number}\" }}\nstringData: {{ token: {CANARY} }}\n"
    )
}
