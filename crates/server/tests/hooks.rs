//! Hooks from the side of a Git server: over the network, with real signatures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use common::{Answer, PATIENCE, Running, loopback, send, start};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ring::hmac;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use windlass_server::hooks::{HookLimits, Hooks, OnPush, Provider, Push, Secrets};
use windlass_server::metrics::Metrics;
use windlass_testbed::control_plane::ControlPlane;

const SECRET: &str = "a-secret-of-the-test";

struct Bench {
    server: Running,
    hooks: Hooks,
    metrics: Metrics,
    secrets: Secrets,
    _stop: tokio_util::sync::DropGuard,
}

impl Bench {
    async fn new(limits: HookLimits, on_push: OnPush) -> Self {
        let (metrics, secrets) = (Metrics::new(), Secrets::new());
        secrets.set(Provider::ALL.map(|provider| (provider.name(), SECRET.as_bytes())));
        let hooks = Hooks::new(secrets.clone(), limits, &metrics, on_push);
        let server = start(hooks.bind(loopback()).await.unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(hooks.clone().run(stop.clone()));
        Self { server, hooks, metrics, secrets, _stop: stop.drop_guard() }
    }

    async fn collecting() -> (Self, mpsc::Receiver<Push>) {
        let (sender, receiver) = mpsc::channel();
        let on_push: OnPush = Arc::new(move |push| {
            let _ = sender.send(push);
        });
        (Self::new(HookLimits::default(), on_push).await, receiver)
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(TcpStream::connect(self.server.address).await.unwrap(), request(path, headers, body))
            .await
            .unwrap()
    }

    /// A push of GitHub with a good signature.
    async fn push(&self, body: &str) -> Answer {
        let signature = sign(SECRET, body);
        self.post("/hooks/github", &[("x-github-event", "push"), ("x-hub-signature-256", &signature)], body)
            .await
    }

    fn counted(&self, provider: &str, result: &str) -> u64 {
        let text = self.metrics.encode().unwrap();
        let series = format!("windlass_hooks_total{{provider=\"{provider}\",result=\"{result}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_default()
    }
}

fn request(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method("POST").uri(path).header("host", "hooks.example");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

fn sign(secret: &str, body: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    tag.as_ref().iter().fold("sha256=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn payload(repository: &str, branch: &str) -> String {
    json!({
        "ref": format!("refs/heads/{branch}"), "after": "59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5",
        "repository": { "clone_url": format!("https://git.example/{repository}.git") },
        "pusher": { "name": "dev-a" },
    })
    .to_string()
}

async fn received(pushes: &mpsc::Receiver<Push>) -> Push {
    timeout(PATIENCE, async {
        loop {
            match pushes.try_recv() {
                Ok(push) => return push,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_signed_push_is_accepted_and_told() {
    let (bench, pushes) = Bench::collecting().await;
    let answer = bench.push(&payload("web", "main")).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::ACCEPTED, r#"{"accepted":true}"#));
    let push = received(&pushes).await;
    assert_eq!(push.urls, ["https://git.example/web.git"]);
    assert_eq!((push.reference.as_deref(), push.pusher.as_deref()), (Some("refs/heads/main"), Some("dev-a")));
    assert_eq!(bench.counted("github", "accepted"), 1);
}

#[tokio::test]
async fn every_provider_is_let_in_by_its_own_proof_and_by_nothing_else() {
    let (bench, _pushes) = Bench::collecting().await;
    let body = json!({
        "url": "https://git.example/a.git", "repository": { "url": "https://git.example/a.git" },
        "changes": [{ "ref": { "id": "refs/heads/main" } }],
    })
    .to_string();
    let tag = sign(SECRET, &body);
    let bare = tag.trim_start_matches("sha256=");
    let bearer = format!("Bearer {SECRET}");
    for (provider, event, proof, value) in [
        ("github", ("x-github-event", "push"), "x-hub-signature-256", tag.as_str()),
        ("gitea", ("x-gitea-event", "push"), "x-gitea-signature", bare),
        ("gitea", ("x-gitea-event", "push"), "x-hub-signature-256", tag.as_str()),
        ("gitlab", ("x-gitlab-event", "Push Hook"), "x-gitlab-token", SECRET),
        ("bitbucket", ("x-event-key", "repo:refs_changed"), "x-hub-signature", tag.as_str()),
        ("generic", ("x-nothing", "push"), "x-signature", bare),
        ("generic", ("x-nothing", "push"), "authorization", bearer.as_str()),
    ] {
        let path = format!("/hooks/{provider}");
        let good = bench.post(&path, &[event, (proof, value)], &body).await;
        assert_eq!(good.status, StatusCode::ACCEPTED, "{provider} {proof}: {}", good.body);
        let missing = bench.post(&path, &[event], &body).await;
        assert_eq!(missing.status, StatusCode::UNAUTHORIZED, "{provider}: {}", missing.body);
        assert!(missing.body.contains("does not prove who sent it"), "{}", missing.body);
        let wrong = bench.post(&path, &[event, (proof, &format!("{value}x"))], &body).await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED, "{provider} {proof}: {}", wrong.body);
        let other = bench.post(&path, &[event, (proof, value)], "{}").await;
        if proof != "x-gitlab-token" && proof != "authorization" {
            assert_eq!(other.status, StatusCode::UNAUTHORIZED, "another body: {provider} {proof}");
        }
        assert!(!missing.body.contains(SECRET) && !wrong.body.contains(SECRET));
    }
}

#[tokio::test]
async fn without_a_secret_nobody_is_let_in_and_the_key_is_named() {
    let (bench, pushes) = Bench::collecting().await;
    bench.secrets.set([("gitlab", b"x".as_slice())]);
    let answer = bench.push(&payload("web", "main")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.body.contains("under the key `github`"), "{}", answer.body);
    // An empty secret would be one that everybody knows.
    bench.secrets.set([("github", b"".as_slice())]);
    let empty = sign("", &payload("web", "main"));
    let headers = [("x-github-event", "push"), ("x-hub-signature-256", empty.as_str())];
    assert_eq!(
        bench.post("/hooks/github", &headers, &payload("web", "main")).await.status,
        StatusCode::FORBIDDEN
    );
    assert!(pushes.try_recv().is_err());
    assert_eq!(bench.counted("github", "no_secret"), 2);
}

#[tokio::test]
async fn a_secret_can_be_rotated_without_a_gap() {
    let (bench, _pushes) = Bench::collecting().await;
    bench.secrets.set([("github", format!("the-new-one\n{SECRET}\n").as_bytes())]);
    assert_eq!(bench.push(&payload("web", "main")).await.status, StatusCode::ACCEPTED);
    bench.secrets.set([("github", b"the-new-one".as_slice())]);
    assert_eq!(bench.push(&payload("web", "main")).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn pings_other_events_and_malformed_bodies_get_an_answer_that_says_so() {
    let (bench, pushes) = Bench::collecting().await;
    let signed = async |event: &str, body: &str| {
        let signature = sign(SECRET, body);
        bench
            .post("/hooks/github", &[("x-github-event", event), ("x-hub-signature-256", &signature)], body)
            .await
    };
    assert_eq!(signed("ping", r#"{"zen":"x"}"#).await.status, StatusCode::OK);
    let ignored = signed("issues", "{}").await;
    assert_eq!(ignored.status, StatusCode::ACCEPTED);
    assert!(ignored.body.contains("only pushes matter here, and this is `issues`"), "{}", ignored.body);
    let malformed = signed("push", "hunter2").await;
    assert_eq!(malformed.status, StatusCode::BAD_REQUEST);
    assert!(malformed.body.contains("not JSON") && !malformed.body.contains("hunter2"), "{}", malformed.body);
    // The same without a good signature is not even looked at.
    let headers = [("x-github-event", "push"), ("x-hub-signature-256", "sha256=00")];
    assert_eq!(bench.post("/hooks/github", &headers, "hunter2").await.status, StatusCode::UNAUTHORIZED);
    assert!(pushes.try_recv().is_err());
    for (result, count) in [("ping", 1), ("ignored", 1), ("malformed", 1), ("unauthenticated", 1)] {
        assert_eq!(bench.counted("github", result), count, "{result}");
    }
}

#[tokio::test]
async fn nothing_else_is_served_there() {
    let (bench, _pushes) = Bench::collecting().await;
    for path in ["/metrics", "/hooks", "/hooks/svn", "/"] {
        let answer = bench.post(path, &[], "{}").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(
        common::get(bench.server.address, "/hooks/github").await.unwrap().status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(common::get(bench.server.address, "/metrics").await.unwrap().status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let limits = HookLimits { max_body_bytes: 1000, ..HookLimits::default() };
    let bench = Bench::new(limits, Arc::new(|_| ())).await;
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(2000));
    assert_eq!(bench.push(&large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let mut stream = TcpStream::connect(bench.server.address).await.unwrap();
    let head =
        "POST /hooks/gitlab HTTP/1.1\r\nhost: x\r\nx-gitlab-token: t\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "HTTP/1.1 413");
    assert_eq!(bench.counted("gitlab", "too_large"), 1);
}

/// The callback of a fetcher that hangs costs the Git server nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_does_not_wait_for_the_work() {
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let bench = Bench::new(
        HookLimits::default(),
        Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = blocked.lock().unwrap().recv();
        }),
    )
    .await;
    let mut slowest = Duration::ZERO;
    for n in 0..20 {
        let begin = Instant::now();
        let answer = timeout(PATIENCE, bench.push(&payload(&format!("repo-{n}"), "main"))).await.unwrap();
        slowest = slowest.max(begin.elapsed());
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
    println!("slowest answer while the work hangs: {slowest:?}");
    timeout(PATIENCE, async {
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1, "one at a time");
    assert_eq!(bench.hooks.waiting(), 19);
    drop(release);
    timeout(PATIENCE, async {
        while bench.hooks.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_replays_of_one_push_are_one_push_to_work_on() {
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let limits = HookLimits { rate: 1_000_000, burst: 1_000_000, waiting: 4, ..HookLimits::default() };
    let bench = Bench::new(
        limits,
        Arc::new(move |_| {
            let _ = blocked.lock().unwrap().recv();
        }),
    )
    .await;
    let body = payload("web", "main");
    let signature = sign(SECRET, &body);
    let one = format!(
        "POST /hooks/github HTTP/1.1\r\nhost: x\r\nx-github-event: push\r\nx-hub-signature-256: {signature}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Ten connections, a thousand requests on each, one after the other.
    let address = bench.server.address;
    let senders = (0..10).map(|_| {
        let one = one.clone();
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut buffer = vec![0; 4096];
            let mut took = Vec::with_capacity(1000);
            for _ in 0..1000 {
                let begin = Instant::now();
                stream.write_all(one.as_bytes()).await.unwrap();
                let read = stream.read(&mut buffer).await.unwrap();
                took.push(begin.elapsed());
                assert!(
                    buffer[..read].starts_with(b"HTTP/1.1 202"),
                    "{}",
                    String::from_utf8_lossy(&buffer[..read])
                );
            }
            took
        })
    });
    let mut took: Vec<Duration> = Vec::new();
    for sender in futures::future::join_all(senders).await {
        took.extend(sender.unwrap());
    }
    took.sort();
    println!("ten at a time, from request to answer: median {:?}, p99 {:?}", took[5_000], took[9_900]);
    assert_eq!(bench.counted("github", "accepted"), 10_000);
    assert!(bench.hooks.waiting() <= 1, "{} wait", bench.hooks.waiting());
    // Different branches fill the queue, and then no more are taken.
    let mut answers = Vec::new();
    for n in 0..8 {
        answers.push(bench.push(&payload("web", &format!("branch-{n}"))).await);
    }
    let refused = answers.iter().find(|answer| answer.status == StatusCode::SERVICE_UNAVAILABLE).unwrap();
    assert!(refused.headers.contains_key("retry-after"));
    assert!(bench.hooks.waiting() <= 4);
    drop(release);
}

#[tokio::test]
async fn a_storm_is_limited_and_told_when_to_come_back() {
    let limits = HookLimits { rate: 1, burst: 5, ..HookLimits::default() };
    let bench = Bench::new(limits, Arc::new(|_| ())).await;
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let answer = bench.post("/hooks/github", &[("x-github-event", "push")], "{}").await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=5).contains(&wait), "{wait}");
        }
        statuses.push(answer.status);
    }
    let limited = bench.counted("github", "limited");
    assert!(statuses[..5].iter().all(|status| *status == StatusCode::UNAUTHORIZED), "{statuses:?}");
    assert!(limited >= 10, "{limited} of 40");
}

#[tokio::test]
async fn a_client_that_dawdles_does_not_hold_up_others() {
    let (bench, pushes) = Bench::collecting().await;
    let mut dawdlers = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(bench.server.address).await.unwrap();
        let head = format!(
            "POST /hooks/gitlab HTTP/1.1\r\nhost: x\r\nx-gitlab-token: {SECRET}\r\ncontent-length: 900\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        dawdlers.push(stream);
    }
    assert_eq!(bench.push(&payload("web", "main")).await.status, StatusCode::ACCEPTED);
    assert_eq!(received(&pushes).await.urls.len(), 1);
    // And they are let go in the end.
    let mut rest = Vec::new();
    let ended = timeout(PATIENCE, dawdlers[0].read_to_end(&mut rest)).await.unwrap();
    assert!(ended.is_err() || String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 503"), "{rest:?}");
}

#[tokio::test]
async fn secrets_follow_the_secret_of_the_cluster() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("hooks").await.unwrap();
    let api: Api<Secret> = Api::namespaced(plane.admin(), namespace.name());
    let (secrets, stop) = (Secrets::new(), CancellationToken::new());
    let following = tokio::spawn(secrets.clone().follow(
        plane.admin(),
        namespace.name().to_owned(),
        "hooks".to_owned(),
        stop.clone(),
    ));
    let until = async |wanted: &[Provider]| {
        timeout(PATIENCE, async {
            while secrets.providers() != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{:?} instead of {wanted:?}", secrets.providers()));
    };
    until(&[]).await;
    let made: Secret = serde_json::from_value(json!({
        "metadata": { "name": "hooks" }, "stringData": { "github": "one", "gitlab": "two" },
    }))
    .unwrap();
    api.create(&PostParams::default(), &made).await.unwrap();
    until(&[Provider::Github, Provider::Gitlab]).await;
    let patch = json!({ "data": { "gitlab": null }, "stringData": { "generic": "three" } });
    api.patch("hooks", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until(&[Provider::Github, Provider::Generic]).await;
    api.delete("hooks", &kube::api::DeleteParams::default()).await.unwrap();
    until(&[]).await;
    stop.cancel();
    timeout(PATIENCE, following).await.unwrap().unwrap();
}
