//! The same work by Flux, on a control plane of its own, where its two controllers are at hand:
//! `FLUX_SOURCE_CONTROLLER` and `FLUX_KUSTOMIZE_CONTROLLER` name the programs.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testbed::{
    control_plane::{Component, ControlPlane, User},
    git::GitServer,
    measure::{self, Report},
    process::{Child, Port, ScratchDir, Spec},
};

use crate::{
    many,
    stage::{self, NAMESPACE, config_map, define},
};

/// Longest wait for all to be ready, and for a commit to arrive.
const PATIENCE: Duration = Duration::from_secs(900);

/// Every kind that the two controllers watch: group, kind, plural.
const KINDS: [(&str, &str, &str); 7] = [
    (SOURCE, "GitRepository", "gitrepositories"),
    (SOURCE, "HelmRepository", "helmrepositories"),
    (SOURCE, "HelmChart", "helmcharts"),
    (SOURCE, "Bucket", "buckets"),
    (SOURCE, "OCIRepository", "ocirepositories"),
    (SOURCE, "ExternalArtifact", "externalartifacts"),
    (KUSTOMIZE, "Kustomization", "kustomizations"),
];
const SOURCE: &str = "source.toolkit.fluxcd.io";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";

/// The programs, if they are named.
struct Programs {
    source: PathBuf,
    kustomize: PathBuf,
}

impl Programs {
    fn named() -> Option<Self> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Some(Self { source: path("FLUX_SOURCE_CONTROLLER")?, kustomize: path("FLUX_KUSTOMIZE_CONTROLLER")? })
    }
}

/// As many Kustomizations as Applications in [`many`], with the same objects, if the programs are at hand.
pub(crate) async fn measure(report: &mut Report, count: usize) -> anyhow::Result<()> {
    let Some(programs) = Programs::named() else { return Ok(()) };
    eprintln!("{count} Kustomizations, Flux");
    let figure = |what: &str| format!("{count} with Flux: {what}");
    let control_plane = ControlPlane::start().await?;
    let client = control_plane.admin();
    install(&client).await?;
    let server = GitServer::start().await?;
    let repo = server.empty_repo("fleet")?;
    let mut commit = repo.commit("everything").file("README.md", "one\n");
    for (path, text) in many::files(count, true) {
        commit = commit.file(&path, &text);
    }
    commit.write()?;
    let folder = ScratchDir::new("bench-flux")?;
    let mut flux = Flux::start(&programs, &control_plane, &folder)?;
    create(&client, "GitRepository", "fleet", &repository(&repo.url())).await?;
    flux.ready(&client, "GitRepository", 1).await?;
    let (ours, theirs) = (flux.cpu()?, apiserver(&control_plane)?);
    let begin = tokio::time::Instant::now();
    for n in 0..count {
        create(&client, "Kustomization", &many::name(n), &kustomization(n)).await?;
    }
    flux.ready(&client, "Kustomization", count).await?;
    report.figure(&figure("until all are ready, health not waited for"), begin.elapsed().as_secs_f64(), "s");
    let (ours, theirs) = (flux.cpu()? - ours, apiserver(&control_plane)? - theirs);
    report.figure(&figure("CPU of the controllers"), ours, "s");
    report.figure(&figure("CPU of the API server"), theirs, "s");
    report.figure(&figure("the controllers' CPU by the API server's"), ours / theirs * 100.0, "%");
    let before = flux.cpu()?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    report.figure(&figure("CPU a minute at rest"), flux.cpu()? - before, "s");
    report.figure(&figure("memory at its peak, shared pages too"), flux.peak()?, "MiB");
    let path = format!("apps/{}/objects.yaml", many::name(0));
    let text = format!("{}\n---\n{}", many::objects(&many::name(0)), config_map("arrived", "1"));
    let begin = tokio::time::Instant::now();
    repo.commit_files(&[(&path, Some(&text))], "one file")?;
    arrives(&client, "arrived").await?;
    report.figure(&figure("a one-file commit to applied, no hook"), begin.elapsed().as_secs_f64(), "s");
    flux.stop()
}

/// The two controllers. They end with this value.
struct Flux {
    source: Child,
    kustomize: Child,
    _ports: [Port; 5],
}

