//! One replica, wired as the binary wires it.

use windlass_cluster::{
    clock::Clock,
    drive::{Metrics, Options, Services},
    events::{EventMetrics, Recorder, Reporter},
    lease::{self, Keeper, plan::Timing},
};
use windlass_rollout::{Parts, RolloutController, RolloutMetrics, cdevents::Origin};
use windlass_testbed::sim::Instance;

use super::{HOME, RESYNC};

pub async fn replica(instance: Instance) {
    let time = instance.clock.to_fn();
    let clock = Clock::from_fn(move || time());
    let client = instance.client.clone();
    let reporter = Reporter { controller: "windlass.dev/rollout".into(), instance: instance.name.clone() };
    let (recorder, publisher) =
        Recorder::new(client.clone(), reporter, clock.clone(), EventMetrics::default());
    let (willing_set, willing) = tokio::sync::watch::channel(false);
    let options = lease::Options {
        name: "windlass".into(),
        namespace: HOME.into(),
        identity: format!("{}-{}", instance.name, instance.incarnation),
        shards: 1,
        timing: Timing::default(),
    };
    let (keeper, gate) = Keeper::new(client.clone(), options, clock.clone(), willing);
    let services =
        Services { client: client.clone(), gate, clock: clock.clone(), recorder, metrics: Metrics::new() };
    let parts =
        Parts { client, clock, outbox: None, origin: Origin::default(), metrics: RolloutMetrics::default() };
    let drive =
        RolloutController::new(parts).drive(services, Options { resync: RESYNC, ..Options::default() });
    let mut warm = drive.warm();
    let warming = async move {
        if warm.wait_for(|warm| *warm).await.is_ok() {
            willing_set.send_replace(true);
        }
        std::future::pending::<()>().await;
    };
    let stop = instance.shutdown.clone();
    let keeper_stop = tokio_util::sync::CancellationToken::new();
    let driven = async {
        drive.run(stop.clone()).await;
        keeper_stop.cancel();
    };
    tokio::select! {
        biased;
        ((), (), ()) = async { tokio::join!(driven, keeper.run(keeper_stop.clone()), publisher.run(stop.clone())) } => {}
        () = warming => {}
    }
}
