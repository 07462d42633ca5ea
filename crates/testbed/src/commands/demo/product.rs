//! The windlass program as a child of the demo.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use windlass_testbed::{
    process::{Child, Port, ScratchDir, Spec},
    tools::{self, Tool},
};

use super::stage::Stage;

/// What the demo's Git server proves itself with.
pub(super) const HOOK_SECRET: &str = "only-for-the-demo";

/// The program beside this one, unless another is named.
pub(super) fn find(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return if path.is_file() { Ok(path) } else { bail!("{} is no program", path.display()) };
    }
    let here = std::env::current_exe().context("cannot find this program")?;
    let beside = here.with_file_name("windlass");
    if beside.is_file() {
        return Ok(beside);
    }
    bail!("the windlass program is not built; `make demo` builds it, or run `cargo build -p windlass`")
}

/// What `windlass crds` prints.
pub(super) fn definitions(windlass: &Path) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let output = Command::new(windlass).arg("crds").output().context("cannot run windlass crds")?;
    if !output.status.success() {
        bail!("windlass crds failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("windlass crds printed no text")?;
    serde_saphyr::from_multiple(&text).context("windlass crds printed no definitions")
}

/// The same kubeconfig, pointing elsewhere.
pub(super) fn with_server(kubeconfig: &str, server: &str) -> anyhow::Result<String> {
    let mut config: kube::config::Kubeconfig =
        serde_saphyr::from_str(kubeconfig).context("not a kubeconfig")?;
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.server = Some(server.to_owned());
    }
    serde_saphyr::to_string(&config).context("cannot write a kubeconfig")
}

/// A running controller. It ends with this value.
pub(super) struct Product {
    child: Child,
    port: Port,
    hooks: Port,
    _folder: ScratchDir,
}

impl Product {
    pub(super) fn start(windlass: &Path, stage: &Stage, namespace: &str) -> anyhow::Result<Self> {
        let folder = ScratchDir::new("demo")?;
        let (port, hooks) = (Port::free()?, Port::free()?);
        let mut args = vec![
            "controller".to_owned(),
            format!("--namespace={namespace}"),
            "--lease-name=windlass-demo".to_owned(),
            format!("--http-address=127.0.0.1:{}", port.number()),
            "--webhook=false".to_owned(),
            "--hooks".to_owned(),
            format!("--hooks-address=127.0.0.1:{}", hooks.number()),
            format!("--work-dir={}", folder.path().join("work").display()),
            format!("--helm={}", tools::path(Tool::Helm)?.display()),
            format!("--kustomize={}", tools::path(Tool::Kustomize)?.display()),
            "--log-format=text".to_owned(),
        ];
        args.extend(stage.flags());
        let child = Spec::new(windlass, folder.path().join("windlass.log")).args(args).spawn()?;
        Ok(Self { child, port, hooks, _folder: folder })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// Port of the hooks.
    pub(super) fn hooks(&self) -> u16 {
        self.hooks.number()
    }

    pub(super) fn log(&self) -> &Path {
        self.child.log()
    }

    pub(super) fn log_tail(&self) -> String {
        self.child.log_tail(15)
    }

    /// Waits until it says that it is ready.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while !self.answers().await {
            if !self.child.is_running() {
                bail!("the controller ended; its log ends with:\n{}", self.child.log_tail(15));
            }
            if tokio::time::Instant::now() > deadline {
                bail!("the controller did not become ready; its log ends with:\n{}", self.child.log_tail(15));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Waits until the controller ends by itself, which it should not.
    pub(super) async fn watch(&mut self) -> anyhow::Result<()> {
        while self.child.is_running() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        bail!("the controller ended; its log ends with:\n{}", self.child.log_tail(15))
    }

    async fn answers(&self) -> bool {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let ask = async {
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port.number())).await?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer.starts_with("HTTP/1.1 200"))
        };
        matches!(tokio::time::timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
    }
}
