//! Prometheus for tests: the real one, scraping targets that the test controls, with faults in front of it.
//!
//! ```text
//!  an analysis ──HTTP(S)──► faults ──► users ──► prometheus (child process) ──scrapes──► Target (values set by the test)
//!                                                   ▲
//!  the test ── query, wait_for ─────────────────────┘  (past faults and users, not counted)
//! ```

pub mod answers;
mod query;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use serde_json::json;
use tokio::sync::Mutex;

pub use crate::faults::{Authorization, Fault, Faults, RequestLog, RequestRecord, Scope};
pub use query::Sample;
pub use target::Target;

use crate::faults::auth::Users;
use crate::faults::{Forward, HttpClient, HttpServer, ServerIdentity, Upstream};
use crate::tools::Tool;

/// Kind of a request, as counted and as faults can be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/api/v1/query`.
    Query,
    /// `/api/v1/query_range`.
    QueryRange,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word for it in [`RequestRecord`] and [`Scope`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::QueryRange => "query-range",
            Self::Other => "other",
        }
    }
}

/// How a Prometheus is to be started.
#[derive(Debug, Clone)]
pub struct Builder {
    setup: Setup,
    tls: bool,
}

impl Builder {
    /// Scrapes this target; the name of the target becomes the `job` label.
    #[must_use]
    pub fn target(mut self, target: &Target) -> Self {
        self.setup.insert(target);
        self
    }

    /// Scrapes this often (500 ms unless told otherwise). A target that takes longer than that to answer counts as
    /// down.
    #[must_use]
    pub fn scrape_interval(mut self, scrape_interval: Duration) -> Self {
        self.setup.scrape_interval = scrape_interval;
        self
    }

    /// Speaks HTTPS to clients, who need [`Prometheus::ca_pem`] to trust it.
    #[must_use]
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Starts it and waits until it answers.
    pub async fn start(self) -> anyhow::Result<Prometheus> {
        let identity = if self.tls { Some(ServerIdentity::generate()?) } else { None };
        let setup = self.setup;
        let upstream = Upstream::start(Tool::Prometheus, "/-/ready", |place, spec| {
            let config = place.folder.join(CONFIG);
            setup.write(&config)?;
            let option = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
            Ok(spec.args([
                option("config.file", &config.display()),
                option("storage.tsdb.path", &place.folder.join("data").display()),
                option("web.listen-address", &place.address),
                option("log.level", &"warn"),
                "--web.enable-lifecycle".to_owned(),
            ]))
        })
        .await?;
        let users = Users::default();
        let service = Forward { upstream: upstream.address(), classify, users: users.clone(), tls: self.tls };
        let http = HttpServer::start("testbed-prometheus", service, identity.as_ref())?;
        Ok(Prometheus { http, identity, users, setup: Mutex::new(setup), upstream })
    }
}

const CONFIG: &str = "prometheus.yaml";

/// What the configuration file says.
#[derive(Debug, Clone)]
struct Setup {
    /// A job stays when its last target goes: only then does Prometheus mark its values as stale, instead of showing
    /// them for five more minutes.
    jobs: BTreeMap<String, BTreeSet<SocketAddr>>,
    scrape_interval: Duration,
}

impl Setup {
    fn insert(&mut self, target: &Target) {
        self.jobs.entry(target.job().to_owned()).or_default().insert(target.address());
    }

