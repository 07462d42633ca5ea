//! What a Kubernetes API does, as cases that run against any of them.
//!
//! The simulation is only worth something while it behaves as the real API server does. Each case is a short script
//! of requests with assertions, and leaves a [transcript](Outcome::transcript) of every answer, in which names,
//! UIDs, versions and times are replaced by tokens. The suite runs against the simulation alone, and against the
//! simulation and a real kube-apiserver side by side, where the transcripts must be equal line by line.

mod cases;
mod definitions;
mod differential;
mod policies;
mod session;
mod transcript;

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

pub use cases::all;
pub use differential::{Differential, differential};
pub use policies::{deny_on, install_policies};
pub use session::{Reply, Session, WatchSession};

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// The script.
    pub run: for<'a> fn(&'a Session) -> BoxFuture<'a, anyhow::Result<()>>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

/// How a case went.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub name: &'static str,
    /// Whether its assertions held.
    pub result: anyhow::Result<()>,
    /// Every request and answer, with tokens in place of what differs from run to run.
    pub transcript: Vec<String>,
}

/// The API that cases run against.
pub struct Env {
    client: Client,
    run: String,
    forget: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Env {
    /// Prepares an API: installs the definitions that the cases use and waits until they are served. `run` makes
    /// the names of namespaces unique. The policies that the cases meet come from [`install_policies`] on a real
    /// server and from [`deny_on`] on the simulation.
    pub async fn prepare(client: Client, run: &str) -> anyhow::Result<Self> {
        definitions::install(&client).await?;
        Ok(Self { client, run: run.to_owned(), forget: Arc::new(|| {}) })
    }

    /// How to make the API forget its history. A real server has forgotten what was before its start.
    #[must_use]
    pub fn forgetting(mut self, forget: impl Fn() + Send + Sync + 'static) -> Self {
        self.forget = Arc::new(forget);
        self
    }

    /// Runs one case in a namespace of its own.
    pub async fn run(&self, case: &Case) -> Outcome {
        let session = Session::open(self, case.name).await;
        let (result, transcript) = match session {
            Err(error) => (Err(error), Vec::new()),
            Ok(session) => {
                let result = (case.run)(&session).await;
                session.close().await;
                (result, session.transcript())
            }
        };
        Outcome { name: case.name, result, transcript }
    }
}

/// Runs every case, one after the other.
pub async fn run(env: &Env) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for case in all() {
        outcomes.push(env.run(&case).await);
    }
    outcomes
}

/// The first differences between two transcripts, one per line; empty when they are equal.
pub fn differences(left: &[String], right: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for index in 0..left.len().max(right.len()) {
        let (left, right) = (left.get(index), right.get(index));
        if left != right {
            let show = |line: Option<&String>| line.map_or("(nothing)", String::as_str).to_owned();
            found.push(format!("line {}\n  - {}\n  + {}", index + 1, show(left), show(right)));
        }
    }
    found
}
