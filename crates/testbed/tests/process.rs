//! Nothing is left behind, however the process that started it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use windlass_testbed::process::{Port, ScratchDir, Spec};

/// A `testbed hold` process, with what it says that it started.
struct Held {
    process: Child,
    pids: Vec<u32>,
    dirs: Vec<PathBuf>,
}

impl Held {
    fn start(args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .arg("hold")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut pids, mut dirs) = (Vec::new(), Vec::new());
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            match line.unwrap().split_once(' ') {
                Some(("pid", pid)) => pids.push(pid.parse().unwrap()),
                Some(("dir", dir)) => dirs.push(PathBuf::from(dir)),
                _ => break,
            }
        }
        assert!(!pids.is_empty() && !dirs.is_empty(), "nothing was started");
        assert!(pids.iter().all(|pid| alive(*pid)), "some of {pids:?} do not run");
        assert!(dirs.iter().all(|dir| dir.exists()), "some of {dirs:?} are not there");
        Self { process, pids, dirs }
    }

    fn end_by(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap();
        for pid in self.pids {
            wait_until(&format!("process group {pid} is gone"), || !alive(pid) && members(pid).is_empty());
        }
        for dir in self.dirs {
            wait_until(&format!("{} is gone", dir.display()), || !dir.exists());
        }
    }
}

fn wait_until(what: &str, check: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !check() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The state letter and the process group of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn members(group: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(state, of)| of == group && state != 'Z')).collect()
}

#[test]
fn kill_dash_nine_of_the_parent_leaves_nothing() {
    Held::start(&[]).end_by(Signal::KILL);
}

#[test]
fn ctrl_c_leaves_nothing() {
    Held::start(&[]).end_by(Signal::INT);
}

#[test]
fn kill_dash_nine_of_the_parent_leaves_nothing_of_a_control_plane() {
    let held = Held::start(&["--control-plane"]);
    assert_eq!(held.pids.len(), 5);
    held.end_by(Signal::KILL);
}

#[test]
fn drop_and_panic_end_the_whole_group() {
    let dir = ScratchDir::new("test").unwrap();
    let log = dir.path().join("log");
    let spawn = move || Spec::new("sh", &log).args(["-c", "sleep 1000 & exec sleep 1001"]).spawn().unwrap();
    let child = spawn();
    let pid = child.pid();
    wait_until("both sleep", || members(pid).len() == 2);
    drop(child);
    // The kernel may take a moment to carry out a kill of what the program had started itself.
    wait_until("the group is gone", || members(pid).is_empty());

    let pid = std::thread::spawn(move || {
        let child = spawn();
        std::panic::panic_any(child.pid());
    })
    .join()
    .unwrap_err();
    let pid = *pid.downcast::<u32>().unwrap();
    wait_until("the group is gone", || members(pid).is_empty());
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_after_its_grace() {
    let dir = ScratchDir::new("test").unwrap();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let spec = Spec::new("sh", dir.path().join("log")).args(["-c", script]).grace(Duration::from_millis(300));
    let mut child = spec.spawn().unwrap();
    wait_until("it is ready", || child.log_tail(1) == "ready");
    let start = Instant::now();
    child.stop().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300));
    wait_until("the group is gone", || members(child.pid()).is_empty());
}

#[test]
fn output_and_exit_status_are_kept() {
    let dir = ScratchDir::new("test").unwrap();
    let spec =
        Spec::new("sh", dir.path().join("log")).args(["-c", "echo out; echo err >&2; exit 3"]).env("A", "b");
    let mut child = spec.spawn().unwrap();
    let status = child.wait_timeout(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(child.log_tail(5), "out\nerr");
    let missing = Spec::new("/no/such/program", dir.path().join("log")).spawn().unwrap_err();
    assert!(missing.to_string().contains("/no/such/program"), "{missing}");
}

#[test]
fn a_frozen_program_goes_on_where_it_was() {
    let dir = ScratchDir::new("test").unwrap();
    let mut child = Spec::new("sleep", dir.path().join("log")).arg("1000").spawn().unwrap();
    child.pause().unwrap();
    wait_until("it is stopped", || stat(child.pid()).is_some_and(|(state, _)| state == 'T'));
    child.resume().unwrap();
    wait_until("it goes on", || stat(child.pid()).is_some_and(|(state, _)| state == 'S'));
    child.pause().unwrap();
    // A frozen program does not act on SIGTERM by itself.
    child.stop().unwrap();
    assert!(!child.is_running());
}

#[test]
fn scratch_folders_go_unless_kept() {
    let (gone, kept) = (ScratchDir::new("test").unwrap(), ScratchDir::new("test").unwrap());
    kept.keep();
    let paths = [gone.path().to_owned(), kept.path().to_owned()];
    drop((gone, kept));
    assert!(!Path::new(&paths[0]).exists() && paths[1].exists());
    std::fs::remove_dir_all(&paths[1]).unwrap();
}

#[test]
fn ports_are_never_handed_out_twice() {
    let ports: Vec<Port> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..20).map(|_| Port::free().unwrap()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ports.len());
}
