//! The HTTP API of Prometheus: queries of now, and over a range.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use windlass_api::analysis::{Prometheus, Server};

use super::{
    Found, Sample,
    fault::Fault,
    http::{Body, Http, Reply, Request, address},
    range,
};

/// Time that an answer may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Values of one range query at most; Prometheus has the same limit for each series.
const MOST_STEPS: u64 = 11_000;

/// Who can be asked.
#[derive(Clone, Copy)]
pub(super) struct Servers<'a> {
    pub(super) http: &'a Http,
    pub(super) fallback: Option<&'a str>,
}

/// A range of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) step: Duration,
}

/// What Prometheus answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) sample: Sample,
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

/// Measures by one query.
pub(super) async fn measure(
    servers: Servers<'_>,
    prometheus: &Prometheus,
    now: Timestamp,
) -> Result<Found, Fault> {
    let range = match &prometheus.range_query {
        None => None,
        Some(wanted) => {
            let at = |name: &str, text: &str| {
                range::time(text, now).map_err(|why| Fault::Spec(format!("rangeQuery.{name}: {why}")))
            };
            let step = crate::analysis::check::time(&wanted.step)
                .map_err(|why| Fault::Spec(format!("rangeQuery.step: {why}")))?;
            Some(Range { start: at("start", &wanted.start)?, end: at("end", &wanted.end)?, step })
        }
    };
    let answered = servers.query(&prometheus.server, &prometheus.query, range).await?;
    let mut found = Found { sample: Some(answered.sample), ..Found::default() };
    if !answered.warnings.is_empty() {
        found.metadata.insert("warnings".to_owned(), answered.warnings.join("; "));
    }
    Ok(found)
}

impl Servers<'_> {
    /// Asks one query.
    pub(super) async fn query(
        self,
        server: &Server,
        query: &str,
        range: Option<Range>,
    ) -> Result<Answered, Fault> {
        let named = server.address.as_deref().filter(|address| !address.trim().is_empty()).or(self.fallback);
        let named = named.ok_or_else(|| Fault::Address("no Prometheus address is given".to_owned()))?;
        let mut url = address(named)?;
        let path = if range.is_some() { "api/v1/query_range" } else { "api/v1/query" };
        url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
        let mut form = vec![("query", query.to_owned())];
        if let Some(range) = range {
            form.extend(fields(range)?);
        }
        let timeout =
            server.timeout.filter(|seconds| *seconds > 0).and_then(|seconds| u64::try_from(seconds).ok());
        let request = Request {
            method: Method::POST,
            url,
            headers: &server.headers,
            authentication: server.authentication.as_ref(),
            insecure: server.insecure,
            timeout: timeout.map_or(TIMEOUT, Duration::from_secs),
            body: Body::Form(form),
        };
        understand(&self.http.send(request).await?)
    }

    /// Asks for one number: a scalar, or the only value of a vector. `None` for an empty answer or `NaN`.
    pub(super) async fn number(self, server: &Server, query: &str) -> Result<Option<f64>, Fault> {
        let number = match self.query(server, query, None).await?.sample {
            Sample::Number(number) => Some(number),
            Sample::Numbers(numbers) if numbers.len() > 1 => {
                let what = format!("a query that has to give one number gives {}", numbers.len());
                return Err(Fault::Spec(format!("{what}. Aggregate it, for example with sum()")));
            }
            Sample::Numbers(numbers) => numbers.first().copied(),
            Sample::Json(_) => None,
        };
        Ok(number.filter(|number| !number.is_nan()))
    }
}

fn fields(range: Range) -> Result<Vec<(&'static str, String)>, Fault> {
    let wrong = |what: &str| Err(Fault::Spec(format!("rangeQuery: {what}")));
    let length = Duration::try_from(range.end.duration_since(range.start)).unwrap_or_default();
    if range.end < range.start {
        return wrong("the end is before the start. Turn them round");
    }
    if range.step.is_zero() || length.as_secs() / range.step.as_secs().max(1) > MOST_STEPS {
        return wrong("there are more than 11000 steps. Take a longer step or a shorter time");
    }
    let seconds = |time: Timestamp| format!("{}.{:03}", time.as_second(), time.subsec_millisecond().abs());
    Ok(vec![
        ("start", seconds(range.start)),
        ("end", seconds(range.end)),
        ("step", format!("{}", range.step.as_secs_f64())),
    ])
}

fn understand(reply: &Reply) -> Result<Answered, Fault> {
    let told = if reply.is_page { None } else { serde_json::from_slice::<Envelope>(&reply.bytes).ok() };
    if reply.code >= 300 {
        return Err(reply.refused(told.as_ref().and_then(|told| told.error.as_deref())));
    }
    let envelope: Envelope = match told {
        Some(told) => told,
        None => reply.json()?,
    };
    if envelope.status != "success" {
        return Err(reply.refused(envelope.error.as_deref()));
    }
    let unreadable = |why: &str| Fault::Unreadable { server: reply.server.clone(), why: why.to_owned() };
    let data = envelope.data.ok_or_else(|| unreadable("there is no data in it"))?;
    let numbers = |values: Vec<&Value>| -> Result<Vec<f64>, Fault> {
        values
            .into_iter()
            .map(|value| number(value).ok_or_else(|| unreadable("a value is not a number")))
            .collect()
    };
    let series = || data.result.as_array().map(Vec::as_slice).unwrap_or_default();
    let sample = match data.result_type.as_str() {
        "scalar" => {
            Sample::Number(number(&data.result).ok_or_else(|| unreadable("the scalar is not a number"))?)
        }
        "vector" => Sample::Numbers(numbers(series().iter().map(|series| &series["value"]).collect())?),
        "matrix" => {
            let values = |series: &'_ Value| series["values"].as_array().cloned().unwrap_or_default();
            let all: Vec<Value> = series().iter().flat_map(values).collect();
            Sample::Numbers(numbers(all.iter().collect())?)
        }
        other => return Err(unreadable(&format!("the query gives a {other} and not numbers"))),
    };
    Ok(Answered { sample, warnings: envelope.warnings })
}

/// The number in `[time, "text"]`.
fn number(pair: &Value) -> Option<f64> {
    match pair.get(1)?.as_str()? {
        "NaN" => Some(f64::NAN),
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}
