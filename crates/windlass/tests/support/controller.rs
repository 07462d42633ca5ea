//! The real binary as a child process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use windlass_testbed::process::{Child, Port, ScratchDir, Spec};

use super::{WINDLASS, eventually};

/// Generous: the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_mins(1);

/// `windlass controller` running as a replica of some installation.
pub struct Replica {
    /// The process.
    pub child: Child,
    /// Its name in leases.
    pub identity: String,
    http: Port,
    log: PathBuf,
    _scratch: ScratchDir,
}

/// How a replica is started.
pub struct Start<'a> {
    pub kubeconfig: &'a Path,
    pub namespace: &'a str,
    pub identity: &'a str,
    pub args: Vec<String>,
}

impl Replica {
    /// Starts it; it is ended on drop.
    pub fn start(start: Start<'_>) -> Self {
        let scratch = ScratchDir::new("controller").unwrap();
        let http = Port::free().unwrap();
        let log = scratch.path().join("log");
        // One folder belongs to one process.
        let own = start.args.iter().any(|arg| arg.starts_with("--work-dir"));
        let work_dir = (!own).then(|| format!("--work-dir={}", scratch.path().join("work").display()));
        let spec = Spec::new(WINDLASS, &log)
            .arg("controller")
            .arg(format!("--kubeconfig={}", start.kubeconfig.display()))
            .arg(format!("--namespace={}", start.namespace))
            .arg(format!("--identity={}", start.identity))
            .arg(format!("--http-address=127.0.0.1:{}", http.number()))
            .args(work_dir)
            .args(start.args);
        let child = spec.env("RUST_BACKTRACE", "1").spawn().unwrap();
        Self { child, identity: start.identity.to_owned(), http, log, _scratch: scratch }
    }

    /// Everything that it logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// A GET on its plain listener: status and body.
    pub async fn get(&self, path: &str) -> Result<(u16, String), String> {
        let exchange = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.http.number())).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(Duration::from_secs(5), exchange).await.map_err(|_| "no answer")?;
        let answer = answer.map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP")?;
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
        Ok((code, body.to_owned()))
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        eventually(&format!("{} is ready", self.identity), SOON, || async {
            match self.get("/readyz").await {
                Ok((200, _)) => Ok(()),
                Ok((code, body)) => Err(format!("{code}: {body}")),
                Err(why) => Err(format!("{why}; the log ends with:\n{}", self.child.log_tail(20))),
            }
        })
        .await;
    }

    /// Sum of all series of a metric whose labels contain all of these texts. The metric has to exist.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let (_, text) = self.get("/metrics").await.unwrap();
        let series: Vec<&str> =
            text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name)).collect();
        assert!(!series.is_empty(), "there is no metric {name}:\n{text}");
        series
            .into_iter()
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Memory that it holds, in KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}
