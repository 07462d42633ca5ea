//! A process that is killed while it imports: the store opens again and knows what the mirror knows.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use windlass_vcs::jujutsu::{ChangeState, Engine, Opened};

use crate::support::{
    git::Scene,
    jj::{self, Jj},
};

const MIRROR: &str = "WINDLASS_TEST_CRASH_MIRROR";

const LAST_ROUND: u64 = 11;

/// A file that the child writes when it has imported; it is removed before the child is started.
const IMPORTED: &str = "imported";

const BY_THE_CHILD: &str = "fetch of the process that is killed";

/// Moves the branch `work`. Not with `git`: a child of a killed process would go on.
fn set_work(mirror: &Path, tip: &str) {
    let draft = mirror.join("draft-of-a-ref");
    std::fs::write(&draft, format!("{tip}\n")).unwrap();
    std::fs::create_dir_all(mirror.join("git/refs/remotes/origin")).unwrap();
    std::fs::rename(draft, mirror.join("git/refs/remotes/origin/work")).unwrap();
}

/// Run by the test below in a process of its own: opens the engine and imports, again and again, while the refs move;
/// now and then it tidies.
#[test]
#[ignore = "only for the process that is killed"]
fn the_process_that_is_killed() {
    let Some(mirror) = std::env::var_os(MIRROR).map(PathBuf::from) else { return };
    let git = crate::support::git::Git { path: mirror.join("git") };
    let tips: Vec<String> = git
        .run(&["for-each-ref", "--format=%(objectname)", "refs/tips"])
        .lines()
        .map(str::to_owned)
        .collect();
    let (engine, _) = Engine::open(&mirror).unwrap();
    for (number, tip) in tips.iter().cycle().enumerate() {
        set_work(&mirror, tip);
        engine.import(BY_THE_CHILD).wait().unwrap();
        std::fs::write(mirror.join(IMPORTED), b"").unwrap();
        if number % 3 == 2 {
            engine.tidy(20).wait().unwrap();
        }
    }
}

#[test]
fn a_store_opens_again_after_kill_9_during_imports_and_tidying() {
    let scene = Scene::new();
    let mut user = Jj::new(&scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    user.push(&base, "main");
    let mut work = user.commit(&[&base], &[("b", "0")], "work");
    // The versions of one change lie ready in the mirror, so that the child can move between them without a remote.
    let mut tips = Vec::new();
    for number in 0..6 {
        work = user.amend(&work, &[("b", &number.to_string())]);
        tips.push(user.push(&work, &format!("tips/{number}")));
    }
    let change = jj::change(&work);
    let git = scene.mirror_git();
    let remote = scene.remote.path.to_str().unwrap().to_owned();
    git.run(&[
        "fetch",
        "--quiet",
        &remote,
        "+refs/heads/tips/*:refs/tips/*",
        "+refs/heads/main:refs/remotes/origin/main",
    ]);

    let mut by_the_child = 0;
    for round in 0..=LAST_ROUND {
        let _ = std::fs::remove_file(scene.mirror.join(IMPORTED));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::the_process_that_is_killed", "--ignored", "--nocapture"])
            .env(MIRROR, &scene.mirror)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From before the store is there to well into the imports; in the last round, however slow the machine is.
        std::thread::sleep(Duration::from_millis(20 + round * 70));
        let deadline = Instant::now() + Duration::from_secs(60);
        while round == LAST_ROUND && !scene.mirror.join(IMPORTED).exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let tip = &tips[usize::try_from(round).unwrap() % tips.len()];
        set_work(&scene.mirror, &tip.to_string());
        let (engine, opened) = Engine::open(&scene.mirror).unwrap();
        assert!(!matches!(opened, Opened::Rebuilt { .. }), "round {round}: {opened:?}");
        engine.import("after the crash").wait().unwrap();
        assert_eq!(
            engine.change(change).wait().unwrap(),
            ChangeState::Visible { change, commit: *tip },
            "round {round}"
        );
        assert_eq!(engine.positions().wait().unwrap().bookmarks["work"], *tip);
        let operations = engine.operations(usize::MAX).wait().unwrap();
        by_the_child = operations.iter().filter(|operation| operation.description == BY_THE_CHILD).count();
    }
    // The child did get to import before it was killed, and what it did is still told.
    assert!(by_the_child > 0);
}
