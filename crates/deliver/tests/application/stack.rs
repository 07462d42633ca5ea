//! The controllers as the program wires them, on the shared control plane and beside a git server.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::PostParams, core::PartialObjectMeta};
use prometheus_client::registry::Registry;
use tokio::sync::{OnceCell, oneshot, watch};
use tokio_util::sync::CancellationToken;
use windlass_api::Application;
use windlass_cluster::{
    backoff::Backoff,
    clock::Clock,
    connect::{self, ClientCache, Credentials, HubOptions, KubeconfigPolicy, Limits},
    drive::{Drive, Key, Metrics, Options, Services, Waker},
    events::{EventMetrics, Publisher, Recorder, Reporter},
    lease::{self, Gate, Keeper, plan::Timing},
    requests::RequestMetrics,
    watch::{self as watching, Seen, Selection},
};
use windlass_deliver::{
    application::{self, ApplicationController, ApplicationMetrics},
    cluster::{self, ClusterController, ClusterMetrics, Network, SecretNamespaces},
    fleet::{Fleet, FleetOptions, HubConnector, Wake},
    origin::{self, OriginMetrics, Repos},
    render::{Renderer, RendererOptions},
};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    git::GitServer,
    process::ScratchDir,
    tools::{self, Tool},
};
use windlass_vcs::{mirror::MirrorOptions, repositories::Repositories};

/// Where Secrets with kubeconfigs are looked for when a Cluster names no namespace.
const HOME: &str = "default";
/// Applications with this label belong to a stack of their own.
pub const STACK_LABEL: &str = "test.windlass.dev/stack";

/// What runs, and what tests may look at.
pub struct Stack {
    pub control_plane: &'static ControlPlane,
    pub server: Arc<GitServer>,
    pub repos: Repos<Renderer>,
    pub renderer: Renderer,
    pub requests: RequestMetrics,
    pub registry: Registry,
    pub thread: std::thread::JoinHandle<()>,
    stop: CancellationToken,
}

/// How a stack differs from the one that all share.
#[derive(Clone, Default)]
pub struct Make {
    /// Only Applications with this value of [`STACK_LABEL`]; without it those that have none.
    pub name: Option<String>,
    /// Shards over leases of this name, for the replica of this identity.
    pub shards: Option<(u32, String, String)>,
}

static CONTROL_PLANE: OnceCell<&'static ControlPlane> = OnceCell::const_new();
static SHARED: OnceCell<Stack> = OnceCell::const_new();

/// The control plane with the kinds.
async fn control_plane() -> &'static ControlPlane {
    CONTROL_PLANE
        .get_or_init(|| async {
            let control_plane = ControlPlane::shared().await.unwrap();
            for crd in windlass_api::crds::all() {
                install(&control_plane.admin(), &crd).await;
            }
            control_plane
        })
        .await
}

async fn install(client: &Client, crd: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), crd).await.unwrap();
    let established = kube::runtime::conditions::is_crd_established();
    let name = crd.metadata.name.as_deref().unwrap();
    let wait = kube::runtime::wait::await_condition(api, name, established);
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap().unwrap();
}

/// The stack that all tests share.
pub async fn shared() -> &'static Stack {
    SHARED.get_or_init(|| Stack::start(Make::default())).await
}

impl Stack {
    pub async fn start(make: Make) -> Self {
        let control_plane = control_plane().await;
        let kubeconfig = control_plane.kubeconfig_path(&User::Admin).unwrap();
        let (tell, told) = oneshot::channel();
        let stop = CancellationToken::new();
        let end = stop.clone();
        // A runtime of its own: each test has one that ends with it.
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(run(make, kubeconfig, tell, end));
        });
        let parts = told.await.expect("the controllers start");
        Self {
            control_plane,
            server: parts.server,
            repos: parts.repos,
            renderer: parts.renderer,
            requests: parts.requests,
            registry: parts.registry,
            thread,
            stop,
        }
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&self) {
        self.stop.cancel();
    }

    /// All metrics as text.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

struct Parts {
    server: Arc<GitServer>,
    repos: Repos<Renderer>,
    renderer: Renderer,
    requests: RequestMetrics,
    registry: Registry,
}

async fn run(make: Make, kubeconfig: PathBuf, tell: oneshot::Sender<Parts>, stop: CancellationToken) {
    let mut registry = Registry::default();
    let requests = RequestMetrics::register(&mut registry);
    let limits = Limits { qps: 400.0, burst: 800, ..Limits::default() };
    let options = HubOptions {
        kubeconfig: Some(kubeconfig.clone()),
        context: None,
        namespace: Some(HOME.to_owned()),
        limits,
        metrics: Some(requests.clone()),
    };
    let client = connect::hub(&options).await.unwrap();
    let own = Credentials::File { path: Some(kubeconfig), context: None };
    let network =
        Network { cache: ClientCache::new(KubeconfigPolicy::default(), Some(requests.clone())), own };
    let network = Arc::new(network);
    let clock = Clock::system();
    let (services, publisher, keeper) = services(&make, &client, &clock);
    let server = Arc::new(GitServer::start().await.unwrap());
    let work = ScratchDir::new("application").unwrap();
    let renderer = renderer(&work);
    let waker: Arc<OnceLock<Waker>> = Arc::default();
    let repos = repos(&client, &work, &renderer, &waker, &mut registry);
    let fleet = Arc::new(fleet(&client, Arc::clone(&network), limits, &waker));
    let controller = ApplicationController::new(
        client.clone(),
        Arc::new(repos.clone()),
        Arc::clone(&fleet),
        application::Settings::default(),
        clock,
        ApplicationMetrics::registered(&mut registry),
    );
    let labels =
        make.name.as_ref().map_or_else(|| format!("!{STACK_LABEL}"), |name| format!("{STACK_LABEL}={name}"));
    let options = Options { selection: Selection::labels(labels), ..Options::default() };
    let others: Api<PartialObjectMeta<Application>> = Api::all(client.clone());
    let drive = Drive::new(Arc::new(controller), services.clone(), options)
        .related(secrets(&client, Some(repos.clone())))
        .related(watching::references(others, &Selection::default(), "applications"));
    let drive = application::watched(drive, &client);
    waker.set(drive.waker()).ok().unwrap();
    let clusters = clusters(&client, network, services);
    let willing = willing(drive.warm());
    let parts = Parts { server, repos: repos.clone(), renderer, requests, registry };
    tell.send(parts).ok().unwrap();
    // Replicas share the Clusters: one of them looks after them.
    let looks_after = make.name.is_none();
    let all = async {
        tokio::join!(
            drive.run(stop.clone()),
            publisher.run(stop.clone()),
            repos.run(stop.clone()),
            fleet.run(stop.clone()),
            async {
                if looks_after {
                    clusters.run(stop.clone()).await;
                }
            },
            async {
                if let Some((keeper, switch)) = keeper {
                    let open = async {
                        willing.await;
                        switch.send_replace(true);
                    };
                    tokio::join!(keeper.run(CancellationToken::new()), open);
                }
            },
        )
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        _ = all => {}
    }
}

