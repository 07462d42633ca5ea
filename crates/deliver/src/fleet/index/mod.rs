//! What of ours lives on a cluster: a digest and the health of every object, never the object.
//!
//! ```text
//!   ensure(kinds) ─► discovery ─► one watch a kind (label selector) ─► Raw ─► Fresh ─► State ─► wake: Applications
//!   our own writes ──────────────────────────── saw, gone ───────────────────────────────┘
//! ```
//!
//! A kind that was asked for is watched from then on, until it is no longer served or the cluster goes.

mod raw;
mod record;
mod state;
#[cfg(test)]
mod state_tests;
mod watches;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Client, api::GroupVersionKind};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};
use windlass_cluster::{
    discover::{DiscoveryCache, Lookup, Served},
    drive::Key,
};
use windlass_manifest::identity::{ObjectKey, split_api_version};

use super::{FleetOptions, Live, RuleBook, Wakes};
use crate::trouble::Trouble;
pub use record::NOT_APPLIED;
use record::{Fresh, Uid};
use state::{From, Phase, State};

/// What of ours lives on one cluster. Made by [`super::Link::new`].
pub struct Index {
    shared: Arc<Shared>,
    // Ends the watches when the index is dropped.
    watches: Mutex<JoinSet<()>>,
}

/// What the watches work on.
struct Shared {
    cluster: Arc<str>,
    client: Client,
    discovery: Arc<DiscoveryCache>,
    rules: Arc<RuleBook>,
    wakes: Wakes,
    state: Mutex<State>,
    progress: tokio::sync::watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to know about a kind that can be watched and is not; its number then.
    fn open(&self, served: &Served) -> Option<u32> {
        let watchable = ["list", "watch"].into_iter().all(|verb| served.verbs.contains(verb));
        watchable.then(|| self.state().open(&served.gvk())).flatten()
    }
}

