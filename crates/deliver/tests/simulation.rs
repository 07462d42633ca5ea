//! The Cluster controller under the simulation: two replicas with leader election, users who change things, and
//! every fault that the API may show.
//!
//! Replay a seed: `WINDLASS_SEED=17 cargo test --workspace --test simulation <name> -- --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../cluster/tests/support/wiring.rs"]
mod wiring;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, CustomResourceExt, core::PartialObjectMeta};
use serde_json::{Value, json};
use windlass_api::{Cluster, cluster::FINALIZER};
use windlass_cluster::{
    connect::{Credentials, Limits},
    drive::{Drive, Options},
    watch::{self, Selection},
};
use windlass_deliver::cluster::{
    ClusterController, ClusterMetrics, Prober, Reached, SecretNamespaces, Settings, Trouble,
};
use windlass_testbed::sim::{
    self, Compare, Fault, Faults, Instance, Match, Outsider, Verb, World,
    invariants::{self, Confines, Ready, Secrets, Stable},
};

/// The namespace of the leases and Secrets.
const HOME: &str = "windlass-system";
const RESYNC: Duration = Duration::from_secs(120);
/// Longer than the longest back-off with its spread (144 s): an object that failed to the last looks again before then.
const QUIET: Duration = Duration::from_secs(150);
const CANARY: &str = "canary-8c1f";

/// A network in which a kubeconfig says how its cluster behaves: `answers=<version>`, `refuses` or `hangs`.
struct Paper;

impl Prober for Paper {
    async fn probe(
        &self,
        _: &str,
        from: &Credentials,
        _: &Limits,
        timeout: Duration,
    ) -> Result<Reached, Trouble> {
        let trouble = |reason| Trouble {
            reason,
            what: "it does not answer".into(),
            remedy: "look after it".into(),
            waits_for_change: false,
            probed: true,
            server: None,
        };
        let Credentials::Kubeconfig { bytes, .. } = from else { return Err(trouble("NoKubeconfig")) };
        let text = String::from_utf8_lossy(bytes);
        tokio::time::sleep(Duration::from_millis(7)).await;
        match text.split_whitespace().next().unwrap_or_default() {
            "refuses" => Err(trouble("ConnectionRefused")),
            "hangs" => {
                tokio::time::sleep(timeout).await;
                Err(trouble("Timeout"))
            }
            answer => Ok(Reached {
                version: answer.strip_prefix("answers=").unwrap_or("v0").to_owned(),
                latency: Duration::from_millis(7),
                server: Some("https://paper.example".into()),
            }),
        }
    }

    fn own(&self) -> Credentials {
        Credentials::InCluster
    }

    fn disconnect(&self, _: &str) {}
}

/// One replica.
async fn replica(instance: Instance) {
    Box::pin(wiring::live(&instance, "windlass.dev/cluster", HOME, |services, stop| {
        let client = services.client.clone();
        let settings = Settings {
            namespace: HOME.into(),
            secret_namespaces: SecretNamespaces::Only([HOME.to_owned()].into()),
            heartbeat: Duration::from_secs(24 * 3600),
        };
        let controller = ClusterController::new(client.clone(), Paper, settings, ClusterMetrics::default());
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(client, HOME);
        let drive =
            Drive::new(Arc::new(controller), services, Options { resync: RESYNC, ..Options::default() })
                .related(watch::references(secrets, &Selection::default(), "secrets"));
        (vec![drive.warm()], drive.run(stop))
    }))
    .await;
}

fn cluster(name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        "spec": { "kubeconfig": { "secretRef": { "name": secret } }, "probe": { "interval": "60s" } },
    })
}

fn secret(name: &str, content: &str) -> Value {
    use k8s_openapi::ByteString;
    let data = ByteString(format!("{content} {CANARY}").into_bytes());
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": HOME },
        "data": { "kubeconfig": data },
    })
}

const CLUSTERS: &str = "/apis/windlass.dev/v1alpha1/clusters";

fn secrets_path(name: &str) -> String {
    format!("/api/v1/namespaces/{HOME}/secrets{}{name}", if name.is_empty() { "" } else { "/" })
}

fn prepare(world: &World) -> anyhow::Result<()> {
    world.api().install_crd(&Cluster::crd())?;
    world
        .api()
        .create("user", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } }))?;
    Ok(())
}

