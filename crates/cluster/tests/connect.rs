//! Connecting: to a real API server, and to everything that is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "connect/servers.rs"]
mod servers;

use std::{error::Error, fmt::Write as _, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use windlass_cluster::{
    connect::{
        ClientCache, Credentials, HubOptions, KubeconfigPolicy, Limits, Probe, ProbeError, Transport, hub,
        probe, transport,
    },
    requests::{Code, RequestMetrics, Verb},
};
use windlass_testbed::control_plane::{ControlPlane, User};

use servers::{Authority, Manner, Server, certified, json_answer, kubeconfig, page, response, version};

/// Planted as a token; no error may show it.
const CANARY: &str = "canary-5b81e2";

/// A busy machine may take long for a handshake.
const PATIENCE: Duration = Duration::from_mins(1);

fn token() -> Value {
    json!({ "token": CANARY })
}

async fn client(bytes: Vec<u8>, limits: &Limits) -> Client {
    let cache = ClientCache::new(KubeconfigPolicy::default(), None);
    cache.get("x", &Credentials::Kubeconfig { bytes, context: None }, limits).await.unwrap()
}

async fn probed(bytes: Vec<u8>, patience: Duration) -> Result<Probe, ProbeError> {
    let result = probe(&client(bytes, &Limits::default()).await, patience).await;
    if let Err(error) = &result {
        let shown = format!("{} {} {}", everything(error), error.reason(), error.remedy());
        assert!(!shown.contains(CANARY), "{shown}");
    }
    result
}

/// Everything that an error can show.
fn everything(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut current = Some(error);
    while let Some(error) = current {
        write!(text, "{error} {error:?} ").unwrap();
        current = error.source();
    }
    text
}

/// Probes a server of this manner, whose certificate is for 127.0.0.1.
async fn probe_manner(manner: Manner, patience: Duration) -> Result<Probe, ProbeError> {
    let authority = Authority::new();
    let server = Server::start(&authority.sign(&["127.0.0.1"], 2090), None, manner).await;
    probed(kubeconfig(&format!("https://127.0.0.1:{}", server.port), &authority.pem, &token()), patience)
        .await
}

async fn probe_answers(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Result<Probe, ProbeError> {
    probe_manner(Manner::Answers(Arc::new(answer)), PATIENCE).await
}

#[tokio::test]
async fn addresses_where_no_api_server_is() {
    let authority = Authority::new();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let at = |server: String| kubeconfig(&server, &authority.pem, &token());
    assert_eq!(
        probed(at(format!("https://127.0.0.1:{free}")), PATIENCE).await,
        Err(ProbeError::ConnectionRefused)
    );
    // Without any name server the look-up may outlast the time for a connection.
    let unknown = probed(at("https://nowhere.invalid:6443".to_owned()), PATIENCE).await;
    assert!(matches!(unknown, Err(ProbeError::Unresolvable | ProbeError::Timeout)), "{unknown:?}");
    assert_eq!(probe_manner(Manner::Cut, PATIENCE).await, Err(ProbeError::ConnectionLost));
    assert_eq!(probe_manner(Manner::PlainHttp, PATIENCE).await, Err(ProbeError::NotKubernetes));
}

#[tokio::test]
async fn servers_that_hang_are_noticed() {
    for manner in [Manner::Silent, Manner::SilentAfterTls] {
        assert_eq!(probe_manner(manner, Duration::from_secs(2)).await, Err(ProbeError::Timeout));
    }
    // Also without a probe: the client itself gives up on the handshake and on the answer.
    let authority = Authority::new();
    let limits = Limits { read_timeout: Duration::from_secs(2), ..Limits::default() };
    for manner in [Manner::Silent, Manner::SilentAfterTls] {
        let server = Server::start(&authority.sign(&["127.0.0.1"], 2090), None, manner).await;
        let bytes = kubeconfig(&format!("https://127.0.0.1:{}", server.port), &authority.pem, &token());
        let api: Api<Namespace> = Api::all(client(bytes, &limits).await);
        let error =
            tokio::time::timeout(PATIENCE, api.list(&ListParams::default())).await.unwrap().unwrap_err();
        assert_eq!(transport(&error), Some(Transport::Timeout), "{error:?}");
    }
}

#[tokio::test]
async fn certificates_that_do_not_fit() {
    let (trusted, other) = (Authority::new(), Authority::new());
    for (identity, expected) in [
        (other.sign(&["127.0.0.1"], 2090), ProbeError::CertificateUntrusted),
        (trusted.sign(&["127.0.0.1"], 2021), ProbeError::CertificateExpired),
        (trusted.sign(&["api.example.org"], 2090), ProbeError::CertificateNameMismatch),
    ] {
        let server = Server::start(&identity, None, Manner::Answers(Arc::new(|_| page("never")))).await;
        let bytes = kubeconfig(&format!("https://127.0.0.1:{}", server.port), &trusted.pem, &token());
        assert_eq!(probed(bytes, PATIENCE).await, Err(expected));
    }
}

#[tokio::test]
async fn client_certificates_that_are_rejected() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let answers = Manner::Answers(Arc::new(|_| json_answer("200 OK", &version())));
    let server = Server::start(&authority.sign(&["127.0.0.1"], 2090), Some(&clients), answers).await;
    let url = format!("https://127.0.0.1:{}", server.port);
    let foreign = Authority::new().sign(&["somebody"], 2090);
    let expired = clients.sign(&["somebody"], 2021);
    for (what, user) in
        [("foreign", certified(&foreign)), ("expired", certified(&expired)), ("none", token())]
    {
        let result = probed(kubeconfig(&url, &authority.pem, &user), PATIENCE).await;
        assert_eq!(result, Err(ProbeError::ClientCertificateRejected), "{what}");
    }
}

#[tokio::test]
async fn answers_that_are_not_kubernetes() {
    let not = Err(ProbeError::NotKubernetes);
    assert_eq!(probe_answers(|_| page("Welcome")).await, not);
    assert_eq!(probe_answers(|_| json_answer("200 OK", &json!({"hello": "world"}))).await, not);
    assert_eq!(probe_answers(|_| json_answer("404 Not Found", &json!({}))).await, not);
    assert_eq!(probe_answers(|_| page(&"x".repeat(1024 * 1024))).await, not);
    let failing = probe_answers(|_| json_answer("503 Service Unavailable", &json!({}))).await;
    assert_eq!(failing, Err(ProbeError::ServerError { code: 503 }));
    let busy = probe_answers(|_| json_answer("429 Too Many Requests", &json!({}))).await;
    assert_eq!(busy, Err(ProbeError::TooManyRequests));
}

#[tokio::test]
async fn an_open_version_does_not_hide_bad_credentials() {
    let review = |answer: fn() -> String| {
        probe_answers(move |head| {
            if head.starts_with("GET /version") { json_answer("200 OK", &version()) } else { answer() }
        })
    };
    let anonymous =
        || json_answer("201 Created", &json!({"status": {"userInfo": {"username": "system:anonymous"}}}));
    assert_eq!(review(|| json_answer("401 Unauthorized", &json!({}))).await, Err(ProbeError::Unauthorized));
    assert_eq!(review(anonymous).await, Err(ProbeError::Unauthorized));
    assert_eq!(review(|| json_answer("403 Forbidden", &json!({}))).await, Err(ProbeError::Forbidden));
    assert_eq!(review(|| page("portal")).await, Err(ProbeError::NotKubernetes));
    // A server from before 1.28 has discovery only.
    let old = probe_answers(|head| match head.split(' ').nth(1) {
        Some("/version") => json_answer("200 OK", &version()),
        Some("/api") => json_answer("200 OK", &json!({"kind": "APIVersions", "versions": ["v1"]})),
        _ => json_answer("404 Not Found", &json!({})),
    });
    assert_eq!(old.await.unwrap().user, None);
}

#[tokio::test]
async fn credentials_do_not_travel_and_are_not_echoed() {
    let authority = Authority::new();
    let identity = authority.sign(&["127.0.0.1"], 2090);
    let sink = Server::start(&identity, None, Manner::Answers(Arc::new(|_| page("sink")))).await;
    let to = format!("location: https://127.0.0.1:{}/version\r\n", sink.port);
    let redirected = probe_answers(move |_| response("307 Temporary Redirect", "text/plain", &to, "")).await;
    assert_eq!(redirected, Err(ProbeError::NotKubernetes));
    assert_eq!(sink.connections(), 0, "a redirect is not followed");

    // A server that shows our own request to us; `probed` looks for the token in what we make of it.
    for status in ["200 OK", "401 Unauthorized", "403 Forbidden", "500 Internal Server Error"] {
        let result = probe_answers(move |head| {
            assert!(head.contains(CANARY), "the token was sent");
            response(status, "text/html", "", head)
        });
        assert!(result.await.is_err());
    }
}

async fn namespace_user(control_plane: &ControlPlane, namespace: &str, name: &str) -> Vec<u8> {
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.admin(), namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let kubeconfig = control_plane.service_account(namespace, name).await.unwrap();
    serde_json::to_vec(&kubeconfig).unwrap()
}

#[tokio::test]
async fn a_real_api_server_says_its_version_and_who_we_are() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let bytes = serde_json::to_vec(&control_plane.kubeconfig(&User::Admin).unwrap()).unwrap();
    let found = probed(bytes.clone(), PATIENCE).await.unwrap();
    assert!(found.version.starts_with("v1."), "{found:?}");
    assert_eq!(found.user.as_deref(), Some("admin"));
    assert!(found.platform.starts_with("linux/") && found.latency > Duration::ZERO, "{found:?}");

    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    let cache = ClientCache::new(KubeconfigPolicy::default(), Some(metrics.clone()));
    let from = Credentials::Kubeconfig { bytes, context: None };
    let connection = cache.connection("real", &from, &Limits::default()).await.unwrap();
    assert!(connection.certificate_expires.is_some());
    let namespaces: Api<Namespace> = Api::all(connection.client);
    assert!(
        namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .any(|ns| ns.name_any() == "default")
    );
    assert!(namespaces.get_opt("surely-not-there").await.unwrap().is_none());
    let ok = Code::of(http::StatusCode::OK);
    let not_found = Code::of(http::StatusCode::NOT_FOUND);
    assert_eq!((metrics.count(Verb::List, ok), metrics.count(Verb::Get, not_found)), (1, 1));
}

