//! A world: one API, its instances, time, and everything that happened.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rand_chacha::ChaCha8Rng;

use super::{
    api::Api,
    clock::Clock,
    clusters::Unreachable,
    fault::Fault,
    faults::{Disruption, Faults, Thaw},
    hub::Hub,
    instance::Instance,
    life::Passenger,
    logs::Logs,
    outsider::Outsider,
    panics::Panics,
    trace::Trace,
    writes::Write,
};

type Gauge = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The simulated world that a scenario acts in. Cheap to clone.
#[derive(Clone)]
pub struct World {
    pub(crate) hub: Arc<Hub>,
    api: Api,
    logs: Logs,
    gauges: Arc<Mutex<BTreeMap<String, (Gauge, u64)>>>,
    faulty: bool,
}

impl World {
    pub(crate) fn new(hub: &Arc<Hub>, logs: Logs, plan: &Faults) -> Self {
        let api = hub.add_api("");
        let world = Self { hub: Arc::clone(hub), api, logs, gauges: Arc::default(), faulty: !plan.is_none() };
        tokio::spawn(Arc::clone(hub).drive());
        for (moment, disruption) in plan.disruptions.clone() {
            world.disrupt_at(moment, disruption);
        }
        world
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.hub.dice.seed()
    }

    /// Whether faults are planned: false in the fault-free run that others are compared with.
    pub fn is_faulty(&self) -> bool {
        self.faulty
    }

    /// A seeded generator for one question of the scenario; the same question gives the same stream.
    pub fn rng(&self, question: &str) -> ChaCha8Rng {
        self.hub.dice.rng("scenario", question)
    }

    /// The API server's own surface: state without requests. This is the hub's, where the controllers live.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Adds a cluster besides the hub: an API of its own, with its own objects, versions and watches, under the same
    /// clock, scheduler and dice. Adding one that is there gives the one that is there.
    pub fn add_cluster(&self, name: &str) -> Api {
        self.hub.add_api(name)
    }

    /// A cluster's API; the empty name is the hub's.
    pub fn cluster(&self, name: &str) -> Option<Api> {
        self.hub.api(name)
    }

    /// The names of all clusters, the empty one of the hub first.
    pub fn clusters(&self) -> Vec<String> {
        self.hub.all_apis().into_iter().map(|(name, _)| name).collect()
    }

    /// Somebody who is not under test, on a cluster.
    pub fn outsider_on(&self, cluster: &str, name: &str) -> Outsider {
        Outsider::new(&self.hub, cluster, name)
    }

    /// From now on no instance reaches this cluster (the empty name is the hub). Outsiders do.
    pub fn cut_off(&self, cluster: &str, how: Unreachable) {
        self.hub.cut_off(cluster, how);
    }

    /// Ends [`World::cut_off`].
    pub fn reconnect(&self, cluster: &str) {
        self.hub.reconnect(cluster);
    }

    /// The world's clock, which never jumps.
    pub fn clock(&self) -> &Clock {
        &self.hub.clock
    }

    /// Wall time of the world.
    pub fn now(&self) -> Timestamp {
        self.hub.clock.now()
    }

