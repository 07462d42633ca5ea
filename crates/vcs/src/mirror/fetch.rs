//! One fetch: list, compare, drop, fetch, compare again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::MirrorError;
use super::lock::WriteLock;
use super::refs::{self, Movement, Refs};
use super::store::{self, Writing};
use super::{Mirror, Writer, sweep};
use crate::command::{Category, CommandError, Invocation, ORIGIN};
use crate::id::CommitId;
use crate::remote::Remote;
use crate::repo::Repo;

/// Refs that hold the tips of deleted branches for a while: `<seconds since 1970>-<object>`.
pub(super) const KEPT: &str = "refs/windlass/kept/";

/// What a fetch brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Refs that moved since the last successful fetch of this process.
    pub movements: Vec<Movement>,
    /// The remote's default branch, as far as it is known.
    pub default_branch: Option<String>,
    /// How many bytes came in packs.
    pub received: u64,
    /// Whether the mirror was broken and was cloned anew.
    pub cloned_anew: bool,
}

impl Mirror {
    /// One round for all who wait for it.
    pub(super) async fn round(self: Arc<Self>, begun: &AtomicBool) -> Result<Fetched, MirrorError> {
        let mut writer = self.writer.clone().lock_owned().await;
        let remote = self.remote();
        begun.store(true, Ordering::SeqCst);
        let mut cloned_anew = self.make_ready(&writer, &remote).await?;
        let mut result = self.bring_up_to_date(&mut writer, &remote).await;
        if let Err(error) = &result
            && error.category() == Category::Corrupt
            && !cloned_anew
            && self.clone_anew_if_broken(&writer, &remote).await?
        {
            cloned_anew = true;
            result = self.bring_up_to_date(&mut writer, &remote).await;
        }
        let fetched = Fetched { cloned_anew, ..result? };
        if let (Some(on_move), false) = (self.options.on_move.clone(), fetched.movements.is_empty()) {
            // Still in turn, even when nobody waits any more: the movements of the next fetch come later.
            let movements = fetched.movements.clone();
            writer = blocking(move || {
                on_move(&remote, &movements);
                Ok(writer)
            })
            .await?;
        }
        drop(writer);
        self.tidy_when_due();
        Ok(fetched)
    }

    async fn bring_up_to_date(&self, writer: &mut Writer, remote: &Remote) -> Result<Fetched, MirrorError> {
        let there = self.list(&self.git_dir(), remote).await?;
        let here = self.refs_here().await?;
        if writer.reported.is_none() {
            writer.reported = Some(here.clone());
        }
        let known = here.len().max(writer.reported.as_ref().map_or(0, Refs::len));
        self.refuse_emptiness(remote, &there, known).await?;
        let mut received = 0;
        if there != here {
            let lock = WriteLock::take(&self.folder.join(store::LOCK), self.options.lock_wait).await?;
            received = self.change(&lock, remote, &here, &there).await?;
            self.reopen()?;
        }
        self.ask_for_default_branch(writer, remote, &there).await;
        let default_branch = self.default_branch()?;
        let (movements, after) = self.movements_since(writer.reported.clone().unwrap_or_default()).await?;
        // From here on nothing fails and nothing waits before they are told.
        writer.reported = Some(after);
        Ok(Fetched { movements, default_branch, received, cloned_anew: false })
    }

    /// The remote's branches and tags.
    pub(super) async fn list(&self, git_dir: &Path, remote: &Remote) -> Result<Refs, MirrorError> {
        let output = self
            .at_remote(git_dir, remote)?
            .args(["ls-remote", "--quiet", "--refs", "--heads", "--tags", ORIGIN])
            .run(&CancellationToken::new())
            .await?;
        refs::advertised(&remote.to_string(), &output.stdout)
    }

