//! Settings of a control plane before it starts.

use super::{AuditWebhook, ControlPlane};

/// Settings of a control plane; made by [`ControlPlane::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) audit: Option<AuditWebhook>,
    pub(super) apiserver_args: Vec<String>,
}

impl Default for Builder {
    fn default() -> Self {
        Self { name: "testbed".into(), nodes: 0, audit: None, apiserver_args: Vec::new() }
    }
}

impl Builder {
    /// The name of the cluster in kubeconfigs; `testbed` unless set.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The number of simulated nodes; without any, pods stay pending.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Sends audit events to a webhook: an `https` URL, or an [`AuditWebhook`] with an authority and a policy.
    #[must_use]
    pub fn audit_webhook(mut self, webhook: impl Into<AuditWebhook>) -> Self {
        self.audit = Some(webhook.into());
        self
    }

    /// One more flag for kube-apiserver, such as `--etcd-compaction-interval=2s`.
    #[must_use]
    pub fn apiserver_arg(mut self, arg: impl Into<String>) -> Self {
        self.apiserver_args.push(arg.into());
        self
    }

    /// Starts the control plane and waits until it is ready. Builds missing programs first.
    pub async fn start(self) -> anyhow::Result<ControlPlane> {
        ControlPlane::start_with(self).await
    }
}
