//! Faults as values: what goes wrong, for which requests, and when.
//!
//! Every fault here is something that a real API server, network or neighbour may show. A request that is refused
//! was not applied, one whose response is lost was; a watch never loses an event from its middle, it only ends,
//! stalls or expires. [`Effect::may_happen_to`] keeps a fault away from requests that could not meet it.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    call::{Call, Verb},
    outsider::Outsider,
};

/// Something that another party does just before a request reaches the API.
pub type Meddling = Arc<dyn Fn(Outsider, Call) -> BoxFuture<'static, ()> + Send + Sync>;

/// What goes wrong.
#[derive(Clone)]
pub enum Effect {
    /// The server answers with an error; the request is not applied.
    Refuse(Refusal),
    /// The connection fails before the server has read the request.
    Disconnect,
    /// The request is applied, then the connection fails.
    LoseResponse,
    /// The request takes this much longer.
    Delay(Duration),
    /// The instance dies; the request is applied first, the instance never hears of it.
    CrashAfter,
    /// The instance dies; the request never left it.
    CrashBefore,
    /// Another party acts between the caller's read and this write.
    Meddle(Meddling),
    /// A watch stream misbehaves from its next event on.
    Stream(StreamFault),
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(refusal) => write!(f, "Refuse({} {})", refusal.code, refusal.reason),
            Self::Disconnect => f.write_str("Disconnect"),
            Self::LoseResponse => f.write_str("LoseResponse"),
            Self::Delay(by) => write!(f, "Delay({by:?})"),
            Self::CrashAfter => f.write_str("CrashAfter"),
            Self::CrashBefore => f.write_str("CrashBefore"),
            Self::Meddle(_) => f.write_str("Meddle"),
            Self::Stream(fault) => write!(f, "Stream({fault:?})"),
        }
    }
}

impl Effect {
    /// Whether a real API could show this for the request.
    pub fn may_happen_to(&self, call: &Call) -> bool {
        match self {
            // A create meets AlreadyExists, never Conflict; a read meets neither.
            Self::Refuse(refusal) if refusal.reason == "Conflict" => {
                matches!(call.verb, Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete)
            }
            // Only something that names a past resourceVersion can be too old.
            Self::Refuse(refusal) if refusal.reason == "Expired" => match call.verb {
                Verb::Watch => {
                    call.query.get("resourceVersion").is_some_and(|rv| !rv.is_empty() && rv != "0")
                }
                Verb::List => call.query.get("continue").is_some_and(|token| !token.is_empty()),
                _ => false,
            },
            // Admission webhooks see writes only.
            Self::Refuse(refusal) if refusal.webhook => call.verb.is_write(),
            Self::Meddle(_) => call.is_write() && call.name.is_some(),
            Self::Stream(_) => call.verb == Verb::Watch,
            _ => true,
        }
    }
}

/// How a watch stream misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// Nothing more arrives and nothing closes it, until faults stop: then the connection breaks.
    Hang,
    /// The stream ends cleanly, as at the server's time-out.
    Cut,
    /// The event is cut in its middle and the stream ends.
    Truncate,
    /// The event arrives as one very long line, padded to this many bytes with blanks (legal JSON).
    Oversize(usize),
    /// The event arrives in many small pieces.
    Tear,
    /// An ERROR event with 410, then the end.
    Expire,
}

/// An error answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// `reason` of the Status object; empty for an answer that is no Status at all.
    pub reason: &'static str,
    /// `message`; `{object}` stands for the object of the request.
    pub message: &'static str,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Whether an admission webhook is the cause, so that only writes meet it.
    pub webhook: bool,
}

