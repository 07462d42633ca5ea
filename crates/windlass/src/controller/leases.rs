//! Which replica acts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::ListParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    clock::Clock,
    lease::{Gate, Keeper, Options, plan::Timing},
};
use windlass_server::{http::Probes, readiness::ReadinessCheck};

use super::{group::Group, hub::Hub};
use crate::config::Settings;

/// Starts the election, or opens the gate for good. Gives the switch by which this replica says that it could act.
pub(super) fn start(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    clock: Clock,
    group: &mut Group,
) -> (watch::Sender<bool>, Gate) {
    let (willing, could_act) = watch::channel(false);
    if !settings.leader_elect {
        return (willing, Gate::open());
    }
    let timing = Timing {
        duration: settings.lease_duration.0,
        renew: settings.lease_renew.0,
        margin: settings.lease_margin(),
    };
    let options = Options {
        name: settings.lease_name.clone(),
        namespace: settings.namespace.clone(),
        identity: settings.identity.clone(),
        shards: settings.shards,
        timing,
    };
    let (keeper, gate) = Keeper::new(hub.housekeeping.clone(), options, clock, could_act);
    group.spawn(keeper.run(group.stop()));
    let leases = Api::namespaced(hub.housekeeping.clone(), &settings.namespace);
    group.spawn(watch_over(leases, settings.lease_duration.0, probes.readiness.check("lease"), group.stop()));
    (willing, gate)
}

/// Ready while the leases can be read: a replica that cannot see them could not take over. One failure is no news, a
/// connection may have been closed under us; the second in a row is.
async fn watch_over(leases: Api<Lease>, interval: Duration, check: ReadinessCheck, stop: CancellationToken) {
    let mut failed = 0u32;
    loop {
        let trouble = look(&leases, interval / 2).await;
        let wait = match trouble {
            None => {
                failed = 0;
                check.ready();
                interval
            }
            Some(trouble) => {
                failed = failed.saturating_add(1);
                if failed > 1 {
                    check.not_ready(format!("leases cannot be read: {trouble}"));
                }
                interval / 10
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// What is in the way of reading leases; `None` if nothing is.
async fn look(leases: &Api<Lease>, patience: Duration) -> Option<String> {
    let one = ListParams::default().limit(1);
    match tokio::time::timeout(patience, leases.list_metadata(&one)).await {
        Ok(Ok(_)) => None,
        Ok(Err(kube::Error::Api(status))) => Some(format!("{} {}", status.code, status.message)),
        Ok(Err(_)) => Some("the API server does not answer".to_owned()),
        Err(_) => Some("no answer in time".to_owned()),
    }
}
