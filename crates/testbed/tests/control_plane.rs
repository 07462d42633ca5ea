//! What every test may rely on, shown on the control plane that tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use support::https::Listener;
use support::{code, config_map, eventually};
use windlass_testbed::control_plane::{ControlPlane, User};
use windlass_testbed::tools::{self, Tool};

#[tokio::test]
async fn version_is_the_promised_one() {
    let version = ControlPlane::shared().await.unwrap().admin().apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
}

#[tokio::test]
async fn users_may_only_do_what_rbac_grants() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("rbac").await.unwrap();
    let dev_a: Api<ConfigMap> =
        Api::namespaced(control_plane.client(&User::named("dev-a")).unwrap(), &namespace);
    let dev_b: Api<ConfigMap> =
        Api::namespaced(control_plane.client(&User::named("dev-b")).unwrap(), &namespace);
    assert_eq!(code(dev_a.list(&ListParams::default()).await), 403);

    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev-a" }],
    }))
    .unwrap();
    let admin = control_plane.admin();
    Api::namespaced(admin.clone(), &namespace).create(&PostParams::default(), &role).await.unwrap();
    Api::namespaced(admin, &namespace).create(&PostParams::default(), &binding).await.unwrap();

    eventually("dev-a may list", || async { dev_a.list(&ListParams::default()).await.ok() }).await;
    assert_eq!(code(dev_a.create(&PostParams::default(), &config_map("a", "1")).await), 403);
    assert_eq!(code(dev_b.list(&ListParams::default()).await), 403);
}

#[tokio::test]
async fn certificates_of_another_authority_are_refused() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespaces = |config| Api::<Namespace>::all(kube::Client::try_from(config).unwrap());

    // A client that trusts another authority does not talk to the server.
    let mut config = control_plane.config(&User::Admin).unwrap();
    config.root_cert = Some(vec![windlass_testbed::pki::Ca::new("other").unwrap().der().to_vec()]);
    let refused = namespaces(config).list(&ListParams::default()).await;
    assert!(!matches!(refused, Ok(_) | Err(kube::Error::Api(_))), "{refused:?}");

    // The server does not take an administrator signed by another authority.
    let mut config = control_plane.config(&User::Admin).unwrap();
    let forged =
        windlass_testbed::pki::Ca::new("other").unwrap().client("admin", Some("system:masters")).unwrap();
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    config.auth_info = serde_json::from_value(json!({
        "client-certificate-data": encode(&forged.cert_pem),
        "client-key-data": encode(&forged.key_pem),
    }))
    .unwrap();
    assert_eq!(code(namespaces(config).list(&ListParams::default()).await), 401);
}

#[tokio::test]
async fn service_accounts_act_by_token() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("token").await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.admin(), &namespace);
    // Created by the controller manager for every namespace.
    eventually("the default ServiceAccount", || async { accounts.get_opt("default").await.unwrap() }).await;

    let kubeconfig = control_plane.service_account(&namespace, "default").await.unwrap();
    let client = ControlPlane::client_from(kubeconfig).await.unwrap();
    let error =
        Api::<ConfigMap>::namespaced(client, &namespace).list(&ListParams::default()).await.unwrap_err();
    let user = format!("system:serviceaccount:{}:default", namespace.name());
    assert!(error.to_string().contains(&user), "{error}");

    let missing = control_plane.service_account(&namespace, "nobody").await.unwrap_err();
    assert!(format!("{missing:#}").contains("nobody"), "{missing:#}");
}

#[tokio::test]
async fn kubeconfig_files_work_for_other_programs() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let kubectl = tokio::task::spawn_blocking(|| tools::path(Tool::Kubectl)).await.unwrap().unwrap();
    let ask = |user: &User| {
        let file = control_plane.kubeconfig_path(user).unwrap();
        let output = Command::new(&kubectl)
            .args([
                "auth",
                "whoami",
                "-o",
                "jsonpath={.status.userInfo.username} {.status.userInfo.groups[0]}",
            ])
            .env("KUBECONFIG", file)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&User::Admin), "admin system:masters");
    assert_eq!(ask(&User::named("dev-a")), "dev-a developers");
    assert_eq!(ask(&User::in_group("dev-a", "ops")), "dev-a ops");
}

#[tokio::test]
async fn admission_webhooks_on_loopback_are_called() {
    fn deny(review: &Value) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": review["request"]["uid"],
                "allowed": false,
                "status": { "message": "not on my watch" },
            },
        })
    }
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("admission").await.unwrap();
    let listener = Listener::start(deny).await;
    let webhook: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": namespace.name() },
        "webhooks": [{
            "name": "deny.testbed.windlass.dev",
            "clientConfig": {
                "url": listener.url,
                "caBundle": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &listener.ca_pem),
            },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"] }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace.name() } },
            "objectSelector": { "matchLabels": { "refuse": "me" } },
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))
    .unwrap();
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.admin());
    webhooks.create(&PostParams::default(), &webhook).await.unwrap();

    let maps: Api<ConfigMap> = Api::namespaced(control_plane.admin(), &namespace);
    let mut number = 0;
    let message = eventually("the webhook refuses", || {
        number += 1;
        let mut object = config_map(&format!("c{number}"), "1");
        object.metadata.labels = Some([("refuse".to_owned(), "me".to_owned())].into());
        let maps = maps.clone();
        async move { maps.create(&PostParams::default(), &object).await.err().map(|error| error.to_string()) }
    })
    .await;
    assert!(message.contains("not on my watch"), "{message}");
    assert_eq!(listener.seen()[0]["request"]["namespace"], namespace.name());
    webhooks.delete(namespace.name(), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn garbage_and_namespaces_are_collected() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let namespace = control_plane.namespace("garbage").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(control_plane.admin(), &namespace);
    let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let mut child = config_map("child", "1");
    child.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: "owner".into(),
        uid: owner.metadata.uid.unwrap(),
        ..OwnerReference::default()
    }]);
    maps.create(&PostParams::default(), &child).await.unwrap();
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    eventually("the child goes with its owner", || async {
        maps.get_opt("child").await.unwrap().is_none().then_some(())
    })
    .await;

    let name = namespace.name().to_owned();
    drop(namespace);
    let namespaces: Api<Namespace> = Api::all(control_plane.admin());
    eventually("the namespace goes with its guard", || async {
        namespaces.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
}
