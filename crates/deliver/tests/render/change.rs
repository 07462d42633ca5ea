//! What is rendered when something changes, and what is not. Renders are counted.

use std::sync::Arc;

use futures::future::join_all;

use crate::bed::{Bed, Make, config_map, folder, script};

#[tokio::test]
async fn a_commit_elsewhere_renders_nothing() {
    let bed =
        Bed::new(&[("apps/a/map.yaml", &config_map("a", "1")), ("apps/b/map.yaml", &config_map("b", "1"))])
            .await;
    let (a, b) = (folder("apps/a"), folder("apps/b"));
    let first = bed.render(&a).await.unwrap();
    bed.render(&b).await.unwrap();
    assert_eq!(bed.renders(), 2);
    bed.commit(&[("apps/b/map.yaml", Some(&config_map("b", "2")))]);
    let again = bed.render(&a).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(bed.renders(), 2, "an unrelated commit renders nothing");
    bed.render(&b).await.unwrap();
    assert_eq!(bed.renders(), 3);
    // Back to a state that was there before.
    bed.commit(&[("apps/b/map.yaml", Some(&config_map("b", "1")))]);
    bed.render(&b).await.unwrap();
    assert_eq!(bed.renders(), 3);
    assert_eq!(bed.renderer.counts().hits, 2);
}

#[tokio::test]
async fn a_change_of_a_shared_base_renders_exactly_its_dependents() {
    let mut files = vec![
        ("base/kustomization.yaml".to_owned(), "resources: [map.yaml]\n".to_owned()),
        ("base/map.yaml".to_owned(), config_map("base", "1")),
    ];
    for number in 0..4 {
        files.push((
            format!("apps/{number}/kustomization.yaml"),
            format!("resources: [../../base]\nnamePrefix: a{number}-\n"),
        ));
        files.push((format!("plain/{number}/map.yaml"), config_map("plain", "1")));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let bed = Bed::new(&files).await;
    let sources: Vec<_> = ["apps", "plain"]
        .iter()
        .flat_map(|kind| (0..4).map(move |number| folder(&format!("{kind}/{number}"))))
        .collect();
    let all = async || {
        for source in &sources {
            bed.render(source).await.unwrap();
        }
        bed.renders()
    };
    assert_eq!(all().await, 8);
    bed.commit(&[("apps/2/kustomization.yaml", Some("resources: [../../base]\nnamePrefix: other-\n"))]);
    assert_eq!(all().await, 9, "one file of one Application");
    bed.commit(&[("base/map.yaml", Some(&config_map("base", "2")))]);
    assert_eq!(all().await, 13, "the four that read the base");
    bed.commit(&[("README.md", Some("text"))]);
    assert_eq!(all().await, 13);
}

#[tokio::test]
async fn equal_requests_at_the_same_time_render_once() {
    let bed =
        Bed::new(&[("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", &config_map("a", "1"))]).await;
    let source = folder("");
    let all = join_all((0..8).map(|_| bed.render(&source))).await;
    assert!(all.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap(), all[0].as_ref().unwrap())));
    assert_eq!(bed.renders(), 1);
}

#[tokio::test]
async fn another_version_of_the_tool_renders_anew() {
    let tools = tempfile::tempdir().unwrap();
    let text = |version: &str| {
        format!(
            "if [ \"$1\" = version ]; then echo {version}; else echo '{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\
             \"metadata\":{{\"name\":\"{version}\"}}}}'; fi"
        )
    };
    let tool = script(tools.path(), "kustomize", &text("v1"));
    let make = Make { kustomize: Some(tool), ..Make::default() };
    let bed = Bed::with(&[("kustomization.yaml", "resources: []\n")], make).await;
    let name = async || bed.render(&folder("")).await.unwrap().objects[0].id.name.clone();
    assert_eq!(name().await, "v1");
    assert_eq!(name().await, "v1");
    assert_eq!(bed.renders(), 1);
    script(tools.path(), "kustomize", &text("v2-newer"));
    assert_eq!(name().await, "v2-newer");
    assert_eq!(bed.renders(), 2);
}

#[tokio::test]
async fn a_render_leaves_nothing_in_the_scratch_folder() {
    let bed =
        Bed::new(&[("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", &config_map("a", "1"))]).await;
    bed.render(&folder("")).await.unwrap();
    for _ in 0..600 {
        if bed.scratch().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("left: {:?}", bed.scratch());
}
