//! A remote made with the `git` program, and a mirror of it as Windlass keeps them.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use windlass_vcs::{id::CommitId, repo::Repo};

/// A repository for the `git` program.
#[derive(Clone)]
pub struct Git {
    pub path: PathBuf,
}

impl Git {
    pub fn init_bare(path: PathBuf) -> Self {
        Self::init_bare_as(path, "sha1")
    }

    pub fn init_bare_as(path: PathBuf, format: &str) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let git = Self { path };
        let format = format!("--object-format={format}");
        git.run(&["init", "--quiet", "--bare", "--initial-branch=main", &format, "."]);
        git
    }

    /// Runs `git` and gives what it printed, without the last line's end.
    pub fn run(&self, args: &[&str]) -> String {
        String::from_utf8(self.run_with(args, b"")).unwrap().trim_end().to_owned()
    }

    /// Runs `git` with an input and gives its output.
    pub fn run_with(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("git")
            .current_dir(&self.path)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.path)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            // Tests need not survive a power failure.
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.fsync")
            .env("GIT_CONFIG_VALUE_0", "none")
            .env("GIT_AUTHOR_NAME", "Author")
            .env("GIT_AUTHOR_EMAIL", "author@example.org")
            .env("GIT_COMMITTER_NAME", "Committer")
            .env("GIT_COMMITTER_EMAIL", "committer@example.org")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // A child that has read enough closes its end.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Writes a raw object, however broken.
    pub fn raw(&self, kind: &str, bytes: &[u8]) -> String {
        let id = self.run_with(&["hash-object", "-t", kind, "--literally", "-w", "--stdin"], bytes);
        String::from_utf8(id).unwrap().trim_end().to_owned()
    }

    /// Writes a tree from raw entries.
    pub fn raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(id.parse::<gix::ObjectId>().unwrap().as_bytes());
        }
        self.raw("tree", &bytes)
    }

    /// Commits a tree on a branch without parents.
    pub fn commit_tree(&self, branch: &str, tree: &str) -> CommitId {
        let commit = self.run(&["commit-tree", "-m", "raw", tree]);
        self.run(&["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit.parse().unwrap()
    }
}

/// What to put at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    File(Vec<u8>),
    Executable(Vec<u8>),
    Link(Vec<u8>),
    Submodule,
    Nothing,
}

pub fn file(text: &str) -> Put {
    Put::File(text.as_bytes().to_vec())
}

pub fn link(text: &str) -> Put {
    Put::Link(text.as_bytes().to_vec())
}

/// The commit at which submodules stand in tests.
pub const SUBMODULE: &str = "1111111111111111111111111111111111111111";

/// A remote and its mirror.
pub struct Scene {
    pub dir: TempDir,
    pub remote: Git,
    /// The folder that holds `git/` and, when an engine was opened, `jj/`.
    pub mirror: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        Self::with_format("sha1")
    }

    pub fn with_format(format: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let remote = Git::init_bare_as(dir.path().join("remote.git"), format);
        let mirror = dir.path().join("mirror");
        let git = Git::init_bare_as(mirror.join("git"), format);
        git.run(&["remote", "add", "origin", remote.path.to_str().unwrap()]);
        Self { dir, remote, mirror }
    }

    pub fn mirror_git(&self) -> Git {
        Git { path: self.mirror.join("git") }
    }

    /// Fetches as a mirror does.
    pub fn fetch(&self) -> Repo {
        let refspecs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
        self.mirror_git().run(&[
            "fetch",
            "--quiet",
            "--prune",
            "--no-auto-gc",
            "origin",
            refspecs[0],
            refspecs[1],
        ]);
        Repo::open(&self.mirror.join("git")).unwrap()
    }

    /// Commits files on top of a branch.
    pub fn commit(&self, branch: &str, files: &[(&str, Put)]) -> CommitId {
        let files: Vec<(&[u8], Put)> =
            files.iter().map(|(path, put)| (path.as_bytes(), put.clone())).collect();
        self.commit_bytes(branch, &files)
    }

    /// As `commit`, with paths of any bytes.
    pub fn commit_bytes(&self, branch: &str, files: &[(&[u8], Put)]) -> CommitId {
        let reference = format!("refs/heads/{branch}");
        let exists = !self.remote.run(&["for-each-ref", &reference]).is_empty();
        let mut stream = Vec::new();
        append_commit(&mut stream, branch, exists, files);
        self.import(&stream);
        self.tip(branch)
    }

    /// Feeds `git fast-import`.
    pub fn import(&self, stream: &[u8]) {
        self.remote.run_with(&["fast-import", "--quiet", "--force"], stream);
    }

    pub fn tip(&self, branch: &str) -> CommitId {
        self.remote.run(&["rev-parse", &format!("refs/heads/{branch}")]).parse().unwrap()
    }
}

/// Adds one commit to a stream for `git fast-import`.
pub fn append_commit(stream: &mut Vec<u8>, branch: &str, on_tip: bool, files: &[(&[u8], Put)]) {
    let message = "a change";
    let header = format!(
        "commit refs/heads/{branch}\ncommitter Someone <someone@example.org> 1700000000 +0000\ndata {}\n{message}\n",
        message.len()
    );
    stream.extend_from_slice(header.as_bytes());
    if on_tip {
        stream.extend_from_slice(format!("from refs/heads/{branch}^0\n").as_bytes());
    }
    for (path, put) in files {
        let (mode, bytes) = match put {
            Put::File(bytes) => ("100644", bytes),
            Put::Executable(bytes) => ("100755", bytes),
            Put::Link(bytes) => ("120000", bytes),
            Put::Submodule => {
                stream.extend_from_slice(format!("M 160000 {SUBMODULE} ").as_bytes());
                stream.extend_from_slice(path);
                stream.push(b'\n');
                continue;
            }
            Put::Nothing => {
                stream.extend_from_slice(b"D ");
                stream.extend_from_slice(path);
                stream.push(b'\n');
                continue;
            }
        };
        stream.extend_from_slice(format!("M {mode} inline ").as_bytes());
        stream.extend_from_slice(path);
        stream.extend_from_slice(format!("\ndata {}\n", bytes.len()).as_bytes());
        stream.extend_from_slice(bytes);
        stream.push(b'\n');
    }
    stream.push(b'\n');
}

/// Whether anything in a folder has a name that begins so.
pub fn has_entry(folder: &Path, start: &str) -> bool {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(start))
}
