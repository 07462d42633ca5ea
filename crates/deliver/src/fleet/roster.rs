//! The clusters: who is there, who can be used, and a working handle for each.
//!
//! ```text
//!   Cluster (hub) ─watch─► seats ─► attend, one for each seat, side by side:
//!                                     connect, again when the Cluster changes and every minute ─► Link
//!                                     probe while suspected ─► back in use
//! ```
//!
//! Clusters never wait for each other: each is attended by itself, and each step has a time limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use kube::{Api, Client, ResourceExt};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_api::{
    Cluster,
    application::{HealthRules, IN_CLUSTER},
};
use windlass_cluster::{
    backoff::Backoff,
    connect::{Probe, ProbeError, probe},
    drive::Key,
    watch::{Event, Selection, objects},
};

use super::{
    FleetOptions, Member, Wake, Wakes,
    connect::{Connector, Contact},
    link::Link,
    members::Facts,
};
use crate::trouble::Trouble;

/// Between two probes of a cluster that does not answer.
const PROBES: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(30) };

/// A cluster that is suspected again within this time waits longer for its first probe than before.
const MEMORY: Duration = Duration::from_mins(5);

/// After a connection that could not even be made because the hub hiccupped.
const SOON: Duration = Duration::from_secs(5);

/// The clusters. [`Fleet::run`] keeps it up to date.
pub struct Fleet<C> {
    hub: Client,
    connector: C,
    wakes: Wakes,
    options: FleetOptions,
    seats: Mutex<Seats>,
    warm: watch::Sender<bool>,
}

#[derive(Default)]
struct Seats {
    by_name: BTreeMap<Arc<str>, Seat>,
    /// Tells two clusters of one name apart.
    last: u64,
    /// Names in the list that is being read.
    listing: Option<BTreeSet<Arc<str>>>,
    /// A whole list was read.
    listed: bool,
}

struct Seat {
    number: u64,
    facts: Facts,
    link: Option<Arc<Link>>,
    /// Why no connection could be made.
    trouble: Option<Trouble>,
    suspicion: Option<Suspicion>,
    /// Times that it was suspected of late, and until when that is remembered.
    suspected: u32,
    remembered: Option<Instant>,
    /// A connection was tried, or there was no reason to.
    tried: bool,
    /// It has to be connected anew.
    stale: bool,
    /// It was asked for its version: nobody else does that for the controller's own cluster.
    asked: bool,
    nudge: Arc<Notify>,
}

struct Suspicion {
    why: Trouble,
    failures: u32,
    due: Instant,
}

impl Seat {
    /// Why the cluster cannot be used at the moment.
    fn trouble(&self, name: &str) -> Option<Trouble> {
        let of_link = || {
            self.link.is_none().then(|| {
                let what = format!("cluster {name} is being connected");
                Trouble::passing("ClusterConnecting", what, "This takes a moment")
            })
        };
        let suspected = self.suspicion.as_ref().map(|suspicion| &suspicion.why);
        let known = self.facts.standing.as_ref().or(self.trouble.as_ref()).or(suspected);
        known.cloned().or_else(of_link)
    }

    fn is_usable(&self) -> bool {
        self.facts.standing.is_none() && !self.facts.leaving
    }
}

/// What an attendant does next.
enum Next {
    Connect(Option<Arc<Cluster>>),
    Probe(Client),
    Wait(Duration),
}

impl<C: Connector> Fleet<C> {
    /// A fleet of the `Cluster`s of this hub. `wakes` is called, briefly, whenever Applications have to look again.
    pub fn new(hub: Client, connector: C, wakes: Wakes, options: FleetOptions) -> Self {
        let (warm, _) = watch::channel(false);
        Self { hub, connector, wakes, options, seats: Mutex::default(), warm }
    }

    /// Becomes true when the list of `Cluster`s is whole and a connection to each was tried.
    pub fn warm(&self) -> watch::Receiver<bool> {
        self.warm.subscribe()
    }

