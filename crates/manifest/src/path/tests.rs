#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn key(namespace: Option<&str>, group: &str, resource: &str, name: &str) -> ResourceKey {
    ResourceKey {
        namespace: namespace.map(str::to_owned),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
    }
}

fn path(namespace: Option<&str>, group: &str, resource: &str, name: &str) -> String {
    path_of(&BaseFolder::default(), &key(namespace, group, resource, name)).unwrap()
}

#[test]
fn objects_lie_where_people_look_for_them() {
    let base = BaseFolder::new("clusters/prod").unwrap();
    let web = key(Some("shop"), "apps", "deployments", "web");
    assert_eq!(path_of(&base, &web).unwrap(), "clusters/prod/shop/apps/deployments/web.yaml");
    assert_eq!(path(None, "", "namespaces", "shop"), "_cluster/core/namespaces/shop.yaml");
    let node = path(None, "rbac.authorization.k8s.io", "clusterroles", "system:Node");
    assert_eq!(node, "_cluster/rbac.authorization.k8s.io/clusterroles/system%3a%4eode.yaml");
    assert_eq!(
        path(Some("a"), "", "configmaps", "kube-root-ca.crt"),
        "a/core/configmaps/kube-root-ca.crt.yaml"
    );
}

#[test]
fn names_that_no_windows_can_hold_are_escaped() {
    for (name, file) in [
        ("con", "%63on"),
        ("nul.txt", "%6eul.txt"),
        ("com1", "%63om1"),
        ("com10", "com10"),
        ("lpt9.a.b", "%6cpt9.a.b"),
        ("console", "console"),
        ("CON", "%43%4f%4e"),
        ("a.", "a%2e"),
        (".hidden", "%2ehidden"),
        ("..", "%2e%2e"),
        (".", "%2e"),
        ("a b", "a%20b"),
        ("a ", "a%20"),
        ("a\\b/c", "a%5cb%2fc"),
        ("a:b*?\"<>|", "a%3ab%2a%3f%22%3c%3e%7c"),
        ("50%", "50%25"),
        ("ä", "%c3%a4"),
        ("a~b", "a%7eb"),
    ] {
        assert_eq!(
            path(Some("n"), "", "configmaps", name),
            format!("n/core/configmaps/{file}.yaml"),
            "{name}"
        );
    }
    assert_eq!(path(Some("con"), "", "configmaps", "a"), "%63on/core/configmaps/a.yaml");
}

#[test]
fn our_own_folders_are_nobody_elses() {
    assert_ne!(path(Some("_cluster"), "", "a", "b"), path(None, "", "a", "b"));
    assert_ne!(path(None, "core", "a", "b"), path(None, "", "a", "b"));
}

#[test]
fn a_long_name_is_cut_and_still_its_own() {
    let (one, two) = (format!("{}a", "x".repeat(252)), format!("{}b", "x".repeat(252)));
    let (first, second) = (path(Some("n"), "", "secrets", &one), path(Some("n"), "", "secrets", &two));
    assert_ne!(first, second);
    for path in [&first, &second] {
        let file = path.rsplit('/').next().unwrap();
        assert_eq!(file.len(), 255);
        let located = key_of(&BaseFolder::default(), path).unwrap();
        assert!(
            matches!(&located, Located::LongName { resource, .. } if resource == "secrets"),
            "{located:?}"
        );
    }
    let fits = "x".repeat(250);
    let whole = path(Some("n"), "", "secrets", &fits);
    let located = key_of(&BaseFolder::default(), &whole).unwrap();
    assert_eq!(located, Located::Object(key(Some("n"), "", "secrets", &fits)));
    let escaped = path(None, "rbac.authorization.k8s.io", "clusterroles", &"Ä".repeat(120));
    assert!(escaped.rsplit('/').next().unwrap().len() <= 255);
}

#[test]
fn what_we_would_not_have_written_is_not_ours() {
    let base = BaseFolder::new("apps").unwrap();
    for (path, category) in [
        ("other/n/core/configmaps/a.yaml", "OutsideBase"),
        ("appsx/n/core/configmaps/a.yaml", "OutsideBase"),
        ("apps/README.md", "NotAnObject"),
        ("apps/n/core/configmaps/a.yml", "NotAnObject"),
        ("apps/n/core/configmaps/.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/A.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/%61.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/%3A.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/a%.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/%ff.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/a~1.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/con.yaml", "NotAnObject"),
        ("apps/n/core/configmaps/b/a.yaml", "NotAnObject"),
        ("apps/../core/configmaps/a.yaml", "NotAnObject"),
        ("apps//core/configmaps/a.yaml", "NotAnObject"),
    ] {
        assert_eq!(key_of(&base, path).unwrap_err().category(), category, "{path}");
    }
}

