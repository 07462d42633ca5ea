use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, api::GroupVersionKind, client::Body};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

/// An API server that knows some documents and counts what it is asked.
fn server(documents: BTreeMap<&'static str, (u16, Value)>) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let (code, body) =
            documents.get(request.uri().path()).cloned().unwrap_or((404, json!({"kind": "Status"})));
        async move {
            Ok::<_, BoxError>(
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
            )
        }
    });
    (Client::new(service, "default"), asked)
}

fn core() -> Value {
    json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""}, "versions": [
        {"version": "v1", "freshness": "Current", "resources": [
            {"resource": "secrets", "scope": "Namespaced", "verbs": ["get", "list", "watch", "patch", "delete"],
             "responseKind": {"group": "", "version": "", "kind": "Secret"}},
        ]},
    ]}]})
}

fn aggregated() -> BTreeMap<&'static str, (u16, Value)> {
    let widgets = |version: &str| {
        json!({"version": version, "freshness": "Current", "resources": [
            {"resource": "widgets", "scope": "Cluster", "verbs": ["get"], "responseKind": {"kind": "Widget"},
             "subresources": [{"subresource": "status", "verbs": ["patch"]}]},
        ]})
    };
    let groups = json!({"kind": "APIGroupDiscoveryList", "items": [
        {"metadata": {"name": "shop.example.org"}, "versions": [widgets("v1"), widgets("v1beta1")]},
        {"metadata": {"name": "empty.example.org"}, "versions": [{"version": "v1", "freshness": "Current"}]},
        {"metadata": {"name": "down.example.org"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
        {"metadata": {"name": "half.example.org"}, "versions": [
            {"version": "v1", "freshness": "Stale", "resources": [
                {"resource": "things", "verbs": ["get"], "responseKind": {"kind": "Thing"}}]}]},
    ]});
    BTreeMap::from([("/api", (200, core())), ("/apis", (200, groups))])
}

fn gvk(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(group, version, kind)
}

#[tokio::test]
async fn a_group_that_is_down_is_unknown_and_an_empty_one_is_absent() {
    let (client, asked) = server(aggregated());
    let discovered = discover(&client).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert!(
        matches!(discovered.lookup(&gvk("", "v1", "Secret")), Lookup::Found(s) if s.namespaced && s.is_manageable())
    );
    assert_eq!(discovered.lookup(&gvk("empty.example.org", "v1", "Widget")), Lookup::Absent);
    assert_eq!(discovered.lookup(&gvk("nowhere.example.org", "v1", "Widget")), Lookup::Absent);
    for version in ["v1", "v2"] {
        let found = discovered.lookup(&gvk("down.example.org", version, "Widget"));
        assert!(matches!(found, Lookup::Unknown(_)), "{found:?}");
    }
    assert!(matches!(discovered.preferred("down.example.org", "Widget"), Lookup::Unknown(_)));
    let failed: Vec<&String> = discovered.failed().keys().collect();
    assert_eq!(failed, ["down.example.org/v1", "half.example.org/v1"]);
    // What is remembered of a group that is down can still be named, with a mark.
    assert!(
        matches!(discovered.lookup(&gvk("half.example.org", "v1", "Thing")), Lookup::Found(s) if s.stale)
    );
    assert!(matches!(discovered.lookup(&gvk("half.example.org", "v1", "Other")), Lookup::Unknown(_)));
}

#[tokio::test]
async fn the_preferred_version_is_the_first_that_is_listed() {
    let (client, _) = server(aggregated());
    let discovered = discover(&client).await.unwrap();
    let Lookup::Found(served) = discovered.preferred("shop.example.org", "Widget") else {
        panic!("not found")
    };
    assert_eq!(served.resource.api_version, "shop.example.org/v1");
    assert!(!served.namespaced);
    assert!(served.subresources["status"].contains("patch"));
    assert_eq!(discovered.versions("shop.example.org", "Widget").count(), 2);
}

#[tokio::test]
async fn without_aggregation_a_failed_group_is_unknown_all_the_same() {
    let resources = |names: &[(&str, &str)]| {
        let list: Vec<Value> = names
            .iter()
            .map(|(name, kind)| {
                json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "patch"]})
            })
            .collect();
        json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": list})
    };
    let version =
        |name: &str, version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let group = |name: &str, versions: &[&str]| {
        let all: Vec<Value> = versions.iter().map(|v| version(name, v)).collect();
        json!({"name": name, "versions": all, "preferredVersion": version(name, versions[versions.len() - 1])})
    };
    let (client, _) = server(BTreeMap::from([
        ("/api", (200, json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))),
        (
            "/api/v1",
            (200, resources(&[("pods", "Pod"), ("pods/status", "Pod"), ("pods/exec", "PodExecOptions")])),
        ),
        (
            "/apis",
            (
                200,
                json!({"kind": "APIGroupList", "groups": [group("apps", &["v1beta1", "v1"]), group("down", &["v1"])]}),
            ),
        ),
        ("/apis/apps/v1", (200, resources(&[("deployments", "Deployment")]))),
        ("/apis/apps/v1beta1", (200, resources(&[("deployments", "Deployment")]))),
        ("/apis/down/v1", (503, json!({"kind": "Status"}))),
    ]));
    let discovered = discover(&client).await.unwrap();
    let Lookup::Found(pod) = discovered.lookup(&gvk("", "v1", "Pod")) else { panic!("no pods") };
    assert_eq!(pod.subresources.keys().collect::<Vec<_>>(), ["exec", "status"]);
    let Lookup::Found(deployment) = discovered.preferred("apps", "Deployment") else {
        panic!("no deployments")
    };
    assert_eq!(deployment.resource.version, "v1");
    assert!(matches!(discovered.lookup(&gvk("down", "v1", "Thing")), Lookup::Unknown(_)));
    assert_eq!(discovered.lookup(&gvk("apps", "v1", "Thing")), Lookup::Absent);
}

