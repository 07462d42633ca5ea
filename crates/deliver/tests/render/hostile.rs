//! Repositories and tools that mean harm, or behave as if they did.

use std::{path::PathBuf, time::Duration};

use windlass_deliver::render::Limits;

use crate::bed::{Bed, Make, config_map, folder, script};

#[tokio::test]
async fn a_yaml_bomb_ends_in_a_condition() {
    let mut bomb =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb = format!("{bomb}a{level}: &a{level} [{}]\n", vec![before; 10].join(","));
    }
    let bed =
        Bed::new(&[("a/bomb.yaml", &bomb), ("k/kustomization.yaml", "resources: [../a/bomb.yaml]\n")]).await;
    let trouble = bed.render(&folder("a")).await.unwrap_err();
    assert_eq!(trouble.reason, "InvalidYaml");
    assert!(trouble.what.contains("a/bomb.yaml") && trouble.what.contains("aliases"), "{}", trouble.what);
    bed.commit(&[("k/bomb.yaml", Some(&bomb)), ("k/kustomization.yaml", Some("resources: [bomb.yaml]\n"))]);
    let trouble = bed.render(&folder("k")).await.unwrap_err();
    assert_eq!(trouble.reason, "KustomizeFailed", "{}", trouble.what);
}

#[tokio::test]
async fn a_file_of_100_mb_is_not_read() {
    let bed = Bed::new(&[("README.md", "text")]).await;
    let commit = bed.repo.commit("big").file("app/big.yaml", vec![b'\n'; 100 << 20]);
    commit.file("chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n").write().unwrap();
    let trouble = bed.render(&folder("app")).await.unwrap_err();
    assert_eq!(trouble.reason, "InputTooLarge");
    assert!(trouble.what.contains("app/big.yaml") && trouble.what.contains("104857600"), "{}", trouble.what);
}

#[tokio::test]
async fn too_many_files_or_bytes_end_in_a_condition() {
    let limits = Limits { files: 3, input_bytes: 2000, ..Limits::default() };
    let text = "x: ".to_owned() + &"y".repeat(900);
    let chart = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
    let files: Vec<(String, &str)> = (0..4).map(|number| (format!("many/{number}.yaml"), "")).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.extend([
        ("bytes/a.yaml", text.as_str()),
        ("bytes/b.yaml", text.as_str()),
        ("bytes/c.yaml", text.as_str()),
        ("k/kustomization.yaml", "resources: [../many/0.yaml, ../many/1.yaml, ../many/2.yaml]\n"),
        ("chart/Chart.yaml", chart),
        ("chart/a", text.as_str()),
        ("chart/b", text.as_str()),
        ("chart/c", text.as_str()),
    ]);
    let bed = Bed::with(&files, Make { limits, ..Make::default() }).await;
    for path in ["many", "bytes", "k", "chart"] {
        let trouble = bed.render(&folder(path)).await.unwrap_err();
        assert_eq!(trouble.reason, "InputTooLarge", "{path}: {}", trouble.what);
    }
}

