//! Converters on odd input, and decisions that the large examples do not show.

use proptest::{collection, option, prelude::*, sample};
use serde_json::{Map, Value, json};

use super::{Converted, Options, Tool, convert};

fn argocd(objects: Vec<Value>) -> Converted {
    convert(Tool::ArgoCd, objects, &Options::default())
}

fn flux(objects: Vec<Value>) -> Converted {
    convert(Tool::Flux, objects, &Options::default())
}

fn app(spec: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd"},
        "spec": spec,
    })
}

/// A spec that needs nothing more, with more laid over it.
fn spec(more: &Value) -> Value {
    let mut spec = json!({
        "source": {"repoURL": "https://git.example.com/a.git", "path": "a", "directory": {"recurse": true}},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn left(converted: &Converted) -> Vec<String> {
    converted.report.leftovers().iter().map(|entry| format!("{}: {}", entry.field, entry.what)).collect()
}

fn only(converted: &Converted) -> &Value {
    let mut applications = converted.objects.iter().filter(|object| object["kind"] == "Application");
    let first = applications.next().unwrap_or_else(|| panic!("{:?}", left(converted)));
    assert!(applications.next().is_none());
    first
}

#[test]
fn without_automated_sync_nothing_is_applied_by_itself() {
    for (policy, automated, prune, drift) in [
        (json!({}), false, false, "Report"),
        (json!({"automated": null}), false, false, "Report"),
        (json!({"automated": {}}), true, false, "Report"),
        (json!({"automated": {"prune": true, "selfHeal": true}}), true, true, "Revert"),
        (json!({"automated": {"enabled": false, "prune": true}}), false, true, "Report"),
        (json!({"automated": {"prune": true}, "syncOptions": ["Prune=false"]}), true, false, "Report"),
    ] {
        let converted = argocd(vec![app(&spec(&json!({"syncPolicy": policy})))]);
        let sync = &only(&converted)["spec"]["sync"];
        assert_eq!(
            (&sync["automated"], &sync["prune"], &sync["drift"]),
            (&json!(automated), &json!(prune), &json!(drift)),
            "{policy}"
        );
        assert!(converted.report.leftovers().is_empty(), "{:?}", left(&converted));
    }
}

#[test]
fn what_was_applied_is_deleted_with_the_application_only_if_it_was_before() {
    for (finalizers, options, deletion) in [
        (json!([]), json!([]), "Orphan"),
        (json!(["resources-finalizer.argocd.argoproj.io"]), json!([]), "Delete"),
        (json!(["resources-finalizer.argocd.argoproj.io/foreground"]), json!([]), "Delete"),
        (json!(["resources-finalizer.argocd.argoproj.io"]), json!(["Delete=false"]), "Orphan"),
    ] {
        let mut object = app(&spec(&json!({"syncPolicy": {"syncOptions": options}})));
        object["metadata"]["finalizers"] = finalizers.clone();
        assert_eq!(only(&argocd(vec![object]))["spec"]["deletion"], deletion, "{finalizers}");
    }
}

#[test]
fn a_folder_that_does_not_say_what_it_is_is_told_unless_the_status_says() {
    let source = json!({"source": {"repoURL": "https://git.example.com/a.git", "path": "a"}});
    let mut object = app(&spec(&source));
    let unsure = argocd(vec![object.clone()]);
    assert!(left(&unsure)[0].starts_with("spec.source: does not say"), "{:?}", left(&unsure));
    object["status"] = json!({"sourceType": "Directory"});
    let plain = argocd(vec![object.clone()]);
    assert_eq!(only(&plain)["spec"]["source"]["directory"], json!({"recurse": false}));
    object["status"] = json!({"sourceType": "Kustomize"});
    let kustomize = argocd(vec![object]);
    assert!(only(&kustomize)["spec"]["source"].get("directory").is_none());
    assert!(plain.report.leftovers().is_empty() && kustomize.report.leftovers().is_empty());
}

#[test]
fn an_unknown_cluster_is_never_taken_for_the_own_one() {
    let elsewhere =
        argocd(vec![app(&spec(&json!({"destination": {"server": "https://x.example.com:6443"}})))]);
    assert_eq!(only(&elsewhere)["spec"]["destinations"][0]["cluster"], "x.example.com-6443");
    assert_eq!(elsewhere.report.leftovers().len(), 1);
    let nowhere = argocd(vec![app(&spec(&json!({"destination": {"namespace": "web"}})))]);
    assert!(nowhere.objects.is_empty(), "{:?}", nowhere.objects);
    let remote = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "r"}, "kubeConfig": {"configMapRef": {"name": "c"}}},
    });
    let repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "r", "namespace": "b"}, "spec": {"url": "https://git.example.com/a.git"},
    });
    let converted = flux(vec![remote, repository]);
    assert!(converted.objects.is_empty(), "{:?}", converted.objects);
    assert!(left(&converted).iter().any(|entry| entry.contains("not converted")), "{:?}", left(&converted));
}

