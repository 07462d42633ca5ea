//! A control plane, a git server, the controller, and what each of them used.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{
    Application,
    application::status::{HealthWord, SyncWord},
};
use windlass_testbed::{
    control_plane::{Component, ControlPlane},
    git::{GitServer, Repo},
    measure,
};

use crate::product::{HOOK_SECRET, Product};

/// Where the Applications are.
pub(crate) const NAMESPACE: &str = "apps";

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(1800);

/// One installation at work.
pub(crate) struct Stage {
    pub(crate) product: Product,
    pub(crate) repo: Repo,
    pub(crate) client: Client,
    pub(crate) control_plane: ControlPlane,
    _server: GitServer,
}

/// CPU seconds used.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) ours: f64,
    pub(crate) apiserver: f64,
    pub(crate) etcd: f64,
}

impl Stage {
    /// Everything started, with these files in the repository.
    pub(crate) async fn open(files: &[(String, String)]) -> anyhow::Result<Self> {
        let control_plane = ControlPlane::start().await?;
        let client = control_plane.admin();
        install(&client).await?;
        let server = GitServer::start().await?;
        let repo = server.empty_repo("fleet")?;
        let mut commit = repo.commit("everything").file("README.md", "one\n");
        for (path, text) in files {
            commit = commit.file(path, text);
        }
        commit.write()?;
        let product = Product::start(&control_plane).await?;
        Ok(Self { product, repo, client, control_plane, _server: server })
    }

    pub(crate) fn applications(&self) -> Api<Application> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Makes Applications by name and spec.
    pub(crate) async fn create(&self, all: Vec<(String, Value)>) -> anyhow::Result<()> {
        let api = self.applications();
        let made = futures::stream::iter(all).map(|(name, spec)| {
            let api = api.clone();
            async move {
                let app = serde_json::from_value(json!({
                    "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
                    "metadata": { "name": name }, "spec": spec,
                }))?;
                api.create(&PostParams::default(), &app).await.context("cannot create an Application")
            }
        });
        let mut made = made.buffer_unordered(8);
        while let Some(result) = made.next().await {
            result?;
        }
        Ok(())
    }

    /// Waits until so many Applications are in sync and healthy.
    pub(crate) async fn healthy(&mut self, count: usize) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        loop {
            // The controller's own gauges: asking the API server for all would be part of what is measured.
            let ready = self.product.metric("windlass_application_ready", "").await?;
            if ready >= as_f64(count) {
                let took = begin.elapsed();
                self.confirm(count).await?;
                return Ok(took);
            }
            anyhow::ensure!(
                self.product.child.is_running() && begin.elapsed() < PATIENCE,
                "{ready} of {count} are healthy; the log ends with:\n{}",
                self.product.child.log_tail(10)
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The API server says the same as the gauges.
    async fn confirm(&self, count: usize) -> anyhow::Result<()> {
        for _ in 0..300 {
            let all = self.applications().list(&ListParams::default()).await?;
            let good = all.iter().filter(|app| {
                app.status.as_ref().is_some_and(|status| {
                    status.sync.status == SyncWord::Synced && status.health.status == HealthWord::Healthy
                })
            });
            if good.count() >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("the gauges say that all are healthy, the statuses do not")
    }

    /// Waits until the controller used next to no CPU for some seconds.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        for _ in 0..60 {
            let before = self.cpu()?.ours;
            tokio::time::sleep(Duration::from_secs(3)).await;
            if self.cpu()?.ours - before < 0.05 {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn cpu(&self) -> anyhow::Result<Cpu> {
        let of = |component| {
            let pid = self.control_plane.pid(component).context("a component is gone")?;
            anyhow::Ok(measure::whole_cpu(pid)?.as_secs_f64())
        };
        Ok(Cpu {
            ours: measure::whole_cpu(self.product.child.pid())?.as_secs_f64(),
            apiserver: of(Component::Apiserver)?,
            etcd: of(Component::Etcd)?,
        })
    }

    /// Memory that is the controller's own now, and the most that it ever had resident, in MiB.
    pub(crate) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let pid = self.product.child.pid();
        Ok((mib(measure::memory(pid)?), mib(measure::peak_memory(pid)?)))
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// The kinds, the namespace of the Applications, and the secret of hooks.
async fn install(client: &Client) -> anyhow::Result<()> {
    for definition in windlass_api::crds::all() {
        define(client, &definition).await?;
    }
    namespace(client, NAMESPACE).await?;
    secret(client, "default", "windlass-hooks", "generic", HOOK_SECRET).await
}

/// Makes a kind, and waits until it is served.
pub(crate) async fn define(client: &Client, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.name_any();
    definitions.patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(definition)).await?;
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(definitions.clone(), &name, established);
    tokio::time::timeout(Duration::from_secs(60), wait).await.context("a kind is not served")??;
    Ok(())
}

pub(crate) async fn namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    api.create(&PostParams::default(), &namespace).await.context("cannot create a namespace")?;
    Ok(())
}

pub(crate) async fn secret(
    client: &Client,
    namespace: &str,
    name: &str,
    key: &str,
    value: &str,
) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(value.as_bytes().to_vec()))])),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &secret).await.context("cannot create a Secret")?;
    Ok(())
}

/// The middle of some samples.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

pub(crate) fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value:?}\n")
}
