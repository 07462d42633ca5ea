//! Commits made in one go by `git fast-import`, without a work tree.

use anyhow::Context;

use super::Repo;
use super::program::{self, EMAIL, NAME};

/// A commit to be written to a [`Repo`].
#[derive(Debug, Clone)]
#[must_use = "nothing is committed before `write`"]
pub struct Commit {
    repo: Repo,
    branch: String,
    message: String,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    path: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Write { mode: &'static str, content: Vec<u8> },
    Remove,
    RemoveAll,
}

impl Commit {
    pub(super) fn new(repo: Repo, message: &str) -> Self {
        Self { repo, branch: "main".to_owned(), message: message.to_owned(), changes: Vec::new() }
    }

    /// Commits on this branch instead of `main`; a branch that does not exist starts at the tip of `main`.
    pub fn on(self, branch: &str) -> Self {
        Self { branch: branch.to_owned(), ..self }
    }

    /// Writes a file.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.write_as("100644", path, content.as_ref())
    }

    /// Writes an executable file.
    pub fn executable(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.write_as("100755", path, content.as_ref())
    }

    /// Writes a symbolic link.
    pub fn link(self, path: &str, target: &str) -> Self {
        self.write_as("120000", path, target.as_bytes())
    }

    /// Removes a file or a folder; one that is not there is no error.
    pub fn remove(self, path: &str) -> Self {
        self.change(path, What::Remove)
    }

    /// Removes everything that is there so far.
    pub fn remove_all(self) -> Self {
        self.change("", What::RemoveAll)
    }

    /// Writes the commit, moves the branch and returns the commit id.
    pub fn write(self) -> anyhow::Result<String> {
        let input = self.fast_import_stream()?;
        let mut command = self.repo.command();
        program::output(command.args(["fast-import", "--quiet", "--date-format=raw"]), Some(&input))
            .with_context(|| format!("cannot commit to repository {}", self.repo.name()))?;
        self.repo.tip_of(&self.branch)
    }

    fn write_as(self, mode: &'static str, path: &str, content: &[u8]) -> Self {
        self.change(path, What::Write { mode, content: content.to_owned() })
    }

    fn change(mut self, path: &str, what: What) -> Self {
        self.changes.push(Change { path: path.to_owned(), what });
        self
    }

    fn fast_import_stream(&self) -> anyhow::Result<Vec<u8>> {
        anyhow::ensure!(!self.branch.contains(['\n', ' ']), "{:?} is no name for a branch", self.branch);
        let date = self.repo.next_date();
        let mut stream = format!("commit refs/heads/{}\n", self.branch).into_bytes();
        stream.extend(format!("committer {NAME} <{EMAIL}> {date} +0000\n").into_bytes());
        data(&mut stream, format!("{}\n", self.message.trim_end()).as_bytes());
        if let Some(parent) = self.parent() {
            stream.extend(format!("from {parent}\n").into_bytes());
        }
        for Change { path, what } in &self.changes {
            let path = quoted(path);
            match what {
                What::Write { mode, content } => {
                    stream.extend(format!("M {mode} inline {path}\n").into_bytes());
                    data(&mut stream, content);
                }
                What::Remove => stream.extend(format!("D {path}\n").into_bytes()),
                What::RemoveAll => stream.extend(b"deleteall\n"),
            }
        }
        Ok(stream)
    }

    fn parent(&self) -> Option<String> {
        self.repo.tip_of(&self.branch).or_else(|_| self.repo.tip()).ok()
    }
}

fn data(stream: &mut Vec<u8>, bytes: &[u8]) {
    stream.extend(format!("data {}\n", bytes.len()).into_bytes());
    stream.extend(bytes);
    stream.push(b'\n');
}

/// A path as fast-import reads it back, whatever is in it.
fn quoted(path: &str) -> String {
    let mut quoted = String::from("\"");
    for c in path.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
