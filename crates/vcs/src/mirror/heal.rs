//! Whether a mirror is whole, and what to do when it is not.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::MirrorError;
use super::fetch::blocking;
use super::lock::WriteLock;
use super::{Mirror, Writer, refs, store, sweep};
use crate::command::{CommandError, Limits};
use crate::remote::Remote;
use crate::repo::{ReadError, Repo, header, peel, tree_of};

/// How well to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The repository opens and what its refs name is there.
    Tips,
    /// Everything that can be reached is there.
    Connectivity,
    /// Every object has the content that its name promises.
    Content,
}

impl Mirror {
    /// Looks whether the mirror is whole. Nothing is changed by this; the next fetch clones a broken mirror anew after
    /// [`Mirror::report_corrupt`].
    pub async fn is_whole(&self, depth: Depth, cancel: &CancellationToken) -> Result<bool, MirrorError> {
        is_whole(self, &self.git_dir(), depth, cancel).await
    }

    /// Makes a new mirror, or clears up after somebody who was killed. Says whether it had to be cloned anew.
    pub(super) async fn make_ready(&self, writer: &Writer, remote: &Remote) -> Result<bool, MirrorError> {
        let (git, note) = (self.git_dir(), self.folder.join(store::WRITING));
        let suspect = self.suspect.load(Ordering::Relaxed);
        if git.exists() && !note.exists() && !suspect && self.repo().is_ok() {
            return Ok(false);
        }
        let lock = WriteLock::take(&self.folder.join(store::LOCK), self.options.lock_wait).await?;
        store::remove_leftovers(&self.folder)?;
        if !git.exists() {
            self.init(store::FRESH).await?;
            store::swap(&self.folder)?;
            store::remove_tree(&note)?;
            self.reopen()?;
            return Ok(false);
        }
        let start = Instant::now();
        while sweep::sweep(&git, sweep::MAY_BE_ALIVE)? > 0 && start.elapsed() < 2 * sweep::MAY_BE_ALIVE {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let depth = if suspect { Depth::Content } else { Depth::Connectivity };
        if is_whole(self, &git, depth, &CancellationToken::new()).await? {
            store::remove_tree(&note)?;
            self.suspect.store(false, Ordering::Relaxed);
            self.reopen()?;
            return Ok(false);
        }
        self.clone_anew(writer, &lock, remote).await?;
        Ok(true)
    }

    /// After a fetch that found something broken: was it here?
    pub(super) async fn clone_anew_if_broken(
        &self,
        writer: &Writer,
        remote: &Remote,
    ) -> Result<bool, MirrorError> {
        if is_whole(self, &self.git_dir(), Depth::Connectivity, &CancellationToken::new()).await? {
            return Ok(false);
        }
        let lock = WriteLock::take(&self.folder.join(store::LOCK), self.options.lock_wait).await?;
        self.clone_anew(writer, &lock, remote).await?;
        Ok(true)
    }

    /// Clones beside the broken repository and puts the new one in its place when it is whole. Until then who reads can read
    /// what is left; if the remote cannot be reached the next fetch tries again.
    async fn clone_anew(
        &self,
        writer: &Writer,
        lock: &WriteLock,
        remote: &Remote,
    ) -> Result<(), MirrorError> {
        tracing::warn!(%remote, folder = %self.folder.display(), "the mirror is broken and is cloned anew");
        self.suspect.store(true, Ordering::Relaxed);
        store::remove_leftovers(&self.folder)?;
        self.init(store::FRESH).await?;
        let fresh = self.folder.join(store::FRESH);
        let there = self.list(&fresh, remote).await?;
        let known = writer.reported.as_ref().map_or(0, refs::Refs::len);
        let known = known.max(usize::from(store::has_packs(&self.git_dir())));
        self.refuse_emptiness(remote, &there, known).await?;
        self.fetch_refs(&fresh, lock, remote).await?;
        self.pack_refs(&fresh).await?;
        if let Ok(Some(branch)) = self.default_branch_there(&fresh, remote).await {
            self.set_default_branch(&fresh, &branch).await?;
        }
        if !is_whole(self, &fresh, Depth::Tips, &CancellationToken::new()).await? {
            return Err(MirrorError::StillBroken { place: remote.to_string() });
        }
        store::swap(&self.folder)?;
        store::remove_tree(&self.folder.join(store::WRITING))?;
        self.suspect.store(false, Ordering::Relaxed);
        self.reopen()?;
        Ok(())
    }

    /// Makes an empty repository in the folder of the mirror.
    async fn init(&self, name: &str) -> Result<(), MirrorError> {
        let path = self.folder.join(name);
        store::remove_tree(&path)?;
        let cancel = CancellationToken::new();
        self.git
            .local(&path)
            .args(["init", "--quiet", "--bare", "--template=", "-b", "none"])
            .run(&cancel)
            .await?;
        // Reflogs hold what a forced move leaves behind.
        let mut settings = vec![("core.logAllRefUpdates", "always")];
        if self.options.blobless {
            settings.extend([
                ("core.repositoryFormatVersion", "1"),
                ("extensions.partialClone", "origin"),
                ("remote.origin.promisor", "true"),
                ("remote.origin.partialCloneFilter", "blob:none"),
            ]);
        }
        for (key, value) in settings {
            self.git.local(&path).args(["config", key, value]).run(&cancel).await?;
        }
        Ok(())
    }
}

async fn is_whole(
    mirror: &Mirror,
    git_dir: &Path,
    depth: Depth,
    cancel: &CancellationToken,
) -> Result<bool, MirrorError> {
    let path = git_dir.to_owned();
    let content = depth == Depth::Content;
    if !blocking(move || Ok(tips_are_there(&path) && (!content || loose_objects_are_whole(&path)))).await? {
        return Ok(false);
    }
    // Silent by nature, however long it takes.
    let total = mirror.options.limits.total;
    let limits = Limits { total, stalled: total, received: None, ..Limits::default() };
    let mut runs: Vec<Vec<String>> = Vec::new();
    if depth >= Depth::Connectivity {
        let mut args = vec!["rev-list", "--objects", "--all", "--quiet"];
        if mirror.options.blobless {
            args.push("--exclude-promisor-objects");
        }
        runs.push(args.into_iter().map(ToOwned::to_owned).collect());
    }
    if content {
        let packs = store::packs(git_dir)?;
        runs.extend(packs.into_iter().map(|pack| vec!["verify-pack".to_owned(), pack.display().to_string()]));
    }
    for args in runs {
        let invocation = mirror.git.local(git_dir).args(args).limits(limits.clone());
        match invocation.run(cancel).await {
            Ok(_) => {}
            Err(CommandError::Failed(failure)) if !failure.killed => {
                tracing::warn!(folder = %git_dir.display(), message = failure.message, "a mirror is broken");
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// The repository opens, and the commits that its refs name are there with their trees.
fn tips_are_there(git_dir: &Path) -> bool {
    let Ok(repo) = Repo::open(git_dir) else { return false };
    let repo = repo.local();
    let Ok(refs) = refs::local(&repo) else { return false };
    refs.values().all(|id| match peel(&repo, *id) {
        Ok((id, gix::objs::Kind::Commit)) => match tree_of(&repo, id) {
            Ok(tree) => matches!(header(&repo, tree), Ok(Some(_))),
            // Somebody pushed it so; cloning anew would not make it smaller.
            Err(error) => matches!(error, ReadError::TooLarge { .. }),
        },
        Ok(_) => true,
        Err(_) => false,
    })
}

fn loose_objects_are_whole(git_dir: &Path) -> bool {
    let store = gix::odb::loose::Store::at(git_dir.join("objects"), gix::hash::Kind::Sha1);
    store.verify_integrity(&mut gix::progress::Discard, &AtomicBool::new(false)).is_ok()
}
