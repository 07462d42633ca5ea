//! Clients, one per cluster, made once and made again when their credentials change.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::{
    Client, Config,
    client::{AuthError, ClientBuilder},
};
use tower::buffer::BufferLayer;

use super::{
    CONNECT_TIMEOUT, ConnectError, Credentials, Fingerprint, KubeconfigError, KubeconfigPolicy, Target,
    address, throttle::ThrottleLayer, timeout::TimeoutLayer,
};
use crate::requests::{RequestLayer, RequestMetrics};

/// Clusters kept by default; above that the one unused for longest is dropped.
const CAPACITY: usize = 1024;

/// Requests that may wait inside of one client.
const QUEUE: usize = 1024;

/// What one client may do to one API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Requests per second; zero or less for no limit.
    pub qps: f32,
    /// Requests that may be made at once after a rest.
    pub burst: u32,
    /// How long a response may be silent. Watches are timed until they begin.
    pub read_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { qps: 50.0, burst: 100, read_timeout: Duration::from_mins(1) }
    }
}

/// A client and what is known about its credentials.
#[derive(Clone)]
pub struct Connection {
    /// The client. Clones share one connection pool and one rate limit.
    pub client: Client,
    /// Changes when the credentials do.
    pub fingerprint: Fingerprint,
    /// When the client certificate ends, if one is used.
    pub certificate_expires: Option<Timestamp>,
    /// Address of the API server.
    pub server: String,
    /// Its credentials act as somebody else already: requests of this client cannot act as yet another.
    pub impersonates: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("fingerprint", &self.fingerprint)
            .field("certificate_expires", &self.certificate_expires)
            .finish_non_exhaustive()
    }
}

/// Clients by name of their cluster.
///
/// Guarantees: the same credentials and limits give the same client; changed ones give a new client and the old one
/// is forgotten, also when the new ones are refused; work on one name never waits for another; at most `capacity`
/// names are kept.
#[derive(Debug)]
pub struct ClientCache {
    policy: KubeconfigPolicy,
    metrics: Option<RequestMetrics>,
    capacity: usize,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_name: BTreeMap<String, Slot>,
    clock: u64,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<tokio::sync::Mutex<Option<Entry>>>,
    used: u64,
}

#[derive(Debug)]
struct Entry {
    connection: Connection,
    limits: Limits,
}

impl ClientCache {
    /// An empty cache that judges kubeconfigs by this policy.
    pub fn new(policy: KubeconfigPolicy, metrics: Option<RequestMetrics>) -> Self {
        Self { policy, metrics, capacity: CAPACITY, slots: Mutex::default() }
    }

    /// Keeps at most this many clusters.
    #[must_use]
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// The client for a cluster; see [`ClientCache::connection`].
    pub async fn get(&self, name: &str, from: &Credentials, limits: &Limits) -> Result<Client, ConnectError> {
        Ok(self.connection(name, from, limits).await?.client)
    }

    /// The client for a cluster, with what is known about its credentials. Nothing is sent to the cluster.
    pub async fn connection(
        &self,
        name: &str,
        from: &Credentials,
        limits: &Limits,
    ) -> Result<Connection, ConnectError> {
        let slot = self.slot(name);
        let mut entry = slot.lock().await;
        if let Some(have) = entry.as_ref()
            && have.limits == *limits
            && !is_over(&have.connection.client)
            && from.find().await?.fingerprint(self.policy) == have.connection.fingerprint
        {
            return Ok(have.connection.clone());
        }
        // Old credentials must not outlive their replacement, even when that one is refused.
        *entry = None;
        let connection = connect(from, self.policy, limits, self.metrics.as_ref(), |_| {}).await?;
        *entry = Some(Entry { connection: connection.clone(), limits: *limits });
        Ok(connection)
    }

    /// Drops a cluster's client. Requests under way end by themselves.
    pub fn forget(&self, name: &str) {
        self.lock().by_name.remove(name);
    }

