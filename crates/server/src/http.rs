//! The plain HTTP side: `/healthz`, `/readyz`, `/metrics`, and whatever other parts add.
//!
//! Nothing secret is served here, and nothing changes state, so it needs no TLS and no authentication; a
//! `NetworkPolicy` decides who may reach it.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tracing::error;

use crate::listener::{Limits, ListenError, Server};
use crate::metrics::{self, Metrics};
use crate::readiness::{Check, Liveness, Readiness};

/// What the probes report on.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Behind `/readyz`.
    pub readiness: Readiness,
    /// Behind `/healthz`.
    pub liveness: Liveness,
    /// Behind `/metrics`.
    pub metrics: Metrics,
}

impl Probes {
    /// Empty: alive, ready, nothing measured.
    pub fn new() -> Self {
        Self::default()
    }

    /// The routes by themselves, to be merged into any router.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics_text))
            .with_state(self.clone())
    }

    /// Binds a listener with these routes. Other parts add theirs with [`Server::merge`] before it runs.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(&self, address: SocketAddr) -> Result<Server, ListenError> {
        let server = Server::bind("http", address, Limits::probes()).await?;
        Ok(server.merge(self.routes()).with_fallback(Router::new().fallback(not_found)))
    }
}

async fn healthz(State(probes): State<Probes>, RawQuery(query): RawQuery) -> Response {
    report("healthz", &probes.liveness.checks(), verbose(query.as_deref()))
}

async fn readyz(State(probes): State<Probes>, RawQuery(query): RawQuery) -> Response {
    report("readyz", &probes.readiness.checks(), verbose(query.as_deref()))
}

async fn metrics_text(State(probes): State<Probes>) -> Response {
    match probes.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            error!(%error, "cannot write the metrics as text");
            (StatusCode::INTERNAL_SERVER_ERROR, "The metrics cannot be written as text.\n").into_response()
        }
    }
}

async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "Not found. There are /healthz, /readyz and /metrics here.\n").into_response()
}

/// `?verbose`, alone or with any value, as kube-apiserver takes it.
fn verbose(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("verbose")))
}

/// The form of kube-apiserver's probes: `ok`, or one line per check and a verdict. A failure is always told in
/// full, since nobody can ask again for what has passed.
fn report(probe: &str, checks: &[Check], verbose: bool) -> Response {
    let passed = checks.iter().all(|check| check.failure.is_none());
    if passed && !verbose {
        return "ok".into_response();
    }
    let mut text = String::new();
    for Check { name, failure } in checks {
        match failure {
            None => text.extend(["[+]", name, " ok\n"]),
            Some(why) => text.extend(["[-]", name, " failed: ", why, "\n"]),
        }
    }
    text.extend([probe, if passed { " check passed\n" } else { " check failed\n" }]);
    let status = if passed { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbose_is_read_as_kube_apiserver_reads_it() {
        assert!(verbose(Some("verbose")));
        assert!(verbose(Some("a=b&verbose=")));
        assert!(verbose(Some("verbose=1")));
        assert!(!verbose(Some("verbosely")));
        assert!(!verbose(Some("a=verbose")));
        assert!(!verbose(None));
    }
}
