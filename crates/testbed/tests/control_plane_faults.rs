//! Parts of a control plane stopped, killed, frozen; several side by side; audit events.
//!
//! Each of these tests has control planes of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use support::https::Listener;
use support::{config_map, eventually};
use windlass_testbed::control_plane::{AuditWebhook, Component, ControlPlane};

#[tokio::test]
async fn data_survives_a_restart_of_the_api_server_and_a_kill_of_etcd() {
    let control_plane = ControlPlane::start().await.unwrap();
    let url = control_plane.url();
    let maps: Api<ConfigMap> = Api::default_namespaced(control_plane.admin());
    maps.create(&PostParams::default(), &config_map("kept", "1")).await.unwrap();

    control_plane.stop_apiserver().await.unwrap();
    assert!(!control_plane.is_running(Component::Apiserver));
    assert!(maps.get("kept").await.is_err());
    control_plane.start_apiserver().await.unwrap();
    assert_eq!(control_plane.url(), url);
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["key"], "1");

    // The last write before a kill is the one that is lost when data is not written at once.
    maps.create(&PostParams::default(), &config_map("last", "2")).await.unwrap();
    control_plane.kill_etcd().await.unwrap();
    let (params, object) = (PostParams::default(), config_map("no", "3"));
    let while_down = tokio::time::timeout(Duration::from_secs(5), maps.create(&params, &object)).await;
    assert!(!matches!(while_down, Ok(Ok(_))), "{while_down:?}");
    control_plane.start_etcd().await.unwrap();
    assert_eq!(maps.get("last").await.unwrap().data.unwrap()["key"], "2");

    // The controllers go on by themselves: a Deployment still gets its ReplicaSet.
    for component in [Component::ControllerManager, Component::Scheduler] {
        assert!(control_plane.is_running(component), "{component} did not live through it");
    }
    let deployments: Api<Deployment> = Api::default_namespaced(control_plane.admin());
    deployments.create(&PostParams::default(), &deployment("after")).await.unwrap();
    let sets: Api<ReplicaSet> = Api::default_namespaced(control_plane.admin());
    eventually("a ReplicaSet", || async {
        sets.list(&ListParams::default()).await.ok().filter(|list| !list.items.is_empty())
    })
    .await;
}

#[tokio::test]
async fn a_frozen_api_server_answers_nothing_until_it_goes_on() {
    let control_plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(control_plane.admin());
    maps.list(&ListParams::default()).await.unwrap();
    control_plane.pause(Component::Apiserver).unwrap();
    assert!(control_plane.is_running(Component::Apiserver));
    let silence = tokio::time::timeout(Duration::from_secs(2), maps.list(&ListParams::default())).await;
    assert!(silence.is_err(), "{silence:?}");
    control_plane.resume(Component::Apiserver).unwrap();
    eventually("an answer", || async { maps.list(&ListParams::default()).await.ok() }).await;
}

#[tokio::test]
async fn control_planes_run_side_by_side() {
    let (one, two) = tokio::join!(
        ControlPlane::builder().name("one").start(),
        ControlPlane::builder().name("two").start()
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.url(), two.url());
    assert_ne!(one.ca_pem(), two.ca_pem());
    let (maps_one, maps_two): (Api<ConfigMap>, Api<ConfigMap>) =
        (Api::default_namespaced(one.admin()), Api::default_namespaced(two.admin()));
    maps_one.create(&PostParams::default(), &config_map("only-in-one", "1")).await.unwrap();
    assert!(maps_two.get_opt("only-in-one").await.unwrap().is_none());

    let (logs, pid) = (one.log_dir().to_owned(), one.pid(Component::Apiserver).unwrap());
    drop(one);
    assert!(!logs.exists(), "logs are left");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the API server is left");
    maps_two.list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn audit_events_reach_a_webhook() {
    let listener = Listener::start(|_: &Value| json!({})).await;
    let webhook = AuditWebhook::new(&listener.url).ca(&listener.ca_pem);
    let control_plane = ControlPlane::builder().audit_webhook(webhook).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(control_plane.admin());
    maps.create(&PostParams::default(), &config_map("watched", "1")).await.unwrap();
    let event = eventually("the audit event", || async {
        let lists = listener.seen();
        let mut events = lists.iter().flat_map(|list| list["items"].as_array().cloned().unwrap_or_default());
        events.find(|event| event["objectRef"]["name"] == "watched" && event["verb"] == "create")
    })
    .await;
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["responseStatus"]["code"], 201);
    assert_eq!(event["requestObject"]["data"]["key"], "1");
}

#[tokio::test]
async fn a_wrong_flag_is_told_with_the_log_folder() {
    let error = ControlPlane::builder().apiserver_arg("--no-such-flag").start().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("no-such-flag") && text.contains("logs are in"), "{text}");
    let folder = text.split("logs are in ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    assert!(std::path::Path::new(folder).join("kube-apiserver.log").exists(), "{folder}");
    std::fs::remove_dir_all(folder).unwrap();

    let error = ControlPlane::builder().audit_webhook("http://127.0.0.1:1/").start().await.unwrap_err();
    assert!(format!("{error:#}").contains("https"), "{error:#}");
}

#[tokio::test]
async fn logs_are_kept_and_named_when_a_test_fails() {
    for inner in ["fails_with_a_control_plane_of_its_own", "fails_with_the_shared_control_plane"] {
        let this = std::env::current_exe().unwrap();
        let output = tokio::process::Command::new(this)
            .args(["--ignored", "--exact", inner])
            .env(FAIL_ON_PURPOSE, "1")
            .output()
            .await
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert_eq!(text.matches("logs of control plane").count(), 1, "{text}");
        let line = text.lines().find(|line| line.contains("logs of control plane")).unwrap();
        let folder = std::path::Path::new(line.rsplit_once(": ").unwrap().1);
        assert!(folder.join("kube-apiserver.log").exists(), "{line}");
        let pid = text.split("API server ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        eventually("the API server ends", || async {
            (!std::path::Path::new("/proc").join(pid).exists()).then_some(())
        })
        .await;
        std::fs::remove_dir_all(folder).unwrap();
    }
}

const FAIL_ON_PURPOSE: &str = "WINDLASS_TEST_FAIL_ON_PURPOSE";

#[tokio::test]
#[ignore = "run by logs_are_kept_and_named_when_a_test_fails"]
async fn fails_with_a_control_plane_of_its_own() {
    let control_plane = ControlPlane::start().await.unwrap();
    let pid = control_plane.pid(Component::Apiserver).unwrap();
    assert!(std::env::var_os(FAIL_ON_PURPOSE).is_none(), "API server {pid} on purpose");
}

#[tokio::test]
#[ignore = "run by logs_are_kept_and_named_when_a_test_fails"]
async fn fails_with_the_shared_control_plane() {
    let pid = ControlPlane::shared().await.unwrap().pid(Component::Apiserver).unwrap();
    assert!(std::env::var_os(FAIL_ON_PURPOSE).is_none(), "API server {pid} on purpose");
}

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "example" }] },
            },
        },
    }))
    .unwrap()
}