#[test]
fn a_field_that_nobody_knows_is_told() {
    let converted = argocd(vec![app(&spec(&json!({"brandNew": {"x": 1}})))]);
    assert_eq!(left(&converted), ["spec.brandNew: is not known here and was not carried over"]);
    let repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "r", "namespace": "b"},
        "spec": {"url": "https://git.example.com/a.git", "brandNew": true},
    });
    assert_eq!(left(&flux(vec![repository])), ["spec.brandNew: is not known here and was not carried over"]);
}

#[test]
fn the_branch_of_flux_is_master_when_none_is_named() {
    let object = |spec: Value| {
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
               "metadata": {"name": "r", "namespace": "b"}, "spec": spec})
    };
    let kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "r"}, "prune": true},
    });
    for (reference, revision) in [
        (json!(null), "master"),
        (json!({"branch": "main"}), "main"),
        (json!({"branch": "main", "tag": "v1"}), "v1"),
        (json!({"branch": "main", "commit": "abc", "tag": "v1"}), "abc"),
        (json!({"name": "refs/heads/x", "commit": "abc"}), "refs/heads/x"),
    ] {
        let repository = object(json!({"url": "https://git.example.com/a.git", "ref": reference}));
        let converted = flux(vec![kustomization.clone(), repository]);
        assert_eq!(only(&converted)["spec"]["source"]["revision"], revision);
    }
}

#[test]
fn secrets_of_the_same_name_never_overwrite_each_other() {
    let objects = |namespace: &str| {
        let metadata = json!({"name": "git", "namespace": namespace});
        vec![
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                   "stringData": {"username": "robot", "password": namespace}}),
            json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
                   "spec": {"url": "https://git.example.com/a.git", "secretRef": {"name": "git"}}}),
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                   "metadata": {"name": namespace, "namespace": namespace},
                   "spec": {"sourceRef": {"kind": "GitRepository", "name": "git"}}}),
        ]
    };
    let given = [objects("a"), objects("b")].concat();
    let converted = convert(Tool::Flux, given, &Options { into: Some("c".to_owned()) });
    let secrets: Vec<&Value> = converted.objects.iter().filter(|o| o["kind"] == "Secret").collect();
    assert_eq!(secrets.len(), 2);
    assert_ne!(secrets[0]["data"], secrets[1]["data"]);
    for app in converted.objects.iter().filter(|object| object["kind"] == "Application") {
        let name = &app["spec"]["source"]["secretRef"]["name"];
        let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == *name).unwrap();
        let password = super::objects::secret_data(secret)["password"].clone();
        assert_eq!(String::from_utf8(password).unwrap(), app["metadata"]["name"].as_str().unwrap());
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["../../etc/x", "", "A b", "a/b"] {
        let mut object = app(&spec(&json!({})));
        object["metadata"]["name"] = name.into();
        let converted = argocd(vec![object]);
        assert!(converted.objects.is_empty(), "{name}");
        assert_eq!(converted.report.leftovers().len(), 1, "{name}");
    }
}

