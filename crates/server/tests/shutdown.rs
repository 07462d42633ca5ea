//! Signals, sent to a process of our own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "WINDLASS_TEST_SHUTDOWN";

/// What the process under test does: waits for the token, then lingers if told to.
#[test]
#[ignore = "the other tests start it as a process of its own"]
fn process_under_test() {
    let role = std::env::var(ROLE).expect("started by the other tests");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let token = windlass_server::shutdown::signal().unwrap();
        println!("listening");
        token.cancelled().await;
        println!("cancelled");
        if role == "linger" {
            std::future::pending::<()>().await;
        }
    });
}

fn start(role: &str) -> (Child, impl FnMut(&str)) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_under_test", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let wait_for = move |wanted: &str| {
        assert!(
            lines.any(|line| line.unwrap().contains(wanted)),
            "the process ended without saying {wanted}"
        );
    };
    (child, wait_for)
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn exit_code(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_mins(1);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    panic!("the process did not end");
}

#[test]
fn the_first_signal_cancels_and_leaves_the_rest_to_the_process() {
    for name in ["TERM", "INT"] {
        let (child, mut wait_for) = start("end");
        wait_for("listening");
        signal(&child, name);
        wait_for("cancelled");
        assert_eq!(exit_code(child), Some(0), "{name}");
    }
}

#[test]
fn the_second_signal_ends_at_once() {
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let (child, mut wait_for) = start("linger");
        wait_for("listening");
        signal(&child, "TERM");
        wait_for("cancelled");
        signal(&child, name);
        assert_eq!(exit_code(child), Some(code));
    }
}