impl Index {
    pub(super) fn new(
        cluster: Arc<str>,
        client: Client,
        discovery: Arc<DiscoveryCache>,
        wakes: Wakes,
        options: &FleetOptions,
    ) -> Self {
        let shared = Shared {
            cluster,
            client,
            discovery,
            rules: Arc::clone(&options.rules),
            wakes,
            state: Mutex::default(),
            progress: tokio::sync::watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared), watches: Mutex::default() }
    }

    /// Watches these kinds from now on; returns when each has been listed once, or the time is over.
    ///
    /// A kind that is not served, or that cannot be watched, is passed over: [`Index::is_watched`] says so. A kind is
    /// watched in one version, the one that was asked for first. Trouble means that the cluster did not answer in time, or
    /// that the controller may not list a kind; whatever could be started goes on, and all Applications are woken when a
    /// kind that somebody waited for in vain is listed after all.
    pub async fn ensure(&self, kinds: &[GroupVersionKind], patience: Duration) -> Result<(), Trouble> {
        let missing: Vec<&GroupVersionKind> = {
            let state = self.shared.state();
            kinds.iter().filter(|gvk| state.phase(gvk) != Some(&Phase::Following)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + patience;
        match tokio::time::timeout_at(until, self.start(&missing)).await {
            Ok(started) => started?,
            Err(_) => return Err(self.silent(&format!("no answer within {patience:?}"))),
        }
        let listed = tokio::time::timeout_at(until, self.listed(&missing)).await;
        listed.unwrap_or_else(|_| Err(self.gave_up(&missing, patience)))
    }

    /// What is known about an object, in whatever version its kind is watched.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Live>> {
        self.shared.state().get(key, Instant::now()).map(Arc::new)
    }

    /// Whether the kind has been listed and is followed, in whatever version: then what the index does not have is not
    /// there, or does not carry our label.
    pub fn is_watched(&self, gvk: &GroupVersionKind) -> bool {
        self.shared.state().phase(gvk) == Some(&Phase::Following)
    }

    /// The answer to a write of ours: news unless something newer is known already. Wakes nobody, and the event that
    /// tells the same later does not either. An object that no longer carries our label is forgotten.
    pub fn saw(&self, object: &Value) {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let Some((group, _)) = split_api_version(text("apiVersion")) else { return };
        let Some(number) = self.shared.state().number(group, text("kind")) else { return };
        let Some(fresh) = Fresh::of(object, &self.shared.rules) else { return };
        let mut state = self.shared.state();
        if fresh.labelled {
            state.put(number, fresh, From::Ours, Instant::now());
        } else {
            state.release(number, &fresh);
        }
    }

    /// What an object that was read says of itself, judged as the index judges; `None` when it has no name. Nothing is
    /// filed.
    pub fn read(&self, object: &Value) -> Option<Live> {
        Fresh::of(object, &self.shared.rules).map(Fresh::into_live)
    }

    /// Our own delete was answered with "gone". When it was answered with an object that still has finalizers, that is
    /// for [`Index::saw`].
    pub fn gone(&self, key: &ObjectKey, uid: &str) {
        let mut state = self.shared.state();
        if let Some(number) = state.number(&key.group, &key.kind) {
            state.bury(number, key.namespace.as_deref(), &key.name, Uid::new(uid));
        }
    }

    /// The objects that say they belong to an Application.
    pub fn owned_by(&self, app: &Key) -> Vec<(ObjectKey, Arc<Live>)> {
        let found = self.shared.state().owned_by(&app.to_string(), Instant::now());
        found.into_iter().map(|(key, live)| (key, Arc::new(live))).collect()
    }

    /// Objects that are known.
    pub fn len(&self) -> usize {
        self.shared.state().len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kinds that are watched, each in its version.
    pub fn kinds(&self) -> Vec<GroupVersionKind> {
        self.shared.state().kinds()
    }

    /// Watches what another index of the same cluster watched, without waiting for anything.
    pub(super) fn take_over(&self, kinds: Vec<GroupVersionKind>) {
        if !kinds.is_empty() {
            self.watches().spawn(watches::resume(Arc::clone(&self.shared), kinds));
        }
    }

    /// Ends all watches. What is known stays as it is.
    pub(super) fn stop(&self) {
        self.watches().abort_all();
    }

    fn watches(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch what is served and not watched yet.
    async fn start(&self, kinds: &[&GroupVersionKind]) -> Result<(), Trouble> {
        for gvk in kinds {
            if self.shared.state().phase(gvk).is_some() {
                continue;
            }
            match self.shared.discovery.lookup(gvk).await {
                Ok(Lookup::Found(served)) => self.watch(served),
                Ok(_) => {}
                Err(error) => return Err(self.silent(&error.to_string())),
            }
        }
        Ok(())
    }

    fn watch(&self, served: Arc<Served>) {
        let Some(number) = self.shared.open(&served) else { return };
        let mut watches = self.watches();
        while watches.try_join_next().is_some() {}
        watches.spawn(watches::follow(Arc::clone(&self.shared), served, number));
    }

    /// Waits until each of these is listed, or not watched.
    async fn listed(&self, kinds: &[&GroupVersionKind]) -> Result<(), Trouble> {
        let mut progress = self.shared.progress.subscribe();
        loop {
            progress.mark_unchanged();
            let waits = {
                let state = self.shared.state();
                let mut waits = false;
                for gvk in kinds {
                    match state.phase(gvk) {
                        None | Some(Phase::Following) => {}
                        Some(Phase::Starting(Some(trouble))) if trouble.reason == watches::FORBIDDEN => {
                            return Err(trouble.clone());
                        }
                        Some(Phase::Starting(_)) => waits = true,
                    }
                }
                waits
            };
            if !waits || progress.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    fn gave_up(&self, kinds: &[&GroupVersionKind], patience: Duration) -> Trouble {
        let mut state = self.shared.state();
        let mut because = None;
        let mut waiting = Vec::new();
        for gvk in kinds {
            match state.phase(gvk) {
                Some(Phase::Starting(trouble)) => {
                    because = because.or_else(|| trouble.clone());
                    waiting.push(gvk.kind.as_str());
                }
                None | Some(Phase::Following) => {}
            }
            state.missed(gvk);
        }
        let cluster = &self.shared.cluster;
        because.unwrap_or_else(|| {
            Trouble::passing(
                "ClusterSlow",
                format!("cluster {cluster} did not list {} within {patience:?}", waiting.join(", ")),
                "The controller goes on waiting; check the load of the cluster's API server",
            )
        })
    }

    fn silent(&self, error: &str) -> Trouble {
        Trouble::passing(
            "ClusterUnreachable",
            format!("cluster {} does not say what it serves: {error}", self.shared.cluster),
            "The controller tries again by itself; check the cluster's API server",
        )
    }
}