/// Words that the converters look for, so that drawn objects get deep into them.
const WORDS: [&str; 72] = [
    "spec",
    "source",
    "sources",
    "path",
    "repoURL",
    "chart",
    "ref",
    "targetRevision",
    "kustomize",
    "helm",
    "directory",
    "images",
    "patches",
    "values",
    "valuesObject",
    "valueFiles",
    "parameters",
    "destination",
    "server",
    "name",
    "namespace",
    "syncPolicy",
    "automated",
    "prune",
    "syncOptions",
    "retry",
    "limit",
    "backoff",
    "duration",
    "ignoreDifferences",
    "jqPathExpressions",
    "kind",
    "metadata",
    "finalizers",
    "labels",
    "annotations",
    "status",
    "sourceType",
    "project",
    "generators",
    "list",
    "elements",
    "template",
    "syncWindows",
    "destinations",
    "schedule",
    "applications",
    "data",
    "stringData",
    "config",
    "url",
    "type",
    "sourceRef",
    "secretRef",
    "kubeConfig",
    "interval",
    "dependsOn",
    "healthCheckExprs",
    "current",
    "apiVersion",
    "commonMetadata",
    "decryption",
    "provider",
    "postBuild",
    "install",
    "remediation",
    "retries",
    "driftDetection",
    "ignore",
    "paths",
    "key",
    "tlsClientConfig",
];

const TEXTS: [&str; 16] = [
    "",
    "a",
    "web",
    "HEAD",
    "{{x}}",
    "{{",
    "$r/x",
    "a=b:c@d",
    ".spec[\"",
    ".a[0]",
    "1h",
    "-1",
    "https://x",
    "GitRepository",
    "{\"bearerToken\":1}",
    "Prune=false",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        sample::select(&TEXTS[..]).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::vec((sample::select(&WORDS[..]), inner), 0..8).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Kinds that each of the two reads.
fn any_object() -> impl Strategy<Value = Value> {
    let kinds = [
        ("argoproj.io/v1alpha1", "Application"),
        ("argoproj.io/v1alpha1", "ApplicationSet"),
        ("argoproj.io/v1alpha1", "AppProject"),
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
        ("notification.toolkit.fluxcd.io/v1", "Receiver"),
    ];
    let secrets = ["cluster", "repository", "repo-creds"];
    let parts = (
        sample::select(kinds.to_vec()),
        sample::select(vec!["a", "b", "argocd-tls-certs-cm"]),
        option::of(sample::select(secrets.to_vec())),
        any_json(),
        any_json(),
    );
    parts.prop_map(|((version, kind), name, secret, spec, data)| {
        let mut labels = Map::new();
        if let Some(secret) = secret {
            labels.insert("argocd.argoproj.io/secret-type".to_owned(), secret.into());
        }
        json!({"apiVersion": version, "kind": kind, "spec": spec, "data": data.clone(), "stringData": data,
               "metadata": {"name": name, "namespace": "n", "labels": labels}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// And whatever comes out is typed as ours: it can be read back.
    #[test]
    fn no_json_makes_a_converter_panic(
        objects in collection::vec(any_object(), 0..6),
        odd in any_json(),
        into in option::of(Just("elsewhere".to_owned())),
    ) {
        for tool in [Tool::ArgoCd, Tool::Flux] {
            let mut given = objects.clone();
            given.push(odd.clone());
            let converted = convert(tool, given, &Options { into: into.clone() });
            let _ = converted.report.render(&converted.objects);
            for object in &converted.objects {
                match object["kind"].as_str() {
                    Some("Application") => {
                        let read = serde_json::from_value::<windlass_api::Application>(object.clone());
                        prop_assert!(read.is_ok(), "{object}: {read:?}");
                    }
                    Some("Cluster") => {
                        let read = serde_json::from_value::<windlass_api::Cluster>(object.clone());
                        prop_assert!(read.is_ok(), "{object}: {read:?}");
                    }
                    kind => prop_assert_eq!(kind, Some("Secret")),
                }
            }
        }
    }
}
