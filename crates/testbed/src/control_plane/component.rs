//! The programs of a control plane and their command lines.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::layout::Layout;
use crate::process::Spec;
use crate::tools::{self, Tool};

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    Apiserver,
    /// The controller manager.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// kwok, which plays the kubelets of all nodes.
    Kwok,
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tool().name())
    }
}

impl Component {
    pub(super) fn tool(self) -> Tool {
        match self {
            Self::Etcd => Tool::Etcd,
            Self::Apiserver => Tool::KubeApiserver,
            Self::ControllerManager => Tool::KubeControllerManager,
            Self::Scheduler => Tool::KubeScheduler,
            Self::Kwok => Tool::Kwok,
        }
    }

    pub(super) fn spec(self, layout: &Layout) -> anyhow::Result<Spec> {
        let log = layout.log_dir().join(format!("{self}.log"));
        let spec = Spec::new(tools::path(self.tool())?, log);
        Ok(match self {
            Self::Etcd => spec.args(etcd(layout)),
            // Long enough to answer what is under way, as in a rolling restart.
            Self::Apiserver => spec.args(apiserver(layout)).grace(Duration::from_secs(10)),
            Self::ControllerManager => spec.args(controller_manager(layout)),
            Self::Scheduler => spec.args(scheduler(layout)),
            Self::Kwok => spec.args(kwok(layout)),
        })
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

fn etcd(layout: &Layout) -> Vec<String> {
    let id = &layout.identity;
    let (client, peer) = (layout.etcd_url(), layout.etcd_peer_url());
    vec![
        "--name=testbed".into(),
        flag("data-dir", &layout.etcd_data()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=testbed={peer}"),
        "--client-cert-auth".into(),
        flag("trusted-ca-file", &id.etcd_ca),
        flag("cert-file", &id.etcd.cert),
        flag("key-file", &id.etcd.key),
        "--peer-client-cert-auth".into(),
        flag("peer-trusted-ca-file", &id.etcd_ca),
        flag("peer-cert-file", &id.etcd.cert),
        flag("peer-key-file", &id.etcd.key),
        // Test data need not survive a power cut; a killed process loses nothing by this.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(layout: &Layout) -> Vec<String> {
    let id = &layout.identity;
    let mut args = vec![
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={}", layout.apiserver_port()),
        // The loopback address is no valid endpoint of the service `kubernetes`.
        "--endpoint-reconciler-type=none".into(),
        format!("--etcd-servers={}", layout.etcd_url()),
        flag("etcd-cafile", &id.etcd_ca),
        flag("etcd-certfile", &id.etcd_client.cert),
        flag("etcd-keyfile", &id.etcd_client.key),
        flag("tls-cert-file", &id.apiserver.cert),
        flag("tls-private-key-file", &id.apiserver.key),
        flag("client-ca-file", &id.cluster_ca_files.cert),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        flag("service-account-signing-key-file", &id.token_key),
        flag("service-account-key-file", &id.token_public_key),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        flag("requestheader-client-ca-file", &id.front_proxy_ca),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        flag("proxy-client-cert-file", &id.front_proxy.cert),
        flag("proxy-client-key-file", &id.front_proxy.key),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
    ];
    args.extend(layout.apiserver_args.iter().cloned());
    args
}

fn controller_manager(layout: &Layout) -> Vec<String> {
    let id = &layout.identity;
    vec![
        flag("kubeconfig", &layout.component_kubeconfig(Component::ControllerManager)),
        // Each controller acts under its own name, as in a production cluster, so that audit events tell them apart.
        "--use-service-account-credentials=true".into(),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--allocate-node-cidrs=false".into(),
        flag("root-ca-file", &id.cluster_ca_files.cert),
        flag("service-account-private-key-file", &id.token_key),
        flag("cluster-signing-cert-file", &id.cluster_ca_files.cert),
        flag("cluster-signing-key-file", &id.cluster_ca_files.key),
        "--kube-api-qps=300".into(),
        "--kube-api-burst=600".into(),
        "--concurrent-namespace-syncs=20".into(),
        "--profiling=false".into(),
    ]
}

fn scheduler(layout: &Layout) -> Vec<String> {
    vec![
        flag("kubeconfig", &layout.component_kubeconfig(Component::Scheduler)),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--kube-api-qps=300".into(),
        "--kube-api-burst=600".into(),
        "--profiling=false".into(),
    ]
}

fn kwok(layout: &Layout) -> Vec<String> {
    vec![
        flag("kubeconfig", &layout.component_kubeconfig(Component::Kwok)),
        flag("config", &layout.kwok_config()),
        format!("--manage-nodes-with-label-selector={}", crate::nodes::NODE_SELECTOR),
        "--node-ip=127.0.0.1".into(),
        "--cidr=10.244.0.0/16".into(),
        "--node-lease-duration-seconds=40".into(),
    ]
}
