//! What can go wrong in the engine.

use std::path::PathBuf;

use crate::repo::{OpenError, ReadError};

/// What jj-lib reports, whatever its type.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The engine could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The mirror itself cannot be opened.
    #[error("the mirror beside the Jujutsu store cannot be opened: it must be cloned anew")]
    Mirror(#[source] OpenError),
    /// The mirror's refs or objects cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file or folder of the store cannot be handled.
    #[error("cannot {doing} {}: check the disk's space and permissions", path.display())]
    Disk {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// jj-lib does not take our settings.
    #[error("the settings for the Jujutsu store are not accepted")]
    Settings(#[source] Cause),
    /// The store cannot be created.
    #[error("cannot create the Jujutsu store at {}", path.display())]
    Create {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The store is there and cannot be loaded.
    #[error("cannot load the Jujutsu store at {}", path.display())]
    Load {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The moved refs cannot be imported.
    #[error("cannot import the mirror's refs into the Jujutsu store")]
    Import(#[source] Cause),
    /// A change cannot be looked up.
    #[error("cannot look up change {change} in the Jujutsu store")]
    Change {
        /// The change, or the first letters of it.
        change: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The log of operations cannot be read.
    #[error("cannot read the operation log of the Jujutsu store")]
    Operations(#[source] Cause),
    /// There is no such operation.
    #[error(
        "operation {id} is not in the log: it may have been lost when the store was built again; list the operations to see which are there"
    )]
    NoSuchOperation {
        /// The operation.
        id: String,
    },
    /// jj-lib gave up on something it did not expect.
    #[error("the Jujutsu engine stopped while it tried to {doing}: {message}")]
    Panicked {
        /// What it was doing.
        doing: &'static str,
        /// What it said.
        message: String,
    },
    /// The engine's thread has ended.
    #[error("the Jujutsu engine has ended: open it again")]
    Ended,
}

impl EngineError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Mirror(_) => "Corrupt",
            Self::Read(error) => error.category(),
            Self::Disk { .. } => "Disk",
            Self::Settings(_)
            | Self::Create { .. }
            | Self::Load { .. }
            | Self::Import(_)
            | Self::Change { .. }
            | Self::Operations(_) => "Store",
            Self::NoSuchOperation { .. } => "Unknown",
            Self::Panicked { .. } => "Panicked",
            Self::Ended => "Ended",
        }
    }

    /// The error and its causes in one line, for the reason why a store was built again.
    pub(crate) fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}
