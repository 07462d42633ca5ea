//! The loop itself, with a small controller over the simulated API: what it does once for all controllers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
use windlass_testbed::sim::api::Api;

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
    looks: Mutex<Vec<String>>,
    acts: AtomicU32,
    gone: Mutex<Vec<String>>,
}

impl Small {
    fn looks_at(&self, name: &str) -> usize {
        self.looks.lock().unwrap().iter().filter(|seen| *seen == name).count()
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
        self.looks.lock().unwrap().push(object.metadata.name.clone().unwrap());
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
        condition::set(&mut status.conditions, READY, Truth::True, "Fine", "All is well.", generation, now);
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
        let spec = json!({ "kubeconfig": { "secretRef": { "name": name } } });
        let metadata = json!({ "name": name, "labels": { "does": does } });
        let object = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec });
        self.api.create("user", &object).unwrap();
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