#[test]
fn a_base_folder_is_relative_portable_and_outside_of_the_repository_itself() {
    for good in ["", "a", "clusters/prod-1", "Überblick/x y", ".github/k8s", "com10/console"] {
        assert_eq!(BaseFolder::new(good).unwrap().as_str(), good);
    }
    for (bad, category) in [
        ("/a", "AbsolutePath"),
        ("a\\b", "MalformedPath"),
        ("a//b", "MalformedPath"),
        ("a/", "MalformedPath"),
        ("a/../b", "PathTraversal"),
        ("..", "PathTraversal"),
        ("./a", "PathTraversal"),
        ("a/...", "PathTraversal"),
        (". .", "PathTraversal"),
        (".git", "ReservedPath"),
        ("a/.GIT/hooks", "ReservedPath"),
        (".git ", "ReservedPath"),
        ("GIT~1", "ReservedPath"),
        (".jj/repo", "ReservedPath"),
        (".g\u{200c}it", "UnportablePath"),
        ("a\nb", "UnportablePath"),
        ("c:", "UnportablePath"),
        ("a.", "UnportablePath"),
        ("aux", "UnportablePath"),
        ("NUL.txt", "UnportablePath"),
    ] {
        let error = BaseFolder::new(bad).unwrap_err();
        assert_eq!(error.category(), category, "{bad:?}: {error}");
    }
    assert!(BaseFolder::new(&"x".repeat(256)).is_err());
}

#[test]
fn base_folders_overlap_by_whole_parts_and_without_regard_to_case() {
    let overlap = |a, b| BaseFolder::new(a).unwrap().overlaps(&BaseFolder::new(b).unwrap());
    assert!(overlap("a", "a") && overlap("a", "a/b") && overlap("A/b", "a") && overlap("", "x"));
    assert!(!overlap("a", "ab") && !overlap("a/b", "a/c") && !overlap("x", "a/x"));
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.:A-Z%~ _-]{1,12}",
        "(con|nul|com1|aux|CON|lpt3)(\\.[a-z]{1,3})?",
        "\\PC{1,8}",
        Just("..".to_owned()),
        Just("core".to_owned()),
        Just("_cluster".to_owned()),
        "[a-zA-Z:]{200,300}",
    ]
}

fn any_key() -> impl Strategy<Value = ResourceKey> {
    let short = || part().prop_filter("folders are short", |part| part.len() < 60);
    (proptest::option::of(short()), prop_oneof![Just(String::new()), short()], short(), part())
        .prop_map(|(namespace, group, resource, name)| ResourceKey { namespace, group, resource, name })
}

proptest! {
    #[test]
    fn a_path_tells_its_object_again(key in any_key()) {
        let base = BaseFolder::new("base").unwrap();
        let path = path_of(&base, &key).unwrap();
        match key_of(&base, &path).unwrap() {
            Located::Object(found) => prop_assert_eq!(found, key),
            Located::LongName { namespace, group, resource } => {
                prop_assert!(key.name.len() > 80);
                prop_assert_eq!((namespace, group, resource), (key.namespace, key.group, key.resource));
            }
        }
    }

    #[test]
    fn no_two_objects_share_a_path_even_without_case(one in any_key(), two in any_key()) {
        let base = BaseFolder::default();
        let (first, second) = (path_of(&base, &one).unwrap(), path_of(&base, &two).unwrap());
        prop_assert_eq!(one == two, first.to_lowercase() == second.to_lowercase());
        prop_assert_eq!(first.to_lowercase(), first);
    }

    #[test]
    fn every_segment_is_safe_everywhere(key in any_key()) {
        let path = path_of(&BaseFolder::default(), &key).unwrap();
        prop_assert_eq!(path.split('/').count(), 4);
        for segment in path.split('/') {
            prop_assert!(!segment.is_empty() && segment.len() <= 255);
            prop_assert!(segment.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.%~".contains(&b)));
            prop_assert!(!segment.starts_with('.') && !segment.ends_with('.'));
            prop_assert!(!segment::is_device(segment));
            // The same rules as for folders that people name.
            prop_assert!(BaseFolder::new(segment).is_ok(), "{segment}");
        }
    }

    #[test]
    fn any_text_as_a_path_is_refused_or_ours(path in "\\PC{0,60}") {
        let base = BaseFolder::default();
        if let Ok(Located::Object(key)) = key_of(&base, &path) {
            prop_assert_eq!(path_of(&base, &key).unwrap(), path);
        }
    }
}
