//! Applying and deleting on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_cluster::apply::{ApplyError, ApplyOptions, Deleted, Outcome, apply, delete_exact};
use windlass_testbed::control_plane::{ControlPlane, User};

const PATIENCE: Duration = Duration::from_secs(90);

fn config_map(name: &str, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data,
    }))
    .unwrap()
}

fn us() -> ApplyOptions {
    ApplyOptions::new("windlass-test")
}

/// An object of any kind, and the `Api` for it.
fn dynamic(client: &Client, namespace: &str, object: Value) -> (Api<DynamicObject>, DynamicObject) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let types = object.types.clone().unwrap();
    let gvk = GroupVersionKind::try_from(&types).unwrap();
    (Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk)), object)
}

#[tokio::test]
async fn an_apply_tells_creation_change_and_nothing_apart() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("apply").await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(control_plane.admin(), &namespace);
    let one = config_map("a", &json!({"x": "1"}));
    let two = config_map("a", &json!({"x": "2"}));

    assert_eq!(apply(&api, &one, &us().dry_run()).await.unwrap().outcome, Outcome::Created);
    assert!(api.get_opt("a").await.unwrap().is_none(), "a dry run stores nothing");
    let created = apply(&api, &one, &us()).await.unwrap();
    assert_eq!(created.outcome, Outcome::Created);
    assert_eq!(apply(&api, &one, &us()).await.unwrap().outcome, Outcome::Unchanged);
    assert_eq!(apply(&api, &one, &us().dry_run()).await.unwrap().outcome, Outcome::Unchanged);
    let dry = apply(&api, &two, &us().dry_run()).await.unwrap();
    assert_eq!((dry.outcome, dry.object.data.unwrap()["x"].as_str()), (Outcome::Changed, "2"));
    let known = us().live_version(created.object.resource_version());
    assert_eq!(apply(&api, &one, &known).await.unwrap().outcome, Outcome::Unchanged);
    let changed = apply(&api, &two, &known).await.unwrap();
    assert_eq!((changed.outcome, changed.object.data.unwrap()["x"].as_str()), (Outcome::Changed, "2"));

    // What was read can be applied: bookkeeping is left out, and nothing like last-applied is added.
    let live = api.get("a").await.unwrap();
    assert!(live.annotations().is_empty());
    assert!(!live.managed_fields().is_empty());
    let mut again = live.clone();
    again.metadata.resource_version = None;
    assert_eq!(apply(&api, &again, &us()).await.unwrap().outcome, Outcome::Unchanged);
}

#[tokio::test]
async fn a_conflict_names_the_fields_and_their_manager() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("apply").await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(control_plane.admin(), &namespace);
    apply(&api, &config_map("a", &json!({"x": "1", "y": "1"})), &us()).await.unwrap();
    let theirs = PatchParams { field_manager: Some("somebody-else".into()), ..PatchParams::default() };
    api.patch("a", &theirs, &Patch::Merge(json!({"data": {"x": "2"}}))).await.unwrap();

    let ours = config_map("a", &json!({"x": "3", "y": "1"}));
    let error = apply(&api, &ours, &us()).await.unwrap_err();
    let ApplyError::Conflict { fields } = &error else { panic!("{error:?}") };
    assert_eq!(fields.len(), 1, "{fields:?}");
    assert_eq!((fields[0].field.as_str(), fields[0].manager.as_str()), (".data.x", "somebody-else"));
    assert_eq!((error.category(), error.is_retryable()), ("Conflict", false));
    assert_eq!(apply(&api, &ours, &us().force()).await.unwrap().outcome, Outcome::Changed);
}

#[tokio::test]
async fn what_the_api_server_refuses_is_sorted() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    let namespace = control_plane.namespace("apply").await.unwrap();
    let refused = async |object: Value| {
        let (api, object) = dynamic(&client, &namespace, object);
        let error = apply(&api, &object, &us()).await.unwrap_err();
        assert!(!error.is_transient(), "{error:?}");
        error
    };

    let unknown =
        refused(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dta": {}})).await;
    let ApplyError::UnknownField { field, .. } = &unknown else { panic!("{unknown:?}") };
    assert!(field.ends_with("dta") && !unknown.is_retryable(), "{unknown:?}");

    let deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deep = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template, "replcas": 1});
    assert_eq!(refused(deployment(deep)).await.category(), "UnknownField");
    let negative = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template, "replicas": -1});
    let invalid = refused(deployment(negative)).await;
    let ApplyError::Invalid { causes, .. } = &invalid else { panic!("{invalid:?}") };
    assert!(causes.iter().any(|cause| cause.field == "spec.replicas"), "{causes:?}");
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": ["x"]});
    assert_eq!(refused(wrong).await.category(), "Invalid");

    let absent =
        refused(json!({"apiVersion": "nowhere.example.org/v1", "kind": "Widget", "metadata": {"name": "a"}}));
    assert_eq!(absent.await.category(), "UnknownKind");
    let nowhere: Api<ConfigMap> = Api::namespaced(client.clone(), "no-such-namespace");
    let error = apply(&nowhere, &config_map("a", &json!({})), &us()).await.unwrap_err();
    assert_eq!(error.category(), "NotFound", "{error:?}");

    let developer = control_plane.client(&User::named("dev-apply")).unwrap();
    let theirs: Api<ConfigMap> = Api::namespaced(developer, &namespace);
    let error = apply(&theirs, &config_map("a", &json!({})), &us()).await.unwrap_err();
    assert_eq!((error.category(), error.is_retryable()), ("Forbidden", false), "{error:?}");

    let huge = config_map("huge", &json!({"x": "y".repeat(2 * 1024 * 1024)}));
    let here: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let error = apply(&here, &huge, &us()).await.unwrap_err();
    assert!(!error.is_retryable(), "{}", error.category());
}

