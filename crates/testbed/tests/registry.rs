//! The OCI registry, asked over HTTP and by real helm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use bytes::Bytes;
use http::Request;
use windlass_testbed::faults::{HttpClient, Received};
use windlass_testbed::registry::{Artifact, Authorization, Fault, Kind, Registry, Scope, digest_of};
use windlass_testbed::tools::{self, Tool};

const TYPE: &str = "application/vnd.windlass.test.v1";
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json";

async fn manifest(registry: &Registry, repository: &str, tag: &str) -> anyhow::Result<Received> {
    let url = format!("{}/v2/{repository}/manifests/{tag}", registry.url());
    HttpClient::new().send(Request::get(url).header("accept", ACCEPT).body(Bytes::new())?).await
}

#[tokio::test]
async fn artifacts_are_stored_and_read_back() {
    let registry = Registry::start().await.unwrap();
    let digest = registry.push_artifact("team/app", "v1", TYPE, "content").await.unwrap();
    assert_eq!(registry.digest("team/app", "v1").await.unwrap(), Some(digest.clone()));
    assert_eq!(registry.digest("team/app", "v2").await.unwrap(), None);
    assert_eq!(registry.log().total(), 0, "the test's own requests do not count");

    let answer = manifest(&registry, "team/app", "v1").await.unwrap();
    assert_eq!((answer.status.as_u16(), digest_of(&answer.body)), (200, digest.clone()));
    let read: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let layer = read["layers"][0]["digest"].as_str().unwrap();
    assert_eq!(layer, digest_of(b"content"));
    let url = format!("{}/v2/team/app/blobs/{layer}", registry.url());
    assert_eq!(HttpClient::new().get(&url).await.unwrap().text(), "content");
    assert_eq!((registry.count(Kind::Manifest), registry.count(Kind::Blob)), (1, 1));
    assert_eq!(registry.log().count_of("team/app", Kind::Blob.as_str()), 1);

    let artifact =
        Artifact::of(TYPE, "content").annotation("org.opencontainers.image.revision", "main@sha1:1");
    let second = registry.push("team/app", "v2", &artifact).await.unwrap();
    assert_ne!(second, digest);
    assert_eq!(registry.tags("team/app").await.unwrap(), ["v1", "v2"]);
    assert_eq!(registry.tags("none").await.unwrap(), [""; 0]);
    registry.delete("team/app", "v1").await.unwrap();
    assert_eq!(registry.digest("team/app", "v1").await.unwrap(), None);
    assert_eq!(
        registry.push_artifact("team/app", "v1", TYPE, "content").await.unwrap(),
        digest,
        "same content"
    );
}

#[tokio::test]
async fn faults_come_and_go() {
    let registry = Registry::start().await.unwrap();
    registry.push_artifact("app", "v1", TYPE, vec![b'x'; 100_000]).await.unwrap();
    registry.push_artifact("other", "v1", TYPE, "content").await.unwrap();
    for (fault, status) in [
        (Fault::Unauthorized, 401),
        (Fault::Forbidden, 403),
        (Fault::TooManyRequests { retry_after: Duration::from_secs(7) }, 429),
        (Fault::ServerError, 500),
        (Fault::Redirect("http://127.0.0.1:9".into()), 307),
    ] {
        registry.fault_in("app", fault);
        assert_eq!(manifest(&registry, "app", "v1").await.unwrap().status.as_u16(), status);
        assert_eq!(manifest(&registry, "other", "v1").await.unwrap().status.as_u16(), 200);
    }
    let redirect = manifest(&registry, "app", "v1").await.unwrap();
    assert_eq!(redirect.headers["location"], "http://127.0.0.1:9/v2/app/manifests/v1");
    assert_eq!(registry.faults().hits(), 6);

    registry.clear_faults();
    registry.faults().set_times(
        Scope::all(),
        Fault::TooManyRequests { retry_after: Duration::from_secs(7) },
        1,
    );
    let limited = manifest(&registry, "app", "v1").await.unwrap();
    assert_eq!((limited.status.as_u16(), limited.headers["retry-after"].to_str().unwrap()), (429, "7"));
    assert_eq!(manifest(&registry, "app", "v1").await.unwrap().status, 200);
}

