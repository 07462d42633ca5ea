//! The loop itself, with a small controller over the simulated API: what it does once for all controllers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/wiring.rs"]
mod wiring;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Cluster, ClusterStatus,
    condition::{self, READY, Truth},
};
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Drive, Failure, Key, Metrics, Options, Plan, Reference, Services, Wake},
    events::{EventMetrics, Note, Recorder, Reporter},
    lease::Gate,
    watch::Seen,
};
use windlass_testbed::sim::{self, Faults, World, api::Api};

#[derive(Debug, thiserror::Error)]
#[error("it fails")]
struct Fails;

impl Failure for Fails {
    fn category(&self) -> &'static str {
        "planned"
    }
}

/// Behaves as the object's label `does` says.
#[derive(Default)]
struct Small {
    /// Name and generation of what was looked at.
    looks: Mutex<Vec<(String, i64)>>,
    acts: AtomicU32,
    gone: Mutex<Vec<String>>,
}

impl Small {
    fn looks_at(&self, name: &str) -> usize {
        self.generations(name).len()
    }

    fn generations(&self, name: &str) -> Vec<i64> {
        let looks = self.looks.lock().unwrap();
        looks.iter().filter(|(seen, _)| seen == name).map(|(_, generation)| *generation).collect()
    }
}

#[derive(Debug)]
struct Observed {
    cluster: Arc<Cluster>,
}

fn does(cluster: &Cluster) -> &str {
    cluster.metadata.labels.as_ref().and_then(|labels| labels.get("does")).map_or("", String::as_str)
}

impl Controller for Small {
    type Object = Cluster;
    type Status = ClusterStatus;
    type Observed = Observed;
    type Action = String;
    type Error = Fails;

    fn name(&self) -> &'static str {
        "small"
    }

    fn manager(&self) -> &'static str {
        "windlass-small"
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some("windlass.dev/small")
    }

    fn status<'a>(&self, object: &'a Cluster) -> Option<&'a ClusterStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &Cluster) -> Vec<Reference> {
        object.spec.kubeconfig.iter().map(|source| Reference::secret("ns", &source.secret_ref.name)).collect()
    }

    async fn observe(&self, object: Arc<Cluster>) -> Result<Observed, Fails> {
        let metadata = &object.metadata;
        self.looks.lock().unwrap().push((metadata.name.clone().unwrap(), metadata.generation.unwrap()));
        match does(&object) {
            "panic" => panic!("planned"),
            "hang" => std::future::pending().await,
            "fail" => Err(Fails),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(Observed { cluster: object })
            }
            _ => Ok(Observed { cluster: object }),
        }
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<String, ClusterStatus> {
        let cluster = &observed.cluster;
        if cluster.metadata.deletion_timestamp.is_some() {
            return Plan {
                actions: vec!["clean up".into()],
                released: does(cluster) != "stay",
                ..Plan::rest()
            };
        }
        let mut status = cluster.status.clone().unwrap_or_default();
        status.observed_generation = cluster.metadata.generation;
        let generation = cluster.metadata.generation;
        let well =
            if does(cluster) == "tick" { format!("All is well at {now}.") } else { "All is well.".into() };
        condition::set(&mut status.conditions, READY, Truth::True, "Fine", &well, generation, now);
        let first = cluster.status.is_none();
        Plan {
            status: Some(status),
            notes: if first { vec![Note::normal("Fine", "Look", "All is well.")] } else { vec![] },
            wake: Wake::OnChange,
            ..Plan::rest()
        }
    }

    async fn act(&self, _: &String) -> Result<(), Fails> {
        self.acts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn stalled(&self, object: &Cluster, error: &Fails, now: Timestamp) -> Option<ClusterStatus> {
        let mut status = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation;
        condition::set(
            &mut status.conditions,
            READY,
            Truth::Unknown,
            "Failed",
            &error.to_string(),
            generation,
            now,
        );
        Some(status)
    }

    fn gone(&self, key: &Key) {
        self.gone.lock().unwrap().push(key.to_string());
    }
}

struct Bench {
    api: Api,
    small: Arc<Small>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    seen: tokio::sync::mpsc::UnboundedSender<Seen>,
}

