//! Counting the requests that are made to API servers.
//!
//! `windlass_api_requests_total{verb,code}` and `windlass_api_request_duration_seconds{verb}`. Both labels come from
//! fixed sets: nothing of a URL, a name or an error text can become a label.

use std::{
    fmt::Write as _,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri, header::CONTENT_TYPE};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;
use tower::{Layer, Service};

/// What a request does, in the API server's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object, other than by server-side apply.
    Patch,
    /// Server-side apply.
    Apply,
    /// Deletes an object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// Reads discovery, version, health or a schema.
    Discovery,
    /// Anything else.
    Other,
}

impl Verb {
    /// Works the verb out from a request's head.
    pub fn of<B>(request: &Request<B>) -> Self {
        let depth = Depth::of(request.uri().path());
        match (request.method(), depth) {
            (&Method::GET, Depth::NotResource) => Self::Discovery,
            (&Method::GET, _) if is_watch(request.uri()) => Self::Watch,
            (&Method::GET, Depth::Collection) => Self::List,
            (&Method::GET, Depth::Object) => Self::Get,
            (&Method::POST, _) => Self::Create,
            (&Method::PUT, _) => Self::Update,
            (&Method::PATCH, _) if is_apply(request) => Self::Apply,
            (&Method::PATCH, _) => Self::Patch,
            (&Method::DELETE, Depth::Collection) => Self::DeleteCollection,
            (&Method::DELETE, _) => Self::Delete,
            _ => Self::Other,
        }
    }

    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Patch => "PATCH",
            Self::Apply => "APPLY",
            Self::Delete => "DELETE",
            Self::DeleteCollection => "DELETECOLLECTION",
            Self::Discovery => "DISCOVERY",
            Self::Other => "OTHER",
        }
    }
}

impl EncodeLabelValue for Verb {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.as_str())
    }
}

/// How a request ended: the codes that call for different reactions, the class of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(&'static str);

impl Code {
    /// No response at all.
    pub const ERROR: Self = Self("error");

    /// The label of a response.
    pub fn of(status: StatusCode) -> Self {
        Self(match status.as_u16() {
            401 => "401",
            403 => "403",
            404 => "404",
            409 => "409",
            410 => "410",
            422 => "422",
            429 => "429",
            503 => "503",
            504 => "504",
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        })
    }

    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: Verb,
    code: Code,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: Verb,
}

/// Counters of API requests, shared by all clients of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
            }),
        }
    }
}

impl RequestMetrics {
    /// Makes the counters and adds them to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_api_requests",
            "Requests to Kubernetes API servers by verb and result",
            metrics.requests.clone(),
        );
        registry.register(
            "windlass_api_request_duration_seconds",
            "Time until the API server's response headers, without waiting for the client's own rate limit",
            metrics.duration.clone(),
        );
        metrics
    }

    /// Requests counted so far.
    pub fn count(&self, verb: Verb, code: Code) -> u64 {
        self.requests.get(&RequestLabels { verb, code }).map_or(0, |counter| counter.get())
    }

    fn observe(&self, verb: Verb, code: Code, seconds: f64) {
        self.requests.get_or_create(&RequestLabels { verb, code }).inc();
        self.duration.get_or_create(&DurationLabels { verb }).observe(seconds);
    }
}

/// Counts what passes through a client.
#[derive(Debug, Clone)]
pub struct RequestLayer {
    metrics: RequestMetrics,
}

impl RequestLayer {
    /// Counts into these metrics.
    pub fn new(metrics: RequestMetrics) -> Self {
        Self { metrics }
    }
}

impl<S> Layer<S> for RequestLayer {
    type Service = Requests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Requests { inner, metrics: self.metrics.clone() }
    }
}

/// See [`RequestLayer`].
#[derive(Debug, Clone)]
pub struct Requests<S> {
    inner: S,
    metrics: RequestMetrics,
}

impl<S, A, B> Service<Request<A>> for Requests<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let verb = Verb::of(&request);
        let metrics = self.metrics.clone();
        let start = Instant::now();
        let response = self.inner.call(request);
        Box::pin(async move {
            let result = response.await;
            let code = result.as_ref().map_or(Code::ERROR, |response| Code::of(response.status()));
            metrics.observe(verb, code, start.elapsed().as_secs_f64());
            result
        })
    }
}

/// How deep a path reaches into the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    NotResource,
    Collection,
    Object,
}

