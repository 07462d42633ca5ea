//! Stores and mirrors that are damaged, hostile, shallow or old.

use std::{fs, path::Path};

use windlass_vcs::{
    jujutsu::{ChangeState, Engine, EngineError, Imported, Opened},
    repo::Repo,
    revision::names,
    tree::{Globs, Limits, RepoPath, read_all},
};

use crate::support::{
    git::{Scene, file, has_entry},
    jj::{self, Jj},
};

/// Damages a store in one way and expects it to be whole again after it is opened.
fn heals(damage: impl Fn(&Path), what: &str) {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    drop(Engine::open(&scene.mirror).unwrap());
    damage(&scene.mirror.join("jj"));
    let work = user.amend(&work, &[("a", "2")]);
    let tip = user.push(&work, "main");
    scene.fetch();
    let (engine, opened) = Engine::open(&scene.mirror).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(matches!(opened, Opened::Rebuilt { .. }), "{what}: {opened:?}");
    let visible = ChangeState::Visible { change: jj::change(&work), commit: tip };
    assert_eq!(engine.change(jj::change(&work)).wait().unwrap(), visible, "{what}");
    assert_eq!(engine.operations(10).wait().unwrap().len(), 1, "{what}");
    assert!(!has_entry(&scene.mirror, "jj."), "{what}");
}

fn overwrite(folder: &Path, bytes: &[u8]) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::write(entry.path(), bytes).unwrap();
        }
    }
}

#[test]
fn a_corrupt_store_is_built_again_and_says_so() {
    heals(|jj| fs::remove_dir_all(jj.join("op_heads/heads")).unwrap(), "no operation heads");
    heals(|jj| overwrite(&jj.join("op_store/operations"), b""), "empty operations");
    heals(|jj| overwrite(&jj.join("op_store/views"), b"\xff\xff\xff garbage"), "garbage for views");
    heals(|jj| fs::write(jj.join("store/type"), "something else").unwrap(), "another kind of store");
    heals(|jj| overwrite(&jj.join("store/extra"), b"garbage"), "garbage for the tables of commits");
    heals(|jj| fs::remove_file(jj.join("store/git_target")).unwrap(), "no way to the mirror");
    heals(
        |jj| {
            fs::remove_dir_all(jj).unwrap();
            fs::write(jj, b"a file where the folder should be").unwrap();
        },
        "a file in place of the store",
    );
}

#[test]
fn a_corrupt_index_is_no_reason_to_lose_the_operation_log() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    drop(Engine::open(&scene.mirror).unwrap());
    overwrite(&scene.mirror.join("jj/index/segments"), b"garbage");
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    let visible = ChangeState::Visible { change: jj::change(&work), commit: jj::id(&work) };
    assert_eq!(engine.change(jj::change(&work)).wait().unwrap(), visible);
}

#[test]
fn a_lock_that_a_killed_process_left_on_a_ref_of_jujutsus_is_removed() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    drop(Engine::open(&scene.mirror).unwrap());
    let work = user.amend(&work, &[("a", "2")]);
    let tip = user.push(&work, "main");
    scene.fetch();
    let lock = scene.mirror.join(format!("git/refs/jj/keep/{tip}.lock"));
    fs::write(&lock, b"").unwrap();
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], tip);
    assert!(!lock.exists());
}

#[test]
fn a_mirror_that_was_cloned_anew_is_taken_as_it_is() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    user.push(&work, "main");
    scene.fetch();
    drop(Engine::open(&scene.mirror).unwrap());
    // Meanwhile the change was rewritten, and the new clone has never seen the old commit.
    let work = user.amend(&work, &[("a", "2")]);
    let tip = user.push(&work, "main");
    fs::remove_dir_all(scene.mirror.join("git")).unwrap();
    let git = crate::support::git::Git::init_bare(scene.mirror.join("git"));
    git.run(&["remote", "add", "origin", scene.remote.path.to_str().unwrap()]);
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let visible = ChangeState::Visible { change: jj::change(&work), commit: tip };
    assert_eq!(engine.change(jj::change(&work)).wait().unwrap(), visible);
}

#[test]
fn without_a_mirror_there_is_no_engine() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.mirror.join("git")).unwrap();
    let error = Engine::open(&scene.mirror).unwrap_err();
    assert!(matches!(error, EngineError::Mirror(_)), "{error}");
}

/// A commit that makes jj-lib panic: labels of a conflict that are not UTF-8.
fn poison(scene: &Scene, tree_of: windlass_vcs::id::CommitId) -> String {
    let tree = scene.remote.run(&["rev-parse", &format!("{tree_of}^{{tree}}")]);
    let mut text = format!(
        "tree {tree}\nauthor A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\njj:conflict-labels "
    )
    .into_bytes();
    text.extend_from_slice(b"\xff\xfe\n\nodd\n");
    scene.remote.raw("commit", &text)
}

