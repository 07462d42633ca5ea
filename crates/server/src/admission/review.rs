//! `AdmissionReview`s in and out.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionResponse, AdmissionReview, META_API_VERSION_V1, META_KIND};
use kube::core::response::StatusSummary;
use serde_json::error::Category;
use thiserror::Error;

use super::{DenyReason, Request, Verdict};

/// What is left of the time the API server gives for the way back.
const WAY_BACK: Duration = Duration::from_millis(250);

/// A body that is not an `AdmissionReview` we can answer. The sentences say where, never what: it may be secret.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Malformed {
    #[error("The body could not be received completely, or is too large.")]
    Body(StatusCode),
    #[error("The body has to be JSON, with Content-Type application/json.")]
    ContentType,
    #[error("The body is not JSON (line {line}, column {column}).")]
    Syntax { line: usize, column: usize },
    #[error("The body is not an AdmissionReview (it stops making sense at line {line}, column {column}).")]
    Shape { line: usize, column: usize },
    #[error("The body has to be an AdmissionReview of admission.k8s.io/v1.")]
    Version,
    #[error("The AdmissionReview has no request.")]
    NoRequest,
    #[error("The request in the AdmissionReview has no uid.")]
    NoUid,
}

impl Malformed {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Body(status) => *status,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a request.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Request, Malformed> {
    let json = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"));
    if !json {
        return Err(Malformed::ContentType);
    }
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Data => Malformed::Shape { line, column },
            _ => Malformed::Syntax { line, column },
        }
    })?;
    if review.types.kind != META_KIND || review.types.api_version != META_API_VERSION_V1 {
        return Err(Malformed::Version);
    }
    let request: Request = review.try_into().map_err(|_| Malformed::NoRequest)?;
    if request.uid.is_empty() { Err(Malformed::NoUid) } else { Ok(request) }
}

/// How long a handler may take: what the API server says it waits for, less the way back.
pub(super) fn wait(query: Option<&str>, longest: Duration) -> Duration {
    let told = query
        .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("timeout=")))
        .and_then(|timeout| timeout.parse::<jiff::SignedDuration>().ok())
        .and_then(|timeout| Duration::try_from(timeout).ok())
        .filter(|timeout| !timeout.is_zero());
    told.map_or(longest, |told| {
        let left = told.saturating_sub(WAY_BACK);
        if left.is_zero() { told } else { left }
    })
    .min(longest)
}

/// The answer to a request.
pub(super) fn answer(request: &Request, verdict: Verdict) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request);
    match verdict {
        Verdict::Allow => {}
        Verdict::Warn(warnings) => {
            response.warnings = Some(warnings.into_iter().map(|line| one_line(&line)).collect());
        }
        Verdict::Deny { message, reason } => {
            response = response.deny(message);
            let (code, word) = match reason {
                DenyReason::Forbidden => (403, "Forbidden"),
                DenyReason::Invalid => (422, "Invalid"),
                DenyReason::Conflict => (409, "Conflict"),
                DenyReason::BadRequest => (400, "BadRequest"),
            };
            response.result.status = Some(StatusSummary::Failure);
            response.result.code = code;
            word.clone_into(&mut response.result.reason);
        }
    }
    response.into_review()
}

/// Warnings travel in an HTTP header, where a line break would make the API server drop them.
fn one_line(text: &str) -> String {
    text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn headers() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap())])
    }

    fn body() -> Value {
        json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "0c9a8d74",
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "name": "settings",
                "namespace": "default",
                "operation": "CREATE",
                "userInfo": {"username": "dev-a"},
                "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
            },
        })
    }

    fn request() -> Request {
        read(&headers(), body().to_string().as_bytes()).unwrap()
    }

    #[test]
    fn malformed_bodies_are_told_apart() {
        let read_value = |value: Value| read(&headers(), value.to_string().as_bytes()).unwrap_err();
        let mut version = body();
        version["apiVersion"] = json!("admission.k8s.io/v1beta1");
        let mut no_request = body();
        no_request.as_object_mut().unwrap().remove("request");
        let mut no_uid = body();
        no_uid["request"]["uid"] = json!("");
        let mut shape = body();
        shape["request"]["operation"] = json!("LOOK");
        assert_eq!(read_value(version), Malformed::Version);
        assert_eq!(read_value(no_request), Malformed::NoRequest);
        assert_eq!(read_value(no_uid), Malformed::NoUid);
        assert!(matches!(read_value(shape), Malformed::Shape { line: 1, .. }));
        assert!(matches!(read(&headers(), b"{\n  nonsense").unwrap_err(), Malformed::Syntax { line: 2, .. }));
        assert_eq!(read(&HeaderMap::new(), b"{}").unwrap_err(), Malformed::ContentType);
    }

    #[test]
    fn a_malformed_body_is_not_repeated_in_the_sentence() {
        let mut planted = body();
        planted["request"]["operation"] = json!("hunter2");
        let malformed = read(&headers(), planted.to_string().as_bytes()).unwrap_err();
        assert!(!malformed.to_string().contains("hunter2"), "{malformed}");
    }

    #[test]
    fn a_refusal_carries_message_reason_and_code() {
        let verdict = Verdict::Deny { message: "no".into(), reason: DenyReason::Invalid };
        let value = serde_json::to_value(answer(&request(), verdict)).unwrap();
        assert_eq!(value["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(value["kind"], "AdmissionReview");
        assert_eq!(value["response"]["uid"], "0c9a8d74");
        assert_eq!(value["response"]["allowed"], false);
        assert_eq!(
            value["response"]["status"],
            json!({"status": "Failure", "code": 422, "message": "no", "reason": "Invalid"})
        );
        assert_eq!(value.get("request"), None);
    }

    #[test]
    fn warnings_pass_and_are_one_line_each() {
        let value =
            serde_json::to_value(answer(&request(), Verdict::Warn(vec!["old\r\nfield".into()]))).unwrap();
        assert_eq!(value["response"]["allowed"], true);
        assert_eq!(value["response"]["warnings"], json!(["old field"]));
    }

    #[test]
    fn the_handler_gets_the_time_that_the_api_server_waits_for() {
        let longest = Duration::from_secs(30);
        assert_eq!(wait(Some("timeout=10s"), longest), Duration::from_millis(9_750));
        assert_eq!(wait(Some("a=b&timeout=100ms"), longest), Duration::from_millis(100));
        assert_eq!(wait(Some("timeout=1h"), longest), longest);
        for unclear in [None, Some(""), Some("timeout="), Some("timeout=-5s"), Some("timeout=0s")] {
            assert_eq!(wait(unclear, longest), longest, "{unclear:?}");
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_reading_panic(body in proptest::collection::vec(any::<u8>(), 0..256)) {
            // Random bytes are next to never a review: what counts is that there is an answer.
            prop_assert!(read(&headers(), &body).is_err());
        }

        #[test]
        fn damaged_reviews_are_refused_or_keep_their_uid(at in 0_usize..420, byte in any::<u8>()) {
            let mut bytes = body().to_string().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(request) = read(&headers(), &bytes) {
                prop_assert!(!request.uid.is_empty());
            }
        }
    }
}