    /// Virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.hub.now()
    }

    /// Lets virtual time pass.
    pub async fn sleep(&self, lasting: Duration) {
        tokio::time::sleep(lasting).await;
    }

    /// Somebody who is not under test, with a field manager of that name.
    pub fn outsider(&self, name: &str) -> Outsider {
        self.outsider_on("", name)
    }

    /// A client of the user, who is an outsider: immediate, never struck by faults.
    pub fn client(&self) -> Client {
        self.outsider("user").client()
    }

    /// Starts a controller under test. It is started again after a crash, and when it ends without being asked.
    pub fn start<F, Fut>(&self, name: &str, passenger: F)
    where
        F: Fn(Instance) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.hub.add(name, true, boxed(passenger));
    }

    /// Starts a controller that stays down once it has crashed or ended.
    pub fn start_once<F, Fut>(&self, name: &str, passenger: F)
    where
        F: Fn(Instance) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.hub.add(name, false, boxed(passenger));
    }

    /// Kills an instance: no farewell, nothing saved.
    pub fn crash(&self, name: &str) {
        self.hub.crash(name);
    }

    /// Asks an instance to end and waits for it.
    ///
    /// # Errors
    /// When it has not ended within the bound.
    pub async fn stop(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let life = self.hub.life(name).with_context(|| format!("there is no instance {name:?}"))?;
        self.hub.note(&life.who(), "asked to stop".to_owned());
        life.shutdown.cancel();
        self.eventually(&format!("{name} to stop"), within, || !self.is_up(name)).await
    }

    /// Starts an instance that is down. Nothing happens when it is up.
    pub fn restart(&self, name: &str) {
        self.hub.start(name);
    }

    /// Whether an instance is running.
    pub fn is_up(&self, name: &str) -> bool {
        self.hub.lock().slots.get(name).is_some_and(|slot| slot.up)
    }

    /// The names of all instances.
    pub fn instances(&self) -> Vec<String> {
        self.hub.lock().slots.keys().cloned().collect()
    }

    /// Stops an instance in its tracks: its root future is not polled, its requests and answers wait. What it had
    /// sent before is on the wire and arrives.
    ///
    /// Tasks that the instance has spawned go on computing, since one runtime has one clock; what they send waits.
    pub fn pause(&self, name: &str) {
        self.hub.set_paused(name, true);
    }

    /// Lets a paused instance go on.
    pub fn resume(&self, name: &str) {
        self.hub.set_paused(name, false);
    }

    /// Moves an instance's wall clock.
    pub fn jump(&self, name: &str, by: SignedDuration) {
        self.hub.jump(name, by);
    }

    /// Freezes an instance's view of one resource (plural), or of everything: watches stand still, and lists
    /// with `resourceVersion=0` show the present state for as long as the freeze lasts. Consistent reads stay
    /// consistent, as with a real API server.
    pub fn freeze(&self, name: &str, resource: Option<&str>) {
        self.hub.freeze(name, resource, self.hub.present_versions());
    }

    /// As [`World::freeze`], for the hub alone and at a version of the past: an instance that restarts into this meets
    /// an API server that lags behind the one it knew.
    pub fn freeze_at(&self, name: &str, resource: Option<&str>, version: &str) {
        self.hub.freeze(name, resource, [(String::new(), version.to_owned())].into());
    }

    /// As [`World::freeze`], for one cluster alone.
    pub fn freeze_on(&self, cluster: &str, name: &str, resource: Option<&str>) {
        let mut versions = self.hub.present_versions();
        versions.retain(|known, _| known == cluster);
        self.hub.freeze(name, resource, versions);
    }

    /// The hub's present resourceVersion.
    pub fn version(&self) -> String {
        self.api.version().to_string()
    }

    /// Ends a freeze.
    pub fn thaw(&self, name: &str, resource: Option<&str>, how: Thaw) {
        self.hub.thaw(name, resource, how);
    }

    /// Ends the watches of an instance with 410, so that it lists again.
    pub fn relist(&self, name: &str, resource: Option<&str>) {
        self.hub.forget(name, resource);
    }

    /// Switches a further fault on.
    pub fn add_fault(&self, fault: Fault) {
        self.hub.lock().strikes.add(fault);
    }

    /// Plans a disruption at a moment since the start (at once when that is past).
    pub fn disrupt_at(&self, moment: Duration, disruption: Disruption) {
        let hub = Arc::clone(&self.hub);
        tokio::spawn(async move {
            tokio::time::sleep_until(hub.clock.instant(0) + moment).await;
            if !hub.lock().strikes.calm {
                hub.disrupt(disruption).await;
            }
        });
    }

    /// Ends all faults: frozen views catch up, paused instances go on, hung watches break, and it waits until
    /// every instance that restarts is up again.
    ///
    /// # Errors
    /// When an instance does not come up.
    pub async fn calm(&self) -> anyhow::Result<()> {
        self.hub.calm();
        let all_up = || self.hub.lock().slots.values().all(|slot| slot.up || !slot.restarting);
        self.eventually("every instance to be up after faults stopped", Duration::from_mins(1), all_up).await
    }

    /// How often each fault has struck.
    pub fn strikes(&self) -> BTreeMap<&'static str, u64> {
        self.hub.lock().strikes.counts()
    }

    /// Waits for a condition, looking every 50 virtual milliseconds.
    ///
    /// # Errors
    /// When it does not hold within the bound.
    pub async fn eventually(
        &self,
        what: &str,
        within: Duration,
        condition: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let until = self.elapsed() + within;
        while !condition() {
            if self.elapsed() >= until {
                bail!("waited {within:?} (virtual) for {what}, in vain");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// All writes so far, also those of outsiders and those that were refused.
    pub fn writes(&self) -> Vec<Write> {
        self.hub.lock().writes.clone()
    }

    /// Writes of instances under test.
    pub fn instance_writes(&self) -> Vec<Write> {
        let state = self.hub.lock();
        state.writes.iter().filter(|write| state.slots.contains_key(&write.call.instance)).cloned().collect()
    }

    /// What happened so far.
    pub fn trace(&self) -> Trace {
        self.hub.lock().trace.clone()
    }

    /// Adds a line of the scenario's own to the trace.
    pub fn note(&self, what: impl Into<String>) {
        self.hub.note("scenario", what.into());
    }

    /// What was logged so far.
    pub fn logs(&self) -> Vec<String> {
        self.logs.lines()
    }

    /// Panics so far, also in tasks that nobody joined.
    pub fn panics(&self) -> Vec<String> {
        Panics::so_far()
    }

    /// Nothing is on its way between instances and API.
    pub fn is_idle(&self) -> bool {
        self.hub.is_idle()
    }

    /// Samples a number (a queue's length, a cache's size) every 100 virtual milliseconds and keeps its peak,
    /// for [`World::peak`].
    pub fn gauge(&self, name: &str, read: impl Fn() -> u64 + Send + Sync + 'static) {
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let first = gauges.is_empty();
        gauges.insert(name.to_owned(), (Arc::new(read), 0));
        if first {
            let gauges = Arc::clone(&self.gauges);
            tokio::spawn(async move {
                loop {
                    sample(&gauges);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
    }

    /// The highest value that a gauge has shown.
    pub fn peak(&self, name: &str) -> Option<u64> {
        sample(&self.gauges);
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|(_, peak)| *peak)
    }
}

fn sample(gauges: &Mutex<BTreeMap<String, (Gauge, u64)>>) {
    for (read, peak) in gauges.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
        *peak = (*peak).max(read());
    }
}

fn boxed<F, Fut>(passenger: F) -> Passenger
where
    F: Fn(Instance) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |instance| -> BoxFuture<'static, ()> { Box::pin(passenger(instance)) })
}
