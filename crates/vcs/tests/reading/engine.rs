use std::fs;

use windlass_vcs::jujutsu::{ChangeState, Engine, EngineError, Move, Opened, RefKind};

use crate::support::{
    git::{Scene, file},
    jj::{self, Jj},
};

#[test]
fn a_store_is_created_beside_the_mirror_and_reopened() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Created);
    assert!(scene.mirror.join("jj/store").exists());
    let operations = engine.operations(10).wait().unwrap();
    drop(engine);
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    assert_eq!(engine.operations(10).wait().unwrap(), operations);
    assert_eq!(
        engine.change(jj::change(&work)).wait().unwrap(),
        ChangeState::Visible { change: jj::change(&work), commit: jj::id(&work) }
    );
}

#[test]
fn a_work_dir_can_be_moved() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    drop(Engine::open(&scene.mirror).unwrap());
    let moved = scene.dir.path().join("moved");
    fs::rename(&scene.mirror, &moved).unwrap();
    let (engine, opened) = Engine::open(&moved).unwrap();
    assert_eq!(opened, Opened::Reopened);
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], jj::id(&work));
}

#[test]
fn every_import_that_moves_something_is_an_operation() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    let first = user.push(&base, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(engine.import("nothing new").wait().unwrap().operation, None);

    let next = user.commit(&[&base], &[("a", "2")], "next");
    let second = user.push(&next, "main");
    let other = user.push(&base, "other");
    scene.remote.run(&["tag", "-a", "-m", "one", "v1", &first.to_string()]);
    scene.fetch();
    let imported = engine.import("fetch 2").wait().unwrap();
    let moves = vec![
        Move { kind: RefKind::Bookmark, name: "main".into(), from: Some(first), to: Some(second) },
        Move { kind: RefKind::Bookmark, name: "other".into(), from: None, to: Some(other) },
        Move { kind: RefKind::Tag, name: "v1".into(), from: None, to: Some(first) },
    ];
    assert_eq!(imported.moves, moves);
    assert!(imported.rebuilt.is_none() && imported.failed.is_empty() && imported.abandoned.is_empty());

    user.remove("other");
    scene.fetch();
    engine.import("fetch 3").wait().unwrap();
    let operations = engine.operations(10).wait().unwrap();
    let described: Vec<&str> = operations.iter().map(|operation| operation.description.as_str()).collect();
    assert_eq!(described, ["fetch 3", "fetch 2", "first import"]);
    assert_eq!(operations[1].moves, moves);
    assert_eq!(operations[1].id, imported.operation.unwrap());
    assert_eq!(
        operations[0].moves,
        [Move { kind: RefKind::Bookmark, name: "other".into(), from: Some(other), to: None }]
    );
    let age = jiff::Timestamp::now().duration_since(operations[0].time);
    assert!(age.as_secs().abs() < 600, "{age}");
    assert_eq!(engine.operations(1).wait().unwrap().len(), 1);
}

#[test]
fn what_an_undo_would_go_back_to_is_told_for_every_operation() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    let first = user.push(&base, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let base = user.amend(&base, &[("a", "2")]);
    let second = user.push(&base, "main");
    scene.fetch();
    let rewrite = engine.import("a force-push").wait().unwrap();
    assert_eq!(rewrite.abandoned, [first]);
    let base = user.amend(&base, &[("a", "3")]);
    let third = user.push(&base, "main");
    scene.fetch();
    engine.import("another").wait().unwrap();
    let operations = engine.operations(10).wait().unwrap();
    let before = |at: usize| engine.before(operations[at].id.clone()).wait().unwrap().bookmarks;
    assert_eq!(before(0)["main"], second);
    assert_eq!(before(1)["main"], first);
    assert!(before(2).is_empty());
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], third);
    let unknown = "0123456789abcdef".repeat(8).parse().unwrap();
    assert!(matches!(engine.before(unknown).wait(), Err(EngineError::NoSuchOperation { .. })));
}

