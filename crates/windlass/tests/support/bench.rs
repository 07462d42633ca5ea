//! A namespace of a real hub, and the binary pointed at it.

use std::{path::PathBuf, process::Command};

use kube::Client;
use windlass_testbed::control_plane::{ControlPlane, Namespace, User};

use super::{fleet::install_crds, told};

pub struct Bench {
    pub client: Client,
    pub kubeconfig: PathBuf,
    pub namespace: Namespace,
    pub home: tempfile::TempDir,
}

impl Bench {
    pub async fn new(prefix: &str) -> Self {
        let plane = ControlPlane::shared().await.unwrap();
        install_crds(&plane.admin()).await;
        Self {
            client: plane.admin(),
            kubeconfig: plane.kubeconfig_path(&User::Admin).unwrap(),
            namespace: plane.namespace(prefix).await.unwrap(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = super::windlass(self.home.path());
        command.args(args).arg(format!("--kubeconfig={}", self.kubeconfig.display()));
        command
    }

    /// Runs a verb on the namespace; gives exit code and outputs.
    pub async fn run(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        command.args(["-n", self.namespace.name()]);
        tokio::task::spawn_blocking(move || told(&command.output().unwrap())).await.unwrap()
    }
}