    /// An empty list is only believed of a git server that never named a ref.
    pub(super) async fn refuse_emptiness(
        &self,
        remote: &Remote,
        there: &Refs,
        known: usize,
    ) -> Result<(), MirrorError> {
        if !there.is_empty() {
            return Ok(());
        }
        let place = remote.to_string();
        if known > 0 {
            return Err(MirrorError::Emptied { place, count: known });
        }
        if !remote.url().scheme().is_http() {
            return Ok(());
        }
        // git takes an empty page for an empty repository of a server without git. A real one speaks in packets.
        let output = self
            .at_remote(&self.git_dir(), remote)?
            .args(["ls-remote", "--heads", ORIGIN])
            .env("GIT_TRACE_PACKET", "1")
            .run(&CancellationToken::new())
            .await?;
        if output.notes.contains("packet:") { Ok(()) } else { Err(MirrorError::NotARepository { place }) }
    }

    /// Changes the refs of the mirror to those of the remote.
    async fn change(
        &self,
        lock: &WriteLock,
        remote: &Remote,
        here: &Refs,
        there: &Refs,
    ) -> Result<u64, MirrorError> {
        let writing = Writing::begin(&self.folder)?;
        let result = async {
            self.drop_refs(here, there).await?;
            if there.iter().all(|(name, id)| here.get(name) == Some(id)) {
                return Ok(0);
            }
            let received = self.fetch_refs(&self.git_dir(), lock, remote).await?;
            if here.is_empty() {
                self.pack_refs(&self.git_dir()).await?;
            }
            Ok(received)
        }
        .await;
        // A git that ended by itself has cleaned up, but for the pack that was arriving; one that was killed has not.
        let ended_itself = match &result {
            Ok(_) => true,
            Err(MirrorError::Command(error)) => {
                matches!(**error, CommandError::Failed(_) | CommandError::TooLarge { .. })
                    // A lock that nobody will release is swept by the next fetch.
                    && error.category() != Category::Busy
            }
            Err(_) => false,
        };
        if ended_itself {
            if result.is_err() {
                sweep::half_arrived_packs(&self.git_dir())?;
            }
            writing.end()?;
        }
        result
    }

