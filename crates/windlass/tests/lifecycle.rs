//! The controller through the troubles of its life, as real processes on a real control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    net::TcpListener,
    path::PathBuf,
    time::{Duration, Instant},
};

use k8s_openapi::{
    ByteString, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use rustix::process::Signal;
use support::{
    controller::{Replica, SOON, Start},
    eventually,
    fleet::{Fleet, install_crds},
};
use tokio::sync::{Mutex, MutexGuard};
use windlass_testbed::{
    control_plane::{ControlPlane, Namespace, User},
    pki,
    process::Port,
};

/// What a busy test machine may add to a time that is promised.
const NOISE: Duration = Duration::from_secs(5);

/// Clusters belong to the whole control plane: one test at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A namespace on the shared control plane, and the right to use the Clusters on it.
struct Stage {
    plane: &'static ControlPlane,
    namespace: Namespace,
    fleet: Fleet,
    /// Written once: each call of `kubeconfig_path` writes the file anew, and a replica may be reading it.
    admin: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    async fn set() -> Self {
        let turn = TURN.lock().await;
        let plane = ControlPlane::shared().await.unwrap();
        let namespace = plane.namespace("lifecycle").await.unwrap();
        let client = plane.admin();
        install_crds(&client).await;
        let fleet = Fleet { client, namespace: namespace.name().to_owned() };
        fleet.wipe().await;
        let admin = plane.kubeconfig_path(&User::Admin).unwrap();
        Self { plane, namespace, fleet, admin, _turn: turn }
    }

    fn replica(&self, identity: &str) -> Replica {
        Replica::start(Start {
            kubeconfig: &self.admin,
            namespace: self.namespace.name(),
            identity,
            args: vec!["--log-level=info,windlass_cluster=debug".to_owned()],
        })
    }

    /// Two replicas, both ready, the one that leads first.
    async fn pair(&self) -> (Replica, Replica) {
        let (a, b) = (self.replica("a"), self.replica("b"));
        a.ready().await;
        b.ready().await;
        let holder = self.fleet.holder_other_than("windlass", "", SOON).await;
        if holder == "a" { (a, b) } else { (b, a) }
    }

    /// A kubeconfig that works.
    fn kubeconfig(&self) -> String {
        std::fs::read_to_string(&self.admin).unwrap()
    }
}

#[tokio::test]
async fn after_a_kill_the_standby_goes_on() {
    let stage = Stage::set().await;
    let fleet = &stage.fleet;
    let (mut leader, standby) = stage.pair().await;
    eventually("a standby that could take over is ready", SOON, || async {
        let (code, checks) = standby.get("/readyz?verbose").await?;
        let passed = ["[+]cache/cluster ok", "[+]lease ok"].iter().all(|check| checks.contains(check));
        if code == 200 && passed { Ok(()) } else { Err(format!("{code}: {checks}")) }
    })
    .await;
    fleet.register("good", &stage.kubeconfig()).await;
    fleet.wait("good", "True", SOON).await;
    assert!(standby.metric("windlass_api_requests_total", &["PATCH"]).await < 1.0, "the standby has written");

    leader.child.kill().unwrap();
    let begin = Instant::now();
    fleet.change("good", 51).await;
    let promised = Duration::from_secs(15);
    fleet.wait("good", "True", promised + NOISE).await;
    let took = begin.elapsed();
    eprintln!("take-over after kill -9: {took:?} (promised: {promised:?})");
    assert!(took < promised + NOISE);
    assert_eq!(fleet.holder("windlass").await.as_deref(), Some(standby.identity.as_str()));
}

#[tokio::test]
async fn a_terminated_leader_hands_over_at_once_and_ends_well() {
    let stage = Stage::set().await;
    let fleet = &stage.fleet;
    let (mut leader, standby) = stage.pair().await;
    fleet.register("good", &stage.kubeconfig()).await;
    fleet.wait("good", "True", SOON).await;

    let begin = Instant::now();
    leader.child.signal(Signal::TERM).unwrap();
    fleet.change("good", 51).await;
    let promised = Duration::from_secs(2);
    let holder = fleet.holder_other_than("windlass", &leader.identity, promised + NOISE).await;
    let leased = begin.elapsed();
    fleet.wait("good", "True", promised + NOISE).await;
    let took = begin.elapsed();
    eprintln!("hand-over after SIGTERM: lease {leased:?}, reconciled {took:?} (promised: {promised:?})");
    assert_eq!(holder, standby.identity);
    assert!(took < promised + NOISE);
    let status = leader.child.wait_timeout(SOON).unwrap().expect("the leader ends");
    assert_eq!(status.code(), Some(0), "{}", leader.log());
    assert!(leader.log().contains("windlass has ended"), "{}", leader.log());
}

#[tokio::test]
async fn a_leader_that_slept_through_its_lease_writes_nothing_more() {
    let stage = Stage::set().await;
    let fleet = &stage.fleet;
    let (mut sleeper, standby) = stage.pair().await;
    fleet.register("good", &stage.kubeconfig()).await;
    fleet.wait("good", "True", SOON).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = sleeper.metric("windlass_api_requests_total", &["PATCH"]).await;
    assert!(before >= 1.0, "the leader has written the status");

    sleeper.child.pause().unwrap();
    fleet.change("good", 51).await;
    let holder = fleet.holder_other_than("windlass", &sleeper.identity, SOON).await;
    assert_eq!(holder, standby.identity);
    fleet.wait("good", "True", SOON).await;
    sleeper.child.resume().unwrap();
    fleet.change("good", 52).await;
    fleet.wait("good", "True", SOON).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = sleeper.metric("windlass_api_requests_total", &["PATCH"]).await;
    assert!(after <= before, "{before} writes became {after}; its log:\n{}", sleeper.log());
    assert_eq!(fleet.holder("windlass").await, Some(standby.identity.clone()));
}

#[tokio::test]
async fn an_api_server_or_etcd_that_goes_away_is_waited_for() {
    let stage = Stage::set().await;
    let fleet = &stage.fleet;
    let mut replica = stage.replica("only");
    replica.ready().await;
    fleet.register("good", &stage.kubeconfig()).await;
    fleet.wait("good", "True", SOON).await;
    let before = replica.rss_kib();

    stage.plane.stop_apiserver().await.unwrap();
    eventually("the replica says that it could not act", SOON, || async {
        match replica.get("/readyz").await? {
            (503, _) => Ok(()),
            (code, _) => Err(code.to_string()),
        }
    })
    .await;
    // Several times longer than the lease lasts.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        replica.get("/healthz").await.unwrap().0,
        200,
        "an API server that is away is no reason to restart us"
    );
    stage.plane.start_apiserver().await.unwrap();
    fleet.change("good", 51).await;
    fleet.wait("good", "True", SOON).await;
    replica.ready().await;

    stage.plane.kill_etcd().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    stage.plane.start_etcd().await.unwrap();
    fleet.change("good", 52).await;
    fleet.wait("good", "True", SOON).await;
    replica.ready().await;

    assert!(replica.child.is_running(), "{}", replica.log());
    let after = replica.rss_kib();
    eprintln!("memory before the outages: {before} KiB, after: {after} KiB");
    assert!(after < before + 24 * 1024, "memory grew from {before} to {after} KiB");
}

