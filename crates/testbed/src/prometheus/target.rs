//! Something to scrape, with values that the test sets.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderValue, Request, Response, StatusCode, header};

use crate::faults::body::{self, Body};
use crate::faults::{Described, Fault, Faults, HttpServer, RequestLog, Scope, Service, text};

/// A small server with a `/metrics` page; ends when dropped.
#[derive(Debug)]
pub struct Target {
    job: String,
    http: HttpServer,
    page: Arc<Mutex<Page>>,
}

type Labels = Vec<(String, String)>;

#[derive(Debug, Default)]
struct Page {
    values: BTreeMap<(String, Labels), f64>,
    exposed: String,
}

impl Target {
    /// Starts a server without any value. The name becomes the `job` label of all its values.
    #[expect(clippy::unused_async, reason = "all servers of the testbed start alike")]
    pub async fn start(job: &str) -> anyhow::Result<Self> {
        let page = Arc::new(Mutex::new(Page::default()));
        let http = HttpServer::start("testbed-target", Metrics { page: page.clone() }, None)?;
        Ok(Self { job: job.to_owned(), http, page })
    }

    /// The `job` label.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Where it listens; the `instance` label.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Sets a value.
    pub fn set(&self, metric: &str, labels: &[(&str, &str)], value: f64) {
        self.page().values.insert(key(metric, labels), value);
    }

    /// Adds to a value, which starts at 0.
    pub fn add(&self, metric: &str, labels: &[(&str, &str)], more: f64) {
        *self.page().values.entry(key(metric, labels)).or_default() += more;
    }

    /// Removes one value.
    pub fn remove(&self, metric: &str, labels: &[(&str, &str)]) {
        self.page().values.remove(&key(metric, labels));
    }

    /// Removes all values and the text of [`Target::expose`].
    pub fn clear(&self) {
        *self.page() = Page::default();
    }

    /// Also shows this text, in Prometheus' text format (or not, to see what a broken page does); replaces the one
    /// before.
    pub fn expose(&self, text: &str) {
        text.clone_into(&mut self.page().exposed);
    }

    /// Lets this fault happen to every scrape from now on.
    pub fn fault(&self, fault: Fault) {
        self.http.faults().set(Scope::all(), fault);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.http.faults().clear_all();
    }

    /// All that can be said about faults.
    pub fn faults(&self) -> &Faults {
        self.http.faults()
    }

    /// What was asked of this target.
    pub fn log(&self) -> &RequestLog {
        self.http.log()
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(metric: &str, labels: &[(&str, &str)]) -> (String, Labels) {
    let mut labels: Labels =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    labels.sort();
    (metric.to_owned(), labels)
}

impl Page {
    fn render(&self) -> String {
        let mut text = String::new();
        for ((metric, labels), value) in &self.values {
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Rust spells infinity `inf`, which Prometheus reads as well. Writing to a String cannot fail.
            let _ = writeln!(text, "{metric}{labels} {value}");
        }
        text.push_str(&self.exposed);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Metrics {
    page: Arc<Mutex<Page>>,
}

impl Service for Metrics {
    async fn describe(&self, request: Request<Body>) -> anyhow::Result<(Described, Request<Body>)> {
        let rest = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let kind = if request.uri().path() == "/metrics" { "scrape" } else { "other" };
        Ok((Described { subject: String::new(), kind, rest }, request))
    }

    async fn answer(&self, described: &Described, _: Request<Body>) -> anyhow::Result<Response<Body>> {
        if described.kind != "scrape" {
            return Ok(text(StatusCode::NOT_FOUND, "only /metrics is here"));
        }
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner).render();
        let mut response = Response::new(body::full(page));
        let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, format);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_text_format() {
        let mut page = Page::default();
        assert_eq!(page.render(), "");
        page.values.insert(key("up_total", &[("b", "x\"\\\n"), ("a", "1")]), 1.5);
        page.values.insert(key("bad", &[]), f64::NAN);
        page.exposed = "# HELP own text".to_owned();
        assert_eq!(page.render(), "bad NaN\nup_total{a=\"1\",b=\"x\\\"\\\\\\n\"} 1.5\n# HELP own text\n");
    }
}
