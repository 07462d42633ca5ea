//! What is told: Kubernetes Events, and `CDEvents` to a real sink.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use windlass_rollout::cdevents::{Outbox, OutboxMetrics, OutboxOptions, Web};

use crate::house::{self, House, OWN, until};

#[tokio::test]
async fn every_transition_is_told_as_an_event() {
    let house = House::new("told").await;
    house.rollout(1, json!({ "canary": { "steps": [{ "setWeight": 50 }, { "pause": {} }] } })).await;
    house.until_done().await;
    house.set_version("v2").await;
    house.until_paused_at(1).await;
    house.abort().await;
    until("the abort is told", || async {
        let events = house.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let reasons: Vec<String> = events.into_iter().filter_map(|event| event.reason).collect();
        let told = |word: &str| reasons.iter().any(|reason| reason.contains(word));
        (told("Pause") && told("Abort")).then_some(())
    })
    .await;
}

/// A sink that fails the first times, then takes everything: the events in order of their arrival.
async fn sink(failures: usize) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/in", listener.local_addr().unwrap());
    let got = Arc::<Mutex<Vec<Value>>>::default();
    let seen = got.clone();
    tokio::spawn(async move {
        let mut left = failures;
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            loop {
                let (mut length, mut lines) = (0, 0);
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    lines += 1;
                    if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                }
                if lines == 0 {
                    break;
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                let code = if left > 0 { 503 } else { 202 };
                if left == 0 {
                    seen.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                }
                left = left.saturating_sub(1);
                let answer = format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\n\r\n");
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (address, got)
}

fn kinds(got: &Mutex<Vec<Value>>) -> Vec<String> {
    let word = |event: &Value| {
        let kind = event["context"]["type"].as_str().unwrap().to_owned();
        kind.trim_start_matches("dev.cdevents.service.").split('.').next().unwrap().to_owned()
    };
    got.lock().unwrap().iter().map(word).collect()
}

#[tokio::test]
async fn cdevents_reach_a_sink_that_fails_at_first_and_survive_a_controller_that_dies() {
    let house = House::new("cdevents").await;
    let plane = House::plane().await;
    let (address, got) = sink(2).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (stop, labels) = (CancellationToken::new(), format!("{OWN}=cdevents"));
    let listen = |address: &str| {
        let sinks = vec![address.parse().unwrap()];
        let web = Web::new(std::time::Duration::from_secs(5)).unwrap();
        let (outbox, posting) = Outbox::new(sinks, web, OutboxOptions::default(), OutboxMetrics::default());
        tokio::spawn(posting.run(Arc::new(|_| {}), stop.clone()));
        house::controller(plane, &labels, Some(outbox))
    };
    let spec = json!({
        "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": house::template("v1"),
        "strategy": { "simple": {} },
    });
    let rollout: windlass_api::Rollout = house
        .create(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout",
            "metadata": { "name": "web", "labels": { OWN: "cdevents" } }, "spec": spec,
        }))
        .await;
    {
        // Nobody is there to hear it, and then the controller dies.
        let _first = listen("http://127.0.0.1:9/in");
        house.until_done().await;
        until("it is written down", || async {
            let status = house.status().await;
            (!status.transitions.is_empty() && status.announced.is_none()).then_some(())
        })
        .await;
    }
    let _second = listen(&address);
    until("deployed is told", || async { kinds(&got).contains(&"deployed".to_owned()).then_some(()) }).await;
    house.set_version("v2").await;
    until("upgraded is told", || async { kinds(&got).contains(&"upgraded".to_owned()).then_some(()) }).await;
    let upgraded = {
        let got = got.lock().unwrap();
        got.iter()
            .find(|event| event["context"]["type"].as_str().unwrap().contains("upgraded"))
            .unwrap()
            .clone()
    };
    assert_eq!(
        upgraded["subject"]["content"]["artifactId"],
        "pkg:oci/web?repository_url=example.com/web&tag=v2"
    );
    let api = house.api::<windlass_api::Rollout>();
    until("all is announced", || async {
        let status = house.status().await;
        (status.announced == status.transitions.last().map(|last| last.number)).then_some(())
    })
    .await;
    api.delete(&rollout.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
    until("removed is told", || async { kinds(&got).contains(&"removed".to_owned()).then_some(()) }).await;
    until("it is gone", || async { api.get_opt("web").await.unwrap().is_none().then_some(()) }).await;
    stop.cancel();
}
