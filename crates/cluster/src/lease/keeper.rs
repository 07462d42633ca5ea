//! Keeps the leases: watches them, asks [`plan`](super::plan::plan), and writes with compare-and-swap.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    gate::{Gate, Trust},
    plan::{self, Seen, Step, Timing, View},
};
use crate::{
    clock::Clock,
    watch::{self as watching, Event, Selection},
};

const INSTALLATION: &str = "windlass.dev/lease";
const ROLE: &str = "windlass.dev/lease-role";
const SHARD: &str = "windlass.dev/shard";
const SHARDS: &str = "windlass.dev/shards";

/// Longest wait for writes under way when a shard is given up.
const DRAIN: Duration = Duration::from_millis(700);

/// Whose leases, and how they are timed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the installation: replicas with the same name share the leases.
    pub name: String,
    /// Namespace of the leases.
    pub namespace: String,
    /// This replica, different from every other.
    pub identity: String,
    /// Number of shards.
    pub shards: u32,
    /// The timing.
    pub timing: Timing,
}

/// Why a lease could not be written.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The API server refused or did not answer.
    #[error("lease {lease} could not be {verb}")]
    Write {
        /// Name of the lease.
        lease: String,
        /// What was tried.
        verb: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// No answer within the time between two renewals.
    #[error("lease {lease} could not be {verb}: no answer in time")]
    Timeout {
        /// Name of the lease.
        lease: String,
        /// What was tried.
        verb: &'static str,
    },
}

impl KeeperError {
    /// Another replica wrote it first: normal, the watch will tell.
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Write { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 409))
    }
}

#[derive(Clone, Debug)]
struct Known {
    lease: Lease,
    since: Instant,
}

/// See the module's text.
pub struct Keeper {
    api: Api<Lease>,
    options: Options,
    clock: Clock,
    gate: Gate,
    willing: watch::Receiver<bool>,
    origin: Instant,
    shards: BTreeMap<u32, Known>,
    members: BTreeMap<String, Known>,
    renewed: BTreeMap<u32, Instant>,
    beaten: Option<Instant>,
    /// Whether the leases that exist have been seen: before that an absent lease is not a free one.
    listed: bool,
    /// Names seen in the list that is being read, while one is.
    listing: Option<BTreeSet<String>>,
}

impl Keeper {
    /// A keeper and the gate that it opens and closes. `willing` says whether this replica could act: a cold one takes
    /// nothing.
    pub fn new(
        client: Client,
        options: Options,
        clock: Clock,
        willing: watch::Receiver<bool>,
    ) -> (Self, Gate) {
        let gate = Gate::leased(options.shards, clock.clone());
        let keeper = Self {
            api: Api::namespaced(client, &options.namespace),
            clock,
            gate: gate.clone(),
            willing,
            origin: Instant::now(),
            shards: BTreeMap::new(),
            members: BTreeMap::new(),
            renewed: BTreeMap::new(),
            beaten: None,
            listed: false,
            listing: None,
            options,
        };
        (keeper, gate)
    }

