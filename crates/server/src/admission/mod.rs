//! Admission webhooks: `POST /admit/<name>` with an `AdmissionReview`, answered by a handler's [`Verdict`].
//!
//! ```no_run
//! # use windlass_server::admission::{Verdict, Webhooks};
//! # use windlass_server::metrics::Metrics;
//! let webhooks = Webhooks::new(&Metrics::new()).with("clusters", |request: &_| {
//!     let _: &windlass_server::admission::Request = request;
//!     if request.name == "forbidden" { Verdict::deny("this name is taken by tradition") } else { Verdict::Allow }
//! });
//! let routes = webhooks.routes();
//! ```
//!
//! Guarantees:
//! * an answer with `allowed: true` is given only when a handler said so. A body that cannot be read, a handler
//!   that panics or does not answer in time gives an HTTP error, on which the API server applies the
//!   `failurePolicy` of the webhook;
//! * the uid of the answer is the uid of the request;
//! * objects are never logged: they may be Secrets.

mod review;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use crate::metrics::Metrics;

/// What a handler is asked.
pub type Request = AdmissionRequest<DynamicObject>;

/// The API server waits no longer than this, whatever a configuration says.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What a handler answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Let it pass.
    Allow,
    /// Refuse it. The user reads the message, so it says what to do.
    Deny {
        /// For people.
        message: String,
        /// For programs.
        reason: DenyReason,
    },
    /// Let it pass, and tell the user; kubectl prints each line as a warning. Short ones, 120 characters at most.
    Warn(Vec<String>),
}

impl Verdict {
    /// A refusal with the usual reason.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), reason: DenyReason::Forbidden }
    }
}

/// Why a request is refused, in the words of the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenyReason {
    /// Not allowed, whatever it looks like (403).
    Forbidden,
    /// The object breaks a rule (422).
    Invalid,
    /// It does not fit what exists (409).
    Conflict,
    /// The request makes no sense (400).
    BadRequest,
}

/// Decides over requests. Closures from `&Request` to [`Verdict`] are handlers; a type that has to wait for
/// something implements the trait with an `async fn`.
///
/// A handler must not change anything: the API server may call it for requests that are refused later, for dry
/// runs, and twice for the same request.
pub trait Admit: Send + Sync + 'static {
    /// Decides over one request.
    fn admit(&self, request: &Request) -> impl Future<Output = Verdict> + Send;
}

impl<F> Admit for F
where
    F: Fn(&Request) -> Verdict + Send + Sync + 'static,
{
    fn admit(&self, request: &Request) -> impl Future<Output = Verdict> + Send {
        std::future::ready(self(request))
    }
}

/// [`Admit`] that can be put into a map.
trait DynAdmit: Send + Sync {
    fn admit_boxed<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Verdict>;
}

impl<A: Admit> DynAdmit for A {
    fn admit_boxed<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Verdict> {
        self.admit(request).boxed()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    webhook: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    webhook: &'static str,
    verdict: &'static str,
}

/// The verdicts as a metric counts them: the values of its label.
mod outcome {
    pub(super) const ALLOWED: &str = "allowed";
    pub(super) const DENIED: &str = "denied";
    pub(super) const WARNED: &str = "warned";
    pub(super) const MALFORMED: &str = "malformed";
    pub(super) const FAILED: &str = "failed";
}

/// The webhooks of a process by name.
#[derive(Clone)]
pub struct Webhooks {
    handlers: BTreeMap<&'static str, Arc<dyn DynAdmit>>,
    requests: Family<OutcomeLabels, Counter>,
    duration: Family<WebhookLabel, Histogram, fn() -> Histogram>,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("names", &self.handlers.keys()).finish_non_exhaustive()
    }
}