    /// The clusters, by name. One whose `Cluster` is being deleted is left out.
    pub fn members(&self) -> Vec<Member> {
        let seats = self.seats();
        let staying = seats.by_name.iter().filter(|(_, seat)| !seat.facts.leaving);
        staying
            .map(|(name, seat)| Member {
                name: name.to_string(),
                labels: seat.facts.labels.clone(),
                version: seat.facts.version.clone(),
                trouble: seat.trouble(name),
            })
            .collect()
    }

    /// The working handle of a cluster that can be used.
    pub fn link(&self, cluster: &str) -> Result<Arc<Link>, Trouble> {
        let seats = self.seats();
        let seat = seats.by_name.get(cluster).filter(|seat| !seat.facts.leaving).ok_or_else(|| {
            Trouble::standing(
                "ClusterNotFound",
                format!("there is no cluster {cluster}"),
                format!("Register a Cluster of this name, or correct the destination {cluster}"),
            )
        })?;
        match (seat.trouble(cluster), &seat.link) {
            (None, Some(link)) => Ok(Arc::clone(link)),
            (Some(trouble), _) => Err(trouble),
            (None, None) => Err(Trouble::passing("ClusterConnecting", "the cluster is being connected", "")),
        }
    }

    /// From now on objects of this Application are judged by its own rules.
    pub fn judge_by(&self, app: &Key, rules: &[HealthRules]) -> Result<(), Trouble> {
        self.options.rules.set(app, rules)
    }

    /// The Application is gone.
    pub fn forget(&self, app: &Key) {
        self.options.rules.forget(app);
    }

    /// A request got no answer: the cluster is set aside until a probe succeeds, and then all Applications are woken.
    pub fn suspect(&self, cluster: &str, why: &Trouble) {
        let mut seats = self.seats();
        let Some(seat) = seats.by_name.get_mut(cluster) else { return };
        if seat.suspicion.is_some() {
            return;
        }
        let now = Instant::now();
        if seat.remembered.is_none_or(|until| until <= now) {
            seat.suspected = 0;
        }
        seat.suspected = seat.suspected.saturating_add(1);
        let due = now + PROBES.delay(seat.suspected, cluster);
        warn!(cluster, reason = why.reason, "cluster does not answer and is set aside");
        let why = Trouble { waits_for_change: true, ..why.clone() };
        seat.suspicion = Some(Suspicion { why, failures: seat.suspected, due });
        seat.nudge.notify_one();
    }

