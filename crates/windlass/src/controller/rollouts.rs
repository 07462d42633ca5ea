//! The controllers of Rollouts, `AnalysisRuns` and Experiments, with what they need.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use windlass_cluster::drive::{Drive, Services, Waker};
use windlass_rollout::{
    FreedController, Parts, RolloutController, RolloutMetrics,
    analysis::{
        AnalysisController, AnalysisMetrics,
        measure::{Http, Network},
    },
    cdevents::{Origin, Outbox, OutboxMetrics, OutboxOptions, Web},
    experiment::ExperimentController,
};
use windlass_server::http::Probes;

use super::{drives::options, group::Group, hub::Hub};
use crate::{config::Settings, error::CommandError};

/// How long a sink of `CDEvents` may take to answer.
const SINK_PATIENCE: Duration = Duration::from_secs(10);

/// The loops for Rollouts and for the Services that they leave behind.
pub(super) struct Rollouts {
    pub(super) drive: Drive<RolloutController>,
    pub(super) freed: Drive<FreedController>,
}

/// Puts the controllers of Rollouts together and starts what sends their `CDEvents`.
pub(super) fn start(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    services: &Services,
    group: &mut Group,
) -> Result<Rollouts, CommandError> {
    // The loop is made last, but what it is made of has to wake it.
    let waker: Arc<OnceLock<Waker>> = Arc::default();
    let parts = Parts {
        client: hub.client.clone(),
        clock: services.clock.clone(),
        outbox: outbox(settings, probes, &waker, group)?,
        origin: Origin {
            source: settings.cdevents_source.clone(),
            environment: settings.cdevents_environment.clone(),
        },
        metrics: probes.metrics.register(RolloutMetrics::registered),
    };
    let controller = RolloutController::new(parts);
    let freed = controller.freed().drive(services.clone(), options(settings));
    let drive = controller.drive(services.clone(), options(settings));
    let _ = waker.set(drive.waker());
    Ok(Rollouts { drive, freed })
}

/// Queues for the sinks of `CDEvents`, if there are any.
fn outbox(
    settings: &Settings,
    probes: &Probes,
    waker: &Arc<OnceLock<Waker>>,
    group: &mut Group,
) -> Result<Option<Outbox>, CommandError> {
    if settings.cdevents_sinks.is_empty() {
        return Ok(None);
    }
    let web = Web::new(SINK_PATIENCE)
        .map_err(|error| CommandError::failure("cannot make a client for CDEvents").because(error))?;
    let metrics = probes.metrics.register(OutboxMetrics::registered);
    let sinks = settings.cdevents_sinks.clone();
    let (outbox, posting) = Outbox::new(sinks, web, OutboxOptions::default(), metrics);
    let waker = waker.clone();
    let woken = Arc::new(move |key: &windlass_cluster::drive::Key| {
        if let Some(waker) = waker.get() {
            waker.wake(key.clone());
        }
    });
    group.spawn(posting.run(woken, group.stop()));
    Ok(Some(outbox))
}

/// Puts the controller of `AnalysisRuns` together.
pub(super) fn runs(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    services: &Services,
) -> Result<Drive<AnalysisController<Network>>, CommandError> {
    let http = Http::new()
        .map_err(|error| CommandError::failure("cannot make a client for measurements").because(error))?;
    let network = Network::new(http, services.clock.clone(), None);
    let metrics = probes.metrics.register(AnalysisMetrics::registered);
    let controller = AnalysisController::new(hub.client.clone(), network, services.clock.clone(), metrics);
    Ok(controller.drive(services.clone(), options(settings)))
}

/// Puts the controller of Experiments together.
pub(super) fn experiments(
    settings: &Settings,
    hub: &Hub,
    services: &Services,
) -> Drive<ExperimentController> {
    ExperimentController::new(hub.client.clone()).drive(services.clone(), options(settings))
}