    fn remove(&mut self, target: &Target) {
        if let Some(targets) = self.jobs.get_mut(target.job()) {
            targets.remove(&target.address());
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let jobs: Vec<_> = self
            .jobs
            .iter()
            .map(|(job, targets)| json!({ "job_name": job, "static_configs": [{ "targets": targets }] }))
            .collect();
        let interval = format!("{}ms", self.scrape_interval.as_millis().max(1));
        let config = json!({
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "scrape_configs": jobs,
        });
        // JSON is YAML.
        std::fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A Prometheus on a free port of 127.0.0.1; ends and removes its data when dropped.
///
/// Without users everybody may ask; from the first user on every request takes one.
#[derive(Debug)]
pub struct Prometheus {
    http: HttpServer,
    identity: Option<ServerIdentity>,
    users: Users,
    setup: Mutex<Setup>,
    upstream: Upstream,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these targets every 500 ms.
    pub async fn start(targets: &[&Target]) -> anyhow::Result<Self> {
        targets.iter().fold(Self::builder(), |builder, target| builder.target(target)).start().await
    }

    /// A Prometheus with more to say than [`Prometheus::start`].
    pub fn builder() -> Builder {
        Builder {
            setup: Setup { jobs: BTreeMap::new(), scrape_interval: Duration::from_millis(500) },
            tls: false,
        }
    }

    /// Address for clients: `http://127.0.0.1:port` (or `https`), without a slash at the end.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// The certificate authority in PEM, when it speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(ServerIdentity::ca_pem)
    }

    /// Adds a user, or changes the password.
    pub fn user(&self, name: &str, password: &str) -> &Self {
        self.users.set_password(name, password);
        self
    }

    /// Gives a user a `Bearer` token. Adds the user when there is none.
    pub fn token(&self, name: &str, token: &str) -> &Self {
        self.users.set_token(name, token);
        self
    }

    /// Takes a user away.
    pub fn remove_user(&self, name: &str) -> &Self {
        self.users.remove(name);
        self
    }

    /// Scrapes one more target from now on.
    pub async fn add_target(&self, target: &Target) -> anyhow::Result<()> {
        let mut setup = self.setup.lock().await;
        setup.insert(target);
        self.reload(&setup).await
    }

    /// Scrapes a target no more; its values are gone after about three scrape intervals.
    pub async fn remove_target(&self, target: &Target) -> anyhow::Result<()> {
        let mut setup = self.setup.lock().await;
        setup.remove(target);
        self.reload(&setup).await
    }

    async fn reload(&self, setup: &Setup) -> anyhow::Result<()> {
        setup.write(&self.config_path())?;
        let request = Request::post(format!("{}/-/reload", self.upstream.url())).body(Bytes::new());
        let answer = HttpClient::new().send(request.context("cannot name the reload")?).await?;
        anyhow::ensure!(
            answer.status.is_success(),
            "prometheus refuses its configuration: {}",
            answer.text().trim()
        );
        Ok(())
    }

    /// Asks for the present value of an expression, past all faults.
    pub async fn query(&self, promql: &str) -> anyhow::Result<Vec<Sample>> {
        let url = format!("{}/api/v1/query?query={}", self.upstream.url(), query::encoded(promql));
        let answer = HttpClient::new().get(&url).await?;
        query::samples(&answer.body).with_context(|| format!("cannot ask for `{promql}`"))
    }

    /// Asks again and again until the answer is as expected, and returns it. Gives up after `deadline`.
    pub async fn wait_for(
        &self,
        promql: &str,
        expected: impl Fn(&[Sample]) -> bool,
        deadline: Duration,
    ) -> anyhow::Result<Vec<Sample>> {
        let end = Instant::now() + deadline;
        loop {
            let samples = self.query(promql).await?;
            if expected(&samples) {
                return Ok(samples);
            }
            if Instant::now() >= end {
                bail!("`{promql}` is still {samples:?} after {deadline:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets this fault happen to every request from now on. See [`answers`] for bad answers.
    pub fn fault(&self, fault: Fault) {
        self.http.faults().set(Scope::all(), fault);
    }

    /// Lets this fault happen to every request of a kind from now on.
    pub fn fault_on(&self, kind: Kind, fault: Fault) {
        self.http.faults().set(Scope::kind(kind.as_str()), fault);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.http.faults().clear_all();
    }

    /// All that can be said about faults, e.g. faults for the next few requests only, and how many were hit.
    pub fn faults(&self) -> &Faults {
        self.http.faults()
    }

    /// What came in through the front door.
    pub fn log(&self) -> &RequestLog {
        self.http.log()
    }

    /// Number of requests of a kind since the start or the last `log().reset()`.
    pub fn count(&self, kind: Kind) -> u64 {
        self.log().count(kind.as_str())
    }

    fn config_path(&self) -> PathBuf {
        self.upstream.file(CONFIG)
    }
}

fn classify(request: &http::request::Parts) -> (String, &'static str) {
    let kind = match request.uri.path() {
        "/api/v1/query" => Kind::Query,
        "/api/v1/query_range" => Kind::QueryRange,
        _ => Kind::Other,
    };
    (String::new(), kind.as_str())
}