    /// Watches the `Cluster`s, connects, probes, until it is told to stop. Then the watches on all clusters end, too.
    pub async fn run(&self, stop: CancellationToken) {
        let api: Api<Cluster> = Api::all(self.hub.clone());
        let mut clusters = pin!(objects(api, &Selection::default(), "clusters"));
        let mut attending = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(event) = clusters.next() => {
                    for (name, number, nudge) in self.heard(event) {
                        attending.push(self.attend(name, number, nudge));
                    }
                }
                Some(()) = attending.next() => {}
                else => break,
            }
        }
        for seat in self.seats().by_name.values() {
            if let Some(link) = &seat.link {
                link.index().stop();
            }
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event in; gives the seats that are new.
    fn heard(&self, event: Event<Cluster>) -> Vec<(Arc<str>, u64, Arc<Notify>)> {
        let mut seats = self.seats();
        let before = seats.last;
        let changed = match event {
            Event::ListBegins => {
                seats.listing = Some(BTreeSet::new());
                false
            }
            Event::Listed(cluster) | Event::Changed(cluster) => seats.seat(&cluster),
            Event::ListEnds => seats.whole(),
            Event::Gone(cluster) => seats.leave(&cluster.name_any()),
            Event::Broken { category, message } => {
                warn!(category, message, "watch of Clusters broke");
                false
            }
        };
        let new = seats.by_name.iter().filter(|(_, seat)| seat.number > before);
        let new = new.map(|(name, seat)| (Arc::clone(name), seat.number, Arc::clone(&seat.nudge))).collect();
        drop(seats);
        if changed && *self.warm.borrow() {
            (self.wakes)(Wake::All);
        }
        self.check_warm();
        new
    }

    /// Attends one cluster until it goes.
    async fn attend(&self, name: Arc<str>, number: u64, nudge: Arc<Notify>) {
        let mut recheck = Instant::now();
        while let Some(next) = self.next(&name, number, recheck) {
            match next {
                Next::Connect(cluster) => {
                    let made = self.connect(cluster.as_deref()).await;
                    let pause = self.connected(&name, number, made);
                    recheck = Instant::now() + pause;
                    self.check_warm();
                }
                Next::Probe(client) => {
                    let answer = probe(&client, self.options.probe_within).await;
                    self.probed(&name, number, answer);
                }
                Next::Wait(pause) => {
                    tokio::select! {
                        biased;
                        () = nudge.notified() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    /// What to do next for a cluster; `None` when it is gone.
    fn next(&self, name: &str, number: u64, recheck: Instant) -> Option<Next> {
        let mut seats = self.seats();
        let seat = seats.by_name.get_mut(name).filter(|seat| seat.number == number)?;
        let now = Instant::now();
        if !seat.is_usable() {
            // It is not asked for credentials before somebody says that it can be used again.
            (seat.tried, seat.stale) = (true, true);
            return Some(Next::Wait(self.options.recheck));
        }
        if seat.stale || recheck <= now {
            (seat.stale, seat.asked) = (false, seat.facts.cluster.is_some());
            return Some(Next::Connect(seat.facts.cluster.clone()));
        }
        let Some(link) = &seat.link else { return Some(Next::Wait(recheck - now)) };
        let due = seat.suspicion.as_ref().map(|suspicion| suspicion.due);
        if due.is_some_and(|due| due <= now) || !seat.asked {
            seat.asked = true;
            return Some(Next::Probe(link.client()));
        }
        Some(Next::Wait(due.unwrap_or(recheck).min(recheck) - now))
    }

    async fn connect(&self, cluster: Option<&Cluster>) -> Result<Contact, Trouble> {
        let slow = || {
            Err(Trouble::passing(
                "ConnectionSlow",
                "no connection could be prepared in time",
                "Check DNS, and the hub's API server that holds the kubeconfig",
            ))
        };
        let limited = |made| tokio::time::timeout(self.options.connect_within, made);
        match cluster {
            Some(cluster) => limited(boxed(self.connector.connect(cluster))).await.unwrap_or_else(|_| slow()),
            None => limited(boxed(self.connector.own())).await.unwrap_or_else(|_| slow()),
        }
    }

    /// Takes a new client, or the lack of one; gives when to check again.
    fn connected(&self, name: &str, number: u64, made: Result<Contact, Trouble>) -> Duration {
        let mut seats = self.seats();
        let Some(seat) = seats.by_name.get_mut(name).filter(|seat| seat.number == number) else {
            return Duration::ZERO;
        };
        seat.tried = true;
        let (changed, pause) = match made {
            Ok(contact) if seat.link.as_ref().is_some_and(|link| link.identity() == contact.identity) => {
                (seat.trouble.take().is_some(), self.options.recheck)
            }
            Ok(contact) => {
                info!(cluster = name, "cluster is connected");
                let link = Link::new(name, contact, Arc::clone(&self.wakes), &self.options);
                if let Some(old) = seat.link.take() {
                    old.index().stop();
                    link.index().take_over(old.index().kinds());
                }
                seat.link = Some(Arc::new(link));
                // What was suspected was the old connection.
                (seat.trouble, seat.suspicion) = (None, None);
                (true, self.options.recheck)
            }
            // The old credentials still hold for all that is known.
            Err(trouble) if !trouble.waits_for_change && seat.link.is_some() => {
                debug!(cluster = name, reason = trouble.reason, "connection could not be checked");
                (false, SOON)
            }
            Err(trouble) => {
                // Credentials that were replaced by bad ones must not be used any more.
                if let Some(old) = seat.link.take() {
                    old.index().stop();
                }
                let pause = if trouble.waits_for_change { self.options.recheck } else { SOON };
                let changed = seat.trouble.as_ref() != Some(&trouble);
                seat.trouble = Some(trouble);
                (changed, pause)
            }
        };
        drop(seats);
        if changed && *self.warm.borrow() {
            (self.wakes)(Wake::All);
        }
        pause
    }

    fn probed(&self, name: &str, number: u64, answer: Result<Probe, ProbeError>) {
        let mut seats = self.seats();
        let Some(seat) = seats.by_name.get_mut(name).filter(|seat| seat.number == number) else { return };
        let now = Instant::now();
        let mut changed = false;
        match answer {
            Ok(answer) => {
                if seat.suspicion.take().is_some() {
                    info!(cluster = name, "cluster answers again");
                    seat.remembered = Some(now + MEMORY);
                    changed = true;
                }
                let version = Some(answer.version);
                if seat.facts.cluster.is_none() && seat.facts.version != version {
                    seat.facts.version = version;
                    changed = true;
                }
            }
            Err(why) => {
                debug!(cluster = name, reason = why.reason(), "cluster does not answer a probe");
                if let Some(suspicion) = &mut seat.suspicion {
                    suspicion.failures = suspicion.failures.saturating_add(1);
                    suspicion.due = now + PROBES.delay(suspicion.failures, name);
                }
            }
        }
        drop(seats);
        if changed && *self.warm.borrow() {
            (self.wakes)(Wake::All);
        }
    }

    fn check_warm(&self) {
        let seats = self.seats();
        let is_warm = seats.listed && seats.by_name.values().all(|seat| seat.tried);
        drop(seats);
        if is_warm && !self.warm.send_replace(true) {
            (self.wakes)(Wake::All);
        }
    }
}

impl Seats {
    /// Takes a `Cluster` as it is now; whether that is news.
    fn seat(&mut self, cluster: &Cluster) -> bool {
        let name: Arc<str> = Arc::from(cluster.name_any());
        if let Some(listing) = &mut self.listing {
            listing.insert(Arc::clone(&name));
        }
        self.place(name, Facts::of(cluster))
    }

    fn place(&mut self, name: Arc<str>, facts: Facts) -> bool {
        let uid = |facts: &Facts| facts.cluster.as_ref().and_then(|cluster| cluster.metadata.uid.clone());
        if let Some(seat) = self.by_name.get_mut(&name)
            && uid(&seat.facts) == uid(&facts)
        {
            if seat.facts == facts {
                return false;
            }
            if facts.leaving {
                // Nobody gets it any more; whoever has it goes on.
                if let Some(link) = seat.link.take() {
                    link.index().stop();
                }
            }
            if let Some(link) = seat.link.as_ref().filter(|_| seat.facts.version != facts.version) {
                link.discovery().invalidate();
            }
            (seat.facts, seat.stale) = (facts, true);
            seat.nudge.notify_one();
            return true;
        }
        self.leave(&name);
        self.last += 1;
        let seat = Seat {
            number: self.last,
            facts,
            link: None,
            trouble: None,
            suspicion: None,
            suspected: 0,
            remembered: None,
            tried: false,
            stale: true,
            asked: false,
            nudge: Arc::default(),
        };
        self.by_name.insert(name, seat);
        true
    }

    fn leave(&mut self, name: &str) -> bool {
        let Some(seat) = self.by_name.remove(name) else { return false };
        if let Some(link) = &seat.link {
            link.index().stop();
        }
        seat.nudge.notify_one();
        if self.listed {
            self.own();
        }
        true
    }

    /// The list is whole: who is not in it is gone.
    fn whole(&mut self) -> bool {
        let listing = self.listing.take().unwrap_or_default();
        self.listed = true;
        let gone: Vec<Arc<str>> = self
            .by_name
            .iter()
            .filter(|(name, seat)| seat.facts.cluster.is_some() && !listing.contains(*name))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let mut changed = false;
        for name in gone {
            changed |= self.leave(&name);
        }
        changed | self.own()
    }

    /// The controller's own cluster is a member unless a `Cluster` has its name.
    fn own(&mut self) -> bool {
        !self.by_name.contains_key(IN_CLUSTER) && self.place(Arc::from(IN_CLUSTER), Facts::own(IN_CLUSTER))
    }
}

/// One type for both ways to connect.
fn boxed<'a>(
    made: impl Future<Output = Result<Contact, Trouble>> + Send + 'a,
) -> futures::future::BoxFuture<'a, Result<Contact, Trouble>> {
    Box::pin(made)
}
