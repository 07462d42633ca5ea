//! On a real control plane: what the API server itself decides.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt,
    api::{DeleteParams, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::Cluster;
use windlass_cluster::connect::{ClientCache, Credentials, KubeconfigPolicy, Limits};
use windlass_deliver::{
    cluster::{Network, SecretNamespaces},
    fleet::{Contact, Fleet, FleetOptions, HubConnector, Link, Wake},
    tracking,
};
use windlass_manifest::{diff, digest::digest, health::Status};
use windlass_testbed::control_plane::{ControlPlane, User};

use crate::common::{Woken, app, apply, collection, config_map, gvk, key, link, meddle, path, until};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_drift_is_seen_by_event_and_the_owner_is_woken() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (client, woken) = (control_plane.admin(), Woken::default());
    let namespace = control_plane.namespace("drift").await.unwrap();
    let object = config_map(&namespace, "a", &app("shop", "drift"));
    let link = link("here", client.clone(), &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    link.index().saw(&apply(&client, &object).await);
    let wanted = digest(&diff::comparable(&object));
    assert_eq!(link.index().get(&key(&object)).unwrap().owned, wanted);
    let ours = |woken: &Woken| {
        woken.take().into_iter().filter(|wake| *wake == Wake::App(app("shop", "drift"))).count()
    };
    ours(&woken);

    meddle(&client, &object, "", &json!({ "metadata": { "annotations": { "theirs": "x" } } })).await;
    let edited = meddle(&client, &object, "", &json!({ "data": { "k": "2" } })).await;
    let begin = std::time::Instant::now();
    let version = edited["metadata"]["resourceVersion"].as_str().unwrap();
    until("the edit", || link.index().get(&key(&object)).unwrap().version == version).await;
    println!("drift was seen after {:?}", begin.elapsed());
    assert_ne!(link.index().get(&key(&object)).unwrap().owned, wanted);
    assert_eq!(ours(&woken), 1, "for the edit of our field, not for the foreign annotation");

    link.index().saw(&apply(&client, &object).await);
    assert_eq!(link.index().get(&key(&object)).unwrap().owned, wanted);
}

#[tokio::test]
async fn an_object_that_loses_our_label_is_no_longer_known_and_comes_back_with_it() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (client, woken) = (control_plane.admin(), Woken::default());
    let namespace = control_plane.namespace("label").await.unwrap();
    let object = config_map(&namespace, "a", &app("shop", "label"));
    apply(&client, &object).await;
    let link = link("here", client.clone(), &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    assert!(link.index().get(&key(&object)).is_some());
    meddle(&client, &object, "", &json!({ "metadata": { "labels": { tracking::LABEL: null } } })).await;
    until("the label is gone", || link.index().get(&key(&object)).is_none()).await;
    until("the wake", || woken.take().contains(&Wake::App(app("shop", "label")))).await;
    link.index().saw(&apply(&client, &object).await);
    assert!(link.index().get(&key(&object)).is_some(), "the same object, with its label again");
    meddle(&client, &object, "", &json!({ "metadata": { "annotations": { tracking::OWNER: null } } })).await;
    until("the owner is gone", || link.index().get(&key(&object)).is_some_and(|live| live.owner.is_none()))
        .await;
    until("the wake", || woken.take().contains(&Wake::App(app("shop", "label")))).await;
}

#[tokio::test]
async fn health_follows_the_status_and_a_deletion_is_seen() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (client, woken) = (control_plane.admin(), Woken::default());
    let namespace = control_plane.namespace("health").await.unwrap();
    let mut object = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "disk", "namespace": &*namespace },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1024Mi" } } } });
    tracking::mark(&mut object, &app("shop", "health"));
    let link = link("here", client.clone(), &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    link.index().saw(&apply(&client, &object).await);
    let live = || link.index().get(&key(&object));
    assert_eq!(live().unwrap().owned, digest(&diff::comparable(&object)), "1024Mi is stored as 1Gi");
    until("the phase", || live().is_some_and(|live| live.health.status == Status::Progressing)).await;
    woken.take();
    let lost = json!({ "status": { "phase": "Lost" } });
    meddle(&client, &object, "/status", &lost).await;
    until("it is lost", || live().is_some_and(|live| live.health.status == Status::Degraded)).await;
    until("the wake", || woken.take().contains(&Wake::App(app("shop", "health")))).await;
    let request = http::Request::delete(path(&object)).body(Vec::new()).unwrap();
    client.request::<Value>(request).await.unwrap();
    until("it goes", || live().is_none_or(|live| live.deleting)).await;
    until("the wake", || woken.take().contains(&Wake::App(app("shop", "health")))).await;
}

