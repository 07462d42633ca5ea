//! Any HTTP server that answers with JSON.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use windlass_api::analysis::Web;

use super::{
    Found, Sample,
    fault::Fault,
    http::{Body, Http, Request, address},
    jsonpath,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Measures by one request.
pub(super) async fn measure(http: &Http, web: &Web) -> Result<Found, Fault> {
    let method = match web.method.as_deref().unwrap_or("GET") {
        "" | "GET" => Method::GET,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        other => return Err(Fault::Spec(format!("the method {other} is not used. Use GET, POST or PUT"))),
    };
    let body = match (&web.body, &web.json_body) {
        (Some(text), None) if !text.is_empty() => Body::Text(text.clone()),
        (None | Some(_), None) => Body::None,
        (text, Some(json)) if text.as_deref().is_none_or(str::is_empty) => Body::Json(json.to_string()),
        _ => return Err(Fault::Spec("body and jsonBody are both set. Set one of them".to_owned())),
    };
    if method == Method::GET && !matches!(body, Body::None) {
        return Err(Fault::Spec("a GET has no body. Use POST or PUT".to_owned()));
    }
    let seconds =
        web.timeout_seconds.filter(|seconds| *seconds > 0).and_then(|seconds| u64::try_from(seconds).ok());
    let request = Request {
        method,
        url: address(&web.url)?,
        headers: &web.headers,
        authentication: web.authentication.as_ref(),
        insecure: web.insecure,
        timeout: seconds.map_or(TIMEOUT, Duration::from_secs),
        body,
    };
    let reply = http.send(request).await?;
    if !(200..300).contains(&reply.code) {
        return Err(reply.refused(None));
    }
    let path = web.json_path.as_deref().unwrap_or_default();
    let sample = match serde_json::from_slice::<Value>(&reply.bytes) {
        Ok(json) => jsonpath::first(path, &json)?,
        Err(_) if reply.is_page => return Err(Fault::WebPage { server: reply.server }),
        // A path into something that is no JSON finds nothing; without one, conditions see the text.
        Err(_) if !path.is_empty() && !reply.bytes.is_empty() => {
            return reply.json::<Value>().map(|_| Found::default());
        }
        Err(_) if reply.bytes.is_empty() => Value::Null,
        Err(_) => Value::String(String::from_utf8_lossy(&reply.bytes).trim().to_owned()),
    };
    Ok(Found { sample: Some(Sample::Json(sample)), ..Found::default() })
}