    /// Clusters that are kept.
    pub fn len(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Whether no cluster is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, name: &str) -> Arc<tokio::sync::Mutex<Option<Entry>>> {
        let mut slots = self.lock();
        slots.clock += 1;
        let clock = slots.clock;
        if let Some(slot) = slots.by_name.get_mut(name) {
            slot.used = clock;
            return slot.entry.clone();
        }
        while slots.by_name.len() >= self.capacity {
            let oldest = slots.by_name.iter().min_by_key(|(_, slot)| slot.used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            slots.by_name.remove(&oldest);
        }
        let entry = Arc::default();
        slots.by_name.insert(name.to_owned(), Slot { entry: Arc::clone(&entry), used: clock });
        entry
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plug-in's certificate ends with the client that was made from it.
fn is_over(client: &Client) -> bool {
    client.valid_until().is_some_and(|until| until <= Timestamp::now())
}

/// Makes a client. Runs a plug-in and reads files only where the policy allows it.
pub(super) async fn connect(
    from: &Credentials,
    policy: KubeconfigPolicy,
    limits: &Limits,
    metrics: Option<&RequestMetrics>,
    adjust: impl FnOnce(&mut Config),
) -> Result<Connection, ConnectError> {
    let found = from.find().await?;
    let fingerprint = found.fingerprint(policy);
    let target = found.target(policy)?;
    if let Some(target) = target.as_ref().filter(|_| found.is_foreign()) {
        check_resolved(target).await.map_err(|source| ConnectError::Kubeconfig { path: None, source })?;
    }
    let mut config = match &target {
        Some(target) => target.config(),
        None => in_cluster()?,
    };
    adjust(&mut config);
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let impersonates = config.auth_info.impersonate.is_some();
    let runs_program = target.as_ref().is_some_and(Target::runs_program);
    let client = build(config, *limits, metrics.cloned(), runs_program).await?;
    let certificate_expires = target.as_ref().and_then(Target::client_certificate_expires);
    Ok(Connection { client, fingerprint, certificate_expires, server, impersonates })
}

fn in_cluster() -> Result<Config, ConnectError> {
    let mut config = Config::incluster().map_err(|source| ConnectError::InCluster { source })?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    Ok(config)
}

/// Names may stand for forbidden addresses. A name that does not resolve is left for the probe to report.
async fn check_resolved(target: &Target) -> Result<(), KubeconfigError> {
    for (field, uri) in [("server", Some(&target.server)), ("proxy-url", target.proxy.as_ref())] {
        let Some(host) = uri.and_then(address::host) else { continue };
        if host.parse::<IpAddr>().is_ok() {
            continue;
        }
        let lookup = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((host, 443)));
        if let Ok(Ok(mut addresses)) = lookup.await
            && addresses.any(|found| address::is_forbidden(found.ip()))
        {
            return Err(KubeconfigError::ForbiddenAddress { field, host: host.to_owned() });
        }
    }
    Ok(())
}

async fn build(
    config: Config,
    limits: Limits,
    metrics: Option<RequestMetrics>,
    runs_program: bool,
) -> Result<Client, ConnectError> {
    ensure_crypto();
    let make = move || -> Result<Client, ConnectError> {
        let client = ClientBuilder::try_from(config)
            .map_err(|error| explain(&error))?
            .with_layer(&TimeoutLayer(limits.read_timeout))
            .with_layer(&RequestLayer::new(metrics.unwrap_or_default()))
            .with_layer(&BufferLayer::new(QUEUE))
            .with_layer(&ThrottleLayer::new(limits.qps, limits.burst))
            .build();
        Ok(client)
    };
    if !runs_program {
        return make();
    }
    // kube runs the plug-in here and waits for it.
    tokio::task::spawn_blocking(make)
        .await
        .unwrap_or_else(|_| Err(ConnectError::Plugin { what: "ended in a panic".to_owned() }))
}

/// rustls wants one provider per process. A binary may have chosen another already.
fn ensure_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race against another thread leaves a provider installed, too.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// kube's own text may quote a plug-in's output; only its kind is kept.
fn explain(error: &kube::Error) -> ConnectError {
    let plugin = |what: &str| ConnectError::Plugin { what: what.to_owned() };
    match error {
        kube::Error::Auth(AuthError::AuthExecStart(source)) => {
            ConnectError::Plugin { what: format!("cannot be started ({})", source.kind()) }
        }
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            ConnectError::Plugin { what: format!("failed ({})", out.status) }
        }
        kube::Error::Auth(AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed) => {
            plugin("printed no ExecCredential")
        }
        kube::Error::Auth(AuthError::MissingCommand) => plugin("names no command"),
        kube::Error::Auth(AuthError::ReadTokenFile(..)) => {
            ConnectError::Client { what: "cannot read tokenFile" }
        }
        kube::Error::Auth(_) => plugin("gave no usable credentials"),
        kube::Error::RustlsTls(_) => ConnectError::Client { what: "certificates or keys are unusable" },
        kube::Error::InferKubeconfig(_) => ConnectError::Client { what: "cannot read a certificate or key" },
        kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
            ConnectError::Client { what: "the proxy's protocol is not supported" }
        }
        _ => ConnectError::Client { what: "the settings are refused" },
    }
}
