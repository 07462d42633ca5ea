//! How clusters are reached.

use std::{future::Future, sync::Arc};

use kube::{Client, ResourceExt};
use windlass_api::{Cluster, application::IN_CLUSTER};
use windlass_cluster::connect::{Connection, Limits};

use crate::{
    cluster::{Network, SecretNamespaces, observe},
    trouble::Trouble,
};

/// A client, and how to tell it from the next one.
#[derive(Clone)]
pub struct Contact {
    /// The client.
    pub client: Client,
    /// Changes whenever the client does. Holds no credential.
    pub identity: String,
    /// The client acts as somebody else already, so that it cannot act as yet another: see [`super::Link::acting_as`].
    pub impersonates: bool,
}

impl Contact {
    /// A client that stays the same.
    pub fn fixed(client: Client) -> Self {
        Self { client, identity: String::new(), impersonates: false }
    }
}

/// Reaches clusters: the seam at which a simulation takes the network's place.
pub trait Connector: Send + Sync + 'static {
    /// A client for the cluster. Nothing is sent to it yet.
    fn connect(&self, cluster: &Cluster) -> impl Future<Output = Result<Contact, Trouble>> + Send;

    /// A client for the controller's own cluster (the name `in-cluster` without a `Cluster` of that name).
    fn own(&self) -> impl Future<Output = Result<Contact, Trouble>> + Send;
}

/// The real network, with the very clients that the Cluster controller probes.
pub struct HubConnector {
    hub: Client,
    network: Arc<Network>,
    home: String,
    allowed: SecretNamespaces,
    own_limits: Limits,
}

impl HubConnector {
    /// Reads kubeconfigs from Secrets of the hub: in `home` when a `Cluster` names no namespace, and nowhere but where
    /// it is `allowed`. `own_limits` say how hard the controller's own cluster may be used.
    pub fn new(
        hub: Client,
        network: Arc<Network>,
        home: impl Into<String>,
        allowed: SecretNamespaces,
        own_limits: Limits,
    ) -> Self {
        Self { hub, network, home: home.into(), allowed, own_limits }
    }
}

impl Connector for HubConnector {
    async fn connect(&self, cluster: &Cluster) -> Result<Contact, Trouble> {
        let own = self.network.own.clone();
        let credentials = observe::credentials(&self.hub, &cluster.spec, &self.home, &self.allowed, own)
            .await
            .map_err(|error| {
                Trouble::passing("HubUnreachable", error.to_string(), "The controller tries again by itself")
            })?
            .map_err(of_cluster)?;
        let limits = observe::limits(&cluster.spec);
        let found = self.network.cache.connection(&cluster.name_any(), &credentials, &limits).await;
        found.map(|connection| contact(connection, &limits)).map_err(|error| refused(&error))
    }

    async fn own(&self) -> Result<Contact, Trouble> {
        let found = self.network.cache.connection(IN_CLUSTER, &self.network.own, &self.own_limits).await;
        found.map(|connection| contact(connection, &self.own_limits)).map_err(|error| refused(&error))
    }
}

fn contact(connection: Connection, limits: &Limits) -> Contact {
    // A plug-in's client is made anew when its certificate ends, with the same credentials.
    let identity = format!("{} {limits:?} {:?}", connection.fingerprint, connection.client.valid_until());
    Contact { client: connection.client, identity, impersonates: connection.impersonates }
}

fn refused(error: &windlass_cluster::connect::ConnectError) -> Trouble {
    Trouble::standing(error.reason(), error.to_string(), error.remedy())
}

fn of_cluster(trouble: crate::cluster::Trouble) -> Trouble {
    Trouble {
        reason: trouble.reason,
        what: trouble.what,
        remedy: trouble.remedy,
        waits_for_change: trouble.waits_for_change,
    }
}