#[tokio::test]
async fn what_is_no_kubernetes_is_an_error() {
    let (client, _) = server(BTreeMap::from([("/api", (200, json!({"hello": "world"})))]));
    assert_eq!(discover(&client).await.unwrap_err().category(), "NotKubernetes");
    let (client, _) = server(BTreeMap::from([("/api", (403, json!({})))]));
    assert_eq!(discover(&client).await.unwrap_err().category(), "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn the_cache_asks_once_until_told_or_until_a_kind_is_missing() {
    let (client, asked) = server(aggregated());
    let cache = DiscoveryCache::new(client, Duration::from_mins(10));
    let asked = || asked.load(Ordering::SeqCst) / 2;
    let secret = gvk("", "v1", "Secret");
    let (one, two) = tokio::join!(cache.lookup(&secret), cache.lookup(&secret));
    assert!(matches!((one.unwrap(), two.unwrap()), (Lookup::Found(_), Lookup::Found(_))));
    assert_eq!(asked(), 1);
    assert_eq!(cache.lookup(&gvk("", "v1", "Absent")).await.unwrap(), Lookup::Absent);
    assert_eq!(asked(), 1, "just asked");
    tokio::time::advance(Duration::from_secs(6)).await;
    cache.lookup(&secret).await.unwrap();
    assert_eq!(asked(), 1, "known kinds are remembered");
    assert_eq!(cache.lookup(&gvk("", "v1", "Absent")).await.unwrap(), Lookup::Absent);
    assert_eq!(asked(), 2, "missing kinds are asked for again");
    cache.invalidate();
    cache.get().await.unwrap();
    assert_eq!(asked(), 3);
    tokio::time::advance(Duration::from_mins(11)).await;
    cache.get().await.unwrap();
    assert_eq!(asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_hangs_does_not_hold_up_the_others() {
    let version = json!({"groupVersion": "slow/v1", "version": "v1"});
    let group = json!({"name": "slow", "versions": [version], "preferredVersion": version});
    let documents = BTreeMap::from([
        ("/api", json!({"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []})),
        ("/apis", json!({"kind": "APIGroupList", "groups": [group]})),
    ]);
    let service = service_fn(move |request: Request<Body>| {
        let answer = documents.get(request.uri().path()).map(|body| body.to_string().into_bytes());
        async move {
            match answer {
                Some(body) => Ok::<_, BoxError>(Response::new(Body::from(body))),
                None => futures::future::pending().await,
            }
        }
    });
    let discovered = discover(&Client::new(service, "default")).await.unwrap();
    assert!(matches!(discovered.lookup(&gvk("slow", "v1", "Thing")), Lookup::Unknown(_)));
}