impl Bench {
    fn start(options: Options) -> Self {
        let api = Api::new();
        api.install_crd(&Cluster::crd()).unwrap();
        let small = Arc::new(Small::default());
        let client = api.client("test");
        let clock = Clock::from_fn({
            let api = api.clone();
            move || api.now()
        });
        let reporter = Reporter { controller: "windlass.dev/small".into(), instance: "one".into() };
        let (recorder, publisher) =
            Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
        let services = Services { client, gate: Gate::open(), clock, recorder, metrics: Metrics::new() };
        let (seen, related) = tokio::sync::mpsc::unbounded_channel();
        let related = futures::stream::unfold(related, |mut related| async {
            related.recv().await.map(|seen| (seen, related))
        });
        let drive = Drive::new(small.clone(), services, options).related(related);
        let stop = CancellationToken::new();
        let (drive_stop, publisher_stop) = (stop.clone(), stop.clone());
        let running = tokio::spawn(async move {
            tokio::join!(drive.run(drive_stop), publisher.run(publisher_stop));
        });
        Self { api, small, stop, running, seen }
    }

    fn create(&self, name: &str, does: &str) {
        self.api.create("user", &cluster(name, does)).unwrap();
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.api.get("windlass.dev/v1alpha1", "Cluster", "", name)
    }

    fn reason(&self, name: &str) -> Option<String> {
        Some(self.get(name)?.pointer("/status/conditions/0/reason")?.as_str()?.to_owned())
    }

    fn writes(&self) -> usize {
        self.api
            .writes()
            .iter()
            .filter(|write| write.resource == "clusters" && write.manager != "user")
            .count()
    }

    fn delete(&self, name: &str) {
        self.api.delete("user", ("windlass.dev/v1alpha1", "Cluster", "", name)).unwrap();
    }
}

fn cluster(name: &str, does: &str) -> Value {
    let spec = json!({ "kubeconfig": { "secretRef": { "name": name } } });
    let metadata = json!({ "name": name, "labels": { "does": does } });
    json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec })
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_gets_its_finalizer_then_its_status_then_rest() {
    let bench = Bench::start(Options { resync: Duration::from_secs(60), ..Options::default() });
    bench.create("a", "");
    pass(2).await;
    assert_eq!(bench.reason("a").as_deref(), Some("Fine"));
    assert_eq!(bench.get("a").unwrap()["metadata"]["finalizers"], json!(["windlass.dev/small"]));
    let (writes, looks) = (bench.writes(), bench.small.looks_at("a"));
    pass(600).await;
    assert_eq!(bench.writes(), writes, "nothing changed, nothing is written");
    assert!(bench.small.looks_at("a") > looks + 5, "but it is looked at");
    let events = bench.api.objects().into_iter().filter(|object| object["kind"] == "Event").count();
    assert_eq!(events, 1);
}

