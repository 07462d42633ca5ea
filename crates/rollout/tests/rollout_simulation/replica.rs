//! One replica with the controller of Rollouts.

use windlass_cluster::drive::Options;
use windlass_rollout::{Parts, RolloutController, RolloutMetrics, cdevents::Origin};
use windlass_testbed::sim::Instance;

use super::{HOME, RESYNC, wiring};

pub async fn replica(instance: Instance) {
    Box::pin(wiring::live(&instance, "windlass.dev/rollout", HOME, |services, stop| {
        let parts = Parts {
            client: services.client.clone(),
            clock: services.clock.clone(),
            outbox: None,
            origin: Origin::default(),
            metrics: RolloutMetrics::default(),
        };
        let drive =
            RolloutController::new(parts).drive(services, Options { resync: RESYNC, ..Options::default() });
        (vec![drive.warm()], drive.run(stop))
    }))
    .await;
}