#[test]
fn a_rewrite_below_a_branch_that_did_not_move_writes_no_commit() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    let child = user.commit(&[&base], &[("b", "1")], "child");
    user.push(&base, "main");
    let tip = user.push(&child, "child");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let objects = |scene: &Scene| scene.mirror_git().run(&["rev-list", "--all", "--count"]);
    // `main` is amended and pushed, `child` still stands on the commit it was.
    let amended = user.amend(&base, &[("a", "2")]);
    let amended = user.push(&amended, "main");
    scene.fetch();
    let count = objects(&scene);
    engine.import("fetch").wait().unwrap();
    assert_eq!(objects(&scene), count);
    // The commit below `child` is still visible: the change is divergent until `child` is rebased and pushed.
    let mut both = vec![jj::id(&base), amended];
    both.sort_unstable();
    assert_eq!(
        engine.change(jj::change(&base)).wait().unwrap(),
        ChangeState::Divergent { change: jj::change(&base), commits: both }
    );
    assert_eq!(
        engine.change(jj::change(&child)).wait().unwrap(),
        ChangeState::Visible { change: jj::change(&child), commit: tip }
    );
}

#[test]
fn the_engine_moves_no_branch_and_its_own_refs_keep_rewritten_commits_through_gc() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let mut work = user.commit(&[], &[("a", "0")], "work");
    let first = user.push(&work, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    for number in 1..5 {
        work = user.amend(&work, &[("a", &number.to_string())]);
        user.push(&work, "main");
        scene.fetch();
        engine.import("fetch").wait().unwrap();
    }
    let git = scene.mirror_git();
    let others = git.run(&[
        "for-each-ref",
        "--format=%(refname) %(objectname)",
        "refs/remotes",
        "refs/tags",
        "refs/heads",
    ]);
    assert_eq!(others, format!("refs/remotes/origin/main {}", jj::id(&work)));
    let tidied = engine.tidy(100).wait().unwrap();
    assert_eq!((tidied.operations, tidied.refs, tidied.refs_kept), (0, 1, 4));
    git.run(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(git.run(&["cat-file", "-t", &first.to_string()]), "commit");
    engine.import("after gc").wait().unwrap();
    let work = user.amend(&work, &[("a", "again")]);
    let last = user.push(&work, "main");
    scene.fetch();
    let imported = engine.import("fetch").wait().unwrap();
    assert_eq!(imported.rebuilt, None);
    assert_eq!(
        engine.change(jj::change(&work)).wait().unwrap(),
        ChangeState::Visible { change: jj::change(&work), commit: last }
    );
}

#[test]
fn an_empty_mirror_and_a_plain_one_have_an_engine_too() {
    let scene = Scene::new();
    scene.fetch();
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Created);
    assert!(engine.operations(10).wait().unwrap().is_empty());
    let commit = scene.commit("main", &[("a", file("1"))]);
    scene.fetch();
    engine.import("fetch").wait().unwrap();
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], commit);
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    let scene = Scene::new();
    scene.commit("main", &[("a", file("1"))]);
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let clone = engine.clone();
    assert!(!engine.close());
    clone.positions().wait().unwrap();
    // It waits for the thread, so that it would hang here if the thread did not end.
    assert!(clone.close());
}

#[tokio::test]
async fn answers_can_be_awaited() {
    let scene = Scene::new();
    let commit = scene.commit("main", &[("a", file("1"))]);
    scene.fetch();
    let mirror = scene.mirror.clone();
    let (engine, _) = tokio::task::spawn_blocking(move || Engine::open(&mirror)).await.unwrap().unwrap();
    let (first, second) = tokio::join!(engine.import("one"), engine.positions());
    assert_eq!(first.unwrap().operation, None);
    assert_eq!(second.unwrap().bookmarks["main"], commit);
}

#[test]
fn handles_can_go_where_they_are_needed() {
    fn send<T: Send + 'static>() {}
    fn share<T: Send + Sync + Clone + 'static>() {}
    share::<Engine>();
    share::<windlass_vcs::repo::Repo>();
    send::<windlass_vcs::tree::Files>();
    send::<windlass_vcs::jujutsu::Reply<ChangeState>>();
}
