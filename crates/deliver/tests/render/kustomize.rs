//! Folders that the real kustomize builds.

use serde_json::json;
use windlass_api::application::source::{Kustomize, KustomizeImage};

use crate::bed::{Bed, Make, config_map, folder, kustomize, names};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [ { name: web, image: nginx:1 } ] }
";

#[tokio::test]
async fn kustomize_builds_with_everything_that_it_names() {
    let bed = Bed::new(&[
        (
            "apps/web/kustomization.yaml",
            "resources: [../../base, extra.yaml]\ncomponents: [../../components/labels]\nnamePrefix: prod-\n\
             patches:\n- path: patches/replicas.yaml\nconfigMapGenerator:\n- name: conf\n  files: [app.conf, \
             renamed=files/x.txt]\n  envs: [app.env]\nreplacements:\n- path: replace.yaml\ntransformers: [annotate.yaml]\n",
        ),
        ("apps/web/extra.yaml", &config_map("extra", "one")),
        ("apps/web/app.conf", "a=1"),
        ("apps/web/files/x.txt", "x"),
        ("apps/web/app.env", "KEY=value\n"),
        ("apps/web/patches/replicas.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"),
        (
            "apps/web/replace.yaml",
            "source: {kind: ConfigMap, name: extra, fieldPath: data.value}\ntargets:\n- select: {kind: Deployment}\n  \
             fieldPaths: [spec.template.metadata.labels.value]\n  options: {create: true}\n",
        ),
        (
            "apps/web/annotate.yaml",
            "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\ntarget: {kind: Deployment}\npath: far/patch.yaml\n",
        ),
        ("apps/web/far/patch.yaml", "- {op: add, path: /metadata/annotations, value: {far: 'yes'}}\n"),
        ("base/kustomization.yml", "resources: [deployment.yaml]\n"),
        ("base/deployment.yaml", DEPLOYMENT),
        (
            "components/labels/Kustomization",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {team: shop}}]\n",
        ),
    ])
    .await;
    let rendered = bed.render(&folder("apps/web")).await.unwrap();
    let all = names(&rendered);
    assert_eq!(all.len(), 3, "{all:?}");
    let find = |name: &str| rendered.objects.iter().find(|found| found.id.name.starts_with(name)).unwrap();
    let web = find("prod-web");
    assert_eq!(web.object["spec"]["replicas"], 3);
    assert_eq!(web.object["metadata"]["labels"]["team"], "shop");
    assert_eq!(web.object["metadata"]["annotations"]["far"], "yes");
    assert_eq!(web.object["spec"]["template"]["metadata"]["labels"]["value"], "one");
    let conf = find("prod-conf-");
    assert_eq!(conf.object["data"], json!({ "KEY": "value", "app.conf": "a=1", "renamed": "x" }));
    // What the build does not read is no reason to build again; what it reads is.
    bed.commit(&[("apps/web/README.md", Some("text")), ("base/unused.yaml", Some("x: 1"))]);
    bed.render(&folder("apps/web")).await.unwrap();
    assert_eq!(bed.renders(), 1);
    bed.commit(&[(
        "apps/web/far/patch.yaml",
        Some("- {op: add, path: /metadata/annotations, value: {far: 'no'}}\n"),
    )]);
    bed.render(&folder("apps/web")).await.unwrap();
    assert_eq!(bed.renders(), 2);
}

