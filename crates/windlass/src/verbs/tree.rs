//! `windlass tree`: an Application, its clusters, its objects, and what those made.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use windlass_api::{
    Application, Cluster,
    application::{IN_CLUSTER, status::ClusterLine},
    cluster::DEFAULT_SECRET_KEYS,
};
use windlass_cluster::connect::{ClientCache, Credentials, KubeconfigPolicy, Limits};

use super::{
    hub::{Hub, HubArgs, status, title},
    live,
};
use crate::{
    cli,
    error::CommandError,
    show::{
        application::{health_word, phase, sync_word},
        short,
        tree::{Node, render},
    },
};

const EXAMPLES: &str = "\
Examples:
  windlass tree web -n shop
  windlass tree web --cluster east

Objects on other clusters are read with the kubeconfig of their Cluster if you may read its Secret; else the inventory and
the health that the controller saw are shown.";

/// Namespace of Secrets whose Cluster names none, unless the controller runs elsewhere.
pub(super) const CONTROLLER_NAMESPACE: &str = "windlass-system";

/// Show what an Application made, cluster by cluster, with the health of everything
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Only this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Namespace that the controller runs in: where kubeconfigs are whose Cluster names no namespace
    #[arg(long, value_name = "NAMESPACE", default_value = CONTROLLER_NAMESPACE)]
    controller_namespace: String,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        let status = status(&app);
        let lines: Vec<&ClusterLine> = status
            .clusters
            .iter()
            .filter(|line| args.cluster.as_ref().is_none_or(|wanted| *wanted == line.name))
            .collect();
        if let (Some(wanted), true) = (&args.cluster, lines.is_empty()) {
            let names: Vec<&str> = status.clusters.iter().map(|line| line.name.as_str()).collect();
            return Err(CommandError::failure(format!(
                "Application {} does not go to cluster {wanted}",
                title(&app)
            ))
            .hint(format!(
                "It goes to: {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )));
        }
        let revision = status.sync.revision.as_deref().map(|revision| format!("at {}", short(revision)));
        let mut root =
            Node::new(format!("Application {}", title(&app))).told(phase(&app), revision.as_deref());
        for line in lines {
            root.children.push(cluster(&hub, &app, line, args).await);
        }
        cli::print(&render(&root))
    })
}

async fn cluster(hub: &Hub, app: &Application, line: &ClusterLine, args: &Args) -> Node {
    let title = format!("Cluster {}", line.name);
    let said = match line.message.as_deref() {
        Some(message) => format!("{}. {message}", sync_word(line.sync)),
        None => sync_word(line.sync).to_owned(),
    };
    let mut node = Node::new(title).told(health_word(line.health), Some(&said));
    let status = status(app);
    let mut objects: Vec<String> = status
        .inventory
        .iter()
        .filter(|entry| entry.clusters.contains(&line.name))
        .flat_map(|entry| entry.objects.iter().cloned())
        .collect();
    objects.sort();
    objects.dedup();
    let read = match connect(hub, &line.name, &args.controller_namespace).await {
        Ok(client) => live::tree(&client, &objects).await,
        Err(why) => Err(why),
    };
    node.children = read.unwrap_or_else(|why| {
        cli::note(&format!("objects on {} are not read: {why}", line.name));
        objects.iter().map(|object| Node::new(live::short_name(object))).collect()
    });
    node
}

/// A client for a cluster: the hub's own, or by the kubeconfig of its Cluster. What stands in the way is told in words.
pub(super) async fn connect(
    hub: &Hub,
    name: &str,
    controller_namespace: &str,
) -> Result<kube::Client, String> {
    let found: Option<Cluster> = hub.clusters().get_opt(name).await.map_err(|error| live::words(&error))?;
    let Some(cluster) = found else {
        if name == IN_CLUSTER {
            return Ok(hub.client.clone());
        }
        return Err("there is no Cluster of that name".to_owned());
    };
    let Some(source) = &cluster.spec.kubeconfig else { return Ok(hub.client.clone()) };
    let reference = &source.secret_ref;
    let namespace = reference.namespace.as_deref().unwrap_or(controller_namespace);
    let api: Api<Secret> = Api::namespaced(hub.client.clone(), namespace);
    let secret = api.get(&reference.name).await.map_err(|error| live::words(&error))?;
    let mut data = secret.data.unwrap_or_default();
    let keys: Vec<&str> = match &reference.key {
        Some(key) => vec![key],
        None => DEFAULT_SECRET_KEYS.to_vec(),
    };
    let bytes = keys.iter().find_map(|key| data.remove(*key));
    let bytes = bytes.ok_or_else(|| format!("Secret {namespace}/{} has no kubeconfig", reference.name))?;
    // Somebody else wrote it: it may run nothing and read no file here.
    let policy = KubeconfigPolicy { allow_exec: false, allow_files: false, allow_insecure_tls: false };
    let credentials = Credentials::Kubeconfig { bytes: bytes.0, context: source.context.clone() };
    let cache = ClientCache::new(policy, None);
    cache.get(name, &credentials, &Limits::default()).await.map_err(|error| error.to_string())
}