#[tokio::test]
async fn metrics_have_their_names_and_no_more() {
    let stage = Stage::set().await;
    let replica = stage.replica("only");
    replica.ready().await;
    stage.fleet.register("good", &stage.kubeconfig()).await;
    stage.fleet.wait("good", "True", SOON).await;
    let (_, text) = replica.get("/metrics").await.unwrap();
    for name in [
        "windlass_build_info",
        "windlass_reconciles_total",
        "windlass_reconcile_duration_seconds_count",
        "windlass_queue_depth",
        "windlass_api_requests_total",
        "windlass_events_total",
        "windlass_cluster_reachable",
    ] {
        let found = text.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
        assert!(found, "{name} is missing:\n{text}");
    }
    let odd: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| !line.starts_with("windlass_") || line.starts_with("windlass_windlass_"))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[tokio::test]
async fn a_missing_kind_is_waited_for_and_named() {
    let stage = Stage::set().await;
    remove_crds(&stage.fleet).await;
    let replica = stage.replica("early");
    eventually("the replica says what is missing", SOON, || async {
        let (code, checks) = replica.get("/readyz").await?;
        let told = checks.contains("clusters.windlass.dev is not installed")
            && checks.contains("windlass crds | kubectl");
        if code == 503 && told { Ok(()) } else { Err(format!("{code}: {checks}")) }
    })
    .await;
    assert_eq!(replica.get("/healthz").await.unwrap().0, 200);
    assert_eq!(stage.fleet.holder("windlass").await, None, "a replica that could not act takes no lease");
    install_crds(&stage.fleet.client).await;
    replica.ready().await;
    stage.fleet.register("good", &stage.kubeconfig()).await;
    stage.fleet.wait("good", "True", SOON).await;
}

