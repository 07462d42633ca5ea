//! What the tests of the binary share.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod bench;
pub mod controller;
pub mod fleet;
pub mod markdown;

use std::{
    future::Future,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

/// The built binary.
pub const WINDLASS: &str = env!("CARGO_BIN_EXE_windlass");

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The binary with an empty environment and an empty home.
pub fn windlass(home: &Path) -> Command {
    let mut command = Command::new(WINDLASS);
    command.env_clear().env("HOME", home).current_dir(home);
    command
}

/// How a command ended, as a snapshot shows it.
pub fn told(output: &Output) -> String {
    format!(
        "exit code: {}\n--- stdout ---\n{}--- stderr ---\n{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Asks until the answer is there, for at most this long; tells what was still wrong then.
pub async fn eventually<T, F>(what: &str, within: Duration, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(why) if begin.elapsed() > within => panic!("{what}: not within {within:?}: {why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(40)).await,
        }
    }
}

/// Compares a generated file with the committed one; `WINDLASS_UPDATE=1` writes it instead.
pub fn assert_current(path: &str, generated: &str) {
    let file = root().join(path);
    if std::env::var_os("WINDLASS_UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, generated).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == generated,
        "{path} is stale; make it anew with: WINDLASS_UPDATE=1 cargo test -p windlass --test generated"
    );
}
