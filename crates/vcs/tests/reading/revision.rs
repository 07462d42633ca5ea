use std::collections::HashMap;

use windlass_vcs::{
    id::CommitId,
    jujutsu::Engine,
    repo::Repo,
    revision::{Candidate, Names, ResolveError, Resolved, Revision, Via, names, resolve},
};

use crate::support::{
    git::{Scene, append_commit, file},
    jj::{self, Jj},
};

fn find(repo: &Repo, text: &str) -> Result<Resolved, ResolveError> {
    resolve(repo, None, &text.parse::<Revision>().unwrap())
}

fn ask(repo: &Repo, engine: &Engine, text: &str) -> Result<Resolved, ResolveError> {
    resolve(repo, Some(engine), &text.parse::<Revision>().unwrap())
}

#[test]
fn branches_tags_and_commits_resolve_by_short_and_full_name() {
    let scene = Scene::new();
    let first = scene.commit("main", &[("a.yaml", file("1"))]);
    scene.remote.run(&["tag", "light", &first.to_string()]);
    scene.remote.run(&["tag", "-a", "-m", "first", "v1.0.0", &first.to_string()]);
    let nested = scene.remote.run(&["rev-parse", "refs/tags/v1.0.0"]);
    scene.remote.run(&["tag", "-a", "-m", "a tag of a tag", "nested", &nested]);
    let second = scene.commit("main", &[("a.yaml", file("2"))]);
    scene.commit("feature/login", &[("b.yaml", file("3"))]);
    let repo = scene.fetch();

    let expect = |text: &str, commit: CommitId, via: Via| {
        let resolved = find(&repo, text).unwrap();
        assert_eq!(resolved, Resolved { commit, change: None, via, shadowed: vec![] }, "{text}");
    };
    expect("main", second, Via::Branch("main".into()));
    scene.mirror_git().run(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    expect("HEAD", second, Via::Branch("HEAD".into()));
    expect("refs/heads/main", second, Via::Branch("main".into()));
    expect("refs/remotes/origin/main", second, Via::Branch("main".into()));
    expect("feature/login", scene.tip("feature/login"), Via::Branch("feature/login".into()));
    expect("light", first, Via::Tag("light".into()));
    expect("v1.0.0", first, Via::Tag("v1.0.0".into()));
    expect("nested", first, Via::Tag("nested".into()));
    expect("refs/tags/v1.0.0", first, Via::Tag("v1.0.0".into()));
    expect(&first.to_string(), first, Via::Commit);
    expect(&first.to_string().to_uppercase(), first, Via::Commit);
    expect(&first.to_string()[..12], first, Via::Commit);
    expect(&nested, first, Via::Commit);
}

#[test]
fn branches_and_tags_are_listed_with_their_commits() {
    let scene = Scene::new();
    let repo = scene.fetch();
    assert_eq!(names(&repo).unwrap(), Names::default());
    let error = find(&repo, "main").unwrap_err();
    assert!(error.to_string().contains("no branches and no tags yet"), "{error}");
    let first = scene.commit("main", &[("a.yaml", file("1"))]);
    scene.remote.run(&["tag", "-a", "-m", "first", "v1", &first.to_string()]);
    scene.remote.run(&["tag", "tree", &format!("{first}^{{tree}}")]);
    let second = scene.commit("main", &[("a.yaml", file("2"))]);
    let repo = scene.fetch();
    Engine::open(&scene.mirror).unwrap();
    let listed = names(&repo).unwrap();
    assert_eq!(listed.branches.into_iter().collect::<Vec<_>>(), [("main".to_owned(), second)]);
    assert_eq!(listed.tags.into_iter().collect::<Vec<_>>(), [("v1".to_owned(), first)]);
    let mut tips = vec![first, second];
    tips.sort_unstable();
    assert_eq!(names(&repo).unwrap().tips(), tips);
}

#[test]
fn a_branch_goes_before_a_tag_of_the_same_name_and_the_tag_is_told() {
    let scene = Scene::new();
    let first = scene.commit("main", &[("a.yaml", file("1"))]);
    let second = scene.commit("main", &[("a.yaml", file("2"))]);
    scene.remote.run(&["tag", "main", &first.to_string()]);
    scene.remote.run(&["tag", "same", &second.to_string()]);
    scene.remote.run(&["branch", "same", &second.to_string()]);
    let repo = scene.fetch();
    let resolved = find(&repo, "main").unwrap();
    assert_eq!(resolved.commit, second);
    assert_eq!(resolved.via, Via::Branch("main".into()));
    assert_eq!(resolved.shadowed, ["refs/tags/main"]);
    assert_eq!(find(&repo, "refs/tags/main").unwrap().commit, first);
    assert_eq!(find(&repo, "same").unwrap().shadowed, Vec::<String>::new());
}

#[test]
fn a_branch_that_looks_like_a_commit_or_a_change_goes_before_them() {
    let scene = Scene::new();
    let first = scene.commit("main", &[("a.yaml", file("1"))]);
    let looks_like = first.to_string()[..8].to_owned();
    let other = scene.commit(&looks_like, &[("b.yaml", file("2"))]);
    let tools = scene.commit("tools", &[("c.yaml", file("3"))]);
    let repo = scene.fetch();
    assert_eq!(find(&repo, &looks_like).unwrap().commit, other);
    assert_eq!(find(&repo, "tools").unwrap().commit, tools);
    assert_eq!(find(&repo, &first.to_string()[..10]).unwrap().commit, first);
}

#[test]
fn a_tag_of_a_tree_or_a_file_is_refused() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a.yaml", file("1"))]);
    let tree = scene.remote.run(&["rev-parse", &format!("{commit}^{{tree}}")]);
    let blob = scene.remote.run(&["rev-parse", &format!("{commit}:a.yaml")]);
    scene.remote.run(&["tag", "the-tree", &tree]);
    scene.remote.run(&["tag", "-a", "-m", "a file", "the-file", &blob]);
    let repo = scene.fetch();
    for (text, kind) in [("the-tree", "tree"), ("the-file", "blob"), (&*tree, "tree"), (&*blob, "blob")] {
        let error = find(&repo, text).unwrap_err();
        assert!(
            matches!(&error, ResolveError::NotACommit { kind: found, .. } if found == kind),
            "{text}: {error}"
        );
        assert_eq!(error.category(), "NotACommit");
    }
}

