//! Puts the parts together, and takes them apart again in the right order.
//!
//! ```text
//!   start:  http (probes, metrics) ─► hub client ─► webhooks + certificate ─► events ─► lease keeper ─► drives
//!   ready:  every drive has seen what exists (cache/*), the leases can be read (lease), the certificate is there
//!   end:    not ready ─► drives (work under way ends) ─► leases are given back ─► events, webhooks, http
//! ```
//!
//! The leases go back as early as can be: from then on another replica works, and what is left to do here hurts nobody.

mod applications;
mod drives;
mod group;
mod hub;
mod kinds;
mod leases;
mod rollouts;
mod serve;

use std::time::Duration;

use prometheus_client::metrics::info::Info;
use tracing::{error, info, warn};
use windlass_cluster::{
    clock::Clock,
    drive::{self, Services},
    events::{EventMetrics, Recorder, Reporter},
};
use windlass_server::{http::Probes, shutdown};

use self::{group::Group, hub::Hub};
use crate::{
    config::Settings,
    error::CommandError,
    verbs::version::{COMMIT, VERSION},
};

/// Every controller there is, by name.
pub(crate) const CONTROLLERS: &[&str] = &["analysisrun", "application", "cluster", "experiment", "rollout"];

/// Longest wait for the leases to be given back: another replica takes them by itself soon after.
const LEASE_PATIENCE: Duration = Duration::from_secs(3);

/// Longest wait for events and open requests at the very end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Runs until a signal or a fault of our own ends it.
pub(crate) fn run(settings: Settings) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failure("cannot start the runtime").because(error))?;
    let result = runtime.block_on(operate(settings));
    // Whatever still runs is safe to drop, and must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn operate(settings: Settings) -> Result<(), CommandError> {
    let stop = shutdown::signal()
        .map_err(|error| CommandError::failure("cannot listen for signals").because(error))?;
    info!(
        version = VERSION,
        commit = COMMIT,
        identity = settings.identity,
        namespace = settings.namespace,
        leader_elect = settings.leader_elect,
        shards = settings.shards,
        "windlass starts"
    );
    let probes = Probes::new();
    let build = Info::new([("version", VERSION), ("commit", COMMIT.unwrap_or("unknown"))]);
    probes.metrics.register(|registry| registry.register("windlass_build", "What runs here", build));
    let mut house = House::start(&settings, &probes).await?;
    let ended = tokio::select! {
        () = stop.cancelled() => None,
        what = house.ended() => Some(what),
    };
    let leaving = probes.readiness.check("shutdown");
    leaving.not_ready("the process is about to end");
    house.end(&settings).await;
    match ended {
        None => {
            info!("windlass has ended");
            Ok(())
        }
        Some(what) => {
            error!(what, "a part that has to run has ended");
            Err(CommandError::failure(format!("the {what} ended by itself"))
                .hint("This is a fault of Windlass; the lines before this one say more."))
        }
    }
}

/// All that runs.
struct House {
    servers: Group,
    events: Group,
    leases: Group,
    drives: Group,
}

impl House {
    async fn start(settings: &Settings, probes: &Probes) -> Result<Self, CommandError> {
        let mut servers = Group::new("listener");
        serve::probes(settings, probes, &mut servers).await?;
        let hub = Hub::connect(settings, probes).await?;
        if settings.webhook {
            serve::webhooks(settings, probes, &hub, &mut servers).await?;
        }

        let clock = Clock::system();
        let mut events = Group::new("event publisher");
        let metrics = probes.metrics.register(EventMetrics::register);
        let reporter = Reporter {
            controller: "windlass.dev/controller".to_owned(),
            instance: settings.identity.clone(),
        };
        let (recorder, publisher) = Recorder::new(hub.client.clone(), reporter, clock.clone(), metrics);
        let stop = events.stop();
        events.spawn(publisher.run(stop));

        let mut leases = Group::new("lease keeper");
        let (willing, gate) = leases::start(settings, probes, &hub, clock.clone(), &mut leases);
        let services = Services {
            client: hub.client.clone(),
            gate,
            clock,
            recorder,
            metrics: probes.metrics.register(drive::Metrics::registered),
        };
        let mut drives = Group::new("controller");
        let on_push = drives::start(settings, probes, &hub, &services, willing, &mut drives)?;
        if let Some(on_push) = on_push.filter(|_| settings.hooks) {
            serve::hooks(settings, probes, &hub, on_push, &mut servers).await?;
        }
        if settings.controllers.is_empty() {
            warn!("every controller is switched off");
        }
        Ok(Self { servers, events, leases, drives })
    }

    /// The first part that ended without being told to.
    async fn ended(&mut self) -> &'static str {
        tokio::select! {
            () = self.servers.ended() => self.servers.what(),
            () = self.events.ended() => self.events.what(),
            () = self.leases.ended() => self.leases.what(),
            () = self.drives.ended() => self.drives.what(),
        }
    }

    async fn end(self, settings: &Settings) {
        // The loops keep the grace themselves; the second is for them to notice that it is over.
        self.drives.end(settings.shutdown_grace.0 + Duration::from_secs(1)).await;
        self.leases.end(LEASE_PATIENCE).await;
        tokio::join!(self.events.end(END_PATIENCE), self.servers.end(END_PATIENCE));
    }
}
