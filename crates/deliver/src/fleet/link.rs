//! The working handle of one cluster.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use kube::Client;
use windlass_cluster::discover::DiscoveryCache;

use super::{
    FleetOptions, Wakes,
    connect::Contact,
    impersonate::{self, Refused},
    index::Index,
    makings::Makings,
};

/// Identities whose clients are kept. Beyond that all are made anew, which costs nothing but a small allocation each.
const USERS: usize = 512;

/// What is needed to work on one cluster: clients, what it serves, and what of ours lives there.
pub struct Link {
    name: Arc<str>,
    contact: Contact,
    users: Mutex<BTreeMap<String, Client>>,
    discovery: Arc<DiscoveryCache>,
    index: Index,
    makings: Makings,
}

impl Link {
    /// A handle for the cluster of this name. Nothing is sent yet. Needs a tokio runtime, on which the index's watches
    /// will run until the handle is dropped.
    pub fn new(name: &str, contact: Contact, wakes: Wakes, options: &FleetOptions) -> Self {
        let name: Arc<str> = Arc::from(name);
        let quick = impersonate::within(contact.client.clone(), options.answer_within);
        let discovery = Arc::new(DiscoveryCache::new(quick.clone(), options.discovery_ttl));
        let index = Index::new(Arc::clone(&name), quick, Arc::clone(&discovery), wakes, options);
        Self { name, contact, users: Mutex::default(), discovery, index, makings: Makings::default() }
    }

    /// Name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client, as the controller itself.
    pub fn client(&self) -> Client {
        self.contact.client.clone()
    }

    /// The client, acting as a user such as `system:serviceaccount:shop:deployer`; as the controller itself for `None`.
    ///
    /// A user that cannot be told to the API server gives a client that refuses every request with [`Refused`], and so
    /// does a kubeconfig that acts as somebody already: its groups would be added to those of the user.
    pub fn acting_as(&self, user: Option<&str>) -> Client {
        let Some(user) = user else { return self.client() };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = users.get(user) {
            return client.clone();
        }
        if users.len() >= USERS {
            users.clear();
        }
        let client = if self.contact.impersonates {
            impersonate::refusing(self.client(), Refused::Taken)
        } else {
            impersonate::acting_as(self.client(), user)
        };
        users.insert(user.to_owned(), client.clone());
        client
    }

    /// What the cluster serves.
    pub fn discovery(&self) -> &DiscoveryCache {
        &self.discovery
    }

    /// What of ours lives there.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// What is being made there.
    pub(super) fn makings(&self) -> &Makings {
        &self.makings
    }

    /// See [`Contact::identity`].
    pub(super) fn identity(&self) -> &str {
        &self.contact.identity
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("name", &self.name).finish_non_exhaustive()
    }
}
