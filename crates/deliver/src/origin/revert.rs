//! A revision that failed is taken back in its repository.
//!
//! Safe to repeat: before anything is pushed, the branch is looked through for a commit that names the revision in its
//! trailer; and the same order makes the same commit, so that two who are at it at once push the same.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_api::application::{Source, status::Revert, sync::GitRollbackMode};
use windlass_cluster::drive::Key;
use windlass_vcs::{
    id::CommitId,
    journal::Pusher,
    push::{self, Missing, Options, Outcome, PushError},
    remote::Remote,
    repo::{ReadError, Repo},
    tree::RepoPath,
    write::{self, CommitSpec, Message, Person, RevertError},
};

use super::{
    repos::{Inner, Render},
    words,
};
use crate::trouble::Trouble;

/// Trailer of a revert commit: the commit that it takes back.
pub const REVERTS: &str = "Windlass-Reverts";

/// Trailer of a revert commit: who it was made for.
const APPLICATION: &str = "Windlass-Application";

/// How long a push is tried in one go.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be taken back, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RevertOrder {
    /// The Application.
    pub app: Key,
    /// Its source.
    pub source: Source,
    /// Folders that are put back, from the root of the repository.
    pub folders: Vec<String>,
    /// The revision that runs well: what the folders are put back to.
    pub good: String,
    /// The revision that failed.
    pub bad: String,
    /// Onto the branch that is followed, or onto a branch of its own.
    pub mode: GitRollbackMode,
    /// The branch that gets the commit.
    pub branch: String,
    /// Name and mail address of the author.
    pub author: (String, String),
    /// Time of the commit: since when the revision is quarantined.
    pub at: Timestamp,
    /// What failed.
    pub object: String,
    /// Where.
    pub cluster: String,
    /// Why.
    pub reason: String,
}

impl RevertOrder {
    fn message(&self) -> Message {
        let short = self.bad.get(..10).unwrap_or(&self.bad);
        let good = self.good.get(..10).unwrap_or(&self.good);
        let body = format!(
            "{} failed on cluster {}:\n{}\n\nThis puts back what {} runs from to what it was at {good}, \
             the last revision that succeeded.",
            self.object, self.cluster, self.reason, self.app
        );
        Message::new(format!("Revert {short} of {}", self.app.name))
            .body(body)
            .trailer(REVERTS, &self.bad)
            .trailer(APPLICATION, self.app.to_string())
    }
}

/// Why there is nothing to push.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    #[error(transparent)]
    Revert(#[from] RevertError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the work was interrupted")]
    Interrupted,
}

/// What is to be done on a tip.
enum Next {
    There(CommitId),
    Push(Box<CommitSpec>),
    Nothing,
}

impl<R: Render> Inner<R> {
    /// See [`super::Origin::revert`].
    pub(super) async fn revert(&self, order: &RevertOrder) -> Result<Revert, Trouble> {
        let remote = self.remote(&order.app, &order.source).await?;
        let commit = |text: &str| text.parse::<CommitId>().map_err(|_| words::commit_gone(text, &remote));
        let (good, bad) = (commit(&order.good)?, commit(&order.bad)?);
        let folders = folders(order)?;
        let cancel = CancellationToken::new();
        let link = self.repositories.link(&remote).await.map_err(|error| words::resolve(&error, &remote))?;
        let unread = |error: &dyn std::fmt::Display| words::unreadable(&error.to_string(), &remote);
        let repo = link.repo(&cancel).await.map_err(|error| unread(&error))?;
        let missing = match order.mode {
            GitRollbackMode::Branch => Missing::From(bad),
            GitRollbackMode::Commit | GitRollbackMode::Never => Missing::Refuse,
        };
        let options = Options { missing, attempts: 5, patience: PATIENCE, ..Options::default() };
        // Remembered outside: a push without commits does not say why.
        let there = Mutex::new(None);
        let pushed = push::push(&link, &repo, &order.branch, &options, &cancel, |tip| {
            let next = plan(&repo, order, good, bad, tip, folders.clone());
            let there = &there;
            async move {
                Ok::<_, PlanError>(match next.await? {
                    Next::There(commit) => {
                        *there.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit);
                        None
                    }
                    Next::Push(spec) => Some(vec![*spec]),
                    Next::Nothing => None,
                })
            }
        })
        .await
        .map_err(|error| refused(&error, order, &remote))?;
        let made = match &pushed {
            Outcome::Pushed { commits, .. } => commits.last().copied(),
            Outcome::UpToDate { tip } => Some(*tip),
            Outcome::NothingToDo { .. } => None,
        };
        if let Some(made) = made {
            let who = Pusher { name: "windlass".to_owned(), via: "revert".to_owned() };
            self.repositories.pushed_by(&remote, made, who);
            tracing::info!(app = %order.app, revision = %order.bad, commit = %made, branch = %order.branch, "reverted");
        }
        self.tell(order);
        match made.or(there.into_inner().unwrap_or_else(PoisonError::into_inner)) {
            Some(commit) => Ok(Revert { commit: commit.to_string(), branch: order.branch.clone() }),
            None => Err(nothing(order)),
        }
    }

    /// What was pushed is fetched at once: nobody else may tell of it.
    fn tell(&self, order: &RevertOrder) {
        let feed = self.feeds().by_app.get(&order.app).cloned();
        if let Some(feed) = feed {
            feed.poke();
        }
    }
}

