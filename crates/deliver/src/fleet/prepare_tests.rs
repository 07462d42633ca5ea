#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::json;

use super::*;

fn app() -> Key {
    Key { namespace: Some("team".into()), name: "shop".into() }
}

fn rendered(objects: &[Value]) -> Rendered {
    let objects: Vec<Manifest> = objects
        .iter()
        .enumerate()
        .map(|(at, object)| Manifest {
            id: ObjectId::of(object).unwrap(),
            place: Some(format!("all.yaml:{at}")),
            object: Arc::new(object.clone()),
        })
        .collect();
    Rendered { digest: format!("{objects:?}"), objects }
}

fn scopes() -> Scopes {
    let kinds = [("", "ConfigMap", true), ("", "Secret", true), ("", "Namespace", false)];
    Scopes(kinds.into_iter().map(|(group, kind, scope)| ((group.into(), kind.into()), scope)).collect())
}

fn map(name: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn how<'a>(app: &'a Key, allowed: &'a [String]) -> Prepare<'a> {
    Prepare { app, namespace: "shop", allowed_namespaces: allowed, allow_cluster_scoped: false }
}

#[test]
fn a_namespace_is_filled_in_dropped_or_kept_by_scope() {
    let app = app();
    let unknown = |namespace: Value| json!({"apiVersion": "e.org/v1", "kind": "W", "metadata": {"name": "w", "namespace": namespace}});
    let objects = [
        map("a", None),
        map("b", Some("other")),
        map("c", Some("")),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "x"}}),
        unknown(json!("written")),
    ];
    let prepared = prepare_with(&scopes(), &rendered(&objects), &how(&app, &[]));
    let ids: Vec<String> = prepared.objects.iter().map(|sealed| sealed.id().to_string()).collect();
    assert_eq!(
        ids,
        [
            "v1/ConfigMap/shop/a",
            "v1/ConfigMap/other/b",
            "v1/ConfigMap/shop/c",
            "v1/Namespace//n",
            "e.org/v1/W/written/w"
        ]
    );
    assert_eq!(prepared.problems, []);
    assert_eq!(prepared.places.len(), 5);
}

#[test]
fn a_kind_that_the_render_defines_has_the_scope_of_its_definition() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ws.e.org"}, "spec": {"group": "e.org", "scope": "Namespaced", "names": {"kind": "W"}}});
    let brought = brought(&rendered(&[definition]));
    assert_eq!(brought, BTreeMap::from([(("e.org".into(), "W".into()), true)]));
}

#[test]
fn what_a_server_writes_is_dropped_and_the_marks_are_set() {
    let app = app();
    let object = json!({"apiVersion": "v1", "kind": "Secret", "status": {"x": 1}, "stringData": {"k": "v"},
        "metadata": {"name": "a", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": null,
            "managedFields": [], "annotations": {LAST_APPLIED: "{}", "keep": "me"}}});
    let prepared = prepare_with(&scopes(), &rendered(&[object]), &how(&app, &[]));
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="},
        "metadata": {"name": "a", "namespace": "shop", "labels": {tracking::LABEL: tracking::label(&app)},
            "annotations": {"keep": "me", tracking::OWNER: "team/shop"}}});
    assert_eq!(prepared.objects[0].object(), &expected);
}

#[test]
fn an_object_outside_the_allowed_namespaces_is_a_problem_that_names_it() {
    let app = app();
    let allowed = ["shop".to_owned(), "team-*".to_owned()];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let objects = [map("a", None), map("b", Some("team-x")), map("c", Some("kube-system")), namespace];
    let prepared = prepare_with(&scopes(), &rendered(&objects), &how(&app, &allowed));
    assert_eq!(prepared.objects.len(), 2);
    let reasons: Vec<&str> = prepared.problems.iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["NamespaceNotAllowed", "ClusterScopedNotAllowed"]);
    let what = &prepared.problems[0].what;
    for part in ["ConfigMap kube-system/c", "all.yaml:2", "shop, team-*"] {
        assert!(what.contains(part), "{what}");
    }
    let more = Prepare { allow_cluster_scoped: true, ..how(&app, &allowed) };
    assert_eq!(prepare_with(&scopes(), &rendered(&objects), &more).problems.len(), 1);
}

#[test]
fn two_objects_that_become_one_are_a_problem_that_names_both_places() {
    let app = app();
    let prepared =
        prepare_with(&scopes(), &rendered(&[map("a", None), map("a", Some("shop"))]), &how(&app, &[]));
    assert_eq!(prepared.objects.len(), 1);
    let problem = &prepared.problems[0];
    assert_eq!(problem.reason, "DuplicateObject");
    assert!(problem.what.contains("all.yaml:0 and all.yaml:1"), "{problem:?}");
}

#[test]
fn clusters_with_the_same_kinds_share_their_objects() {
    let app = app();
    let preparations = Preparations::new(8);
    let rendered = rendered(&[map("a", None)]);
    let one = preparations.with(scopes(), &rendered, &how(&app, &[]));
    let same = preparations.with(scopes(), &rendered, &how(&app, &[]));
    assert!(Arc::ptr_eq(&one, &same));
    let elsewhere = Prepare { namespace: "elsewhere", ..how(&app, &[]) };
    let other = preparations.with(scopes(), &rendered, &elsewhere);
    assert_eq!(other.objects[0].id().namespace, "elsewhere");
    let unknown = preparations.with(Scopes::default(), &rendered, &how(&app, &[]));
    assert_eq!(unknown.objects[0].id().namespace, "");
    preparations.forget(&app);
    assert!(!Arc::ptr_eq(&one, &preparations.with(scopes(), &rendered, &how(&app, &[]))));
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, name, fits) in [
        ("*", "a", true),
        ("a*", "ab", true),
        ("a*", "ba", false),
        ("*b", "ab", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abde", false),
        ("a", "ab", false),
        ("ab*b", "ab", false),
    ] {
        assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
    }
}