impl Depth {
    fn of(path: &str) -> Self {
        // A server may sit below a path of its own: the API begins at the first segment that can start it.
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let rest = match segments.iter().position(|segment| matches!(*segment, "api" | "apis")) {
            Some(at) if segments[at] == "api" => segments.get(at + 2..),
            Some(at) => segments.get(at + 3..),
            None => None,
        };
        match rest.unwrap_or_default() {
            [] => Self::NotResource,
            ["namespaces", _, rest @ ..] if !rest.is_empty() && !is_namespace_subresource(rest) => {
                if rest.len() == 1 { Self::Collection } else { Self::Object }
            }
            [_] => Self::Collection,
            _ => Self::Object,
        }
    }
}

fn is_namespace_subresource(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

fn is_apply<B>(request: &Request<B>) -> bool {
    request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
}

fn has_flag(uri: &Uri, name: &str) -> bool {
    uri.query().unwrap_or_default().split('&').any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
        key == name && matches!(value, "" | "true" | "1")
    })
}

fn is_watch(uri: &Uri) -> bool {
    has_flag(uri, "watch")
}

/// Whether the response goes on for as long as the caller listens.
pub(crate) fn is_stream(uri: &Uri) -> bool {
    is_watch(uri) || has_flag(uri, "follow")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    fn verb(method: Method, uri: &str) -> Verb {
        Verb::of(&Request::builder().method(method).uri(uri).body(()).unwrap())
    }

    #[test]
    fn verbs_are_told_from_the_head_of_a_request() {
        let get = |uri| verb(Method::GET, uri);
        assert_eq!(get("/version"), Verb::Discovery);
        assert_eq!(get("/apis"), Verb::Discovery);
        assert_eq!(get("/apis/apps/v1"), Verb::Discovery);
        assert_eq!(get("/api/v1/nodes"), Verb::List);
        assert_eq!(get("/api/v1/nodes?watch=true&resourceVersion=1"), Verb::Watch);
        assert_eq!(get("/api/v1/namespaces"), Verb::List);
        assert_eq!(get("/api/v1/namespaces/a"), Verb::Get);
        assert_eq!(get("/api/v1/namespaces/a/status"), Verb::Get);
        assert_eq!(get("/api/v1/namespaces/a/secrets"), Verb::List);
        assert_eq!(get("/api/v1/namespaces/a/secrets/watch=true"), Verb::Get);
        assert_eq!(get("/apis/apps/v1/namespaces/a/deployments/b/scale"), Verb::Get);
        assert_eq!(get("/k8s/clusters/c-1/api/v1/pods"), Verb::List);
        assert_eq!(verb(Method::DELETE, "/api/v1/namespaces/a/pods"), Verb::DeleteCollection);
        assert_eq!(verb(Method::DELETE, "/api/v1/namespaces/a/pods/b"), Verb::Delete);
        assert_eq!(verb(Method::OPTIONS, "/api/v1/pods"), Verb::Other);
        let apply = Request::patch("/api/v1/namespaces/a/configmaps/b?fieldManager=x")
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(())
            .unwrap();
        assert_eq!(Verb::of(&apply), Verb::Apply);
    }

    #[tokio::test]
    async fn requests_are_counted_by_verb_and_code_only() {
        let mut registry = Registry::default();
        let metrics = RequestMetrics::register(&mut registry);
        let service = ServiceBuilder::new().layer(RequestLayer::new(metrics.clone())).service(service_fn(
            |request: Request<()>| async move {
                let missing = request.uri().path().ends_with("absent");
                Ok::<_, Infallible>(
                    Response::builder().status(if missing { 404 } else { 200 }).body(()).unwrap(),
                )
            },
        ));
        for name in ["one", "two", "absent"] {
            let uri = format!("/api/v1/namespaces/canary-9d2f/secrets/{name}");
            service.clone().oneshot(Request::get(uri).body(()).unwrap()).await.unwrap();
        }
        assert_eq!(metrics.count(Verb::Get, Code::of(StatusCode::OK)), 2);
        assert_eq!(metrics.count(Verb::Get, Code::of(StatusCode::NOT_FOUND)), 1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains(r#"windlass_api_requests_total{verb="GET",code="404"} 1"#), "{text}");
        assert!(text.contains(r#"windlass_api_request_duration_seconds_count{verb="GET"} 3"#), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}
