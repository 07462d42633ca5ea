//! The `Cluster` kind as the loop sees it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use windlass_api::{Cluster, ClusterStatus, cluster::FINALIZER};
use windlass_cluster::drive::{Controller, Failure, Key, Plan, Reference};

use super::{
    metrics::ClusterMetrics,
    observe::{self, Prober, SecretNamespaces},
    plan::{self, Action, Observed, Reach},
};

/// What the operator decided at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace the controller runs in: Secrets without a namespace are there.
    pub namespace: String,
    /// Where Secrets may be read.
    pub secret_namespaces: SecretNamespaces,
    /// See [`Observed::heartbeat`].
    pub heartbeat: Duration,
}

/// Why nothing can be said about a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub's API server did not give the Secret.
    #[error("Secret {namespace}/{name} could not be read")]
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl Failure for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Secret { .. } => "secret",
        }
    }
}

/// Registers, probes and lets go of clusters.
pub struct ClusterController<P> {
    hub: Client,
    prober: P,
    settings: Settings,
    metrics: ClusterMetrics,
}

impl<P: Prober> ClusterController<P> {
    /// A controller for the `Cluster`s of this hub.
    pub fn new(hub: Client, prober: P, settings: Settings, metrics: ClusterMetrics) -> Self {
        Self { hub, prober, settings, metrics }
    }

    async fn reach(&self, cluster: &Cluster) -> Result<Reach, Error> {
        let spec = &cluster.spec;
        if spec.suspend || cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Reach::NotTried);
        }
        let (home, allowed) = (&self.settings.namespace, &self.settings.secret_namespaces);
        let found = observe::credentials(&self.hub, spec, home, allowed, self.prober.own()).await?;
        let name = cluster.name_any();
        let reached = match found {
            Ok(credentials) => {
                let (limits, timeout) = (observe::limits(spec), observe::timeout(spec));
                self.prober.probe(&name, &credentials, &limits, timeout).await
            }
            Err(trouble) => Err(trouble),
        };
        Ok(match reached {
            Ok(reached) => Reach::Reached(reached),
            Err(trouble) => Reach::Trouble(trouble),
        })
    }
}

impl<P: Prober> Controller for ClusterController<P> {
    type Object = Cluster;
    type Status = ClusterStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    fn name(&self) -> &'static str {
        "cluster"
    }

    fn manager(&self) -> &'static str {
        "windlass-cluster"
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(FINALIZER)
    }

    fn status<'a>(&self, object: &'a Cluster) -> Option<&'a ClusterStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &Cluster) -> Vec<Reference> {
        let Some(source) = &object.spec.kubeconfig else { return Vec::new() };
        let namespace = source.secret_ref.namespace.as_deref().unwrap_or(&self.settings.namespace);
        vec![Reference::secret(namespace, &source.secret_ref.name)]
    }

    async fn observe(&self, object: Arc<Cluster>) -> Result<Observed, Error> {
        Ok(Observed {
            reach: self.reach(&object).await?,
            name: object.name_any(),
            generation: object.metadata.generation,
            spec: object.spec.clone(),
            status: object.status.clone().unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            heartbeat: self.settings.heartbeat,
        })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<Action, ClusterStatus> {
        self.metrics.observe(observed, now);
        plan::plan(observed, now)
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Disconnect { cluster } => self.prober.disconnect(cluster),
        }
        Ok(())
    }

    fn stalled(&self, object: &Cluster, error: &Error, now: Timestamp) -> Option<ClusterStatus> {
        let status = object.status.clone().unwrap_or_default();
        let message = format!("{error}. The controller tries again by itself.");
        Some(plan::stalled(&status, object.metadata.generation, &message, now))
    }

    fn gone(&self, key: &Key) {
        self.prober.disconnect(&key.name);
        self.metrics.forget(&key.name);
    }
}