#[test]
fn an_unknown_name_is_answered_with_near_ones() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a.yaml", file("1"))]);
    scene.remote.run(&["tag", "release-1.2", &commit.to_string()]);
    let repo = scene.fetch();
    let near = |text: &str| match find(&repo, text).unwrap_err() {
        ResolveError::Unknown { near, .. } => near,
        error => panic!("{error}"),
    };
    assert_eq!(near("Main"), ["main"]);
    assert_eq!(near("mian"), ["main"]);
    assert_eq!(near("origin/main"), ["main"]);
    assert_eq!(near("relaese-1.2"), ["release-1.2"]);
    assert_eq!(near("refs/heads/mai"), ["main"]);
    assert!(near("production").is_empty());
    assert!(find(&repo, "mai").unwrap_err().to_string().contains("did you mean main?"));
    assert!(near("0123456789abcdef0123456789abcdef01234567").is_empty());
    assert!(near(&"0123456789abcdef".repeat(4)).is_empty());
    assert!(near("refs/jj/keep/x").is_empty());
}

#[test]
fn a_prefix_of_two_commits_is_ambiguous_and_names_both() {
    let scene = Scene::new();
    // By the birthday rule 1,500 commits share four digits somewhere; fixed dates make them the same every time.
    let mut stream = Vec::new();
    for number in 0..1500 {
        append_commit(&mut stream, "main", false, &[(b"a.yaml", file(&number.to_string()))]);
    }
    scene.import(&stream);
    let repo = scene.fetch();
    let log = scene.remote.run(&["log", "--format=%H", "main"]);
    let mut by_prefix: HashMap<&str, Vec<&str>> = HashMap::new();
    for commit in log.lines() {
        by_prefix.entry(&commit[..4]).or_default().push(commit);
    }
    let (prefix, commits) = by_prefix.into_iter().find(|(_, commits)| commits.len() > 1).unwrap();
    let mut commits: Vec<CommitId> = commits.iter().map(|commit| commit.parse().unwrap()).collect();
    commits.sort_unstable();
    match find(&repo, prefix).unwrap_err() {
        ResolveError::Ambiguous { candidates, .. } => {
            assert_eq!(
                candidates,
                commits.iter().map(|commit| Candidate::Commit(*commit)).collect::<Vec<_>>()
            );
        }
        error => panic!("{error}"),
    }
    assert_eq!(find(&repo, &commits[0].to_string()[..12]).unwrap().commit, commits[0]);
}

