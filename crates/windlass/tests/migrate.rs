//! `windlass migrate`, as a user meets it: realistic inputs, a real API server, the real kustomize.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use support::{assert_current, eventually, fleet::install_crds, root, told, windlass};
use windlass_testbed::{
    control_plane::{ControlPlane, User},
    tools::{self, Tool},
};

const FOLDER: &str = "crates/windlass/tests/migrate";

fn input(tool: &str) -> String {
    std::fs::read_to_string(root().join(FOLDER).join(format!("{tool}.yaml"))).unwrap()
}

fn piped(args: &[&str], input: &str) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut child = windlass(home.path())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn documents(yaml: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(yaml).unwrap();
    serde_saphyr::from_multiple(text).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Output and report as they were reviewed.
fn converts_as_reviewed(tool: &str) {
    let output = piped(&["migrate", tool, "-f", "-"], &input(tool));
    assert!(output.status.success(), "{}", told(&output));
    let yaml = String::from_utf8(output.stdout.clone()).unwrap();
    assert_current(&format!("{FOLDER}/{tool}.out.yaml"), &yaml);
    assert_current(&format!("{FOLDER}/{tool}.report.txt"), &stderr(&output));
}

#[test]
fn applications_of_argo_cd_are_carried_over_field_by_field() {
    converts_as_reviewed("argocd");
}

#[test]
fn kustomizations_and_releases_of_flux_are_carried_over_field_by_field() {
    converts_as_reviewed("flux");
}

#[test]
fn rollouts_are_carried_over_and_what_cannot_be_is_told_by_name() {
    converts_as_reviewed("argo-rollouts");
    let output = piped(&["migrate", "argo-rollouts", "-f", "-"], &input("argo-rollouts"));
    let objects = documents(&output.stdout);
    assert_eq!(objects.len(), 4, "two templates, two Rollouts");
    assert!(objects.iter().all(|object| object["apiVersion"] == "windlass.dev/v1alpha1"));
    let find = |name: &str| objects.iter().find(|object| object["metadata"]["name"] == name).unwrap();
    let web = find("web");
    assert_eq!(
        web["spec"]["strategy"]["canary"]["trafficRouting"],
        json!({ "gatewayAPI": { "httpRoute": "web" } })
    );
    assert!(web["metadata"]["annotations"].is_null() && web["status"].is_null(), "{web}");
    assert_eq!(find("errors")["spec"]["metrics"][0]["failureLimit"], 2);
    assert!(
        find("legacy")["spec"]["strategy"]["canary"]["trafficRouting"]["istio"].is_object(),
        "refused, not dropped"
    );
    let report = stderr(&output);
    for word in [
        "istio",
        "plugin",
        "datadog",
        "untilLunch",
        "notifications.argoproj.io",
        "rollouts-pod-template-hash",
    ] {
        assert!(report.contains(word), "{word}: {report}");
    }
    assert!(report.contains("Taking over without a gap in service:"), "{report}");
}

#[test]
fn the_report_never_shows_a_secret() {
    for tool in ["argocd", "flux"] {
        let report = stderr(&piped(&["migrate", tool, "-f", "-"], &input(tool)));
        assert!(report.contains("Not carried over"), "{report}");
        assert!(!report.contains("planted") && !report.contains("UExBTlRFRA"), "{report}");
    }
}

#[test]
fn strict_makes_what_is_left_behind_an_error_and_produces_nothing() {
    let output = piped(&["migrate", "argocd", "-f", "-", "--strict"], &input("argocd"));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("things could not be carried over"), "{}", told(&output));

    let whole = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a, namespace: b}\nspec:\n  \
                 source: {repoURL: https://git.example.com/a.git, path: a, directory: {recurse: true}}\n  \
                 destination: {server: https://kubernetes.default.svc}\n";
    let output = piped(&["migrate", "argocd", "-f", "-", "--strict"], whole);
    assert!(output.status.success(), "{}", told(&output));
    assert!(stderr(&output).contains("Everything was carried over."), "{}", told(&output));
}

#[test]
fn a_folder_is_read_to_its_depth_and_one_file_is_written_for_each_object() {
    let home = tempfile::tempdir().unwrap();
    let below = home.path().join("in/teams/shop");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(home.path().join("in/.git")).unwrap();
    std::fs::write(below.join("all.yaml"), input("argocd")).unwrap();
    std::fs::write(below.join("template.yaml"), "a: {{ .Values.a }}\nb: {{ .c }}: x\n").unwrap();
    std::fs::write(home.path().join("in/.git/hidden.yaml"), "kind: [\n").unwrap();
    let args = ["migrate", "argocd", "-f", "in", "-o", "out", "--into", "windlass"];
    let output = windlass(home.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert!(output.stdout.is_empty());
    let report = stderr(&output);
    assert!(report.contains("passed over in/teams/shop/template.yaml"), "{report}");
    assert!(!report.contains("hidden.yaml"), "{report}");
    let mode = |path: &str| std::fs::metadata(home.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("out/windlass/secret-repo-shop.yaml"), 0o600);
    let web = std::fs::read_to_string(home.path().join("out/windlass/application-web.yaml")).unwrap();
    let web: Value = serde_saphyr::from_str(&web).unwrap();
    assert_eq!(web["metadata"]["namespace"], "windlass");
    assert_eq!(web["spec"]["source"]["secretRef"]["name"], "repo-shop");
    assert!(home.path().join("out/cluster-east-eu.yaml").exists());
}

#[test]
fn the_report_ends_with_how_to_take_over_without_restarting_pods() {
    for (tool, words) in [
        ("argocd", ["--cascade=orphan", "finalizers", "no pod is restarted"]),
        ("flux", ["flux suspend kustomization", "flux suspend helmrelease", "no pod is restarted"]),
    ] {
        let report = stderr(&piped(&["migrate", tool, "-f", "-"], &input(tool)));
        let (_, steps) = report.split_once("Taking over without restarting a pod:").unwrap();
        for word in words {
            assert!(steps.contains(word), "{word}: {steps}");
        }
        let order = |word: &str| steps.find(word).unwrap();
        assert!(order(words[0]) < order("kubectl apply --server-side"), "{steps}");
    }
}

#[test]
fn without_files_and_without_a_cluster_the_user_is_told_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let output = windlass(home.path()).args(["migrate", "flux"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("hint: Or name files with -f."), "{}", told(&output));
    let output = windlass(home.path()).args(["migrate", "flux", "--into", "No/Such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
}

/// Every object that comes out is one that the API server takes, schema rules included.
#[tokio::test]
async fn everything_that_is_produced_passes_the_api_servers_schema() {
    let plane = ControlPlane::shared().await.unwrap();
    let client = plane.admin();
    install_crds(&client).await;
    let namespace = plane.namespace("migrated").await.unwrap();
    let mut seen = 0;
    for tool in ["argocd", "flux"] {
        let output = piped(&["migrate", tool, "-f", "-", "--into", namespace.name()], &input(tool));
        for object in documents(&output.stdout) {
            dry_run(&client, &object).await;
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

async fn dry_run(client: &Client, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let types = object.types.clone().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut params = PatchParams::apply("test").force();
    params.dry_run = true;
    params.field_validation = Some(kube::api::ValidationDirective::Strict);
    let answer = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
    answer.unwrap_or_else(|error| panic!("{} {}: {error}", types.kind, object.name_any()));
}

/// Read from a cluster, the result is the same as read from files.
#[tokio::test]
async fn a_cluster_is_read_like_files() {
    let plane = ControlPlane::shared().await.unwrap();
    let client = plane.admin();
    serve(&client, "argoproj.io", "v1alpha1", "Application", "applications").await;
    serve(&client, "argoproj.io", "v1alpha1", "AppProject", "appprojects").await;
    let namespace = plane.namespace("argo").await.unwrap();
    let ours = input("argocd").replace("namespace: argocd", &format!("namespace: {}", namespace.name()));
    let wanted = ["Application", "AppProject", "Secret", "ConfigMap"];
    let objects: Vec<Value> = documents(ours.as_bytes())
        .into_iter()
        .filter(|object| wanted.contains(&object["kind"].as_str().unwrap()))
        .collect();
    for object in &objects {
        create(&client, object).await;
    }
    let kubeconfig = plane.kubeconfig_path(&User::Admin).unwrap();
    let args = ["migrate", "argocd", "-n", namespace.name(), "--kubeconfig", kubeconfig.to_str().unwrap()];
    let home = tempfile::tempdir().unwrap();
    let live = windlass(home.path()).args(args).output().unwrap();
    assert!(live.status.success(), "{}", told(&live));
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let files = piped(&["migrate", "argocd", "-f", "-"], &text.join("\n---\n"));
    assert_eq!(documents(&live.stdout), documents(&files.stdout), "{}", told(&live));
    assert!(documents(&live.stdout).len() > 6, "{}", told(&live));

    let none = windlass(home.path())
        .args(["migrate", "flux", "--kubeconfig", kubeconfig.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("does not serve any kind"), "{}", told(&none));
}

/// A kind of another tool, whatever its fields.
async fn serve(client: &Client, group: &str, version: &str, kind: &str, plural: &str) {
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.patch(&crd.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(&crd)).await.unwrap();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    eventually("the kind is served", Duration::from_secs(60), || async {
        objects.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

async fn create(client: &Client, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::try_from(&object.types.clone().unwrap()).unwrap());
    let namespace = object.meta().namespace.clone().unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    api.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{object:?}: {error}"));
}

/// Labels that Flux puts on every object must not reach selectors: those of a Deployment can never be changed.
#[test]
fn labels_on_every_object_leave_selectors_alone() {
    let output = piped(&["migrate", "flux", "-f", "-"], &input("flux"));
    let objects = documents(&output.stdout);
    let shop =
        objects.iter().find(|o| o["kind"] == "Application" && o["metadata"]["name"] == "shop").unwrap();
    let patches = shop["spec"]["source"]["kustomize"]["patches"].as_array().unwrap();
    let patch =
        patches.iter().find(|patch| patch["target"]["kind"] == ".*").expect("a patch on every object");
    let folder = tempfile::tempdir().unwrap();
    let base = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
                template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web}]}\n---\n\
                apiVersion: shop.example.com/v1\nkind: Till\nmetadata: {name: till, labels: {a: b}}\n";
    std::fs::write(folder.path().join("base.yaml"), base).unwrap();
    let kustomization = json!({"resources": ["base.yaml"], "patches": [patch]});
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let built = documents(&kustomize(folder.path()));
    let find = |kind: &str| built.iter().find(|object| object["kind"] == kind).unwrap();
    assert_eq!(find("Deployment")["metadata"]["labels"], json!({"team": "shop"}));
    assert_eq!(find("Deployment")["metadata"]["name"], "web");
    assert_eq!(find("Deployment")["spec"]["selector"]["matchLabels"], json!({"app": "web"}));
    assert_eq!(find("Deployment")["spec"]["template"]["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(find("Till")["metadata"]["labels"], json!({"a": "b", "team": "shop"}));
}

fn kustomize(folder: &Path) -> Vec<u8> {
    let output =
        Command::new(tools::path(Tool::Kustomize).unwrap()).arg("build").arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    output.stdout
}