#[tokio::test(start_paused = true)]
async fn objects_that_panic_hang_or_fail_leave_the_others_alone() {
    let bench = Bench::start(Options { workers: 4, deadline: Duration::from_secs(30), ..Options::default() });
    for n in 0..4 {
        bench.create(&format!("panic-{n}"), "panic");
        bench.create(&format!("hang-{n}"), "hang");
        bench.create(&format!("fail-{n}"), "fail");
    }
    pass(300).await;
    bench.create("fine", "");
    pass(35).await;
    assert_eq!(bench.reason("fine").as_deref(), Some("Fine"));
    assert_eq!(bench.reason("fail-0").as_deref(), Some("Failed"), "a failure is told");
    for name in ["panic-0", "hang-0", "fail-0"] {
        let looks = bench.small.looks_at(name);
        assert!((2..40).contains(&looks), "{name} is tried again, with back-off: {looks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_cleaned_up_before_it_goes() {
    let bench = Bench::start(Options::default());
    bench.create("a", "");
    bench.create("b", "stay");
    pass(2).await;
    bench.delete("a");
    bench.delete("b");
    pass(2).await;
    assert!(bench.get("a").is_none());
    assert!(bench.get("b").is_some(), "the plan did not let it go");
    assert!(bench.small.acts.load(Ordering::SeqCst) >= 2);
    assert_eq!(*bench.small.gone.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_is_read_wakes_the_reader_only() {
    let bench = Bench::start(Options::default());
    bench.create("a", "");
    bench.create("b", "");
    pass(2).await;
    let (a, b) = (bench.small.looks_at("a"), bench.small.looks_at("b"));
    bench.seen.send(Seen::Changed(Reference::secret("ns", "a"))).unwrap();
    pass(2).await;
    assert_eq!((bench.small.looks_at("a"), bench.small.looks_at("b")), (a + 1, b));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_and_compacted_loses_nothing() {
    let bench = Bench::start(Options::default());
    bench.create("a", "");
    bench.create("b", "");
    pass(2).await;
    bench.api.drop_watches();
    let b = ("windlass.dev/v1alpha1", "Cluster", "", "b");
    bench.api.mutate("user", b, |object| object["metadata"]["finalizers"] = json!([])).unwrap();
    bench.api.delete("user", b).unwrap();
    bench.create("c", "");
    bench.api.compact();
    pass(60).await;
    assert_eq!(bench.reason("c").as_deref(), Some("Fine"));
    assert_eq!(*bench.small.gone.lock().unwrap(), ["b"], "a deletion that no event told is noticed");
}

#[tokio::test(start_paused = true)]
async fn rounds_under_way_end_at_a_shutdown_and_none_begins() {
    let mut bench = Bench::start(Options::default());
    bench.create("slow", "slow");
    tokio::time::sleep(Duration::from_millis(200)).await;
    bench.stop.cancel();
    bench.create("late", "");
    (&mut bench.running).await.unwrap();
    assert_eq!(bench.reason("slow").as_deref(), Some("Fine"), "it had begun");
    assert_eq!(bench.small.looks_at("late"), 0);
}

const HOME: &str = "windlass-system";
const LOOK: Duration = Duration::from_secs(60);

/// A replica with leader election in a world of its own, which is not started again after a crash.
fn start(world: &World, name: &str) -> Arc<Small> {
    let small = Arc::new(Small::default());
    let controller = small.clone();
    world.start_once(name, move |instance| {
        let controller = controller.clone();
        async move {
            Box::pin(wiring::live(&instance, "windlass.dev/small", HOME, |services, stop| {
                let drive = Drive::new(controller, services, Options { resync: LOOK, ..Options::default() });
                (vec![drive.warm()], drive.run(stop))
            }))
            .await;
        }
    });
    small
}

/// A world with one object, at which a replica `a` has looked.
async fn looked_at(world: &World, does: &str) -> anyhow::Result<Arc<Small>> {
    let api = world.api();
    api.install_crd(&Cluster::crd())?;
    api.create("user", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } }))?;
    api.create("user", &cluster("c", does))?;
    let small = start(world, "a");
    world.eventually("a first look", LOOK, || small.looks_at("c") > 0).await?;
    world.sleep(Duration::from_secs(10)).await;
    Ok(small)
}

/// The next leader beside one that has looked, whose watch is silent from now on.
async fn silent_standby(world: &World) -> anyhow::Result<Arc<Small>> {
    looked_at(world, "").await?;
    let next = start(world, "b");
    world.sleep(Duration::from_secs(10)).await;
    world.freeze("b", Some("clusters"));
    Ok(next)
}

/// The user changes the object: generation 2.
fn edit(world: &World) -> anyhow::Result<()> {
    let path = ("windlass.dev/v1alpha1", "Cluster", "", "c");
    world.api().mutate("user", path, |object| object["spec"]["probe"] = json!({ "interval": "60s" }))?;
    Ok(())
}

fn passes<F: Future<Output = anyhow::Result<()>>>(scenario: impl FnOnce(World) -> F) {
    assert_eq!(sim::run(1, &Faults::none(), scenario).result, Ok(()));
}

#[test]
fn a_new_leader_knows_what_a_silent_watch_did_not_bring() {
    passes(|world| async move {
        let next = silent_standby(&world).await?;
        edit(&world)?;
        world.sleep(Duration::from_secs(2)).await;
        world.crash("a");
        world.eventually("the next leader's look", LOOK, || next.looks_at("c") > 0).await?;
        world.sleep(LOOK * 2).await;
        let generations = next.generations("c");
        anyhow::ensure!(generations.iter().all(|seen| *seen == 2), "looked at generations {generations:?}");
        Ok(())
    });
}

#[test]
fn after_a_conflict_the_object_is_read_although_the_watch_is_silent() {
    passes(|world| async move {
        let small = looked_at(&world, "tick").await?;
        world.freeze("a", Some("clusters"));
        edit(&world)?;
        // The next look is the one that the options ask for; its write of the status meets the conflict.
        world
            .eventually("a look at what the user wrote", LOOK * 2, || small.generations("c").contains(&2))
            .await?;
        world.sleep(Duration::from_secs(2)).await;
        let status = world.api().get("windlass.dev/v1alpha1", "Cluster", "", "c").unwrap();
        anyhow::ensure!(status["status"]["observedGeneration"] == 2, "{status}");
        Ok(())
    });
}

#[test]
fn an_object_that_is_gone_is_left_alone_although_the_watch_is_silent() {
    passes(|world| async move {
        let next = silent_standby(&world).await?;
        world.api().delete("user", ("windlass.dev/v1alpha1", "Cluster", "", "c"))?;
        world.sleep(Duration::from_secs(2)).await;
        world.crash("a");
        world.sleep(LOOK * 2).await;
        anyhow::ensure!(next.looks_at("c") == 0, "it looked at an object that is not there any more");
        anyhow::ensure!(*next.gone.lock().unwrap() == ["c"], "it holds what it kept for it");
        Ok(())
    });
}
