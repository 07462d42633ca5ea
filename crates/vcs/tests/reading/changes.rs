use windlass_vcs::{
    id::CommitId,
    repo::Repo,
    tree::{At, Change, ChangeKind, Compare, Mode, RepoPath, TreeError, changes, changes_with, hash},
};

use crate::support::git::{Put, Scene, file, link};

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

/// Changes in short: a letter and the path.
fn short(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| match &change.kind {
            ChangeKind::Added => format!("A {}", change.path),
            ChangeKind::Changed => format!("C {}", change.path),
            ChangeKind::Removed => format!("R {}", change.path),
            ChangeKind::Renamed { from } => format!("M {from} -> {}", change.path),
        })
        .collect()
}

fn between(repo: &Repo, from: CommitId, to: CommitId, folder: &str) -> Vec<String> {
    short(&changes(repo, Some(from.into()), to, &path(folder)).unwrap())
}

#[test]
fn added_changed_removed_and_renamed_paths_are_told() {
    let scene = Scene::new();
    let before = scene.commit(
        "main",
        &[
            ("apps/web/a.yaml", file("a")),
            ("apps/web/b.yaml", file("b")),
            ("apps/web/old/c.yaml", file("c")),
            ("apps/db/d.yaml", file("d")),
            ("apps/db/run.sh", file("run")),
            ("other/e.yaml", file("e")),
        ],
    );
    let after = scene.commit(
        "main",
        &[
            ("apps/web/a.yaml", file("a2")),
            ("apps/web/b.yaml", Put::Nothing),
            ("apps/web/old/c.yaml", Put::Nothing),
            ("apps/web/new/c.yaml", file("c")),
            ("apps/web/f.yaml", file("f")),
            ("apps/db/run.sh", Put::Executable(b"run".to_vec())),
            ("other/e.yaml", link("somewhere")),
        ],
    );
    let repo = scene.fetch();
    assert_eq!(
        between(&repo, before, after, "."),
        [
            "C apps/db/run.sh",
            "C apps/web/a.yaml",
            "R apps/web/b.yaml",
            "A apps/web/f.yaml",
            "M apps/web/old/c.yaml -> apps/web/new/c.yaml",
            "C other/e.yaml",
        ]
    );
    assert_eq!(between(&repo, before, after, "apps/db"), ["C apps/db/run.sh"]);
    assert_eq!(between(&repo, before, after, "apps/web/old"), ["R apps/web/old/c.yaml"]);
    assert_eq!(between(&repo, before, after, "nowhere"), Vec::<String>::new());
    assert_eq!(between(&repo, after, after, "."), Vec::<String>::new());

    let all = changes(&repo, Some(before.into()), after, &path("apps/db")).unwrap();
    assert_eq!(all[0].before.unwrap().mode, Mode::File);
    assert_eq!(all[0].after.unwrap().mode, Mode::Executable);
    assert_eq!(all[0].before.unwrap().content, all[0].after.unwrap().content);
}

#[test]
fn without_a_former_commit_everything_is_new() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a/x", file("1")), ("b/y", file("2"))]);
    let repo = scene.fetch();
    assert_eq!(short(&changes(&repo, None, commit, &path(".")).unwrap()), ["A a/x", "A b/y"]);
    let tree = hash(&repo, commit, &path("a")).unwrap().unwrap();
    assert_eq!(short(&changes(&repo, None, tree, &path(".")).unwrap()), ["A x"]);
    assert_eq!(short(&changes(&repo, Some(At::Tree(tree)), tree, &path(".")).unwrap()), Vec::<String>::new());
}

#[test]
fn a_file_that_becomes_a_folder_is_a_removal_and_additions() {
    let scene = Scene::new();
    let before = scene.commit("main", &[("a", file("1")), ("a.b", file("2")), ("z/q", file("3"))]);
    let after = scene.commit("main", &[("a/x", file("4")), ("z", file("5"))]);
    let repo = scene.fetch();
    assert_eq!(between(&repo, before, after, "."), ["R a", "A a/x", "A z", "R z/q"]);
    assert_eq!(between(&repo, before, after, "a"), ["A a/x"]);
    let error = changes(&repo, Some(after.into()), before, &path("a")).unwrap_err();
    assert!(matches!(error, TreeError::NotAFolder { what: "file", .. }), "{error}");
}

