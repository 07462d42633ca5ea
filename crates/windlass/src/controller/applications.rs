//! The controller of Applications with all that it needs: repositories, the renderer, the fleet, and the hooks.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, core::PartialObjectMeta};
use tracing::warn;
use windlass_api::Application;
use windlass_cluster::{
    connect::Limits,
    drive::{Drive, Key, Services, Waker},
    watch::{self as watching, Selection},
};
use windlass_deliver::{
    application::{self, ApplicationController, ApplicationMetrics},
    cluster::Network,
    fleet::{Fleet, FleetOptions, HubConnector, Wake},
    origin::{self, OriginMetrics, Push, Repos},
    render::{Renderer, RendererOptions},
};
use windlass_server::{hooks::OnPush, http::Probes};
use windlass_vcs::{mirror::MirrorOptions, repositories::Repositories};

use super::{
    drives::{options, secret_namespaces, secrets},
    group::Group,
    hub::Hub,
};
use crate::{config::Settings, error::CommandError};

/// The controller, and who is to be told of pushes.
pub(super) struct Applications {
    /// The loop, not started yet.
    pub(super) drive: Drive<ApplicationController<Repos<Renderer>, HubConnector>>,
    /// Takes what hooks tell.
    pub(super) on_push: OnPush,
}

/// Puts the controller together and starts what runs beside it.
pub(super) fn start(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    services: &Services,
    network: Arc<Network>,
    group: &mut Group,
) -> Result<Applications, CommandError> {
    // The loop is made last, but what it is made of has to wake it.
    let waker: Arc<OnceLock<Waker>> = Arc::default();
    let repos = repos(settings, probes, hub, &waker)?;
    let fleet = Arc::new(fleet(settings, hub, network, &waker));
    let controller = ApplicationController::new(
        hub.client.clone(),
        Arc::new(repos.clone()),
        Arc::clone(&fleet),
        application::Settings {
            default_service_account: settings.default_service_account.clone(),
            cross_namespace_dependencies: settings.allow_cross_namespace_dependencies,
        },
        services.clock.clone(),
        probes.metrics.register(ApplicationMetrics::registered),
    );
    let workers = usize::try_from(settings.application_workers).unwrap_or(usize::MAX);
    let options = windlass_cluster::drive::Options { workers, ..options(settings) };
    let mut drive = Drive::new(Arc::new(controller), services.clone(), options);
    for (name, api) in secrets(&hub.client, &settings.secret_namespaces) {
        drive = drive.related(secret_changes(api, &name, repos.clone()));
    }
    let others: Api<PartialObjectMeta<Application>> = Api::all(hub.client.clone());
    drive = drive.related(watching::references(others, &Selection::default(), "applications"));
    drive = application::watched(drive, &hub.client);
    let _ = waker.set(drive.waker());
    let (keeper, stop) = (repos.clone(), group.stop());
    group.spawn(async move { keeper.run(stop).await });
    let stop = group.stop();
    group.spawn(async move { fleet.run(stop).await });
    let on_push: OnPush = Arc::new(move |push| {
        let push =
            Push { urls: push.urls, reference: push.reference, commit: push.commit, pusher: push.pusher };
        repos.pushed(&push);
    });
    Ok(Applications { drive, on_push })
}

/// Changes of Secrets, of which the repositories hear before anybody is woken.
fn secret_changes(
    api: Api<PartialObjectMeta<Secret>>,
    name: &str,
    repos: Repos<Renderer>,
) -> impl futures::Stream<Item = watching::Seen> + Send + 'static {
    use futures::StreamExt as _;
    watching::references(api, &Selection::default(), name).inspect(move |seen| {
        if let watching::Seen::Changed(reference) = seen {
            repos.secret_changed(reference.namespace.as_deref().unwrap_or_default(), &reference.name);
        }
    })
}

fn repos(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    waker: &Arc<OnceLock<Waker>>,
) -> Result<Repos<Renderer>, CommandError> {
    let folder = &settings.work_dir;
    let unusable = |what: &str| {
        CommandError::failure(format!("{what} in the work dir {} cannot be used", folder.display()))
            .hint("It has to be a folder that this process may write and no other process uses: --work-dir.")
    };
    let (repositories, moved) = Repositories::open(&folder.join("repositories"), MirrorOptions::default())
        .map_err(|error| unusable("the repositories").because(error))?;
    if let Some(moved) = moved {
        warn!(
            ?moved,
            "the journal could not be read and was moved aside: the history of branches begins anew"
        );
    }
    let door = std::env::current_exe()
        .map_err(|error| CommandError::failure("the program does not know where it is").because(error))?;
    let options = RendererOptions {
        kustomize: Some(settings.kustomize.clone()),
        helm: Some(settings.helm.clone()),
        concurrency: usize::try_from(settings.render_concurrency).unwrap_or(1),
        ..RendererOptions::new(folder.join("scratch"), vec![door.into(), "sandbox".into()])
    };
    let renderer =
        Renderer::new(options).map_err(|trouble| unusable("the scratch folder").hint(trouble.message()))?;
    probes.metrics.register(|registry| renderer.register(registry));
    let wake = waker.clone();
    let wake: origin::Wake = Arc::new(move |key: Key| {
        if let Some(waker) = wake.get() {
            waker.wake(key);
        }
    });
    let metrics = probes.metrics.register(OriginMetrics::registered);
    let repositories = Arc::new(repositories);
    Ok(Repos::new(hub.client.clone(), repositories, renderer, wake, origin::Settings::default(), metrics))
}

fn fleet(
    settings: &Settings,
    hub: &Hub,
    network: Arc<Network>,
    waker: &Arc<OnceLock<Waker>>,
) -> Fleet<HubConnector> {
    let own = Limits {
        qps: f32::from(u16::try_from(settings.kube_api_qps).unwrap_or(u16::MAX)),
        burst: settings.kube_api_burst,
        ..Limits::default()
    };
    let allowed = secret_namespaces(&settings.secret_namespaces);
    let connector = HubConnector::new(hub.client.clone(), network, settings.namespace.clone(), allowed, own);
    let waker = waker.clone();
    let wakes = Arc::new(move |wake: Wake| {
        let Some(waker) = waker.get() else { return };
        // A wake that does not fit is made up for by one of everybody.
        match wake {
            Wake::All => drop(waker.wake_all()),
            Wake::App(key) => drop(waker.wake(key) || waker.wake_all()),
        }
    });
    Fleet::new(hub.client.clone(), connector, wakes, FleetOptions::default())
}
