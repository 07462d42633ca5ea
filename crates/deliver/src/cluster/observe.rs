//! Finds the kubeconfig of a cluster, connects and probes. All reads are here.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use windlass_api::{
    ClusterSpec,
    cluster::{DEFAULT_SECRET_KEYS, SecretKeyRef},
};
use windlass_cluster::connect::{ClientCache, Credentials, Limits, probe};

use super::{controller::Error, plan::DEFAULT_TIMEOUT};

/// Requests a second if the spec says nothing.
const DEFAULT_QPS: u32 = 50;

/// What a cluster said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Its version, such as `v1.36.3`.
    pub version: String,
    /// Time it took to answer.
    pub latency: Duration,
    /// Address of its API server.
    pub server: Option<String>,
}

/// What stands between us and a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// For the condition, in CamelCase.
    pub reason: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// Trying again is of no use before the Cluster or its Secret changes.
    pub waits_for_change: bool,
    /// The cluster itself was asked.
    pub probed: bool,
    /// The address that was asked, if it came to that.
    pub server: Option<String>,
}

impl Trouble {
    fn standing(reason: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason,
            what: what.into(),
            remedy: remedy.into(),
            waits_for_change: true,
            probed: false,
            server: None,
        }
    }
}

/// The namespaces in which the controller may read Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretNamespaces {
    /// All of them.
    All,
    /// These.
    Only(BTreeSet<String>),
}

impl SecretNamespaces {
    /// Whether Secrets of this namespace may be read.
    pub fn allows(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }
}

/// Asks a cluster how it is. The seam at which a simulation takes the network's place.
pub trait Prober: Send + Sync + 'static {
    /// Connects to the cluster of this name with these credentials and asks.
    fn probe(
        &self,
        name: &str,
        credentials: &Credentials,
        limits: &Limits,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reached, Trouble>> + Send;

    /// Credentials for the cluster that the controller itself runs in.
    fn own(&self) -> Credentials;

    /// Closes what is open to the cluster of this name.
    fn disconnect(&self, name: &str);
}

impl<P: Prober> Prober for Arc<P> {
    fn probe(
        &self,
        name: &str,
        credentials: &Credentials,
        limits: &Limits,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reached, Trouble>> + Send {
        P::probe(self, name, credentials, limits, timeout)
    }

    fn own(&self) -> Credentials {
        P::own(self)
    }

    fn disconnect(&self, name: &str) {
        P::disconnect(self, name);
    }
}

/// The real network: clients are kept and made anew when their credentials change.
#[derive(Debug)]
pub struct Network {
    /// The clients.
    pub cache: ClientCache,
    /// Credentials for the controller's own cluster.
    pub own: Credentials,
}

impl Prober for Network {
    async fn probe(
        &self,
        name: &str,
        credentials: &Credentials,
        limits: &Limits,
        timeout: Duration,
    ) -> Result<Reached, Trouble> {
        let connection = self
            .cache
            .connection(name, credentials, limits)
            .await
            .map_err(|error| Trouble::standing(error.reason(), error.to_string(), error.remedy()))?;
        match probe(&connection.client, timeout).await {
            Ok(found) => Ok(Reached {
                version: found.version,
                latency: found.latency,
                server: Some(connection.server),
            }),
            Err(error) => Err(Trouble {
                reason: error.reason(),
                what: error.to_string(),
                remedy: error.remedy(),
                waits_for_change: false,
                probed: true,
                server: Some(connection.server),
            }),
        }
    }

    fn own(&self) -> Credentials {
        self.own.clone()
    }

    fn disconnect(&self, name: &str) {
        self.cache.forget(name);
    }
}

/// Credentials as the spec names them.
///
/// A Secret that is not there, not whole or not ours to read is a [`Trouble`]; a hub that does not answer is an
/// error, because nothing can be said about the cluster then.
pub(crate) async fn credentials(
    hub: &Client,
    spec: &ClusterSpec,
    home: &str,
    allowed: &SecretNamespaces,
    own: Credentials,
) -> Result<Result<Credentials, Trouble>, Error> {
    let Some(source) = &spec.kubeconfig else { return Ok(Ok(own)) };
    let reference = &source.secret_ref;
    let namespace = reference.namespace.as_deref().unwrap_or(home);
    if !allowed.allows(namespace) {
        return Ok(Err(Trouble::standing(
            "SecretNamespaceNotAllowed",
            format!("the controller does not read Secrets in namespace {namespace}"),
            format!("Move the Secret, or start the controller with --secret-namespaces={namespace}"),
        )));
    }
    let secret = match Api::<Secret>::namespaced(hub.clone(), namespace).get_opt(&reference.name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return Ok(Err(Trouble::standing(
                "SecretNotFound",
                format!("Secret {namespace}/{} does not exist", reference.name),
                "Create it, or wait for whoever writes it: the Cluster becomes ready when it appears",
            )));
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Ok(Err(Trouble {
                waits_for_change: false,
                ..Trouble::standing(
                    "SecretForbidden",
                    format!("the controller may not read Secrets in namespace {namespace}"),
                    "Give its service account get, list and watch on secrets there (chart value secretNamespaces)",
                )
            }));
        }
        Err(source) => {
            return Err(Error::Secret {
                namespace: namespace.into(),
                name: reference.name.clone(),
                source: Box::new(source),
            });
        }
    };
    Ok(key_of(&secret, namespace, reference)
        .map(|bytes| Credentials::Kubeconfig { bytes, context: source.context.clone() }))
}

fn key_of(secret: &Secret, namespace: &str, reference: &SecretKeyRef) -> Result<Vec<u8>, Trouble> {
    let wanted: Vec<&str> = match &reference.key {
        Some(key) => vec![key],
        None => DEFAULT_SECRET_KEYS.to_vec(),
    };
    let data = secret.data.as_ref();
    let found = wanted.iter().find_map(|key| data.and_then(|data| data.get(*key)));
    match found {
        Some(bytes) if !bytes.0.is_empty() => Ok(bytes.0.clone()),
        _ => Err(Trouble::standing(
            "SecretKeyMissing",
            format!("Secret {namespace}/{} has no {}", reference.name, wanted.join(" and no ")),
            "Put the kubeconfig under that key, or name its key in spec.kubeconfig.secretRef.key",
        )),
    }
}

/// How hard the cluster may be used.
pub(crate) fn limits(spec: &ClusterSpec) -> Limits {
    let qps = spec.qps.unwrap_or(DEFAULT_QPS);
    let burst = spec.burst.unwrap_or(qps.saturating_mul(2));
    Limits { qps: f32::from(u16::try_from(qps).unwrap_or(u16::MAX)), burst, ..Limits::default() }
}

/// How long an answer may take.
pub(super) fn timeout(spec: &ClusterSpec) -> Duration {
    spec.probe.as_ref().and_then(|probe| probe.timeout).map_or(DEFAULT_TIMEOUT, Into::into)
}