#[tokio::test]
async fn a_real_api_server_refuses_what_it_does_not_know() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (url, authority) = (control_plane.url(), control_plane.ca_pem());
    let foreign = Authority::new();
    assert_eq!(
        probed(kubeconfig(&url, &foreign.pem, &token()), PATIENCE).await,
        Err(ProbeError::CertificateUntrusted)
    );
    assert_eq!(probed(kubeconfig(&url, &authority, &token()), PATIENCE).await, Err(ProbeError::Unauthorized));
    // Signed by somebody else: the handshake passes, the API server does not know the user.
    let stranger = certified(&foreign.sign(&["admin"], 2090));
    assert_eq!(
        probed(kubeconfig(&url, &authority, &stranger), PATIENCE).await,
        Err(ProbeError::Unauthorized)
    );
    // Known, but may not act as somebody else.
    let developer = control_plane.kubeconfig(&User::named("dev-a")).unwrap();
    let mut config = serde_json::to_value(developer).unwrap();
    let plain = probed(config.to_string().into_bytes(), PATIENCE).await.unwrap();
    assert_eq!(plain.user.as_deref(), Some("dev-a"));
    config["users"][0]["user"]["as"] = json!("admin");
    assert_eq!(probed(config.to_string().into_bytes(), PATIENCE).await, Err(ProbeError::Forbidden));
}