#[tokio::test]
async fn transfers_can_be_slow_cut_corrupt_or_never_come() {
    let registry = Registry::start().await.unwrap();
    let content = vec![b'x'; 50_000];
    registry.push_artifact("app", "v1", TYPE, content.clone()).await.unwrap();
    let url = format!("{}/v2/app/blobs/{}", registry.url(), digest_of(&content));
    let client = HttpClient::new();

    registry.fault_on(Kind::Blob, Fault::Slow { bytes_per_sec: 50_000 });
    let begin = Instant::now();
    assert_eq!(client.get(&url).await.unwrap().body, content);
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());

    registry.fault_on(Kind::Blob, Fault::DropMidTransfer { after_bytes: 10_000 });
    let error = format!("{:#}", client.get(&url).await.unwrap_err());
    assert!(error.contains("broke off"), "{error}");

    registry.fault_on(Kind::Blob, Fault::Corrupt { at_byte: 40_000 });
    let corrupt = client.get(&url).await.unwrap().body;
    assert_eq!((corrupt.len(), corrupt.iter().filter(|byte| **byte != b'x').count()), (content.len(), 1));

    registry.fault_on(Kind::Blob, Fault::Disconnect);
    let error = format!("{:#}", client.get(&url).await.unwrap_err());
    assert!(error.contains("no answer"), "{error}");

    registry.fault_on(Kind::Blob, Fault::Hang);
    let error = client.clone().deadline(Duration::from_millis(500)).get(&url).await.unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
    assert_eq!(manifest(&registry, "app", "v1").await.unwrap().status, 200, "only blobs were hit");

    registry.clear_faults();
    assert_eq!(client.get(&url).await.unwrap().body, content);
}

#[tokio::test]
async fn users_and_tls() {
    let registry = Registry::start_tls().await.unwrap();
    registry.user("dev-a", "planted-secret").user("dev-b", "other").set_may_push("dev-b", false);
    registry.push_artifact("app", "v1", TYPE, "content").await.unwrap();
    let client = HttpClient::trusting(registry.ca_pem().unwrap()).unwrap();
    let url = format!("{}/v2/app/manifests/v1", registry.url());
    let ask = async |user: &str, password: &str, post: bool| {
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let request = if post {
            Request::post(format!("{}/v2/app/blobs/uploads/", registry.url()))
        } else {
            Request::get(&url).header("accept", ACCEPT)
        };
        let request = request.header("authorization", format!("Basic {basic}")).body(Bytes::new()).unwrap();
        client.send(request).await.unwrap()
    };
    let challenge = client.get(&url).await.unwrap();
    assert_eq!(challenge.status, 401);
    assert!(challenge.headers["www-authenticate"].to_str().unwrap().starts_with("Basic "));
    assert_eq!(ask("dev-a", "wrong", false).await.status, 401);
    assert_eq!(ask("dev-a", "planted-secret", false).await.status, 200);
    assert_eq!(ask("dev-b", "other", false).await.status, 200);
    assert_eq!(ask("dev-b", "other", true).await.status, 403);
    let upload = ask("dev-a", "planted-secret", true).await;
    assert_eq!(upload.status, 202);
    let location = upload.headers["location"].to_str().unwrap();
    assert!(location.starts_with(&registry.url()), "uploads stay with the front door: {location}");

    registry.fault(Fault::RejectPush("the disk is full".into()));
    assert_eq!(ask("dev-a", "planted-secret", true).await.text(), "the disk is full\n");
    assert_eq!(ask("dev-a", "planted-secret", false).await.status, 200);
    registry.remove_user("dev-b");
    assert_eq!(ask("dev-b", "other", false).await.status, 401);

    assert!(HttpClient::trusting("").unwrap().get(&url).await.is_err(), "an unknown authority");
    let records = registry.log().requests();
    assert!(records.iter().any(|record| record.authorization == Authorization::Basic("dev-a".into())));
    assert!(!format!("{records:?} {registry:?}").contains("planted-secret"));
}

