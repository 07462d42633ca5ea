//! Where one control plane keeps its files and which ports it uses. Fixed for its life, so that programs restart in place.

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

use super::component::Component;
use super::identity::Identity;
use super::user::{Credential, kubeconfig, kubeconfig_yaml};
use crate::pki::write_private;
use crate::process::{Port, ScratchDir};

pub(super) struct Layout {
    pub(super) name: String,
    data: ScratchDir,
    pub(super) logs: ScratchDir,
    apiserver: Port,
    etcd: Port,
    etcd_peer: Port,
    pub(super) identity: Identity,
    pub(super) apiserver_args: Vec<String>,
}

impl Layout {
    pub(super) fn create(name: &str) -> anyhow::Result<Self> {
        let data = ScratchDir::new("control-plane")?;
        let layout = Self {
            name: name.to_owned(),
            logs: ScratchDir::new("control-plane-logs")?,
            apiserver: Port::free()?,
            etcd: Port::free()?,
            etcd_peer: Port::free()?,
            identity: Identity::create(&data.path().join("pki"))?,
            apiserver_args: Vec::new(),
            data,
        };
        std::fs::create_dir_all(layout.kubeconfig_dir())?;
        layout.write_component_kubeconfigs()?;
        write_private(layout.data.path(), "kwok.yaml", &crate::nodes::kwok_config()?)?;
        Ok(layout)
    }

    /// Every component has a certificate of its own with the name that the built-in RBAC roles are bound to.
    fn write_component_kubeconfigs(&self) -> anyhow::Result<()> {
        for (component, user, group) in [
            (Component::ControllerManager, "system:kube-controller-manager", None),
            (Component::Scheduler, "system:kube-scheduler", None),
            // It stands for every kubelet at once, which no built-in role covers.
            (Component::Kwok, "kwok", Some("system:masters")),
        ] {
            let cert = self.identity.cluster_ca.client(user, group)?;
            let config = self.kubeconfig(user, &Credential::Certificate(&cert))?;
            write_private(
                &self.kubeconfig_dir(),
                &format!("{component}.kubeconfig"),
                &kubeconfig_yaml(&config)?,
            )?;
        }
        Ok(())
    }

    pub(super) fn kubeconfig(&self, user: &str, credential: &Credential<'_>) -> anyhow::Result<Kubeconfig> {
        kubeconfig(&self.name, &self.url(), &self.identity.cluster_ca.pem(), user, credential)
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver.number())
    }

    pub(super) fn apiserver_port(&self) -> u16 {
        self.apiserver.number()
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.etcd.number())
    }

    pub(super) fn etcd_peer_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.etcd_peer.number())
    }

    pub(super) fn log_dir(&self) -> &Path {
        self.logs.path()
    }

    pub(super) fn config_dir(&self) -> &Path {
        self.data.path()
    }

    pub(super) fn etcd_data(&self) -> PathBuf {
        self.data.path().join("etcd")
    }

    pub(super) fn kwok_config(&self) -> PathBuf {
        self.data.path().join("kwok.yaml")
    }

    pub(super) fn kubeconfig_dir(&self) -> PathBuf {
        self.data.path().join("kubeconfigs")
    }

    pub(super) fn component_kubeconfig(&self, component: Component) -> PathBuf {
        self.kubeconfig_dir().join(format!("{component}.kubeconfig"))
    }
}
