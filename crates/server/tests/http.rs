//! The plain listener from a client's side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use axum::Router;
use axum::routing::{get as route_get, post};
use common::{PATIENCE, get, loopback, request, send, start};
use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use windlass_server::http::Probes;
use windlass_server::listener::{Limits, ListenError, Server};

#[tokio::test]
async fn readyz_follows_the_checks_and_says_why() {
    let probes = Probes::new();
    let server = start(probes.bind(loopback()).await.unwrap());
    assert_eq!(get(server.address, "/readyz").await.unwrap().body, "ok");

    let cache = probes.readiness.check("cache/cluster");
    let lease = probes.readiness.check("lease");
    lease.ready();
    let answer = get(server.address, "/readyz").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.body, "[-]cache/cluster failed: not yet started\n[+]lease ok\nreadyz check failed\n");

    cache.ready();
    let answer = get(server.address, "/readyz").await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "ok"));
    let verbose = get(server.address, "/readyz?verbose").await.unwrap();
    assert_eq!(verbose.status, StatusCode::OK);
    assert_eq!(verbose.body, "[+]cache/cluster ok\n[+]lease ok\nreadyz check passed\n");

    cache.not_ready("the watch was lost");
    let answer = get(server.address, "/readyz").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.body.contains("[-]cache/cluster failed: the watch was lost\n"), "{}", answer.body);
}

#[tokio::test]
async fn healthz_does_not_depend_on_readiness_but_on_heartbeats() {
    let probes = Probes::new();
    let _unready = probes.readiness.check("cache");
    let server = start(probes.bind(loopback()).await.unwrap());
    assert_eq!(get(server.address, "/healthz").await.unwrap().status, StatusCode::OK);

    let heart = probes.liveness.watch("drive", Duration::from_millis(1));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let answer = get(server.address, "/healthz").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.body.starts_with("[-]drive failed: silent for"), "{}", answer.body);
    drop(heart);
    assert_eq!(get(server.address, "/healthz").await.unwrap().body, "ok");
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let probes = Probes::new();
    let counter: Counter = Counter::default();
    probes
        .metrics
        .register(|registry| registry.register("windlass_reconciles", "Reconciles", counter.clone()));
    counter.inc_by(3);
    let server = start(probes.bind(loopback()).await.unwrap());
    let answer = get(server.address, "/metrics").await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.body.contains("# TYPE windlass_reconciles counter\n"), "{}", answer.body);
    assert!(answer.body.contains("windlass_reconciles_total 3\n"), "{}", answer.body);
    assert!(answer.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn unknown_paths_and_methods_get_clean_answers_and_routes_can_be_added() {
    let probes = Probes::new();
    let added = Router::new().route("/extra", route_get(|| async { "more" }));
    let server = start(probes.bind(loopback()).await.unwrap().merge(added));
    let answer = get(server.address, "/nothing").await.unwrap();
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.body.starts_with("Not found."), "{}", answer.body);
    assert_eq!(get(server.address, "/extra").await.unwrap().body, "more");
    let stream = TcpStream::connect(server.address).await.unwrap();
    let answer = send(stream, request("POST", "/readyz", "")).await.unwrap();
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let taken = Probes::new().bind(loopback()).await.unwrap();
    let error = Probes::new().bind(taken.local_addr()).await.unwrap_err();
    assert!(matches!(error, ListenError::Bind { .. }));
    assert!(error.to_string().contains(&taken.local_addr().to_string()), "{error}");
}

fn short() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(600),
        request_timeout: Duration::from_millis(500),
        write_timeout: Duration::from_millis(500),
        max_body_bytes: 1000,
        max_header_bytes: 4096,
        max_connections: 8,
        ..Limits::probes()
    }
}

async fn server(limits: Limits) -> common::Running {
    let routes = Router::new()
        .route("/hang", route_get(std::future::pending::<()>))
        .route("/panic", route_get(|| async { panic_on_purpose() }))
        .route("/slow", route_get(slow))
        .route("/large", route_get(|| async { vec![b'x'; 64 * 1024 * 1024] }))
        .route("/length", post(|body: String| async move { body.len().to_string() }));
    start(Server::bind("test", loopback(), limits).await.unwrap().merge(routes))
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(800)).await;
    "done"
}