impl Flux {
    fn start(programs: &Programs, control_plane: &ControlPlane, folder: &ScratchDir) -> anyhow::Result<Self> {
        let kubeconfig = control_plane.kubeconfig_path(&User::Admin)?;
        let ports = [Port::free()?, Port::free()?, Port::free()?, Port::free()?, Port::free()?];
        let at = |n: usize| ports.get(n).map_or(String::new(), |port| format!("127.0.0.1:{}", port.number()));
        let spec = |program: &PathBuf, name: &str| {
            Spec::new(program.clone(), folder.path().join(format!("{name}.log")))
                .env("KUBECONFIG", &kubeconfig)
                .env("RUNTIME_NAMESPACE", NAMESPACE)
                .args(["--events-addr=", "--watch-all-namespaces=true", "--enable-leader-election=false"])
                .args(["--log-level=error"])
        };
        let storage = folder.path().join("artifacts");
        std::fs::create_dir_all(&storage).context("cannot make the folder of artifacts")?;
        let source = spec(&programs.source, "source")
            .arg(format!("--storage-path={}", storage.display()))
            .args([format!("--storage-addr={}", at(0)), format!("--storage-adv-addr={}", at(0))])
            .args([format!("--metrics-addr={}", at(1)), format!("--health-addr={}", at(2))])
            .spawn()?;
        let kustomize = spec(&programs.kustomize, "kustomize")
            .args([format!("--metrics-addr={}", at(3)), format!("--health-addr={}", at(4))])
            .spawn()?;
        Ok(Self { source, kustomize, _ports: ports })
    }

    /// Waits until so many objects of a kind say that they are ready.
    async fn ready(&mut self, client: &Client, kind: &str, count: usize) -> anyhow::Result<()> {
        let api = api(client, kind)?;
        let begin = tokio::time::Instant::now();
        loop {
            let all = api.list(&ListParams::default()).await?;
            let ready = all.iter().filter(|object| is_ready(object)).count();
            if ready >= count {
                return Ok(());
            }
            anyhow::ensure!(
                self.source.is_running() && self.kustomize.is_running() && begin.elapsed() < PATIENCE,
                "{ready} of {count} {kind}s are ready; the logs end with:\n{}\n{}",
                self.source.log_tail(10),
                self.kustomize.log_tail(10)
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn cpu(&self) -> anyhow::Result<f64> {
        let both = measure::whole_cpu(self.source.pid())? + measure::whole_cpu(self.kustomize.pid())?;
        Ok(both.as_secs_f64())
    }

    fn peak(&self) -> anyhow::Result<f64> {
        let both = measure::peak_memory(self.source.pid())? + measure::peak_memory(self.kustomize.pid())?;
        Ok(stage::mib(both))
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.kustomize.stop()?;
        self.source.stop()
    }
}

fn apiserver(control_plane: &ControlPlane) -> anyhow::Result<f64> {
    let pid = control_plane.pid(Component::Apiserver).context("the API server does not run")?;
    Ok(measure::whole_cpu(pid)?.as_secs_f64())
}

/// Waits until a `ConfigMap` is there.
async fn arrives(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let begin = tokio::time::Instant::now();
    while api.get_opt(name).await?.is_none() {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "the commit was not applied");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn api(client: &Client, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
    let (group, kind, plural) = KINDS.into_iter().find(|(_, one, _)| *one == kind).context("unknown kind")?;
    let resource = ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    };
    Ok(Api::namespaced_with(client.clone(), NAMESPACE, &resource))
}

async fn create(client: &Client, kind: &str, name: &str, spec: &Value) -> anyhow::Result<()> {
    let group = if kind == "Kustomization" { KUSTOMIZE } else { SOURCE };
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object)?;
    api(client, kind)?.create(&PostParams::default(), &object).await.context("cannot create for Flux")?;
    Ok(())
}

fn repository(url: &str) -> Value {
    json!({ "url": url, "interval": "30s", "timeout": "60s", "ref": { "branch": "main" } })
}

fn kustomization(n: usize) -> Value {
    json!({
        "interval": "30s", "timeout": "60s", "prune": true, "force": false, "path": format!("apps/{}", many::name(n)),
        "targetNamespace": NAMESPACE, "sourceRef": { "kind": "GitRepository", "name": "fleet" },
    })
}

/// The kinds without a schema: what is measured is the controllers.
async fn install(client: &Client) -> anyhow::Result<()> {
    for (group, kind, plural) in KINDS {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                    "listKind": format!("{kind}List") },
                "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema":
                        { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
            },
        });
        define(client, &serde_json::from_value(definition)?).await?;
    }
    stage::namespace(client, NAMESPACE).await?;
    Ok(())
}
