//! Bare repositories that a test changes directly, without the network.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};

use super::program::{self, EPOCH};
use super::{Commit, Fault, Faults, Git, Kind, RequestLog, Scope};
use crate::process::ScratchDir;

/// When set, the pre-receive hook of every repository refuses with its value as the message.
pub(super) const REJECTION_VARIABLE: &str = "TESTBED_REJECT_PUSH";

const PRE_RECEIVE: &str = r#"#!/bin/sh
if [ -n "${TESTBED_REJECT_PUSH+set}" ]; then
  printf '%s\n' "$TESTBED_REJECT_PUSH" >&2
  exit 1
fi
"#;

/// A bare repository of a [`GitServer`](super::GitServer). Clones are handles to the same repository.
#[derive(Debug, Clone)]
pub struct Repo {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    url: String,
    path: PathBuf,
    git: Git,
    faults: Faults,
    log: RequestLog,
    /// Commits made so far, each a minute after the one before.
    commits: AtomicU64,
    /// The repository stays as long as there is a handle, also when the server is gone.
    _scratch: Arc<ScratchDir>,
}

impl Repo {
    pub(super) fn init(
        name: &str,
        url: String,
        path: PathBuf,
        git: Git,
        faults: Faults,
        log: RequestLog,
        scratch: Arc<ScratchDir>,
    ) -> anyhow::Result<Self> {
        let parent = path.parent().context("a repository needs a folder to be in")?;
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let mut init = git.command();
        program::output(
            init.args(["init", "--quiet", "--bare", "--template=", "-b", "main"]).arg(&path),
            None,
        )?;
        let inner = Inner {
            name: name.to_owned(),
            url,
            path,
            git,
            faults,
            log,
            commits: AtomicU64::new(0),
            _scratch: scratch,
        };
        let repo = Self { inner: Arc::new(inner) };
        for (key, value) in [
            ("http.receivepack", "true"),
            ("receive.autogc", "false"),
            ("uploadpack.allowFilter", "true"),
            ("uploadpack.allowAnySHA1InWant", "true"),
        ] {
            repo.git(&["config", key, value])?;
        }
        repo.write_hook()?;
        Ok(repo)
    }

