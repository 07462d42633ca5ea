//! One replica, wired as the binary wires it: leader election, events, and controllers on their drives.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    clock::Clock,
    drive::{Metrics, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::{self, Keeper, plan::Timing},
};
use windlass_testbed::sim::Instance;

/// One life of a replica with its leases in the namespace `home`. `wire` is given what every controller uses and what ends
/// them, and gives what tells that a drive is warm, and the drives.
pub async fn live<F>(
    instance: &Instance,
    controller: &str,
    home: &str,
    wire: impl FnOnce(Services, CancellationToken) -> (Vec<watch::Receiver<bool>>, F),
) where
    F: Future<Output = ()>,
{
    let time = instance.clock.to_fn();
    let clock = Clock::from_fn(move || time());
    let client = instance.client.clone();
    let reporter = Reporter { controller: controller.to_owned(), instance: instance.name.clone() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let (willing_set, willing) = watch::channel(false);
    let options = lease::Options {
        name: "windlass".into(),
        namespace: home.to_owned(),
        // A restarted pod has another name.
        identity: format!("{}-{}", instance.name, instance.incarnation),
        shards: 1,
        timing: Timing::default(),
    };
    let (keeper, gate) = Keeper::new(client.clone(), options, clock.clone(), willing);
    let stop = instance.shutdown.clone();
    let (warm, drives) =
        wire(Services { client, gate, clock, recorder, metrics: Metrics::new() }, stop.clone());
    let warming = async move {
        for mut warm in warm {
            if warm.wait_for(|warm| *warm).await.is_err() {
                return std::future::pending().await;
            }
        }
        willing_set.send_replace(true);
        std::future::pending::<()>().await;
    };
    // The lease is given back after the last piece of work.
    let last = CancellationToken::new();
    let drives = async {
        drives.await;
        last.cancel();
    };
    let all = async { tokio::join!(drives, keeper.run(last.clone()), publisher.run(stop.clone())) };
    tokio::select! {
        biased;
        _ended = all => {}
        () = warming => {}
    }
}
