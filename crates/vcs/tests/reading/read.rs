use windlass_vcs::{
    id::CommitId,
    repo::Repo,
    tree::{Content, Found, Globs, Limits, LinkProblem, Oddity, RepoPath, TreeError, read, read_all},
};

use crate::support::git::{Put, SUBMODULE, Scene, file, link};

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

fn everything(repo: &Repo, commit: CommitId, folder: &str) -> Content {
    read_all(repo, commit, &path(folder), &Globs::default(), Limits::default()).unwrap()
}

fn names(content: &Content) -> Vec<String> {
    content.files.iter().map(|file| file.path.to_string()).collect()
}

#[test]
fn the_files_of_a_folder_are_read_in_order_with_their_bytes() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[
            ("apps/web/b.yaml", file("b")),
            ("apps/web/a/c.yaml", file("c")),
            ("apps/web/a.yaml", file("a")),
            ("apps/web/run.sh", Put::Executable(b"#!/bin/sh".to_vec())),
            ("apps/website/x.yaml", file("x")),
            ("empty.yaml", file("")),
        ],
    );
    let repo = scene.fetch();
    let content = everything(&repo, commit, "./apps/web/");
    assert_eq!(
        names(&content),
        ["apps/web/a.yaml", "apps/web/a/c.yaml", "apps/web/b.yaml", "apps/web/run.sh"]
    );
    assert_eq!(content.files[0].bytes, b"a");
    assert!(content.files[3].executable && !content.files[0].executable);
    assert!(content.oddities.is_empty());
    assert_eq!(content.hash.to_string(), scene.remote.run(&["rev-parse", &format!("{commit}:apps/web")]));
    assert_eq!(
        content.files[0].content.to_string(),
        scene.remote.run(&["rev-parse", &format!("{commit}:apps/web/a.yaml")])
    );
    assert_eq!(everything(&repo, commit, ".").files.len(), 6);
}

#[test]
fn patterns_choose_what_is_read() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[
            ("app/a.yaml", file("1")),
            ("app/b.json", file("2")),
            ("app/notes.md", file("3")),
            ("app/sub/c.yaml", file("4")),
            ("app/vendor/d.yaml", file("5")),
        ],
    );
    let repo = scene.fetch();
    let chosen = |include: &[&str], exclude: &[&str]| {
        let globs = Globs::new(include, exclude).unwrap();
        names(&read_all(&repo, commit, &path("app"), &globs, Limits::default()).unwrap())
    };
    assert_eq!(chosen(&["*.yaml"], &[]), ["app/a.yaml"]);
    assert_eq!(chosen(&["**/*.yaml", "*.json"], &["vendor"]), ["app/a.yaml", "app/b.json", "app/sub/c.yaml"]);
    assert_eq!(chosen(&["sub/*"], &[]), ["app/sub/c.yaml"]);
    assert_eq!(chosen(&[], &["**/*.md", "**/*.yaml"]), ["app/b.json"]);
    assert_eq!(chosen(&["nothing"], &[]), Vec::<String>::new());
}

#[test]
fn links_within_the_folder_are_read_and_all_others_are_reported() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[
            ("app/real/a.yaml", Put::Executable(b"a".to_vec())),
            ("app/good.yaml", link("real/a.yaml")),
            ("app/deep/up.yaml", link("../good.yaml")),
            ("app/dir", link("real")),
            ("app/through.yaml", link("./dir//a.yaml")),
            ("app/out.yaml", link("../secret.yaml")),
            ("app/far.yaml", link("../../../../etc/passwd")),
            ("app/back.yaml", link("../app/real/a.yaml")),
            ("app/absolute.yaml", link("/etc/passwd")),
            ("app/broken.yaml", link("nothing.yaml")),
            ("app/below-a-file.yaml", link("real/a.yaml/x")),
            ("app/loop1", link("loop2")),
            ("app/loop2", link("loop1")),
            ("app/self", link("self")),
            ("app/empty", link("")),
            ("app/module", Put::Submodule),
            ("app/into.yaml", link("module/x")),
            ("secret.yaml", file("secret")),
        ],
    );
    let repo = scene.fetch();
    let content = everything(&repo, commit, "app");
    assert_eq!(names(&content), ["app/deep/up.yaml", "app/good.yaml", "app/real/a.yaml", "app/through.yaml"]);
    assert!(content.files.iter().all(|file| file.bytes == b"a" && file.executable));
    assert_eq!(content.files.iter().filter(|file| file.linked).count(), 3);
    let problem = |name: &str| {
        content.oddities.iter().find_map(|oddity| match oddity {
            Oddity::Link { path, problem, .. } if path.to_string() == name => Some(*problem),
            _ => None,
        })
    };
    for (name, expected) in [
        ("app/dir", LinkProblem::Folder),
        ("app/out.yaml", LinkProblem::Leaves),
        ("app/far.yaml", LinkProblem::Leaves),
        ("app/back.yaml", LinkProblem::Leaves),
        ("app/absolute.yaml", LinkProblem::Leaves),
        ("app/broken.yaml", LinkProblem::Broken),
        ("app/below-a-file.yaml", LinkProblem::Broken),
        ("app/loop1", LinkProblem::Loop),
        ("app/loop2", LinkProblem::Loop),
        ("app/self", LinkProblem::Loop),
        ("app/empty", LinkProblem::Folder),
        ("app/into.yaml", LinkProblem::Submodule),
    ] {
        assert_eq!(problem(name), Some(expected), "{name}");
    }
    // From the root, the same links may reach further, but never out of the repository.
    let content = everything(&repo, commit, ".");
    let secret = content.files.iter().find(|file| file.path.to_string() == "app/out.yaml").unwrap();
    assert_eq!(secret.bytes, b"secret");
    assert!(!names(&content).contains(&"app/far.yaml".to_owned()));
}

