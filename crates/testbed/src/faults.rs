//! Faults on demand, in front of every HTTP server of the testbed.
//!
//! ```text
//!  client ──► HttpServer ──► which fault applies? ──► Service (git, or Forward to a real server)
//!             own thread      Faults: set and cleared      ▲
//!             TLS optional    by the test at any time      └── request and response bodies pass through
//!                             RequestLog: what came in         slow, cut or corrupted
//! ```
//!
//! The servers themselves are real; what is made up here is only the bad weather between them and the client. A
//! server runs on a thread of its own, so a test may block its own runtime (or pause its clock) while it waits for
//! a child process that talks to the server.

pub(crate) mod auth;
pub(crate) mod body;
mod client;
mod log;
mod proxy;
mod server;
mod tls;
mod upstream;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

pub use client::{HttpClient, Received};
pub use log::{Authorization, RequestLog, RequestRecord};
pub(crate) use proxy::Forward;
pub(crate) use server::{Described, HttpServer, PushRejection, Service, text, unauthorized};
pub(crate) use tls::ServerIdentity;
pub(crate) use upstream::Upstream;

/// What goes wrong with a request.
///
/// Faults apply before the server looks at the request, so they hit requests with good and bad credentials alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 401 with a `WWW-Authenticate: Basic` challenge, whatever the credentials.
    Unauthorized,
    /// 403, whatever the credentials.
    Forbidden,
    /// 429 with `Retry-After`, rounded up to whole seconds.
    TooManyRequests {
        /// How long the client is asked to stay away.
        retry_after: Duration,
    },
    /// 500 with a short text.
    ServerError,
    /// The request is accepted and never answered. It ends when the fault is cleared or replaced, and then by a
    /// closed connection.
    Hang,
    /// Request and response bodies pass at this rate until the fault is cleared.
    Slow {
        /// Bytes in a second, each way; 0 counts as 1.
        bytes_per_sec: u64,
    },
    /// The connection is closed without an answer.
    Disconnect,
    /// The connection is closed as soon as the request body or the response body exceeds this size. Bodies that are
    /// not larger pass unharmed, so a git fetch can be cut in the pack and not in the list of refs.
    DropMidTransfer {
        /// How much of the body still arrives.
        after_bytes: u64,
    },
    /// The byte at this place of the response body arrives with all bits flipped; shorter bodies pass unharmed.
    Corrupt {
        /// Counted from 0.
        at_byte: u64,
    },
    /// 307 to this address with the rest of the path appended. For git the rest is what follows the repository
    /// (so give the address of a repository), elsewhere it is the whole path and query.
    Redirect(String),
    /// Git: the push is received and then refused by a pre-receive hook that prints this message. Elsewhere: every
    /// request that would change something is answered with 403 and this message.
    RejectPush(String),
    /// This answer instead of the server's own.
    Answer(Answer),
}

impl Fault {
    /// A short name, for logs and [`RequestRecord`]s.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::ServerError => "server-error",
            Self::Hang => "hang",
            Self::Slow { .. } => "slow",
            Self::Disconnect => "disconnect",
            Self::DropMidTransfer { .. } => "drop-mid-transfer",
            Self::Corrupt { .. } => "corrupt",
            Self::Redirect(_) => "redirect",
            Self::RejectPush(_) => "reject-push",
            Self::Answer(_) => "answer",
        }
    }

    /// An answer of 200 with this content type and body instead of the server's own.
    pub fn answer(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::Answer(Answer { status: 200, content_type: content_type.to_owned(), body: body.into() })
    }
}

/// A made-up answer, see [`Fault::Answer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status; one outside of 100 to 999 becomes 500.
    pub status: u16,
    /// Value of the `Content-Type` header.
    pub content_type: String,
    /// The body, as it is.
    pub body: Bytes,
}

/// Which requests a fault applies to.
///
/// The most specific scope wins: subject and kind, then subject, then kind, then all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    subject: Option<String>,
    kind: Option<&'static str>,
}

impl Scope {
    /// Every request.
    pub fn all() -> Self {
        Self::default()
    }

    /// Requests for one subject: a git repository or a repository of the registry.
    pub fn subject(name: impl Into<String>) -> Self {
        Self { subject: Some(name.into()), kind: None }
    }

    /// Requests of one kind, for all subjects. Each server names its kinds.
    pub fn kind(kind: &'static str) -> Self {
        Self { subject: None, kind: Some(kind) }
    }

    /// Narrows the scope to one kind of requests.
    #[must_use]
    pub fn of_kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    fn covers(&self, request: &Described) -> bool {
        self.subject.as_ref().is_none_or(|subject| *subject == request.subject)
            && self.kind.is_none_or(|kind| kind == request.kind)
    }

    fn weight(&self) -> u8 {
        u8::from(self.subject.is_some()) * 2 + u8::from(self.kind.is_some())
    }
}

/// The faults of one server, shared by the server and the test.
#[derive(Debug, Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Mutex<Rules>,
    /// Counts changes, so that a hung request notices that its fault has gone.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Rules {
    next_id: u64,
    hits: u64,
    list: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    id: u64,
    scope: Scope,
    fault: Fault,
    /// `None` means for ever. A rule with nothing left stays, inert, until it is cleared: requests that hang by it
    /// go on hanging.
    left: Option<u32>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { rules: Mutex::default(), changes: watch::Sender::new(0) }) }
    }
}

