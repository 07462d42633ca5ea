//! The real programs that the testbed runs, found on the machine or built once from Go modules.
//!
//! ```text
//!   path(tool) ──► KUBEBUILDER_ASSETS, then PATH   (versions checked; the control plane only as a complete set)
//!              └─► cache folder ──► go build       (one process builds, others wait; finished files are renamed in)
//! ```

mod build;
mod find;
mod go;
mod module;
mod progress;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

use module::Module;
pub use version::Version;

/// A program that tests, benches or the demo need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// etcd, the store of the control plane.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// The Kubernetes controller manager.
    KubeControllerManager,
    /// The Kubernetes scheduler.
    KubeScheduler,
    /// The Kubernetes command line.
    Kubectl,
    /// kwok, which plays the kubelets.
    Kwok,
    /// helm.
    Helm,
    /// kustomize.
    Kustomize,
    /// The OCI distribution registry.
    Registry,
    /// Prometheus.
    Prometheus,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Kubectl,
        Self::Helm,
        Self::Kustomize,
        Self::Registry,
        Self::Prometheus,
    ];

    /// What a control plane with nodes runs. These are taken from the machine only together, so that versions that were
    /// never tested together are never mixed.
    pub const CONTROL_PLANE: [Self; 5] =
        [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager, Self::KubeScheduler, Self::Kwok];

    /// The file name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Helm => "helm",
            Self::Kustomize => "kustomize",
            Self::Registry => "registry",
            Self::Prometheus => "prometheus",
        }
    }

    /// The version that is built when the machine has none.
    pub fn version(self) -> anyhow::Result<Version> {
        Module::of(self).tool_version(self)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

static KNOWN: Mutex<BTreeMap<Tool, PathBuf>> = Mutex::new(BTreeMap::new());

/// The path of the program. Builds it when neither the machine nor the cache has it, which can take minutes and is shown
/// on standard error.
pub fn path(tool: Tool) -> anyhow::Result<PathBuf> {
    if let Some(path) = known(tool) {
        return Ok(path);
    }
    let path = match find::on_machine(tool) {
        Some(path) => path,
        None => build::cached(tool).with_context(|| format!("there is no {tool} to run"))?,
    };
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(tool, path.clone());
    Ok(path)
}

/// Finds or builds all of these, so that later calls of [`path`] return at once.
pub fn ensure(tools: &[Tool]) -> anyhow::Result<()> {
    tools.iter().try_for_each(|tool| path(*tool).map(drop))
}

/// Where the program comes from now, without building it.
pub fn locate(tool: Tool) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = known(tool).or_else(|| find::on_machine(tool)) {
        return Ok(Some(path));
    }
    let path = build::cached_path(tool)?;
    Ok(path.exists().then_some(path))
}

/// The version that the program at this path reports, when it reports one.
pub fn version_of(tool: Tool, path: &std::path::Path) -> Option<Version> {
    find::ask_version(tool, path)
}

fn known(tool: Tool) -> Option<PathBuf> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&tool).cloned()
}

/// The folder for what is worth keeping between runs: `WINDLASS_CACHE`, else `XDG_CACHE_HOME/windlass`, else
/// `~/.cache/windlass`.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = set("WINDLASS_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("windlass")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache").join("windlass")))
        .context("there is no home folder for the cache: set WINDLASS_CACHE to a folder")?;
    std::path::absolute(&dir).with_context(|| format!("cannot make {} absolute", dir.display()))
}
