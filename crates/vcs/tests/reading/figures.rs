//! How long things take on large repositories. Run with
//! `cargo test --release -p windlass-vcs --test reading -- --ignored --nocapture figures`.

use std::time::{Duration, Instant};

use windlass_vcs::{
    jujutsu::{Engine, require_clean},
    tree::{At, Globs, Limits, RepoPath, changes, hash, read_all},
};

use crate::support::git::{Put, Scene, append_commit, file};

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = run();
    let took = start.elapsed();
    println!("{what}: {:.2} ms", took.as_secs_f64() * 1000.0);
    (result, took)
}

/// A repository of manifests, 200 in a folder.
fn large(scene: &Scene, count: usize) {
    let paths: Vec<String> =
        (0..count).map(|number| format!("apps/{:04}/{number:06}.yaml", number / 200)).collect();
    let files: Vec<(&[u8], Put)> = paths
        .iter()
        .enumerate()
        .map(|(number, path)| {
            let text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{number}\ndata:\n  key: value\n"
            );
            (path.as_bytes(), file(&text))
        })
        .collect();
    let mut stream = Vec::new();
    append_commit(&mut stream, "main", false, &files);
    scene.import(&stream);
}

fn measure(count: usize) {
    println!("{count} files");
    let scene = Scene::new();
    large(&scene, count);
    let before = scene.tip("main");
    let repo = scene.fetch();
    let after = scene.commit("main", &[("apps/0007/001407.yaml", file("changed"))]);
    scene.fetch();
    let root = RepoPath::root();
    let folder = RepoPath::parse("apps/0007").unwrap();
    let (found, took) =
        timed("one-file commit, first", || changes(&repo, Some(At::Commit(before)), after, &root).unwrap());
    assert_eq!(found.len(), 1);
    assert!(took < Duration::from_secs(2), "{took:?}");
    timed("one-file commit, again", || changes(&repo, Some(At::Commit(before)), after, &root).unwrap());
    timed("hash of a folder", || hash(&repo, after, &folder).unwrap());
    timed("conflict check", || require_clean(&repo, after).unwrap());
    let globs = Globs::new(&["**/*.yaml"], &[]).unwrap();
    let (content, _) =
        timed("read of 200 files", || read_all(&repo, after, &folder, &globs, Limits::default()).unwrap());
    assert_eq!(content.files.len(), 200);
    let (content, _) =
        timed("read of all files", || read_all(&repo, after, &root, &globs, Limits::default()).unwrap());
    assert_eq!(content.files.len(), count);
    timed("all changes", || changes(&repo, None, after, &root).unwrap());
    let ((engine, _), _) = timed("engine, first", || Engine::open(&scene.mirror).unwrap());
    scene.commit("main", &[("apps/0007/001407.yaml", file("changed again"))]);
    scene.fetch();
    timed("engine, import of one commit", || engine.import("fetch").wait().unwrap());
}

#[test]
#[ignore = "takes half a minute"]
fn figures_of_large_repositories() {
    measure(10_000);
    measure(100_000);
}
