//! Why a revision stands for no commit.

use std::fmt;

use serde::Serialize;

use crate::{
    id::{ChangeId, CommitId},
    jujutsu::EngineError,
    repo::ReadError,
};

/// A text that can be no revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no revision: {why}; a branch, a tag, a commit or a Jujutsu change id is needed")]
pub struct InvalidRevision {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// One of several things a text may mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Candidate {
    /// A commit.
    Commit(CommitId),
    /// A change.
    Change(ChangeId),
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(commit) => write!(f, "{commit}"),
            Self::Change(change) => write!(f, "{change}"),
        }
    }
}

/// Why a revision stands for no commit.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Nothing has this name.
    #[error("revision {revision} is not in the repository: {hint}{}", did_you_mean(near))]
    Unknown {
        /// What was asked for.
        revision: String,
        /// What it was looked for as, and what may help.
        hint: String,
        /// Names that are close to it.
        near: Vec<String>,
    },
    /// Several things begin with it.
    #[error("revision {revision} is ambiguous: it may be {}; write more of it", join(candidates, " or "))]
    Ambiguous {
        /// What was asked for.
        revision: String,
        /// What it may be.
        candidates: Vec<Candidate>,
    },
    /// Several commits are this change.
    #[error(
        "change {change} is divergent: {} are all it; abandon all but one with `jj abandon` and push, or name a commit",
        join(commits, " and ")
    )]
    Divergent {
        /// The change.
        change: ChangeId,
        /// The commits, in the order of their names.
        commits: Vec<CommitId>,
    },
    /// No commit is this change any more.
    #[error("change {change} is no longer in the repository: no branch and no tag leads to it since commit {last}{}", successor_hint(successor.as_ref()))]
    Abandoned {
        /// The change.
        change: ChangeId,
        /// The commit that it was last.
        last: CommitId,
        /// A commit with the same author, time and subject and no change id: what a rebase with plain `git` leaves.
        successor: Option<CommitId>,
    },
    /// It leads to something that is no commit.
    #[error("{revision} is a {kind}, not a commit: point it at a commit")]
    NotACommit {
        /// What was asked for.
        revision: String,
        /// What it is.
        kind: String,
    },
    /// The commit is still in the mirror, but no branch and no tag leads to it: the next tidying may remove it, and
    /// another mirror may not have it.
    #[error(
        "commit {commit} is hidden: no branch and no tag leads to it any more; push a branch or a tag that does"
    )]
    Hidden {
        /// The commit.
        commit: CommitId,
    },
    /// The repository cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The Jujutsu store cannot be asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ResolveError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "Unknown",
            Self::Ambiguous { .. } => "Ambiguous",
            Self::Divergent { .. } => "Divergent",
            Self::Abandoned { .. } => "Abandoned",
            Self::NotACommit { .. } => "NotACommit",
            Self::Hidden { .. } => "Hidden",
            Self::Read(error) => error.category(),
            Self::Engine(error) => error.category(),
        }
    }
}

fn join<T: fmt::Display>(items: &[T], word: &str) -> String {
    if items.is_empty() {
        return "several things".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(word)
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

fn successor_hint(successor: Option<&CommitId>) -> String {
    match successor {
        Some(commit) => format!(
            "; commit {commit} looks like it, without the change id: a rebase with plain `git` loses it; name that commit or its branch, or rebase with `jj`"
        ),
        None => "; push it again, or name another revision".to_owned(),
    }
}
