//! One replica, wired as the binary wires it, with paper for Git and in-memory APIs for clusters.

use std::sync::{Arc, OnceLock};

use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use windlass_api::{Application, Cluster};
use windlass_cluster::{
    clock::Clock,
    drive::{Drive, Key, Options, Waker},
    watch::{self, Selection},
};
use windlass_deliver::{
    application::{ApplicationController, ApplicationMetrics, Settings},
    fleet::{Connector, Contact, Fleet, FleetOptions, Wake},
    trouble::Trouble,
};
use windlass_testbed::sim::{Clusters, Instance};

use crate::{
    RESYNC,
    bench::HOME,
    paper::{Disk, Forge, Paper},
    wiring,
};

/// Gives an instance's own clients of the clusters.
struct Ways {
    clusters: Clusters,
    hub: Client,
}

impl Connector for Ways {
    async fn connect(&self, cluster: &Cluster) -> Result<Contact, Trouble> {
        Ok(Contact::fixed(self.clusters.client(&cluster.name_any())))
    }

    async fn own(&self) -> Result<Contact, Trouble> {
        Ok(Contact::fixed(self.hub.clone()))
    }
}

/// One life of a replica.
pub async fn replica(forge: Forge, disk: Disk, instance: Instance) {
    Box::pin(wiring::live(&instance, "windlass.dev/application", HOME, |services, stop| {
        let hub = services.client.clone();
        let waker: Arc<OnceLock<Waker>> = Arc::default();
        let paper = paper(&forge, &disk, &services.clock, &waker);
        let fleet = Arc::new(fleet(&instance, &waker));
        let controller = ApplicationController::new(
            hub.clone(),
            Arc::new(paper.clone()),
            Arc::clone(&fleet),
            Settings::default(),
            services.clock.clone(),
            ApplicationMetrics::default(),
        );
        let others: Api<PartialObjectMeta<Application>> = Api::all(hub);
        let options = Options { resync: RESYNC, ..Options::default() };
        let drive = Drive::new(Arc::new(controller), services, options).related(watch::references(
            others,
            &Selection::default(),
            "applications",
        ));
        let _first = waker.set(drive.waker());
        (vec![drive.warm()], async move {
            tokio::join!(drive.run(stop.clone()), paper.run(stop.clone()), fleet.run(stop));
        })
    }))
    .await;
}

fn paper(forge: &Forge, disk: &Disk, clock: &Clock, waker: &Arc<OnceLock<Waker>>) -> Paper {
    let (now, waker) = (clock.clone(), waker.clone());
    Paper::new(
        forge,
        disk,
        move || now.now(),
        move |key: &Key| {
            if let Some(waker) = waker.get() {
                waker.wake(key.clone());
            }
        },
    )
}

fn fleet(instance: &Instance, waker: &Arc<OnceLock<Waker>>) -> Fleet<Ways> {
    let waker = waker.clone();
    let wakes = Arc::new(move |wake: Wake| {
        let Some(waker) = waker.get() else { return };
        match wake {
            Wake::All => drop(waker.wake_all()),
            Wake::App(key) => drop(waker.wake(key) || waker.wake_all()),
        }
    });
    let ways = Ways { clusters: instance.clusters(), hub: instance.client.clone() };
    Fleet::new(instance.client.clone(), ways, wakes, FleetOptions::default())
}