async fn remove_crds(fleet: &Fleet) {
    let api: Api<CustomResourceDefinition> = Api::all(fleet.client.clone());
    for crd in windlass_api::crds::all() {
        api.delete(&crd.name_any(), &DeleteParams::default()).await.unwrap();
    }
    eventually("the kinds are gone", SOON, || async {
        match fleet.clusters().list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{:?}", other.map(|list| list.items.len()))),
        }
    })
    .await;
}

#[tokio::test]
async fn a_replica_without_rights_says_so_and_stays_alive() {
    let stage = Stage::set().await;
    let replica = Replica::start(Start {
        kubeconfig: &stage.plane.kubeconfig_path(&User::named("nobody")).unwrap(),
        namespace: stage.namespace.name(),
        identity: "nobody",
        args: Vec::new(),
    });
    eventually("the replica says what is in the way", SOON, || async {
        let (code, checks) = replica.get("/readyz").await?;
        let told = checks.contains("leases cannot be read: 403");
        if code == 503 && told { Ok(()) } else { Err(format!("{code}: {checks}")) }
    })
    .await;
    assert_eq!(replica.get("/healthz").await.unwrap().0, 200);
}

/// A kubeconfig with these pieces.
fn kubeconfig(server: &str, ca: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: {server}, certificate-authority-data: {ca}}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    )
}

#[tokio::test]
async fn five_bad_kubeconfigs_have_five_reasons_and_hurt_nobody() {
    const CANARY: &str = "planted-canary-token";
    let stage = Stage::set().await;
    let fleet = &stage.fleet;
    let replica = stage.replica("only");
    replica.ready().await;

    let right = base64(&stage.plane.ca_pem());
    let wrong = base64(&pki::Ca::new("stranger").unwrap().pem());
    let token = format!("{{token: {CANARY}}}");
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo {CANARY}']}}}}"
    );
    let (closed, hanging) = (Port::free().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let closed = format!("https://127.0.0.1:{}", closed.number());
    let hangs = format!("https://127.0.0.1:{}", hanging.local_addr().unwrap().port());
    let url = stage.plane.url();
    fleet.register("good", &stage.kubeconfig()).await;
    fleet.register("garbage", &format!("{{{{{{ {CANARY}")).await;
    fleet.register("wrong-ca", &kubeconfig(&url, &wrong, &token)).await;
    fleet.register("closed", &kubeconfig(&closed, &right, &token)).await;
    fleet.register("hanging", &kubeconfig(&hangs, &right, &token)).await;
    fleet.register("exec", &kubeconfig(&url, &right, &exec)).await;

    fleet.wait("good", "True", SOON).await;
    let mut reasons = std::collections::BTreeMap::new();
    for name in ["garbage", "wrong-ca", "closed", "hanging", "exec"] {
        let ready = fleet.wait(name, "False", SOON).await;
        eprintln!("{name}: {}: {}", ready.reason, ready.message);
        assert!(ready.message.matches(". ").count() >= 1, "what is wrong and what to do: {}", ready.message);
        assert!(!ready.message.contains(CANARY), "{}", ready.message);
        assert_eq!(reasons.insert(ready.reason, name), None, "two troubles with one reason");
    }
    let good = fleet.condition("good").await.unwrap();
    assert_eq!((good.status.as_str(), reasons.len()), ("True", 5));
    assert!(!replica.log().contains(CANARY), "a credential is in the log");

    for name in ["good", "garbage", "wrong-ca", "closed", "hanging", "exec"] {
        fleet.clusters().delete(name, &DeleteParams::default()).await.unwrap();
        fleet.gone(name, SOON).await;
    }
}

fn base64(text: &str) -> String {
    let value = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap();
    value.as_str().unwrap().to_owned()
}
