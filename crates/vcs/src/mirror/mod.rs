//! Mirrors of remotes: fetched once for everybody, tidied, and cloned anew when they break.
//!
//! ```text
//!  work folder/                       Mirrors ──mirror(remote)──► Arc<Mirror>
//!    scratch/     keys while in use                                  │ fetch(): one running, one queued, for all callers
//!    <digest>/                                                       ▼
//!      git/       bare repository      1 list the remote's refs      no difference: done, nothing was touched
//!      lock       one writer           2 lock, drop refs that are gone there, fetch the rest
//!      writing    there while it is    3 compare refs before and after: the movements
//!                 being changed        4 tidy when packs pile up
//! ```
//!
//! Choices, and why:
//! - The list of refs is asked for first (`git ls-remote`). `git fetch` alone costs the same requests when there is no
//!   news, but with `--prune` it would delete every ref when a proxy answers with an empty page. Knowing the list, that is
//!   an error ([`MirrorError::Emptied`]), and without news neither lock nor repository are touched.
//! - Full history with all blobs is the default: trees are compared and rolled back to over long spans, and readers (gix)
//!   cannot ask the remote for what is missing. A [`MirrorOptions::depth`] helps where only the tip is of interest; with
//!   [`MirrorOptions::blobless`] trees and history come at once and [`Mirror::complete`] brings the blobs of a commit.
//! - Branches are in `refs/remotes/origin/*`, tags in `refs/tags/*`, and the mirror's `HEAD` names the remote's default
//!   branch. Names in [`Movement`]s are those of the remote (`refs/heads/main`).
//!
//! Readers never lose an object while they need it: packs are only replaced by packs with the same objects in them, a file
//! that is open stays readable, and [`Mirror::read`] looks again when a pack was replaced at that very moment. Refs are
//! packed only before anybody reads them. Objects that no ref names any more stay for
//! [`Tidying::grace`], counted from when the ref moved: git's reflogs hold what a forced move left behind, and
//! `refs/windlass/kept/*` holds the tips of deleted branches. Whoever works with objects that no ref ever named holds
//! [`Mirror::keep_objects`] meanwhile.

mod coalesce;
mod error;
mod fetch;
mod heal;
mod lock;
mod pushed;
mod refs;
mod store;
mod sweep;
mod tidy;

pub use error::MirrorError;
pub use fetch::Fetched;
pub use heal::Depth;
pub use refs::Movement;
pub use tidy::{Tidied, Tidying};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::sync::CancellationToken;

use crate::command::{Git, Limits};
use crate::id::CommitId;
use crate::remote::Remote;
use crate::repo::{ReadError, Repo};

/// Called with every movement, once and in order, before the callers of [`Mirror::fetch`] hear of it. It may block on the
/// disk, and must not wait for a fetch of the same mirror.
pub type OnMove = Arc<dyn Fn(&Remote, &[Movement]) + Send + Sync>;

/// How mirrors are kept.
#[derive(Clone)]
pub struct MirrorOptions {
    /// What one fetch may take.
    pub limits: Limits,
    /// How long to wait for another process that works on the mirror.
    pub lock_wait: Duration,
    /// Only that many commits of history; `None` is all of it. A move out of what is there counts as forced.
    pub depth: Option<NonZeroU32>,
    /// Leaves blobs out until [`Mirror::complete`] asks for them.
    pub blobless: bool,
    /// How often the remote is asked which branch is its default, apart from the first time and from when that branch
    /// is gone. It takes a request of its own, and hardly ever changes.
    pub head_every: Duration,
    /// When and how to tidy.
    pub tidying: Tidying,
    /// Hears of every movement.
    pub on_move: Option<OnMove>,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            lock_wait: Duration::from_secs(30),
            depth: None,
            blobless: false,
            head_every: Duration::from_secs(600),
            tidying: Tidying::default(),
            on_move: None,
        }
    }
}

impl std::fmt::Debug for MirrorOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MirrorOptions")
            .field("limits", &self.limits)
            .field("depth", &self.depth)
            .field("blobless", &self.blobless)
            .field("tidying", &self.tidying)
            .finish_non_exhaustive()
    }
}

/// All mirrors of a work folder.
#[derive(Debug)]
pub struct Mirrors {
    folder: PathBuf,
    git: Git,
    options: Arc<MirrorOptions>,
    open: Mutex<HashMap<String, Arc<Mirror>>>,
}

