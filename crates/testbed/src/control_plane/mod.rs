//! A real Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok for nodes.
//!
//! Every program checks its peers' certificates, RBAC is on, and ports and data stay the same for the life of a control
//! plane, so that parts of it can be stopped, killed, frozen and started again under a test.

mod audit;
mod builder;
mod client;
mod component;
mod identity;
mod layout;
mod namespace;
mod shared;
mod user;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

pub use audit::AuditWebhook;
pub use builder::Builder;
pub use component::Component;
pub use namespace::Namespace;
pub use user::{User, kubeconfig_yaml};

use crate::process::Child;
use crate::tools::{self, Tool};
use layout::Layout;

/// Generous, since tests also run on busy machines; a program that ends early is noticed at once.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// A running control plane; all of it ends on drop, or with the process.
///
/// The logs are removed too, unless the test panics (their place is printed then) or `WINDLASS_KEEP_LOGS` is set. A test
/// that returns an error instead of panicking looks like one that passed.
pub struct ControlPlane {
    layout: Layout,
    certificates: Mutex<BTreeMap<User, crate::pki::KeyCert>>,
    running: Mutex<BTreeMap<Component, Child>>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane")
            .field("url", &self.url())
            .field("log_dir", &self.log_dir())
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts a control plane without nodes.
    pub async fn start() -> anyhow::Result<Self> {
        Self::builder().start().await
    }

