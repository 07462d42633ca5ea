//! A real control plane with the kinds and the controllers of this part, for as long as the test program runs.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate, Experiment,
    analysis::{AnalysisRunStatus, Phase},
};
use windlass_cluster::{
    clock::Clock,
    drive::{Metrics, Options, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::Gate,
};
use windlass_rollout::{
    analysis::{AnalysisController, AnalysisMetrics},
    experiment::ExperimentController,
};
use windlass_testbed::control_plane::{ControlPlane, Namespace};

pub struct House {
    control_plane: &'static ControlPlane,
}

static HOUSE: OnceCell<House> = OnceCell::const_new();

/// The control plane, with the controllers at work.
pub async fn house() -> &'static House {
    HOUSE
        .get_or_init(|| async {
            let control_plane = ControlPlane::shared().await.unwrap();
            control_plane.ensure_nodes(2).await.unwrap();
            install(&control_plane.admin()).await;
            let config = control_plane.config(&windlass_testbed::control_plane::User::Admin).unwrap();
            // A runtime of its own: each test has one that ends with it.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    control(Client::try_from(config).unwrap(), CancellationToken::new()).await;
                });
            });
            House { control_plane }
        })
        .await
}

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds =
        [AnalysisRun::crd(), AnalysisTemplate::crd(), ClusterAnalysisTemplate::crd(), Experiment::crd()];
    for crd in crds {
        let name = crd.name_any();
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&crd)).await.unwrap();
        let established = kube::runtime::conditions::is_crd_established();
        let wait = kube::runtime::wait::await_condition(api.clone(), &name, established);
        tokio::time::timeout(Duration::from_mins(1), wait).await.unwrap().unwrap();
    }
}

/// Runs the controllers until they are stopped.
pub async fn control(client: Client, stop: CancellationToken) {
    let clock = Clock::system();
    let reporter = Reporter { controller: "windlass.dev/analysis".into(), instance: "test".into() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let services = Services {
        client: client.clone(),
        gate: Gate::open(),
        clock: clock.clone(),
        recorder,
        metrics: Metrics::new(),
    };
    let network = super::measure::network();
    let runs = AnalysisController::new(client.clone(), network, clock, AnalysisMetrics::default());
    let runs = runs.drive(services.clone(), Options::default());
    let experiments = ExperimentController::new(client).drive(services, Options::default());
    tokio::join!(runs.run(stop.clone()), experiments.run(stop.clone()), publisher.run(stop));
}

impl House {
    pub fn client(&self) -> Client {
        self.control_plane.admin()
    }

    pub async fn namespace(&self, prefix: &str) -> Namespace {
        self.control_plane.namespace(prefix).await.unwrap()
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), namespace)
    }

    /// Makes an object of any kind.
    pub async fn make<K>(&self, namespace: &str, name: &str, spec: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let mut object =
            json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name } });
        object.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object: K = serde_json::from_value(object).unwrap();
        self.api(namespace).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Waits until something holds for an object, and gives it.
    pub async fn wait<K>(&self, namespace: &str, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = self.api(namespace);
        let mut last = None;
        for _ in 0..900 {
            last = api.get_opt(name).await.unwrap();
            if let Some(object) = &last
                && holds(object)
            {
                return object.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} never {what}: {last:#?}");
    }

    /// Waits until something is gone.
    pub async fn gone<K>(&self, namespace: &str, name: &str)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.api(namespace);
        for _ in 0..600 {
            if api.get_opt(name).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} is still there");
    }

    /// Waits until a run has ended, and gives its status.
    pub async fn ended(&self, namespace: &str, run: &str) -> AnalysisRunStatus {
        let ended = |run: &AnalysisRun| run.status.as_ref().is_some_and(|status| status.phase.completed());
        self.wait(namespace, run, "ends", ended).await.status.unwrap()
    }
}

/// The phase of a run as far as it is known.
pub fn phase(run: &AnalysisRun) -> Phase {
    run.status.as_ref().map(|status| status.phase).unwrap_or_default()
}