impl Refusal {
    const fn new(code: u16, reason: &'static str, message: &'static str) -> Self {
        Self { code, reason, message, retry_after: None, webhook: false }
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body that the server sends: a Status object, or plain text for a path that is not served.
    pub(crate) fn body(&self, call: &Call) -> Vec<u8> {
        let message =
            self.message.replace("{object}", &call.object()).replace("{verb}", &call.verb.to_string());
        if self.reason.is_empty() {
            return format!("{message}\n").into_bytes();
        }
        let mut details = json!({ "kind": call.resource, "group": call.group, "name": call.name });
        if let (Some(seconds), Value::Object(details)) = (self.retry_after, &mut details) {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": self.reason, "details": details, "code": self.code,
        })
        .to_string()
        .into_bytes()
    }
}

/// Which requests a fault is about. Empty means all.
#[derive(Clone, Debug, Default)]
pub struct Match {
    instances: BTreeSet<String>,
    verbs: BTreeSet<Verb>,
    resources: BTreeSet<String>,
    names: BTreeSet<String>,
    clusters: BTreeSet<String>,
    spared: BTreeSet<String>,
}

impl Match {
    /// Every request of every instance.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Every request that may change something.
    #[must_use]
    pub fn writes() -> Self {
        use Verb::{Apply, Create, Delete, DeleteCollection, Patch, Update};
        Self::any().verbs([Create, Update, Patch, Apply, Delete, DeleteCollection])
    }

    /// Gets and lists.
    #[must_use]
    pub fn reads() -> Self {
        Self::any().verbs([Verb::Get, Verb::List])
    }

    /// Only these verbs.
    #[must_use]
    pub fn verbs(mut self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.verbs = verbs.into_iter().collect();
        self
    }

    /// Only requests of this instance.
    #[must_use]
    pub fn instance(mut self, name: &str) -> Self {
        self.instances.insert(name.to_owned());
        self
    }

    /// Only this resource (plural, as in the path).
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.resources.insert(plural.to_owned());
        self
    }

    /// Not this resource (plural, as in the path).
    #[must_use]
    pub fn but(mut self, plural: &str) -> Self {
        self.spared.insert(plural.to_owned());
        self
    }

    /// Only this object name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.names.insert(name.to_owned());
        self
    }

    /// Only requests to this cluster; an empty name stands for the hub.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.clusters.insert(name.to_owned());
        self
    }

    /// Whether the request is one of these.
    pub fn matches(&self, call: &Call) -> bool {
        let name = call.name.as_deref().unwrap_or_default();
        (self.instances.is_empty() || self.instances.contains(&call.instance))
            && (self.verbs.is_empty() || self.verbs.contains(&call.verb))
            && (self.resources.is_empty() || self.resources.contains(&call.resource))
            && (self.names.is_empty() || self.names.contains(name))
            && (self.clusters.is_empty() || self.clusters.contains(&call.cluster))
            && !self.spared.contains(&call.resource)
    }
}

/// When a fault strikes among the requests that it matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Each time.
    Always,
    /// With this probability, by the seed.
    Chance(f64),
    /// The k-th matching request only, counted from 1.
    Nth(u64),
    /// The first n matching requests.
    First(u64),
}

/// One fault: what, where and when.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Shown in traces.
    pub name: &'static str,
    /// What goes wrong.
    pub effect: Effect,
    /// For which requests.
    pub on: Match,
    /// When among those.
    pub when: When,
    /// Only in this window of virtual time.
    pub between: Option<(Duration, Duration)>,
    /// At most so many times.
    pub at_most: Option<u64>,
}

impl Fault {
    /// A fault of your own; strikes each time until narrowed.
    #[must_use]
    pub fn new(name: &'static str, effect: Effect) -> Self {
        Self { name, effect, on: Match::any(), when: When::Always, between: None, at_most: None }
    }

    fn refuse(name: &'static str, refusal: Refusal) -> Self {
        Self::new(name, Effect::Refuse(refusal))
    }

    /// 500 without a further reason.
    #[must_use]
    pub fn internal_error() -> Self {
        let message = "Internal error occurred: etcdserver: request timed out";
        Self::refuse("internal-error", Refusal::new(500, "InternalError", message))
    }