#[test]
fn submodules_and_lfs_pointers_are_reported() {
    let scene = Scene::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";
    let commit = scene.commit(
        "main",
        &[
            ("lib", Put::Submodule),
            ("big.bin", file(pointer)),
            ("about-lfs.md", file(&format!("{pointer}{}", "x".repeat(2000)))),
            ("a.yaml", file("a")),
        ],
    );
    let repo = scene.fetch();
    let content = everything(&repo, commit, ".");
    assert_eq!(names(&content), ["a.yaml", "about-lfs.md"]);
    assert_eq!(
        content.oddities,
        [
            Oddity::LfsPointer { path: path("big.bin") },
            Oddity::Submodule { path: path("lib"), commit: SUBMODULE.to_owned() },
        ]
    );
    assert!(content.oddities.iter().all(Oddity::hides_content));
    assert!(content.oddities.iter().all(|oddity| oddity.to_string().contains(": ")));
}

#[test]
fn names_that_are_no_paths_are_reported_and_never_read() {
    // `git` would not even send an empty name: the tree is written into the mirror itself.
    let scene = Scene::new();
    let git = scene.mirror_git();
    let blob = git.raw("blob", b"x");
    let long = "n".repeat(256);
    let inner = git.raw_tree(&[("100644", b"x", &blob)]);
    let tree = git.raw_tree(&[
        ("100644", b"..", &blob),
        ("40000", b".", &inner),
        ("40000", b".git", &inner),
        ("40000", b".GIT", &inner),
        ("100644", b"", &blob),
        ("100644", b"a/../../b", &blob),
        ("100644", b"caf\xe9", &blob),
        ("100644", b"good", &blob),
        ("100644", long.as_bytes(), &blob),
    ]);
    let commit = git.commit_tree("main", &tree);
    let repo = Repo::open(&git.path).unwrap();
    let content = everything(&repo, commit, ".");
    assert_eq!(names(&content), ["good"]);
    let count =
        |category: &str| content.oddities.iter().filter(|oddity| oddity.category() == category).count();
    assert_eq!((count("UnsafeName"), count("NotUtf8"), count("TooLong")), (6, 1, 1));
}

#[test]
fn a_tree_that_is_too_deep_is_reported_and_left() {
    let scene = Scene::new();
    let blob = scene.remote.raw("blob", b"x");
    let mut tree = scene.remote.raw_tree(&[("100644", b"x", &blob)]);
    let name = "d".repeat(200);
    for _ in 0..25 {
        tree = scene.remote.raw_tree(&[("40000", name.as_bytes(), &tree)]);
    }
    let commit = scene.remote.commit_tree("main", &tree);
    let repo = scene.fetch();
    let content = everything(&repo, commit, ".");
    assert!(content.files.is_empty());
    assert!(matches!(content.oddities.as_slice(), [Oddity::TooLong { length, .. }] if *length > 4096));
}

