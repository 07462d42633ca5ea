//! The cluster that holds Windlass' own objects.

use kube::Client;
use windlass_cluster::{
    connect::{self, ConnectError, Credentials, HubOptions, Limits},
    requests::RequestMetrics,
};
use windlass_server::http::Probes;

use crate::{config::Settings, error::CommandError};

/// Requests a second for leases and certificates: a handful a minute are made.
const HOUSEKEEPING: Limits =
    Limits { qps: 20.0, burst: 40, read_timeout: std::time::Duration::from_secs(15) };

/// Clients of the hub.
pub(super) struct Hub {
    /// For the controllers.
    pub(super) client: Client,
    /// For leases and certificates: controllers that use up their rate must not cost us the lease.
    pub(super) housekeeping: Client,
    /// How `spec.inCluster` reaches the hub.
    pub(super) own: Credentials,
    /// Counts requests of every client.
    pub(super) requests: RequestMetrics,
}

impl Hub {
    /// Makes the clients. Nothing is sent yet: a hub that does not answer is waited for, not given up.
    pub(super) async fn connect(settings: &Settings, probes: &Probes) -> Result<Self, CommandError> {
        let requests = probes.metrics.register(RequestMetrics::register);
        let limits = Limits {
            qps: f32::from(u16::try_from(settings.kube_api_qps).unwrap_or(u16::MAX)),
            burst: settings.kube_api_burst,
            ..Limits::default()
        };
        let options = |limits| HubOptions {
            kubeconfig: settings.kubeconfig.clone(),
            context: settings.context.clone(),
            namespace: Some(settings.namespace.clone()),
            limits,
            metrics: Some(requests.clone()),
        };
        Ok(Self {
            client: connect::hub(&options(limits)).await.map_err(unusable)?,
            housekeeping: connect::hub(&options(HOUSEKEEPING)).await.map_err(unusable)?,
            own: own(settings),
            requests,
        })
    }
}

/// The credentials of the hub as [`connect::hub`] finds them.
fn own(settings: &Settings) -> Credentials {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let named = settings.kubeconfig.is_some() || settings.context.is_some() || set("KUBECONFIG");
    if !named && set("KUBERNETES_SERVICE_HOST") {
        return Credentials::InCluster;
    }
    Credentials::File { path: settings.kubeconfig.clone(), context: settings.context.clone() }
}

fn unusable(error: ConnectError) -> CommandError {
    let remedy = error.remedy();
    CommandError::failure("cannot connect to the cluster with Windlass' own objects")
        .because(error)
        .hint(remedy)
}
