//! The way to the remote: one branch fetched, one commit sent.

use std::{future::Future, path::Path, time::Duration};

use tokio_util::sync::CancellationToken;

use super::porcelain;
pub use super::porcelain::Answer;
use crate::{
    command::{Category, CommandError, Failure, Git, Limits, ORIGIN},
    id::CommitId,
    mirror::MirrorError,
    remote::Remote,
    repo::Repo,
};

/// What `git fetch` says about a branch that the remote does not have.
const NO_SUCH_REF: &str = "couldn't find remote ref";

/// A lock on a copy of a branch is held for an instant. One that is older belongs to a git that was killed, and would
/// stop every fetch for good.
const STALE: Duration = Duration::from_secs(10);

/// What a remote said to a push, with the words of its hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What became of it.
    pub answer: Answer,
    /// What git and the remote said besides: redacted, printable, not long.
    pub told: String,
}

/// The way to a remote for [`push`](super::push).
///
/// [`GitLink`] goes there by the `git` program, [`MirrorLink`](super::MirrorLink) shares the fetches of a mirror.
pub trait Link {
    /// Fetches a branch (`refs/heads/…`) and says where it is; `None` when the remote does not have it.
    fn fetch(
        &self,
        name: &str,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<Option<CommitId>, LinkError>> + Send;

    /// Asks the remote to move a branch (`refs/heads/…`) forward to a commit, or to create it there. Never by force.
    fn send(
        &self,
        name: &str,
        commit: CommitId,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send;
}

/// The remote could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// git failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The mirror could not be brought up to date.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// What was fetched cannot be read.
    #[error("cannot read {name} after the fetch; the mirror may be damaged")]
    Read {
        /// The ref.
        name: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl LinkError {
    /// What kind of error it is.
    pub fn category(&self) -> Category {
        match self {
            Self::Command(error) => error.category(),
            Self::Mirror(error) => error.category(),
            Self::Read { .. } => Category::Corrupt,
        }
    }
}

/// Fetches and pushes with the `git` program, into and out of a bare repository.
#[derive(Debug, Clone)]
pub struct GitLink {
    git: Git,
    remote: Remote,
    repo: Repo,
    limits: Limits,
}

impl GitLink {
    /// The way from a bare repository to a remote.
    pub fn new(git: Git, remote: Remote, repo: Repo) -> Self {
        Self { git, remote, repo, limits: Limits::default() }
    }

    /// Sets the limits of each run of git.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    fn tracking(name: &str) -> String {
        format!("refs/remotes/{ORIGIN}/{}", name.strip_prefix("refs/heads/").unwrap_or(name))
    }

    async fn read(&self, name: String) -> Result<Option<CommitId>, LinkError> {
        let repo = self.repo.clone();
        let read = tokio::task::spawn_blocking(move || (tip(&repo, &name), name)).await;
        match read {
            Ok((Ok(tip), _)) => Ok(tip),
            Ok((Err(source), name)) => Err(LinkError::Read { name, source }),
            Err(source) => Err(LinkError::Read { name: "the branch".to_owned(), source: source.into() }),
        }
    }
}

/// Makes way for the next try.
fn remove_stale_lock(path: &Path) {
    let Ok(data) = path.metadata() else { return };
    let age = data.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    if age >= STALE {
        let removed = std::fs::remove_file(path);
        tracing::info!(lock = %path.display(), is_gone = removed.is_ok(), "a git that was killed left a lock behind");
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn tip(repo: &Repo, name: &str) -> Result<Option<CommitId>, AnyError> {
    match repo.local().try_find_reference(name)? {
        Some(mut reference) => Ok(Some(CommitId(reference.peel_to_id()?.detach()))),
        None => Ok(None),
    }
}

impl Link for GitLink {
    async fn fetch(&self, name: &str, cancel: &CancellationToken) -> Result<Option<CommitId>, LinkError> {
        let tracking = Self::tracking(name);
        let fetch = self
            .git
            .remote(self.repo.path(), &self.remote)?
            .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", ORIGIN])
            // What the remote has is the truth, so the copy follows it wherever it goes.
            .arg(format!("+{name}:{tracking}"))
            .limits(self.limits.clone());
        match fetch.run(cancel).await {
            Ok(_) => self.read(tracking).await,
            Err(CommandError::Failed(failure)) if failure.message.contains(NO_SUCH_REF) => Ok(None),
            Err(error) => {
                if error.category() == Category::Busy {
                    remove_stale_lock(&self.repo.path().join(format!("{tracking}.lock")));
                }
                Err(error.into())
            }
        }
    }

    async fn send(
        &self,
        name: &str,
        commit: CommitId,
        cancel: &CancellationToken,
    ) -> Result<Reply, LinkError> {
        let push = self
            .git
            .remote(self.repo.path(), &self.remote)?
            // Progress is a sign of life while a large pack goes out.
            .args(["push", "--porcelain", "--progress", "--no-follow-tags", "--no-signed"])
            // By its address, git does not move its copy of the branch, which may be further by now.
            .arg(self.remote.url().to_string())
            .arg(format!("{commit}:{name}"))
            .limits(self.limits.clone());
        match push.run(cancel).await {
            Ok(output) => {
                let answer = porcelain::parse(&String::from_utf8_lossy(&output.stdout), name, &output.notes);
                let silent =
                    || Answer::Unknown { reason: "git did not say what became of the push".to_owned() };
                Ok(Reply { answer: answer.unwrap_or_else(silent), told: output.notes })
            }
            Err(CommandError::Failed(failure)) => self.rejected(name, failure),
            Err(error) => Err(error.into()),
        }
    }
}

impl GitLink {
    /// A push that git calls failed: with an answer of the remote, or for want of one.
    fn rejected(&self, name: &str, failure: Box<Failure>) -> Result<Reply, LinkError> {
        let stdout = self.remote.redact(&String::from_utf8_lossy(&failure.stdout));
        match porcelain::parse(&stdout, name, &failure.message) {
            Some(answer) => Ok(Reply { answer, told: failure.message }),
            None => Err(CommandError::Failed(failure).into()),
        }
    }
}
