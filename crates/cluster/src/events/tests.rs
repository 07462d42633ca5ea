use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use super::*;

type Stored = Arc<Mutex<BTreeMap<String, Value>>>;

/// Keeps Events as an API server does, or answers with `code` when that is not 200.
fn server(code: u16, delay: Duration) -> (Client, Stored) {
    let stored = Stored::default();
    let store = Arc::clone(&stored);
    let service = service_fn(move |request: Request<Body>| {
        let store = Arc::clone(&store);
        async move {
            tokio::time::sleep(delay).await;
            let (head, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let answer = |code: u16, body: &Value| {
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
            };
            if code != 200 {
                return Ok::<_, BoxError>(answer(
                    code,
                    &json!({"kind": "Status", "code": code, "message": "no"}),
                ));
            }
            let mut store = store.lock().unwrap();
            if head.method == Method::POST {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                store.insert(name, body.clone());
                return Ok(answer(201, &body));
            }
            let name = head.uri.path().rsplit('/').next().unwrap().to_owned();
            let Some(event) = store.get_mut(&name) else {
                return Ok(answer(404, &json!({"kind": "Status", "code": 404, "message": "gone"})));
            };
            event["series"] = body["series"].clone();
            Ok(answer(200, event))
        }
    });
    (Client::new(service, "default"), stored)
}

fn recorder(client: Client) -> (Recorder, Publisher, EventMetrics) {
    let reporter = Reporter { controller: "windlass.dev/test".into(), instance: "pod-1".into() };
    let metrics = EventMetrics::default();
    let clock = Clock::from_fn(|| Timestamp::UNIX_EPOCH);
    let (recorder, publisher) = Recorder::new(client, reporter, clock, metrics.clone());
    (recorder, publisher, metrics)
}

fn object(name: &str) -> ObjectReference {
    ObjectReference { name: Some(name.into()), namespace: Some("shop".into()), ..ObjectReference::default() }
}

#[tokio::test(start_paused = true)]
async fn repeats_become_a_series_and_the_last_count_is_written_at_the_end() {
    let (client, stored) = server(200, Duration::ZERO);
    let (recorder, publisher, metrics) = recorder(client);
    for _ in 0..10 {
        recorder.record(object("web"), Note::warning("SyncFailed", "Sync", "no route"));
    }
    recorder.record(object("web"), Note::normal("Synced", "", "all well"));
    drop(recorder);
    publisher.run(CancellationToken::new()).await;
    let stored: Vec<Value> = stored.lock().unwrap().values().cloned().collect();
    assert_eq!(stored.len(), 2, "{stored:#?}");
    let failed = stored.iter().find(|event| event["reason"] == "SyncFailed").unwrap();
    assert_eq!(failed["series"]["count"], 10);
    assert_eq!((&failed["type"], &failed["note"]), (&json!("Warning"), &json!("no route")));
    let synced = stored.iter().find(|event| event["reason"] == "Synced").unwrap();
    assert_eq!((&synced["series"], &synced["action"]), (&Value::Null, &json!("Synced")));
    assert_eq!(metrics.published(), 4, "create, first repeat, last count; and the other one");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_api_server_holds_nobody_up_and_drops_are_counted() {
    let (client, stored) = server(200, Duration::from_hours(1));
    let (recorder, publisher, metrics) = recorder(client);
    let stop = CancellationToken::new();
    let running = tokio::spawn(publisher.run(stop.clone()));
    let start = tokio::time::Instant::now();
    for n in 0..3000 {
        recorder.record(object(&format!("o{n}")), Note::normal("A", "A", "m"));
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "recording does not wait");
    assert!(metrics.dropped(Dropped::QueueFull) >= 1900, "{}", metrics.dropped(Dropped::QueueFull));
    stop.cancel();
    tokio::time::timeout(Duration::from_mins(1), running).await.unwrap().unwrap();
    assert!(stored.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_counted_and_later_notes_go_on() {
    let (client, _) = server(403, Duration::ZERO);
    let (recorder, publisher, metrics) = recorder(client);
    recorder.record(object("a"), Note::normal("A", "A", "m"));
    recorder.record(object("b"), Note::normal("A", "A", "m"));
    drop(recorder);
    publisher.run(CancellationToken::new()).await;
    assert_eq!((metrics.dropped(Dropped::Refused), metrics.published()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_begun_anew() {
    let (client, stored) = server(200, Duration::ZERO);
    let (recorder, publisher, _) = recorder(client);
    let running = tokio::spawn(publisher.run(CancellationToken::new()));
    let note = || Note::normal("A", "A", "m");
    recorder.record(object("a"), note());
    tokio::time::sleep(Duration::from_secs(1)).await;
    stored.lock().unwrap().clear();
    recorder.record(object("a"), note());
    tokio::time::sleep(Duration::from_secs(1)).await;
    recorder.record(object("a"), note());
    drop(recorder);
    running.await.unwrap();
    assert_eq!(stored.lock().unwrap().len(), 1);
}

#[test]
fn notes_are_cut_between_characters_to_what_the_api_takes() {
    let note = Note::warning("R".repeat(300), "", "ü".repeat(2000)).fitted();
    assert!(note.message.len() <= MAX_MESSAGE && note.message.ends_with("ü…"), "{}", note.message.len());
    assert_eq!((note.reason.len(), note.action.len()), (MAX_REASON, MAX_REASON));
    let short = Note::normal("Synced", "Sync", "fine");
    assert_eq!(short.clone().fitted(), short);
}

#[test]
fn drops_are_shown_by_cause() {
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    metrics.drop_one(Dropped::Flood);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"windlass_events_dropped_total{cause="flood"} 1"#), "{text}");
}
