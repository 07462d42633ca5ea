//! Webhooks over real TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Certificates, PATIENCE, Running, TlsClient, loopback, request, review, send, start};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use windlass_server::admission::{Admit, DenyReason, Request, Verdict, Webhooks};
use windlass_server::certificates::{CertificateAction, Files, ServingCertificate};
use windlass_server::listener::{Limits, Server};
use windlass_server::metrics::Metrics;
use windlass_server::readiness::Readiness;

/// Waits for something outside, as a handler that asks an API does.
struct Waits(Duration);

impl Admit for Waits {
    async fn admit(&self, _request: &Request) -> Verdict {
        tokio::time::sleep(self.0).await;
        Verdict::Allow
    }
}

fn by_name(request: &Request) -> Verdict {
    match request.name.as_str() {
        "bad" => {
            Verdict::Deny { message: "the name is bad; choose another".into(), reason: DenyReason::Invalid }
        }
        "old" => Verdict::Warn(vec!["the name is old".into()]),
        "broken" => panic!("on purpose"),
        _ => Verdict::Allow,
    }
}

async fn webhooks(serving: Arc<ServingCertificate>) -> (Running, Metrics) {
    let metrics = Metrics::new();
    let webhooks = Webhooks::new(&metrics)
        .with("names", by_name)
        .with("waits", Waits(Duration::from_millis(10)))
        .with("sleeps", Waits(Duration::from_hours(1)));
    let server = Server::bind("webhooks", loopback(), Limits::webhooks()).await.unwrap();
    let server = server.with_tls(serving).unwrap().merge(webhooks.routes());
    (start(server), metrics)
}

