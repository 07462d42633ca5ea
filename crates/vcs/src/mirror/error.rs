//! What can go wrong with a mirror.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Category, CommandError};
use crate::repo::{OpenError, ReadError};

/// A mirror that cannot be used or brought up to date. Clones are cheap: many may wait for one fetch.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MirrorError {
    /// git failed.
    #[error(transparent)]
    Command(Arc<CommandError>),
    /// The remote names no ref at all where it named some before.
    #[error("{place} names no branch and no tag any more, where it had {count}: {}", Category::Emptied.hint())]
    Emptied {
        /// The remote.
        place: String,
        /// How many refs the mirror has.
        count: usize,
    },
    /// The answer is empty and not that of a git server.
    #[error("{place} answers with an empty page: {}", Category::NotARepository.hint())]
    NotARepository {
        /// The remote.
        place: String,
    },
    /// The list of refs cannot be understood.
    #[error(
        "{place} names its refs in an unknown way ({line:?}); repositories with SHA-256 are not supported"
    )]
    Advertisement {
        /// The remote.
        place: String,
        /// The line.
        line: String,
    },
    /// Nothing was fetched yet.
    #[error("{place} was not fetched yet")]
    NotFetched {
        /// The remote.
        place: String,
    },
    /// Another process works on the mirror.
    #[error("another process has worked on the mirror {} for {waited:?}: {}", path.display(), Category::Busy.hint())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The caller does not want it any more.
    #[error("the wait for {place} was cancelled")]
    Cancelled {
        /// The remote.
        place: String,
    },
    /// The process is about to end.
    #[error("the fetch of {place} was interrupted because the process is stopping")]
    Interrupted {
        /// The remote.
        place: String,
    },
    /// The repository cannot be opened.
    #[error(transparent)]
    Open(Arc<OpenError>),
    /// The repository cannot be read.
    #[error(transparent)]
    Read(Arc<ReadError>),
    /// A mirror is broken although it has just been cloned.
    #[error("the mirror of {place} is broken right after it was cloned; is the disk?")]
    StillBroken {
        /// The remote.
        place: String,
    },
    /// A file or folder.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        source: Arc<std::io::Error>,
    },
}

impl MirrorError {
    pub(super) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source: Arc::new(source) }
    }

    /// What kind of error it is.
    pub fn category(&self) -> Category {
        match self {
            Self::Command(error) => error.category(),
            Self::Emptied { .. } => Category::Emptied,
            Self::NotARepository { .. } | Self::Advertisement { .. } => Category::NotARepository,
            Self::NotFetched { .. } => Category::NotFound,
            Self::Busy { .. } => Category::Busy,
            Self::Cancelled { .. } | Self::Interrupted { .. } => Category::Cancelled,
            Self::Open(_) | Self::Read(_) | Self::StillBroken { .. } => Category::Corrupt,
            Self::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Category::DiskFull,
                _ => Category::Program,
            },
        }
    }
}

/// The error of reading a repository that is behind an error, if there is one that a second look could mend.
pub(super) fn damage<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a ReadError> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<ReadError>())
        .filter(|error| !matches!(error, ReadError::Kind { .. } | ReadError::TooLarge { .. }))
}

impl From<CommandError> for MirrorError {
    fn from(error: CommandError) -> Self {
        Self::Command(Arc::new(error))
    }
}

impl From<OpenError> for MirrorError {
    fn from(error: OpenError) -> Self {
        Self::Open(Arc::new(error))
    }
}

impl From<ReadError> for MirrorError {
    fn from(error: ReadError) -> Self {
        Self::Read(Arc::new(error))
    }
}
