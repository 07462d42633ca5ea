//! Discovery on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use http::{HeaderValue, Request, header::ACCEPT};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{DeleteParams, GroupVersionKind, PostParams},
    client::{Body, ClientBuilder},
};
use serde_json::json;
use tower::util::MapRequestLayer;
use windlass_cluster::discover::{Discovered, DiscoveryCache, Lookup, discover};
use windlass_testbed::control_plane::{ControlPlane, User};

const PATIENCE: Duration = Duration::from_secs(90);

async fn eventually(client: &Client, what: &str, holds: impl Fn(&Discovered) -> bool) -> Discovered {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let discovered = discover(client).await.unwrap();
        if holds(&discovered) {
            return discovered;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}: {:?}", discovered.failed());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn api_service(group: &str, namespace: &str) -> APIService {
    serde_json::from_value(json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": namespace, "name": "nowhere", "port": 443}},
    }))
    .unwrap()
}

fn definition(group: &str) -> CustomResourceDefinition {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1beta1", false), version("v1", true)]},
    }))
    .unwrap()
}

#[tokio::test]
async fn a_group_whose_backend_is_down_is_never_absent() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    let namespace = control_plane.namespace("discover").await.unwrap();
    let group = format!("{}.example.org", namespace.name());
    let gvk = GroupVersionKind::gvk(&group, "v1", "Widget");
    assert_eq!(discover(&client).await.unwrap().lookup(&gvk), Lookup::Absent);

    let services: Api<APIService> = Api::all(client.clone());
    services.create(&PostParams::default(), &api_service(&group, &namespace)).await.unwrap();
    let name = format!("{group}/v1");
    let discovered = eventually(&client, "the group is down", |d| d.failed().contains_key(&name)).await;
    assert!(matches!(discovered.lookup(&gvk), Lookup::Unknown(_)), "{:?}", discovered.lookup(&gvk));
    assert!(matches!(discovered.preferred(&group, "Widget"), Lookup::Unknown(_)));
    // The rest is not touched by it.
    assert!(matches!(
        discovered.lookup(&GroupVersionKind::gvk("apps", "v1", "Deployment")),
        Lookup::Found(_)
    ));
    assert_eq!(discovered.lookup(&GroupVersionKind::gvk("apps", "v1", "Widget")), Lookup::Absent);
    // Nor does the old way of asking take it for absent.
    let old = discover(&without_aggregation(control_plane)).await.unwrap();
    assert!(matches!(old.lookup(&gvk), Lookup::Unknown(_)), "{:?}", old.lookup(&gvk));

    services.delete(&format!("v1.{group}"), &DeleteParams::default()).await.unwrap();
    eventually(&client, "the group is gone", |d| d.lookup(&gvk) == Lookup::Absent).await;
}

/// A client that cannot ask for aggregated discovery, as before 1.26.
fn without_aggregation(control_plane: &ControlPlane) -> Client {
    let mut config = control_plane.config(&User::Admin).unwrap();
    // kube would repeat a 503 for minutes; clients made by `connect` do not.
    config.default_retry = false;
    ClientBuilder::try_from(config)
        .unwrap()
        .with_layer(&MapRequestLayer::new(|mut request: Request<Body>| {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
            request
        }))
        .build()
}

#[tokio::test]
async fn both_ways_of_asking_find_the_same() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let new = discover(&control_plane.admin()).await.unwrap();
    let old = discover(&without_aggregation(control_plane)).await.unwrap();
    // Groups of the other tests come and go meanwhile.
    let kinds = |discovered: &Discovered| -> BTreeSet<String> {
        discovered
            .all()
            .filter(|served| !served.resource.group.ends_with("example.org"))
            .map(|s| format!("{:?} {} {:?} {:?}", s.resource, s.namespaced, s.verbs, s.subresources))
            .collect()
    };
    let (new, old) = (kinds(&new), kinds(&old));
    assert!(new.len() > 50, "{}", new.len());
    assert_eq!(new.symmetric_difference(&old).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test]
async fn a_new_kind_is_seen_and_a_removed_one_goes() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    let namespace = control_plane.namespace("discover").await.unwrap();
    let group = format!("{}.example.org", namespace.name());
    let cache = DiscoveryCache::new(client.clone(), Duration::from_hours(1));
    assert_eq!(cache.preferred(&group, "Widget").await.unwrap(), Lookup::Absent);

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition(&group)).await.unwrap();
    let found = |d: &Discovered| matches!(d.preferred(&group, "Widget"), Lookup::Found(_));
    let discovered = eventually(&client, "the kind is served", found).await;
    let Lookup::Found(widget) = discovered.preferred(&group, "Widget") else { panic!("not found") };
    assert_eq!((widget.resource.version.as_str(), widget.resource.plural.as_str()), ("v1", "widgets"));
    assert!(widget.namespaced && widget.is_manageable() && widget.subresources.contains_key("status"));
    assert_eq!(discovered.versions(&group, "Widget").count(), 2);
    cache.invalidate();
    assert!(matches!(cache.preferred(&group, "Widget").await.unwrap(), Lookup::Found(_)));

    definitions.delete(&format!("widgets.{group}"), &DeleteParams::default()).await.unwrap();
    eventually(&client, "the kind is gone", |d| d.preferred(&group, "Widget") == Lookup::Absent).await;
}
