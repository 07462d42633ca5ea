//! Pushes that did not succeed.

use super::link::LinkError;
use crate::{command::Category, id::CommitId, write::WriteError};

/// A push that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The name cannot be that of a branch.
    #[error("{branch:?} cannot be the name of a branch")]
    BadBranch {
        /// The name.
        branch: String,
    },
    /// The remote does not have the branch, and it was not to be created.
    #[error("the remote has no branch {branch}; create it, or let it be created")]
    NoBranch {
        /// The branch.
        branch: String,
    },
    /// The caller could not say what to write.
    #[error("cannot plan what to write to {branch}")]
    Plan {
        /// The branch.
        branch: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The commits cannot be written.
    #[error("cannot write the commits for {branch}")]
    Write {
        /// The branch.
        branch: String,
        /// Why.
        source: WriteError,
    },
    /// The history that was fetched cannot be read.
    #[error("cannot read the history of {branch}; the mirror may be damaged")]
    History {
        /// The branch.
        branch: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The branch is protected against pushes.
    #[error(
        "the branch {branch} is protected ({reason}): {told}; let these credentials push to it, or push to another branch"
    )]
    Protected {
        /// The branch.
        branch: String,
        /// What the remote says in short.
        reason: String,
        /// What the remote says at length.
        told: String,
    },
    /// A hook or a rule of the remote does not want the commits.
    #[error("the remote refused the push to {branch} ({reason}): {told}")]
    Rejected {
        /// The branch.
        branch: String,
        /// What the remote says in short.
        reason: String,
        /// What the remote says at length.
        told: String,
    },
    /// Others were faster every time.
    #[error("others moved {branch} before each of {attempts} pushes ({reason}); it is tried again later")]
    Exhausted {
        /// The branch.
        branch: String,
        /// How often it was tried.
        attempts: u32,
        /// What the remote said last.
        reason: String,
    },
    /// It is not known whether the commit has arrived. Whoever plans again on the next tip will see.
    #[error("no answer to the push of {commit} to {branch} ({reason}); it may have arrived")]
    Uncertain {
        /// The branch.
        branch: String,
        /// The commit.
        commit: CommitId,
        /// What is known.
        reason: String,
    },
    /// The remote cannot be reached, or does not let us in.
    #[error("cannot reach the remote for {branch}")]
    Remote {
        /// The branch.
        branch: String,
        /// Why.
        source: LinkError,
    },
    /// It was asked to stop. What was on its way may have arrived: whoever plans again on the next tip will see.
    #[error("the push to {branch} was cancelled")]
    Cancelled {
        /// The branch.
        branch: String,
    },
}

impl PushError {
    /// A word for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::BadBranch { .. } => "InvalidBranch",
            Self::NoBranch { .. } => "NoBranch",
            Self::Plan { .. } => "Plan",
            Self::Write { source, .. } => source.category(),
            Self::History { .. } => Category::Corrupt.as_str(),
            Self::Protected { .. } => "Protected",
            Self::Rejected { .. } => "Rejected",
            Self::Exhausted { .. } => "Contended",
            Self::Uncertain { .. } => "Uncertain",
            Self::Remote { source, .. } => source.category().as_str(),
            Self::Cancelled { .. } => Category::Cancelled.as_str(),
        }
    }
}
