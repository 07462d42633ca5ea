#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cdevents_sdk::CDEvent;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use windlass_cluster::{backoff::Backoff, drive::Key};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn occurrence(happening: Happening, revision: i64) -> Occurrence {
    Occurrence {
        happening,
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u-1".into(),
        revision,
        number: revision,
        image: Some("example.com/shop/web:v2".into()),
        at: "2026-03-01T10:00:00Z".parse().unwrap(),
    }
}

fn message(revision: i64) -> Message {
    build(&occurrence(Happening::Upgraded, revision), &Origin::default()).unwrap()
}

fn key() -> Key {
    Key { namespace: Some("shop".into()), name: "web".into() }
}

/// What a sink got: headers in lower case, and the body.
type Got = Arc<Mutex<Vec<(Vec<String>, Vec<u8>)>>>;

/// A real HTTP server that answers with these codes in turn, then 202 for ever.
async fn server(codes: Vec<u16>) -> (std::net::SocketAddr, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let got = Got::default();
    let seen = got.clone();
    tokio::spawn(async move {
        let mut codes = codes.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            loop {
                let mut headers = Vec::new();
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    headers.push(line.trim().to_owned());
                }
                if headers.is_empty() {
                    break;
                }
                let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut body).await.unwrap();
                let code = codes.next().unwrap_or(202);
                seen.lock().unwrap().push((headers, body));
                let answer = format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\n\r\n");
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (address, got)
}

struct House {
    outbox: Outbox,
    metrics: OutboxMetrics,
    woken: Arc<Mutex<Vec<Key>>>,
    stop: CancellationToken,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn house(sinks: Vec<Sink>, capacity: usize) -> House {
    let backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(50) };
    let metrics = OutboxMetrics::default();
    // The provider of TLS is the binary's choice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let web = Web::new(Duration::from_secs(5)).unwrap();
    let (outbox, posting) = Outbox::new(sinks, web, OutboxOptions { capacity, backoff }, metrics.clone());
    let (woken, stop) = (Arc::<Mutex<Vec<Key>>>::default(), CancellationToken::new());
    let told = woken.clone();
    tokio::spawn(posting.run(Arc::new(move |key| told.lock().unwrap().push(key.clone())), stop.clone()));
    House { outbox, metrics, woken, stop }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = tokio::time::Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn sink(address: std::net::SocketAddr) -> Sink {
    format!("http://{address}/in").parse().unwrap()
}

#[test]
fn the_same_transition_of_the_same_revision_has_the_same_id_and_no_other_has_it() {
    let all = [
        Happening::Deployed,
        Happening::Upgraded,
        Happening::Published,
        Happening::RolledBack,
        Happening::Removed,
    ];
    let mut ids = std::collections::BTreeSet::new();
    for uid in ["a", "b"] {
        for revision in 1..4 {
            for happening in all {
                for number in 1..4 {
                    assert!(ids.insert(id(uid, revision, number, happening)));
                    assert!(!ids.insert(id(uid, revision, number, happening)));
                }
            }
        }
    }
}

#[test]
fn every_event_is_one_that_the_sdk_reads_back_and_its_bytes_are_always_the_same() {
    let origin = Origin { source: "https://windlass.example/east/".into(), environment: Some("prod".into()) };
    for (happening, kind) in [
        (Happening::Deployed, "dev.cdevents.service.deployed.0.3.0"),
        (Happening::Upgraded, "dev.cdevents.service.upgraded.0.3.0"),
        (Happening::Published, "dev.cdevents.service.published.0.3.0"),
        (Happening::RolledBack, "dev.cdevents.service.rolledback.0.3.0"),
        (Happening::Removed, "dev.cdevents.service.removed.0.3.0"),
    ] {
        let message = build(&occurrence(happening, 3), &origin).unwrap();
        assert_eq!(message, build(&occurrence(happening, 3), &origin).unwrap());
        let event: CDEvent = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(event.ty(), kind);
        assert_eq!(event.id().as_str(), message.id);
        let value: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(value["context"]["timestamp"], "2026-03-01T10:00:00Z");
        assert_eq!(
            value["context"]["source"],
            "https://windlass.example/east/apis/windlass.dev/v1alpha1/namespaces/shop/rollouts/web"
        );
        assert_eq!(value["subject"]["content"]["environment"]["id"], "prod");
        if !matches!(happening, Happening::Published | Happening::Removed) {
            assert_eq!(
                value["subject"]["content"]["artifactId"],
                "pkg:oci/web?repository_url=example.com/shop/web&tag=v2"
            );
        }
        assert!(message.headers.contains(&("ce-type", kind.to_owned())));
    }
}

#[test]
fn the_password_in_an_address_is_never_shown() {
    let sink: Sink = "https://user:p%40ss@events.example/in?token=abc".parse().unwrap();
    for shown in [format!("{sink}"), format!("{sink:?}"), sink.address()] {
        for secret in ["user", "p%40ss", "p@ss", "abc"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    assert_eq!(sink.authorization(), Some("Basic dXNlcjpwQHNz"));
    assert_eq!("ftp://x".parse::<Sink>(), Err(SinkError::Scheme));
    assert_eq!("events".parse::<Sink>(), Err(SinkError::NoUrl));
}

#[tokio::test]
async fn a_sink_that_fails_at_first_gets_every_event_in_the_end_and_in_order() {
    let (address, got) = server(vec![503, 500, 429]).await;
    let house = house(vec![sink(address)], 10);
    house.outbox.offer(&key(), message(1));
    house.outbox.offer(&key(), message(2));
    house.outbox.offer(&key(), message(2));
    until("both are settled", || house.woken.lock().unwrap().len() == 2).await;
    assert!(house.outbox.settled(&message(1).id) && house.outbox.settled(&message(2).id));
    house.outbox.offer(&key(), message(1));
    let got = got.lock().unwrap();
    let ids: Vec<String> = got
        .iter()
        .map(|(headers, _)| headers.iter().find_map(|line| line.strip_prefix("ce-id: ")).unwrap().to_owned())
        .collect();
    let (first, second) = (message(1).id, message(2).id);
    assert_eq!(ids, [first.clone(), first.clone(), first.clone(), first, second]);
    let (headers, body) = got.last().unwrap();
    assert!(headers.iter().any(|line| line == "ce-specversion: 1.0"), "{headers:?}");
    assert!(headers.iter().any(|line| line == "content-type: application/json"), "{headers:?}");
    assert_eq!(*body, message(2).body);
    assert_eq!(house.metrics.counted(&sink(address), "failed"), 3);
    assert_eq!(house.metrics.counted(&sink(address), "sent"), 2);
}

#[tokio::test]
async fn a_sink_that_is_away_delays_no_other_and_the_event_stays_open() {
    let (address, got) = server(vec![]).await;
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let house = house(vec![sink(away), sink(address)], 10);
    house.outbox.offer(&key(), message(1));
    house.outbox.offer(&key(), message(2));
    until("the other has both", || got.lock().unwrap().len() == 2).await;
    assert!(!house.outbox.settled(&message(1).id));
    assert!(house.woken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_event_that_a_sink_refuses_for_good_does_not_hold_up_the_next() {
    let (address, got) = server(vec![422]).await;
    let house = house(vec![sink(address)], 10);
    house.outbox.offer(&key(), message(1));
    house.outbox.offer(&key(), message(2));
    until("both are settled", || house.outbox.settled(&message(2).id)).await;
    assert_eq!(got.lock().unwrap().len(), 2);
    assert_eq!(house.metrics.counted(&sink(address), "refused"), 1);
}

#[tokio::test]
async fn a_full_queue_drops_the_oldest_counts_it_and_takes_it_again_when_it_is_offered_again() {
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let house = house(vec![sink(away)], 3);
    for revision in 1..=5 {
        house.outbox.offer(&key(), message(revision));
    }
    assert_eq!(house.metrics.counted(&sink(away), "dropped"), 2);
    house.outbox.offer(&key(), message(1));
    assert_eq!(house.metrics.counted(&sink(away), "dropped"), 3);
    house.outbox.offer(&key(), message(5));
    assert_eq!(house.metrics.counted(&sink(away), "dropped"), 3);
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    let (address, got) = server(vec![302]).await;
    let with_password: Sink = format!("http://me:secret@{address}/in").parse().unwrap();
    let house = house(vec![with_password], 10);
    house.outbox.offer(&key(), message(1));
    until("it is settled", || house.outbox.settled(&message(1).id)).await;
    let got = got.lock().unwrap();
    assert_eq!(got.len(), 2);
    assert!(got[0].0[0].starts_with("POST /in"), "{:?}", got[0].0);
    assert!(got[0].0.iter().any(|line| line == "authorization: Basic bWU6c2VjcmV0"));
}
