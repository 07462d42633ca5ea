//! Hooks of Git servers: `POST /hooks/{github,gitlab,gitea,bitbucket,generic}` says that something was pushed.
//!
//! ```text
//!   request ─► rate ─► secret there? ─► proof in headers? ─► body (capped) ─► proof holds? ─► event ─► queue ─► 202
//!                 429          403                 401           413               401          400       │
//!                                                                                     on_push(Push) ◄─────┘ run
//! ```
//!
//! Guarantees:
//! * nothing of a body is parsed before its sender is known, and no sender is known without a secret: a provider whose
//!   key is missing in the Secret is refused, never let in;
//! * the answer never waits for what is done about a push. Pushes to one branch take each other's place while they
//!   wait, and at most [`HookLimits::waiting`] different ones do;
//! * neither tokens nor bodies are logged or told.
//!
//! A hook that is refused or lost costs time, not correctness: repositories are polled as well. A hook that is sent
//! again does no harm: it leads to a fetch, and what is fetched is what counts.

mod bucket;
mod payload;
mod provider;
mod queue;
mod secrets;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::LengthLimitError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

pub use provider::Provider;
pub use secrets::Secrets;

use crate::listener::{Limits, ListenError, Server};
use crate::metrics::Metrics;
use bucket::Bucket;
use payload::Event;
use queue::Queue;

/// Something was pushed, as far as the hook says. Nothing of it is to be believed before the repository was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// Addresses of the repository: all forms that the hook names, at least one.
    pub urls: Vec<String>,
    /// The branch or tag, mostly in full: `refs/heads/main`. Missing when there are several or none is named.
    pub reference: Option<String>,
    /// Where it is now; missing when it went.
    pub commit: Option<String>,
    /// Who pushed.
    pub pusher: Option<String>,
}

impl Push {
    fn same_branch(&self, other: &Self) -> bool {
        self.reference == other.reference && self.urls == other.urls
    }
}

/// Who is told of pushes. It may block: it is called on a thread of its own, one push at a time.
pub type OnPush = Arc<dyn Fn(Push) + Send + Sync>;

/// What all Git servers together may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookLimits {
    /// Requests a second on average.
    pub rate: u32,
    /// Requests at once above the average.
    pub burst: u32,
    /// Size of a body.
    pub max_body_bytes: usize,
    /// Different branches that may wait to be worked on.
    pub waiting: usize,
}

impl Default for HookLimits {
    fn default() -> Self {
        Self { rate: 100, burst: 500, max_body_bytes: 1024 * 1024, waiting: 1024 }
    }
}

/// When to come back while the queue is full: by then a fetch or two is done.
const FULL_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabels {
    provider: &'static str,
    result: &'static str,
}

/// How a request ended, as a metric counts it.
mod outcome {
    pub(super) const ACCEPTED: &str = "accepted";
    pub(super) const PING: &str = "ping";
    pub(super) const IGNORED: &str = "ignored";
    pub(super) const NO_SECRET: &str = "no_secret";
    pub(super) const UNAUTHENTICATED: &str = "unauthenticated";
    pub(super) const MALFORMED: &str = "malformed";
    pub(super) const TOO_LARGE: &str = "too_large";
    pub(super) const LIMITED: &str = "limited";
    pub(super) const FULL: &str = "full";
}

/// The hooks of a process. Cheap to clone.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

struct Inner {
    secrets: Secrets,
    on_push: OnPush,
    limits: HookLimits,
    bucket: Bucket,
    queue: Queue,
    requests: Family<HookLabels, Counter>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("limits", &self.0.limits)
            .field("waiting", &self.0.queue.len())
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// Hooks that tell `on_push`. Registers its metrics: once per registry.
    pub fn new(secrets: Secrets, limits: HookLimits, metrics: &Metrics, on_push: OnPush) -> Self {
        let requests = Family::<HookLabels, Counter>::default();
        metrics.register(|registry| {
            registry.register(
                "windlass_hooks",
                "Hooks of Git servers by provider and how they were answered",
                requests.clone(),
            );
        });
        let bucket = Bucket::new(limits.rate, limits.burst);
        let queue = Queue::new(limits.waiting.max(1));
        Self(Arc::new(Inner { secrets, on_push, limits, bucket, queue, requests }))
    }

