//! Keeping a mirror small and quick to read.
//!
//! Every fetch with news leaves a pack. When there are many of them the small ones are put together (`git repack
//! --geometric`), which takes little time and drops nothing. Once a day everything is put together and what no ref has named
//! for the time of grace is dropped.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::MirrorError;
use super::fetch::KEPT;
use super::lock::WriteLock;
use super::store::{self, Writing};
use super::{Mirror, guard, refs, sweep};
use crate::command::Limits;

/// When and how to tidy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tidying {
    /// Whether it happens by itself, after a fetch.
    pub automatic: bool,
    /// So many packs are put together.
    pub packs: usize,
    /// So many loose objects (about) are put together.
    pub loose: usize,
    /// How long objects stay that no ref names any more: the time in which one can go back to what was force-pushed away.
    pub grace: Duration,
    /// How often everything is put together and what is past its time of grace is dropped.
    pub thorough_every: Duration,
}

impl Default for Tidying {
    /// 16 packs, 4,000 loose objects, two weeks of grace, once a day.
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { automatic: true, packs: 16, loose: 4000, grace: 14 * day, thorough_every: day }
    }
}

/// What tidying did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tidied {
    /// Packs before it.
    pub packs_before: usize,
    /// Packs after it.
    pub packs_after: usize,
    /// Whether what is past its time of grace was dropped. `false` when somebody was working with objects.
    pub thorough: bool,
}

/// After tidying failed it is left alone for so long: a mirror that is too large for its time limit would otherwise be
/// tidied in vain after every fetch, with the next fetch waiting for it.
const AFTER_A_FAILURE: Duration = Duration::from_secs(60 * 60);

/// Tidying that happens by itself.
#[derive(Debug, Default)]
pub(super) struct Background {
    task: Option<AbortOnDropHandle<()>>,
    /// When it last failed.
    failed: Option<Instant>,
}

impl Background {
    fn is_resting(&self) -> bool {
        let is_running = self.task.as_ref().is_some_and(|task| !task.is_finished());
        is_running || self.failed.is_some_and(|time| time.elapsed() < AFTER_A_FAILURE)
    }
}

impl Mirror {
    /// Puts packs together; if `thorough`, also drops what no ref has named for the time of grace.
    pub async fn tidy(&self, thorough: bool, cancel: &CancellationToken) -> Result<Tidied, MirrorError> {
        let _writer = self.writer.lock().await;
        let git_dir = self.git_dir();
        let packs_before = store::packs(&git_dir)?.len();
        if !git_dir.exists() {
            return Err(MirrorError::NotFetched { place: self.remote().to_string() });
        }
        // Nobody is waited for: it is tried again after the next fetch.
        let alone = if thorough { self.users.clone().try_write_owned().ok() } else { None };
        let lock = WriteLock::take(&self.folder.join(store::LOCK), self.options.lock_wait).await?;
        let writing = Writing::begin(&self.folder)?;
        if alone.is_some() {
            // A `*.keep` that a dying git wrote last would hold its pack for good.
            sweep::sweep(&git_dir, sweep::MAY_BE_ALIVE)?;
            self.drop_kept_refs(cancel).await?;
            for args in thorough_steps(self.options.tidying.grace, self.options.blobless) {
                self.tidy_step(&lock, &args, cancel).await?;
            }
            mark_now(&self.folder.join(store::TIDIED))?;
        } else if self.options.blobless {
            // Geometric repacking of git 2.39 does not know about blobs that were left out.
            self.tidy_step(&lock, &["repack", "-d", "-q"].map(ToOwned::to_owned), cancel).await?;
        } else {
            self.tidy_step(&lock, &["repack", "--geometric=2", "-d", "-q"].map(ToOwned::to_owned), cancel)
                .await?;
        }
        writing.end()?;
        drop(lock);
        self.reopen()?;
        Ok(Tidied { packs_before, packs_after: store::packs(&git_dir)?.len(), thorough: alone.is_some() })
    }