fn panic_on_purpose() -> &'static str {
    panic!("on purpose")
}

/// Reads to the end of the connection: what came, and that it ended.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server lets go");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn slow_and_silent_clients_are_let_go_and_do_not_block_others() {
    let server = server(short()).await;
    // As many as there are slots, half of them silent and half with headers that never end.
    let mut clients = Vec::new();
    for number in 0..8 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"POST /length HTTP/1.1\r\nhost: localhost\r\nx-drip: ").await.unwrap();
        }
        clients.push(stream);
    }
    // The next client waits until slots come free, and is served.
    let answer = timeout(PATIENCE, async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        send(stream, request("POST", "/length", "four")).await
    });
    assert_eq!(answer.await.expect("slots come free").unwrap().body, "4");
    for stream in &mut clients {
        assert_eq!(rest(stream).await, "");
    }
}

#[tokio::test]
async fn headers_that_drip_are_cut_off_although_bytes_keep_coming() {
    let server = server(short()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // One header that grows and grows: neither their number nor their size ends it within the time.
    stream.write_all(b"GET /length HTTP/1.1\r\nx: ").await.unwrap();
    let started = Instant::now();
    while stream.write_all(b"y").await.is_ok() {
        assert!(started.elapsed() < PATIENCE, "dripping goes on for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_body_that_drips_is_cut_off() {
    let server = server(short()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\nx")
        .await
        .unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_let_go() {
    let limits = Limits { max_connections: 1, ..short() };
    let server = server(limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // The only slot comes free although the first client never reads.
    let answer = timeout(PATIENCE, async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        send(stream, request("POST", "/length", "four")).await
    });
    assert_eq!(answer.await.expect("the slot comes free").unwrap().body, "4");
    drop(stream);
}

#[tokio::test]
async fn too_much_is_refused() {
    let server = server(short()).await;
    let post = |body: Vec<u8>| async {
        send(TcpStream::connect(server.address).await.unwrap(), request("POST", "/length", body)).await
    };
    assert_eq!(post(vec![b'x'; 1000]).await.unwrap().body, "1000");
    let answer = post(vec![b'x'; 1001]).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.body.contains("1000 bytes"), "{}", answer.body);

    // Without a declared length.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let chunk = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000));
    stream
        .write_all(
            format!("POST /length HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{chunk}")
                .as_bytes(),
        )
        .await
        .unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    // Headers.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("GET /length HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(5000));
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_handler_that_hangs_or_panics_costs_its_own_request_only() {
    let server = server(short()).await;
    let answer = get(server.address, "/hang").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let answer = get(server.address, "/panic").await.unwrap();
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.body.contains("on purpose"), "what went wrong inside stays inside");
}

#[tokio::test]
async fn shutdown_finishes_what_is_under_way_and_takes_nothing_new() {
    let server = server(Limits { request_timeout: PATIENCE, ..short() }).await;
    let address = server.address;
    let under_way = tokio::spawn(async move { get(address, "/slow").await });
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx").await.unwrap();
    let mut answer = [0_u8; 12];
    idle.read_exact(&mut answer).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;

    server.shutdown.cancel();
    assert_eq!(under_way.await.unwrap().unwrap().body, "done");
    rest(&mut idle).await;
    let mut task = server;
    timeout(PATIENCE, &mut task.task).await.expect("the server ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let limits = Limits { request_timeout: Duration::MAX, grace: Duration::from_millis(200), ..short() };
    let mut server = server(limits).await;
    let address = server.address;
    let stuck = tokio::spawn(async move { get(address, "/hang").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.shutdown.cancel();
    timeout(PATIENCE, &mut server.task).await.expect("the server ends").unwrap();
    assert!(stuck.await.unwrap().is_err(), "cut off");
}
