//! Measuring: a question goes out, an answer comes back. The only room of analysis that talks to the world.
//!
//! ```text
//!  Question (metric with its arguments, Secrets among them) ─► Meter ─► Answer (value, phase, message without Secrets)
//! ```
//!
//! Every way in which a server can disappoint is a [`Fault`] of its own, with what to do about it. A measurement never
//! takes longer than its timeout, and an answer is never read beyond 10 MB.

mod compare;
mod fault;
mod http;
mod jsonpath;
mod prometheus;
mod range;
mod slo;
mod web;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    analysis::{Measurement, Metric, Phase},
    condition::whole_seconds,
};
use windlass_cluster::clock::Clock;

pub use fault::Fault;
pub use http::{Http, LARGEST_ANSWER};

use super::{
    args::redact,
    condition::{Sample, Verdict, is_no_data, judge},
    plan::Answer,
};

/// Key in a metric's metadata: what the sequential comparison has seen so far.
pub const EVIDENCE: &str = "evidence";

/// The longest value and the longest message that go into a status.
const LONGEST_VALUE: usize = 1024;

/// What is asked. It holds values of Secrets and therefore cannot be printed.
pub struct Question {
    /// The metric, with its arguments and Secrets put in.
    pub metric: Metric,
    /// Which measurement of it, from 1.
    pub attempt: u32,
    /// When the run began.
    pub run_started: Timestamp,
    /// What the metric has kept from earlier measurements.
    pub kept: BTreeMap<String, String>,
    /// Values of Secrets in the metric: they are taken out of whatever is shown.
    pub secrets: Vec<String>,
}

/// Who measures. The seam at which a simulation takes the world's place.
pub trait Meter: Send + Sync + 'static {
    /// Measures. A failure is an answer with the phase `Error`.
    fn measure(&self, question: Question) -> impl Future<Output = Answer> + Send;
}

impl<M: Meter> Meter for Arc<M> {
    fn measure(&self, question: Question) -> impl Future<Output = Answer> + Send {
        M::measure(self, question)
    }
}

/// What a provider found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The value that conditions see; `None` for no data.
    sample: Option<Sample>,
    /// What the status shows instead of the sample.
    shown: Option<String>,
    /// The provider's own verdict.
    own: Option<Verdict>,
    /// More about the verdict, such as how many samples are missing.
    note: String,
    /// Goes into the measurement's metadata.
    metadata: BTreeMap<String, String>,
    /// Goes into the metric's metadata, for the next measurement.
    kept: BTreeMap<String, String>,
}

/// The real world: Prometheus and other servers over HTTP.
#[derive(Clone, Debug)]
pub struct Network {
    http: Http,
    clock: Clock,
    /// Asked where a metric names no Prometheus.
    prometheus: Option<String>,
}

impl Network {
    /// Measures over these connections. `prometheus` is asked where a metric names no address.
    pub fn new(http: Http, clock: Clock, prometheus: Option<String>) -> Self {
        Self { http, clock, prometheus }
    }

    async fn find(&self, question: &Question, now: Timestamp) -> Result<Found, Fault> {
        let provider = &question.metric.provider;
        let servers = prometheus::Servers { http: &self.http, fallback: self.prometheus.as_deref() };
        if let Some(prometheus) = &provider.prometheus {
            prometheus::measure(servers, prometheus, now).await
        } else if let Some(web) = &provider.web {
            web::measure(&self.http, web).await
        } else if let Some(slo) = &provider.slo_burn_rate {
            slo::measure(servers, slo).await
        } else if let Some(compare) = &provider.compare {
            compare::measure(servers, compare, question, now).await
        } else {
            Err(Fault::Spec("the metric has no provider that measures over the network".to_owned()))
        }
    }
}

impl Meter for Network {
    async fn measure(&self, question: Question) -> Answer {
        let started = self.clock.now();
        let found = self.find(&question, started).await;
        if let Err(fault) = &found {
            // Its text can hold a Secret: that is taken out only for the status.
            tracing::debug!(metric = %question.metric.name, category = fault.category(), "no measurement");
        }
        answer(&question, found, started, self.clock.now())
    }
}

/// Judges what was found, and takes Secrets out of what is shown.
fn answer(
    question: &Question,
    found: Result<Found, Fault>,
    started: Timestamp,
    finished: Timestamp,
) -> Answer {
    let clean = |text: &str| cut(&redact(text, &question.secrets));
    let mut measurement = Measurement {
        started_at: Some(Time(whole_seconds(started))),
        finished_at: Some(Time(whole_seconds(finished))),
        ..Measurement::default()
    };
    let mut kept = BTreeMap::new();
    match found {
        Err(fault) => {
            (measurement.phase, measurement.message) = (Phase::Error, clean(&fault.to_string()));
        }
        Ok(found) => {
            let sample = found.sample.unwrap_or(Sample::Json(serde_json::Value::Null));
            let verdict = judge(&question.metric, &sample, found.own);
            let words = [verdict.message.as_str(), found.note.as_str()];
            let words: Vec<&str> = words.into_iter().filter(|text| !text.is_empty()).collect();
            let told =
                verdict.phase != Phase::Successful || is_no_data(&sample) || !verdict.message.is_empty();
            measurement.phase = verdict.phase;
            measurement.message = if told { clean(&words.join(". ")) } else { String::new() };
            measurement.value = clean(&found.shown.unwrap_or_else(|| sample.shown()));
            measurement.metadata =
                found.metadata.into_iter().map(|(key, value)| (key, clean(&value))).collect();
            kept = found.kept;
        }
    }
    Answer { metric: question.metric.name.clone(), attempt: question.attempt, measurement, metadata: kept }
}

/// An answer for a question that could not even be asked.
pub fn unasked(metric: &str, attempt: u32, why: &str, now: Timestamp) -> Answer {
    let stamp = Some(Time(whole_seconds(now)));
    let measurement = Measurement {
        phase: Phase::Error,
        message: cut(why),
        started_at: stamp.clone(),
        finished_at: stamp,
        ..Measurement::default()
    };
    Answer { metric: metric.to_owned(), attempt, measurement, metadata: BTreeMap::new() }
}

fn cut(text: &str) -> String {
    if text.len() <= LONGEST_VALUE {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST_VALUE)])
}
