//! Folders for data and logs that are removed with us, unless a failed test needs them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::watchdog;

/// A folder that is removed on drop, or by the watchdog when the process ends without dropping it.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    kept: AtomicBool,
}

impl ScratchDir {
    /// Creates a folder below the system's folder for temporary files.
    pub fn new(prefix: &str) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("windlass-{prefix}-"))
            .tempdir()
            .context("cannot create a temporary folder")?;
        watchdog::watch_dir(dir.path())?;
        Ok(Self { path: dir.keep(), kept: AtomicBool::new(false) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder in place for a person to look at.
    pub fn keep(&self) {
        if !self.kept.swap(true, Ordering::Relaxed) {
            // When the watchdog is gone nobody else removes the folder either.
            drop(watchdog::keep_dir(&self.path));
        }
    }

    /// Whether [`ScratchDir::keep`] was called.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if self.is_kept() {
            return;
        }
        // The watchdog tries again at the end when this fails.
        if std::fs::remove_dir_all(&self.path).is_ok() {
            drop(watchdog::keep_dir(&self.path));
        }
    }
}