    async fn tidy_step(
        &self,
        lock: &WriteLock,
        args: &[String],
        cancel: &CancellationToken,
    ) -> Result<(), MirrorError> {
        // Silent by nature, however long it takes.
        let total = self.options.limits.total;
        let limits = Limits { total, stalled: total, received: None, ..Limits::default() };
        lock.held_by(self.here().args(args).limits(limits)).run(cancel).await?;
        Ok(())
    }

    /// Drops the refs that held the tips of deleted branches for their time of grace.
    async fn drop_kept_refs(&self, cancel: &CancellationToken) -> Result<(), MirrorError> {
        let listed = self.here().args(["for-each-ref", "--format=%(refname)", KEPT]).run(cancel).await?;
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let is_past = |name: &&str| {
            let since = name.strip_prefix(KEPT).and_then(|rest| rest.split_once('-')?.0.parse().ok());
            since.is_none_or(|since| {
                now.saturating_sub(Duration::from_secs(since)) >= self.options.tidying.grace
            })
        };
        let script = refs::transaction(listed.lines().filter(is_past).map(|name| format!("delete {name}")));
        self.here().args(["update-ref", "--no-deref", "--stdin"]).input(script).run(cancel).await?;
        Ok(())
    }

    /// Tidies in the background when it is time to.
    pub(super) fn tidy_when_due(self: &Arc<Self>) {
        let Some(thorough) = self.due() else { return };
        let mut background = guard(&self.tidying);
        if background.is_resting() {
            return;
        }
        let mirror = self.clone();
        background.task = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let tidied = mirror.tidy(thorough, &CancellationToken::new()).await;
            guard(&mirror.tidying).failed = tidied.is_err().then(Instant::now);
            match tidied {
                Ok(tidied) => tracing::debug!(mirror = mirror.digest(), ?tidied, "tidied"),
                Err(error) => tracing::warn!(mirror = mirror.digest(), %error, "cannot tidy"),
            }
        })));
    }

    /// Whether it is time to tidy, and how.
    fn due(&self) -> Option<bool> {
        let tidying = &self.options.tidying;
        let git_dir = self.git_dir();
        if !tidying.automatic || !store::has_packs(&git_dir) {
            return None;
        }
        let note = self.folder.join(store::TIDIED);
        let age = note
            .metadata()
            .and_then(|data| data.modified())
            .ok()
            .map(|time| time.elapsed().unwrap_or_default());
        match age {
            // The first day begins with the first fetch.
            None => drop(mark_now(&note)),
            Some(age) if age >= tidying.thorough_every => return Some(true),
            Some(_) => {}
        }
        let many = store::packs(&git_dir).is_ok_and(|packs| packs.len() >= tidying.packs)
            || loose_objects(&git_dir) >= tidying.loose;
        many.then_some(false)
    }
}

/// The commands that put everything together. What is unreachable stays, in a pack of its own, while it is younger.
fn thorough_steps(grace: Duration, blobless: bool) -> Vec<Vec<String>> {
    let before = format!("{}.seconds.ago", grace.as_secs());
    let before = if grace.is_zero() { "now".to_owned() } else { before };
    let words = |text: &str| text.split(' ').map(|word| word.replace("{before}", &before)).collect();
    let repack = if blobless {
        words("repack -a -d -q")
    } else {
        words("repack --cruft --cruft-expiration={before} -d -q")
    };
    vec![
        words("reflog expire --all --expire={before} --expire-unreachable={before}"),
        repack,
        words("prune --expire={before}"),
    ]
}

/// An estimate from one of the 256 folders, as git makes it.
fn loose_objects(git_dir: &Path) -> usize {
    std::fs::read_dir(git_dir.join("objects/17")).map_or(0, |entries| entries.count() * 256)
}

fn mark_now(path: &Path) -> Result<(), MirrorError> {
    std::fs::write(path, "").map_err(|error| MirrorError::io("write", path, error))
}
