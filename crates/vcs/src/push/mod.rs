//! Edits reach a branch of a remote: fast-forward only, planned again when somebody else was faster.
//!
//! ```text
//!        ┌────────────────────────── moved on, or no answer: wait a little ◄─────────┐
//!        ▼                                                                           │
//!  fetch the tip ──► contains our commit? ──► plan(tip) ──► write ──► git push ──► answer
//!                        │ yes                  │ None                               │ accepted
//!                        ▼                      ▼                                    ▼
//!                      Pushed               NothingToDo                            Pushed
//! ```
//!
//! # Guarantees
//! - Nothing is forced: the only thing ever asked of the remote is to move a branch to a descendant of where it is, or
//!   to create it.
//! - The caller plans on the very commit that the new ones are put on, so what others pushed meanwhile is not undone
//!   unless the plan says so.
//! - A push whose answer was lost is looked for on the remote before anything is pushed again: it is never doubled.
//! - Killed anywhere, it leaves the remote as it was or with the whole push. Plan and push again: edits that have
//!   arrived change nothing.

mod error;
mod link;
mod mirror;
mod options;
mod porcelain;

use std::future::Future;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use error::PushError;
pub use link::{Answer, GitLink, Link, LinkError, Reply};
pub use mirror::MirrorLink;
pub use options::{Missing, Options};

use crate::{
    command::Category,
    id::CommitId,
    repo::{Repo, descends},
    write::{CommitSpec, write},
};
use options::Waits;

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The commits are on the branch.
    Pushed {
        /// Where the branch was; `None` when it is new.
        from: Option<CommitId>,
        /// The new commits, oldest first.
        commits: Vec<CommitId>,
    },
    /// The branch had the very same commits already: an earlier push had arrived.
    UpToDate {
        /// Where the branch is.
        tip: CommitId,
    },
    /// The plan changes nothing.
    NothingToDo {
        /// Where the branch is; `None` when there is none.
        tip: Option<CommitId>,
    },
}

/// Pushes what the caller plans for the tip of a branch.
///
/// `plan` is called with the tip as it is at the remote (the base of a new branch, `None` for an orphan), and again
/// whenever the branch has moved. It gives the commits to make, or `None` when there is nothing to do.
pub async fn push<L, P, F, E>(
    link: &L,
    repo: &Repo,
    branch: &str,
    options: &Options,
    cancel: &CancellationToken,
    mut plan: P,
) -> Result<Outcome, PushError>
where
    L: Link,
    P: FnMut(Option<CommitId>) -> F,
    F: Future<Output = Result<Option<Vec<CommitSpec>>, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let name = format!("refs/heads/{branch}");
    if branch.starts_with('-') || gix::validate::reference::name(name.as_str().into()).is_err() {
        return Err(PushError::BadBranch { branch: branch.to_owned() });
    }
    let mut push = Push {
        link,
        repo,
        branch,
        name,
        options,
        cancel,
        waits: Waits::new(options),
        begin: Instant::now(),
        failed: 0,
        pending: None,
    };
    loop {
        let Some(at) = push.fetch().await? else { continue };
        if let Some(outcome) = push.arrived(at).await? {
            return Ok(outcome);
        }
        let base = push.base(at)?;
        if push.pending.as_ref().is_none_or(|pending| pending.at != at) {
            let planned = plan(base).await;
            let specs = planned.map_err(|source| push.plan_error(source.into()))?;
            let commits = push.write(base, specs.unwrap_or_default()).await?;
            let Some(&last) = commits.last() else { return Ok(Outcome::NothingToDo { tip: at }) };
            push.pending = Some(Pending { at, last, commits, uncertain: false });
        }
        if let Some(outcome) = push.send().await? {
            return Ok(outcome);
        }
    }
}

/// Commits that are written and not yet known to be at the remote.
struct Pending {
    /// Where the branch was when they were planned.
    at: Option<CommitId>,
    last: CommitId,
    commits: Vec<CommitId>,
    /// Whether they were sent and no answer came.
    uncertain: bool,
}

/// A push on its way.
struct Push<'a, L> {
    link: &'a L,
    repo: &'a Repo,
    branch: &'a str,
    name: String,
    options: &'a Options,
    cancel: &'a CancellationToken,
    waits: Waits,
    begin: Instant,
    /// Fetches and pushes that did not succeed.
    failed: u32,
    pending: Option<Pending>,
}

