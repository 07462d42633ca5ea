//! Measuring: a real Prometheus on good and on bad days.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_api::analysis::{Measurement, Phase};
use windlass_cluster::clock::Clock;
use windlass_rollout::analysis::{
    measure::{EVIDENCE, Http, Meter, Network, Question},
    plan::Answer,
};
use windlass_testbed::prometheus::{Fault, Kind, Prometheus, Target, answers};

const DEADLINE: Duration = Duration::from_mins(1);

pub fn network() -> Network {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Network::new(Http::new().unwrap(), Clock::system(), None)
}

fn question(metric: Value) -> Question {
    let mut metric = metric;
    metric["name"] = json!("m");
    Question {
        metric: serde_json::from_value(metric).unwrap(),
        attempt: 1,
        run_started: Timestamp::now().checked_sub(Duration::from_secs(30)).unwrap(),
        kept: BTreeMap::new(),
        secrets: vec!["hush-hush".to_owned()],
    }
}

async fn measure(metric: Value) -> Measurement {
    network().measure(question(metric)).await.measurement
}

fn prometheus(address: &str, query: &str) -> Value {
    json!({ "provider": { "prometheus": { "address": address, "query": query, "timeout": 20 } }, "successCondition": "result[0] >= 2" })
}

#[tokio::test]
async fn a_real_prometheus_is_asked_for_values_of_now_and_over_a_range() {
    let target = Target::start("web").await.unwrap();
    target.set("load", &[("pod", "a")], 3.0);
    target.set("load", &[("pod", "b")], 5.0);
    let server = Prometheus::start(&[&target]).await.unwrap();
    server.wait_for("load", |samples| samples.len() == 2, DEADLINE).await.unwrap();
    let url = server.url();

    let found = measure(prometheus(&url, "sum(load)")).await;
    assert_eq!((found.phase, found.value.as_str(), found.message.as_str()), (Phase::Successful, "[8]", ""));
    assert!(found.started_at.is_some() && found.finished_at.is_some());
    let found = measure(
        json!({ "provider": { "prometheus": { "address": format!("{url}/"), "query": "scalar(sum(load))" } },
        "successCondition": "result == 8" }),
    )
    .await;
    assert_eq!((found.phase, found.value.as_str()), (Phase::Successful, "8"), "{found:?}");
    let found = measure(prometheus(&url, "min(load) - 2")).await;
    assert_eq!((found.phase, found.value.as_str()), (Phase::Failed, "[1]"));

    let ranged = json!({ "provider": { "prometheus": { "address": url, "query": "sum(load)",
        "rangeQuery": { "start": "now() - duration(\"2s\")", "end": "now()", "step": "1s" } } },
        "successCondition": "len(result) > 0 && all(result, {# == 8})" });
    let end = Instant::now() + DEADLINE;
    loop {
        let found = measure(ranged.clone()).await;
        if found.phase == Phase::Successful {
            break;
        }
        assert!(Instant::now() < end, "{found:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(server.count(Kind::QueryRange) > 0);

    let found = measure(prometheus(&url, "sum(")).await;
    assert_eq!(found.phase, Phase::Error);
    assert!(
        found.message.contains("answered 400") && found.message.contains("Correct the query"),
        "{}",
        found.message
    );
    let found = measure(prometheus(&url, "nobody_knows_this")).await;
    assert_eq!(found.phase, Phase::Inconclusive, "nothing found is never a success");
    assert!(found.message.contains("noData"), "{}", found.message);
}

#[tokio::test]
async fn every_bad_day_of_a_prometheus_has_its_own_outcome() {
    let server = Prometheus::start(&[]).await.unwrap();
    let url = server.url();
    let quick = |query: &str| {
        let mut metric = prometheus(&url, query);
        metric["provider"]["prometheus"]["timeout"] = json!(3);
        metric
    };
    for (fault, phase, told) in [
        (answers::html(), Phase::Error, "a web page instead of JSON"),
        (answers::nan(), Phase::Inconclusive, "No data"),
        (answers::empty(), Phase::Inconclusive, "No data"),
        (answers::oversized(11 << 20), Phase::Error, "more than 10 MB"),
        (answers::truncated(), Phase::Error, "cannot be read"),
        (answers::value("many"), Phase::Error, "a value is not a number"),
        (
            answers::error("timeout", "query timed out in expression evaluation"),
            Phase::Error,
            "query timed out",
        ),
        (Fault::Hang, Phase::Error, "did not answer within 3 s"),
        (Fault::Slow { bytes_per_sec: 2 }, Phase::Error, "did not answer within 3 s"),
        (Fault::Disconnect, Phase::Error, "broke off"),
        (Fault::ServerError, Phase::Error, "answered 500"),
        (Fault::Unauthorized, Phase::Error, "answered 401"),
        (Fault::Forbidden, Phase::Error, "lets the controller in"),
        (Fault::TooManyRequests { retry_after: Duration::from_secs(1) }, Phase::Error, "Ask less often"),
        (answers::value("+Inf"), Phase::Successful, ""),
    ] {
        let name = format!("{fault:.60?}");
        server.fault(fault);
        let found = measure(quick("up")).await;
        server.clear_faults();
        assert_eq!(found.phase, phase, "{name}: {found:?}");
        assert!(found.message.contains(told), "{name}: {}", found.message);
    }
    drop(server);
    let found = measure(quick("up")).await;
    assert!(found.message.contains("cannot be reached"), "{}", found.message);
    assert_eq!(found.phase, Phase::Error);
}

#[tokio::test]
async fn an_answer_of_almost_ten_megabytes_is_still_read() {
    let server = Prometheus::start(&[]).await.unwrap();
    server.fault(answers::oversized(9 << 20));
    let found = measure(json!({ "provider": { "prometheus": { "address": server.url(), "query": "up" } },
        "successCondition": "len(result) > 1000" }))
    .await;
    assert_eq!(found.phase, Phase::Successful, "{}", found.message);
    assert!(found.value.len() < 2000, "the status stays small");
}

#[tokio::test]
async fn no_data_is_what_the_policy_says() {
    let server = Prometheus::start(&[]).await.unwrap();
    for (policy, phase) in
        [("Success", Phase::Successful), ("Failure", Phase::Failed), ("Inconclusive", Phase::Inconclusive)]
    {
        for fault in [answers::nan(), answers::empty()] {
            server.fault(fault);
            let mut metric = prometheus(&server.url(), "up");
            metric["noData"] = json!(policy);
            let found = measure(metric).await;
            assert_eq!(found.phase, phase);
            assert!(found.message.contains("No data"), "{policy}: {}", found.message);
        }
    }
}

#[tokio::test]
async fn certificates_are_checked_unless_the_metric_says_otherwise() {
    let server = Prometheus::builder().tls().start().await.unwrap();
    let mut metric = prometheus(&server.url(), "vector(7)");
    let found = measure(metric.clone()).await;
    assert_eq!(found.phase, Phase::Error);
    assert!(found.message.contains("certificate"), "{}", found.message);
    metric["provider"]["prometheus"]["insecure"] = json!(true);
    assert_eq!(measure(metric).await.phase, Phase::Successful);
}

#[tokio::test]
async fn a_redirect_elsewhere_takes_no_credential_along() {
    let server = Prometheus::start(&[]).await.unwrap();
    let sink = Web::start(|_| {
        (
            200,
            "application/json",
            json!({ "status": "success", "data": { "resultType": "scalar", "result": [0, "9"] } })
                .to_string(),
        )
    })
    .await;
    server.fault(Fault::Redirect(sink.url.clone()));
    let metric = json!({ "provider": { "prometheus": { "address": server.url(), "query": "up",
        "headers": [{ "key": "X-Api-Key", "value": "hush-hush" }, { "key": "Authorization", "value": "Bearer hush-hush" }] } } });
    let found = measure(metric).await;
    assert_eq!(found.phase, Phase::Error);
    assert!(found.message.contains("redirects to"), "{}", found.message);
    assert!(sink.seen().is_empty(), "the other server must not be asked: {:?}", sink.seen());
    assert!(!format!("{found:?}").contains("hush"), "{found:?}");
}

#[tokio::test]
async fn users_and_tokens_let_the_controller_in() {
    let server = Prometheus::start(&[]).await.unwrap();
    server.token("windlass", "hush-hush");
    assert!(measure(prometheus(&server.url(), "vector(3)")).await.message.contains("answered 401"));
    let mut metric = prometheus(&server.url(), "vector(3)");
    metric["provider"]["prometheus"]["headers"] =
        json!([{ "key": "Authorization", "value": "Bearer hush-hush" }]);
    assert_eq!(measure(metric.clone()).await.phase, Phase::Successful);

    let tokens = Web::start(|request| {
        let right = request.contains("grant_type=client_credentials")
            && request.to_lowercase().contains("authorization: basic");
        if right {
            (200, "application/json", json!({ "access_token": "hush-hush" }).to_string())
        } else {
            (400, "text/plain", "no".into())
        }
    })
    .await;
    metric["provider"]["prometheus"].as_object_mut().unwrap().remove("headers");
    metric["provider"]["prometheus"]["authentication"] = json!({ "oauth2": { "tokenUrl": format!("{}/token", tokens.url), "clientId": "me", "clientSecret": "s" } });
    let found = measure(metric.clone()).await;
    assert_eq!(found.phase, Phase::Successful, "{found:?}");
    let refusing = Web::start(|request| (400, "text/plain", request.to_owned())).await;
    metric["provider"]["prometheus"]["authentication"]["oauth2"]["tokenUrl"] = json!(refusing.url);
    metric["provider"]["prometheus"]["authentication"]["oauth2"]["clientSecret"] = json!("quite-another");
    let found = measure(metric).await;
    assert!(
        found.message.contains("no token was given") && !found.message.contains("grant_type"),
        "{}",
        found.message
    );
}

#[tokio::test]
async fn only_http_addresses_are_asked() {
    for address in ["file:///etc/passwd", "gopher://x", "prometheus:9090", "nonsense", ""] {
        let found = measure(prometheus(address, "up")).await;
        assert_eq!(found.phase, Phase::Error);
        assert!(found.message.contains("http://"), "{address}: {}", found.message);
    }
}

/// A small server with one answer for every request.
pub struct Web {
    pub url: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Web {
    pub async fn start(answer: impl Fn(&str) -> (u16, &'static str, String) + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (log.clone(), answer.clone());
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    log.lock().unwrap().push(request.clone());
                    let (code, kind, body) = answer(&request);
                    let head = format!(
                        "HTTP/1.1 {code} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        Self { url, seen, task }
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(|n| n.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

fn web(url: &str, more: Value) -> Value {
    let mut provider = json!({ "url": url });
    provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "provider": { "web": provider } })
}

#[tokio::test]
async fn a_web_server_is_asked_and_its_answer_judged_by_a_path() {
    let server = Web::start(|request| match request.split(' ').nth(1).unwrap() {
        "/ok" => (200, "application/json", json!({ "data": { "ok": true, "rate": 0.97 } }).to_string()),
        "/echo" => (200, "application/json", json!({ "request": request }).to_string()),
        "/text" => (200, "text/plain", "all is well".to_owned()),
        "/page" => (200, "text/html", "<html>hello</html>".to_owned()),
        "/null" => (200, "application/json", "null".to_owned()),
        "/empty" => (200, "application/json", String::new()),
        "/leak" => (500, "text/plain", "your token hush-hush is wrong".to_owned()),
        "/big" => (200, "application/json", format!("\"{}\"", "x".repeat(11 << 20))),
        _ => (503, "text/plain", "not today".to_owned()),
    })
    .await;
    let ask = async |path: &str, more: Value, success: &str| {
        let mut metric = web(&format!("{}{path}", server.url), more);
        if !success.is_empty() {
            metric["successCondition"] = json!(success);
        }
        measure(metric).await
    };
    let found = ask("/ok", json!({ "jsonPath": "{$.data}" }), "result.ok && result.rate >= 0.95").await;
    assert_eq!((found.phase, found.value.as_str()), (Phase::Successful, "{\"ok\":true,\"rate\":0.97}"));
    assert_eq!(
        ask("/ok", json!({ "jsonPath": "{$.data.rate}" }), "result > 0.99").await.phase,
        Phase::Failed
    );
    let found = ask("/ok", json!({ "jsonPath": "{$.nothing}" }), "result").await;
    assert!(found.phase == Phase::Error && found.message.contains("{$.nothing}"), "{found:?}");
    let sent = json!({ "method": "POST", "jsonBody": { "a": [1] }, "headers": [{ "key": "X-Own", "value": "hush-hush" }] });
    let found = ask(
        "/echo",
        sent,
        "result.request contains \"POST /echo\" && result.request contains \"application/json\"",
    )
    .await;
    assert_eq!(found.phase, Phase::Successful, "{found:?}");
    assert!(!format!("{found:?}").contains("hush-hush"), "{found:?}");
    assert!(
        server.seen().iter().any(|request| request.contains("{\"a\":[1]}") && request.contains("hush-hush"))
    );
    assert_eq!(ask("/text", json!({}), "result contains \"well\"").await.phase, Phase::Successful);
    for (path, phase, told) in [
        ("/page", Phase::Error, "a web page"),
        ("/null", Phase::Inconclusive, "No data"),
        ("/empty", Phase::Inconclusive, "No data"),
        ("/down", Phase::Error, "answered 503: not today"),
        ("/leak", Phase::Error, "your token ***** is wrong"),
        ("/big", Phase::Error, "more than 10 MB"),
    ] {
        let found = ask(path, json!({}), "").await;
        assert!(found.phase == phase && found.message.contains(told), "{path}: {found:?}");
    }
    for (more, told) in [
        (json!({ "method": "DELETE" }), "GET, POST or PUT"),
        (json!({ "body": "x" }), "no body"),
        (json!({ "method": "PUT", "body": "x", "jsonBody": {} }), "both set"),
        (json!({ "headers": [{ "key": "bad name", "value": "x" }] }), "cannot be sent"),
    ] {
        let found = ask("/ok", more, "").await;
        assert!(found.phase == Phase::Error && found.message.contains(told), "{found:?}");
    }
}

#[tokio::test]
async fn burn_rates_of_an_objective_decide_over_both_windows() {
    let server = Prometheus::start(&[]).await.unwrap();
    let slo = |ratio: &str| {
        json!({ "provider": { "sloBurnRate": { "address": server.url(), "objective": 99.0, "errorRatioQuery": ratio,
            "windows": [{ "long": "1h", "short": "5m", "burnRate": 10 }] } } })
    };
    for (long, short, phase) in
        [(0.2, 0.3, Phase::Failed), (0.2, 0.01, Phase::Successful), (0.01, 0.3, Phase::Successful)]
    {
        // The ratio depends on the window that is put into the query: a long one has more than 600 seconds.
        let query = format!(
            "{short} + ({long} - {short}) * (count_over_time(vector(1)[{{{{window}}}}:1s]) > bool 600)"
        );
        let found = measure(slo(&query)).await;
        assert_eq!(found.phase, phase, "{long} {short}: {found:?}");
        assert!(found.value.contains("1h: ") && found.value.contains("limit 10"), "{}", found.value);
    }
    let mut counts = json!({ "provider": { "sloBurnRate": { "address": server.url(), "objective": 99.9,
        "errorQuery": "vector(3)", "totalQuery": "vector(100)" } } });
    let found = measure(counts.clone()).await;
    assert_eq!(found.phase, Phase::Failed, "3 % of a budget of 0.1 % burn 30 times too fast: {found:?}");
    counts["provider"]["sloBurnRate"]["totalQuery"] = json!("vector(0)");
    assert_eq!(measure(counts.clone()).await.phase, Phase::Inconclusive, "without requests nobody can tell");
    counts["provider"]["sloBurnRate"]["totalQuery"] = json!("vector(100)");
    counts["failureCondition"] = json!("result.worst > 100");
    assert_eq!(measure(counts).await.phase, Phase::Successful, "a condition takes the verdict's place");
}

#[tokio::test]
async fn canary_and_baseline_are_compared_by_their_ranks() {
    let target = Target::start("web").await.unwrap();
    for pod in 0..10 {
        let name = format!("p{pod}");
        target.set("latency", &[("side", "canary"), ("pod", name.as_str())], 20.0 + f64::from(pod));
        target.set("latency", &[("side", "slow"), ("pod", name.as_str())], 60.0 + f64::from(pod));
        target.set("latency", &[("side", "baseline"), ("pod", name.as_str())], 20.5 + f64::from(pod));
    }
    let server = Prometheus::start(&[&target]).await.unwrap();
    server.wait_for("latency", |samples| samples.len() == 30, DEADLINE).await.unwrap();
    let compare = |canary: &str, more: Value| {
        let mut provider = json!({ "address": server.url(), "method": "MannWhitney", "lookback": "1s", "step": "1s",
            "canary": { "query": format!("latency{{side=\"{canary}\"}}") }, "baseline": { "query": "latency{side=\"baseline\"}" } });
        provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "provider": { "compare": provider } })
    };
    let found = measure(compare("canary", json!({}))).await;
    assert_eq!(found.phase, Phase::Successful, "{found:?}");
    let found = measure(compare("slow", json!({}))).await;
    assert_eq!(found.phase, Phase::Failed, "{found:?}");
    assert!(
        found.message.contains("worse than the baseline") && found.message.contains("effect 1.000"),
        "{found:?}"
    );
    assert_eq!(measure(compare("slow", json!({ "worse": "Lower" }))).await.phase, Phase::Successful);
    let found = measure(compare("nobody", json!({}))).await;
    assert_eq!(found.phase, Phase::Inconclusive);
    assert!(found.message.contains("The canary has 0"), "{}", found.message);
}

#[tokio::test]
async fn shares_are_compared_at_every_look_with_what_was_seen_before() {
    let server = Prometheus::start(&[]).await.unwrap();
    let compare = |canary: (u32, u32), baseline: (u32, u32)| {
        let side = |(events, total): (u32, u32)| json!({ "events": format!("vector({events})"), "total": format!("vector({total}) + 0 * count_over_time(vector(1)[{{{{window}}}}:1s])") });
        question(
            json!({ "provider": { "compare": { "address": server.url(), "method": "SequentialProportion",
            "canary": side(canary), "baseline": side(baseline) } } }),
        )
    };
    let network = network();
    let mut kept = BTreeMap::new();
    let mut look = async |canary, baseline| -> Answer {
        let answer = network.measure(Question { kept: kept.clone(), ..compare(canary, baseline) }).await;
        kept.extend(answer.metadata.clone());
        answer
    };
    let first = look((0, 20), (1, 80)).await;
    assert_eq!(first.measurement.phase, Phase::Inconclusive, "too few requests: {first:?}");
    assert!(first.metadata.contains_key(EVIDENCE));
    let second = look((2, 100), (5, 400)).await;
    assert_eq!(second.measurement.phase, Phase::Successful, "{second:?}");
    let third = look((60, 300), (20, 1200)).await;
    assert_eq!(third.measurement.phase, Phase::Failed, "{third:?}");
    assert!(third.measurement.message.contains("worse than the baseline"), "{third:?}");
    let evidence: Value = serde_json::from_str(&kept[EVIDENCE]).unwrap();
    assert_eq!(evidence["first"], json!({ "events": 60, "total": 300 }));
}
