use windlass_vcs::{
    id::CommitId,
    jujutsu::{ConflictError, Engine, change_of, conflicts, is_jujutsu, require_clean},
    repo::Repo,
    tree::{Globs, Limits, Oddity, RepoPath, read_all},
};

use crate::support::{
    git::{Scene, file},
    jj::{self, Jj},
};

fn paths(repo: &Repo, commit: CommitId) -> Vec<String> {
    match require_clean(repo, commit) {
        Ok(()) => panic!("{commit} should be in conflict"),
        Err(ConflictError::Conflicted(conflicted)) => {
            assert_eq!(conflicted.commit, commit);
            conflicted.paths.iter().map(ToString::to_string).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

/// A change that was rebased onto another one that edits the same files.
fn conflicted(scene: &Scene) -> (Jj, jj_lib::commit::Commit) {
    let mut user = Jj::new(scene);
    let base = user.commit(
        &[],
        &[
            ("a.yaml", "base\n"),
            ("dir/b.yaml", "base\n"),
            ("dir/c.yaml", "one\ntwo\nthree\nfour\nfive\n"),
            ("same", "x"),
        ],
        "base",
    );
    let theirs = user.commit(
        &[&base],
        &[
            ("a.yaml", "theirs\n"),
            ("dir/b.yaml", "theirs\n"),
            ("dir/c.yaml", "ONE\ntwo\nthree\nfour\nfive\n"),
            ("same", "y"),
        ],
        "theirs",
    );
    let ours = user.commit(
        &[&base],
        &[
            ("a.yaml", "ours\n"),
            ("dir/b.yaml", "ours\n"),
            ("dir/c.yaml", "one\ntwo\nthree\nfour\nFIVE\n"),
            ("same", "y"),
            ("new", "n"),
        ],
        "ours",
    );
    let rebased = user.rebase(&ours, &theirs);
    (user, rebased)
}

#[test]
fn a_conflicted_commit_is_refused_with_its_paths() {
    let scene = Scene::new();
    let (user, commit) = conflicted(&scene);
    let id = user.push(&commit, "main");
    let repo = scene.fetch();
    assert_eq!(paths(&repo, id), ["a.yaml", "dir/b.yaml"]);
    assert_eq!(paths(&repo, id), user.conflicts(&commit));
    let error = require_clean(&repo, id).unwrap_err();
    assert_eq!(error.category(), "Conflicted");
    assert!(error.to_string().contains("a.yaml, dir/b.yaml: resolve them"), "{error}");
}

#[test]
fn a_conflict_of_three_sides_is_told_as_jujutsu_tells_it() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a", "0"), ("b", "0"), ("d/e", "0")], "base");
    let one = user.commit(&[&base], &[("a", "1"), ("b", "1")], "one");
    let two = user.commit(&[&base], &[("a", "2"), ("d/e", "2")], "two");
    let three = user.commit(&[&base], &[("a", "3"), ("d/e", "3")], "three");
    let merge = user.commit(&[&one, &two, &three], &[], "merge");
    let id = user.push(&merge, "main");
    let repo = scene.fetch();
    assert_eq!(paths(&repo, id), ["a", "d/e"]);
    assert_eq!(paths(&repo, id), user.conflicts(&merge));
}

#[test]
fn a_file_against_a_folder_is_a_conflict_at_the_file() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("keep", "0")], "base");
    let one = user.commit(&[&base], &[("x", "a file")], "file");
    let two = user.commit(&[&base], &[("x/y", "in a folder")], "folder");
    let merge = user.commit(&[&one, &two], &[], "merge");
    let id = user.push(&merge, "main");
    assert_eq!(paths(&scene.fetch(), id), user.conflicts(&merge));
}

#[test]
fn a_resolved_conflict_is_clean_and_keeps_the_change() {
    let scene = Scene::new();
    let (mut user, commit) = conflicted(&scene);
    let resolved = user.amend(&commit, &[("a.yaml", "both\n"), ("dir/b.yaml", "both\n")]);
    let id = user.push(&resolved, "main");
    let repo = scene.fetch();
    require_clean(&repo, id).unwrap();
    assert_eq!(conflicts(&repo, id).unwrap(), None);
    assert_eq!(change_of(&repo, id).unwrap(), Some(jj::change(&commit)));
}

#[test]
fn a_conflict_whose_header_plain_git_dropped_is_still_refused() {
    let scene = Scene::new();
    let (user, commit) = conflicted(&scene);
    let id = user.push(&commit, "main");
    // `git commit --amend`: the same tree, without the headers.
    let tree = scene.remote.run(&["rev-parse", &format!("{id}^{{tree}}")]);
    let amended = scene.remote.commit_tree("amended", &tree);
    let repo = scene.fetch();
    assert_eq!(change_of(&repo, amended).unwrap(), None);
    assert_eq!(paths(&repo, amended), ["a.yaml", "dir/b.yaml"]);
}

#[test]
fn a_conflict_header_that_makes_no_sense_is_refused() {
    let scene = Scene::new();
    let clean = scene.commit("main", &[("a", file("1"))]);
    let tree = scene.remote.run(&["rev-parse", &format!("{clean}^{{tree}}")]);
    for header in
        [format!("jj:trees {tree}"), format!("jj:trees {tree} {tree}"), "jj:trees nonsense".to_owned()]
    {
        let text = format!(
            "tree {tree}\nauthor A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\n{header}\n\nodd\n"
        );
        let odd = scene.remote.raw("commit", text.as_bytes());
        scene.remote.run(&["update-ref", "refs/heads/odd", &odd]);
        let repo = scene.fetch();
        assert!(require_clean(&repo, odd.parse().unwrap()).is_err(), "{header}");
    }
}

#[test]
fn a_plain_reader_of_a_conflict_is_told_of_its_sides() {
    let scene = Scene::new();
    let (user, commit) = conflicted(&scene);
    let id = user.push(&commit, "main");
    let repo = scene.fetch();
    let content = read_all(&repo, id, &RepoPath::root(), &Globs::default(), Limits::default()).unwrap();
    let sides =
        content.oddities.iter().filter(|oddity| matches!(oddity, Oddity::ConflictSide { .. })).count();
    assert_eq!(sides, 3);
    assert!(!content.files.iter().any(|file| file.path.to_string().starts_with(".jjconflict")));
}

#[test]
fn a_repository_is_jujutsus_when_a_commit_near_its_tips_carries_a_change_id() {
    let scene = Scene::new();
    let plain = scene.commit("plain", &[("a", file("1"))]);
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("b", "1")], "work");
    let work = user.push(&work, "work");
    // A merge button writes a plain commit on top.
    let clone = scene.remote.run(&[
        "commit-tree",
        "-p",
        &work.to_string(),
        "-m",
        "merge",
        &format!("{work}^{{tree}}"),
    ]);
    scene.remote.run(&["update-ref", "refs/heads/work", &clone]);
    let repo = scene.fetch();
    assert!(!is_jujutsu(&repo, &[plain]).unwrap());
    assert!(!is_jujutsu(&repo, &[]).unwrap());
    assert!(is_jujutsu(&repo, &[plain, scene.tip("work")]).unwrap());
}

#[test]
fn a_conflicted_commit_passes_through_the_engine_unchanged() {
    let scene = Scene::new();
    let (user, commit) = conflicted(&scene);
    let id = user.push(&commit, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], id);
    assert_eq!(scene.mirror_git().run(&["rev-parse", "refs/remotes/origin/main"]), id.to_string());
}