impl Faults {
    /// Lets this fault happen to every request in the scope from now on; replaces the fault of the same scope.
    pub fn set(&self, scope: Scope, fault: Fault) {
        self.insert(scope, fault, None);
    }

    /// Lets this fault happen to the next `times` requests in the scope; replaces the fault of the same scope.
    pub fn set_times(&self, scope: Scope, fault: Fault, times: u32) {
        self.insert(scope, fault, Some(times));
    }

    /// Ends the fault of exactly this scope.
    pub fn clear(&self, scope: &Scope) {
        self.rules().list.retain(|rule| rule.scope != *scope);
        self.changed();
    }

    /// Ends every fault that names this subject, whatever kind of request it was for.
    pub fn clear_subject(&self, subject: &str) {
        self.rules().list.retain(|rule| rule.scope.subject.as_deref() != Some(subject));
        self.changed();
    }

    /// Ends all faults.
    pub fn clear_all(&self) {
        self.rules().list.clear();
        self.changed();
    }

    /// How many requests a fault has been applied to.
    pub fn hits(&self) -> u64 {
        self.rules().hits
    }

    fn insert(&self, scope: Scope, fault: Fault, left: Option<u32>) {
        let mut rules = self.rules();
        rules.list.retain(|rule| rule.scope != scope);
        rules.next_id += 1;
        let id = rules.next_id;
        rules.list.push(Rule { id, scope, fault, left });
        drop(rules);
        self.changed();
    }

    /// The fault for a request, counted as applied.
    fn take(&self, request: &Described) -> Option<Active> {
        let mut rules = self.rules();
        let rule = rules
            .list
            .iter_mut()
            .filter(|rule| rule.left != Some(0) && rule.scope.covers(request))
            .max_by_key(|rule| rule.scope.weight())?;
        rule.left = rule.left.map(|left| left.saturating_sub(1));
        let active = Active { id: rule.id, fault: rule.fault.clone(), faults: self.clone() };
        rules.hits += 1;
        Some(active)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

/// A fault that was chosen for one request.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    id: u64,
    /// What to do.
    pub(crate) fault: Fault,
    faults: Faults,
}

impl Active {
    /// Whether the test has neither cleared nor replaced the fault.
    pub(crate) fn is_set(&self) -> bool {
        self.faults.rules().list.iter().any(|rule| rule.id == self.id)
    }

    /// Waits until the test clears or replaces the fault.
    pub(crate) async fn cleared(&self) {
        let mut changes = self.faults.shared.changes.subscribe();
        while self.is_set() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(subject: &str, kind: &'static str) -> Described {
        Described { subject: subject.to_owned(), kind, rest: String::new() }
    }

    fn taken(faults: &Faults, subject: &str, kind: &'static str) -> Option<Fault> {
        faults.take(&request(subject, kind)).map(|active| active.fault)
    }

    #[test]
    fn the_most_specific_scope_wins_whatever_the_order() {
        let faults = Faults::default();
        faults.set(Scope::subject("a").of_kind("push"), Fault::Hang);
        faults.set(Scope::subject("a"), Fault::Forbidden);
        faults.set(Scope::kind("push"), Fault::Disconnect);
        faults.set(Scope::all(), Fault::ServerError);
        assert_eq!(taken(&faults, "a", "push"), Some(Fault::Hang));
        assert_eq!(taken(&faults, "a", "fetch"), Some(Fault::Forbidden));
        assert_eq!(taken(&faults, "b", "push"), Some(Fault::Disconnect));
        assert_eq!(taken(&faults, "b", "fetch"), Some(Fault::ServerError));
        assert_eq!(faults.hits(), 4);
        faults.clear_subject("a");
        assert_eq!(taken(&faults, "a", "push"), Some(Fault::Disconnect));
        faults.clear_all();
        assert_eq!(taken(&faults, "a", "push"), None);
        assert_eq!(faults.hits(), 5);
    }

    #[test]
    fn a_counted_fault_runs_out_and_lets_the_next_scope_through() {
        let faults = Faults::default();
        faults.set(Scope::all(), Fault::ServerError);
        faults.set_times(Scope::subject("a"), Fault::Unauthorized, 2);
        assert_eq!(taken(&faults, "a", "fetch"), Some(Fault::Unauthorized));
        assert_eq!(taken(&faults, "a", "fetch"), Some(Fault::Unauthorized));
        assert_eq!(taken(&faults, "a", "fetch"), Some(Fault::ServerError));
    }

    #[tokio::test]
    async fn a_counted_hang_lasts_until_it_is_cleared() {
        let faults = Faults::default();
        faults.set_times(Scope::all(), Fault::Hang, 1);
        let active = faults.take(&request("a", "fetch")).expect("a fault is set");
        assert!(active.is_set(), "used up, but not cleared");
        let waiting = tokio::spawn(async move { active.cleared().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        faults.clear(&Scope::all());
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("released").expect("no panic");
    }
}