#[tokio::test]
async fn helm_pushes_and_pulls() {
    let helm = tokio::task::spawn_blocking(|| tools::path(Tool::Helm)).await.unwrap().unwrap();
    let registry = Registry::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("app");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: app\nversion: 1.2.3\n").unwrap();
    std::fs::write(
        chart.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n",
    )
    .unwrap();
    let run = |args: &[&str]| run_helm(&helm, folder.path(), args);
    run(&["package", "app"]).unwrap();
    run(&["push", "app-1.2.3.tgz", &registry.oci_url("charts"), "--plain-http"]).unwrap();
    assert_eq!(registry.tags("charts/app").await.unwrap(), ["1.2.3"]);
    assert!(registry.count(Kind::Upload) > 0);

    let archive = std::fs::read(folder.path().join("app-1.2.3.tgz")).unwrap();
    let artifact = Artifact::helm_chart(
        &serde_json::json!({"name": "app", "version": "2.0.0", "apiVersion": "v2"}),
        archive.clone(),
    );
    registry.push("charts/app", "2.0.0", &artifact).await.unwrap();
    let url = registry.oci_url("charts/app");
    run(&["pull", &url, "--version", "2.0.0", "--plain-http", "-d", "pulled"]).unwrap();
    assert_eq!(std::fs::read(folder.path().join("pulled/app-2.0.0.tgz")).unwrap(), archive);

    registry.fault(Fault::Forbidden);
    let refused = run(&["pull", &url, "--version", "1.2.3", "--plain-http", "-d", "refused"]).unwrap_err();
    assert!(refused.contains("403"), "{refused}");
    registry.clear_faults();
    let rendered = run(&["template", &url, "--version", "1.2.3", "--plain-http"]).unwrap();
    assert!(rendered.contains("kind: ConfigMap"), "{rendered}");
}

fn run_helm(helm: &Path, folder: &Path, args: &[&str]) -> Result<String, String> {
    std::fs::create_dir_all(folder.join("pulled")).unwrap();
    let output =
        Command::new(helm).current_dir(folder).env_clear().env("HOME", folder).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[tokio::test]
async fn a_dropped_registry_leaves_nothing() {
    let registry = Registry::start_tls().await.unwrap();
    registry.push_artifact("app", "v1", TYPE, "content").await.unwrap();
    let (url, file) = (registry.url(), registry.ca_path().unwrap());
    assert!(file.exists());
    drop(registry);
    assert!(HttpClient::new().get(&url.replace("https", "http")).await.is_err(), "nobody listens");
    assert!(!file.parent().unwrap().exists());
}

/// Set for the process that is going to be killed.
const HOLD: &str = "TESTBED_HOLD_REGISTRY";

/// Not a test of its own: the process that [`a_killed_process_leaves_nothing`] kills.
#[tokio::test]
#[ignore = "run and killed by a_killed_process_leaves_nothing"]
async fn hold_until_killed() {
    let Some(told) = std::env::var_os(HOLD) else { return };
    let registry = Registry::start_tls().await.unwrap();
    let folder = registry.ca_path().unwrap().parent().unwrap().to_owned();
    let unfinished = Path::new(&told).with_extension("unfinished");
    std::fs::write(&unfinished, folder.to_str().unwrap()).unwrap();
    std::fs::rename(&unfinished, &told).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_process_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let told = scratch.path().join("told");
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_until_killed", "--ignored"])
        .env(HOLD, &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the registry runs", || told.exists());
    let folder = std::fs::read_to_string(&told).unwrap();
    assert!(Path::new(&folder).exists());
    assert_eq!(processes_that_name(&folder), 1);

    process.kill().unwrap();
    process.wait().unwrap();
    until("the registry is gone", || processes_that_name(&folder) == 0);
    until("its data is gone", || !Path::new(&folder).exists());
}

fn processes_that_name(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let names = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    processes.filter(|process| names(&process.path())).count()
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !reached() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
