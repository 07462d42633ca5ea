//! Answers that a Prometheus, or what sits in front of it, gives on bad days. Use them as faults.

use bytes::Bytes;
use serde_json::json;

use super::Fault;
use crate::faults::Answer;

const JSON: &str = "application/json";

/// One sample that is not a number, as a division of zero by zero gives.
pub fn nan() -> Fault {
    value("NaN")
}

/// One sample with this value, in Prometheus' own spelling (`1.5`, `NaN`, `+Inf`, or no number at all).
pub fn value(value: &str) -> Fault {
    vector(&json!([{ "metric": {}, "value": [1_704_067_200, value] }]))
}

/// A good answer without any sample.
pub fn empty() -> Fault {
    vector(&json!([]))
}

/// A page for people with status 200, as a proxy with a login form sends it.
pub fn html() -> Fault {
    Fault::answer("text/html", "<!doctype html><title>Sign in</title><form method=post></form>\n")
}

/// JSON that breaks off.
pub fn truncated() -> Fault {
    Fault::answer(JSON, r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"#)
}

/// Prometheus' own error, e.g. for a query that takes too long.
pub fn error(kind: &str, message: &str) -> Fault {
    let body = json!({ "status": "error", "errorType": kind, "error": message }).to_string();
    Fault::Answer(Answer { status: 422, content_type: JSON.to_owned(), body: body.into() })
}

/// A valid answer of at least so many bytes, with many samples.
pub fn oversized(bytes: usize) -> Fault {
    let mut body = String::with_capacity(bytes + 256);
    body.push_str(r#"{"status":"success","data":{"resultType":"vector","result":["#);
    let mut series = 0;
    while series == 0 || body.len() < bytes {
        if series > 0 {
            body.push(',');
        }
        body.push_str(&json!({ "metric": { "series": series.to_string() }, "value": [0, "1"] }).to_string());
        series += 1;
    }
    body.push_str("]}}");
    Fault::answer(JSON, Bytes::from(body))
}

fn vector(result: &serde_json::Value) -> Fault {
    let body = json!({ "status": "success", "data": { "resultType": "vector", "result": result } });
    Fault::answer(JSON, body.to_string())
}