fn ready(world: &World, name: &str) -> Option<(String, String)> {
    let object = world.api().get("windlass.dev/v1alpha1", "Cluster", "", name)?;
    let ready = object.pointer("/status/conditions/0")?.clone();
    Some((ready["status"].as_str()?.to_owned(), ready["reason"].as_str()?.to_owned()))
}

fn is_up(world: &World, name: &str) -> bool {
    ready(world, name).is_some_and(|(status, _)| status == "True")
}

/// Registers a first cluster and waits until the first leader has looked at it.
async fn one_is_up(world: &World) -> anyhow::Result<Outsider> {
    let user = world.outsider("user");
    user.create(&secrets_path(""), &secret("good", "answers=v1.36.3")).await?;
    user.create(CLUSTERS, &cluster("one", "good")).await?;
    world.eventually("the first leader to work", Duration::from_secs(30), || is_up(world, "one")).await?;
    Ok(user)
}

/// What people do while the controllers run: make, break, mend, rotate, suspend and delete, and change their mind.
async fn users(world: &World) -> anyhow::Result<()> {
    let user = world.outsider("user");
    user.create(&secrets_path(""), &secret("good", "answers=v1.36.3")).await?;
    user.create(CLUSTERS, &cluster("good", "good")).await?;
    user.create(CLUSTERS, &cluster("late", "late")).await?;
    user.create(CLUSTERS, &cluster("doomed", "good")).await?;
    user.create(CLUSTERS, &cluster("away", "good")).await?;
    user.create(&secrets_path(""), &secret("away", "refuses")).await?;
    world.sleep(Duration::from_secs(20)).await;
    let path = |name: &str| format!("{CLUSTERS}/{name}");
    user.merge(&path("away"), &json!({ "spec": { "kubeconfig": { "secretRef": { "name": "away" } } } }))
        .await?;
    user.create(&secrets_path(""), &secret("late", "answers=v1.35.1")).await?;
    world.sleep(Duration::from_secs(15)).await;
    user.merge(&secrets_path("good"), &json!({ "data": secret("good", "answers=v1.37.0")["data"] })).await?;
    let (there, back) = (json!({ "spec": { "suspend": true } }), json!({ "spec": { "suspend": null } }));
    user.flip(&path("late"), &there, &back).await?;
    world.sleep(Duration::from_secs(15)).await;
    user.delete(&path("doomed")).await?;
    world.sleep(Duration::from_secs(30)).await;
    Ok(())
}

async fn scenario(world: World) -> anyhow::Result<()> {
    prepare(&world)?;
    world.start("a", replica);
    world.start("b", replica);
    users(&world).await?;
    invariants::eventually_stable(&world, &stable()).await?;

    let says = |name: &str, status: &str, reason: &str| {
        let found = ready(&world, name);
        anyhow::ensure!(found == Some((status.into(), reason.into())), "{name}: {found:?}");
        Ok(())
    };
    says("good", "True", "Reachable")?;
    says("late", "True", "Reachable")?;
    says("away", "False", "ConnectionRefused")?;
    anyhow::ensure!(
        world.api().get("windlass.dev/v1alpha1", "Cluster", "", "doomed").is_none(),
        "doomed is left"
    );
    let good = world.api().get("windlass.dev/v1alpha1", "Cluster", "", "good").unwrap();
    anyhow::ensure!(good["status"]["version"] == "v1.37.0", "the rotated Secret was not noticed");
    anyhow::ensure!(good["metadata"]["finalizers"] == json!([FINALIZER]), "the finalizer is missing");
    check(&world)
}

fn stable() -> Stable {
    let rule = Stable { quiet: QUIET, resync: RESYNC, resyncs: 2, ..Stable::default() };
    rule.allow(|write| write.call.resource == "leases" || write.call.resource == "events")
}

/// What holds at every moment of every run.
fn check(world: &World) -> anyhow::Result<()> {
    invariants::no_panic(world)?;
    invariants::ready_is_current(world, Ready::AtCommit)?;
    invariants::deletes_are_guarded(world, |object| object["kind"] == "Lease")?;
    let confines = Confines::default()
        .kind("clusters.windlass.dev")
        .kind("leases.coordination.k8s.io")
        .kind("events.events.k8s.io");
    invariants::confined(world, &confines)?;
    invariants::one_effective_writer(world, |write| write.call.resource == "events")?;
    Secrets::planted([CANARY]).nowhere(world, &[], |_| false)
}