    /// 409 for an update, patch or delete that raced with another.
    #[must_use]
    pub fn conflict() -> Self {
        let message = "Operation cannot be fulfilled on {object}: the object has been modified; please apply your \
                       changes to the latest version and try again";
        Self::refuse("conflict", Refusal::new(409, "Conflict", message))
    }

    /// 429 with `Retry-After`, as priority and fairness answers under load.
    #[must_use]
    pub fn too_many_requests(retry_after: u32) -> Self {
        let message = "too many requests, please try again later";
        let refusal = Refusal::new(429, "TooManyRequests", message);
        Self::refuse("too-many-requests", Refusal { retry_after: Some(retry_after), ..refusal })
    }

    /// 503.
    #[must_use]
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::refuse("unavailable", Refusal::new(503, "ServiceUnavailable", message))
    }

    /// 403: the role was taken away.
    #[must_use]
    pub fn forbidden() -> Self {
        let message = "{object} is forbidden: User \"system:serviceaccount:windlass:windlass\" cannot {verb}";
        Self::refuse("forbidden", Refusal::new(403, "Forbidden", message))
    }

    /// 404 in plain text: the version or the whole kind is no longer served.
    #[must_use]
    pub fn kind_removed() -> Self {
        Self::refuse("kind-removed", Refusal::new(404, "", "404 page not found"))
    }

    /// 500: an admission webhook did not answer in time.
    #[must_use]
    pub fn webhook_timeout() -> Self {
        let message = "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: \
                       Post \"https://slow.example.svc:443/validate?timeout=10s\": context deadline exceeded";
        let refusal = Refusal::new(500, "InternalError", message);
        Self::refuse("webhook-timeout", Refusal { webhook: true, ..refusal })
    }

    /// 504: the server gave up on the request.
    #[must_use]
    pub fn server_timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::refuse("server-timeout", Refusal::new(504, "Timeout", message))
    }

    /// 410 at the start of a watch or on a `continue` token.
    #[must_use]
    pub fn expired() -> Self {
        let message = "The provided resourceVersion or continue parameter is too old";
        Self::refuse("expired", Refusal::new(410, "Expired", message))
    }

    /// The connection fails, the request was not applied.
    #[must_use]
    pub fn disconnect() -> Self {
        Self::new("disconnect", Effect::Disconnect)
    }

    /// The request was applied, the connection fails.
    #[must_use]
    pub fn lost_response() -> Self {
        Self::new("lost-response", Effect::LoseResponse)
    }

    /// The request takes this much longer.
    #[must_use]
    pub fn slow(by: Duration) -> Self {
        Self::new("slow", Effect::Delay(by))
    }

    /// The instance dies right after its k-th write (from 1) was applied.
    #[must_use]
    pub fn crash_after_write(k: u64) -> Self {
        Self::new("crash-after-write", Effect::CrashAfter).on(Match::writes()).nth(k)
    }

    /// The instance dies just before its k-th write (from 1) would have left it.
    #[must_use]
    pub fn crash_before_write(k: u64) -> Self {
        Self::new("crash-before-write", Effect::CrashBefore).on(Match::writes()).nth(k)
    }

    /// The instance dies after a request was applied.
    #[must_use]
    pub fn crash() -> Self {
        Self::new("crash", Effect::CrashAfter)
    }

    /// Another party acts just before a write arrives.
    #[must_use]
    pub fn meddle<F, Fut>(name: &'static str, act: F) -> Self
    where
        F: Fn(Outsider, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let act: Meddling = Arc::new(move |outsider, call| Box::pin(act(outsider, call)));
        Self::new(name, Effect::Meddle(act)).on(Match::writes())
    }

    /// The object is deleted and created again with a new UID between the caller's read and its write.
    #[must_use]
    pub fn recreated() -> Self {
        Self::meddle("recreated", |outsider, call| async move { outsider.recreate(&call).await })
    }

    /// Another manager changes an annotation first, so that a write with an old resourceVersion conflicts.
    #[must_use]
    pub fn conflict_storm() -> Self {
        Self::meddle("conflict-storm", |outsider, call| async move { outsider.touch(&call).await })
    }

    /// The user sets an object to another spec and back, A → B → A, in the middle of a reconcile.
    #[must_use]
    pub fn flipped(path: &str, there: &Value, back: &Value) -> Self {
        let (path, there, back) = (path.to_owned(), there.clone(), back.clone());
        Self::meddle("flipped", move |outsider, _| {
            let (path, there, back) = (path.clone(), there.clone(), back.clone());
            async move { outsider.try_flip(&path, &there, &back).await }
        })
    }

    /// A watch stream misbehaves.
    #[must_use]
    pub fn stream(fault: StreamFault) -> Self {
        let name = match fault {
            StreamFault::Hang => "hung-watch",
            StreamFault::Cut => "cut-watch",
            StreamFault::Truncate => "truncated-frame",
            StreamFault::Oversize(_) => "oversized-frame",
            StreamFault::Tear => "torn-frame",
            StreamFault::Expire => "expired-in-stream",
        };
        Self::new(name, Effect::Stream(fault)).on(Match::any().verbs([Verb::Watch]))
    }

    /// Only for these requests.
    #[must_use]
    pub fn on(mut self, on: Match) -> Self {
        self.on = on;
        self
    }

    /// With this probability.
    #[must_use]
    pub fn chance(mut self, probability: f64) -> Self {
        self.when = When::Chance(probability);
        self
    }

    /// Only the k-th matching request, from 1.
    #[must_use]
    pub fn nth(mut self, k: u64) -> Self {
        self.when = When::Nth(k);
        self
    }

    /// Only the first n matching requests.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.when = When::First(n);
        self
    }

    /// Only in this window of virtual time since the start.
    #[must_use]
    pub fn between(mut self, from: Duration, to: Duration) -> Self {
        self.between = Some((from, to));
        self
    }

    /// At most so many times.
    #[must_use]
    pub fn at_most(mut self, times: u64) -> Self {
        self.at_most = Some(times);
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "calls read better")]

    use super::*;
    use http::{HeaderMap, Method};

    fn call(method: Method, uri: &str) -> Call {
        Call::read(("a", 1), "", &method, &uri.parse().unwrap(), &HeaderMap::new(), b"")
    }

    #[test]
    fn only_what_a_real_api_may_show() {
        let create = call(Method::POST, "/api/v1/namespaces/x/configmaps");
        let update = call(Method::PUT, "/api/v1/namespaces/x/configmaps/m");
        let list = call(Method::GET, "/api/v1/configmaps");
        let page = call(Method::GET, "/api/v1/configmaps?continue=abc");
        let watch = call(Method::GET, "/api/v1/configmaps?watch=true&resourceVersion=7");
        let conflict = Fault::conflict().effect;
        assert!(conflict.may_happen_to(&update) && !conflict.may_happen_to(&create));
        let expired = Fault::expired().effect;
        assert!(expired.may_happen_to(&page) && expired.may_happen_to(&watch));
        assert!(!expired.may_happen_to(&list) && !expired.may_happen_to(&update));
        let webhook = Fault::webhook_timeout().effect;
        assert!(webhook.may_happen_to(&create) && !webhook.may_happen_to(&list));
        let hang = Fault::stream(StreamFault::Hang).effect;
        assert!(hang.may_happen_to(&watch) && !hang.may_happen_to(&list));
    }

    #[test]
    fn refusal_is_a_status_with_retry_hint() {
        let fault = Fault::too_many_requests(3);
        let Effect::Refuse(refusal) = &fault.effect else { panic!("{:?}", fault.effect) };
        let body: Value =
            serde_json::from_slice(&refusal.body(&call(Method::GET, "/api/v1/configmaps"))).unwrap();
        assert_eq!((&body["code"], &body["reason"]), (&json!(429), &json!("TooManyRequests")));
        assert_eq!(body["details"]["retryAfterSeconds"], 3);
    }
}