#[tokio::test]
async fn a_rotated_kubeconfig_takes_effect_at_once() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("connect").await.unwrap();
    let cache = ClientCache::new(KubeconfigPolicy::default(), None);
    let limits = Limits::default();
    let mut seen = Vec::new();
    for name in ["before", "after"] {
        let bytes = namespace_user(control_plane, &namespace, name).await;
        let from = Credentials::Kubeconfig { bytes, context: None };
        let one = cache.connection("member", &from, &limits).await.unwrap();
        let two = cache.connection("member", &from, &limits).await.unwrap();
        assert_eq!(one.fingerprint, two.fingerprint);
        seen.push((one.fingerprint, probe(&two.client, PATIENCE).await.unwrap().user.unwrap()));
    }
    assert_ne!(seen[0].0, seen[1].0);
    assert!(seen[0].1.ends_with(":before") && seen[1].1.ends_with(":after"), "{seen:?}");
    assert_eq!(cache.len(), 1);
}

#[tokio::test]
async fn the_hub_is_reached_through_a_file_of_ones_own() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let options = HubOptions {
        kubeconfig: Some(control_plane.kubeconfig_path(&User::Admin).unwrap()),
        namespace: Some("windlass".to_owned()),
        ..HubOptions::default()
    };
    let client = hub(&options).await.unwrap();
    assert_eq!(client.default_namespace(), "windlass");
    assert_eq!(probe(&client, PATIENCE).await.unwrap().user.as_deref(), Some("admin"));
    let wrong = HubOptions { context: Some("no-such-context".to_owned()), ..options };
    let Err(error) = hub(&wrong).await else { panic!("a context that is not there was used") };
    assert_eq!(error.reason(), "KubeconfigUnknownContext");
}

#[tokio::test]
async fn a_client_keeps_to_its_rate() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let bytes = serde_json::to_vec(&control_plane.kubeconfig(&User::Admin).unwrap()).unwrap();
    let client = client(bytes, &Limits { qps: 10.0, burst: 5, ..Limits::default() }).await;
    let start = std::time::Instant::now();
    let requests = (0..25).map(|_| client.apiserver_version());
    for answer in futures::future::join_all(requests).await {
        answer.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(1900), "{:?}", start.elapsed());
}
