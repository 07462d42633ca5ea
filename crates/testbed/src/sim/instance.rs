//! Instances: controllers under test, and what can be done to them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    clock::Clock,
    clusters::Clusters,
    faults::{Disruption, Thaw},
    hub::{Freeze, Hub},
    life::{Life, Passenger, Pausable, Slot},
};

/// What a controller under test is given at each start.
pub struct Instance {
    /// Its name, the same over all of its lives.
    pub name: String,
    /// Which life this is, from 1.
    pub incarnation: u32,
    /// Its own client: faults, delays and freezes of this instance only.
    pub client: Client,
    /// Its host's clock, which may jump.
    pub clock: Clock,
    /// Cancelled to ask for an orderly end.
    pub shutdown: CancellationToken,
    /// For its own jitter, so that a run stays a function of its seed.
    pub seed: u64,
    clusters: Clusters,
}

impl Instance {
    /// Its client of another cluster: struck, delayed, held and cut off as [`Instance::client`] is. One to a cluster that
    /// is not there (yet) gets transport errors.
    pub fn cluster(&self, name: &str) -> Client {
        self.clusters.client(name)
    }

    /// Its ways to all clusters, for code that connects by name.
    pub fn clusters(&self) -> Clusters {
        self.clusters.clone()
    }
}

impl Hub {
    /// Adds an instance and starts it.
    pub(crate) fn add(self: &Arc<Self>, name: &str, restarts: bool, passenger: Passenger) {
        let slot = Slot {
            life: Life::new(name, 0),
            passenger,
            clock: self.clock.instance(),
            task: None,
            up: false,
            restarts,
            restarting: false,
        };
        self.lock().slots.insert(name.to_owned(), slot);
        self.start(name);
    }

    /// Starts an instance that is down.
    pub(crate) fn start(self: &Arc<Self>, name: &str) {
        let started = {
            let mut state = self.lock();
            let Some(slot) = state.slots.get_mut(name).filter(|slot| !slot.up) else { return };
            slot.life = Life::new(name, slot.life.incarnation + 1);
            slot.up = true;
            slot.restarting = false;
            (Arc::clone(&slot.life), Arc::clone(&slot.passenger), slot.clock.clone())
        };
        let (life, passenger, clock) = started;
        self.note(&life.who(), "start".to_owned());
        let clusters = Clusters::new(self, &life);
        let instance = Instance {
            name: name.to_owned(),
            incarnation: life.incarnation,
            client: clusters.client(""),
            clock,
            shutdown: life.shutdown.clone(),
            seed: self.dice.pick("instance", life.who(), 0..=u64::MAX),
            clusters,
        };
        let task = tokio::spawn(Pausable { life: Arc::clone(&life), inner: passenger(instance) });
        if let Some(slot) = self.lock().slots.get_mut(name) {
            slot.task = Some(task.abort_handle());
        }
        let hub = Arc::clone(self);
        tokio::spawn(async move {
            let how = match task.await {
                Ok(()) => "ended by itself",
                Err(error) if error.is_panic() => "panicked",
                Err(_) => return,
            };
            hub.ended(&life, how);
        });
    }

    fn ended(self: &Arc<Self>, life: &Arc<Life>, how: &str) {
        self.note(&life.who(), how.to_owned());
        life.dead.cancel();
        self.bury(life);
        let again = {
            let mut state = self.lock();
            let Some(slot) = state.slots.get_mut(&life.name) else { return };
            slot.up = false;
            slot.restarts && !life.shutdown.is_cancelled()
        };
        if again {
            self.restart_later(&life.name);
        }
    }

    /// Kills an instance: its tasks stop, nothing of it reaches the API again but what was on the wire.
    pub(crate) fn crash(self: &Arc<Self>, name: &str) {
        let restarts = {
            let mut state = self.lock();
            let Some(slot) = state.slots.get_mut(name).filter(|slot| slot.up) else { return };
            slot.up = false;
            slot.life.dead.cancel();
            if let Some(task) = slot.task.take() {
                task.abort();
            }
            (slot.restarts, Arc::clone(&slot.life))
        };
        let (again, life) = restarts;
        self.note(&life.who(), "crash".to_owned());
        self.bury(&life);
        if again {
            self.restart_later(name);
        }
    }

