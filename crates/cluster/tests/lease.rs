//! Keepers over the simulated API: who holds what, and what happens when leases are taken, released or deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    clock::Clock,
    lease::{Gate, Keeper, Options, plan::Timing},
};
use windlass_testbed::sim::api::Api;

const HOME: &str = "windlass-system";

fn api() -> Api {
    let api = Api::new();
    api.create("test", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } }))
        .unwrap();
    api
}

struct Replica {
    gate: Gate,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    willing: watch::Sender<bool>,
}

impl Replica {
    fn start(api: &Api, identity: &str, shards: u32) -> Self {
        let clock = Clock::from_fn({
            let api = api.clone();
            move || api.now()
        });
        let options = Options {
            name: "windlass".into(),
            namespace: HOME.into(),
            identity: identity.into(),
            shards,
            timing: Timing::default(),
        };
        let (willing, could) = watch::channel(true);
        let (keeper, gate) = Keeper::new(api.client(identity), options, clock, could);
        let stop = CancellationToken::new();
        let running = tokio::spawn(keeper.run(stop.clone()));
        Self { gate, stop, running, willing }
    }

    fn holds(&self) -> BTreeSet<u32> {
        (0..self.gate.shards()).filter(|shard| self.gate.check(*shard).is_ok()).collect()
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn one_leads_the_other_stands_by_and_takes_over_at_once_after_a_release() {
    let api = api();
    let a = Replica::start(&api, "a", 1);
    pass(100).await;
    let b = Replica::start(&api, "b", 1);
    pass(60_000).await;
    assert_eq!((a.holds(), b.holds()), ([0].into(), [].into()));
    a.end().await;
    pass(200).await;
    assert_eq!(b.holds(), [0].into());
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_standby_waits_for_the_lease_and_no_longer() {
    let api = api();
    let a = Replica::start(&api, "a", 1);
    pass(100).await;
    let b = Replica::start(&api, "b", 1);
    pass(5_000).await;
    a.running.abort();
    pass(6_000).await;
    assert_eq!(b.holds(), [].into(), "the dead one might still be writing");
    pass(6_000).await;
    assert_eq!(b.holds(), [0].into());
    assert_eq!(a.holds(), [].into(), "its trust has ended");
}

#[tokio::test(start_paused = true)]
async fn a_cold_replica_takes_nothing() {
    let api = api();
    let a = Replica::start(&api, "a", 1);
    a.willing.send_replace(false);
    pass(30_000).await;
    assert_eq!(a.holds(), [].into());
    a.willing.send_replace(true);
    pass(100).await;
    assert_eq!(a.holds(), [0].into());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_made_again_also_when_no_event_told() {
    let api = api();
    let a = Replica::start(&api, "a", 1);
    pass(1_000).await;
    let lease = ("coordination.k8s.io/v1", "Lease", HOME, "windlass-shard-0");
    api.delete("somebody", lease).unwrap();
    pass(5_000).await;
    assert_eq!(a.holds(), [0].into());

    api.drop_watches();
    api.delete("somebody", lease).unwrap();
    api.compact();
    pass(30_000).await;
    assert_eq!(a.holds(), [0].into());
}

#[tokio::test(start_paused = true)]
async fn shards_are_shared_evenly_and_followed_without_a_gap_or_an_overlap() {
    let api = api();
    let a = Replica::start(&api, "a", 6);
    pass(5_000).await;
    assert_eq!(a.holds().len(), 6);
    let b = Replica::start(&api, "b", 6);
    for _ in 0..200 {
        pass(100).await;
        assert!(a.holds().is_disjoint(&b.holds()), "two holders: {:?} {:?}", a.holds(), b.holds());
    }
    assert_eq!((a.holds().len(), b.holds().len()), (3, 3));
    a.end().await;
    pass(3_000).await;
    assert_eq!(b.holds().len(), 6, "the rest takes all");
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_another_number_of_shards_stands_by_until_the_old_ones_are_gone() {
    let api = api();
    let old = Replica::start(&api, "old", 2);
    pass(5_000).await;
    let new = Replica::start(&api, "new", 4);
    pass(30_000).await;
    assert_eq!((old.holds().len(), new.holds().len()), (2, 0));
    old.end().await;
    pass(15_000).await;
    assert_eq!(new.holds().len(), 4);
}