fn compare() -> Compare {
    Compare::default().objects(|object| {
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("lastProbe");
        }
        true
    })
}

#[test]
fn clusters_converge_under_every_fault() {
    sim::seeds("clusters_converge_under_every_fault", 200, |seed| {
        let plan = Faults::chaos(seed, &["a", "b"], Duration::from_secs(80));
        sim::compare_with_fault_free(seed, &plan, &compare(), scenario)
    });
}

#[test]
fn a_crash_around_any_write_changes_nothing() {
    sim::seeds("a_crash_around_any_write_changes_nothing", 2, |seed| {
        sim::every_crash(seed, "a", &compare(), scenario)
    });
}

/// A replica that stands still for longer than its lease, in the middle of its work, writes nothing afterwards.
#[test]
fn a_paused_leader_is_fenced() {
    sim::seeds("a_paused_leader_is_fenced", 50, |seed| {
        sim::run(seed, &Faults::none(), |world| async move {
            prepare(&world)?;
            world.start("a", replica);
            let user = one_is_up(&world).await?;
            world.start("b", replica);
            world.sleep(Duration::from_secs(3)).await;
            world.pause("a");
            user.create(CLUSTERS, &cluster("two", "good")).await?;
            world
                .eventually("the second leader to take over", Duration::from_secs(15), || {
                    is_up(&world, "two")
                })
                .await?;
            user.create(CLUSTERS, &cluster("three", "good")).await?;
            world.resume("a");
            world.eventually("work to go on", Duration::from_secs(30), || is_up(&world, "three")).await?;
            invariants::eventually_stable(&world, &stable()).await?;
            check(&world)
        })
    });
}

/// Asked to stop, a leader hands over within two seconds.
#[test]
fn an_orderly_stop_hands_over_at_once() {
    sim::seeds("an_orderly_stop_hands_over_at_once", 30, |seed| {
        sim::run(seed, &Faults::none(), |world| async move {
            prepare(&world)?;
            world.start_once("a", replica);
            let user = one_is_up(&world).await?;
            world.start("b", replica);
            world.sleep(Duration::from_secs(5)).await;
            user.create(CLUSTERS, &cluster("two", "good")).await?;
            world.stop("a", Duration::from_secs(2)).await?;
            user.create(CLUSTERS, &cluster("three", "good")).await?;
            world.eventually("the hand-over", Duration::from_secs(2), || is_up(&world, "three")).await?;
            check(&world)
        })
    });
}

/// Objects whose probe hangs or refuses never delay the healthy ones.
#[test]
fn poison_clusters_never_delay_the_others() {
    sim::seeds("poison_clusters_never_delay_the_others", 20, |seed| {
        sim::run(seed, &Faults::none(), |world| async move {
            prepare(&world)?;
            let user = world.outsider("user");
            for kind in ["answers=v1.36.3", "hangs", "refuses"] {
                user.create(&secrets_path(""), &secret(kind.split('=').next().unwrap(), kind)).await?;
            }
            for n in 0..40 {
                let bad = ["hangs", "refuses"][n % 2];
                user.create(CLUSTERS, &cluster(&format!("bad-{n}"), bad)).await?;
            }
            world.start("a", replica);
            world.sleep(Duration::from_secs(60)).await;
            let names: Vec<String> = (0..10).map(|n| format!("fine-{n}")).collect();
            for name in &names {
                user.create(CLUSTERS, &cluster(name, "answers")).await?;
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            invariants::others_unaffected(&world, Duration::from_secs(5), &names, is_up).await
        })
    });
}

/// The kind or the right to read Secrets goes away for a while.
#[test]
fn a_role_or_a_kind_taken_away_for_a_while_does_no_harm() {
    sim::seeds("a_role_or_a_kind_taken_away_for_a_while_does_no_harm", 20, |seed| {
        let window = (Duration::from_secs(10), Duration::from_secs(70));
        let plan = Faults::none()
            .with(Fault::forbidden().on(Match::any().resource("secrets")).between(window.0, window.1))
            .with(
                Fault::kind_removed()
                    .on(Match::any().resource("clusters").verbs([Verb::List, Verb::Watch, Verb::Patch]))
                    .between(window.0, window.1),
            );
        sim::compare_with_fault_free(seed, &plan, &compare(), scenario)
    });
}