#[test]
fn a_commit_that_no_ref_leads_to_is_hidden() {
    let scene = Scene::new();
    let base = scene.commit("main", &[("a.yaml", file("1"))]);
    let gone = scene.commit("main", &[("a.yaml", file("2"))]);
    let repo = scene.fetch();
    assert_eq!(find(&repo, &gone.to_string()).unwrap().commit, gone);
    scene.remote.run(&["update-ref", "refs/heads/main", &base.to_string()]);
    scene.commit("main", &[("a.yaml", file("3"))]);
    let repo = scene.fetch();
    // Refs of our own keep it from being collected; they do not make it visible.
    for name in ["refs/jj/keep/x", "refs/windlass/kept/1700000000-x"] {
        scene.mirror_git().run(&["update-ref", name, &gone.to_string()]);
        assert!(matches!(find(&repo, name), Err(ResolveError::Unknown { .. })));
    }
    for text in [gone.to_string(), gone.to_string()[..12].to_owned()] {
        let error = find(&repo, &text).unwrap_err();
        assert!(matches!(error, ResolveError::Hidden { commit } if commit == gone), "{error}");
    }
    assert_eq!(find(&repo, &base.to_string()).unwrap().commit, base);
}

#[test]
fn a_change_id_follows_rewrites() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a.yaml", "1")], "base");
    let work = user.commit(&[&base], &[("b.yaml", "1")], "work");
    user.push(&base, "main");
    let first = user.push(&work, "work");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let change = jj::change(&work);
    let text = change.to_string();
    let resolved = ask(&scene.fetch(), &engine, &text).unwrap();
    assert_eq!(
        resolved,
        Resolved { commit: first, change: Some(change), via: Via::Change, shadowed: vec![] }
    );

    let work = user.amend(&work, &[("b.yaml", "2")]);
    let work = user.describe(&work, "better words");
    let second = user.push(&work, "work");
    assert_ne!(first, second);
    let repo = scene.fetch();
    engine.import("fetch").wait().unwrap();
    assert_eq!(ask(&repo, &engine, &text).unwrap().commit, second);
    assert_eq!(ask(&repo, &engine, &text[..8]).unwrap().commit, second);
    // The branch tells its change, too; the commit it was before is hidden.
    assert_eq!(ask(&repo, &engine, "work").unwrap().change, Some(change));
    assert!(matches!(ask(&repo, &engine, &first.to_string()), Err(ResolveError::Hidden { .. })));
}

#[test]
fn a_divergent_change_is_refused_with_both_commits() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a.yaml", "1")], "work");
    let [mine, yours] = user.diverge(&work);
    let mut both = vec![user.push(&mine, "mine"), user.push(&yours, "yours")];
    both.sort_unstable();
    let repo = scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    match ask(&repo, &engine, &jj::change(&work).to_string()).unwrap_err() {
        ResolveError::Divergent { change, commits } => {
            assert_eq!(change, jj::change(&work));
            assert_eq!(commits, both);
        }
        error => panic!("{error}"),
    }
    // Once one is gone, the change is whole again.
    user.remove("yours");
    let repo = scene.fetch();
    engine.import("fetch").wait().unwrap();
    assert_eq!(ask(&repo, &engine, &jj::change(&work).to_string()).unwrap().commit, jj::id(&mine));
}

#[test]
fn an_abandoned_change_is_refused_with_its_last_commit() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a.yaml", "1")], "base");
    let work = user.commit(&[&base], &[("b.yaml", "1")], "work");
    user.push(&base, "main");
    user.push(&work, "work");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let work = user.describe(&work, "again");
    let last = user.push(&work, "work");
    scene.fetch();
    engine.import("fetch").wait().unwrap();
    user.remove("work");
    let repo = scene.fetch();
    let imported = engine.import("fetch").wait().unwrap();
    assert_eq!(imported.abandoned, [last]);
    match ask(&repo, &engine, &jj::change(&work).to_string()).unwrap_err() {
        ResolveError::Abandoned { change, last: found, successor } => {
            assert_eq!((change, found, successor), (jj::change(&work), last, None));
        }
        error => panic!("{error}"),
    }
    // Pushed again, it is back.
    user.push(&work, "work");
    let repo = scene.fetch();
    engine.import("fetch").wait().unwrap();
    assert_eq!(ask(&repo, &engine, &jj::change(&work).to_string()).unwrap().commit, last);
}