#[tokio::test]
async fn verdicts_reach_the_caller_and_are_counted() {
    let certificates = Certificates::new();
    let (server, metrics) = webhooks(certificates.serving()).await;
    let client = TlsClient::trusting(&certificates.bundle());
    let ask = async |path: &str, name: &str| -> Value {
        let answer = client.post(server.address, path, review("uid-1", name)).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    };
    let allowed = ask("/admit/names?timeout=10s", "good").await;
    assert_eq!(
        (&allowed["response"]["uid"], &allowed["response"]["allowed"]),
        (&json!("uid-1"), &json!(true))
    );
    let denied = ask("/admit/names", "bad").await;
    assert_eq!(denied["response"]["allowed"], false);
    assert_eq!(denied["response"]["status"]["message"], "the name is bad; choose another");
    assert_eq!(denied["response"]["status"]["reason"], "Invalid");
    let warned = ask("/admit/names", "old").await;
    assert_eq!(warned["response"]["warnings"], json!(["the name is old"]));
    assert_eq!(ask("/admit/waits", "good").await["response"]["allowed"], true);

    let text = metrics.encode().unwrap();
    for line in [
        r#"windlass_admission_requests_total{webhook="names",verdict="allowed"} 1"#,
        r#"windlass_admission_requests_total{webhook="names",verdict="denied"} 1"#,
        r#"windlass_admission_requests_total{webhook="names",verdict="warned"} 1"#,
        r#"windlass_admission_requests_total{webhook="waits",verdict="allowed"} 1"#,
        r#"windlass_admission_duration_seconds_count{webhook="names"} 3"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn what_is_not_a_review_is_refused_with_a_sentence() {
    let certificates = Certificates::new();
    let (server, metrics) = webhooks(certificates.serving()).await;
    let client = TlsClient::trusting(&certificates.bundle());
    for (path, body, status, sentence) in [
        ("/admit/names", "{", StatusCode::BAD_REQUEST, "The body is not JSON (line 1, column 1)."),
        ("/admit/names", "", StatusCode::BAD_REQUEST, "The body is not JSON"),
        ("/admit/names", "[]", StatusCode::BAD_REQUEST, "The body is not an AdmissionReview"),
        (
            "/admit/names",
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
            StatusCode::BAD_REQUEST,
            "The AdmissionReview has no request.",
        ),
        ("/admit/unknown", "{}", StatusCode::NOT_FOUND, "There is no webhook of that name."),
        ("/", "{}", StatusCode::NOT_FOUND, "Webhooks are called with POST /admit/<name>; there are: names"),
    ] {
        let answer = client.post(server.address, path, body).await.unwrap();
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
        assert!(answer.body.contains(sentence), "{path} {body}: {}", answer.body);
    }
    let get = send(client.connect(server.address).await.unwrap(), request("GET", "/admit/names", ""))
        .await
        .unwrap();
    assert_eq!(get.status, StatusCode::METHOD_NOT_ALLOWED);
    let text = metrics.encode().unwrap();
    assert!(text.contains(r#"webhook="names",verdict="malformed"} 4"#), "{text}");
    assert!(!text.contains("unknown"), "labels come from us, not from callers");
}

#[tokio::test]
async fn large_objects_pass_and_larger_ones_do_not() {
    let certificates = Certificates::new();
    let (server, _) = webhooks(certificates.serving()).await;
    let client = TlsClient::trusting(&certificates.bundle());
    let mut large: Value = serde_json::from_str(&review("uid-1", "large")).unwrap();
    let text = "x".repeat(3 * 1024 * 1024);
    large["request"]["object"]["data"] = json!({"text": text});
    large["request"]["oldObject"] = large["request"]["object"].clone();
    let answer = client.post(server.address, "/admit/names", large.to_string()).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    large["request"]["object"]["more"] = json!(text);
    let answer = client.post(server.address, "/admit/names", large.to_string()).await;
    // The server may have closed before everything was sent; then there is no answer to read.
    if let Ok(answer) = answer {
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(
        client.post(server.address, "/admit/names", review("u", "good")).await.unwrap().status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn no_verdict_is_never_a_yes() {
    let certificates = Certificates::new();
    let (server, metrics) = webhooks(certificates.serving()).await;
    let client = TlsClient::trusting(&certificates.bundle());
    let answer = client.post(server.address, "/admit/names", review("u", "broken")).await.unwrap();
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "a panic");
    assert!(!answer.body.contains("on purpose"));
    let answer = client.post(server.address, "/admit/sleeps?timeout=1s", review("u", "good")).await.unwrap();
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "too late");
    assert!(answer.body.contains("did not decide within 0.75 s"), "{}", answer.body);
    let text = metrics.encode().unwrap();
    assert!(text.contains(r#"webhook="names",verdict="failed"} 1"#), "{text}");
    assert!(text.contains(r#"webhook="sleeps",verdict="failed"} 1"#), "{text}");
}

#[tokio::test]
async fn only_the_right_authority_is_trusted_and_handshakes_have_an_end() {
    let certificates = Certificates::new();
    let (server, _) = webhooks(certificates.serving()).await;
    let stranger = TlsClient::trusting(&Certificates::new().bundle());
    assert!(stranger.post(server.address, "/admit/names", review("u", "good")).await.is_err());

    // Without a certificate there is no handshake, and with one there is.
    let serving = ServingCertificate::new();
    let (server, _) = webhooks(Arc::clone(&serving)).await;
    let client = TlsClient::trusting(&certificates.bundle());
    assert!(client.connect(server.address).await.is_err());
    assert!(certificates.load(&serving));
    assert!(client.connect(server.address).await.is_ok());

    let limits = Limits { handshake_timeout: Duration::from_millis(100), ..Limits::webhooks() };
    let server =
        Server::bind("webhooks", loopback(), limits).await.unwrap().with_tls(certificates.serving()).unwrap();
    let server = start(server);
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut bytes)).await.expect("the server lets go");
}

#[tokio::test]
async fn a_whole_rotation_under_load_fails_no_request() {
    let mut certificates = Certificates::new();
    let serving = certificates.serving();
    let (server, _) = webhooks(Arc::clone(&serving)).await;
    // What the API server trusts at the moment, and whether that is what a client just used.
    let trusted = Arc::new(std::sync::Mutex::new(TlsClient::trusting(&certificates.bundle())));
    let over = Arc::new(AtomicBool::new(false));
    let requests = Arc::new(AtomicUsize::new(0));
    let load = (0..4).map(|_| {
        let (trusted, over, requests) = (Arc::clone(&trusted), Arc::clone(&over), Arc::clone(&requests));
        let address = server.address;
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let client = trusted.lock().unwrap().clone();
                let answer = client.post(address, "/admit/names", review("u", "good")).await.unwrap();
                assert_eq!(answer.status, StatusCode::OK);
                requests.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let load: Vec<_> = load.collect();
    let first_ca = certificates.bundle();
    let some_requests = async || {
        let before = requests.load(Ordering::Relaxed);
        let enough = async {
            while requests.load(Ordering::Relaxed) < before + 12 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, enough).await.expect("requests go on");
    };
    some_requests().await;
    for action in [
        CertificateAction::IssueServing,
        CertificateAction::StageCa,
        CertificateAction::PromoteCa,
        CertificateAction::RetireCa,
    ] {
        certificates.step(action);
        // The API server hears of the bundle, then the listener of the certificate, with requests in between.
        *trusted.lock().unwrap() = TlsClient::trusting(&certificates.bundle());
        some_requests().await;
        certificates.load(&serving);
        some_requests().await;
    }
    over.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no request failed");
    }
    // It was a rotation: who trusts only the first CA is no longer served.
    assert!(TlsClient::trusting(&first_ca).connect(server.address).await.is_err());
}

#[tokio::test]
async fn files_are_loaded_and_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut certificates = Certificates::new();
    let write = |certificates: &Certificates| {
        std::fs::write(folder.path().join("tls.crt"), certificates.material.serving.as_ref().unwrap())
            .unwrap();
        let key = certificates.material.serving_key.as_ref().unwrap();
        std::fs::write(folder.path().join("tls.key"), key.reveal()).unwrap();
    };
    let files = Files::new(folder.path()).with_interval(Duration::from_millis(20));
    let error = files.check().await.unwrap_err();
    assert!(error.to_string().contains("tls.crt"), "{error}");

    let (server, _) = webhooks(files.serving()).await;
    let readiness = Readiness::new();
    let run =
        tokio::spawn(files.clone().run(readiness.check("webhook/certificate"), server.shutdown.clone()));
    assert!(!readiness.is_ready());
    write(&certificates);
    let client = TlsClient::trusting(&certificates.bundle());
    let trusted = async |client: &TlsClient| {
        let ok = async {
            while client.connect(server.address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ok).await.expect("the files come into use");
    };
    trusted(&client).await;
    assert!(readiness.is_ready());

    // Half of a change is not taken; the whole of it is.
    let old_key = certificates.material.serving_key.clone();
    certificates.step(CertificateAction::Create);
    let new_key = std::mem::replace(&mut certificates.material.serving_key, old_key);
    write(&certificates);
    let error = files.check().await.unwrap_err();
    assert!(error.to_string().contains("tls.crt and tls.key"), "{error}");
    assert!(client.connect(server.address).await.is_ok(), "what was in use stays in use");
    assert!(readiness.is_ready());
    certificates.material.serving_key = new_key;
    write(&certificates);
    trusted(&TlsClient::trusting(&certificates.bundle())).await;

    server.shutdown.cancel();
    timeout(PATIENCE, run).await.expect("the reload ends").unwrap();
}
