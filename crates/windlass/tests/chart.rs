//! The chart: rendered and installed by the real helm, and the controller run with the rights that it gives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use support::{
    controller::{Replica, SOON},
    eventually,
    fleet::Fleet,
    root, told,
};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    process::{Port, ScratchDir},
    tools::{self, Tool},
};

fn helm(scratch: &Path, args: &[&str]) -> Output {
    Command::new(tools::path(Tool::Helm).unwrap())
        .args(args)
        .current_dir(root())
        .env("HELM_CACHE_HOME", scratch.join("cache"))
        .env("HELM_CONFIG_HOME", scratch.join("config"))
        .env("HELM_DATA_HOME", scratch.join("data"))
        .output()
        .unwrap()
}

/// Renders the chart with values set as on a command line.
fn render(set: &[&str]) -> Result<Vec<Value>, String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut args = vec!["template", "wl", "charts/windlass", "--namespace", "apps"];
    for value in set {
        args.extend(["--set-json", value]);
    }
    let output = helm(scratch.path(), &args);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

/// The rules of all roles, as `resource: verb` with the role's namespace before a slash.
fn rules(documents: &[Value]) -> Vec<String> {
    let mut rules = Vec::new();
    for role in documents
        .iter()
        .filter(|document| document["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))
    {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().unwrap() {
            let named = if rule["resourceNames"].is_null() { "" } else { " (named)" };
            for resource in rule["resources"].as_array().unwrap() {
                let verbs: Vec<&str> =
                    rule["verbs"].as_array().unwrap().iter().map(|verb| verb.as_str().unwrap()).collect();
                rules.push(format!("{namespace}/{}{named}: {}", resource.as_str().unwrap(), verbs.join(" ")));
            }
        }
    }
    rules
}

const WITHOUT_ROLLOUTS: &str = "controllers.rollout.enabled=false";

#[test]
fn rights_are_as_small_as_what_is_switched_on() {
    insta::assert_snapshot!(rules(&render(&[]).unwrap()).join("\n"), @r"
    */clusters: get list watch patch
    */clusters/status: patch
    */applications: get list watch patch update
    */applications/status: patch update
    */applications/finalizers: update
    */analysisruns: get list watch create
    */analysistemplates: get list watch
    */clusteranalysistemplates: get list watch
    */rollouts: get list watch patch update
    */rollouts/status: patch update
    */analysisruns/status: patch update
    */experiments/status: patch update
    */rollouts/finalizers: update
    */analysisruns/finalizers: update
    */experiments/finalizers: update
    */analysisruns: get list watch create patch update delete
    */experiments: get list watch create patch update delete
    */analysistemplates: get list watch
    */clusteranalysistemplates: get list watch
    */replicasets: get list watch create patch update delete
    */deployments: get list watch patch
    */pods: get list watch patch
    */pods/eviction: create
    */services: get list watch create patch delete
    */httproutes: get list watch patch
    */grpcroutes: get list watch patch
    */jobs: get list watch create patch delete
    */events: create patch
    */validatingwebhookconfigurations (named): get list watch patch
    apps/leases: list watch create update delete
    apps/secrets: create
    apps/secrets (named): get list watch update
    apps/secrets (named): get list watch
    apps/secrets: get list watch
    ");
    let two = [r#"secretNamespaces=["a","b"]"#, "webhook.enabled=false", WITHOUT_ROLLOUTS];
    let two = render(&two).unwrap();
    insta::assert_snapshot!(rules(&two).join("\n"), @r"
    */clusters: get list watch patch
    */clusters/status: patch
    */applications: get list watch patch update
    */applications/status: patch update
    */applications/finalizers: update
    */analysisruns: get list watch create
    */analysistemplates: get list watch
    */clusteranalysistemplates: get list watch
    */events: create patch
    apps/leases: list watch create update delete
    apps/secrets (named): get list watch
    a/secrets: get list watch
    b/secrets: get list watch
    ");
    let all = [r#"secretNamespaces=["*"]"#, "webhook.certManager.enabled=true", WITHOUT_ROLLOUTS];
    let all = render(&all).unwrap();
    insta::assert_snapshot!(rules(&all).join("\n"), @r"
    */clusters: get list watch patch
    */clusters/status: patch
    */applications: get list watch patch update
    */applications/status: patch update
    */applications/finalizers: update
    */analysisruns: get list watch create
    */analysistemplates: get list watch
    */clusteranalysistemplates: get list watch
    */secrets: get list watch
    */events: create patch
    apps/leases: list watch create update delete
    apps/secrets (named): get list watch
    ");
    let tenants = rules(&render(&["applications.impersonate=true", "hooks.enabled=false"]).unwrap());
    assert!(tenants.contains(&"*/serviceaccounts: impersonate".to_owned()), "{tenants:?}");
    assert!(!tenants.contains(&"apps/secrets (named): get list watch".to_owned()), "{tenants:?}");
    let own = [
        r#"applications.rights=[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get","patch"]}]"#,
    ];
    let own = rules(&render(&own).unwrap());
    assert!(own.contains(&"*/deployments: get patch".to_owned()), "{own:?}");
    let none = ["controllers.deliver.enabled=false", "webhook.enabled=false", WITHOUT_ROLLOUTS];
    let none = render(&none).unwrap();
    insta::assert_snapshot!(rules(&none).join("\n"), @"apps/leases: list watch create update delete");
    assert!(rules(&render(&["rbac.create=false"]).unwrap()).is_empty());
}

#[test]
fn no_rule_has_a_star_and_every_object_has_the_labels() {
    for set in
        [vec![], vec![r#"secretNamespaces=["*"]"#, "networkPolicy.enabled=true", "autoscaling.enabled=true"]]
    {
        let documents = render(&set).unwrap();
        for rule in rules(&documents) {
            assert!(!rule.trim_start_matches("*/").contains('*'), "{rule}");
        }
        for document in &documents {
            let labels = &document["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/part-of"], "windlass", "{}", document["kind"]);
        }
    }
}

#[test]
fn optional_parts_come_and_go() {
    let kinds = |set: &[&str]| -> Vec<String> {
        let mut kinds: Vec<String> = render(set)
            .unwrap()
            .iter()
            .map(|document| document["kind"].as_str().unwrap().to_owned())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    let default = kinds(&[]);
    for kind in
        ["Deployment", "PodDisruptionBudget", "CustomResourceDefinition", "ValidatingWebhookConfiguration"]
    {
        assert!(default.contains(&kind.to_owned()), "{kind}");
    }
    for (set, kind) in [
        ("networkPolicy.enabled", "NetworkPolicy"),
        ("autoscaling.enabled", "HorizontalPodAutoscaler"),
        ("metrics.serviceMonitor.enabled", "ServiceMonitor"),
        ("webhook.certManager.enabled", "Certificate"),
    ] {
        assert!(!default.contains(&kind.to_owned()), "{kind}");
        assert!(kinds(&[&format!("{set}=true")]).contains(&kind.to_owned()), "{kind}");
    }
    for (set, kind) in [
        ("crds.install", "CustomResourceDefinition"),
        ("podDisruptionBudget.enabled", "PodDisruptionBudget"),
        ("webhook.enabled", "ValidatingWebhookConfiguration"),
        ("serviceAccount.create", "ServiceAccount"),
    ] {
        assert!(!kinds(&[&format!("{set}=false")]).contains(&kind.to_owned()), "{kind}");
    }
    let hooks = |set: &[&str]| {
        let documents = render(set).unwrap();
        of_kind(&documents, "Service").iter().any(|service| service["metadata"]["name"] == "wl-hooks")
    };
    assert!(hooks(&[]) && !hooks(&["hooks.enabled=false"]) && !hooks(&["controllers.deliver.enabled=false"]));
    let claim = render(&[r#"workDir.existingClaim="mirrors""#]).unwrap();
    let volumes = &of_kind(&claim, "Deployment")[0]["spec"]["template"]["spec"]["volumes"];
    let work = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "work").unwrap();
    assert_eq!(work["persistentVolumeClaim"]["claimName"], "mirrors");
    let scaled = render(&["autoscaling.enabled=true"]).unwrap();
    assert!(
        of_kind(&scaled, "Deployment")[0]["spec"]["replicas"].is_null(),
        "the autoscaler owns the number"
    );
}

#[test]
fn crds_stay_when_the_release_goes() {
    let documents = render(&[]).unwrap();
    let crds = of_kind(&documents, "CustomResourceDefinition");
    assert_eq!(crds.len(), windlass_api::crds::all().len());
    for crd in crds {
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (set, named) in [
        ("replicas=\"two\"", "replicas"),
        ("replica=3", "replica"),
        ("config={\"leaderElection\":true}", "leaderElection"),
        ("config={\"leaseRenew\":\"soon\"}", "leaseRenew"),
        ("webhook.failurePolicy=\"Perhaps\"", "failurePolicy"),
        ("secretNamespaces=[\"Not_A_Name\"]", "secretNamespaces"),
        ("image.digest=\"md5:1\"", "digest"),
    ] {
        let refusal = render(&[set]).unwrap_err();
        assert!(refusal.contains(named), "{set}: {refusal}");
    }
}

/// The settings that the chart writes are settings that the binary takes, whatever the values.
#[test]
fn the_binary_takes_the_config_of_every_variant() {
    for set in [
        vec![],
        vec![r#"secretNamespaces=["*"]"#],
        vec!["controllers.deliver.enabled=false"],
        vec!["webhook.certManager.enabled=true"],
        vec![
            r#"applications.defaultServiceAccount="deployer""#,
            "applications.allowCrossNamespaceDependencies=true",
            r#"hooks.secret="our-hooks""#,
        ],
        vec!["webhook.enabled=false", r#"config={"shards":3,"logLevel":"debug","leaseDuration":"20s"}"#],
    ] {
        let documents = render(&set).unwrap();
        let text = of_kind(&documents, "ConfigMap")[0]["data"]["windlass.yaml"].as_str().unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("windlass.yaml"), text).unwrap();
        let output = support::windlass(home.path())
            .args(["controller", "--print-config", "--config=windlass.yaml"])
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{set:?}: {}", told(&output));
        let config: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
        assert_eq!(config["namespace"], "apps");
        if set.is_empty() {
            assert_eq!(
                config["controllers"],
                json!(["analysisrun", "application", "cluster", "experiment", "rollout"])
            );
        }
    }
}

/// A release on a real control plane.
struct Release {
    plane: &'static ControlPlane,
    scratch: ScratchDir,
    kubeconfig: PathBuf,
}

const NAMESPACE: &str = "windlass-system";

impl Release {
    async fn install(plane: &'static ControlPlane) -> Self {
        let scratch = ScratchDir::new("chart").unwrap();
        let kubeconfig = plane.kubeconfig_path(&User::Admin).unwrap();
        let release = Self { plane, scratch, kubeconfig };
        // The strictest of the pod security standards, enforced.
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
        });
        let namespaces: Api<Namespace> = Api::all(plane.admin());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        release.helm(&["install", "windlass", "charts/windlass"]);
        release
    }

    fn helm(&self, args: &[&str]) {
        let kubeconfig = self.kubeconfig.display().to_string();
        let args: Vec<&str> =
            args.iter().copied().chain(["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig]).collect();
        let output = helm(self.scratch.path(), &args);
        assert!(output.status.success(), "helm {args:?}: {}", told(&output));
    }

    /// The controller as the Deployment would run it: its config, its account, its rights. Only the addresses are those
    /// of a test, and the API server calls the webhook by URL because there is no pod network.
    async fn controller(&self, webhook: &Port) -> Replica {
        let configs: Api<ConfigMap> = Api::namespaced(self.plane.admin(), NAMESPACE);
        let config = configs.get("windlass").await.unwrap().data.unwrap().remove("windlass.yaml").unwrap();
        let path = self.scratch.path().join("windlass.yaml");
        std::fs::write(&path, config).unwrap();
        let account = self.plane.service_account(NAMESPACE, "windlass").await.unwrap();
        let kubeconfig = self.scratch.path().join("account.kubeconfig");
        std::fs::write(&kubeconfig, serde_saphyr::to_string(&account).unwrap()).unwrap();
        let url = format!("https://127.0.0.1:{}", webhook.number());
        Replica::start(support::controller::Start {
            kubeconfig: &kubeconfig,
            namespace: NAMESPACE,
            identity: "pod-0",
            args: vec![
                format!("--config={}", path.display()),
                format!("--webhook-address=127.0.0.1:{}", webhook.number()),
                format!("--webhook-url={url}"),
                "--hooks-address=127.0.0.1:0".to_owned(),
                format!("--work-dir={}", self.scratch.path().join("work").display()),
            ],
        })
    }

    /// Points the chart's webhook at a process on this machine. Gives what it pointed to before.
    async fn redirect_webhook(&self, webhook: &Port) -> Value {
        let before = self.client_config().await["service"].clone();
        let url = format!("https://127.0.0.1:{}/admit/clusters", webhook.number());
        self.patch_webhook(&json!([
            { "op": "remove", "path": "/webhooks/0/clientConfig/service" },
            { "op": "add", "path": "/webhooks/0/clientConfig/url", "value": url },
        ]))
        .await;
        before
    }

    /// Points the webhook at its Service again.
    async fn restore_webhook(&self, service: &Value) {
        self.patch_webhook(&json!([
            { "op": "remove", "path": "/webhooks/0/clientConfig/url" },
            { "op": "add", "path": "/webhooks/0/clientConfig/service", "value": service },
        ]))
        .await;
    }

    async fn client_config(&self) -> Value {
        let found = self.webhooks().get("windlass-system-windlass").await.unwrap();
        serde_json::to_value(&found.webhooks.unwrap()[0].client_config).unwrap()
    }

    async fn patch_webhook(&self, patch: &Value) {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch.clone()).unwrap());
        self.webhooks().patch("windlass-system-windlass", &PatchParams::default(), &patch).await.unwrap();
    }

    fn webhooks(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.plane.admin())
    }

    async fn wait_for_bundle(&self) {
        eventually("the caBundle is published", SOON, || async {
            let found =
                self.webhooks().get("windlass-system-windlass").await.map_err(|error| error.to_string())?;
            let webhooks = found.webhooks.unwrap_or_default();
            let bundle =
                webhooks[0].client_config.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty());
            if bundle { Ok(()) } else { Err("no caBundle".to_owned()) }
        })
        .await;
    }
}

#[tokio::test]
async fn the_chart_installs_runs_with_its_own_rights_upgrades_and_leaves_the_crds() {
    let plane = ControlPlane::shared().await.unwrap();
    let release = Release::install(plane).await;
    pods_are_admitted(plane).await;
    let webhook = Port::free().unwrap();
    let service = release.redirect_webhook(&webhook).await;
    let mut replica = release.controller(&webhook).await;
    replica.ready().await;
    release.wait_for_bundle().await;

    let fleet = Fleet { client: plane.admin(), namespace: NAMESPACE.to_owned() };
    let admin = std::fs::read_to_string(plane.kubeconfig_path(&User::Admin).unwrap()).unwrap();
    fleet.register("good", &admin).await;
    fleet.wait("good", "True", SOON).await;
    fleet.create("own", &json!({ "inCluster": {} })).await.unwrap();
    fleet.wait("own", "True", SOON).await;
    webhook_refuses(&fleet).await;
    examples_are_taken(&fleet).await;

    for name in ["good", "own"] {
        fleet.clusters().delete(name, &DeleteParams::default()).await.unwrap();
        fleet.gone(name, SOON).await;
    }
    let forbidden = replica.metric("windlass_api_requests_total", &["code=\"403\""]).await;
    assert!(forbidden < 1.0, "{forbidden} requests were refused:\n{}", replica.log());
    let log = replica.log().to_lowercase();
    assert!(!log.contains("forbidden") && !log.contains("\"level\":\"error\""), "{log}");
    replica.child.stop().unwrap();

    release.restore_webhook(&service).await;
    let before = release.client_config().await;
    release.helm(&["upgrade", "windlass", "charts/windlass", "--set", "replicas=3"]);
    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), NAMESPACE);
    assert_eq!(deployments.get("windlass").await.unwrap().spec.unwrap().replicas, Some(3));
    assert_eq!(release.client_config().await, before, "the caBundle is not the chart's to change");
    release.helm(&["uninstall", "windlass"]);
    let crds: Api<CustomResourceDefinition> = Api::all(plane.admin());
    for crd in windlass_api::crds::all() {
        let left = crds.get(&crd.name_any()).await.unwrap();
        assert!(left.metadata.deletion_timestamp.is_none(), "{} goes with the release", crd.name_any());
    }
}

/// The pod security admission lets the pods in: the `ReplicaSet` controller could make all of them.
async fn pods_are_admitted(plane: &ControlPlane) {
    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), NAMESPACE);
    eventually("the pods are made", SOON, || async {
        let deployment = deployments.get("windlass").await.map_err(|error| error.to_string())?;
        let status = deployment.status.unwrap_or_default();
        if status.replicas == Some(2) { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
    })
    .await;
}

async fn webhook_refuses(fleet: &Fleet) {
    let elsewhere = json!({ "kubeconfig": { "secretRef": { "name": "s", "namespace": "kube-system" } } });
    // The API server may still be learning the caBundle, and lets everything in until then.
    let message = eventually("a Secret elsewhere is refused", Duration::from_secs(30), || async {
        match fleet.create("elsewhere", &elsewhere).await {
            Err(kube::Error::Api(status)) => Ok(status.message.clone()),
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                let _ = fleet.clusters().delete("elsewhere", &DeleteParams::default()).await;
                fleet.gone("elsewhere", SOON).await;
                Err("let in".to_owned())
            }
        }
    })
    .await;
    assert!(message.contains("clusters.windlass.dev"), "{message}");
    assert!(message.contains("does not read Secrets in namespace kube-system"), "{message}");
}

/// What the examples say is what the API server takes.
async fn examples_are_taken(fleet: &Fleet) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut taken = 0;
    for entry in std::fs::read_dir(root().join("examples/clusters")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for document in serde_saphyr::from_multiple::<windlass_api::Cluster>(&text).unwrap() {
            match fleet.clusters().create(&dry, &document).await {
                Ok(_) => taken += 1,
                // The webhook is asked too, and this installation reads Secrets in its own namespace only.
                Err(kube::Error::Api(status)) if status.message.contains("namespace fleet") => taken += 1,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
    assert!(taken >= 3, "{taken}");
}
