//! The Cluster controller on a real control plane: schema rules, Secrets that come late and rotate, the finalizer,
//! and the walk over every field of the kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_api::{Cluster, cluster::FINALIZER};
use windlass_cluster::{
    clock::Clock,
    connect::{ClientCache, Credentials, KubeconfigPolicy},
    drive::{Drive, Metrics, Options, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::Gate,
    watch::{self, Selection},
};
use windlass_deliver::cluster::{ClusterController, ClusterMetrics, Network, SecretNamespaces, Settings};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    walk,
};

const HOME: &str = "default";

/// A control plane with the kind and a controller that runs as long as the test program.
struct House {
    control_plane: &'static ControlPlane,
    controller: std::thread::JoinHandle<()>,
}

static HOUSE: OnceCell<House> = OnceCell::const_new();

async fn house() -> &'static House {
    HOUSE
        .get_or_init(|| async {
            let control_plane = ControlPlane::shared().await.unwrap();
            install(&control_plane.admin()).await;
            let kubeconfig = control_plane.kubeconfig_path(&User::Admin).unwrap();
            // A runtime of its own: each test has one that ends with it.
            let controller = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(control(Credentials::File { path: Some(kubeconfig), context: None }));
            });
            House { control_plane, controller }
        })
        .await
}

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &Cluster::crd()).await.unwrap();
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(api, Cluster::crd_name(), established);
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap().unwrap();
}

async fn control(own: Credentials) {
    let cache = ClientCache::new(KubeconfigPolicy::default(), None);
    let client = cache.get("hub", &own, &windlass_cluster::connect::Limits::default()).await.unwrap();
    let clock = Clock::system();
    let reporter = Reporter { controller: "windlass.dev/cluster".into(), instance: "test".into() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let settings = Settings {
        namespace: HOME.into(),
        secret_namespaces: SecretNamespaces::Only([HOME.to_owned()].into()),
        heartbeat: Duration::from_secs(300),
    };
    let services =
        Services { client: client.clone(), gate: Gate::open(), clock, recorder, metrics: Metrics::new() };
    let network = Network { cache, own };
    let controller = ClusterController::new(client.clone(), network, settings, ClusterMetrics::default());
    let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(client, HOME);
    let drive = Drive::new(Arc::new(controller), services, Options::default()).related(watch::references(
        secrets,
        &Selection::default(),
        "secrets",
    ));
    let never = CancellationToken::new();
    tokio::join!(drive.run(never.clone()), publisher.run(never));
}

impl House {
    fn clusters(&self) -> Api<Cluster> {
        Api::all(self.control_plane.admin())
    }

    async fn store(&self, name: &str, kubeconfig: &str) {
        let api: Api<Secret> = Api::namespaced(self.control_plane.admin(), HOME);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "kubeconfig": kubeconfig },
        });
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    }

    fn good(&self) -> String {
        serde_saphyr::to_string(&self.control_plane.kubeconfig(&User::Admin).unwrap()).unwrap()
    }

    async fn register(&self, name: &str, spec: Value) -> kube::Result<Cluster> {
        let cluster = serde_json::from_value(json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": spec })).unwrap();
        self.clusters().create(&PostParams::default(), &cluster).await
    }

    /// Waits until Ready says this, and gives the message.
    async fn says(&self, name: &str, status: &str, reason: &str) -> String {
        let mut last = None;
        for _ in 0..300 {
            let cluster = self.clusters().get(name).await.unwrap();
            last = cluster
                .status
                .and_then(|status| status.conditions.into_iter().find(|ready| ready.type_ == "Ready"));
            if let Some(ready) = &last
                && (ready.status.as_str(), ready.reason.as_str()) == (status, reason)
            {
                return ready.message.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} should say {status} {reason}, it says {last:?}");
    }
}

fn by_secret(name: &str) -> Value {
    json!({ "kubeconfig": { "secretRef": { "name": name } }, "probe": { "interval": "2s" } })
}

#[tokio::test]
async fn a_cluster_becomes_ready_when_its_secret_appears_and_follows_its_rotation() {
    let house = house().await;
    house.register("late", by_secret("late")).await.unwrap();
    let message = house.says("late", "False", "SecretNotFound").await;
    assert!(message.contains("becomes ready when it appears"), "{message}");
    house.store("late", "this: is no kubeconfig").await;
    let cluster = house.clusters().get("late").await.unwrap();
    assert_eq!(cluster.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    house.store("late", &house.good()).await;
    house.says("late", "True", "Reachable").await;
    let status = house.clusters().get("late").await.unwrap().status.unwrap();
    assert!(status.version.unwrap().starts_with("v1.36"));
    assert_eq!(status.server.as_deref(), Some(house.control_plane.url().trim_end_matches('/')));
    assert!(status.reachable.unwrap() && status.latency.is_some() && status.last_probe.is_some());

    let elsewhere = house.good().replace(&house.control_plane.url(), "https://127.0.0.1:9");
    house.store("late", &elsewhere).await;
    house.says("late", "False", "ConnectionRefused").await;
    assert!(!house.controller.is_finished());
}

#[tokio::test]
async fn the_controllers_own_cluster_needs_no_secret() {
    let house = house().await;
    house.register("own", json!({ "inCluster": {} })).await.unwrap();
    house.says("own", "True", "Reachable").await;
}

#[tokio::test]
async fn a_deleted_cluster_goes_and_a_suspended_one_is_left_alone() {
    let house = house().await;
    house.register("brief", json!({ "inCluster": {}, "suspend": true })).await.unwrap();
    house.says("brief", "False", "Suspended").await;
    house.clusters().delete("brief", &DeleteParams::default()).await.unwrap();
    for _ in 0..100 {
        if house.clusters().get_opt("brief").await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the finalizer is still there");
}

#[tokio::test]
async fn the_schema_refuses_what_makes_no_sense_and_names_the_rule() {
    let house = house().await;
    let refused = [
        (json!({}), "exactly one of"),
        (json!({ "inCluster": {}, "kubeconfig": { "secretRef": { "name": "a" } } }), "exactly one of"),
        (json!({ "inCluster": {}, "qps": 0 }), "spec.qps"),
        (json!({ "inCluster": {}, "qps": 10, "burst": 5 }), "must not be smaller than spec.qps"),
        (json!({ "inCluster": {}, "probe": { "interval": "10ms" } }), "at least 1s"),
        (json!({ "inCluster": {}, "probe": { "interval": "soon" } }), "spec.probe.interval"),
        (json!({ "inCluster": {}, "probe": { "timeout": "5m" } }), "between 100ms and 60s"),
        (json!({ "kubeconfig": { "secretRef": { "name": "../etc" } } }), "spec.kubeconfig.secretRef.name"),
    ];
    for (spec, rule) in refused {
        let body = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "nonsense" }, "spec": spec });
        let request = http(&body);
        let error = house.control_plane.admin().request::<Value>(request).await.unwrap_err();
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!(status.code, 422, "{spec}");
        assert!(status.message.contains(rule), "{spec}: {}", status.message);
    }
}