impl Mirrors {
    /// Opens a work folder, or makes it. Have one of these for a folder: what it finds unfinished when it opens a mirror it
    /// takes for the leftovers of somebody who is gone.
    pub fn new(folder: &Path, options: MirrorOptions) -> Result<Self, MirrorError> {
        store::create_private(folder)?;
        let folder = folder.canonicalize().map_err(|error| MirrorError::io("find", folder, error))?;
        let git = Git::new(&folder.join("scratch"))?;
        Self::with_git(&folder, git, options)
    }

    /// Like [`Mirrors::new`], with another `git` or `ssh`.
    pub fn with_git(folder: &Path, git: Git, options: MirrorOptions) -> Result<Self, MirrorError> {
        store::create_private(folder)?;
        let folder = folder.canonicalize().map_err(|error| MirrorError::io("find", folder, error))?;
        Ok(Self { folder, git, options: Arc::new(options), open: Mutex::default() })
    }

    /// Runs `git` as the mirrors do.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The mirror of a remote. Nothing is fetched by this.
    ///
    /// There is one for all who ask for the same repository in the same scope. The credentials of the last who asked are
    /// the ones that are used from then on.
    pub fn mirror(&self, remote: &Remote) -> Result<Arc<Mirror>, MirrorError> {
        let digest = remote.digest();
        let mut mirrors = guard(&self.open);
        if let Some(mirror) = mirrors.get(&digest) {
            *mirror.remote.write().unwrap_or_else(PoisonError::into_inner) = remote.clone();
            return Ok(mirror.clone());
        }
        let mirror = Arc::new(Mirror::open(self, remote)?);
        mirrors.insert(digest, mirror.clone());
        Ok(mirror)
    }

    /// Removes the mirrors of all other remotes, those of earlier runs too. Returns how many went.
    ///
    /// A mirror that somebody still holds, or that another process works on, stays until the next time.
    pub fn retain(&self, remotes: &[Remote]) -> Result<usize, MirrorError> {
        let wanted: BTreeSet<String> = remotes.iter().map(Remote::digest).collect();
        let mut mirrors = guard(&self.open);
        mirrors.retain(|digest, mirror| wanted.contains(digest) || Arc::strong_count(mirror) > 1);
        let mut removed = 0;
        for digest in store::digests(&self.folder)? {
            if !wanted.contains(&digest) && !mirrors.contains_key(&digest) {
                removed += usize::from(store::remove(&self.folder.join(digest))?);
            }
        }
        Ok(removed)
    }

    /// Removes one mirror. `false` when somebody still holds it.
    pub fn remove(&self, remote: &Remote) -> Result<bool, MirrorError> {
        let digest = remote.digest();
        let mut mirrors = guard(&self.open);
        if mirrors.get(&digest).is_some_and(|mirror| Arc::strong_count(mirror) > 1) {
            return Ok(false);
        }
        mirrors.remove(&digest);
        store::remove(&self.folder.join(digest))
    }
}

/// The mirror of one remote.
#[derive(Debug)]
pub struct Mirror {
    digest: String,
    folder: PathBuf,
    git: Git,
    options: Arc<MirrorOptions>,
    remote: RwLock<Remote>,
    rounds: coalesce::Rounds<Result<Fetched, MirrorError>>,
    writer: Arc<tokio::sync::Mutex<Writer>>,
    repo: Mutex<Option<Arc<Repo>>>,
    /// Somebody read something broken: the next fetch looks at everything.
    suspect: AtomicBool,
    users: Arc<tokio::sync::RwLock<()>>,
    tidying: Mutex<tidy::Background>,
}

/// What only the one who writes needs to know.
#[derive(Debug, Default)]
struct Writer {
    /// The refs as the last successful fetch reported them.
    reported: Option<refs::Refs>,
    /// When the remote was last asked for its default branch.
    head_asked: Option<tokio::time::Instant>,
}

impl Mirror {
    fn open(mirrors: &Mirrors, remote: &Remote) -> Result<Self, MirrorError> {
        let digest = remote.digest();
        let folder = mirrors.folder.join(&digest);
        store::prepare(&folder, remote)?;
        Ok(Self {
            digest,
            folder,
            git: mirrors.git.clone(),
            options: mirrors.options.clone(),
            remote: RwLock::new(remote.clone()),
            rounds: coalesce::Rounds::default(),
            writer: Arc::default(),
            repo: Mutex::new(None),
            suspect: AtomicBool::new(false),
            users: Arc::default(),
            tidying: Mutex::default(),
        })
    }

