//! `windlass diff app` on a real control plane: any revision, without a controller.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use support::{bench::Bench, told};
use windlass_api::Application;
use windlass_testbed::git::{GitServer, Repo};

/// A hub and a repository.
struct Shop {
    bench: Bench,
    repo: Repo,
    _server: GitServer,
}

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{greeting: {value}}}\n")
}

const SECRET: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {password: hush-hush}\n";

impl Shop {
    async fn new(prefix: &str) -> Self {
        let server = GitServer::start().await.unwrap();
        let settings = config_map("settings", "new");
        let repo = server
            .repo_with_files("shop", &[("app/settings.yaml", &settings), ("app/key.yaml", SECRET)])
            .unwrap();
        Self { bench: Bench::new(prefix).await, repo, _server: server }
    }

    /// An Application that made `gone` before, and a `ConfigMap` that somebody else made.
    async fn application(&self) {
        let (name, apps) = (self.bench.namespace.name(), self.apps());
        let app = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Application", "metadata": { "name": "shop" },
            "spec": {
                "source": { "repoURL": self.repo.url(), "path": "app" },
                "destinations": [{ "cluster": "in-cluster", "namespace": name }],
            },
        });
        apps.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
        let status = json!({ "status": {
            "inventory": [{ "clusters": ["in-cluster"], "objects": [format!("v1/ConfigMap/{name}/gone")] }],
        } });
        apps.patch_status("shop", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let ours = json!({
            "labels": { "windlass.dev/application": "shop" },
            "annotations": { "windlass.dev/owner": format!("{name}/shop") }, "name": "gone",
        });
        self.apply("windlass", &json!({ "metadata": ours, "data": { "greeting": "old" } })).await;
        self.apply("somebody", &json!({ "metadata": { "name": "settings" }, "data": { "greeting": "old" } }))
            .await;
    }

    async fn apply(&self, manager: &str, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("ConfigMap");
        let api: Api<ConfigMap> = Api::namespaced(self.bench.client.clone(), self.bench.namespace.name());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply(manager), &Patch::Apply(&object)).await.unwrap();
    }

    fn apps(&self) -> Api<Application> {
        Api::namespaced(self.bench.client.clone(), self.bench.namespace.name())
    }

    async fn diff(&self, args: &[&str]) -> String {
        let mut command = self.bench.command(&["diff", "app", "shop", "-n", self.bench.namespace.name()]);
        command.args(args).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        tokio::task::spawn_blocking(move || told(&command.output().unwrap())).await.unwrap()
    }
}

fn has(told: &str, expected: &[&str]) {
    for word in expected {
        assert!(told.contains(word), "{word} is missing:\n{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_tells_what_a_revision_would_create_change_and_delete() {
    let shop = Shop::new("diff-app").await;
    shop.application().await;
    let name = shop.bench.namespace.name().to_owned();
    let text = shop.diff(&[]).await;
    has(
        &text,
        &[
            "exit code: 0",
            "in-cluster: 1 to create, 1 to change, 1 to delete",
            &format!("~ ConfigMap {name}/settings"),
            "data.greeting: \"old\" → \"new\"",
            "set by somebody",
            &format!("+ Secret {name}/key"),
            &format!("- ConfigMap {name}/gone"),
        ],
    );
    assert!(!text.contains("hush"), "{text}");
    // Nothing was done.
    let maps: Api<ConfigMap> = Api::namespaced(shop.bench.client.clone(), &name);
    assert_eq!(maps.get("settings").await.unwrap().data.unwrap()["greeting"], "old");
    assert!(maps.get_opt("gone").await.unwrap().is_some());

    let shown = shop.diff(&["-o", "markdown", "--exit-code"]).await;
    has(&shown, &["exit code: 1", "| in-cluster | 1 | 1 | 1 | 0 | 0 |", "- **delete** `ConfigMap"]);
    let shown = shop.diff(&["-o", "json"]).await;
    has(&shown, &["\"action\": \"Create\"", "\"action\": \"Delete\"", "\"manager\": \"somebody\""]);
    assert!(!shown.contains("hush") && !shown.contains("aHVzaC"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_tells_when_deletions_would_wait_and_acts_as_the_account_of_the_controller() {
    let shop = Shop::new("diff-app-budget").await;
    shop.application().await;
    let none = json!({ "spec": { "sync": { "deletionBudget": { "maxObjects": 0, "maxPercent": 0 } } } });
    shop.apps().patch("shop", &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    let text = shop.diff(&[]).await;
    has(&text, &["1 of 1 objects would not be deleted", "deletionBudget", "windlass approve"]);
    // An account that may do nothing: what would be applied as it is refused.
    let text = shop.diff(&["--default-service-account", "nobody"]).await;
    has(&text, &["refused by", "nobody"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_takes_any_revision_or_a_checkout_and_tells_what_would_be_refused() {
    let shop = Shop::new("diff-app-rev").await;
    shop.application().await;
    let name = shop.bench.namespace.name().to_owned();
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 70000}]}\n";
    shop.repo.branch("feature").unwrap();
    shop.repo.commit("A port").on("feature").file("app/web.yaml", service).write().unwrap();
    let text = shop.diff(&["--revision", "feature"]).await;
    has(&text, &[&format!("+ Service {name}/web"), "refused by", "70000", "1 refused"]);
    // What is followed has no Service.
    assert!(!shop.diff(&[]).await.contains("Service"));

    let checkout = shop.bench.home.path().join("checkout");
    std::fs::create_dir_all(checkout.join("app")).unwrap();
    std::fs::write(checkout.join("app/extra.yaml"), config_map("extra", "hello")).unwrap();
    let text = shop.diff(&["--path", checkout.to_str().unwrap()]).await;
    has(&text, &[&format!("+ ConfigMap {name}/extra")]);
    assert!(!text.contains(&format!("{name}/settings")), "{text}");

    let text = shop.diff(&["--revision", "nowhere"]).await;
    has(&text, &["exit code: 1", "cannot be compared", "nowhere", "hint:"]);
}