#[test]
fn a_branch_that_makes_jujutsu_panic_does_not_keep_others_from_being_known() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let work = user.commit(&[], &[("a", "1")], "work");
    let good = user.push(&work, "main");
    for number in 0..9 {
        user.push(&work, &format!("other-{number}"));
    }
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let odd = poison(&scene, good);
    scene.remote.run(&["update-ref", "refs/heads/odd", &odd]);
    scene.remote.run(&["tag", "odd-tag", &odd]);
    let work = user.amend(&work, &[("a", "2")]);
    let tip = user.push(&work, "main");
    user.remove("other-3");
    scene.fetch();
    let names = |imported: &Imported| -> Vec<String> {
        imported.failed.iter().map(|failed| failed.name.clone()).collect()
    };
    let imported = engine.import("fetch").wait().unwrap();
    assert_eq!(names(&imported), ["refs/remotes/origin/odd", "refs/tags/odd-tag"]);
    assert!(imported.failed[0].reason.contains("stopped"), "{:?}", imported.failed);
    assert_eq!(imported.rebuilt, None);
    assert_eq!(imported.moves.len(), 2);
    let positions = engine.positions().wait().unwrap();
    assert_eq!(positions.bookmarks["main"], tip);
    assert!(!positions.bookmarks.contains_key("odd") && !positions.bookmarks.contains_key("other-3"));
    assert_eq!(engine.operations(10).wait().unwrap().len(), 2);

    // It is told every time, also by a new process, until the branch moves or goes.
    assert_eq!(
        names(&engine.import("again").wait().unwrap()),
        ["refs/remotes/origin/odd", "refs/tags/odd-tag"]
    );
    drop(engine);
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    scene.remote.run(&["update-ref", "refs/heads/odd", &tip.to_string()]);
    scene.remote.run(&["tag", "-d", "odd-tag"]);
    scene.fetch();
    assert!(engine.import("fetch").wait().unwrap().failed.is_empty());
    assert_eq!(engine.positions().wait().unwrap().bookmarks["odd"], tip);
}

#[test]
fn a_store_is_created_beside_a_mirror_with_a_bad_branch() {
    let scene = Scene::new();
    let good = scene.commit("main", &[("a", file("1"))]);
    let odd = poison(&scene, good);
    scene.remote.run(&["update-ref", "refs/heads/odd", &odd]);
    scene.fetch();
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Created);
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], good);
    // With nothing but the bad branch there is nothing to know, and that is an error.
    scene.remote.run(&["update-ref", "-d", "refs/heads/main"]);
    let alone = Scene { mirror: scene.dir.path().join("alone"), ..scene };
    let git = crate::support::git::Git::init_bare(alone.mirror.join("git"));
    git.run(&["remote", "add", "origin", alone.remote.path.to_str().unwrap()]);
    alone.fetch();
    let error = Engine::open(&alone.mirror).unwrap_err();
    assert!(matches!(error, EngineError::Panicked { .. }), "{error}");
    assert!(!alone.mirror.join("jj").exists());
}

#[test]
fn tidying_gives_up_old_operations_and_what_only_they_knew() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let gone = user.commit(&[], &[("gone", "1")], "gone");
    let mut work = user.commit(&[], &[("a", "0")], "work");
    user.push(&gone, "gone");
    user.push(&work, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    user.remove("gone");
    for number in 1..10 {
        work = user.amend(&work, &[("a", &number.to_string())]);
        user.push(&work, "main");
        scene.fetch();
        engine.import(format!("fetch {number}")).wait().unwrap();
    }
    let before = engine.operations(100).wait().unwrap();
    assert_eq!(before.len(), 10);
    let state = |engine: &Engine, commit| engine.change(jj::change(commit)).wait().unwrap();
    assert!(matches!(state(&engine, &gone), ChangeState::Abandoned { .. }));

    let tidied = engine.tidy(4).wait().unwrap();
    // The heads of the last four operations and of the one that stands for the others; the newest is a branch's.
    assert_eq!((tidied.operations, tidied.refs_kept), (5, 4));
    let visible = ChangeState::Visible { change: jj::change(&work), commit: jj::id(&work) };
    let check = |engine: &Engine| {
        let after = engine.operations(100).wait().unwrap();
        assert_eq!(after.len(), 5);
        for (old, new) in before.iter().zip(&after).take(4) {
            assert_eq!((&old.description, &old.moves, old.time), (&new.description, &new.moves, new.time));
        }
        assert_eq!(after[4].description, "older operations were removed");
        assert_eq!(state(engine, &work), visible);
        assert_eq!(state(engine, &gone), ChangeState::Unknown);
    };
    check(&engine);
    let links = fs::read_dir(scene.mirror.join("jj/index/op_links")).unwrap().count();
    assert!(links <= 6, "{links} operations are indexed");
    assert_eq!(engine.tidy(4).wait().unwrap().operations, 0);
    scene.mirror_git().run(&["gc", "--quiet", "--prune=now"]);
    assert!(engine.close());
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    check(&engine);
    let work = user.amend(&work, &[("a", "after")]);
    let tip = user.push(&work, "main");
    scene.fetch();
    assert_eq!(engine.import("fetch").wait().unwrap().rebuilt, None);
    assert_eq!(state(&engine, &work), ChangeState::Visible { change: jj::change(&work), commit: tip });
}

