//! Charts that the real helm renders.

use serde_json::json;
use windlass_api::application::source::{Helm, HelmParameter};

use crate::bed::{Bed, config_map, folder, helm, names};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

const MAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
data:
  color: {{ .Values.color | quote }}
  size: {{ .Values.size | quote }}
  list: {{ .Values.list | toJson | quote }}
  kube: {{ .Capabilities.KubeVersion.Version }}
  monitors: {{ .Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\" | quote }}
";

fn parameter(name: &str, value: &str, force_string: bool) -> HelmParameter {
    HelmParameter { name: name.into(), value: value.into(), force_string }
}

#[tokio::test]
async fn a_chart_gets_its_values_name_namespace_and_versions() {
    let bed = Bed::new(&[
        ("charts/web/Chart.yaml", CHART),
        ("charts/web/values.yaml", "color: red\nsize: 1\nlist: []\n"),
        ("charts/web/prod.yaml", "color: blue\nsize: 2\n"),
        ("charts/web/templates/map.yaml", MAP),
        ("common/values.yaml", "color: green\n"),
    ])
    .await;
    let first = bed.render(&folder("charts/web")).await.unwrap();
    assert_eq!(names(&first), ["ConfigMap shop/web"]);
    assert_eq!(first.objects[0].place.as_deref(), Some("web/templates/map.yaml"));
    assert_eq!(first.objects[0].object["data"]["color"], "red");
    assert_eq!(first.objects[0].object["data"]["kube"], "v1.36.3");
    assert_eq!(first.objects[0].object["data"]["monitors"], "false");
    let options = Helm {
        release_name: Some("other".into()),
        value_files: vec![
            "prod.yaml".into(),
            "/common/values.yaml".into(),
            "../../common/values.yaml".into(),
        ],
        values: json!({ "size": 3 }).as_object().cloned(),
        parameters: vec![parameter("list", "{a,b}", false), parameter("size", "4,5", true)],
        kube_version: Some("1.30.0".into()),
        api_versions: vec!["monitoring.coreos.com/v1".into()],
        ..Helm::default()
    };
    let second = bed.render(&helm("charts/web", options)).await.unwrap();
    let data = &second.objects[0].object["data"];
    assert_eq!(names(&second), ["ConfigMap shop/other"]);
    assert_eq!(
        *data,
        json!({ "color": "green", "size": "4,5", "list": r#"["a","b"]"#, "kube": "v1.30.0", "monitors": "true" })
    );
    // The name of a release matters to what is rendered.
    bed.render_as("shop", &folder("charts/web"), None).await.unwrap();
    assert_eq!(bed.renders(), 3);
}

#[tokio::test]
async fn a_value_file_that_is_missing_is_told_unless_it_may_be() {
    let bed = Bed::new(&[("Chart.yaml", CHART), ("templates/a.yaml", &config_map("a", "1"))]).await;
    let options = |name: &str, ignore_missing_value_files| Helm {
        value_files: vec![name.to_owned()],
        ignore_missing_value_files,
        ..Helm::default()
    };
    let trouble = bed.render(&helm("", options("prod.yaml", false))).await.unwrap_err();
    assert_eq!(trouble.reason, "MissingFile");
    assert!(trouble.what.contains("prod.yaml"), "{}", trouble.what);
    assert_eq!(bed.render(&helm("", options("prod.yaml", true))).await.unwrap().objects.len(), 1);
    assert_eq!(bed.render(&helm("", options("../x.yaml", true))).await.unwrap_err().reason, "InvalidPath");
    let trouble = bed.render(&helm("", options("https://example.org/v.yaml", true))).await.unwrap_err();
    assert_eq!(trouble.reason, "RemoteInput");
}

#[tokio::test]
async fn dependencies_come_from_the_charts_folder_or_the_repository() {
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: lib, version: 1.x, repository: \
                 'file://../lib'}\n- {name: vendored, version: 1.0.0, repository: 'https://example.org'}\n";
    let lib = "apiVersion: v2\nname: lib\nversion: 1.2.0\ndependencies:\n- {name: deep, version: 0.1.0, repository: \
               'file://../deep'}\n";
    let bed = Bed::new(&[
        ("charts/web/Chart.yaml", chart),
        ("charts/web/templates/a.yaml", &config_map("a", "1")),
        ("charts/web/charts/vendored-1/Chart.yaml", "apiVersion: v2\nname: vendored\nversion: 1.0.0\n"),
        ("charts/web/charts/vendored-1/templates/a.yaml", &config_map("vendored", "1")),
        ("charts/lib/Chart.yaml", lib),
        ("charts/lib/templates/a.yaml", &config_map("lib", "1")),
        ("charts/deep/Chart.yaml", "apiVersion: v2\nname: deep\nversion: 0.1.0\n"),
        ("charts/deep/templates/a.yaml", &config_map("deep", "1")),
        ("missing/Chart.yaml", "apiVersion: v2\nname: m\nversion: 1.0.0\ndependencies:\n- {name: redis, version: 17.0.0, repository: 'https://example.org'}\n"),
        ("loop/Chart.yaml", "apiVersion: v2\nname: l\nversion: 1.0.0\ndependencies:\n- {name: l, version: 1.0.0, repository: 'file://.'}\n"),
    ])
    .await;
    let mut all = names(&bed.render(&folder("charts/web")).await.unwrap());
    all.sort_unstable();
    assert_eq!(all, ["ConfigMap a", "ConfigMap deep", "ConfigMap lib", "ConfigMap vendored"]);
    bed.commit(&[("charts/deep/templates/a.yaml", Some(&config_map("deep", "2")))]);
    bed.render(&folder("charts/web")).await.unwrap();
    assert_eq!(bed.renders(), 2, "a dependency is an input");
    let trouble = bed.render(&folder("missing")).await.unwrap_err();
    assert_eq!(trouble.reason, "DependencyMissing");
    assert!(trouble.what.contains("redis") && trouble.remedy.contains("helm dependency build"));
    assert!(bed.render(&folder("loop")).await.is_err());
}

#[tokio::test]
async fn definitions_are_left_out_on_demand_hooks_stay_and_tests_do_not() {
    let hook = |name: &str, hook: &str| {
        config_map(name, "1")
            .replace("metadata:\n", &format!("metadata:\n  annotations: {{ helm.sh/hook: {hook} }}\n"))
    };
    let bed = Bed::new(&[
        ("Chart.yaml", CHART),
        ("crds/things.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n"),
        ("templates/a.yaml", &config_map("a", "1")),
        ("templates/before.yaml", &hook("before", "pre-install,pre-upgrade")),
        ("templates/tests/test.yaml", &hook("test", "test")),
    ])
    .await;
    let mut all = names(&bed.render(&folder("")).await.unwrap());
    all.sort_unstable();
    assert_eq!(all, ["ConfigMap a", "ConfigMap before", "CustomResourceDefinition things.example.org"]);
    let less = bed.render(&helm("", Helm { skip_crds: true, ..Helm::default() })).await.unwrap();
    assert_eq!(less.objects.len(), 2, "{:?}", names(&less));
}

#[tokio::test]
async fn what_helm_says_names_the_template_and_nothing_of_this_machine() {
    let bed = Bed::new(&[
        ("web/Chart.yaml", CHART),
        ("web/templates/bad.yaml", "{{ fail \"set the color\" }}\n"),
        ("web/values.yaml", "a: 1\n"),
        ("web/broken.yaml", "a: [1\n"),
    ])
    .await;
    let trouble = bed.render(&folder("web")).await.unwrap_err();
    assert_eq!(trouble.reason, "HelmFailed");
    assert!(trouble.what.contains("set the color") && trouble.what.contains("bad.yaml"), "{}", trouble.what);
    let options = Helm { value_files: vec!["broken.yaml".into()], ..Helm::default() };
    let broken = bed.render(&helm("web", options)).await.unwrap_err();
    assert!(broken.what.contains("web/broken.yaml"), "{}", broken.what);
    for what in [trouble.what, broken.what] {
        assert!(!what.contains("cell-") && !what.contains(bed.work.path().to_str().unwrap()), "{what}");
    }
}
