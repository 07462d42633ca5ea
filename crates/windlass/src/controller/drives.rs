//! One loop per controller that is switched on.

use std::{collections::BTreeSet, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::sync::watch;
use tracing::info;
use windlass_cluster::{
    connect::{ClientCache, KubeconfigPolicy},
    drive::{Controller, Drive, Options, Services},
    watch::{self as watching, Selection},
};
use windlass_deliver::cluster::{self, ClusterController, ClusterMetrics, Network, SecretNamespaces};
use windlass_server::{
    hooks::OnPush,
    http::Probes,
    readiness::{Readiness, ReadinessCheck},
};

use super::{
    applications,
    group::Group,
    hub::Hub,
    kinds,
    rollouts::{self, Rollouts},
};
use crate::{config::Settings, error::CommandError};

/// The name that stands for every namespace.
const ALL: &str = "*";

/// Starts what is switched on, and says through `willing` when all of it has seen what exists.
pub(super) fn start(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    services: &Services,
    willing: watch::Sender<bool>,
    group: &mut Group,
) -> Result<Option<OnPush>, CommandError> {
    let mut warming: Vec<BoxFuture<'static, ()>> = Vec::new();
    let mut on_push = None;
    let network = Arc::new(network(settings, hub));
    if settings.controllers.is_on("cluster") {
        let drive = cluster(settings, probes, hub, services, network.clone());
        warming.push(launch("cluster", "clusters", drive, services, &probes.readiness, group).boxed());
    }
    if settings.controllers.is_on("application") {
        let applications = applications::start(settings, probes, hub, services, network, group)?;
        on_push = Some(applications.on_push);
        let (drive, readiness) = (applications.drive, &probes.readiness);
        warming.push(launch("application", "applications", drive, services, readiness, group).boxed());
    }
    if settings.controllers.is_on("rollout") {
        let Rollouts { drive, freed } = rollouts::start(settings, probes, hub, services, group)?;
        warming.push(launch("rollout", "rollouts", drive, services, &probes.readiness, group).boxed());
        warming.push(launch("service", "rollouts", freed, services, &probes.readiness, group).boxed());
    }
    if settings.controllers.is_on("analysisrun") {
        let drive = rollouts::runs(settings, probes, hub, services)?;
        warming
            .push(launch("analysisrun", "analysisruns", drive, services, &probes.readiness, group).boxed());
    }
    if settings.controllers.is_on("experiment") {
        let drive = rollouts::experiments(settings, hub, services);
        warming.push(launch("experiment", "experiments", drive, services, &probes.readiness, group).boxed());
    }
    let stop = group.stop();
    group.spawn(async move {
        for warm in warming {
            tokio::select! {
                () = stop.cancelled() => return,
                () = warm => {}
            }
        }
        willing.send_replace(true);
        // The keeper takes a closed switch for the end.
        stop.cancelled().await;
    });
    Ok(on_push)
}

/// Runs a loop as soon as its kind is served; gives what waits until its caches are warm.
fn launch<C: Controller>(
    name: &'static str,
    plural: &'static str,
    drive: Drive<C>,
    services: &Services,
    readiness: &Readiness,
    group: &mut Group,
) -> impl Future<Output = ()> + Send + 'static {
    let check = Arc::new(readiness.check(format!("cache/{name}")));
    let mut warm = drive.warm();
    let (client, served, stop) = (services.client.clone(), Arc::clone(&check), group.stop());
    group.spawn(async move {
        if kinds::served(&client, plural, &served, &stop).await {
            served.not_ready("has not yet seen every object");
            info!(controller = name, "controller starts");
            drive.run(stop).await;
        }
    });
    async move { warmed(&mut warm, &check, name).await }
}

async fn warmed(warm: &mut watch::Receiver<bool>, check: &ReadinessCheck, name: &str) {
    if warm.wait_for(|warm| *warm).await.is_ok() {
        check.ready();
        info!(controller = name, "controller has seen every object");
    }
}

pub(super) fn options(settings: &Settings) -> Options {
    Options {
        workers: usize::try_from(settings.workers).unwrap_or(usize::MAX),
        resync: settings.resync.0,
        grace: settings.shutdown_grace.0,
        ..Options::default()
    }
}

fn cluster(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    services: &Services,
    network: Arc<Network>,
) -> Drive<ClusterController<Arc<Network>>> {
    let cluster_settings = cluster::Settings {
        namespace: settings.namespace.clone(),
        secret_namespaces: secret_namespaces(&settings.secret_namespaces),
        heartbeat: settings.heartbeat.0,
    };
    let metrics = probes.metrics.register(ClusterMetrics::registered);
    let controller = ClusterController::new(hub.client.clone(), network, cluster_settings, metrics);
    let drive = Drive::new(Arc::new(controller), services.clone(), options(settings));
    secrets(&hub.client, &settings.secret_namespaces).into_iter().fold(drive, |drive, (name, api)| {
        drive.related(watching::references(api, &Selection::default(), &name))
    })
}

/// The clients of all clusters, for whoever works on them.
fn network(settings: &Settings, hub: &Hub) -> Network {
    let policy = KubeconfigPolicy {
        allow_exec: settings.allow_kubeconfig_exec,
        allow_files: settings.allow_kubeconfig_files,
        allow_insecure_tls: settings.allow_kubeconfig_insecure_tls,
    };
    Network { cache: ClientCache::new(policy, Some(hub.requests.clone())), own: hub.own.clone() }
}

/// Where Secrets may be read.
pub(super) fn secret_namespaces(names: &BTreeSet<String>) -> SecretNamespaces {
    if names.contains(ALL) { SecretNamespaces::All } else { SecretNamespaces::Only(names.clone()) }
}

/// Watches on Secrets, names and versions only: one per namespace, or a single one for all.
pub(super) fn secrets(
    client: &Client,
    names: &BTreeSet<String>,
) -> Vec<(String, Api<PartialObjectMeta<Secret>>)> {
    if names.contains(ALL) {
        return vec![("secrets".to_owned(), Api::all(client.clone()))];
    }
    names.iter().map(|name| (format!("secrets/{name}"), Api::namespaced(client.clone(), name))).collect()
}
