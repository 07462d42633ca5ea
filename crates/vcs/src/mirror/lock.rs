//! One writer at a time, also between processes.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::error::MirrorError;
use crate::command::{FileLock, Invocation, end_orphan, record_owner};

const POLL: Duration = Duration::from_millis(20);

/// The right to change a mirror. The kernel takes it back when this process and its children are gone.
#[derive(Debug)]
pub(super) struct WriteLock {
    lock: FileLock,
}

impl WriteLock {
    /// Takes the lock now, or gives `None` when somebody has it.
    pub(super) fn try_take(path: &Path) -> Result<Option<Self>, MirrorError> {
        let fail = |error| MirrorError::io("lock", path, error);
        let Some(lock) = FileLock::try_take(path).map_err(fail)? else { return Ok(None) };
        record_owner(lock.file(), None).map_err(fail)?;
        Ok(Some(Self { lock }))
    }

    /// Waits for the lock; ends the child of a dead process that still holds it.
    pub(super) async fn take(path: &Path, wait: Duration) -> Result<Self, MirrorError> {
        let start = Instant::now();
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if end_orphan(path).map_err(|error| MirrorError::io("read", path, error))? {
                tracing::info!(lock = %path.display(), "ended a git process that outlived the process that started it");
            }
            if start.elapsed() >= wait {
                return Err(MirrorError::Busy { path: path.to_owned(), waited: wait });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Lets a child hold the lock too, so that it lasts as long as the child even if this process is killed.
    pub(super) fn held_by(&self, invocation: Invocation) -> Invocation {
        match self.lock.file().try_clone() {
            Ok(file) => invocation.holding(file),
            Err(error) => {
                // Out of file descriptors, most likely: then the child will not start either.
                tracing::warn!(%error, "a git process runs without holding its lock");
                invocation
            }
        }
    }
}