    fn restart_later(self: &Arc<Self>, name: &str) {
        let incarnation = {
            let mut state = self.lock();
            let Some(slot) = state.slots.get_mut(name) else { return };
            slot.restarting = true;
            slot.life.incarnation
        };
        let subject = format!("{name} {incarnation}");
        let delay = Duration::from_millis(self.dice.pick("restart", subject, 100..=5000));
        let (hub, name) = (Arc::clone(self), name.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            hub.start(&name);
        });
    }

    pub(crate) fn life(&self, name: &str) -> Option<Arc<Life>> {
        self.lock().slots.get(name).map(|slot| Arc::clone(&slot.life))
    }

    pub(crate) fn set_paused(&self, name: &str, on: bool) {
        let Some(life) = self.life(name) else { return };
        if life.is_paused() == on {
            return;
        }
        self.note(&life.who(), if on { "pause" } else { "resume" }.to_owned());
        life.set_paused(on.then(|| self.clock.tick()));
        if !on {
            self.unpark();
        }
    }

    pub(crate) fn jump(&self, name: &str, by: SignedDuration) {
        let clock = self.lock().slots.get(name).map(|slot| slot.clock.clone());
        if let Some(clock) = clock {
            self.note(name, format!("clock jumps by {by:#}"));
            clock.jump(by);
        }
    }

    /// Freezes an instance's view at versions, by cluster.
    pub(crate) fn freeze(&self, name: &str, resource: Option<&str>, versions: BTreeMap<String, String>) {
        let shown: Vec<String> = versions
            .iter()
            .map(
                |(cluster, version)| {
                    if cluster.is_empty() { version.clone() } else { format!("{version}@{cluster}") }
                },
            )
            .collect();
        let what = resource.unwrap_or("everything");
        self.note(name, format!("view of {what} freezes at {}", shown.join(" ")));
        let freeze = Freeze { instance: name.to_owned(), resource: resource.map(str::to_owned), versions };
        self.lock().freezes.push(freeze);
    }

    pub(crate) fn thaw(&self, name: &str, resource: Option<&str>, how: Thaw) {
        let thawed = {
            let mut state = self.lock();
            let count = state.freezes.len();
            state.freezes.retain(|freeze| freeze.instance != name || freeze.resource.as_deref() != resource);
            state.freezes.len() < count
        };
        if !thawed {
            return;
        }
        self.note(name, format!("view of {} thaws: {how:?}", resource.unwrap_or("everything")));
        if how == Thaw::Relist {
            self.forget(name, resource);
        }
        self.unpark();
    }

    /// Carries a disruption out; returns when it is over.
    pub(crate) async fn disrupt(self: &Arc<Self>, disruption: Disruption) {
        match disruption {
            Disruption::Crash { instance } => self.crash(&instance),
            Disruption::Pause { instance, lasting } => {
                self.set_paused(&instance, true);
                tokio::time::sleep(lasting).await;
                self.set_paused(&instance, false);
            }
            Disruption::ClockJump { instance, by } => self.jump(&instance, by),
            Disruption::Freeze { instance, resource, lasting, thaw } => {
                self.freeze(&instance, resource.as_deref(), self.present_versions());
                tokio::time::sleep(lasting).await;
                self.thaw(&instance, resource.as_deref(), thaw);
            }
            Disruption::Relist { instance, resource } => self.forget(&instance, resource.as_deref()),
            Disruption::Unreachable { cluster, how, lasting } => {
                self.cut_off(&cluster, how);
                tokio::time::sleep(lasting).await;
                self.reconnect(&cluster);
            }
        }
    }

    /// No more faults: everything that was held is let go, everything that was down comes back.
    pub(crate) fn calm(self: &Arc<Self>) {
        self.note("world", "calm".to_owned());
        let (names, freezes, away) = {
            let mut state = self.lock();
            state.strikes.calm = true;
            state.forgotten.clear();
            let names: Vec<String> = state.slots.keys().cloned().collect();
            let freezes: Vec<_> = state
                .freezes
                .iter()
                .map(|freeze| (freeze.instance.clone(), freeze.resource.clone()))
                .collect();
            let away: Vec<String> = state.away.keys().cloned().collect();
            (names, freezes, away)
        };
        for (instance, resource) in freezes {
            self.thaw(&instance, resource.as_deref(), Thaw::CatchUp);
        }
        for name in &names {
            self.set_paused(name, false);
        }
        for cluster in away {
            self.reconnect(&cluster);
        }
        self.break_hung();
    }
}