/// Copies what is missing in a folder from another one.
fn restore(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            restore(&entry.path(), &target);
        } else if !target.exists() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_process_that_ends_while_tidying_leaves_a_store_that_opens() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let mut work = user.commit(&[], &[("a", "0")], "work");
    user.push(&work, "main");
    scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    for number in 1..8 {
        work = user.amend(&work, &[("a", &number.to_string())]);
        user.push(&work, "main");
        scene.fetch();
        engine.import(format!("fetch {number}")).wait().unwrap();
    }
    let store = scene.mirror.join("jj");
    let copy = scene.dir.path().join("copy");
    restore(&store, &copy);
    engine.tidy(2).wait().unwrap();
    assert!(engine.close());
    // The new head is written, the old one is not yet removed, and all old operations are still there.
    restore(&copy, &store);
    assert_eq!(fs::read_dir(store.join("op_heads/heads")).unwrap().count(), 2);
    let (engine, opened) = Engine::open(&scene.mirror).unwrap();
    assert_eq!(opened, Opened::Reopened);
    let visible = ChangeState::Visible { change: jj::change(&work), commit: jj::id(&work) };
    assert_eq!(engine.change(jj::change(&work)).wait().unwrap(), visible);
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], jj::id(&work));
    engine.tidy(2).wait().unwrap();
    assert_eq!(engine.change(jj::change(&work)).wait().unwrap(), visible);
}

#[test]
fn a_shallow_mirror_that_is_deepened_is_imported() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let mut work = user.commit(&[], &[("a", "0")], "0");
    for number in 1..6 {
        work = user.commit(&[&work], &[("a", &number.to_string())], &number.to_string());
    }
    user.push(&work, "main");
    let git = scene.mirror_git();
    // Over a protocol: a path would be linked, and not be shallow.
    let url = format!("file://{}", scene.remote.path.display());
    let fetch = |how: &str| {
        git.run(&["fetch", "--quiet", how, &url, "+refs/heads/*:refs/remotes/origin/*"]);
    };
    fetch("--depth=1");
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let visible = |engine: &Engine, commit: &jj_lib::commit::Commit| {
        let expected = ChangeState::Visible { change: jj::change(commit), commit: jj::id(commit) };
        assert_eq!(engine.change(jj::change(commit)).wait().unwrap(), expected);
    };
    visible(&engine, &work);
    for how in ["--depth=1", "--depth=2", "--unshallow"] {
        work = user.commit(&[&work], &[("a", how)], how);
        user.push(&work, "main");
        fetch(how);
        engine.import(how).wait().unwrap();
        visible(&engine, &work);
    }
    drop(engine);
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    visible(&engine, &work);
}

#[test]
fn a_handle_that_was_opened_before_gc_and_before_many_packs_still_reads() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let mut work = user.commit(&[], &[("a", "0")], "work");
    user.push(&work, "main");
    let repo = scene.fetch();
    let (engine, _) = Engine::open(&scene.mirror).unwrap();
    let git = scene.mirror_git();
    let head = |repo: &Repo| names(repo).unwrap().branches["main"];
    let read = |repo: &Repo| {
        let content =
            read_all(repo, head(repo), &RepoPath::root(), &Globs::default(), Limits::default()).unwrap();
        String::from_utf8(content.files[0].bytes.clone()).unwrap()
    };
    // gix makes room for 32 packs by itself.
    for number in 1..40 {
        work = user.commit(&[&work], &[("a", &number.to_string())], "more");
        user.push(&work, "main");
        let fetch = ["fetch", "--quiet", "--no-auto-gc", "origin", "+refs/heads/*:refs/remotes/origin/*"];
        git.run(&[&["-c", "fetch.unpackLimit=1"], &fetch[..]].concat());
        if number % 13 == 0 {
            assert_eq!(read(&repo), number.to_string());
        }
    }
    assert!(fs::read_dir(git.path.join("objects/pack")).unwrap().count() > 70);
    assert_eq!(engine.import("many packs").wait().unwrap().rebuilt, None);
    assert_eq!(read(&repo), "39");
    git.run(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(read(&repo), "39");
    work = user.commit(&[&work], &[("a", "last")], "last");
    let tip = user.push(&work, "main");
    scene.fetch();
    assert_eq!(engine.import("after gc").wait().unwrap().rebuilt, None);
    assert_eq!(engine.positions().wait().unwrap().bookmarks["main"], tip);
    assert_eq!(read(&repo), "last");
}
