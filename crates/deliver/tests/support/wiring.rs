//! One replica, wired as the binary wires it: leader election, events, and a controller on its drive.

use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Drive, Metrics, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::{self, Keeper, plan::Timing},
};
use windlass_testbed::sim::Instance;

/// The namespace of the leases.
pub const HOME: &str = "windlass-system";

/// One life of a replica. `wire` is given what every controller uses, and gives the controller's drive and what runs
/// beside it.
pub async fn live<C, F>(instance: &Instance, controller: &str, wire: impl FnOnce(Services) -> (Drive<C>, F))
where
    C: Controller,
    F: Future<Output = ()>,
{
    let time = instance.clock.to_fn();
    let clock = Clock::from_fn(move || time());
    let client = instance.client.clone();
    let reporter = Reporter { controller: controller.to_owned(), instance: instance.name.clone() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let (willing_set, willing) = tokio::sync::watch::channel(false);
    let options = lease::Options {
        name: "windlass".into(),
        namespace: HOME.into(),
        // A restarted pod has another name.
        identity: format!("{}-{}", instance.name, instance.incarnation),
        shards: 1,
        timing: Timing::default(),
    };
    let (keeper, gate) = Keeper::new(client.clone(), options, clock.clone(), willing);
    let (drive, beside) = wire(Services { client, gate, clock, recorder, metrics: Metrics::new() });
    let mut warm = drive.warm();
    let warming = async move {
        if warm.wait_for(|warm| *warm).await.is_ok() {
            willing_set.send_replace(true);
        }
        std::future::pending::<()>().await;
    };
    let stop = instance.shutdown.clone();
    // The lease is given back after the last piece of work.
    let last = CancellationToken::new();
    let drives = async {
        drive.run(stop.clone()).await;
        last.cancel();
    };
    let all = async { tokio::join!(drives, keeper.run(last.clone()), publisher.run(stop.clone()), beside) };
    tokio::select! {
        biased;
        _ended = all => {}
        () = warming => {}
    }
}