    /// Settings for another one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    async fn start_with(builder: Builder) -> anyhow::Result<Self> {
        tokio::task::spawn_blocking(|| tools::ensure(&Tool::CONTROL_PLANE)).await??;
        let mut layout = Layout::create(&builder.name)?;
        if let Some(audit) = &builder.audit {
            layout.apiserver_args.extend(audit.flags(layout.config_dir())?);
        }
        layout.apiserver_args.extend(builder.apiserver_args);
        let control_plane = Self { layout, certificates: Mutex::default(), running: Mutex::default() };
        if std::env::var_os("WINDLASS_KEEP_LOGS").is_some() {
            control_plane.keep_logs();
        }
        if let Err(error) = control_plane.start_all(builder.nodes).await {
            control_plane.layout.logs.keep();
            let logs = control_plane.log_dir().display().to_string();
            return Err(error)
                .with_context(|| format!("the control plane did not start; its logs are in {logs}"));
        }
        Ok(control_plane)
    }

    async fn start_all(&self, nodes: usize) -> anyhow::Result<()> {
        self.spawn(Component::Etcd)?;
        self.spawn(Component::Apiserver)?;
        self.wait_ready().await?;
        self.spawn(Component::ControllerManager)?;
        self.spawn(Component::Scheduler)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), "default");
        self.wait_until("the controller manager has not created the default ServiceAccount", || async {
            Ok(accounts.get_opt("default").await?.is_some())
        })
        .await?;
        self.ensure_nodes(nodes).await
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.layout.url()
    }

    /// The name of the cluster in kubeconfigs.
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// The certificate of the authority that signed the API server's.
    pub fn ca_pem(&self) -> String {
        self.layout.identity.cluster_ca.pem()
    }

    /// The folder with one log file per component.
    pub fn log_dir(&self) -> &Path {
        self.layout.log_dir()
    }

    /// Keeps the logs after the end and prints where they are, once.
    pub fn keep_logs(&self) {
        if !self.layout.logs.is_kept() {
            self.layout.logs.keep();
            eprintln!("logs of control plane {}: {}", self.name(), self.log_dir().display());
        }
    }

    /// Stops the API server as a rolling restart does (SIGTERM).
    pub async fn stop_apiserver(&self) -> anyhow::Result<()> {
        let mut child = self.take(Component::Apiserver)?;
        tokio::task::spawn_blocking(move || child.stop()).await?
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    pub async fn start_apiserver(&self) -> anyhow::Result<()> {
        self.spawn(Component::Apiserver)?;
        self.wait_ready().await
    }

    /// Kills etcd (SIGKILL).
    pub async fn kill_etcd(&self) -> anyhow::Result<()> {
        self.kill(Component::Etcd).await
    }

    /// Starts etcd again, on the same port and data, and waits until the API server is ready with it.
    pub async fn start_etcd(&self) -> anyhow::Result<()> {
        self.spawn(Component::Etcd)?;
        self.wait_ready().await
    }

    /// Kills any component (SIGKILL).
    pub async fn kill(&self, component: Component) -> anyhow::Result<()> {
        let mut child = self.take(component)?;
        tokio::task::spawn_blocking(move || child.kill()).await?
    }

    /// Starts a component that was stopped or killed, without waiting for it.
    pub fn restart(&self, component: Component) -> anyhow::Result<()> {
        self.spawn(component)
    }

    /// Freezes a component (SIGSTOP): connections to it stay open and nothing answers.
    pub fn pause(&self, component: Component) -> anyhow::Result<()> {
        self.with(component, Child::pause)
    }

    /// Lets a frozen component go on (SIGCONT).
    pub fn resume(&self, component: Component) -> anyhow::Result<()> {
        self.with(component, Child::resume)
    }

    /// Whether a component runs (frozen ones do).
    pub fn is_running(&self, component: Component) -> bool {
        self.children().get_mut(&component).is_some_and(Child::is_running)
    }

    /// The process id of a component, for measurements.
    pub fn pid(&self, component: Component) -> Option<u32> {
        self.children().get(&component).map(Child::pid)
    }

    /// Sees to it that there are at least this many ready nodes; starts kwok for the first.
    pub async fn ensure_nodes(&self, count: usize) -> anyhow::Result<()> {
        if count == 0 {
            return Ok(());
        }
        self.spawn_unless_running(Component::Kwok)?;
        let client = self.admin();
        crate::nodes::create(&client, count).await?;
        self.wait_until("the simulated nodes are not ready", || async {
            Ok(crate::nodes::ready(&client).await?.len() >= count)
        })
        .await
    }

    /// A namespace for one test, named `<prefix>-<random>`.
    pub async fn namespace(&self, prefix: &str) -> anyhow::Result<Namespace> {
        Namespace::create(&self.admin(), self.config(&User::Admin)?, prefix).await
    }

    /// Waits until the API server says that it is ready.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let client = self.admin();
        self.wait_until("the API server is not ready", || async {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        })
        .await
    }

    /// Polls until `done` is true. An error counts as not yet, and the last one is told when time is over.
    async fn wait_until<F>(&self, what: &str, mut done: impl FnMut() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<bool>>,
    {
        let start = Instant::now();
        loop {
            let outcome = tokio::time::timeout(Duration::from_secs(10), done()).await;
            if matches!(outcome, Ok(Ok(true))) {
                return Ok(());
            }
            self.all_alive()?;
            if start.elapsed() > READY_WITHIN {
                let waited = format!("{what} after {} s", READY_WITHIN.as_secs());
                return match outcome {
                    Ok(Err(error)) => Err(error.context(waited)),
                    _ => bail!("{waited}"),
                };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn all_alive(&self) -> anyhow::Result<()> {
        for (component, child) in self.children().iter_mut() {
            if let Some(status) = child.exit_status()? {
                bail!("{component} ended with {status}; its log ends with:\n{}", child.log_tail(15));
            }
        }
        Ok(())
    }

    fn spawn(&self, component: Component) -> anyhow::Result<()> {
        anyhow::ensure!(self.spawn_unless_running(component)?, "{component} already runs");
        Ok(())
    }

    /// Whether it was started now. Under one lock, since tests that share a control plane call this at the same time.
    fn spawn_unless_running(&self, component: Component) -> anyhow::Result<bool> {
        let spec = component.spec(&self.layout)?;
        let mut children = self.children();
        if children.get_mut(&component).is_some_and(Child::is_running) {
            return Ok(false);
        }
        children.insert(component, spec.spawn()?);
        Ok(true)
    }

    fn take(&self, component: Component) -> anyhow::Result<Child> {
        self.children().remove(&component).with_context(|| format!("{component} does not run"))
    }

    fn with(
        &self,
        component: Component,
        act: impl FnOnce(&mut Child) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        act(self.children().get_mut(&component).with_context(|| format!("{component} does not run"))?)
    }

    fn children(&self) -> MutexGuard<'_, BTreeMap<Component, Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep_logs();
        }
        // The data goes too, so there is nothing to end gracefully.
        for child in self.children().values_mut() {
            drop(child.kill());
        }
    }
}
