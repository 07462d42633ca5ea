//! What an API server answers may be a Secret: none of it may reach the log, whatever the filter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use support::{
    controller::{Replica, SOON, Start},
    eventually,
};

const CANARY: &str = "planted-canary-password";

/// Answers discovery well, and everything else with a body that cannot be decoded and has the canary in it.
fn answer(path: &str, number: usize) -> (&'static str, String) {
    if path.starts_with("/apis/windlass.dev/v1alpha1") && !path.contains("clusters") {
        let resource = r#"{"name":"clusters","singularName":"cluster","namespaced":false,"kind":"Cluster","verbs":["list"]}"#;
        let list = format!(
            r#"{{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"windlass.dev/v1alpha1","resources":[{resource}]}}"#
        );
        return ("200 OK", list);
    }
    let body = match number % 4 {
        0 => format!("<html>{CANARY}</html>"),
        1 => format!(r#"{{"kind":"List","metadata":{{}},"items":[{{"metadata":"{CANARY}"}}]}}"#),
        2 => format!(r#"{{"kind":"Secret","metadata":"{CANARY}","data":"{CANARY}"}}"#),
        _ => format!(r#"{{"kind":"Secret","data":{{"password":"{CANARY}"#),
    };
    ("200 OK", body)
}

fn serve(stream: TcpStream, served: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 || header == "\r\n" {
                break;
            }
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
        let (status, body) = answer(&path, served.fetch_add(1, Ordering::SeqCst));
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if writer.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn no_answer_of_an_api_server_reaches_the_log() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || serve(stream, &counter));
        }
    });
    let scratch = tempfile::tempdir().unwrap();
    let kubeconfig = scratch.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    for format in ["json", "text"] {
        let before = served.load(Ordering::SeqCst);
        let replica = Replica::start(Start {
            kubeconfig: &kubeconfig,
            namespace: "windlass-system",
            identity: "only",
            args: vec![
                format!("--log-format={format}"),
                "--log-level=trace,kube_client=trace,kube_client::client=trace,hyper=trace".to_owned(),
                "--lease-duration=2s".to_owned(),
                "--lease-renew=200ms".to_owned(),
                "--webhook".to_owned(),
                "--webhook-address=127.0.0.1:0".to_owned(),
            ],
        });
        eventually("enough was answered", SOON, || async {
            let answered = served.load(Ordering::SeqCst) - before;
            if answered >= 25 { Ok(()) } else { Err(format!("{answered} answers; {}", replica.log())) }
        })
        .await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let log = replica.log();
        assert!(log.len() > 1000, "there is a log: {log}");
        let line = log.lines().find(|line| line.contains(CANARY));
        assert_eq!(line, None, "an answer is in the log");
        let (_, checks) = replica.get("/readyz?verbose").await.unwrap();
        assert!(!checks.contains(CANARY), "{checks}");
    }
}