fn http(body: &Value) -> http::Request<Vec<u8>> {
    http::Request::post("/apis/windlass.dev/v1alpha1/clusters")
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap()
}

#[tokio::test]
async fn a_secret_outside_of_the_allowed_namespaces_is_not_read() {
    let house = house().await;
    let spec = json!({ "kubeconfig": { "secretRef": { "name": "any", "namespace": "kube-system" } } });
    house.register("foreign", spec).await.unwrap();
    let message = house.says("foreign", "False", "SecretNamespaceNotAllowed").await;
    assert!(message.contains("--secret-namespaces=kube-system"), "{message}");
}

/// Every field is set, changed, removed and set to nonsense; the controller lives, explains, and comes to the same
/// state as with a fresh object.
#[tokio::test]
async fn every_field_of_a_cluster_is_walked() {
    let house = house().await;
    house.store("walk", &house.good()).await;
    let base = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "walk" },
        "spec": { "kubeconfig": { "secretRef": { "name": "walk", "namespace": HOME, "key": "kubeconfig" } },
                  "qps": 20, "burst": 40, "probe": { "interval": "5s", "timeout": "5s" }, "suspend": false },
    });
    let alive = || async {
        let ended = HOUSE.get().is_none_or(|house| house.controller.is_finished());
        if ended { Err(anyhow::anyhow!("the controller ended")) } else { Ok(()) }
    };
    let hooks = walk::Hooks::new(alive).patience(Duration::from_secs(30)).normalize(|object| {
        let mut status = object["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            for volatile in ["lastProbe", "latency", "observedGeneration"] {
                fields.remove(volatile);
            }
            for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                condition["lastTransitionTime"] = Value::Null;
                condition["observedGeneration"] = Value::Null;
            }
        }
        status
    });
    let report = walk::run(house.control_plane.admin(), &Cluster::crd(), &base, &hooks).await.unwrap();
    report.check().unwrap();
    assert!(report.accepted > 15 && report.refused > 30, "{report:?}");
}
