//! One replica, wired as the binary wires it, with paper for Git and in-memory APIs for clusters.

use std::sync::{Arc, OnceLock};

use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use tokio_util::sync::CancellationToken;
use windlass_api::{Application, Cluster};
use windlass_cluster::{
    clock::Clock,
    drive::{Drive, Key, Metrics, Options, Services, Waker},
    events::{EventMetrics, Recorder, Reporter},
    lease::{self, Keeper, plan::Timing},
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
    let time = instance.clock.to_fn();
    let clock = Clock::from_fn(move || time());
    let hub = instance.client.clone();
    let reporter =
        Reporter { controller: "windlass.dev/application".into(), instance: instance.name.clone() };
    let (recorder, publisher) = Recorder::new(hub.clone(), reporter, clock.clone(), EventMetrics::default());
    let (willing_set, willing) = tokio::sync::watch::channel(false);
    let options = lease::Options {
        name: "windlass".into(),
        namespace: HOME.into(),
        // A restarted pod has another name.
        identity: format!("{}-{}", instance.name, instance.incarnation),
        shards: 1,
        timing: Timing::default(),
    };
    let (keeper, gate) = Keeper::new(hub.clone(), options, clock.clone(), willing);
    let waker: Arc<OnceLock<Waker>> = Arc::default();
    let paper = paper(&forge, &disk, &clock, &waker);
    let fleet = Arc::new(fleet(&instance, &waker));
    let services =
        Services { client: hub.clone(), gate, clock: clock.clone(), recorder, metrics: Metrics::new() };
    let controller = ApplicationController::new(
        hub.clone(),
        Arc::new(paper.clone()),
        Arc::clone(&fleet),
        Settings::default(),
        clock,
        ApplicationMetrics::default(),
    );
    let others: Api<PartialObjectMeta<Application>> = Api::all(hub);
    let drive = Drive::new(Arc::new(controller), services, Options { resync: RESYNC, ..Options::default() })
        .related(watch::references(others, &Selection::default(), "applications"));
    let _first = waker.set(drive.waker());
    let mut warm = drive.warm();
    let warming = async move {
        if warm.wait_for(|warm| *warm).await.is_ok() {
            willing_set.send_replace(true);
        }
        std::future::pending::<()>().await;
    };
    let stop = instance.shutdown.clone();
    let last = CancellationToken::new();
    let drives = async {
        drive.run(stop.clone()).await;
        last.cancel();
    };
    let all = async {
        tokio::join!(
            drives,
            keeper.run(last.clone()),
            publisher.run(stop.clone()),
            paper.run(stop.clone()),
            fleet.run(stop.clone())
        )
    };
    tokio::select! {
        biased;
        _ended = all => {}
        () = warming => {}
    }
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
