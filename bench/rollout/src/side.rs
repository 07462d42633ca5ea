//! Who does the work: Windlass, or Argo Rollouts where its program is at hand.

use std::{path::PathBuf, process::Command};

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    process::{Child, Port, ScratchDir, Spec},
    tools::{self, Tool},
};

/// The module that the schemas of Argo Rollouts come from: the version that it is compared with.
const ARGO_MODULE: &str = "github.com/argoproj/argo-rollouts@v1.10.1";

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Windlass,
    Argo { program: PathBuf },
}

impl Side {
    /// Argo Rollouts, if `ARGO_ROLLOUTS_BIN` names it.
    pub(crate) fn argo() -> Option<Self> {
        std::env::var_os("ARGO_ROLLOUTS_BIN").map(|program| Self::Argo { program: program.into() })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Windlass => "Windlass",
            Self::Argo { .. } => "Argo Rollouts",
        }
    }

    /// Group of the kinds.
    pub(crate) fn group(&self) -> &'static str {
        match self {
            Self::Windlass => "windlass.dev",
            Self::Argo { .. } => "argoproj.io",
        }
    }

    /// The phase of a Rollout whose newest revision is the stable one.
    pub(crate) fn done(&self) -> &'static str {
        match self {
            Self::Windlass => "Completed",
            Self::Argo { .. } => "Healthy",
        }
    }

    /// The kinds with their schemas.
    pub(crate) fn definitions(&self) -> anyhow::Result<Vec<CustomResourceDefinition>> {
        match self {
            Self::Windlass => Ok(windlass_api::crds::all()),
            Self::Argo { .. } => {
                let folder = module(ARGO_MODULE)?.join("manifests/crds");
                ["rollout", "analysis-run", "analysis-template", "cluster-analysis-template", "experiment"]
                    .into_iter()
                    .map(|name| {
                        let path = folder.join(format!("{name}-crd.yaml"));
                        let text = std::fs::read_to_string(&path)
                            .with_context(|| format!("cannot read {}", path.display()))?;
                        serde_saphyr::from_str(&text)
                            .with_context(|| format!("{} is no kind", path.display()))
                    })
                    .collect()
            }
        }
    }

    /// Starts the controller with its defaults. The port is that of its metrics.
    pub(crate) fn start(
        &self,
        control_plane: &ControlPlane,
        folder: &ScratchDir,
    ) -> anyhow::Result<(Child, Vec<Port>)> {
        let kubeconfig = control_plane.kubeconfig_path(&User::Admin)?;
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let (one, two) = (Port::free()?, Port::free()?);
        let spec = match self {
            Self::Windlass => Spec::new(windlass()?, folder.path().join("windlass.log"))
                .args(["controller", "--namespace=default", "--webhook=false", "--log-level=warn"])
                .arg(kubeconfig)
                .arg(format!("--http-address=127.0.0.1:{}", one.number()))
                .arg(format!("--work-dir={}", folder.path().join("work").display()))
                .arg(format!("--kustomize={}", tools::path(Tool::Kustomize)?.display())),
            Self::Argo { program } => Spec::new(program.clone(), folder.path().join("argo-rollouts.log"))
                .args(["--leader-elect=false", "--loglevel=warn"])
                .arg(kubeconfig)
                .arg(format!("--metricsPort={}", one.number()))
                .arg(format!("--healthzPort={}", two.number())),
        };
        Ok((spec.spawn()?, vec![one, two]))
    }
}

/// The program built with this bench: `scripts/bench` builds both.
fn windlass() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_BIN") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name("windlass");
    anyhow::ensure!(beside.is_file(), "{} is not built: run `make bench`", beside.display());
    Ok(beside)
}

/// The folder of a Go module, fetched if need be.
fn module(name: &str) -> anyhow::Result<PathBuf> {
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", name]).current_dir(std::env::temp_dir());
    let output = command.output().context("Go is needed to fetch the schemas of Argo Rollouts")?;
    anyhow::ensure!(
        output.status.success(),
        "cannot fetch {name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = serde_json::from_slice(&output.stdout).context("Go told no JSON")?;
    Ok(told["Dir"].as_str().context("Go told no folder")?.into())
}