#[test]
fn renames_prefer_the_same_file_name_and_can_be_switched_off() {
    let scene = Scene::new();
    let before =
        scene.commit("main", &[("a/one", file("same")), ("b/two", file("same")), ("empty", file(""))]);
    let after = scene.commit(
        "main",
        &[
            ("a/one", Put::Nothing),
            ("b/two", Put::Nothing),
            ("empty", Put::Nothing),
            ("c/two", file("same")),
            ("d/three", file("same")),
            ("e/four", file("same")),
            ("empty2", file("")),
        ],
    );
    let repo = scene.fetch();
    assert_eq!(
        between(&repo, before, after, "."),
        ["M b/two -> c/two", "M a/one -> d/three", "A e/four", "R empty", "A empty2"]
    );
    let options = Compare { renames: false, ..Compare::default() };
    let plain = changes_with(&repo, Some(before.into()), after, &path("."), options).unwrap();
    assert_eq!(
        short(&plain),
        ["R a/one", "R b/two", "A c/two", "A d/three", "A e/four", "R empty", "A empty2"]
    );
}

#[test]
fn the_hash_of_a_folder_is_its_tree_and_changes_only_with_it() {
    let scene = Scene::new();
    let first = scene.commit("main", &[("apps/a", file("1")), ("docs/b", file("1"))]);
    let second = scene.commit("main", &[("docs/b", file("2"))]);
    let repo = scene.fetch();
    let of = |commit: CommitId, folder: &str| hash(&repo, commit, &path(folder)).unwrap();
    assert_eq!(
        of(first, "apps").unwrap().to_string(),
        scene.remote.run(&["rev-parse", &format!("{first}:apps")])
    );
    assert_eq!(of(first, "apps"), of(second, "apps"));
    assert_ne!(of(first, "docs"), of(second, "docs"));
    assert_ne!(of(first, "."), of(second, "."));
    assert_eq!(of(first, "nowhere"), None);
    assert!(hash(&repo, first, &path("apps/a")).is_err());
}

#[test]
fn a_tree_of_billions_of_paths_is_given_up() {
    let scene = Scene::new();
    let mut tree = {
        let blob = scene.remote.raw("blob", b"x");
        scene.remote.raw_tree(&[("100644", b"file", &blob)])
    };
    for _ in 0..12 {
        let names: Vec<String> = (0..10).map(|number| format!("d{number}")).collect();
        let entries: Vec<(&str, &[u8], &str)> =
            names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = scene.remote.raw_tree(&entries);
    }
    let bomb = scene.remote.commit_tree("main", &tree);
    let repo = scene.fetch();
    let options = Compare { limit: 10_000, ..Compare::default() };
    let error = changes_with(&repo, None, bomb, &path("."), options).unwrap_err();
    assert!(matches!(error, TreeError::TooMuch { what: "changes", .. }), "{error}");
}

#[test]
fn a_tree_out_of_order_is_still_compared_by_name() {
    let scene = Scene::new();
    let one = scene.remote.raw("blob", b"1");
    let two = scene.remote.raw("blob", b"2");
    let before = scene.remote.raw_tree(&[("100644", b"a", &one), ("100644", b"b", &one)]);
    let after =
        scene.remote.raw_tree(&[("100644", b"b", &one), ("100644", b"a", &two), ("100644", b"a", &one)]);
    let before = scene.remote.commit_tree("before", &before);
    let after = scene.remote.commit_tree("after", &after);
    let repo = scene.fetch();
    assert_eq!(between(&repo, before, after, "."), ["C a"]);
}

#[test]
fn a_missing_commit_or_tree_is_an_error_and_not_an_empty_tree() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a/x", file("1"))]);
    let repo = scene.fetch();
    let missing: CommitId = "0123456789012345678901234567890123456789".parse().unwrap();
    let error = changes(&repo, Some(missing.into()), commit, &path(".")).unwrap_err();
    assert_eq!(error.category(), "Missing");
    assert!(changes(&repo, Some(commit.into()), missing, &path(".")).is_err());
    let blob = scene.remote.run(&["rev-parse", &format!("{commit}:a/x")]);
    let tree: windlass_vcs::id::TreeId = blob.parse().unwrap();
    assert_eq!(hash(&repo, tree, &path(".")).unwrap_err().category(), "WrongKind");
}