#[test]
fn names_that_differ_only_in_case_are_reported_and_both_are_read() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[
            ("Web/a.yaml", file("1")),
            ("web/A.yaml", file("2")),
            ("web/a.yaml", file("3")),
            ("web/b.yaml", file("4")),
        ],
    );
    let repo = scene.fetch();
    let content = everything(&repo, commit, ".");
    assert_eq!(content.files.len(), 4);
    assert_eq!(
        content.oddities,
        [
            Oddity::CaseCollision { path: path("Web"), other: path("web") },
            Oddity::CaseCollision { path: path("web/A.yaml"), other: path("web/a.yaml") },
        ]
    );
    assert!(!content.oddities[0].hides_content());
}

#[test]
fn limits_hold() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[("a.yaml", file("12345")), ("b.yaml", file("12345")), ("big.yaml", file(&"x".repeat(100)))],
    );
    let repo = scene.fetch();
    let with = |limits: Limits| read_all(&repo, commit, &path("."), &Globs::default(), limits);
    let content = with(Limits { file_bytes: 50, ..Limits::default() }).unwrap();
    assert_eq!(names(&content), ["a.yaml", "b.yaml"]);
    assert_eq!(content.oddities, [Oddity::TooLarge { path: path("big.yaml"), size: 100, limit: 50 }]);
    for (limits, what) in [
        (Limits { files: 2, ..Limits::default() }, "files"),
        (Limits { total_bytes: 109, ..Limits::default() }, "bytes"),
        (Limits { entries: 2, ..Limits::default() }, "entries"),
    ] {
        let error = with(limits).unwrap_err();
        assert!(matches!(error, TreeError::TooMuch { what: found, .. } if found == what), "{error}");
    }
    assert!(with(Limits { files: 3, total_bytes: 110, file_bytes: 100, entries: 3 }).is_ok());
}

#[test]
fn reading_stops_when_the_reader_does() {
    let scene = Scene::new();
    let files: Vec<(String, Put)> = (0..50).map(|number| (format!("f{number:02}"), file("x"))).collect();
    let files: Vec<(&str, Put)> = files.iter().map(|(name, put)| (name.as_str(), put.clone())).collect();
    let commit = scene.commit("main", &files);
    let repo = scene.fetch();
    // The limit would be hit at the third file: whoever takes two never meets it.
    let limits = Limits { files: 2, ..Limits::default() };
    let mut found = read(&repo, commit, &path("."), &Globs::default(), limits).unwrap();
    for name in ["f00", "f01"] {
        let Some(Ok(Found::File(file))) = found.next() else { panic!("a file was expected") };
        assert_eq!(file.path.to_string(), name);
    }
    assert!(found.next().unwrap().is_err());
    assert!(found.next().is_none());
}

#[test]
fn a_folder_that_is_missing_or_no_folder_is_a_clear_error() {
    let scene = Scene::new();
    let commit = scene.commit(
        "main",
        &[("apps/web/a.yaml", file("1")), ("linked", link("apps")), ("module", Put::Submodule)],
    );
    let repo = scene.fetch();
    let error = |folder: &str| {
        let read = read_all(&repo, commit, &path(folder), &Globs::default(), Limits::default());
        read.unwrap_err()
    };
    let missing = error("apps/wbe/x");
    assert!(matches!(&missing, TreeError::FolderMissing { nearest, .. } if nearest.to_string() == "apps"));
    assert_eq!(missing.category(), "FolderMissing");
    for (folder, expected) in [
        ("apps/web/a.yaml", "file"),
        ("apps/web/a.yaml/deeper", "file"),
        ("linked", "symbolic link"),
        ("linked/web", "symbolic link"),
        ("module", "submodule"),
    ] {
        let error = error(folder);
        assert!(matches!(error, TreeError::NotAFolder { what, .. } if what == expected), "{folder}: {error}");
    }
}

#[test]
fn a_bomb_of_folders_without_files_is_given_up() {
    let scene = Scene::new();
    let mut tree = scene.remote.raw_tree(&[]);
    for _ in 0..10 {
        let names: Vec<String> = (0..10).map(|number| format!("d{number}")).collect();
        let entries: Vec<(&str, &[u8], &str)> =
            names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = scene.remote.raw_tree(&entries);
    }
    let bomb = scene.remote.commit_tree("main", &tree);
    let repo = scene.fetch();
    let limits = Limits { entries: 20_000, ..Limits::default() };
    let error = read_all(&repo, bomb, &path("."), &Globs::default(), limits).unwrap_err();
    assert!(matches!(error, TreeError::TooMuch { what: "entries", .. }), "{error}");
    // A pattern that cannot match deep down does not look there.
    let globs = Globs::new(&["d0/*.yaml"], &[]).unwrap();
    assert!(read_all(&repo, bomb, &path("."), &globs, limits).is_ok());
}