    fn write_hook(&self) -> anyhow::Result<()> {
        let folder = self.path().join("hooks");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let hook = folder.join("pre-receive");
        std::fs::write(&hook, PRE_RECEIVE)
            .and_then(|()| std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", hook.display()))
    }

    /// Name on the server, without `.git`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Address for clients.
    pub fn url(&self) -> String {
        self.inner.url.clone()
    }

    /// Address for clients with credentials in it.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// Folder of the bare repository.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Commits on `main`: `Some` content writes a file, `None` removes it (or a whole folder). Returns the commit id.
    pub fn commit_files(&self, files: &[(&str, Option<&str>)], message: &str) -> anyhow::Result<String> {
        let mut commit = self.commit(message);
        for (path, content) in files {
            commit = match content {
                Some(content) => commit.file(path, content),
                None => commit.remove(path),
            };
        }
        commit.write()
    }

    /// A commit with more to say than [`Repo::commit_files`]: other branches, binary files, modes, links.
    pub fn commit(&self, message: &str) -> Commit {
        Commit::new(self.clone(), message)
    }

    /// Replaces the last commit of `main` by one with the same parent, the same files and these changes, as a
    /// force-push after `commit --amend` does. Returns the new commit id.
    pub fn force_push(&self, files: &[(&str, Option<&str>)], message: &str) -> anyhow::Result<String> {
        let old = self.tip()?;
        let new = self.commit_files(files, message)?;
        let tree = format!("{new}^{{tree}}");
        let mut args = vec!["commit-tree".to_owned(), tree, "-m".to_owned(), message.to_owned()];
        for parent in self.git(&["rev-parse", &format!("{old}^@")])?.lines() {
            args.extend(["-p".to_owned(), parent.to_owned()]);
        }
        let new = self.dated_git(&args)?;
        self.reset_to(&new)?;
        Ok(new)
    }

    /// Moves `main` to any commit, as a force-push does.
    pub fn reset_to(&self, revision: &str) -> anyhow::Result<()> {
        self.set_branch("main", revision)
    }

    /// Creates a branch at a revision, or moves it there.
    pub fn set_branch(&self, branch: &str, revision: &str) -> anyhow::Result<()> {
        let id = self.resolve(revision)?;
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &id]).map(drop)
    }

    /// Creates a branch at the tip of `main`.
    pub fn branch(&self, branch: &str) -> anyhow::Result<()> {
        self.set_branch(branch, "refs/heads/main")
    }

    /// Removes a branch.
    pub fn delete_branch(&self, branch: &str) -> anyhow::Result<()> {
        self.tip_of(branch)?;
        self.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]).map(drop)
    }

    /// Creates a light tag at a revision, or moves it there.
    pub fn tag(&self, tag: &str, revision: &str) -> anyhow::Result<()> {
        let id = self.resolve(revision)?;
        self.git(&["update-ref", &format!("refs/tags/{tag}"), &id]).map(drop)
    }

    /// Commit id of `main`.
    pub fn tip(&self) -> anyhow::Result<String> {
        self.tip_of("main")
    }

    /// Commit id of a branch.
    pub fn tip_of(&self, branch: &str) -> anyhow::Result<String> {
        self.resolve(&format!("refs/heads/{branch}"))
    }

    /// Commit id of any revision.
    pub fn resolve(&self, revision: &str) -> anyhow::Result<String> {
        self.git(&["rev-parse", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")])
            .with_context(|| format!("repository {} has no {revision}", self.name()))
    }

    /// Content of a file at the tip of `main`; `None` when there is no such file.
    pub fn file(&self, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.file_at("refs/heads/main", path)
    }

    /// Content of a file at a revision; `None` when there is no such file.
    pub fn file_at(&self, revision: &str, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let commit = self.resolve(revision)?;
        let listed = self.git(&["ls-tree", "-z", "--full-tree", &commit, "--", path])?;
        let Some((head, _)) = listed.split_once('\t') else { return Ok(None) };
        let [_, kind, id] = head.split(' ').collect::<Vec<_>>()[..] else {
            bail!("git ls-tree printed {head:?}")
        };
        if kind != "blob" {
            return Ok(None);
        }
        program::output_bytes(self.command().args(["cat-file", "blob", id]), None).map(Some)
    }

    /// Paths of all files at a revision.
    pub fn files_at(&self, revision: &str) -> anyhow::Result<Vec<String>> {
        let commit = self.resolve(revision)?;
        let listed = self.git(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", &commit])?;
        Ok(listed.split_terminator('\0').map(ToOwned::to_owned).collect())
    }

    /// Runs any git command in the repository and returns what it prints, without white space at the end.
    pub fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        program::output(self.command().args(args), None)
    }

    /// Lets this fault happen to every request for this repository from now on.
    pub fn fault(&self, fault: Fault) {
        self.inner.faults.set(Scope::subject(self.name()), fault);
    }

    /// Lets this fault happen to requests of one kind for this repository from now on.
    pub fn fault_on(&self, kind: Kind, fault: Fault) {
        self.inner.faults.set(Scope::subject(self.name()).of_kind(kind.as_str()), fault);
    }

    /// Ends the faults of this repository; those of the whole server stay.
    pub fn clear_faults(&self) {
        self.inner.faults.clear_subject(self.name());
    }

    /// Number of requests of a kind for this repository.
    pub fn count(&self, kind: Kind) -> u64 {
        self.inner.log.count_of(self.name(), kind.as_str())
    }

    /// A git command in the repository.
    pub(super) fn command(&self) -> Command {
        let mut command = self.inner.git.command();
        command.arg("--git-dir").arg(self.path());
        command
    }

    /// Seconds since 1970 of the next commit.
    pub(super) fn next_date(&self) -> u64 {
        EPOCH + 60 * self.inner.commits.fetch_add(1, Ordering::Relaxed)
    }

    /// One commit on `main` with everything in a folder, whatever its own ignore files say.
    pub(super) fn import_folder(&self, folder: &Path) -> anyhow::Result<String> {
        anyhow::ensure!(folder.is_dir(), "{} is not a folder", folder.display());
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        let index = self.path().join("import-index");
        let in_folder = || {
            let mut command = self.inner.git.command();
            command.current_dir(&folder).env("GIT_DIR", self.path()).env("GIT_WORK_TREE", &folder);
            command.env("GIT_INDEX_FILE", &index);
            command
        };
        program::output(in_folder().args(["-c", "core.bare=false", "add", "--all", "--force", "."]), None)?;
        let tree = program::output(in_folder().arg("write-tree"), None)?;
        std::fs::remove_file(&index).with_context(|| format!("cannot remove {}", index.display()))?;
        let commit =
            self.dated_git(&["commit-tree", &tree, "-m", "Initial commit"].map(ToOwned::to_owned))?;
        self.reset_to(&commit)?;
        Ok(commit)
    }

    /// Runs git with the date of the next commit.
    fn dated_git(&self, args: &[String]) -> anyhow::Result<String> {
        let date = format!("{} +0000", self.next_date());
        let mut command = self.command();
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        program::output(command.args(args), None)
    }
}
