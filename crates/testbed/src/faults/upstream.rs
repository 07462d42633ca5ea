//! A real server that runs as a child process behind the faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::HttpClient;
use crate::process::{Child, Port, ScratchDir, Spec};
use crate::tools::{self, Tool};

/// How long a server may take to answer for the first time on a busy machine.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// A program that listens on a port of its own and keeps its files in a folder of its own; both are free again, and
/// the program is gone, when this is dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    tool: Tool,
    // Dropped in this order: the port and the folder belong to the program until it has ended.
    child: Child,
    port: Port,
    scratch: ScratchDir,
}

/// What a program needs to know before it can be started.
pub(crate) struct Place<'a> {
    /// Where it has to listen.
    pub(crate) address: SocketAddr,
    /// Where its files go.
    pub(crate) folder: &'a Path,
}

impl Upstream {
    /// Starts a program and waits until it answers `ready_path` with 200. Builds the program when there is none.
    pub(crate) async fn start(
        tool: Tool,
        ready_path: &str,
        prepare: impl FnOnce(&Place<'_>, Spec) -> anyhow::Result<Spec>,
    ) -> anyhow::Result<Self> {
        let program = tokio::task::spawn_blocking(move || tools::path(tool))
            .await
            .context("cannot look for a tool")??;
        let scratch = ScratchDir::new(tool.name())?;
        let port = Port::free()?;
        let place = Place { address: address_of(&port), folder: scratch.path() };
        // Its data goes with it, so there is nothing to end gracefully.
        let spec = Spec::new(program, scratch.path().join("log")).dir(scratch.path()).grace(Duration::ZERO);
        let child = prepare(&place, spec)?.spawn()?;
        let mut upstream = Self { tool, child, port, scratch };
        upstream.wait_until_ready(ready_path).await?;
        Ok(upstream)
    }

    /// Where the program listens.
    pub(crate) fn address(&self) -> SocketAddr {
        address_of(&self.port)
    }

    /// `http://127.0.0.1:port` of the program itself, past the faults.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// A path among the files of the program.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    async fn wait_until_ready(&mut self, path: &str) -> anyhow::Result<()> {
        let client = HttpClient::new().deadline(Duration::from_secs(5));
        let url = format!("{}{path}", self.url());
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let last = match client.get(&url).await {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => format!("it answers {}", answer.status),
                Err(error) => format!("{error:#}"),
            };
            let ended = self.child.exit_status()?;
            let (tool, tail) = (self.tool, || self.child.log_tail(20));
            if let Some(status) = ended {
                bail!("{tool} ended at once ({status}); its log ends with:\n{}", tail());
            }
            if Instant::now() >= deadline {
                bail!("{tool} is not ready after {START_DEADLINE:?}: {last}; its log ends with:\n{}", tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.scratch.keep();
            eprintln!(
                "{}: files and log of the failed test are kept in {}",
                self.tool,
                self.scratch.path().display()
            );
        }
    }
}

fn address_of(port: &Port) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()))
}
