//! Commit and push, killed at random times.
//!
//! A child process writes and pushes numbered changes in a loop. This process kills it (sometimes only it, sometimes
//! with the `git` that it has started) and starts it again, as often as `WINDLASS_KILLS` says. In the end every number
//! is in the remote exactly once.

use std::{
    convert::Infallible,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{fsck, spec_with, upserts};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rustix::process::{Pid, Signal};
use tokio_util::sync::CancellationToken;
use windlass_testbed::git::GitServer;
use windlass_vcs::{
    command::Git,
    id::CommitId,
    journal::Journal,
    mirror::Movement,
    push::{GitLink, Options, push},
    remote::Remote,
    repo::Repo,
    write::Message,
};

const FOLDER: &str = "WINDLASS_KILL_FOLDER";
const URL: &str = "WINDLASS_KILL_URL";
const STOP_AT: &str = "stop-at";
const DONE: &str = "done";

/// The loop of the child. Run by itself it does nothing.
#[tokio::test]
async fn child_that_pushes_numbered_changes() {
    let (Ok(folder), Ok(url)) = (std::env::var(FOLDER), std::env::var(URL)) else { return };
    let folder = Path::new(&folder);
    let repo = Repo::open(&folder.join("repo")).unwrap();
    let git = Git::new(&folder.join("scratch")).unwrap();
    let link = GitLink::new(git, Remote::new(&url).unwrap(), repo.clone());
    let done = folder.join(DONE);
    let mut number: u32 = std::fs::read_to_string(&done).map_or(0, |text| text.parse().unwrap());
    let stop_at =
        || std::fs::read_to_string(folder.join(STOP_AT)).ok().map(|text| text.parse::<u32>().unwrap());
    while stop_at().is_none_or(|last| number < last) {
        number += 1;
        // Every third change is larger.
        let files: Vec<_> = (0..if number.is_multiple_of(3) { 30 } else { 1 })
            .map(|n| (format!("changes/{}/{number}-{n}", number % 7), format!("{number}-{n}\n").repeat(50)))
            .collect();
        let plan = async |_| {
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            let message = Message::new("Change").trailer("Number", number.to_string());
            let mut spec = spec_with(upserts(&files), message);
            // Two lives of the same change are two different commits: nothing is recognised by luck.
            spec.committer.time = jiff::Timestamp::now();
            spec.committer.name = format!("windlass {}", std::process::id());
            Ok::<_, Infallible>(Some(vec![spec]))
        };
        let options = Options { attempts: 50, ..Options::default() };
        push(&link, &repo, "main", &options, &CancellationToken::new(), plan).await.unwrap();
        let staged = folder.join("done.new");
        std::fs::write(&staged, number.to_string()).unwrap();
        std::fs::rename(&staged, &done).unwrap();
    }
}

fn start(folder: &Path, url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::child_that_pushes_numbered_changes", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(URL, url)
        .stdout(Stdio::null())
        .stderr(std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn done(folder: &Path) -> u32 {
    std::fs::read_to_string(folder.join(DONE)).map_or(0, |text| text.parse().unwrap())
}

/// The processes that a process has started. The `git` children lead groups of their own.
fn children(pid: u32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks
        .flatten()
        .map(of)
        .flat_map(|text| text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn kill(child: &mut Child, with_git: bool) {
    let started = if with_git { children(child.id()) } else { Vec::new() };
    child.kill().unwrap();
    for id in started {
        let _ = rustix::process::kill_process_group(Pid::from_raw(id).unwrap(), Signal::KILL);
    }
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_is_lost_or_doubled_when_commit_and_push_are_killed() {
    let kills: u32 = std::env::var("WINDLASS_KILLS").map_or(100, |text| text.parse().unwrap());
    let server = GitServer::start().await.unwrap();
    let remote = server.repo_with_files("app", &[("README", "start")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    server.git().run(folder.path(), &["init", "--quiet", "--bare", "repo"]).unwrap();
    let mut random = StdRng::seed_from_u64(42);
    let url = remote.url();
    let path = folder.path().to_owned();
    let killed = tokio::task::spawn_blocking(move || {
        // A life lasts about as long as one change takes on this machine, so that kills hit every part of it.
        let begin = Instant::now();
        run_to(&path, &url, 2);
        let most = begin.elapsed().clamp(Duration::from_millis(150), Duration::from_millis(900));
        std::fs::remove_file(path.join(STOP_AT)).unwrap();
        for round in 0..kills {
            let before = done(&path);
            let mut child = start(&path, &url);
            std::thread::sleep(most.mul_f64(random.random_range(0.1..1.0)));
            assert!(child.try_wait().unwrap().is_none(), "round {round}: {}", log(&path));
            kill(&mut child, random.random_bool(0.5));
            assert!(done(&path) >= before);
            Repo::open(&path.join("repo")).unwrap();
        }
        let last = done(&path) + 3;
        run_to(&path, &url, last);
        last
    });
    let last = killed.await.unwrap();
    assert!(last > 5, "the killed ones did nothing at all");

    let told = remote
        .git(&["log", "--reverse", "--format=%(trailers:key=Number,valueonly,separator=)", "main"])
        .unwrap();
    let numbers: Vec<u32> =
        told.lines().filter(|line| !line.is_empty()).map(|line| line.parse().unwrap()).collect();
    let wanted: Vec<u32> = (1..=last).collect();
    assert_eq!(numbers, wanted, "each number once and in order");
    assert_eq!(remote.git(&["rev-list", "--min-parents=2", "main"]).unwrap(), "");
    fsck(server.git(), remote.path());
    fsck(server.git(), &folder.path().join("repo"));
    eprintln!("{last} changes in {kills} lives");
}

/// Lets the child come to this number.
fn run_to(folder: &Path, url: &str, last: u32) {
    std::fs::write(folder.join(STOP_AT), last.to_string()).unwrap();
    let mut child = start(folder, url);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(120) {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{}", log(folder));
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the child does not end: {}", log(folder));
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

const JOURNAL: &str = "WINDLASS_KILL_JOURNAL";

/// Records numbered moves; says each number after it was recorded. Run by itself it does nothing.
#[test]
fn child_that_records_numbered_moves() {
    let Ok(folder) = std::env::var(JOURNAL) else { return };
    let folder = Path::new(&folder);
    let (journal, moved) = Journal::open(folder).unwrap();
    assert_eq!(moved, None);
    let mut number = journal.last("r", "refs/heads/main").unwrap().map_or(0, |last| number_of(last.to));
    loop {
        number += 1;
        let step = Movement {
            name: "refs/heads/main".into(),
            from: Some(commit_of(number - 1)),
            to: Some(commit_of(number)),
            forced: false,
        };
        assert_eq!(journal.record("r", &[step], jiff::Timestamp::now(), None).unwrap(), 1);
        std::fs::write(folder.join("said.new"), number.to_string()).unwrap();
        std::fs::rename(folder.join("said.new"), folder.join("said")).unwrap();
    }
}

fn commit_of(number: u32) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

fn number_of(commit: Option<CommitId>) -> u32 {
    u32::from_str_radix(&commit.unwrap().to_string(), 16).unwrap()
}

#[test]
fn a_killed_journal_keeps_every_move_that_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(7);
    let mut told = 0;
    for round in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child_that_records_numbered_moves", "--exact", "--nocapture"])
            .env(JOURNAL, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(40..160)));
        assert!(child.try_wait().unwrap().is_none(), "round {round}");
        child.kill().unwrap();
        child.wait().unwrap();
        let (journal, moved) = Journal::open(folder.path()).unwrap();
        assert_eq!(moved, None, "round {round}");
        let said =
            std::fs::read_to_string(folder.path().join("said")).map_or(0, |text| text.parse().unwrap());
        let moves: Vec<_> = journal.history("r", "refs/heads/main", 9_999).unwrap();
        let numbers: Vec<_> = moves.iter().map(|entry| number_of(entry.to)).collect();
        told = numbers.first().copied().unwrap_or(0);
        assert!(told >= said, "round {round}: {told} of {said}");
        let kept = u32::try_from(numbers.len()).unwrap();
        let wanted: Vec<_> = (told + 1 - kept..=told).rev().collect();
        assert_eq!(numbers, wanted, "round {round}: none is missing and none is there twice");
    }
    assert!(told > 10, "only {told} moves");
}
