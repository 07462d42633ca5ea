//! `testbed demo`: the product at work, on a control plane of its own or on a cluster that is there.
//!
//! ```text
//!   Stage (own control planes, or --context) ─► CRDs ─► windlass controller ─► Clusters ─► Applications ─► Rollouts ─► clean up
//! ```

mod canary;
mod hook;
mod product;
mod shop;
mod stage;
mod terminal;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use product::Product;
use stage::Stage;
use windlass_testbed::git::GitServer;

/// Arguments of `testbed demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the cluster of this kubeconfig context, in a namespace of its own, instead of a local control plane.
    #[arg(long)]
    context: Option<String>,
    /// The windlass program [default: the one built beside this program].
    #[arg(long, env = "WINDLASS_BIN")]
    windlass: Option<PathBuf>,
    /// End after showing instead of waiting for Ctrl-C. Always so when nobody watches.
    #[arg(long)]
    once: bool,
}

const NAMESPACE: &str = "windlass-demo";

/// Where the sample runs.
const SHOP: &str = "windlass-demo-shop";

/// What the demo makes that has no namespace.
const POLICY_NAME: &str = "windlass-demo-no-latest";

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let windlass = product::find(args.windlass.clone())?;
    step("a Kubernetes control plane");
    let stage = Stage::open(args.context.as_deref()).await?;
    let outcome = with_product(args, &stage, &windlass).await;
    step("cleaning up");
    let cleaned = stage.close().await;
    outcome.and(cleaned)
}

async fn with_product(args: &Args, stage: &Stage, windlass: &Path) -> anyhow::Result<()> {
    step("the kinds of Windlass");
    stage.install(&product::definitions(windlass)?).await?;
    step("the controller");
    let server = GitServer::start().await?;
    let mut product = Product::start(windlass, stage, NAMESPACE)?;
    let outcome = tokio::select! {
        outcome = play(args, stage, &mut product, windlass, &server) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    // While the controller still runs: it has to let go of its finalizers.
    if stage.is_theirs() {
        let left = unregister(&stage.client).await;
        return outcome.and(left);
    }
    outcome
}

async fn play(
    args: &Args,
    stage: &Stage,
    product: &mut Product,
    windlass: &Path,
    server: &GitServer,
) -> anyhow::Result<()> {
    product.ready().await?;
    step("three clusters: the controller's own, one by kubeconfig, one that is broken on purpose");
    register(stage).await?;
    let clusters: Api<DynamicObject> = Api::all_with(stage.client.clone(), &cluster_kind());
    wait_for(&clusters, "demo-home", "True").await?;
    wait_for(&clusters, "demo-by-kubeconfig", "True").await?;
    wait_for(&clusters, "demo-broken", "False").await?;
    show(&clusters).await?;
    shop::play(stage, product, windlass, server).await?;
    canary::play(stage, windlass, server.git()).await?;
    tell(stage, product);

    if args.once || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    eprintln!("\nCtrl-C ends the demo and removes everything.");
    product.watch().await
}

fn cluster_kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Cluster"),
        "clusters",
    )
}

async fn register(stage: &Stage) -> anyhow::Result<()> {
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let hook = serde_json::from_value(json!({
        "metadata": { "name": "windlass-hooks", "namespace": NAMESPACE },
        "stringData": { "generic": product::HOOK_SECRET },
    }))?;
    secrets.create(&PostParams::default(), &hook).await.context("cannot store the secret of the hooks")?;
    let good = stage.foreign_kubeconfig()?;
    // Port 9 is "discard": nothing listens there.
    let broken = product::with_server(&good, "https://127.0.0.1:9")?;
    for (name, kubeconfig) in [("by-kubeconfig", &good), ("broken", &broken)] {
        let secret = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": NAMESPACE }, "stringData": { "kubeconfig": kubeconfig },
        }))?;
        secrets.create(&PostParams::default(), &secret).await.context("cannot store a kubeconfig")?;
    }
    let source = |secret: &str| json!({ "kubeconfig": { "secretRef": { "name": secret } }, "probe": { "interval": "5s" } });
    for (name, env, spec) in [
        ("demo-home", "demo", json!({ "inCluster": {}, "probe": { "interval": "5s" } })),
        ("demo-by-kubeconfig", "demo", source("by-kubeconfig")),
        ("demo-broken", "none", source("broken")),
    ] {
        let cluster = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
            "metadata": { "name": name, "labels": { "windlass.dev/demo": "true", "env": env } }, "spec": spec,
        });
        let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &cluster_kind());
        api.patch(name, &PatchParams::apply("windlass-demo").force(), &Patch::Apply(&cluster))
            .await
            .with_context(|| format!("cannot register {name}"))?;
    }
    Ok(())
}

async fn wait_for(clusters: &Api<DynamicObject>, name: &str, status: &str) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let object = clusters.get(name).await?;
        if ready(&object).0 == status {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            bail!("{name} did not become Ready={status}: {}", ready(&object).2);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn ready(object: &DynamicObject) -> (String, String, String) {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
    let text = |field: &str| ready.and_then(|ready| ready[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

async fn show(clusters: &Api<DynamicObject>) -> anyhow::Result<()> {
    println!(
        "\n{:<20} {:<6} {:<18} {:<10} {:<8} MESSAGE",
        "CLUSTER", "READY", "REASON", "VERSION", "LATENCY"
    );
    for object in clusters.list(&kube::api::ListParams::default().labels("windlass.dev/demo=true")).await? {
        let (status, reason, message) = ready(&object);
        let text = |field: &str| object.data["status"][field].as_str().unwrap_or("-").to_owned();
        let name = object.metadata.name.clone().unwrap_or_default();
        println!(
            "{name:<20} {status:<6} {reason:<18} {:<10} {:<8} {message}",
            text("version"),
            text("latency")
        );
    }
    Ok(())
}

fn tell(stage: &Stage, product: &Product) {
    println!("\nLook around:");
    println!("  {}", stage.kubeconfig_line());
    println!("  kubectl get wapp -n {NAMESPACE} -o wide --watch");
    println!("  windlass tree web -n {NAMESPACE} --controller-namespace {NAMESPACE}");
    println!("  kubectl get rollouts.windlass.dev,analysisruns.windlass.dev -n {NAMESPACE}");
    println!("  kubectl get clusters.windlass.dev -o wide");
    println!("  kubectl describe clusters.windlass.dev demo-broken      # why, and what to do");
    println!("  kubectl -n {NAMESPACE} delete secret by-kubeconfig      # and watch it notice");
    println!("  curl -s {}/readyz?verbose", product.url());
    println!("  curl -s {}/metrics | grep windlass_cluster", product.url());
    println!("  the controller's log: {}", product.log().display());
}

/// Removes the demo's own Applications, with what they made, and Clusters, and waits until they are gone.
async fn unregister(client: &kube::Client) -> anyhow::Result<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Application"));
    let apps: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    let all = kube::api::ListParams::default();
    apps.delete_collection(&DeleteParams::default(), &all).await?;
    for _ in 0..300 {
        if apps.list(&all).await?.items.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let clusters: Api<DynamicObject> = Api::all_with(client.clone(), &cluster_kind());
    let ours = kube::api::ListParams::default().labels("windlass.dev/demo=true");
    for object in clusters.list(&ours).await? {
        clusters.delete(&object.metadata.name.unwrap_or_default(), &DeleteParams::default()).await?;
    }
    for _ in 0..100 {
        if clusters.list(&ours).await?.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the demo's Clusters are left: kubectl delete clusters.windlass.dev -l windlass.dev/demo=true")
}

fn step(what: &str) {
    println!("\n==> {what}");
}