impl Webhooks {
    /// None yet. Registers its metrics: once per registry.
    pub fn new(metrics: &Metrics) -> Self {
        let requests = Family::<OutcomeLabels, Counter>::default();
        let duration = Family::<WebhookLabel, Histogram, fn() -> Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.0005, 2.0, 15))
        });
        metrics.register(|registry| {
            registry.register(
                "windlass_admission_requests",
                "Admission requests by webhook and verdict",
                requests.clone(),
            );
            registry.register_with_unit(
                "windlass_admission_duration",
                "Time from the whole request to the answer",
                Unit::Seconds,
                duration.clone(),
            );
        });
        Self { handlers: BTreeMap::new(), requests, duration }
    }

    /// Adds a handler under `/admit/<name>`; a handler of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &'static str, handler: impl Admit) -> Self {
        self.handlers.insert(name, Arc::new(handler));
        self
    }

    /// The routes, for a [`Server`](crate::listener::Server) with TLS.
    pub fn routes(&self) -> Router {
        let names = self.handlers.keys().copied().collect::<Vec<_>>().join(", ");
        let missing =
            format!("Not found. Webhooks are called with POST /admit/<name>; there are: {names}.\n");
        Router::new()
            .route("/admit/{name}", post(admit))
            .with_state(Arc::new(self.clone()))
            .fallback(move || std::future::ready((StatusCode::NOT_FOUND, missing.clone())))
    }

    fn count(&self, webhook: &'static str, verdict: &'static str) {
        self.requests.get_or_create(&OutcomeLabels { webhook, verdict }).inc();
    }

    fn refuse(&self, webhook: &'static str, status: StatusCode, sentence: String) -> Response {
        warn!(webhook, %status, sentence, "cannot read an admission request");
        self.count(webhook, outcome::MALFORMED);
        (status, sentence + "\n").into_response()
    }

    async fn decide(
        &self,
        webhook: &'static str,
        handler: &dyn DynAdmit,
        request: Request,
        wait: Duration,
    ) -> Response {
        // The handler's first poll may panic as well as its later ones.
        let decided = AssertUnwindSafe(async { handler.admit_boxed(&request).await }).catch_unwind();
        let failure = match tokio::time::timeout(wait, decided).await {
            Ok(Ok(verdict)) => {
                let verdict_name = match &verdict {
                    Verdict::Allow => outcome::ALLOWED,
                    Verdict::Deny { .. } => outcome::DENIED,
                    Verdict::Warn(_) => outcome::WARNED,
                };
                debug!(webhook, uid = request.uid, verdict = verdict_name, "admission request answered");
                self.count(webhook, verdict_name);
                return axum::Json(review::answer(&request, verdict)).into_response();
            }
            Ok(Err(_)) => "the webhook ran into a fault of its own".to_owned(),
            Err(_) => format!("the webhook did not decide within {} s", wait.as_secs_f32()),
        };
        error!(webhook, uid = request.uid, failure, "admission request not answered");
        self.count(webhook, outcome::FAILED);
        (StatusCode::INTERNAL_SERVER_ERROR, failure + "\n").into_response()
    }
}

async fn admit(
    State(webhooks): State<Arc<Webhooks>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some((&webhook, handler)) = webhooks.handlers.get_key_value(name.as_str()) else {
        return (StatusCode::NOT_FOUND, "There is no webhook of that name.\n").into_response();
    };
    let started = Instant::now();
    let response = match body.map_err(|rejection| review::Malformed::Body(rejection.status())) {
        Ok(body) => match review::read(&headers, &body) {
            Ok(request) => {
                // The copy of the object in the request is enough.
                drop(body);
                let wait = review::wait(query.as_deref(), LONGEST_WAIT);
                webhooks.decide(webhook, handler.as_ref(), request, wait).await
            }
            Err(malformed) => webhooks.refuse(webhook, malformed.status(), malformed.to_string()),
        },
        Err(malformed) => webhooks.refuse(webhook, malformed.status(), malformed.to_string()),
    };
    let duration = webhooks.duration.get_or_create(&WebhookLabel { webhook });
    duration.observe(started.elapsed().as_secs_f64());
    response
}