    /// Deletes refs that are gone there, and keeps their commits for a while.
    ///
    /// It comes before the fetch: a branch `a/b` can only be made when `a` is gone.
    async fn drop_refs(&self, here: &Refs, there: &Refs) -> Result<(), MirrorError> {
        let gone: Vec<_> = here.iter().filter(|(name, _)| !there.contains_key(*name)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let ids: BTreeSet<_> = gone.iter().map(|(_, id)| *id).collect();
        let keep = ids.into_iter().map(|id| format!("update {KEPT}{now}-{id} {id}"));
        let delete = gone.iter().map(|(name, id)| format!("delete {} {id}", refs::name_here(name)));
        let script = refs::transaction(keep.chain(delete));
        self.here()
            .args(["update-ref", "--no-deref", "--stdin"])
            .input(script)
            .run(&CancellationToken::new())
            .await?;
        Ok(())
    }

    /// Fetches all branches and tags into a repository; returns the bytes that came.
    pub(super) async fn fetch_refs(
        &self,
        git_dir: &Path,
        lock: &WriteLock,
        remote: &Remote,
    ) -> Result<u64, MirrorError> {
        let mut invocation = self.at_remote(git_dir, remote)?.args([
            "fetch",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
            // A sign of life.
            "--progress",
        ]);
        if let Some(depth) = self.options.depth {
            invocation = invocation.arg(format!("--depth={depth}"));
        }
        if self.options.blobless {
            invocation = invocation.arg("--filter=blob:none");
        }
        let invocation =
            invocation.args([ORIGIN, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]);
        Ok(lock.held_by(invocation).run(&CancellationToken::new()).await?.received)
    }

    /// Puts all refs into one file. Only before anybody reads them: a reader may look for the file of a ref just after it has
    /// gone, into a list from just before it came.
    pub(super) async fn pack_refs(&self, git_dir: &Path) -> Result<(), MirrorError> {
        self.git
            .local(git_dir)
            .args(["pack-refs", "--all", "--prune"])
            .run(&CancellationToken::new())
            .await?;
        Ok(())
    }

    /// Asks which branch is the default, when it is time to. That it fails is no reason to fail.
    async fn ask_for_default_branch(&self, writer: &mut Writer, remote: &Remote, there: &Refs) {
        let known = self.default_branch().ok().flatten();
        let is_there =
            known.as_ref().is_some_and(|branch| there.contains_key(&format!("refs/heads/{branch}")));
        let is_fresh = writer.head_asked.is_some_and(|time| time.elapsed() < self.options.head_every);
        if there.is_empty() || (is_there && is_fresh) {
            return;
        }
        match self.default_branch_there(&self.git_dir(), remote).await {
            Ok(Some(branch)) if known.as_ref() != Some(&branch) => {
                if let Err(error) = self.set_default_branch(&self.git_dir(), &branch).await {
                    tracing::warn!(%remote, %error, "cannot write down the default branch");
                    return;
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%remote, %error, "cannot ask for the default branch");
                return;
            }
        }
        writer.head_asked = Some(Instant::now());
    }

    pub(super) async fn default_branch_there(
        &self,
        git_dir: &Path,
        remote: &Remote,
    ) -> Result<Option<String>, MirrorError> {
        let invocation =
            self.at_remote(git_dir, remote)?.args(["ls-remote", "--quiet", "--symref", ORIGIN, "HEAD"]);
        Ok(refs::advertised_head(&invocation.run(&CancellationToken::new()).await?.stdout))
    }

    pub(super) async fn set_default_branch(&self, git_dir: &Path, branch: &str) -> Result<(), MirrorError> {
        let name = format!("{}{branch}", refs::BRANCHES_HERE);
        let invocation = self.git.local(git_dir).args(["symbolic-ref", "HEAD", &name]);
        invocation.run(&CancellationToken::new()).await?;
        Ok(())
    }

    /// Brings the blobs of a commit into a mirror that was made without them. Does nothing when they are there.
    pub async fn complete(&self, commit: CommitId, cancel: &CancellationToken) -> Result<(), MirrorError> {
        // As many names as surely fit into the arguments of a process.
        const AT_ONCE: usize = 1000;
        let commit = commit.to_string();
        let listed = self
            .here()
            .args(["rev-list", "--objects", "--no-walk", "--missing=print", &commit])
            .run(cancel)
            .await?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let missing: Vec<_> = listed.lines().filter_map(|line| line.strip_prefix('?')).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let _writer = self.writer.lock().await;
        let remote = self.remote();
        let lock = WriteLock::take(&self.folder.join(store::LOCK), self.options.lock_wait).await?;
        let writing = Writing::begin(&self.folder)?;
        for ids in missing.chunks(AT_ONCE) {
            let invocation = self
                .at_remote(&self.git_dir(), &remote)?
                // What is here cannot help the remote to send less of it.
                .setting("fetch.negotiationAlgorithm", "noop")
                .args(["fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--progress"])
                // What is asked for by name comes all the same, in a pack that tidying knows to keep.
                .args(["--no-recurse-submodules", "--filter=blob:none", ORIGIN])
                .args(ids);
            lock.held_by(invocation).run(cancel).await?;
        }
        writing.end()?;
        self.reopen().map(drop)
    }

    async fn refs_here(&self) -> Result<Refs, MirrorError> {
        let repo = self.repo()?;
        blocking(move || Ok(refs::local(&repo.local())?)).await
    }

    async fn movements_since(&self, before: Refs) -> Result<(Vec<Movement>, Refs), MirrorError> {
        let repo: Arc<Repo> = self.repo()?;
        blocking(move || {
            let repo = repo.local();
            let after = refs::local(&repo)?;
            Ok((refs::movements(&repo, &before, &after), after))
        })
        .await
    }

    /// git in the mirror, without a network.
    pub(super) fn here(&self) -> Invocation {
        self.git.local(&self.git_dir())
    }

    /// git with the remote.
    pub(super) fn at_remote(&self, git_dir: &Path, remote: &Remote) -> Result<Invocation, MirrorError> {
        Ok(self.git.remote(git_dir, remote)?.limits(self.options.limits.clone()))
    }
}

/// Runs what blocks on the disk where it disturbs nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MirrorError> + Send + 'static,
) -> Result<T, MirrorError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(MirrorError::Interrupted { place: "the mirror".to_owned() }),
    }
}
