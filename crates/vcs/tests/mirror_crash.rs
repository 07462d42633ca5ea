//! A process that fetches and tidies is killed at random times, a hundred times over.
//!
//! `WINDLASS_KILLS` says how often (100). The worker is this test program itself; only it is killed, so that its `git`
//! children outlive it as they do in life.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirror_support::{Bed, eventually, fetch, git, options};
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use windlass_testbed::git::{Fault, GitServer, Kind, Repo};
use windlass_vcs::mirror::{Depth, Mirror, MirrorOptions, Mirrors, Tidying};
use windlass_vcs::remote::Remote;

const WORK: &str = "WINDLASS_CRASH_WORK";
const AT_WORK: &str = "the worker is at work";
const URL: &str = "WINDLASS_CRASH_URL";

fn hasty() -> MirrorOptions {
    let tidying = Tidying { automatic: false, grace: Duration::ZERO, ..Tidying::default() };
    MirrorOptions { tidying, ..options() }
}

/// What the others start and kill.
#[test]
#[ignore = "a part of the other tests"]
fn worker() {
    let (Ok(work), Ok(url)) = (std::env::var(WORK), std::env::var(URL)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mirrors = Mirrors::new(Path::new(&work), hasty()).unwrap();
        let mirror = mirrors.mirror(&Remote::new(&url).unwrap()).unwrap();
        println!("{AT_WORK}");
        for number in 0_u32.. {
            fetch(&mirror).await.unwrap();
            if number % 2 == 1 {
                mirror.tidy(number % 4 == 3, &CancellationToken::new()).await.unwrap();
            }
        }
    });
}

/// Commits, force-pushes, tags, makes and deletes branches until it is told to stop.
fn change_all_the_time(repo: &Repo, stop: &AtomicBool, turn: &Mutex<()>) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        // Lets the other one have its turn.
        std::thread::sleep(Duration::from_millis(30));
        let _turn = turn.lock().unwrap();
        number += 1;
        let content = format!("a: {number}\n");
        let files: &[(&str, Option<&str>)] =
            &[("a.yaml", Some(&content)), ("dir/deep/b.yaml", Some(&content))];
        match number % 4 {
            0 => drop(repo.force_push(files, "forced").unwrap()),
            _ => drop(repo.commit_files(files, "more").unwrap()),
        }
        match number % 6 {
            1 => repo.branch("side/branch").unwrap(),
            3 => repo.delete_branch("side/branch").unwrap(),
            5 => repo.tag(&format!("v{}", number % 4), "refs/heads/main").unwrap(),
            _ => {}
        }
    }
}

fn refs_there(repo: &Repo) -> BTreeMap<String, String> {
    let listed = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)"]).unwrap();
    listed
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, id)| (name.into(), id.into()))
        .collect()
}

/// What readers get is whole, before any fetch of this process.
fn read_trees(mirror: &Mirror) -> usize {
    let Ok(repo) = mirror.repo() else { return 0 };
    let refs = mirror.refs().unwrap();
    for commit in refs.values() {
        repo.tree_of(*commit).unwrap();
    }
    let commits: BTreeSet<_> = refs.values().map(ToString::to_string).collect();
    let mut args = vec!["rev-list", "--objects", "--no-walk", "--quiet"];
    args.extend(commits.iter().map(String::as_str));
    git(&mirror.git_dir(), &args);
    refs.len()
}

/// Processes that have this text in their environment.
fn processes_with(text: &str) -> usize {
    let has = |environ: Vec<u8>| environ.windows(text.len()).any(|window| window == text.as_bytes());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| std::fs::read(entry.path().join("environ")).is_ok_and(has)).count()
}

#[tokio::test]
async fn a_git_that_outlives_its_killed_process_is_ended_by_the_next_one() {
    let bed = Bed::with(hasty()).await;
    fetch(&bed.mirror()).await.unwrap();
    bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    bed.server.log().reset();
    bed.repo.fault_on(Kind::UploadPack, Fault::Hang);
    let mut worker = worker_for(bed.work.path(), &bed.repo);
    eventually("a fetch that hangs", || bed.repo.count(Kind::UploadPack) > 0).await;
    worker.kill().unwrap();
    worker.wait().unwrap();
    let marker = format!("GIT_DIR={}", bed.work.path().display());
    assert!(processes_with(&marker) > 0, "git hangs on without its master");
    // Opening is enough, and the fault is still there.
    let mirrors = bed.reopened(hasty());
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    eventually("its end", || processes_with(&marker) == 0).await;
    bed.repo.clear_faults();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!((fetched.movements.len(), fetched.cloned_anew), (1, false));
}

fn worker_for(work: &Path, repo: &Repo) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "worker", "--nocapture"])
        .env(WORK, work)
        .env(URL, repo.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until the worker has opened its mirror: however slow the machine is, the kill hits it at work.
fn wait_until_at_work(worker: &mut Child) {
    let lines = BufReader::new(worker.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(AT_WORK)), "the worker did not begin");
}

#[test]
fn a_mirror_survives_being_killed_at_any_time_while_it_fetches_and_tidies() {
    let kills: u32 = std::env::var("WINDLASS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(GitServer::start()).unwrap();
    let repo = server.repo_with_files("app", &[("a.yaml", "a: 0\n"), ("dir/b.yaml", "b: 1\n")]).unwrap();
    let work = tempfile::tempdir().unwrap();
    let (stop, turn) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
    let changes = std::thread::spawn({
        let (repo, stop, turn) = (repo.clone(), stop.clone(), turn.clone());
        move || change_all_the_time(&repo, &stop, &turn)
    });
    let (mut cloned_anew, mut unclean, mut seen) = (0, 0, 0);
    for kill in 0..kills {
        let mut worker = worker_for(work.path(), &repo);
        wait_until_at_work(&mut worker);
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..250)));
        assert!(worker.try_wait().unwrap().is_none(), "the worker failed by itself before kill {kill}");
        worker.kill().unwrap();
        worker.wait().unwrap();
        // The remote stands still while we look.
        let _turn = turn.lock().unwrap();
        runtime.block_on(async {
            let mirrors = Mirrors::new(work.path(), hasty()).unwrap();
            let mirror = mirrors.mirror(&Remote::new(&repo.url()).unwrap()).unwrap();
            unclean += u32::from(mirror.folder().join("writing").exists());
            seen += read_trees(&mirror);
            let fetched = fetch(&mirror).await.unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
            cloned_anew += u32::from(fetched.cloned_anew);
            let here: BTreeMap<_, _> =
                mirror.refs().unwrap().into_iter().map(|(name, id)| (name, id.to_string())).collect();
            assert_eq!(here, refs_there(&repo), "after kill {kill}");
            assert!(mirror.is_whole(Depth::Connectivity, &CancellationToken::new()).await.unwrap());
        });
    }
    stop.store(true, Ordering::Relaxed);
    changes.join().unwrap();
    println!(
        "{kills} kills: {unclean} while the mirror was being changed, {cloned_anew} mirrors cloned anew"
    );
    assert!(seen > 0, "something was there to be read after a kill");
    assert_eq!(cloned_anew, 0, "git and the sweep leave nothing that is broken");
}
