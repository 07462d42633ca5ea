//! What the contract suite cannot ask of a real server: lost history, virtual time, the direct surface.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api as KubeApi, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};

use super::*;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "1"}})).unwrap()
}

async fn request(client: &kube::Client, path: &str) -> Result<Value, kube::Error> {
    client.request(::http::Request::get(path).body(Vec::new()).unwrap()).await
}

fn status_of(result: Result<Value, kube::Error>) -> Box<kube::core::Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_expires_with_the_history() {
    let api = Api::new();
    let client = api.client("test");
    let config_maps: KubeApi<ConfigMap> = KubeApi::namespaced(client.clone(), "default");
    for name in ["a", "b", "c"] {
        config_maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let first = config_maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    api.delete("other", ("v1", "ConfigMap", "default", "b")).unwrap();
    api.compact();
    let next = config_maps.list(&ListParams::default().limit(5).continue_token(&token)).await;
    let Err(kube::Error::Api(status)) = next else { panic!("{next:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    // The answer has a token that goes on without consistency.
    let token = status.metadata.unwrap().continue_.unwrap();
    let rest = config_maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.iter().map(|item| item.metadata.name.clone().unwrap()).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn old_and_coming_versions_are_refused() {
    let api = Api::new();
    let client = api.client("test");
    let version = api.version();
    let list = "/api/v1/namespaces/default/configmaps";
    let status = status_of(request(&client, &format!("{list}?resourceVersion={}", version + 100)).await);
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    assert_eq!(status.details.unwrap().causes[0].reason, "ResourceVersionTooLarge");
    api.create(
        "x",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}),
    )
    .unwrap();
    api.compact();
    let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(status_of(request(&client, &path).await).code, 410);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let api = Api::new();
    let client = api.client("test");
    let path = "/api/v1/namespaces/default/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=150";
    let start = tokio::time::Instant::now();
    let lines = client.request_stream(::http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let mut lines = lines.lines();
    let mut seen = Vec::new();
    while let Some(line) = lines.try_next().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        seen.push((
            start.elapsed().as_secs(),
            event.pointer("/object/metadata/resourceVersion").cloned().unwrap(),
        ));
        if seen.len() == 1 {
            // Bookmarks show progress that is not in this watch.
            api.create("x", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}))
                .unwrap();
        }
    }
    assert_eq!(seen.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [60, 120, 148]);
    assert_ne!(seen[0].1, seen[1].1);
    assert_eq!(start.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_recovers_from_lost_history() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api = Api::new();
        let client = api.client("test");
        let config_maps: KubeApi<ConfigMap> = KubeApi::namespaced(client, "default");
        let mut objects = watcher(config_maps.clone(), config).default_backoff().applied_objects().boxed();
        config_maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        let name =
            |found: Option<Result<ConfigMap, watcher::Error>>| found.unwrap().unwrap().metadata.name.unwrap();
        assert_eq!(name(objects.next().await), "a");
        // The watch breaks, and what happened since is forgotten.
        config_maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
        api.drop_watches();
        api.compact();
        let mut names = Vec::new();
        while !names.contains(&"b".to_owned()) {
            if let Some(Ok(found)) = objects.next().await {
                names.push(found.metadata.name.unwrap());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_who_wrote_what() {
    let api = Api::new();
    let client = api.client("my-controller/1.0");
    let config_maps: KubeApi<ConfigMap> = KubeApi::namespaced(client, "default");
    let made = config_maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let same = PatchParams::apply("deliver");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}});
    config_maps.patch("a", &same, &Patch::Apply(&object)).await.unwrap();
    config_maps.patch("a", &same, &Patch::Apply(&object)).await.unwrap();
    let uid = made.metadata.uid.unwrap();
    let wrong = Preconditions { uid: Some("no".into()), resource_version: None };
    config_maps.delete("a", &DeleteParams::default().preconditions(wrong)).await.unwrap_err();
    let right = Preconditions { uid: Some(uid.clone()), resource_version: None };
    config_maps.delete("a", &DeleteParams::default().preconditions(right)).await.unwrap();
    let lines: Vec<String> = api
        .writes()
        .iter()
        .map(|write| {
            format!(
                "{} {} {} {} {} {}",
                write.seq, write.manager, write.verb, write.name, write.code, write.changed
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "1 my-controller create a 201 true",
            "2 deliver apply a 200 true",
            "3 deliver apply a 200 false",
            "4 my-controller delete a 409 false",
            "5 my-controller delete a 200 true"
        ]
    );
    assert!(api.writes().iter().all(|write| write.uid == uid && write.resource == "configmaps"));
    assert_eq!(api.writes()[4].preconditions.0.as_ref(), Some(&uid));
}

#[tokio::test(start_paused = true)]
async fn garbage_is_collected_on_demand_when_asked_to() {
    let api = Api::new();
    api.set_automatic_gc(false);
    let make = |name: &str, owner: Option<&Value>| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]);
        }
        api.create("test", &object).unwrap()
    };
    let owner = make("owner", None);
    make("child", Some(&owner));
    api.delete("test", ("v1", "ConfigMap", "default", "owner")).unwrap();
    assert!(api.get("v1", "ConfigMap", "default", "child").is_some());
    api.collect_garbage();
    assert!(api.get("v1", "ConfigMap", "default", "child").is_none());
    assert_eq!(api.writes().last().unwrap().manager, "kube-controller-manager");
    api.delete("test", ("v1", "Namespace", "", "default")).unwrap();
    assert_eq!(api.get("v1", "Namespace", "", "default").unwrap()["status"]["phase"], "Terminating");
    api.collect_garbage();
    assert!(api.get("v1", "Namespace", "", "default").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_objects_along() {
    let api = Api::new();
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    }))
    .unwrap();
    api.install_crd(&definition).unwrap();
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "finalizers": ["example.com/hold"]}});
    api.create("test", &thing).unwrap();
    let name = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.example.com");
    api.delete("test", name).unwrap();
    let held = api.get("example.com/v1", "Thing", "default", "a").unwrap();
    assert!(held.pointer("/metadata/deletionTimestamp").is_some());
    let release = |object: &mut Value| object["metadata"]["finalizers"] = json!([]);
    api.mutate("test", ("example.com/v1", "Thing", "default", "a"), release).unwrap();
    assert_eq!(api.get(name.0, name.1, name.2, name.3), None);
    assert_eq!(api.create("test", &thing).unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn time_is_virtual_and_seeds_decide_identifiers() {
    let api = Api::new();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-", "namespace": "default"}});
    let first = api.create("test", &object).unwrap();
    assert_eq!(first["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let second = api.create("test", &object).unwrap();
    assert_eq!(second["metadata"]["creationTimestamp"], "2026-01-01T01:00:00Z");
    let time: TimeSource = Arc::new(Timestamp::default);
    let made = |seed: u64| Api::with_seed(seed, time.clone()).create("test", &object).unwrap();
    assert_eq!(made(7), made(7));
    assert_ne!(made(7)["metadata"]["uid"], made(8)["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_leaves_out_what_differs_by_chance() {
    let ends = |order: [&str; 2]| {
        let api = Api::new();
        for name in order {
            let owner = api
                .create("t", &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}))
                .unwrap();
            let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": name, "uid": owner["metadata"]["uid"]}]}});
            api.create("t", &child).unwrap();
        }
        api
    };
    let (one, two) = (ends(["a", "b"]), ends(["b", "a"]));
    assert_ne!(one.objects(), two.objects());
    assert_eq!(one.snapshot(), two.snapshot());
    two.mutate("t", ("v1", "Secret", "default", "a"), |secret| secret["data"] = json!({"x": "eA=="}))
        .unwrap();
    assert_ne!(one.snapshot(), two.snapshot());
}

#[tokio::test(start_paused = true)]
async fn impersonation_is_written_down() {
    let api = Api::new();
    let client = api.client("test");
    let body =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}).to_string().into_bytes();
    let request = ::http::Request::post("/api/v1/namespaces/default/secrets")
        .header("impersonate-user", "dev-a")
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    client.request::<Secret>(request).await.unwrap();
    assert_eq!(api.writes()[0].user.as_deref(), Some("dev-a"));
}
