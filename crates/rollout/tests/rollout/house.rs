//! One control plane and one controller for all tests of this program, a namespace for each test.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    process::Command,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Rollout, RolloutStatus, crds,
    rollout::{POD_TEMPLATE_HASH, status::Phase},
};
use windlass_cluster::{
    clock::Clock,
    drive::{Metrics, Options, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::Gate,
    watch::Selection,
};
use windlass_rollout::{
    Parts, RolloutController, RolloutMetrics,
    analysis::{
        AnalysisController, AnalysisMetrics,
        measure::{Http, Network},
    },
    cdevents::{Origin, Outbox},
    experiment::ExperimentController,
};
use windlass_testbed::control_plane::{ControlPlane, Namespace, User};

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Label of Rollouts that a controller of their own looks after.
pub const OWN: &str = "test/own-controller";

static READY: OnceCell<()> = OnceCell::const_new();

/// A test's own namespace, and what it needs in it.
pub struct House {
    pub client: Client,
    pub namespace: Namespace,
}

/// A controller; it ends when this is dropped.
pub struct Running {
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Runs a controller of Rollouts on a thread of its own, as a process would, for those that are selected.
pub fn controller(plane: &ControlPlane, labels: &str, outbox: Option<Outbox>) -> Running {
    let selection = Selection::labels(labels.to_owned());
    run(plane, async move |client, stop| {
        let services = services(&client, &stop);
        let parts = Parts {
            client,
            clock: services.clock.clone(),
            outbox,
            origin: Origin::default(),
            metrics: RolloutMetrics::default(),
        };
        let options = Options { selection, ..Options::default() };
        let controller = RolloutController::new(parts);
        let freed = controller.freed().drive(services.clone(), Options::default());
        let rollouts = controller.drive(services, options);
        tokio::join!(rollouts.run(stop.clone()), freed.run(stop));
    })
}

/// Runs the controllers of runs and experiments.
fn judges(plane: &ControlPlane) -> Running {
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(plane, async |client, stop| {
        let services = services(&client, &stop);
        let clock = services.clock.clone();
        let network = Network::new(Http::new().unwrap(), clock.clone(), None);
        let runs = AnalysisController::new(client.clone(), network, clock, AnalysisMetrics::default());
        let runs = runs.drive(services.clone(), Options::default());
        let experiments = ExperimentController::new(client).drive(services, Options::default());
        tokio::join!(runs.run(stop.clone()), experiments.run(stop));
    })
}

/// Work on a thread of its own: each test has a runtime that ends with it.
fn run<F>(plane: &ControlPlane, work: F) -> Running
where
    F: AsyncFnOnce(Client, CancellationToken) + Send + 'static,
{
    let config = plane.config(&User::Admin).unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async move { work(Client::try_from(config).unwrap(), stopped).await });
        runtime.shutdown_background();
    });
    Running { stop }
}

