//! What came in: counters by kind, and the last requests with what they carried.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::request::Parts;

use super::Described;
use super::auth;

/// Requests beyond this many are counted but no longer listed, so that a long bench does not fill the memory.
const KEPT: usize = 10_000;

/// What the `Authorization` header of a request was, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// No such header.
    Absent,
    /// Basic, with this user name.
    Basic(String),
    /// Bearer, with some token.
    Bearer,
    /// A header that is neither.
    Other,
}

impl Authorization {
    /// Whether the request carried anything at all.
    pub fn is_present(&self) -> bool {
        *self != Self::Absent
    }

    fn of(headers: &HeaderMap) -> Self {
        match auth::credentials(headers) {
            auth::Credentials::Absent => Self::Absent,
            auth::Credentials::Basic { user, .. } => Self::Basic(user),
            auth::Credentials::Bearer(_) => Self::Bearer,
            auth::Credentials::Other => Self::Other,
        }
    }
}

/// One request that a server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Repository, or empty where the server has none.
    pub subject: String,
    /// Kind of request, in the server's own words.
    pub kind: &'static str,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// What the client showed of itself.
    pub authorization: Authorization,
    /// Status of the answer; `None` while there is none, or when the connection was closed without one.
    pub status: Option<u16>,
    /// Name of the fault that was applied.
    pub fault: Option<&'static str>,
}

/// The requests of one server, shared by the server and the test.
#[derive(Debug, Clone, Default)]
pub struct RequestLog {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Number of the first request in `last`.
    first: u64,
    last: VecDeque<RequestRecord>,
    counts: BTreeMap<(String, &'static str), u64>,
}

impl RequestLog {
    /// The requests since the start or the last [`RequestLog::reset`], oldest first (at most the last 10,000).
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.entries().last.iter().cloned().collect()
    }

    /// Number of requests.
    pub fn total(&self) -> u64 {
        self.entries().counts.values().sum()
    }

    /// Number of requests of a kind, for all subjects.
    pub fn count(&self, kind: &str) -> u64 {
        self.entries().counts.iter().filter(|((_, k), _)| *k == kind).map(|(_, count)| count).sum()
    }

    /// Number of requests of a kind for one subject.
    pub fn count_of(&self, subject: &str, kind: &str) -> u64 {
        let entries = self.entries();
        let matching = entries.counts.iter().filter(|((s, k), _)| s == subject && *k == kind);
        matching.map(|(_, count)| count).sum()
    }

    /// Forgets everything so far.
    pub fn reset(&self) {
        let mut entries = self.entries();
        entries.first += entries.last.len() as u64;
        entries.last.clear();
        entries.counts.clear();
    }

    /// Notes a request as it comes in and returns its number.
    pub(super) fn begin(&self, request: &Parts, described: &Described, fault: Option<&'static str>) -> u64 {
        let record = RequestRecord {
            subject: described.subject.clone(),
            kind: described.kind,
            method: request.method.to_string(),
            path: request.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            authorization: Authorization::of(&request.headers),
            status: None,
            fault,
        };
        let mut entries = self.entries();
        *entries.counts.entry((described.subject.clone(), described.kind)).or_default() += 1;
        entries.last.push_back(record);
        if entries.last.len() > KEPT {
            entries.last.pop_front();
            entries.first += 1;
        }
        entries.first + entries.last.len() as u64 - 1
    }

    /// Notes how a request was answered.
    pub(super) fn answered(&self, number: u64, status: u16) {
        let mut entries = self.entries();
        let place = number.checked_sub(entries.first).and_then(|place| usize::try_from(place).ok());
        if let Some(record) = place.and_then(|place| entries.last.get_mut(place)) {
            record.status = Some(status);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn begin(log: &RequestLog, subject: &str, kind: &'static str) -> u64 {
        let (parts, ()) = Request::get("/x?y=1").body(()).expect("valid").into_parts();
        log.begin(&parts, &Described { subject: subject.to_owned(), kind, rest: String::new() }, None)
    }

    #[test]
    fn counts_by_kind_and_subject() {
        let log = RequestLog::default();
        begin(&log, "a", "fetch");
        begin(&log, "b", "fetch");
        begin(&log, "b", "push");
        assert_eq!((log.total(), log.count("fetch"), log.count_of("b", "fetch")), (3, 2, 1));
        log.reset();
        assert_eq!((log.total(), log.requests().len()), (0, 0));
    }

    #[test]
    fn an_answer_after_a_reset_does_not_land_on_another_request() {
        let log = RequestLog::default();
        let old = begin(&log, "a", "fetch");
        log.reset();
        let new = begin(&log, "a", "fetch");
        log.answered(old, 500);
        assert_eq!(log.requests()[0].status, None);
        log.answered(new, 200);
        assert_eq!(log.requests()[0].status, Some(200));
        assert_eq!(log.requests()[0].path, "/x?y=1");
    }

    #[test]
    fn old_requests_are_dropped_from_the_list_and_still_counted() {
        let log = RequestLog::default();
        for _ in 0..=KEPT {
            begin(&log, "a", "fetch");
        }
        assert_eq!((log.requests().len(), log.total()), (KEPT, KEPT as u64 + 1));
        let last = begin(&log, "a", "fetch");
        log.answered(last, 204);
        assert_eq!(log.requests().last().and_then(|record| record.status), Some(204));
    }
}
