//! Who is in the fleet, in virtual time over the in-memory API.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::Cluster;
use windlass_deliver::{
    fleet::{Connector, Contact, Fleet, FleetOptions, Member, Wake},
    trouble::Trouble,
};
use windlass_testbed::sim::api::Api;

use crate::common::{Woken, app, apply, config_map, gvk, key, until};

/// A network of in-memory clusters: the name of the kubeconfig's Secret says which, and with which credentials.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<BTreeMap<String, Client>>>);

impl Paper {
    fn plug(&self, secret: &str, client: Client) {
        self.0.lock().unwrap().insert(secret.to_owned(), client);
    }

    fn find(&self, secret: &str) -> Result<Contact, Trouble> {
        let found = self.0.lock().unwrap().get(secret).cloned();
        let client = found.ok_or_else(|| Trouble::standing("SecretNotFound", "no such secret", "make it"))?;
        Ok(Contact { client, identity: secret.to_owned(), impersonates: false })
    }
}

impl Connector for Paper {
    async fn connect(&self, cluster: &Cluster) -> Result<Contact, Trouble> {
        if cluster.name_any() == "stuck" {
            std::future::pending::<()>().await;
        }
        self.find(&cluster.spec.kubeconfig.as_ref().unwrap().secret_ref.name)
    }

    async fn own(&self) -> Result<Contact, Trouble> {
        self.find("own")
    }
}

struct House {
    hub: Api,
    paper: Paper,
    fleet: Arc<Fleet<Paper>>,
    woken: Woken,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

async fn house(before: impl FnOnce(&Api)) -> House {
    let (hub, paper, woken) = (Api::new(), Paper::default(), Woken::default());
    hub.install_crd(&Cluster::crd()).unwrap();
    paper.plug("own", hub.client("own"));
    before(&hub);
    let fleet =
        Arc::new(Fleet::new(hub.client("hub"), paper.clone(), woken.wakes(), FleetOptions::default()));
    let stop = CancellationToken::new();
    let (running, end) = (Arc::clone(&fleet), stop.clone());
    let running = tokio::spawn(async move { running.run(end).await });
    let mut warm = fleet.warm();
    tokio::time::timeout(Duration::from_secs(120), warm.wait_for(|warm| *warm)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    woken.take();
    House { hub, paper, fleet, woken, stop, running }
}

fn cluster(name: &str, secret: &str) -> Value {
    json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        "spec": { "kubeconfig": { "secretRef": { "name": secret } } } })
}

fn at(name: &str) -> (&str, &str, &str, &str) {
    ("windlass.dev/v1alpha1", "Cluster", "", name)
}