/// A definition for a test of its own.
fn definition(group: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

#[tokio::test]
async fn a_kind_that_comes_is_watched_and_one_that_goes_is_not() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (client, woken) = (control_plane.admin(), Woken::default());
    let namespace = control_plane.namespace("gadgets").await.unwrap();
    let group = format!("{}.example.org", &*namespace);
    let gadget = GroupVersionKind::gvk(&group, "v1", "Gadget");
    let link = link("here", client.clone(), &woken);
    let kinds = [gadget.clone()];
    link.index().ensure(&kinds, PATIENCE).await.unwrap();
    assert!(!link.index().is_watched(&gadget));
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition(&group)).unwrap();
    api.create(&PostParams::default(), &definition).await.unwrap();
    for _ in 0..120 {
        link.discovery().invalidate();
        link.index().ensure(&kinds, PATIENCE).await.unwrap();
        if link.index().is_watched(&gadget) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(link.index().is_watched(&gadget));
    let mut object = json!({ "apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": { "name": "a", "namespace": &*namespace }, "spec": { "size": 0, "free": { "x": [] } } });
    tracking::mark(&mut object, &app("shop", "gadgets"));
    link.index().saw(&apply(&client, &object).await);
    let live = link.index().get(&key(&object)).unwrap();
    assert_eq!(live.owned, digest(&diff::comparable(&object)));
    api.delete(&format!("gadgets.{group}"), &DeleteParams::default()).await.unwrap();
    until("the kind goes", || !link.index().is_watched(&gadget)).await;
    assert!(link.index().get(&key(&object)).is_none());
    until("the wake", || woken.take().contains(&Wake::App(app("shop", "gadgets")))).await;
}

async fn create(client: &Client, object: &Value) -> kube::Result<Value> {
    let request = http::Request::post(collection(object))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request(request).await
}

#[tokio::test]
async fn a_request_for_a_tenant_can_do_no_more_than_its_account() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let admin = control_plane.admin();
    let namespace = control_plane.namespace("tenant").await.unwrap();
    let user = format!("system:serviceaccount:{}:deployer", &*namespace);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "deployer", "namespace": &*namespace },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"] }] });
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "deployer", "namespace": &*namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer" },
        "subjects": [{ "kind": "ServiceAccount", "name": "deployer", "namespace": &*namespace }] });
    create(&admin, &role).await.unwrap();
    create(&admin, &binding).await.unwrap();
    let link = link("here", admin.clone(), &Woken::default());
    let tenant = link.acting_as(Some(&user));
    let object = config_map(&namespace, "a", &app("shop", "tenant"));
    let mut made = create(&tenant, &object).await;
    for _ in 0..100 {
        if made.is_ok() {
            break;
        }
        // Roles are known to the authorizer a moment later.
        tokio::time::sleep(Duration::from_millis(100)).await;
        made = create(&tenant, &object).await;
    }
    made.unwrap();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": &*namespace } });
    let Err(kube::Error::Api(status)) = create(&tenant, &secret).await else { panic!("it may not") };
    assert!(status.code == 403 && status.message.contains(&user), "{}", status.message);
    create(&link.acting_as(None), &secret).await.unwrap();

    let Err(kube::Error::Service(error)) = create(&link.acting_as(Some("")), &object).await else {
        panic!("a user without a name is nobody")
    };
    assert!(error.to_string().contains("empty"), "{error}");
    let taken = Contact { impersonates: true, ..Contact::fixed(admin) };
    let taken = Link::new("here", taken, Woken::default().wakes(), &FleetOptions::default());
    let refused = create(&taken.acting_as(Some(&user)), &object).await;
    assert!(matches!(refused, Err(kube::Error::Service(_))), "{refused:?}");
}

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    // Another test of this program may have been first.
    drop(api.create(&PostParams::default(), &Cluster::crd()).await);
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(api, Cluster::crd_name(), established);
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap().unwrap();
}

