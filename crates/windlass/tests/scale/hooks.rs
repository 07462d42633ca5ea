//! Hooks while many Applications follow what was pushed.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_deliver::origin::Push;
use windlass_server::{
    hooks::{HookLimits, Hooks, OnPush, Secrets},
    metrics::Metrics,
};
use windlass_testbed::git::{Fault, Kind};

use crate::{
    house::{House, LIMIT, config_map, folder, name},
    support::eventually,
};

const APPLICATIONS: usize = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_answered_before_the_work_with_1500_applications() {
    let house = House::with(APPLICATIONS, 0).await;
    let first = house.repo.tip().unwrap();
    house.all_see(&first).await;
    let (port, _serving) = serve(&house).await;
    let second = house
        .repo
        .commit_files(&[(&format!("{}/web.yaml", folder(7)), Some(&config_map("web-7", "two")))], "second")
        .unwrap();
    house.woken();

    // As long as the git server says nothing, nothing can come of a push: whatever is answered is answered before.
    house.repo.fault(Fault::Hang);
    for _ in 0..20 {
        let answer = post(port, &house.repo.url(), &second).await;
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
    let begun = house.repo.count(Kind::FetchRefs);
    eventually("the fetch", LIMIT, || async {
        if house.repo.count(Kind::FetchRefs) >= begun.max(2) { Ok(()) } else { Err("none".to_owned()) }
    })
    .await;
    assert!(house.woken().is_empty(), "nobody was woken before the fetch");

    house.repo.clear_faults();
    house.all_see(&second).await;
    eventually("all were woken", LIMIT, || async {
        let woken = house.woken();
        if woken.contains(&name(7)) && woken.len() == APPLICATIONS {
            Ok(())
        } else {
            Err(format!("{} were", woken.len()))
        }
    })
    .await;
}

/// Hooks as the controller wires them.
async fn serve(house: &House) -> (u16, AbortOnDropHandle<()>) {
    let secrets = Secrets::new();
    secrets.set([("generic", b"sesame".as_slice())]);
    let repos = house.repos.clone();
    let on_push: OnPush = Arc::new(move |push| {
        repos.pushed(&Push {
            urls: push.urls,
            reference: push.reference,
            commit: push.commit,
            pusher: push.pusher,
        });
    });
    let hooks = Hooks::new(secrets, HookLimits::default(), &Metrics::new(), on_push);
    let server = hooks.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let port = server.local_addr().port();
    let stop = CancellationToken::new();
    let task = async move {
        tokio::join!(server.run(stop.clone()), hooks.run(stop));
    };
    (port, AbortOnDropHandle::new(tokio::spawn(task)))
}

async fn post(port: u16, url: &str, commit: &str) -> String {
    let body = format!(r#"{{"url":"{url}","branch":"main","commit":"{commit}"}}"#);
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = format!(
            "POST /hooks/generic HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\nAuthorization: Bearer sesame\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(Duration::from_secs(60), exchange).await.unwrap()
}
