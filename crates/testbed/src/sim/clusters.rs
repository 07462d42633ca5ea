//! Several clusters in one world: each an API of its own, all behind the one scheduler.
//!
//! The hub is the cluster without a name: the one that the controllers live in. A cluster can be out of reach for all
//! instances at once; what that looks like to them is an [`Unreachable`].

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use http::Request;
use kube::{Client, client::Body};
use tower::Service;

use super::{
    api::Api,
    clock::epoch,
    gate::Gate,
    hub::{Answer, Hub, Item, Sent},
    life::Life,
    release::broken,
};

/// How long a definition takes to be served.
const ESTABLISHED: Duration = Duration::from_millis(60);

/// How a cluster that cannot be reached shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Connections are refused at once, open ones are reset: the server is down. A request that was answered when it
    /// went down was applied, and its answer is lost.
    Refuses,
    /// Nothing comes back and nothing breaks: packets are lost. What still waits when the cluster is back goes on,
    /// watches included.
    Hangs,
}

/// The ways of one life of an instance to all clusters. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    hub: Arc<Hub>,
    life: Arc<Life>,
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clusters").field(&self.life.who()).finish()
    }
}

impl Clusters {
    pub(crate) fn new(hub: &Arc<Hub>, life: &Arc<Life>) -> Self {
        Self { hub: Arc::clone(hub), life: Arc::clone(life) }
    }

    /// A client of a cluster; the empty name is the hub. One of a cluster that is not there gets transport errors.
    pub fn client(&self, cluster: &str) -> Client {
        let gate =
            Gate { hub: Arc::clone(&self.hub), life: Arc::clone(&self.life), cluster: Arc::from(cluster) };
        Client::new(gate, "default")
    }
}

impl Hub {
    fn apis(&self) -> MutexGuard<'_, BTreeMap<String, Api>> {
        self.apis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API of a cluster, made when it is not there.
    pub(crate) fn add_api(&self, cluster: &str) -> Api {
        if let Some(api) = self.api(cluster) {
            return api;
        }
        let seed = if cluster.is_empty() {
            self.dice.seed()
        } else {
            self.note("world", format!("cluster {cluster} is there"));
            self.dice.pick("cluster", cluster, 0..=u64::MAX)
        };
        let api = Api::with_seed(seed, self.clock.to_fn());
        api.set_establish_after(ESTABLISHED);
        api.tell(Arc::clone(&self.wake));
        self.apis().insert(cluster.to_owned(), api.clone());
        api
    }

    pub(crate) fn api(&self, cluster: &str) -> Option<Api> {
        self.apis().get(cluster).cloned()
    }

    /// Every API with the name of its cluster, in the order of names.
    pub(crate) fn all_apis(&self) -> Vec<(String, Api)> {
        self.apis().iter().map(|(name, api)| (name.clone(), api.clone())).collect()
    }

    /// The present resourceVersion of every cluster.
    pub(crate) fn present_versions(&self) -> BTreeMap<String, String> {
        self.apis().iter().map(|(name, api)| (name.clone(), api.version().to_string())).collect()
    }

    /// Sends a request straight to a cluster's API.
    pub(crate) fn upstream(&self, cluster: &str, request: Request<Body>) -> BoxFuture<'static, Answer> {
        match self.api(cluster) {
            Some(mut api) => api.call(request),
            None => Box::pin(std::future::ready(Err(broken("no such host")))),
        }
    }

    /// Lets the APIs do what they do in their own time, cluster by cluster.
    pub(crate) fn carry_out_due(&self) {
        for api in self.apis().values() {
            api.carry_out_due();
        }
    }

    /// The first tick at which an API has something to do in its own time.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let due = self.apis().values().filter_map(Api::next_due).min()?;
        let since = due.duration_since(epoch());
        let whole = u64::try_from(since.as_millis()).unwrap_or_default();
        // A part of a millisecond is not over before the next one begins.
        Some(if since.subsec_nanos() % 1_000_000 == 0 { whole } else { whole + 1 })
    }

    /// Puts a cluster out of reach of every instance.
    pub(crate) fn cut_off(&self, cluster: &str, how: Unreachable) {
        self.note("world", format!("cluster {cluster:?} is out of reach: {how:?}"));
        let mut state = self.lock();
        state.away.insert(cluster.to_owned(), how);
        if how == Unreachable::Refuses {
            state.streams.retain(|_, stream| {
                let broken_now = stream.call.cluster == cluster;
                if broken_now {
                    let _gone = stream.out.send(Err(broken("connection reset: the cluster is away")));
                }
                !broken_now
            });
        }
        drop(state);
        // What hung until now may be refused from now on.
        self.unpark();
    }

    /// Brings a cluster back. Requests whose callers have given up in between never arrive.
    pub(crate) fn reconnect(&self, cluster: &str) {
        {
            let mut state = self.lock();
            if state.away.remove(cluster).is_none() {
                return;
            }
            state.parked.retain(|item| match item {
                Item::Request(sent) => sent.call.cluster != cluster || !sent.reply.is_closed(),
                _ => true,
            });
        }
        self.note("world", format!("cluster {cluster:?} is back"));
        self.unpark();
    }

    /// A request on its way to a cluster: given back when it gets there.
    pub(crate) fn reach(self: &Arc<Self>, sent: Sent) -> Option<Sent> {
        let how = self.lock().away.get(&sent.call.cluster).copied();
        match how {
            None => Some(sent),
            Some(_) if sent.life.is_dead() => None,
            Some(Unreachable::Hangs) => {
                self.lock().parked.push(Item::Request(Box::new(sent)));
                None
            }
            Some(Unreachable::Refuses) => {
                self.reply(sent, Err(broken("connection refused: the cluster is away")));
                None
            }
        }
    }
}
