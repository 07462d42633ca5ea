//! The controller as a child, and what it tells of itself.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    process::{Child, Port, ScratchDir, Spec},
    tools::{self, Tool},
};

/// What hooks prove themselves with.
pub(crate) const HOOK_SECRET: &str = "sesame";

/// A running `windlass controller`. It ends with this value.
pub(crate) struct Product {
    pub(crate) child: Child,
    http: Port,
    hooks: Port,
    _folder: ScratchDir,
}

impl Product {
    /// Starts the program that was built with this bench, with its defaults, and waits until it is ready.
    pub(crate) async fn start(control_plane: &ControlPlane) -> anyhow::Result<Self> {
        let folder = ScratchDir::new("bench-deliver")?;
        let (http, hooks) = (Port::free()?, Port::free()?);
        let kubeconfig = control_plane.kubeconfig_path(&User::Admin)?;
        let child = Spec::new(program()?, folder.path().join("windlass.log"))
            .args([
                "controller",
                "--namespace=default",
                "--webhook=false",
                "--hooks=true",
                "--log-level=warn",
            ])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--http-address=127.0.0.1:{}", http.number()))
            .arg(format!("--hooks-address=127.0.0.1:{}", hooks.number()))
            .arg(format!("--work-dir={}", folder.path().join("work").display()))
            .arg(format!("--kustomize={}", tools::path(Tool::Kustomize)?.display()))
            .spawn()?;
        let mut product = Self { child, http, hooks, _folder: folder };
        product.ready().await?;
        Ok(product)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..600 {
            if matches!(self.get("/readyz").await, Ok(answer) if answer.starts_with("HTTP/1.1 200")) {
                return Ok(());
            }
            anyhow::ensure!(self.child.is_running(), "the controller ended:\n{}", self.child.log_tail(20));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("the controller is not ready:\n{}", self.child.log_tail(20))
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        exchange(&self.http, &format!("GET {path} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\r\n"))
            .await
    }

    /// Sum of all series of a metric whose labels contain a text; zero when it is not there yet.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let text = self.get("/metrics").await?;
        let series = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let values = series.filter(|line| line.contains(label)).filter_map(|line| line.rsplit(' ').next());
        Ok(values.filter_map(|value| value.parse::<f64>().ok()).sum())
    }

    /// Tells of a push, and how long the answer took.
    pub(crate) async fn hook(&self, url: &str, commit: &str) -> anyhow::Result<Duration> {
        let body = format!(r#"{{"url":"{url}","branch":"main","commit":"{commit}"}}"#);
        let request = format!(
            "POST /hooks/generic HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\nAuthorization: Bearer \
             {HOOK_SECRET}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let begin = tokio::time::Instant::now();
        let answer = exchange(&self.hooks, &request).await?;
        let took = begin.elapsed();
        anyhow::ensure!(answer.starts_with("HTTP/1.1 202"), "the hook was answered: {answer}");
        Ok(took)
    }
}

async fn exchange(port: &Port, request: &str) -> anyhow::Result<String> {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port.number())).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    tokio::time::timeout(Duration::from_secs(30), ask).await.context("no answer")?
}

/// The program built with this bench: `scripts/bench` builds both.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_BIN") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name("windlass");
    anyhow::ensure!(beside.is_file(), "{} is not built: run `make bench`", beside.display());
    Ok(beside)
}