    /// Runs until `stop`, then lets go of everything so that another replica can take over at once.
    pub async fn run(mut self, stop: CancellationToken) {
        let selection = Selection::labels(format!("{INSTALLATION}={}", self.options.name));
        let events = watching::objects(self.api.clone(), &selection, &self.options.identity);
        let mut events = std::pin::pin!(events);
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(event) = events.next() => self.see(event),
                changed = self.willing.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(next) => {}
            }
            if self.listed {
                next = self.keep().await;
            } else {
                next = Instant::now() + self.options.timing.renew;
            }
        }
        self.leave().await;
    }

    fn see(&mut self, event: Event<Lease>) {
        match event {
            Event::ListBegins => self.listing = Some(BTreeSet::new()),
            Event::Listed(lease) | Event::Changed(lease) => {
                if let (Some(listing), Some(name)) = (self.listing.as_mut(), &lease.metadata.name) {
                    listing.insert(name.clone());
                }
                self.learn(lease);
            }
            Event::Gone(lease) => self.forget(&lease),
            Event::ListEnds => {
                let seen = self.listing.take().unwrap_or_default();
                let known = self.shards.values().chain(self.members.values()).map(|known| &known.lease);
                let named =
                    |lease: &&Lease| lease.metadata.name.as_ref().is_some_and(|name| seen.contains(name));
                let gone: Vec<Lease> = known.filter(|lease| !named(lease)).cloned().collect();
                for lease in gone {
                    self.forget(&lease);
                }
                self.listed = true;
            }
            Event::Broken { category, message } => {
                warn!(category, message, "the watch on leases broke and starts again");
            }
        }
    }

    /// A lease is gone. A list that began before our own write may not name what we just made: that is then made again,
    /// which the API server answers with a conflict and the watch with the truth.
    fn forget(&mut self, lease: &Lease) {
        match role(lease) {
            Some(Role::Shard(shard)) => {
                self.shards.remove(&shard);
                self.renewed.remove(&shard);
                self.gate.lose(shard);
            }
            Some(Role::Member(name)) => {
                self.members.remove(&name);
            }
            None => {}
        }
    }

    /// Takes a lease as seen; an older version than the known one is ignored.
    fn learn(&mut self, lease: Lease) {
        let now = Instant::now();
        let newer = |known: Option<&Known>| {
            known.is_none_or(|known| {
                version(&lease) > version(&known.lease) || lease.metadata.uid != known.lease.metadata.uid
            })
        };
        match role(&lease) {
            Some(Role::Shard(shard)) if newer(self.shards.get(&shard)) => {
                if holder(&lease) != Some(&self.options.identity) {
                    self.renewed.remove(&shard);
                    self.gate.lose(shard);
                }
                self.shards.insert(shard, Known { lease, since: now });
            }
            Some(Role::Member(name)) if newer(self.members.get(&name)) => {
                self.members.insert(name, Known { lease, since: now });
            }
            _ => {}
        }
    }

    /// Does what is due and tells when to look again.
    async fn keep(&mut self) -> Instant {
        let now = Instant::now();
        let (steps, next) = self.decide(now);
        let mut retry = None;
        for step in steps {
            if let Err(error) = self.step(&step).await {
                if error.is_conflict() {
                    debug!(%error, ?step, "another replica was first");
                } else {
                    warn!(error = &error as &dyn std::error::Error, ?step, "a lease could not be kept");
                }
                retry = Some(Instant::now() + self.options.timing.renew / 5);
            }
        }
        retry.unwrap_or(self.origin + next).max(now + Duration::from_millis(20))
    }

    fn decide(&self, now: Instant) -> (Vec<Step>, Duration) {
        let since = |at: &Instant| at.saturating_duration_since(self.origin);
        let seen = |known: &Known| Seen {
            holder: holder(&known.lease).map(ToOwned::to_owned),
            shards: label(&known.lease, SHARDS).unwrap_or(1),
            since: since(&known.since),
            lasts: lasts(&known.lease).unwrap_or(self.options.timing.duration),
        };
        let leases = self.shards.iter().map(|(shard, known)| (*shard, seen(known))).collect();
        let members = self.members.iter().map(|(name, known)| (name.clone(), seen(known))).collect();
        let renewed = self.renewed.iter().map(|(shard, at)| (*shard, since(at))).collect();
        let view = View {
            me: &self.options.identity,
            shards: self.options.shards.max(1),
            leases: &leases,
            members: &members,
            renewed: &renewed,
            beaten: self.beaten.as_ref().map(since),
            willing: *self.willing.borrow(),
            timing: self.options.timing,
        };
        plan::plan(&view, since(&now))
    }

    async fn step(&mut self, step: &Step) -> Result<(), KeeperError> {
        match step {
            Step::Beat => {
                let sent = Instant::now();
                let name = format!("{}-member-{}", self.options.name, self.options.identity);
                let old = self.members.get(&self.options.identity).map(|known| known.lease.clone());
                let lease = self.lease(name, "member", None, old.as_ref());
                let lease = self.write(old.is_some(), lease, "renewed").await?;
                self.beaten = Some(sent);
                self.learn(lease);
            }
            Step::Bury(member) => {
                if let Some(known) = self.members.get(member) {
                    self.bury(&known.lease.clone()).await?;
                }
                self.members.remove(member);
            }
            Step::Take(shard) | Step::Renew(shard) => {
                self.hold(*shard, matches!(step, Step::Take(_))).await?;
            }
            Step::Release(shard) => self.release(*shard).await?,
        }
        Ok(())
    }

    async fn hold(&mut self, shard: u32, take: bool) -> Result<(), KeeperError> {
        let (sent, sent_wall) = (Instant::now(), self.clock.now());
        let name = format!("{}-shard-{shard}", self.options.name);
        let old = self.shards.get(&shard).map(|known| known.lease.clone());
        let lease = self.lease(name, "shard", Some(shard), old.as_ref());
        let lease = self.write(old.is_some(), lease, if take { "taken" } else { "renewed" }).await?;
        let trusted = self.options.timing.duration.saturating_sub(self.options.timing.margin);
        self.renewed.insert(shard, sent);
        self.learn(lease);
        let wall_until = sent_wall.checked_add(trusted).unwrap_or(sent_wall);
        self.gate.trust(shard, Trust { until: sent + trusted, wall_until });
        if take {
            info!(shard, identity = self.options.identity, "shard taken");
        }
        Ok(())
    }

    async fn release(&mut self, shard: u32) -> Result<(), KeeperError> {
        self.gate.drain(shard, DRAIN).await;
        self.gate.lose(shard);
        self.renewed.remove(&shard);
        let Some(known) = self.shards.get(&shard) else { return Ok(()) };
        if holder(&known.lease) != Some(&self.options.identity) {
            return Ok(());
        }
        let mut lease = known.lease.clone();
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(self.clock.now()));
        }
        let lease = self.write(true, lease, "released").await?;
        self.learn(lease);
        info!(shard, identity = self.options.identity, "shard released");
        Ok(())
    }

    /// Lets go of everything, each within a short time: a dead API server must not hold up the end.
    async fn leave(&mut self) {
        let held: Vec<u32> = self.renewed.keys().copied().collect();
        for shard in held {
            if let Err(error) = self.release(shard).await {
                warn!(error = &error as &dyn std::error::Error, shard, "the shard ends by itself");
            }
        }
        if let Some(known) = self.members.get(&self.options.identity) {
            let lease = known.lease.clone();
            if let Err(error) = self.bury(&lease).await {
                debug!(%error, "the member lease ends by itself");
            }
        }
    }

    fn lease(&self, name: String, role: &str, shard: Option<u32>, old: Option<&Lease>) -> Lease {
        let now = self.clock.now();
        let spec = old.and_then(|old| old.spec.clone()).unwrap_or_default();
        let same = spec.holder_identity.as_deref() == Some(&self.options.identity);
        let transitions = spec.lease_transitions.unwrap_or(0);
        let mut labels = BTreeMap::from([
            (INSTALLATION.to_owned(), self.options.name.clone()),
            (ROLE.to_owned(), role.to_owned()),
            (SHARDS.to_owned(), self.options.shards.max(1).to_string()),
        ]);
        if let Some(shard) = shard {
            labels.insert(SHARD.to_owned(), shard.to_string());
        }
        Lease {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(self.options.namespace.clone()),
                labels: Some(labels),
                resource_version: old.and_then(|old| old.metadata.resource_version.clone()),
                uid: old.and_then(|old| old.metadata.uid.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.options.identity.clone()),
                lease_duration_seconds: i32::try_from(self.options.timing.duration.as_secs().max(1)).ok(),
                acquire_time: if same { spec.acquire_time } else { Some(MicroTime(now)) },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(if same || old.is_none() { transitions } else { transitions + 1 }),
                ..LeaseSpec::default()
            }),
        }
    }

    async fn write(&self, exists: bool, lease: Lease, verb: &'static str) -> Result<Lease, KeeperError> {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let params = PostParams { field_manager: Some("windlass-lease".into()), ..PostParams::default() };
        let request = async {
            if exists {
                self.api.replace(&name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        self.bounded(request, &name, verb).await
    }

    async fn bury(&self, lease: &Lease) -> Result<(), KeeperError> {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: lease.metadata.uid.clone(),
                resource_version: lease.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match self.bounded(async { self.api.delete(&name, &params).await }, &name, "deleted").await {
            Err(KeeperError::Write { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.code == 404) => {
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// A request that is given up before the next one is due.
    async fn bounded<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        lease: &str,
        verb: &'static str,
    ) -> Result<T, KeeperError> {
        match tokio::time::timeout(self.options.timing.renew, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => {
                Err(KeeperError::Write { lease: lease.to_owned(), verb, source: Box::new(source) })
            }
            Err(_) => Err(KeeperError::Timeout { lease: lease.to_owned(), verb }),
        }
    }
}

enum Role {
    Shard(u32),
    Member(String),
}

fn role(lease: &Lease) -> Option<Role> {
    let labels = lease.metadata.labels.as_ref()?;
    match labels.get(ROLE)?.as_str() {
        "shard" => Some(Role::Shard(label(lease, SHARD)?)),
        // The name cannot be read off a released member: it is the holder or nobody.
        "member" => holder(lease).map(|name| Role::Member(name.to_owned())),
        _ => None,
    }
}

fn label(lease: &Lease, key: &str) -> Option<u32> {
    lease.metadata.labels.as_ref()?.get(key)?.parse().ok()
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn lasts(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

fn version(lease: &Lease) -> u128 {
    lease.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}