#[tokio::test]
async fn a_link_never_leads_out_of_the_tree() {
    let bed = Bed::new(&[("base/map.yaml", &config_map("a", "1"))]).await;
    let out = "../../../../../../../../etc/hostname";
    bed.repo
        .commit("links")
        .link("plain/link.yaml", out)
        .link("absolute/link.yaml", "/etc/hostname")
        .file("k/kustomization.yaml", "resources: [link.yaml]\n")
        .link("k/link.yaml", out)
        .file("inside/kustomization.yaml", "resources: [link.yaml]\n")
        .link("inside/link.yaml", "../base/map.yaml")
        .file("chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .link("chart/templates/a.yaml", out)
        .link("folder", out)
        .write()
        .unwrap();
    for (path, file) in [
        ("plain", "plain/link.yaml"),
        ("absolute", "absolute/link.yaml"),
        ("k", "k/link.yaml"),
        ("chart", "chart/templates/a.yaml"),
    ] {
        let trouble = bed.render(&folder(path)).await.unwrap_err();
        assert_eq!(trouble.reason, "LinkNotFollowed", "{path}: {}", trouble.what);
        assert!(trouble.what.contains(file), "{}", trouble.what);
    }
    assert_eq!(bed.render(&folder("folder")).await.unwrap_err().reason, "PathNotFound");
    // A link that stays in the repository is the file that it leads to, and that file is an input.
    let first = bed.render(&folder("inside")).await.unwrap();
    bed.commit(&[("base/map.yaml", Some(&config_map("a", "2")))]);
    assert_ne!(bed.render(&folder("inside")).await.unwrap().digest, first.digest);
}

/// A bed whose kustomize is a script.
async fn with_tool(text: &str, limits: Limits) -> (Bed, tempfile::TempDir) {
    let tools = tempfile::tempdir().unwrap();
    let text = format!("if [ \"$1\" = version ]; then echo v1; exit; fi\n{text}");
    let kustomize = Some(script(tools.path(), "kustomize", &text));
    let bed = Bed::with(
        &[("kustomization.yaml", "resources: []\n")],
        Make { limits, kustomize, ..Make::default() },
    );
    (bed.await, tools)
}

/// Processes that were started with this argument.
fn running(argument: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is = |path: &PathBuf| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    processes.filter(is).collect()
}

async fn wait_until_gone(argument: &str) {
    for _ in 0..600 {
        if running(argument).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("still there: {:?}", running(argument));
}

#[tokio::test]
async fn an_endless_tool_is_ended_with_all_that_it_started() {
    let mark = format!("6{:07}1", std::process::id());
    let text = format!("(trap '' TERM HUP; sleep {mark}) &\nsetsid sleep {mark} &\nsleep {mark}");
    let limits = Limits { time: Duration::from_secs(3), ..Limits::default() };
    let (bed, _tools) = with_tool(&text, limits).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "RenderTimeout", "{}", trouble.what);
    assert!(trouble.what.contains("3 s"), "{}", trouble.what);
    wait_until_gone(&mark).await;
}

#[tokio::test]
async fn a_render_that_nobody_waits_for_ends_its_tool() {
    let mark = format!("6{:07}2", std::process::id());
    let (bed, _tools) = with_tool(&format!("sleep {mark} & sleep {mark}"), Limits::default()).await;
    let source = folder("");
    let render = bed.render(&source);
    tokio::pin!(render);
    for _ in 0..600 {
        assert!(tokio::time::timeout(Duration::from_millis(50), render.as_mut()).await.is_err());
        if running(&mark).len() >= 2 {
            break;
        }
    }
    assert!(running(&mark).len() >= 2, "the tool was started");
    render.set(bed.render(&source));
    wait_until_gone(&mark).await;
}

#[tokio::test]
async fn a_tool_that_prints_without_end_is_ended() {
    let limits = Limits { output: 1 << 20, ..Limits::default() };
    let (bed, _tools) = with_tool("exec yes password-of-a-secret", limits).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "OutputTooLarge");
    assert!(!trouble.what.contains("password"), "{}", trouble.what);
}

#[tokio::test]
async fn what_a_tool_printed_is_never_told() {
    let text = "echo password-of-a-secret\necho 'it went wrong' >&2\nexit 7";
    let (bed, _tools) = with_tool(text, Limits::default()).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "KustomizeFailed");
    assert!(trouble.what.contains("it went wrong") && !trouble.what.contains("password"), "{}", trouble.what);
    let (bed, _tools) = with_tool("printf 'a: [password-of-a-secret\\n'", Limits::default()).await;
    let trouble = bed.render(&folder("")).await.unwrap_err();
    assert_eq!(trouble.reason, "InvalidYaml");
    assert!(!trouble.what.contains("password"), "{}", trouble.what);
}
