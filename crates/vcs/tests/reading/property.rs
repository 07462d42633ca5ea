//! Random trees: what `changes` tells, applied to the old files, gives the new files, and is what `git` tells.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_vcs::{
    id::CommitId,
    repo::Repo,
    tree::{At, Change, ChangeKind, Compare, Entry, Mode, RepoPath, changes, changes_with},
};

use crate::support::git::{Put, Scene, append_commit};

type Files = BTreeMap<String, Put>;

fn name() -> impl Strategy<Value = String> {
    // Names around the slash in order (`-` and `.` before it, `0` after) are where trees are easily got wrong.
    prop::sample::select(vec!["a", "b", "a-", "a.", "a0", "ab"]).prop_map(str::to_owned)
}

fn files() -> impl Strategy<Value = Files> {
    let path = prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    let put = prop_oneof![
        4 => "[xy]{0,1}".prop_map(|text| Put::File(text.into_bytes())),
        1 => "[xy]{0,1}".prop_map(|text| Put::Executable(text.into_bytes())),
        1 => "[xy]".prop_map(|text| Put::Link(text.into_bytes())),
        1 => Just(Put::Submodule),
    ];
    prop::collection::vec((path, put), 0..14).prop_map(|entries| {
        let mut files = Files::new();
        for (path, put) in entries {
            // A path cannot be both a file and a folder.
            let parents: Vec<String> = path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect();
            files.retain(|other, _| !other.starts_with(&format!("{path}/")) && !parents.contains(other));
            files.insert(path, put);
        }
        files
    })
}

/// Commits one set of files after the other.
fn commit_all(scene: &Scene, versions: &[Files]) -> Vec<CommitId> {
    let mut stream = Vec::new();
    for (number, files) in versions.iter().enumerate() {
        let branch = format!("v{number}");
        let files: Vec<(&[u8], Put)> =
            files.iter().map(|(path, put)| (path.as_bytes(), put.clone())).collect();
        append_commit(&mut stream, &branch, false, &files);
    }
    scene.import(&stream);
    let listed =
        scene.remote.run(&["for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"]);
    let tips: BTreeMap<&str, &str> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
    (0..versions.len()).map(|number| tips[format!("v{number}").as_str()].parse().unwrap()).collect()
}

/// The paths of a commit, as `git` lists them.
fn listed(scene: &Scene, commit: CommitId) -> BTreeMap<String, Entry> {
    let output = scene.remote.run(&["ls-tree", "-r", "-z", &commit.to_string()]);
    output
        .split('\0')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (meta, path) = line.split_once('\t').unwrap();
            let mut parts = meta.split(' ');
            let mode = mode(parts.next().unwrap());
            (path.to_owned(), Entry { mode, content: parts.nth(1).unwrap().parse().unwrap() })
        })
        .collect()
}

fn mode(text: &str) -> Mode {
    match text {
        "100644" => Mode::File,
        "100755" => Mode::Executable,
        "120000" => Mode::Link,
        "160000" => Mode::Submodule,
        other => panic!("mode {other}"),
    }
}

/// What `git diff-tree` tells, one line a path.
fn told_by_git(scene: &Scene, from: CommitId, to: CommitId) -> Vec<String> {
    let (from, to) = (from.to_string(), to.to_string());
    let output = scene.remote.run(&["diff-tree", "-r", "-z", "--no-renames", &from, &to]);
    let mut fields = output.split('\0').filter(|field| !field.is_empty());
    let mut lines = Vec::new();
    while let (Some(meta), Some(path)) = (fields.next(), fields.next()) {
        let letter = match meta.chars().last().unwrap() {
            'A' => 'A',
            'D' => 'R',
            'M' | 'T' => 'C',
            other => panic!("status {other}"),
        };
        lines.push(format!("{letter} {path}"));
    }
    lines.sort();
    lines
}

fn told_by_us(changes: &[Change]) -> Vec<String> {
    let mut lines: Vec<String> = changes
        .iter()
        .map(|change| {
            let letter = match change.kind {
                ChangeKind::Added => 'A',
                ChangeKind::Changed => 'C',
                ChangeKind::Removed => 'R',
                ChangeKind::Renamed { .. } => panic!("renames are off"),
            };
            format!("{letter} {}", change.path)
        })
        .collect();
    lines.sort();
    lines
}

/// Applies changes to the paths of the old commit. Everything that goes, goes first: a folder may take a file's place.
fn apply(before: &BTreeMap<String, Entry>, changes: &[Change]) -> BTreeMap<String, Entry> {
    let mut files = before.clone();
    for change in changes {
        let gone = match &change.kind {
            ChangeKind::Added => continue,
            ChangeKind::Renamed { from } => from.to_string(),
            ChangeKind::Changed | ChangeKind::Removed => change.path.to_string(),
        };
        assert_eq!(files.remove(&gone), change.before, "{change:?}");
    }
    for change in changes {
        if let Some(after) = change.after {
            assert_eq!(files.insert(change.path.to_string(), after), None, "{change:?}");
        }
    }
    files
}

type Paths = BTreeMap<String, Entry>;

fn check(scene: &Scene, repo: &Repo, (from, before): &(CommitId, Paths), (to, after): &(CommitId, Paths)) {
    let root = RepoPath::root();
    let (from, to) = (*from, *to);
    let plain = Compare { renames: false, ..Compare::default() };
    let told = changes_with(repo, Some(At::Commit(from)), to, &root, plain).unwrap();
    assert_eq!(told_by_us(&told), told_by_git(scene, from, to));
    assert_eq!(apply(before, &told), *after);
    let told = changes(repo, Some(At::Commit(from)), to, &root).unwrap();
    assert!(told.is_sorted_by(|a, b| a.path < b.path));
    assert_eq!(apply(before, &told), *after);
    // A folder's changes are those of the whole that lie in it, but for renames across its border.
    let folder = RepoPath::parse("a").unwrap();
    if let Ok(inside) = changes_with(repo, Some(At::Commit(from)), to, &folder, plain) {
        let whole = changes_with(repo, Some(At::Commit(from)), to, &root, plain).unwrap();
        let whole: Vec<Change> =
            whole.into_iter().filter(|change| change.path.within(&folder).is_some()).collect();
        assert_eq!(inside, whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_applied_to_the_old_files_give_the_new_ones(versions in prop::collection::vec(files(), 4..9)) {
        let scene = Scene::new();
        let commits = commit_all(&scene, &versions);
        let repo = scene.fetch();
        let versions: Vec<_> = commits.into_iter().map(|commit| (commit, listed(&scene, commit))).collect();
        for pair in versions.windows(2) {
            check(&scene, &repo, &pair[0], &pair[1]);
        }
    }
}
