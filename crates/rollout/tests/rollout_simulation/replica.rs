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
        let options = Options { resync: RESYNC, ..Options::default() };
        let controller = RolloutController::new(parts);
        let freed = controller.freed().drive(services.clone(), options.clone());
        let rollouts = controller.drive(services, options);
        let warm = vec![rollouts.warm(), freed.warm()];
        (warm, async move {
            tokio::join!(rollouts.run(stop.clone()), freed.run(stop));
        })
    }))
    .await;
}
