//! What can go wrong with the repositories of a work dir.

use crate::{journal::JournalError, jujutsu::ConflictError, mirror::MirrorError, revision::ResolveError};

/// Something that cannot be done with a repository.
#[derive(Debug, thiserror::Error)]
pub enum RepositoriesError {
    /// The mirror cannot be used or brought up to date.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The revision stands for no commit.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The commit carries conflicts, or cannot be looked at.
    #[error(transparent)]
    Conflict(#[from] ConflictError),
    /// The process is about to end.
    #[error("the work on a repository was interrupted because the process is stopping")]
    Interrupted,
}

impl RepositoriesError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Mirror(error) => error.category().as_str(),
            Self::Journal(error) => error.category(),
            Self::Resolve(error) => error.category(),
            Self::Conflict(error) => error.category(),
            Self::Interrupted => crate::command::Category::Cancelled.as_str(),
        }
    }
}