/// The folders that are put back.
fn folders(order: &RevertOrder) -> Result<Vec<RepoPath>, Trouble> {
    order
        .folders
        .iter()
        .map(|folder| {
            RepoPath::parse(folder).map_err(|error| {
                Trouble::standing("RevertImpossible", error.to_string(), "correct spec.source.path")
            })
        })
        .collect()
}

/// What is to be done on the tip of the branch.
async fn plan(
    repo: &Arc<Repo>,
    order: &RevertOrder,
    good: CommitId,
    bad: CommitId,
    tip: Option<CommitId>,
    folders: Vec<RepoPath>,
) -> Result<Next, PlanError> {
    let Some(tip) = tip else { return Ok(Next::Nothing) };
    let (repo, value, app) = (repo.clone(), order.bad.clone(), order.app.to_string());
    let found = tokio::task::spawn_blocking(move || {
        let trailers = [(REVERTS, value.as_str()), (APPLICATION, app.as_str())];
        if let Some(there) = write::with_trailers(&repo, tip, bad, &trailers)? {
            return Ok((Some(there), None));
        }
        Ok::<_, PlanError>((None, Some(write::revert(&repo, good, bad, tip, &folders)?)))
    });
    Ok(match found.await.map_err(|_| PlanError::Interrupted)?? {
        (Some(there), _) => Next::There(there),
        (None, Some(edits)) if !edits.is_empty() => {
            let author = Person::new(&order.author.0, &order.author.1, order.at);
            Next::Push(Box::new(CommitSpec {
                edits,
                author: author.clone(),
                committer: author,
                message: order.message(),
                signer: None,
                change_id: None,
            }))
        }
        (None, _) => Next::Nothing,
    })
}

/// The range changed nothing in the folders, or somebody took it back by hand.
fn nothing(order: &RevertOrder) -> Trouble {
    let what = format!(
        "nothing within the folders of the Application changed from {} to {}, or it is taken back already",
        order.good, order.bad
    );
    Trouble::standing("NothingToRevert", what, "push a commit that mends it")
}

/// Why it was not pushed, in words for a condition.
fn refused(error: &PushError, order: &RevertOrder, remote: &Remote) -> Trouble {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let text = remote.redact(&text);
    let by_hand = "or revert it by hand";
    match error {
        PushError::Plan { source, .. }
            if matches!(source.downcast_ref(), Some(PlanError::Revert(RevertError::Changed { .. }))) =>
        {
            Trouble::standing(
                "RevertConflicts",
                text,
                "somebody changed the same files since: push a commit that mends them",
            )
        }
        PushError::Protected { .. } | PushError::Rejected { .. } => Trouble::standing(
            "RevertRefused",
            text,
            format!(
                "let the credentials in spec.source.secretRef push to {}, set spec.sync.gitRollback.mode to Branch, {by_hand}",
                order.branch
            ),
        ),
        PushError::NoBranch { .. } | PushError::BadBranch { .. } => Trouble::standing(
            "RevertImpossible",
            text,
            format!(
                "follow a branch in spec.source.revision, set spec.sync.gitRollback.mode to Branch, {by_hand}"
            ),
        ),
        PushError::Remote { source, .. } => Trouble::passing(
            "RevertRefused",
            text,
            format!(
                "{}; the credentials in spec.source.secretRef have to be allowed to push",
                source.category().hint()
            ),
        ),
        _ => Trouble::passing("RevertFailed", text, "it is tried again"),
    }
}
