//! Plain folders.

use windlass_api::application::source::Directory;

use crate::bed::{Bed, config_map, directory, folder, names};

#[tokio::test]
async fn a_plain_folder_gives_its_objects_in_order_with_their_places() {
    let list =
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: shop}\n";
    let bed = Bed::new(&[
        ("app/b.yml", &config_map("b", "1")),
        ("app/a.yaml", &format!("{}---\n---\n{}", config_map("a", "1"), config_map("a2", "1"))),
        (
            "app/sub/c.json",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"x"}}"#,
        ),
        ("app/sub/list.yaml", list),
        ("app/README.md", "text"),
        ("app/.github/workflow.yaml", "on: push\n"),
        ("other/z.yaml", "not: an object\n"),
    ])
    .await;
    let rendered = bed.render(&folder("app")).await.unwrap();
    assert_eq!(
        names(&rendered),
        ["ConfigMap a", "ConfigMap a2", "ConfigMap b", "ConfigMap x/c", "Namespace shop"]
    );
    assert_eq!(rendered.objects[1].place.as_deref(), Some("app/a.yaml:9"));
    assert_eq!(rendered.objects[4].place.as_deref(), Some("app/sub/list.yaml:4"));
    assert_eq!(rendered.digest.len(), 64);
    // The same folder by another spelling is the same render.
    assert_eq!(bed.render(&folder("/app/")).await.unwrap().digest, rendered.digest);
    assert_eq!(bed.renders(), 1);
}

#[tokio::test]
async fn patterns_choose_the_files_of_a_plain_folder() {
    let bed = Bed::new(&[
        ("a.yaml", &config_map("a", "1")),
        ("b.yaml", &config_map("b", "1")),
        ("sub/c.yaml", &config_map("c", "1")),
        ("sub/values.yaml", "x: 1\n"),
    ])
    .await;
    let render = async |recurse, include: &[&str], exclude: &[&str]| {
        let text = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let options = Directory { recurse, include: text(include), exclude: text(exclude) };
        bed.render(&directory("", options)).await.map(|rendered| names(&rendered))
    };
    assert_eq!(render(false, &[], &[]).await.unwrap(), ["ConfigMap a", "ConfigMap b"]);
    assert_eq!(render(false, &["**/*.yaml"], &["b.yaml"]).await.unwrap(), ["ConfigMap a"]);
    let all = ["ConfigMap a", "ConfigMap b", "ConfigMap c"];
    assert_eq!(render(true, &[], &["**/values.yaml"]).await.unwrap(), all);
    assert_eq!(render(true, &["sub/c*"], &[]).await.unwrap(), ["ConfigMap c"]);
    let trouble = render(true, &[], &[]).await.unwrap_err();
    assert_eq!(trouble.reason, "NotAnObject");
    assert!(trouble.what.contains("sub/values.yaml:1"), "{}", trouble.what);
    assert_eq!(render(true, &["[a"], &[]).await.unwrap_err().reason, "InvalidPattern");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_told_with_the_commit() {
    let bed = Bed::new(&[("a.yaml", &config_map("a", "1"))]).await;
    let trouble = bed.render(&folder("apps/web")).await.unwrap_err();
    assert_eq!(trouble.reason, "PathNotFound");
    let commit = bed.tip().await.to_string();
    assert!(trouble.what.contains("apps/web") && trouble.what.contains(&commit[..12]), "{}", trouble.what);
    assert_eq!(bed.render(&folder("a.yaml")).await.unwrap_err().reason, "PathNotFound");
    assert_eq!(bed.render(&folder("../x")).await.unwrap_err().reason, "InvalidPath");
}

#[tokio::test]
async fn an_empty_folder_renders_to_nothing() {
    let bed = Bed::new(&[("app/README.md", "text")]).await;
    assert!(bed.render(&folder("app")).await.unwrap().objects.is_empty());
}

#[tokio::test]
async fn an_object_that_stands_in_two_files_is_told_with_both() {
    let bed = Bed::new(&[("a.yaml", &config_map("a", "1")), ("b.yaml", &config_map("a", "2"))]).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "DuplicateObject");
    assert!(trouble.what.contains("a.yaml:1") && trouble.what.contains("b.yaml:1"), "{}", trouble.what);
}

#[tokio::test]
async fn bad_yaml_in_a_repository_is_told_with_file_line_and_column() {
    let bed = Bed::new(&[("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n")]).await;
    let trouble = bed.render(&folder("app")).await.unwrap_err();
    assert_eq!(trouble.reason, "InvalidYaml");
    assert!(trouble.what.starts_with("app/a.yaml: line 4, column "), "{}", trouble.what);
    assert!(trouble.waits_for_change);
}