    /// The remote, with the credentials that were given last.
    pub fn remote(&self) -> Remote {
        self.remote.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of the mirror's folder.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The folder of this mirror. Other rooms keep what they derive from it beside `git`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The bare repository.
    pub fn git_dir(&self) -> PathBuf {
        self.folder.join(store::GIT)
    }

    /// Brings the mirror up to date with the remote, as it is at or after the time of this call.
    ///
    /// Any number of callers share the work: at most one fetch runs and one waits. A caller that is cancelled or dropped
    /// leaves the others alone; the fetch ends when nobody waits for it any more.
    pub async fn fetch(self: &Arc<Self>, cancel: &CancellationToken) -> Result<Fetched, MirrorError> {
        let mirror = self.clone();
        let round = self.rounds.join(move |begun| async move { mirror.round(&begun).await });
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(MirrorError::Cancelled { place: self.remote().to_string() }),
            result = round => result.unwrap_or_else(|| Err(MirrorError::Interrupted { place: self.remote().to_string() })),
        }
    }

    /// The repository for reading. It stays usable while fetches and tidying go on, and sees what they bring.
    pub fn repo(&self) -> Result<Arc<Repo>, MirrorError> {
        let mut repo = guard(&self.repo);
        if let Some(repo) = repo.as_ref() {
            return Ok(repo.clone());
        }
        if !self.git_dir().exists() {
            return Err(MirrorError::NotFetched { place: self.remote().to_string() });
        }
        let opened = Arc::new(Repo::open(&self.git_dir()).map_err(|error| {
            self.report_corrupt();
            MirrorError::from(error)
        })?);
        *repo = Some(opened.clone());
        Ok(opened)
    }

    /// The refs of the remote, by their names there, as they were last fetched. Annotated tags give their commit; what is
    /// no commit is left out.
    ///
    /// After a crash compare this with what was recorded: a movement may have been made and not told.
    pub fn refs(&self) -> Result<BTreeMap<String, CommitId>, MirrorError> {
        let read = self.read(|repo| {
            let repo = repo.local();
            refs::commits(&repo, &refs::local(&repo)?)
        })?;
        Ok(read?)
    }

    /// Reads something, and reads it once more with the repository opened anew when an object or a ref could not be read.
    ///
    /// While packs are replaced a look into the folder may come between the old and the new one: what was not found is there
    /// at the second look. What is damaged at the second look is reported as by [`Mirror::report_corrupt`]. A missing object
    /// is not: it may never have been there, so only the caller can tell.
    pub fn read<T, E>(&self, mut work: impl FnMut(&Repo) -> Result<T, E>) -> Result<Result<T, E>, MirrorError>
    where
        E: std::error::Error + 'static,
    {
        let first = work(&*self.repo()?);
        if !first.as_ref().is_err_and(|error| error::damage(error).is_some()) {
            return Ok(first);
        }
        let second = work(&*self.reopen()?);
        if let Err(error) = &second
            && let Some(ReadError::Corrupt { .. } | ReadError::Refs { .. }) = error::damage(error)
        {
            self.report_corrupt();
        }
        Ok(second)
    }

    /// The remote's default branch (`main`), as far as it is known.
    pub fn default_branch(&self) -> Result<Option<String>, MirrorError> {
        Ok(refs::default_branch(&self.repo()?.local()))
    }

    /// Says that an object was missing or broken when it was read. The next fetch reads everything, and clones the mirror
    /// anew if it is broken.
    pub fn report_corrupt(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Keeps tidying from removing objects that no ref names, for as long as the guard lives.
    pub async fn keep_objects(&self) -> OwnedRwLockReadGuard<()> {
        self.users.clone().read_owned().await
    }

    /// What one run of git may take.
    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Opens the repository anew, because files were replaced under it.
    fn reopen(&self) -> Result<Arc<Repo>, MirrorError> {
        let opened = Arc::new(Repo::open(&self.git_dir())?);
        *guard(&self.repo) = Some(opened.clone());
        Ok(opened)
    }
}

/// Nothing here can be left half-done by a panic.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