impl<L: Link> Push<'_, L> {
    /// Where the branch is. `None` at the outside means that it is worth another try.
    async fn fetch(&mut self) -> Result<Option<Option<CommitId>>, PushError> {
        match self.link.fetch(&self.name, self.cancel).await {
            Ok(tip) => Ok(Some(tip)),
            Err(error) if is_transient(&error) => {
                if !self.may_try_again() {
                    return Err(self.give_up(error));
                }
                self.wait().await?;
                Ok(None)
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Whether commits that were sent without an answer are there.
    async fn arrived(&self, tip: Option<CommitId>) -> Result<Option<Outcome>, PushError> {
        let (Some(pending), Some(tip)) = (&self.pending, tip) else { return Ok(None) };
        if !pending.uncertain || !self.contains(tip, pending.last).await? {
            return Ok(None);
        }
        Ok(Some(Outcome::Pushed { from: pending.at, commits: pending.commits.clone() }))
    }

    /// What the commits are put on.
    fn base(&self, tip: Option<CommitId>) -> Result<Option<CommitId>, PushError> {
        match (tip, self.options.missing) {
            (Some(tip), _) | (None, Missing::From(tip)) => Ok(Some(tip)),
            (None, Missing::Orphan) => Ok(None),
            (None, Missing::Refuse) => Err(PushError::NoBranch { branch: self.branch.to_owned() }),
        }
    }

    async fn write(
        &self,
        base: Option<CommitId>,
        specs: Vec<CommitSpec>,
    ) -> Result<Vec<CommitId>, PushError> {
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        let repo = self.repo.clone();
        let branch = || self.branch.to_owned();
        let written = tokio::task::spawn_blocking(move || write(&repo, base, &specs)).await;
        match written {
            Ok(Ok(written)) => Ok(written.commits),
            Ok(Err(source)) => Err(PushError::Write { branch: branch(), source }),
            // Only a panic or the end of the runtime comes here.
            Err(source) => Err(PushError::History { branch: branch(), source: source.into() }),
        }
    }

    /// Sends what is pending. `None` means that it is worth another try.
    async fn send(&mut self) -> Result<Option<Outcome>, PushError> {
        let Some(pending) = &mut self.pending else { return Ok(None) };
        let branch = || self.branch.to_owned();
        let reply = match self.link.send(&self.name, pending.last, self.cancel).await {
            Ok(reply) => reply,
            Err(error) if is_transient(&error) => {
                // It may have arrived all the same.
                pending.uncertain = true;
                if !self.may_try_again() {
                    return Err(self.give_up(error));
                }
                self.wait().await?;
                return Ok(None);
            }
            Err(error) => return Err(self.give_up(error)),
        };
        let (from, commits) = (pending.at, pending.commits.clone());
        let reason = match reply.answer {
            Answer::Accepted => return Ok(Some(Outcome::Pushed { from, commits })),
            Answer::Current if pending.uncertain => return Ok(Some(Outcome::Pushed { from, commits })),
            Answer::Current => return Ok(Some(Outcome::UpToDate { tip: pending.last })),
            Answer::Refused { protected: true, reason } => {
                return Err(PushError::Protected { branch: branch(), reason, told: reply.told });
            }
            Answer::Refused { protected: false, reason } => {
                return Err(PushError::Rejected { branch: branch(), reason, told: reply.told });
            }
            Answer::Behind { reason } => reason,
            Answer::Unknown { reason } => {
                pending.uncertain = true;
                reason
            }
        };
        if !self.may_try_again() {
            return Err(self.exhausted(reason));
        }
        self.wait().await?;
        Ok(None)
    }

    /// Whether a commit is the tip or one of its ancestors.
    async fn contains(&self, tip: CommitId, commit: CommitId) -> Result<bool, PushError> {
        let repo = self.repo.clone();
        let found = tokio::task::spawn_blocking(move || descends(&repo.local(), tip, commit)).await;
        let found = found.map_err(Into::into).and_then(|found| found.map_err(Into::into));
        found.map_err(|source| PushError::History { branch: self.branch.to_owned(), source })
    }

    /// Counts a failure and says whether there may be another.
    fn may_try_again(&mut self) -> bool {
        self.failed += 1;
        self.failed < self.options.attempts && self.begin.elapsed() < self.options.patience
    }

    async fn wait(&mut self) -> Result<(), PushError> {
        let wait = self.waits.next();
        tokio::select! {
            () = self.cancel.cancelled() => Err(PushError::Cancelled { branch: self.branch.to_owned() }),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    fn plan_error(&self, source: Box<dyn std::error::Error + Send + Sync>) -> PushError {
        PushError::Plan { branch: self.branch.to_owned(), source }
    }

    fn exhausted(&self, reason: String) -> PushError {
        let branch = self.branch.to_owned();
        match &self.pending {
            Some(pending) if pending.uncertain => {
                PushError::Uncertain { branch, commit: pending.last, reason }
            }
            _ => PushError::Exhausted { branch, attempts: self.failed, reason },
        }
    }

    /// The error of a remote that cannot be talked to, honest about a push that may have arrived.
    fn give_up(&self, source: LinkError) -> PushError {
        let branch = self.branch.to_owned();
        match &self.pending {
            Some(pending) if pending.uncertain => {
                PushError::Uncertain { branch, commit: pending.last, reason: source.to_string() }
            }
            _ if self.cancel.is_cancelled() => PushError::Cancelled { branch },
            _ => PushError::Remote { branch, source },
        }
    }
}

fn is_transient(error: &LinkError) -> bool {
    let category = error.category();
    // Another fetch of the same branch holds the lock on its copy for a moment.
    category.is_transient() || (category == Category::Other && error.to_string().contains("cannot lock ref"))
}