#[tokio::test]
async fn options_of_a_source_are_laid_over_the_folders_kustomization() {
    let bed = Bed::new(&[
        ("web/kustomization.yaml", "resources: [deployment.yaml]\n"),
        ("web/deployment.yaml", DEPLOYMENT),
        ("web/patch.yaml", "- {op: add, path: /spec/replicas, value: 5}\n"),
        (
            "web/extra/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [more.yaml]\n",
        ),
        ("web/extra/more.yaml", &config_map("more", "1")),
    ])
    .await;
    let options = Kustomize {
        name_prefix: Some("a-".into()),
        name_suffix: Some("-z".into()),
        namespace: Some("shop".into()),
        common_labels: [("team".to_owned(), "shop".to_owned())].into(),
        common_annotations: [("note".to_owned(), "1".to_owned())].into(),
        images: vec![KustomizeImage {
            name: "nginx".into(),
            new_tag: Some("2".into()),
            ..KustomizeImage::default()
        }],
        components: vec!["extra".into()],
        patches: vec![
            json!({ "path": "patch.yaml", "target": { "kind": "Deployment" } }).as_object().unwrap().clone(),
        ],
    };
    let rendered = bed.render(&kustomize("web", options.clone())).await.unwrap();
    let mut all = names(&rendered);
    all.sort_unstable();
    assert_eq!(all, ["ConfigMap shop/a-more-z", "Deployment shop/a-web-z"]);
    let web = rendered.objects.iter().find(|found| found.id.kind == "Deployment").unwrap();
    assert_eq!(web.object["spec"]["selector"]["matchLabels"]["team"], "shop");
    assert_eq!(web.object["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
    assert_eq!(web.object["spec"]["replicas"], 5);
    assert_eq!(web.object["metadata"]["annotations"]["note"], "1");
    // Other options are another render of the same folder.
    let other = Kustomize { namespace: Some("other".into()), ..options };
    bed.render(&kustomize("web", other)).await.unwrap();
    assert_eq!(bed.renders(), 2);
}

#[tokio::test]
async fn a_file_that_the_closure_cannot_know_is_found_in_the_whole_repository() {
    // The name of the file is put together by kustomize's own rules for a folder: nothing in process knows it.
    let bed = Bed::new(&[
        ("web/kustomization.yaml", "resources: [a.yaml]\ngenerators:\n- |-\n  apiVersion: builtin\n  kind: ConfigMapGenerator\n  metadata: {name: made}\n  files: [data.txt]\n"),
        ("web/a.yaml", &config_map("a", "1")),
        ("web/data.txt", "1"),
        ("unrelated.txt", "1"),
    ])
    .await;
    let first = bed.render(&folder("web")).await.unwrap();
    assert_eq!(first.objects.len(), 2, "{:?}", names(&first));
    bed.commit(&[("web/data.txt", Some("2"))]);
    let second = bed.render(&folder("web")).await.unwrap();
    assert_ne!(first.digest, second.digest, "a file outside of the known inputs changed");
}

#[tokio::test]
async fn what_a_build_would_fetch_is_refused_with_a_remedy() {
    let bed = Bed::new(&[
        ("remote/kustomization.yaml", "resources: ['https://example.org/a.yaml']\n"),
        ("git/kustomization.yaml", "resources: ['github.com/example/app?ref=v1']\n"),
        ("chart/kustomization.yaml", "helmCharts: [{name: x, repo: 'https://example.org'}]\n"),
        ("missing/kustomization.yaml", "resources: [nothing.yaml]\n"),
        ("out/kustomization.yaml", "resources: [../../outside]\n"),
        ("patch/kustomization.yaml", "patches: [{path: nothing.yaml}]\n"),
        ("bad/kustomization.yaml", "resources: [\n"),
        ("exec/kustomization.yaml", "transformers: [run.yaml]\n"),
        (
            "exec/run.yaml",
            "apiVersion: example.org/v1\nkind: Run\nmetadata:\n  name: r\n  annotations:\n    \
             config.kubernetes.io/function: |\n      exec: {path: ./x.sh}\n",
        ),
    ])
    .await;
    for (path, reason, word) in [
        ("remote", "RemoteInput", "https://example.org/a.yaml"),
        ("git", "RemoteInput", "github.com/example"),
        ("chart", "ChartInKustomization", "helmCharts"),
        ("missing", "MissingFile", "missing/kustomization.yaml"),
        ("out", "InvalidPath", "../../outside"),
        ("patch", "MissingFile", "nothing.yaml"),
        ("bad", "InvalidYaml", "bad/kustomization.yaml: line "),
        ("exec", "KustomizeFailed", "kustomize build failed"),
    ] {
        let trouble = bed.render(&folder(path)).await.unwrap_err();
        assert_eq!(trouble.reason, reason, "{path}: {}", trouble.what);
        assert!(trouble.what.contains(word) && !trouble.remedy.is_empty(), "{path}: {}", trouble.what);
        assert!(!trouble.what.contains("cell-"), "{path}: {}", trouble.what);
    }
    let trouble = bed.render(&kustomize("", Kustomize::default())).await.unwrap_err();
    assert_eq!(trouble.reason, "KustomizationMissing");
}

#[tokio::test]
async fn a_missing_tool_is_told_with_what_to_do() {
    let make = Make { kustomize: Some("/nowhere/kustomize".into()), ..Make::default() };
    let bed = Bed::with(&[("kustomization.yaml", "resources: []\n")], make).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "ToolMissing");
    assert!(trouble.remedy.contains("--kustomize"), "{}", trouble.remedy);
}
