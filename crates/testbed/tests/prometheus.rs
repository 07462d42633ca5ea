//! Prometheus with targets under control.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use windlass_testbed::faults::{HttpClient, Received};
use windlass_testbed::prometheus::{Fault, Kind, Prometheus, Sample, Target, answers};

/// Long enough for a busy machine; only waited for when something is broken.
const DEADLINE: Duration = Duration::from_mins(1);

fn is(expected: f64) -> impl Fn(&[Sample]) -> bool {
    move |samples| matches!(samples, [sample] if (sample.value - expected).abs() < 1e-9)
}

/// Asks through the front door, where the faults are.
async fn ask(prometheus: &Prometheus, query: &str) -> anyhow::Result<Received> {
    HttpClient::new().get(&format!("{}/api/v1/query?query={query}", prometheus.url())).await
}

fn result(answer: &Received) -> serde_json::Value {
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    answer["data"]["result"].clone()
}

#[tokio::test]
async fn values_of_targets_arrive() {
    let target = Target::start("web").await.unwrap();
    target.set("http_requests_total", &[("code", "200"), ("path", "/\"quoted\"")], 5.0);
    target.set("http_requests_total", &[("code", "500")], 1.0);
    target.expose("# TYPE temperature gauge\ntemperature 21.5");
    let prometheus = Prometheus::start(&[&target]).await.unwrap();
    let samples = prometheus.wait_for("http_requests_total{code=\"200\"}", is(5.0), DEADLINE).await.unwrap();
    assert_eq!(
        (samples[0].labels["job"].as_str(), samples[0].labels["path"].as_str()),
        ("web", "/\"quoted\"")
    );
    assert_eq!(samples[0].labels["instance"], target.address().to_string());
    prometheus.wait_for("temperature", is(21.5), DEADLINE).await.unwrap();
    prometheus.wait_for("scalar(temperature)", is(21.5), DEADLINE).await.unwrap();

    target.add("http_requests_total", &[("code", "500")], 4.0);
    prometheus.wait_for("sum(http_requests_total)", is(10.0), DEADLINE).await.unwrap();
    prometheus
        .wait_for("rate(http_requests_total{code=\"500\"}[1m]) > 0", |s| s.len() == 1, DEADLINE)
        .await
        .unwrap();
    target.set("odd", &[], f64::NAN);
    prometheus.wait_for("odd", |s| matches!(s, [sample] if sample.value.is_nan()), DEADLINE).await.unwrap();
    target.set("odd", &[], f64::NEG_INFINITY);
    prometheus.wait_for("odd", |s| matches!(s, [s] if s.value == f64::NEG_INFINITY), DEADLINE).await.unwrap();
    target.remove("odd", &[]);
    prometheus.wait_for("odd", <[Sample]>::is_empty, DEADLINE).await.unwrap();

    assert!(prometheus.query("sum(").await.is_err());
    let never = prometheus.wait_for("temperature", is(0.0), Duration::from_millis(200)).await.unwrap_err();
    assert!(never.to_string().contains("21.5"), "{never}");
}

#[tokio::test]
async fn targets_come_go_and_fail() {
    let (first, second) = (Target::start("first").await.unwrap(), Target::start("second").await.unwrap());
    first.set("x", &[], 1.0);
    second.set("x", &[], 2.0);
    let prometheus =
        Prometheus::builder().target(&first).scrape_interval(Duration::from_secs(1)).start().await.unwrap();
    prometheus.wait_for("sum(x)", is(1.0), DEADLINE).await.unwrap();
    prometheus.add_target(&second).await.unwrap();
    prometheus.wait_for("sum(x)", is(3.0), DEADLINE).await.unwrap();

    first.fault(Fault::ServerError);
    prometheus.wait_for("up{job=\"first\"}", is(0.0), DEADLINE).await.unwrap();
    prometheus.wait_for("sum(x)", is(2.0), DEADLINE).await.unwrap();
    first.clear_faults();
    first.expose("this is no metric }{");
    prometheus.wait_for("up{job=\"first\"}", is(0.0), DEADLINE).await.unwrap();
    first.clear();
    prometheus.wait_for("up{job=\"first\"}", is(1.0), DEADLINE).await.unwrap();
    prometheus.remove_target(&second).await.unwrap();
    prometheus.wait_for("up", is(1.0), DEADLINE).await.unwrap();
    assert!(first.log().count("scrape") >= 3);
}

#[tokio::test]
async fn bad_answers_on_demand() {
    let prometheus = Prometheus::start(&[]).await.unwrap();
    let good = ask(&prometheus, "vector(1)").await.unwrap();
    assert_eq!(result(&good)[0]["value"][1], "1");

    prometheus.fault(answers::nan());
    assert_eq!(result(&ask(&prometheus, "vector(1)").await.unwrap())[0]["value"][1], "NaN");
    prometheus.fault(answers::empty());
    assert_eq!(result(&ask(&prometheus, "vector(1)").await.unwrap()), serde_json::json!([]));
    prometheus.fault(answers::html());
    let page = ask(&prometheus, "vector(1)").await.unwrap();
    assert_eq!((page.status.as_u16(), page.headers["content-type"].to_str().unwrap()), (200, "text/html"));
    prometheus.fault(answers::truncated());
    let broken = ask(&prometheus, "vector(1)").await.unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&broken.body).is_err());
    prometheus.fault(answers::error("execution", "query timed out"));
    let error = ask(&prometheus, "vector(1)").await.unwrap();
    assert!(error.status == 422 && error.text().contains("query timed out"));
    prometheus.fault(answers::oversized(10_000_000));
    let large = ask(&prometheus, "vector(1)").await.unwrap();
    assert!(large.body.len() >= 10_000_000);
    assert!(result(&large).as_array().unwrap().len() > 100_000, "large, and valid");

    prometheus.fault(Fault::Disconnect);
    assert!(ask(&prometheus, "vector(1)").await.is_err());
    prometheus.fault(Fault::Slow { bytes_per_sec: good.body.len() as u64 });
    let begin = Instant::now();
    assert_eq!(result(&ask(&prometheus, "vector(1)").await.unwrap())[0]["value"][1], "1");
    assert!(begin.elapsed() >= Duration::from_millis(800), "{:?}", begin.elapsed());
    prometheus.fault_on(Kind::Query, Fault::ServerError);
    assert_eq!(ask(&prometheus, "vector(1)").await.unwrap().status, 500);
    assert_eq!(prometheus.query("vector(1)").await.unwrap()[0].value.to_string(), "1", "past the faults");

    prometheus.clear_faults();
    prometheus.log().reset();
    assert_eq!(ask(&prometheus, "vector(1)").await.unwrap().status, 200);
    assert_eq!((prometheus.count(Kind::Query), prometheus.count(Kind::QueryRange)), (1, 0));
}

#[tokio::test]
async fn users_and_tls() {
    let prometheus = Prometheus::builder().tls().start().await.unwrap();
    prometheus.token("robot", "t0ken");
    let client = HttpClient::trusting(prometheus.ca_pem().unwrap()).unwrap();
    let url = format!("{}/api/v1/query?query=vector(1)", prometheus.url());
    assert_eq!(client.get(&url).await.unwrap().status, 401);
    let request = || Request::get(&url).header("authorization", "Bearer t0ken").body(Bytes::new()).unwrap();
    let answer = client.send(request()).await.unwrap();
    assert_eq!(result(&answer)[0]["value"][1], "1");
    prometheus.token("robot", "rotated");
    assert_eq!(client.send(request()).await.unwrap().status, 401);
}