impl House {
    /// As the Cluster controller would say.
    async fn says(&self, name: &str, status: &str, probed: &str) {
        let generation =
            self.hub.get("windlass.dev/v1alpha1", "Cluster", "", name).unwrap()["metadata"]["generation"]
                .clone();
        let body = json!({ "status": { "version": "v1.36.3", "lastProbe": probed, "conditions": [{
            "type": "Ready", "status": status, "reason": "Told", "message": "Told so.",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        let request = http::Request::patch(format!("/apis/windlass.dev/v1alpha1/clusters/{name}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(body.to_string().into_bytes())
            .unwrap();
        self.hub.client("controller").request::<Value>(request).await.unwrap();
    }

    fn member(&self, name: &str) -> Option<Member> {
        self.fleet.members().into_iter().find(|member| member.name == name)
    }

    fn reason(&self, name: &str) -> Option<&'static str> {
        self.member(name)?.trouble.map(|trouble| trouble.reason)
    }

    async fn is_usable(&self, name: &str) {
        until(name, || self.fleet.link(name).is_ok()).await;
    }

    async fn register(&self, name: &str, secret: &str) {
        self.hub.create("user", &cluster(name, secret)).unwrap();
        self.says(name, "True", "2026-01-01T00:00:00Z").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_controllers_own_cluster_is_a_member_until_a_cluster_takes_its_name() {
    let house = house(|_| {}).await;
    let own = house.member("in-cluster").unwrap();
    assert_eq!((own.trouble, own.labels["windlass.dev/cluster"].as_str()), (None, "in-cluster"));
    assert!(own.version.is_some(), "nobody else asks it for its version");
    assert!(house.fleet.link("in-cluster").is_ok());
    house.hub.create("user", &cluster("in-cluster", "missing")).unwrap();
    until("the Cluster", || house.reason("in-cluster") == Some("ClusterNotReady")).await;
    house.hub.delete("user", at("in-cluster")).unwrap();
    house.is_usable("in-cluster").await;
    assert!(!house.running.is_finished());
    house.stop.cancel();
    house.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_registered_later_appears_and_one_that_goes_is_left_out() {
    let house = house(|_| {}).await;
    house.paper.plug("east", Api::new().client("east"));
    house.hub.create("user", &cluster("east", "east")).unwrap();
    until("it is seen", || house.member("east").is_some()).await;
    assert_eq!(house.reason("east"), Some("ClusterNotReady"));
    assert_eq!(house.fleet.link("east").unwrap_err().reason, "ClusterNotReady");
    house.says("east", "True", "2026-01-01T00:00:00Z").await;
    house.is_usable("east").await;
    assert!(house.woken.take().contains(&Wake::All));
    assert_eq!(house.member("east").unwrap().version.as_deref(), Some("v1.36.3"));
    house
        .hub
        .mutate("user", at("east"), |it| it["metadata"]["finalizers"] = json!(["windlass.dev/cluster"]))
        .unwrap();
    house.hub.delete("user", at("east")).unwrap();
    until("it leaves", || house.member("east").is_none()).await;
    assert_eq!(house.fleet.link("east").unwrap_err().reason, "ClusterNotFound");
    assert!(house.woken.take().contains(&Wake::All));
}

#[tokio::test(start_paused = true)]
async fn a_new_label_wakes_all_and_a_heartbeat_nobody() {
    let house = house(|_| {}).await;
    house.paper.plug("east", Api::new().client("east"));
    house.register("east", "east").await;
    house.is_usable("east").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    house.woken.take();
    house.says("east", "True", "2026-01-01T00:05:00Z").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(house.woken.take().is_empty(), "a heartbeat, and a check of the connection");
    house.hub.mutate("user", at("east"), |it| it["metadata"]["labels"] = json!({ "tier": "prod" })).unwrap();
    until("the label", || house.member("east").unwrap().labels.contains_key("tier")).await;
    assert_eq!(house.woken.take(), [Wake::All]);
    house.says("east", "False", "2026-01-01T00:06:00Z").await;
    until("it is not ready", || house.reason("east") == Some("ClusterNotReady")).await;
    assert_eq!(house.woken.take(), [Wake::All]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_connected_delays_no_other() {
    let house = house(|hub| {
        hub.create("user", &cluster("stuck", "x")).unwrap();
    })
    .await;
    house.says("stuck", "True", "2026-01-01T00:00:00Z").await;
    house.paper.plug("east", Api::new().client("east"));
    let begin = tokio::time::Instant::now();
    house.register("east", "east").await;
    house.is_usable("east").await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    until("it is told", || house.reason("stuck") == Some("ConnectionSlow")).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspected_cluster_is_set_aside_until_a_probe_succeeds() {
    let house = house(|_| {}).await;
    let east = Api::new();
    let (client, broken) = (east.client("east"), Arc::new(Mutex::new(true)));
    let gate = Arc::clone(&broken);
    let flaky = Client::new(
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (client, broken) = (client.clone(), *gate.lock().unwrap());
            async move {
                if broken {
                    return Err(tower::BoxError::from("connection refused"));
                }
                Ok(client.send(request).await?)
            }
        }),
        "default",
    );
    house.paper.plug("east", flaky);
    house.register("east", "east").await;
    house.is_usable("east").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    house.woken.take();
    house.fleet.suspect("east", &Trouble::passing("Timeout", "no answer", ""));
    assert_eq!(house.reason("east"), Some("Timeout"));
    assert_eq!(house.fleet.link("east").unwrap_err().what, "no answer");
    assert!(house.fleet.link("in-cluster").is_ok());
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(house.reason("east"), Some("Timeout"));
    assert!(house.woken.take().is_empty());
    *broken.lock().unwrap() = false;
    house.is_usable("east").await;
    assert_eq!(house.woken.take(), [Wake::All]);
}

#[tokio::test(start_paused = true)]
async fn new_credentials_give_a_new_client_whose_watches_go_on() {
    let house = house(|_| {}).await;
    let (old, new) = (Api::new(), Api::new());
    house.paper.plug("old", old.client("east"));
    house.paper.plug("new", new.client("east"));
    house.register("east", "old").await;
    house.is_usable("east").await;
    let object = config_map("default", "a", &app("shop", "web"));
    let first = house.fleet.link("east").unwrap();
    first.index().ensure(&[gvk(&object)], Duration::from_secs(10)).await.unwrap();
    house
        .hub
        .mutate("user", at("east"), |it| it["spec"]["kubeconfig"]["secretRef"]["name"] = "new".into())
        .unwrap();
    house.says("east", "True", "2026-01-01T00:00:00Z").await;
    until("another link", || house.fleet.link("east").is_ok_and(|link| !Arc::ptr_eq(&link, &first))).await;
    let second = house.fleet.link("east").unwrap();
    until("it is watched again", || second.index().is_watched(&gvk(&object))).await;
    house.woken.take();
    apply(&new.client("other"), &object).await;
    until("the event", || second.index().get(&key(&object)).is_some()).await;
    assert_eq!(house.woken.take(), [Wake::App(app("shop", "web"))]);
    apply(&old.client("other"), &object).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(first.index().get(&key(&object)).is_none(), "nobody looks there any more");

    house.paper.0.lock().unwrap().remove("new");
    until("the lost secret", || house.reason("east") == Some("SecretNotFound")).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_cluster_is_told_by_its_name() {
    let house = house(|_| {}).await;
    let trouble = house.fleet.link("nowhere").unwrap_err();
    assert_eq!(trouble.reason, "ClusterNotFound");
    assert!(trouble.message().contains("nowhere") && trouble.waits_for_change);
}