#[tokio::test]
async fn values_of_a_secret_are_not_in_the_error() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("apply").await.unwrap();
    for data in
        [json!({"a": 424_242_421}), json!({"a": "canary-not-base64"}), json!({"a": ["canary-in-a-list"]})]
    {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": data});
        let (api, object) = dynamic(&control_plane.admin(), &namespace, object);
        let error = apply(&api, &object, &us()).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        for value in ["424242421", "canary-not-base64", "canary-in-a-list"] {
            assert!(!shown.contains(value), "{shown}");
        }
    }
    let large = "canary".repeat(300_000);
    let secrets: Api<Secret> = Api::namespaced(control_plane.admin(), &namespace);
    let secret: Secret = serde_json::from_value(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": large}}),
    )
    .unwrap();
    let error = apply(&secrets, &secret, &us()).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"), "{}", error.category());
}

#[tokio::test]
async fn quotas_and_ending_namespaces_may_be_tried_again() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    let namespace = control_plane.namespace("apply").await.unwrap();
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), &namespace);
    let quota: ResourceQuota = serde_json::from_value(
        json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}}),
    )
    .unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    // The quota counts once its controller has seen it.
    let error = eventually(async || {
        let secret: Secret =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "q"}}))
                .unwrap();
        let error = apply(&secrets, &secret, &us()).await.err();
        if error.is_none() {
            secrets.delete("q", &DeleteParams::default()).await.unwrap();
        }
        error.filter(|error| error.category() == "Quota")
    })
    .await;
    assert!(error.is_retryable() && !error.is_transient());

    // Something with a finalizer keeps the namespace from ending.
    let ending = control_plane.namespace("apply-ending").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &ending);
    let mut held = config_map("held", &json!({}));
    held.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    Api::<Namespace>::all(client.clone()).delete(&ending, &DeleteParams::default()).await.unwrap();
    let error = eventually(async || apply(&maps, &config_map("b", &json!({})), &us()).await.err()).await;
    assert_eq!((error.category(), error.is_retryable()), ("Terminating", true), "{error:?}");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &release).await.unwrap();
}

async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "not seen in time");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

#[tokio::test]
async fn a_deletion_never_hits_another_object_of_the_same_name() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("apply").await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(control_plane.admin(), &namespace);
    let first = apply(&api, &config_map("a", &json!({})), &us()).await.unwrap().object;
    let (old_uid, old_version) = (first.uid().unwrap(), first.resource_version().unwrap());
    assert_eq!(delete_exact(&api, "a", &old_uid, Some(&old_version)).await.unwrap(), Deleted::Requested);
    assert_eq!(delete_exact(&api, "a", &old_uid, None).await.unwrap(), Deleted::AlreadyGone);

    let second = apply(&api, &config_map("a", &json!({})), &us()).await.unwrap().object;
    assert_eq!(delete_exact(&api, "a", &old_uid, None).await.unwrap(), Deleted::AlreadyGone);
    let uid = second.uid().unwrap();
    assert_eq!(api.get("a").await.unwrap().uid().unwrap(), uid, "the new object is still there");

    let seen = second.resource_version().unwrap();
    apply(&api, &config_map("a", &json!({"x": "1"})), &us()).await.unwrap();
    let error = delete_exact(&api, "a", &uid, Some(&seen)).await.unwrap_err();
    assert_eq!(error.category(), "Modified", "{error:?}");
    assert!(api.get_opt("a").await.unwrap().is_some(), "a changed object is still there");
    assert_eq!(delete_exact(&api, "a", &uid, None).await.unwrap(), Deleted::Requested);
    assert!(api.get_opt("a").await.unwrap().is_none());
}
