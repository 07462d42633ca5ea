//! Where objects come from, and how news of it travels.

use serde_json::json;
use windlass_cluster::requests::{Code, Verb};
use windlass_testbed::git::Kind;

use crate::{
    house::{House, config_map, deployment},
    stack::{Make, Stack},
};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-chart'}\ndata: {value: '{{ .Values.word }}'}\n";

#[tokio::test]
async fn plain_kustomize_and_helm_from_one_repository_become_healthy() {
    let house = House::new(
        "sources",
        &[
            ("plain/all.yaml", &(config_map("plain", "1") + &deployment("idle", 0))),
            ("built/kustomization.yaml", "resources: [base.yaml]\nnamePrefix: built-\n"),
            ("built/base.yaml", &config_map("base", "2")),
            ("chart/Chart.yaml", CHART),
            ("chart/templates/a.yaml", TEMPLATE),
        ],
    )
    .await;
    house.app("plain", "plain", json!({})).await;
    house.app("built", "built", json!({})).await;
    house.app("charted", "chart", json!({ "source": { "helm": { "values": { "word": "three" } } } })).await;
    for (app, map, value) in
        [("plain", "plain", "1"), ("built", "built-base", "2"), ("charted", "charted-chart", "three")]
    {
        let status = house.healthy(app).await;
        assert_eq!(house.get("v1/ConfigMap", map).await.unwrap()["data"]["value"], value, "{app}");
        assert_eq!(status.cluster_summary.as_deref(), Some("1/1"));
        assert_eq!(status.history.len(), 1, "{:?}", status.history);
    }
    let live = house.get("apps/v1/Deployment", "idle").await.unwrap();
    let owner = &live["metadata"]["annotations"]["windlass.dev/owner"];
    assert_eq!(*owner, format!("{}/plain", house.namespace.name()));
}

#[tokio::test]
async fn a_push_reaches_the_cluster_and_an_unrelated_commit_touches_nothing() {
    let house =
        House::new("pushes", &[("a/a.yaml", &config_map("a", "1")), ("b/b.yaml", &config_map("b", "1"))])
            .await;
    house.app("a", "a", json!({})).await;
    house.healthy("a").await;
    let before = house.get("v1/ConfigMap", "a").await.unwrap();
    let line = house.status("a").await.clusters[0].clone();

    house.push(&[("b/b.yaml", Some(&config_map("b", "2")))]);
    let status = house.healthy("a").await;
    let after = house.get("v1/ConfigMap", "a").await.unwrap();
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(status.clusters[0].synced_at, line.synced_at);
    assert_eq!(status.history.len(), 1, "an unrelated commit is no deployment: {:?}", status.history);

    house.push(&[("a/a.yaml", Some(&config_map("a", "2")))]);
    house.healthy("a").await;
    assert_eq!(house.get("v1/ConfigMap", "a").await.unwrap()["data"]["value"], "2");
}

#[tokio::test]
async fn a_secret_encrypted_with_sops_arrives_decrypted_and_its_text_nowhere_else() {
    let encrypted = include_str!("../data/sops/secret.yaml");
    let house = House::new("sops", &[("secret.yaml", encrypted)]).await;
    let shop = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    house.apply("test", &shop).await;
    let over = json!({
        "source": { "decryption": { "provider": "sops", "secretRef": { "name": "keys" } } },
        "destinations": [{ "cluster": "in-cluster", "namespace": house.namespace.name(), "allowedNamespaces": ["shop"] }],
    });
    house.app("secrets", "", over).await;
    let message = house.says("secrets", "SecretNotFound").await;
    assert!(message.contains("keys"), "{message}");
    assert!(house.get_in("shop", "v1/Secret", "db").await.is_none());

    // The missing secret appears, and it heals by itself.
    let keys = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": house.namespace.name() },
        "stringData": { "test.agekey": include_str!("../data/sops/test.agekey") },
    });
    house.apply("test", &keys).await;
    let status = house.healthy("secrets").await;
    let live = house.get_in("shop", "v1/Secret", "db").await.unwrap();
    let password = live["data"]["password"].as_str().unwrap();
    assert_eq!(
        base64::Engine::decode(&base64::prelude::BASE64_STANDARD, password).unwrap(),
        b"planted-plaintext-1"
    );
    let told = serde_json::to_string(&status).unwrap() + &house.stack.metrics();
    for planted in ["planted-plaintext", "cGxhbnRlZC", "AGE-SECRET-KEY"] {
        assert!(!told.contains(planted), "{told}");
    }
}

#[tokio::test]
async fn twenty_applications_share_one_fetch_and_a_commit_for_one_is_work_for_one() {
    let make = Make { name: Some("sharing".to_owned()), ..Make::default() };
    let stack: &'static Stack = Box::leak(Box::new(Stack::start(make).await));
    let house = House::on(stack, "sharing", &[("start.txt", "x")], Some("sharing".to_owned())).await;
    let names: Vec<String> = (0..20).map(|at| format!("app-{at}")).collect();
    let files: Vec<(String, String)> =
        names.iter().map(|name| (format!("{name}/map.yaml"), config_map(name, "1"))).collect();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    house.repo.commit_files(&files, "all").unwrap();
    for name in &names {
        house.app(name, name, json!({ "sync": { "interval": "1h" } })).await;
    }
    for name in &names {
        house.healthy(name).await;
    }
    let fetches = || house.repo.count(Kind::UploadPack);
    assert_eq!(fetches(), 1, "one fetch for all");
    assert_eq!(stack.renderer.counts().renders, 20);

    // One file of one of them: one fetch, one render, one object.
    let worked = |stack: &Stack| {
        let text = stack.metrics();
        let line =
            text.lines().find(|line| line.starts_with("windlass_deliver_objects_total{result=\"done\"}"));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
    };
    assert_eq!(worked(stack), 20);
    let reads = || stack.requests.count(Verb::Get, Code::of(http::StatusCode::OK));
    house.push(&[("app-3/map.yaml", Some(&config_map("app-3", "2")))]);
    for name in &names {
        house.healthy(name).await;
    }
    assert_eq!(house.get("v1/ConfigMap", "app-3").await.unwrap()["data"]["value"], "2");
    assert_eq!((fetches(), stack.renderer.counts().renders, worked(stack)), (2, 21, 21));

    // A file of nobody: nothing is rendered, read or applied.
    let before = reads();
    house.push(&[("readme.md", Some("hello"))]);
    for name in &names {
        house.healthy(name).await;
    }
    assert_eq!((fetches(), stack.renderer.counts().renders, worked(stack)), (3, 21, 21));
    assert_eq!(reads(), before, "no object was read");
    for name in &names {
        house.apps().delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    for name in &names {
        house.gone("v1/ConfigMap", name).await;
    }
}