/// The real connector: a Cluster by the kubeconfig in a Secret, one client with the Cluster controller's cache.
#[tokio::test]
async fn a_registered_cluster_is_reached_with_the_kubeconfig_of_its_secret() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let (hub, woken) = (control_plane.admin(), Woken::default());
    install(&hub).await;
    let namespace = control_plane.namespace("fleet").await.unwrap();
    let own = control_plane.kubeconfig_path(&User::Admin).unwrap();
    let network = Arc::new(Network {
        cache: ClientCache::new(KubeconfigPolicy::default(), None),
        own: Credentials::File { path: Some(own), context: None },
    });
    let allowed = SecretNamespaces::Only(BTreeSet::from([namespace.to_string()]));
    let connector =
        HubConnector::new(hub.clone(), Arc::clone(&network), &*namespace, allowed, Limits::default());
    let options = FleetOptions { recheck: Duration::from_secs(1), ..FleetOptions::default() };
    let fleet = Arc::new(Fleet::new(hub.clone(), connector, woken.wakes(), options));
    let stop = CancellationToken::new();
    let (running, end) = (Arc::clone(&fleet), stop.clone());
    let running = tokio::spawn(async move { running.run(end).await });
    let mut warm = fleet.warm();
    tokio::time::timeout(PATIENCE, warm.wait_for(|warm| *warm)).await.unwrap().unwrap();
    assert!(fleet.link("in-cluster").is_ok());

    let name = namespace.to_string();
    let kubeconfig = serde_saphyr::to_string(&control_plane.kubeconfig(&User::Admin).unwrap()).unwrap();
    let secret = |text: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "kube", "namespace": &*namespace },
            "stringData": { "kubeconfig": text } })
    };
    apply(&hub, &secret(&kubeconfig)).await;
    let cluster = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name, "labels": { "tier": "test" } },
        "spec": { "kubeconfig": { "secretRef": { "name": "kube" } } } });
    let made = create(&hub, &cluster).await.unwrap();
    let reason = || {
        let member = fleet.members().into_iter().find(|member| member.name == name)?;
        Some(member.trouble.map_or("", |trouble| trouble.reason))
    };
    until("it is seen", || reason() == Some("ClusterNotReady")).await;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "Reachable",
        "message": "", "observedGeneration": made["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    meddle(&hub, &cluster, "/status", &status).await;
    until("it is connected", || fleet.link(&name).is_ok()).await;
    let first = fleet.link(&name).unwrap();
    let object = config_map(&namespace, "a", &app("shop", "fleet"));
    first.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    assert!(network.cache.len() >= 2, "the clients are those of the shared cache");

    // The same kubeconfig written otherwise is another client; a broken one is none.
    apply(&hub, &secret(&format!("# rotated\n{kubeconfig}"))).await;
    until("the rotation", || fleet.link(&name).is_ok_and(|link| !Arc::ptr_eq(&link, &first))).await;
    apply(&hub, &secret("no kubeconfig")).await;
    until("it is refused", || reason().is_some_and(|reason| !matches!(reason, "" | "ClusterNotReady"))).await;
    let request = http::Request::delete(path(&cluster)).body(Vec::new()).unwrap();
    hub.request::<Value>(request).await.unwrap();
    until("it goes", || reason().is_none()).await;
    stop.cancel();
    running.await.unwrap();
}
