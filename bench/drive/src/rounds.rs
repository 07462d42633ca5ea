//! Rounds of a controller for which nothing has changed: what the loop itself costs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Cluster, ClusterStatus,
    condition::{self, READY, Truth},
};
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Drive, Failure, Key, Metrics, Options, Plan, Reference, Services, Wake},
    events::{EventMetrics, Recorder, Reporter},
    lease::Gate,
};
use windlass_testbed::measure::{self, Report};

use crate::OBJECTS;

/// Reads nothing from outside; plans as the Cluster controller does.
struct Quiet {
    rounds: AtomicUsize,
}

#[derive(Debug, thiserror::Error)]
#[error("never")]
struct Never;

impl Failure for Never {
    fn category(&self) -> &'static str {
        "never"
    }
}

impl Controller for Quiet {
    type Object = Cluster;
    type Status = ClusterStatus;
    type Observed = Arc<Cluster>;
    type Action = ();
    type Error = Never;

    fn name(&self) -> &'static str {
        "quiet"
    }

    fn manager(&self) -> &'static str {
        "windlass-quiet"
    }

    fn status<'a>(&self, object: &'a Cluster) -> Option<&'a ClusterStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &Cluster) -> Vec<Reference> {
        let source = object.spec.kubeconfig.iter();
        source.map(|source| Reference::secret("fleet", &source.secret_ref.name)).collect()
    }

    async fn observe(&self, object: Arc<Cluster>) -> Result<Arc<Cluster>, Never> {
        Ok(object)
    }

    fn plan(&self, object: &Arc<Cluster>, now: Timestamp) -> Plan<(), ClusterStatus> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let generation = object.metadata.generation;
        let mut status = object.status.clone().unwrap_or_default();
        status.observed_generation = generation;
        let message = "The cluster is left alone.";
        condition::set(&mut status.conditions, READY, Truth::False, "Suspended", message, generation, now);
        Plan { status: Some(status), wake: Wake::OnChange, ..Plan::rest() }
    }

    async fn act(&self, (): &()) -> Result<(), Never> {
        Ok(())
    }
}

/// First the rounds that write each status, then rounds that find nothing to do.
pub(crate) async fn measure(client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let me = std::process::id();
    let before = measure::memory(me)?;
    let controller = Arc::new(Quiet { rounds: AtomicUsize::new(0) });
    let (waker, warm, stop, running) = start(client, controller.clone());
    let begin = Instant::now();
    let cpu = measure::cpu(me)?;
    reach(&controller, OBJECTS).await;
    settle(&controller).await;
    let took = begin.elapsed();
    anyhow::ensure!(*warm.borrow(), "the watch never became whole");
    report.figure("list and first status of all: rounds per second", per_second(OBJECTS, took), "1/s");
    let cpu_each = measure::cpu(me)?.saturating_sub(cpu).as_secs_f64() * 1e6 / as_f64(OBJECTS);
    report.figure("list and first status of all: CPU each", cpu_each, "µs");
    let held = measure::memory(me)?.saturating_sub(before);
    report.below("memory held per object", as_f64(usize::try_from(held)?) / as_f64(OBJECTS), "bytes", 2048.0);

    let rounds = 4 * OBJECTS;
    let (begin, cpu, from) = (Instant::now(), measure::cpu(me)?, controller.rounds.load(Ordering::Relaxed));
    for pass in 0..4 {
        for n in 0..OBJECTS {
            let key = Key { namespace: None, name: format!("fleet-{n:05}").into() };
            while !waker.wake(key.clone()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        reach(&controller, from + (pass + 1) * OBJECTS).await;
    }
    let done = controller.rounds.load(Ordering::Relaxed) - from;
    anyhow::ensure!(done >= rounds, "only {done} rounds of {rounds}");
    report.figure("no-change rounds per second", per_second(done, begin.elapsed()), "1/s");
    let cpu_each = measure::cpu(me)?.saturating_sub(cpu).as_secs_f64() * 1e6 / as_f64(done);
    report.below("CPU per no-change round", cpu_each, "µs", 100.0);

    stop.cancel();
    running.await?;
    Ok(())
}

type Started = (
    windlass_cluster::drive::Waker,
    tokio::sync::watch::Receiver<bool>,
    CancellationToken,
    tokio::task::JoinHandle<()>,
);

fn start(client: &Client, controller: Arc<Quiet>) -> Started {
    let clock = Clock::system();
    let reporter = Reporter { controller: "windlass.dev/quiet".into(), instance: "bench".into() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let services =
        Services { client: client.clone(), gate: Gate::open(), clock, recorder, metrics: Metrics::new() };
    let drive = Drive::new(controller, services, Options::default());
    let (waker, warm, stop) = (drive.waker(), drive.warm(), CancellationToken::new());
    let (drive_stop, publisher_stop) = (stop.clone(), stop.clone());
    let running = tokio::spawn(async move {
        tokio::join!(drive.run(drive_stop), publisher.run(publisher_stop));
    });
    (waker, warm, stop, running)
}

async fn reach(controller: &Quiet, rounds: usize) {
    while controller.rounds.load(Ordering::Relaxed) < rounds {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until no round has happened for a second: every status is written and seen.
async fn settle(controller: &Quiet) {
    let mut last = usize::MAX;
    while last != controller.rounds.load(Ordering::Relaxed) {
        last = controller.rounds.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    as_f64(count) / took.as_secs_f64()
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