fn services(client: &Client, stop: &CancellationToken) -> Services {
    let clock = Clock::system();
    let reporter = Reporter { controller: "windlass.dev/controller".into(), instance: "test".into() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    tokio::spawn(publisher.run(stop.clone()));
    Services { client: client.clone(), gate: Gate::open(), clock, recorder, metrics: Metrics::new() }
}

async fn prepare(plane: &'static ControlPlane) {
    plane.ensure_nodes(3).await.unwrap();
    let client = plane.admin();
    let mut all = crds::all();
    all.extend(gateway_schemas());
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in &all {
        let params = PatchParams::apply("test").force();
        api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await.unwrap();
    }
    for crd in &all {
        let name = crd.name_any();
        until(&format!("{name} is served"), || async {
            let found = api.get(&name).await.ok()?;
            let conditions = found.status?.conditions.unwrap_or_default();
            conditions.iter().any(|one| one.type_ == "Established" && one.status == "True").then_some(())
        })
        .await;
    }
    // For the life of the process.
    std::mem::forget((controller(plane, &format!("!{OWN}"), None), judges(plane)));
}

/// The schemas of `HTTPRoute` and `GRPCRoute` as Gateway API publishes them.
fn gateway_schemas() -> Vec<CustomResourceDefinition> {
    let module = "sigs.k8s.io/gateway-api@v1.4.0";
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(std::env::temp_dir())
        .output()
        .expect("Go is needed to fetch the schemas of the Gateway API");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let folder = format!("{}/config/crd/standard", told["Dir"].as_str().unwrap());
    ["httproutes", "grpcroutes"]
        .map(|plural| {
            let path = format!("{folder}/gateway.networking.k8s.io_{plural}.yaml");
            serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        })
        .into()
}

/// Polls until there is an answer.
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl House {
    pub async fn new(name: &str) -> Self {
        let plane = ControlPlane::shared().await.unwrap();
        READY.get_or_init(|| prepare(plane)).await;
        Self { client: plane.admin(), namespace: plane.namespace(name).await.unwrap() }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn routes(&self, kind: &str) -> Api<DynamicObject> {
        let plural = format!("{}s", kind.to_lowercase());
        let gvk = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::from_gvk_with_plural(&gvk, &plural),
        )
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn service(&self, name: &str) {
        let ports = json!([{ "port": 80 }]);
        self.create::<Service>(json!({
            "metadata": { "name": name }, "spec": { "selector": { "app": "web" }, "ports": ports },
        }))
        .await;
    }

    /// A Rollout named `web` with this strategy.
    pub async fn rollout(&self, replicas: i32, strategy: Value) -> Rollout {
        self.rollout_with(replicas, strategy, json!({})).await
    }

    /// The same with more fields of the spec.
    pub async fn rollout_with(&self, replicas: i32, strategy: Value, more: Value) -> Rollout {
        let mut spec = json!({
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template("v1"),
            "strategy": strategy,
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.create(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout", "metadata": { "name": "web" }, "spec": spec,
        }))
        .await
    }

    pub async fn get(&self) -> Rollout {
        self.api::<Rollout>().get("web").await.unwrap()
    }

    pub async fn status(&self) -> RolloutStatus {
        self.get().await.status.unwrap_or_default()
    }

    /// A merge patch of the Rollout.
    pub async fn patch(&self, patch: Value) -> Rollout {
        self.api::<Rollout>().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// A merge patch of the status, as the verbs of people write it.
    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<Rollout>().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn set_version(&self, version: &str) {
        self.patch(json!({ "spec": { "template": template(version) } })).await;
    }

    /// Goes on from a pause step.
    pub async fn promote(&self) {
        let status = self.status().await;
        let next = status.current_step_index.unwrap_or(0) + 1;
        self.patch_status(
            json!({ "pauseConditions": null, "controllerPause": false, "currentStepIndex": next }),
        )
        .await;
    }

    pub async fn abort(&self) {
        self.patch_status(json!({ "abort": true })).await;
    }

    pub async fn retry(&self) {
        self.patch_status(json!({ "abort": false, "abortedAt": null })).await;
    }

    /// Waits until the status is so.
    pub async fn until_status(&self, what: &str, check: impl Fn(&RolloutStatus) -> bool) -> RolloutStatus {
        let begin = Instant::now();
        loop {
            let rollout = self.get().await;
            let status = rollout.status.clone().unwrap_or_default();
            if status.observed_generation == rollout.metadata.generation && check(&status) {
                return status;
            }
            if begin.elapsed() > PATIENCE {
                let sets = self.sets().await;
                panic!("never: {what}\n{}\n{sets:#?}", serde_json::to_string_pretty(&status).unwrap());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks for all pods to be made anew, a second after the last of them was made: times have whole seconds.
    pub async fn restart(&self) {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        self.patch(json!({ "spec": { "restartAt": jiff::Timestamp::now().to_string() } })).await;
    }

    pub async fn until_phase(&self, phase: Phase) -> RolloutStatus {
        self.until_status(&format!("{phase:?}"), |status| status.phase == Some(phase)).await
    }

    /// Waits until the newest template is stable and nothing else is left to do.
    pub async fn until_done(&self) -> RolloutStatus {
        self.until_status("completed", |status| {
            status.phase == Some(Phase::Completed) && status.current_pod_hash == status.stable_rs
        })
        .await
    }

    /// Waits for a pause at this step.
    pub async fn until_paused_at(&self, step: i32) -> RolloutStatus {
        self.until_status(&format!("paused at step {step}"), |status| {
            !status.pause_conditions.is_empty() && status.current_step_index == Some(step)
        })
        .await
    }

    /// Version, wanted and available pods of each `ReplicaSet`.
    pub async fn sets(&self) -> BTreeMap<String, (i32, i32)> {
        let sets = self.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
        let told = |set: ReplicaSet| {
            let spec = set.spec.unwrap();
            let version = version(&serde_json::to_value(&spec.template).unwrap());
            let available = set.status.and_then(|status| status.available_replicas).unwrap_or(0);
            (version, (spec.replicas.unwrap_or(0), available))
        };
        sets.items.into_iter().map(told).collect()
    }

    /// Waits until the `ReplicaSets` want and have so many pods. One that is not named has none.
    pub async fn until_sets(&self, expected: &[(&str, i32)]) {
        let mut last = BTreeMap::new();
        let begin = Instant::now();
        loop {
            let sets = self.sets().await;
            let wanted = |version: &String| {
                expected.iter().find(|(name, _)| name == version).map_or(0, |(_, count)| *count)
            };
            let there = expected.iter().all(|(version, _)| sets.contains_key(*version));
            if there && sets.iter().all(|(version, counts)| *counts == (wanted(version), wanted(version))) {
                return;
            }
            if sets != last {
                last = sets;
            }
            assert!(begin.elapsed() < PATIENCE, "never {expected:?}: {last:?}, {:?}", self.status().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The hash of a version.
    pub async fn hash(&self, wanted: &str) -> String {
        let sets = self.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
        let found = sets.items.into_iter().find(|set| {
            let template = serde_json::to_value(&set.spec.as_ref().unwrap().template).unwrap();
            version(&template) == wanted
        });
        found.unwrap().labels()[POD_TEMPLATE_HASH].clone()
    }

    /// The version that a Service selects.
    pub async fn selected(&self, service: &str) -> Option<String> {
        let service = self.api::<Service>().get(service).await.unwrap();
        let hash = service.spec?.selector?.get(POD_TEMPLATE_HASH)?.clone();
        let labels = format!("{POD_TEMPLATE_HASH}={hash}");
        let sets = self.api::<ReplicaSet>().list(&ListParams::default().labels(&labels)).await.unwrap();
        let set = sets.items.into_iter().next()?;
        Some(version(&serde_json::to_value(&set.spec?.template).unwrap()))
    }

    pub async fn until_selected(&self, service: &str, wanted: &str) {
        until(&format!("{service} selects {wanted}"), || async {
            (self.selected(service).await.as_deref() == Some(wanted)).then_some(())
        })
        .await;
    }

    pub async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn plane() -> &'static ControlPlane {
        ControlPlane::shared().await.unwrap()
    }
}

/// A pod template of this version.
pub fn template(version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "version": version } },
        "spec": { "containers": [{ "name": "main", "image": format!("example.com/web:{version}") }] },
    })
}

/// A pod template whose pods never become ready.
pub fn never_ready(version: &str) -> Value {
    let mut template = template(version);
    template["metadata"]["labels"][windlass_testbed::nodes::POD_LABEL] = json!("never-ready");
    template
}

fn version(template: &Value) -> String {
    template["metadata"]["annotations"]["version"].as_str().unwrap_or_default().to_owned()
}

/// Whether a condition has this state.
pub fn is(status: &RolloutStatus, kind: &str, wanted: &str) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == kind && condition.status == wanted)
}

/// Reason of a condition.
pub fn reason<'a>(status: &'a RolloutStatus, kind: &str) -> &'a str {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or("", |condition| condition.reason.as_str())
}