    /// The routes by themselves.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/hooks/{provider}", post(hook))
            .with_state(self.clone())
            .fallback(|| std::future::ready(not_found()))
    }

    /// Binds a listener with nothing but these routes, so that it can be reached from outside and metrics cannot.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(&self, address: SocketAddr) -> Result<Server, ListenError> {
        let limits = Limits::hooks(self.0.limits.max_body_bytes);
        Ok(Server::bind("hooks", address, limits).await?.merge(self.routes()))
    }

    /// Tells of pushes, one after the other, until told to end. Has to run for anything to happen.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let push = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                push = self.0.queue.take() => push,
            };
            let on_push = Arc::clone(&self.0.on_push);
            let told = tokio::task::spawn_blocking(move || on_push(push));
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                told = told => if told.is_err() {
                    error!("what is done about a push ran into a fault");
                },
            }
        }
    }

    /// Pushes that wait to be worked on.
    pub fn waiting(&self) -> usize {
        self.0.queue.len()
    }

    /// Decides, counts and answers.
    async fn take(&self, provider: Provider, request: Request) -> Response {
        let (result, response) = match self.decide(provider, request).await {
            Ok(taken) => (taken.result, told(taken.status, &taken.body)),
            Err(refusal) => (refusal.result, refusal.into_response()),
        };
        self.0.requests.get_or_create(&HookLabels { provider: provider.name(), result }).inc();
        debug!(provider = provider.name(), result, "hook answered");
        response
    }

    async fn decide(&self, provider: Provider, request: Request) -> Result<Taken, Refusal> {
        let (parts, body) = request.into_parts();
        let (secrets, proof) = self.admit(provider, &parts.headers)?;
        let body = self.body(body).await?;
        if !proof.holds(&secrets, &body) {
            let sentence = "The signature or token is not one that a known secret makes: compare the secret of the \
                            hook with the one in the Secret.";
            return Err(Refusal::new(outcome::UNAUTHENTICATED, StatusCode::UNAUTHORIZED, sentence));
        }
        match payload::read(provider, provider.event(&parts.headers), &body) {
            Ok(Event::Pushes(pushes)) => self.accept(pushes),
            Ok(Event::Ping) => {
                info!(provider = provider.name(), "a Git server tries its hook");
                Ok(Taken { result: outcome::PING, status: StatusCode::OK, body: json!({ "pong": true }) })
            }
            Ok(Event::Ignored(why)) => {
                let body = json!({ "accepted": false, "reason": why });
                Ok(Taken { result: outcome::IGNORED, status: StatusCode::ACCEPTED, body })
            }
            Err(malformed) => {
                Err(Refusal::new(outcome::MALFORMED, StatusCode::BAD_REQUEST, malformed.to_string()))
            }
        }
    }

    /// What can be said before a single byte of the body was read: the secrets to check with, and the proof to check.
    fn admit(
        &self,
        provider: Provider,
        headers: &HeaderMap,
    ) -> Result<(Arc<[secrets::Shared]>, provider::Proof), Refusal> {
        if let Err(wait) = self.0.bucket.take() {
            let sentence = "Too many hooks at once.";
            return Err(Refusal::new(outcome::LIMITED, StatusCode::TOO_MANY_REQUESTS, sentence).after(wait));
        }
        let Some(secrets) = self.0.secrets.of(provider) else {
            let sentence = format!(
                "No secret is known for {provider}: put it under the key `{provider}` into the Secret that the \
                 setting hooksSecret names, and the same into the settings of the hook."
            );
            return Err(Refusal::new(outcome::NO_SECRET, StatusCode::FORBIDDEN, sentence));
        };
        let Some(proof) = provider.proof(headers) else {
            let sentence = format!(
                "The request does not prove who sent it: a secret has to be set at the Git server, which then sends {}.",
                provider.proofs()
            );
            return Err(Refusal::new(outcome::UNAUTHENTICATED, StatusCode::UNAUTHORIZED, sentence));
        };
        Ok((secrets, proof))
    }

    async fn body(&self, body: Body) -> Result<axum::body::Bytes, Refusal> {
        let most = self.0.limits.max_body_bytes;
        to_bytes(body, most).await.map_err(|error| {
            if is_too_large(&error) {
                let sentence = format!("The body is larger than the {most} bytes that a hook may have.");
                return Refusal::new(outcome::TOO_LARGE, StatusCode::PAYLOAD_TOO_LARGE, sentence);
            }
            Refusal::new(outcome::MALFORMED, StatusCode::BAD_REQUEST, "The body did not arrive whole.")
        })
    }

    fn accept(&self, pushes: Vec<Push>) -> Result<Taken, Refusal> {
        if self.0.queue.put(pushes).is_err() {
            let sentence = "Too many pushes wait to be worked on.";
            let refusal = Refusal::new(outcome::FULL, StatusCode::SERVICE_UNAVAILABLE, sentence);
            return Err(refusal.after(FULL_WAIT));
        }
        let body = json!({ "accepted": true });
        Ok(Taken { result: outcome::ACCEPTED, status: StatusCode::ACCEPTED, body })
    }
}

/// A request whose sender is known.
struct Taken {
    result: &'static str,
    status: StatusCode,
    body: serde_json::Value,
}

/// A request that is refused.
struct Refusal {
    result: &'static str,
    status: StatusCode,
    sentence: String,
    wait: Option<Duration>,
}

impl Refusal {
    fn new(result: &'static str, status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { result, status, sentence: sentence.into(), wait: None }
    }

    /// To be tried again after this time.
    fn after(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    fn into_response(self) -> Response {
        let mut response = refused(self.status, &self.sentence);
        // Whole seconds, and never none.
        let seconds = self.wait.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

async fn hook(State(hooks): State<Hooks>, Path(name): Path<String>, request: Request) -> Response {
    match Provider::named(&name) {
        Some(provider) => hooks.take(provider, request).await,
        None => not_found(),
    }
}

fn not_found() -> Response {
    let names = Provider::ALL.map(Provider::name).join(", ");
    let sentence = format!("Not found. Hooks are sent with POST /hooks/<provider>; there are: {names}.");
    refused(StatusCode::NOT_FOUND, &sentence)
}

fn told(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, axum::Json(body)).into_response()
}

/// A refusal. What may still come of the request is not worth reading.
fn refused(status: StatusCode, sentence: &str) -> Response {
    let mut response = told(status, &json!({ "accepted": false, "reason": sentence }));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether a body was refused for its size, here or by the listener.
fn is_too_large(error: &axum::Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        if error.is::<LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}