/// Waits until everything there is was seen.
async fn willing(mut warm: watch::Receiver<bool>) {
    let _ = warm.wait_for(|warm| *warm).await;
}

type Election = Option<(Keeper, watch::Sender<bool>)>;

fn services(make: &Make, client: &Client, clock: &Clock) -> (Services, Publisher, Election) {
    let reporter = Reporter { controller: "windlass.dev/controller".into(), instance: "test".into() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let (gate, keeper) = match &make.shards {
        None => (Gate::open(), None),
        Some((shards, name, identity)) => {
            let (switch, could_act) = watch::channel(false);
            let options = lease::Options {
                name: name.clone(),
                namespace: HOME.to_owned(),
                identity: identity.clone(),
                shards: *shards,
                timing: Timing {
                    duration: Duration::from_secs(6),
                    renew: Duration::from_secs(1),
                    margin: Duration::from_secs(2),
                },
            };
            let (keeper, gate) = Keeper::new(client.clone(), options, clock.clone(), could_act);
            (gate, Some((keeper, switch)))
        }
    };
    let services =
        Services { client: client.clone(), gate, clock: clock.clone(), recorder, metrics: Metrics::new() };
    (services, publisher, keeper)
}

fn renderer(work: &ScratchDir) -> Renderer {
    let door = env!("CARGO_BIN_EXE_windlass-sandbox");
    let options = RendererOptions {
        kustomize: Some(tools::path(Tool::Kustomize).unwrap()),
        helm: Some(tools::path(Tool::Helm).unwrap()),
        ..RendererOptions::new(work.path().join("scratch"), vec![door.into()])
    };
    Renderer::new(options).unwrap()
}

fn repos(
    hub: &Client,
    work: &ScratchDir,
    renderer: &Renderer,
    waker: &Arc<OnceLock<Waker>>,
    registry: &mut Registry,
) -> Repos<Renderer> {
    let (repositories, _) =
        Repositories::open(&work.path().join("repositories"), MirrorOptions::default()).unwrap();
    let waker = Arc::clone(waker);
    let wake: origin::Wake = Arc::new(move |key: Key| {
        if let Some(waker) = waker.get() {
            waker.wake(key);
        }
    });
    let settings = origin::Settings {
        backoff: Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(5) },
        ..origin::Settings::default()
    };
    let metrics = OriginMetrics::registered(registry);
    Repos::new(hub.clone(), Arc::new(repositories), renderer.clone(), wake, settings, metrics)
}

fn fleet(
    hub: &Client,
    network: Arc<Network>,
    limits: Limits,
    waker: &Arc<OnceLock<Waker>>,
) -> Fleet<HubConnector> {
    let connector = HubConnector::new(hub.clone(), network, HOME, SecretNamespaces::All, limits);
    let waker = Arc::clone(waker);
    let wakes = Arc::new(move |wake: Wake| {
        let Some(waker) = waker.get() else { return };
        match wake {
            Wake::All => drop(waker.wake_all()),
            Wake::App(key) => drop(waker.wake(key) || waker.wake_all()),
        }
    });
    Fleet::new(hub.clone(), connector, wakes, FleetOptions::default())
}

fn clusters(
    hub: &Client,
    network: Arc<Network>,
    services: Services,
) -> Drive<ClusterController<Arc<Network>>> {
    let settings = cluster::Settings {
        namespace: HOME.to_owned(),
        secret_namespaces: SecretNamespaces::All,
        heartbeat: Duration::from_secs(300),
    };
    let controller = ClusterController::new(hub.clone(), network, settings, ClusterMetrics::default());
    Drive::new(Arc::new(controller), services, Options::default()).related(secrets(hub, None))
}

/// Changes of Secrets, of which the repositories hear before anybody is woken.
fn secrets(
    hub: &Client,
    repos: Option<Repos<Renderer>>,
) -> impl futures::Stream<Item = Seen> + Send + 'static {
    let api: Api<PartialObjectMeta<Secret>> = Api::all(hub.clone());
    watching::references(api, &Selection::default(), "secrets").inspect(move |seen| {
        if let (Some(repos), Seen::Changed(reference)) = (&repos, seen) {
            repos.secret_changed(reference.namespace.as_deref().unwrap_or_default(), &reference.name);
        }
    })
}
