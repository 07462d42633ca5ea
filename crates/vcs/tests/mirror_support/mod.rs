//! What the tests of mirrors share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_testbed::git::{GitServer, Repo};
use windlass_vcs::command::Limits;
use windlass_vcs::id::CommitId;
use windlass_vcs::mirror::{Fetched, Mirror, MirrorError, MirrorOptions, Mirrors, Movement, Tidying};
use windlass_vcs::remote::Remote;

/// A server with one repository, and mirrors in a folder of their own.
pub struct Bed {
    pub server: GitServer,
    pub repo: Repo,
    pub mirrors: Mirrors,
    pub work: tempfile::TempDir,
}

/// Options with short limits and no tidying of its own.
pub fn options() -> MirrorOptions {
    MirrorOptions {
        limits: limits(60, 60),
        tidying: Tidying { automatic: false, ..Tidying::default() },
        ..MirrorOptions::default()
    }
}

pub fn limits(total: u64, stalled: u64) -> Limits {
    Limits { total: Duration::from_secs(total), stalled: Duration::from_secs(stalled), ..Limits::default() }
}

impl Bed {
    pub async fn new() -> Self {
        Self::with(options()).await
    }

    pub async fn with(options: MirrorOptions) -> Self {
        let server = GitServer::start().await.unwrap();
        let repo = server.repo_with_files("app", &[("a.yaml", "a: 1\n"), ("dir/b.yaml", "b: 1\n")]).unwrap();
        let work = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(work.path(), options).unwrap();
        Self { server, repo, mirrors, work }
    }

    pub fn remote(&self) -> Remote {
        Remote::new(&self.repo.url()).unwrap()
    }

    pub fn mirror(&self) -> Arc<Mirror> {
        self.mirrors.mirror(&self.remote()).unwrap()
    }

    /// Opens the same work folder again, as the next process does.
    pub fn reopened(&self, options: MirrorOptions) -> Mirrors {
        Mirrors::new(self.work.path(), options).unwrap()
    }
}

pub async fn fetch(mirror: &Arc<Mirror>) -> Result<Fetched, MirrorError> {
    mirror.fetch(&CancellationToken::new()).await
}

pub fn id(text: &str) -> CommitId {
    text.parse().unwrap()
}

pub fn movement(name: &str, from: Option<&str>, to: Option<&str>, forced: bool) -> Movement {
    Movement { name: name.to_owned(), from: from.map(id), to: to.map(id), forced }
}

/// Runs git in a folder, for looking at a mirror from outside.
pub fn git(folder: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git").arg("--git-dir").arg(folder).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Reads every tree and blob of every ref with the repository that readers get.
pub fn read_all(mirror: &Mirror) -> usize {
    let repo = mirror.repo().unwrap();
    let tips = mirror.refs().unwrap();
    let mut read = 0;
    for commit in tips.values() {
        repo.tree_of(*commit).unwrap();
        read += git(&mirror.git_dir(), &["ls-tree", "-r", &commit.to_string()]).lines().count();
    }
    read
}

/// Waits until something holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} does not come about");
}

/// Writes a file, and the folders that it is in.
pub fn put(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A text that does not compress well.
pub fn noise(words: u32) -> String {
    let words = (0..words).map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)));
    words.collect::<Vec<_>>().join(" ")
}