#[test]
fn a_change_that_lost_its_header_in_a_rebase_with_plain_git_is_told_so() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a.yaml", "1")], "base");
    let work = user.commit(&[&base], &[("b.yaml", "1")], "work");
    let main = user.commit(&[&base], &[("a.yaml", "2")], "main moves on");
    user.push(&main, "main");
    user.push(&work, "work");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();

    let clone = scene.dir.path().join("clone");
    scene.remote.run(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    let clone = crate::support::git::Git { path: clone };
    clone.run(&["checkout", "--quiet", "work"]);
    clone.run(&["rebase", "--quiet", "origin/main"]);
    clone.run(&["push", "--quiet", "--force", "origin", "work"]);
    let rebased = scene.tip("work");

    let repo = scene.fetch();
    engine.import("fetch").wait().unwrap();
    let error = ask(&repo, &engine, &jj::change(&work).to_string()).unwrap_err();
    match &error {
        ResolveError::Abandoned { last, successor, .. } => {
            assert_eq!(*last, jj::id(&work));
            assert_eq!(*successor, Some(rebased));
        }
        error => panic!("{error}"),
    }
    assert!(error.to_string().contains("plain `git`"), "{error}");
    assert_eq!(ask(&repo, &engine, "work").unwrap().change, None);
}

#[test]
fn first_letters_of_two_changes_are_ambiguous_until_one_is_gone() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let one = "klmnopqrklmnopqrklmnopqrklmnopqr".parse().unwrap();
    let two = "klmnzzzzklmnopqrklmnopqrklmnopqr".parse().unwrap();
    let first = user.commit_as(one, &[("a.yaml", "1")], "one");
    let second = user.commit_as(two, &[("b.yaml", "1")], "two");
    user.push(&first, "one");
    user.push(&second, "two");
    let repo = scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    match ask(&repo, &engine, "klmn").unwrap_err() {
        ResolveError::Ambiguous { candidates, .. } => {
            assert_eq!(candidates.len(), 2);
            assert!(
                candidates.contains(&Candidate::Change(one)) && candidates.contains(&Candidate::Change(two))
            );
        }
        error => panic!("{error}"),
    }
    assert_eq!(ask(&repo, &engine, "klmno").unwrap().commit, jj::id(&first));
    user.remove("two");
    let repo = scene.fetch();
    engine.import("fetch").wait().unwrap();
    assert_eq!(ask(&repo, &engine, "klmn").unwrap().commit, jj::id(&first));
}

#[test]
fn an_unknown_change_and_the_root_of_all_are_unknown() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a.yaml", "1")], "work");
    user.push(&work, "main");
    let repo = scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    for text in ["k".repeat(32), "z".repeat(32), "zzzzzzzz".to_owned()] {
        let error = ask(&repo, &engine, &text).unwrap_err();
        assert!(matches!(error, ResolveError::Unknown { .. }), "{text}: {error}");
    }
}

#[test]
fn in_a_plain_repository_a_change_id_is_unknown_with_a_hint() {
    let scene = Scene::new();
    scene.commit("main", &[("a.yaml", file("1"))]);
    let repo = scene.fetch();
    let error = find(&repo, &"k".repeat(32)).unwrap_err();
    assert_eq!(error.category(), "Unknown");
    assert!(error.to_string().contains("carries one"), "{error}");
}

#[test]
fn a_sha_256_repository_resolves_as_well() {
    let scene = Scene::with_format("sha256");
    let commit = scene.commit("main", &[("a.yaml", file("1"))]);
    assert_eq!(commit.to_string().len(), 64);
    let repo = scene.fetch();
    assert_eq!(find(&repo, "main").unwrap().commit, commit);
    assert_eq!(find(&repo, &commit.to_string()).unwrap().commit, commit);
    for digits in [8, 40, 50] {
        assert_eq!(find(&repo, &commit.to_string()[..digits]).unwrap().commit, commit, "{digits}");
    }
}

#[test]
fn refs_that_come_and_go_while_they_are_read_are_no_damage() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a", file("1"))]);
    let repo = scene.fetch();
    let folder = scene.mirror.join("git/refs/remotes/origin/preview");
    let draft = scene.mirror.join("draft");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // As git does it: each appears whole, and then they go one after the other.
                std::fs::create_dir_all(&folder).unwrap();
                for number in 0..60 {
                    std::fs::write(&draft, format!("{commit}\n")).unwrap();
                    std::fs::rename(&draft, folder.join(number.to_string())).unwrap();
                }
                std::fs::remove_dir_all(&folder).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        for _ in 0..800 {
            // Not a name: all refs are looked at.
            let error = find(&repo, "mian").unwrap_err();
            if error.category() != "Unknown" {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{error}: {error:?}");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
