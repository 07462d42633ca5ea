//! What `testbed up` leaves for `testbed down` and for a second `testbed up`.
//!
//! The process in the background holds a lock for its whole life. So "is it up" needs no process id, and the id that the
//! state names is right as long as the lock is held.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use windlass_testbed::pki::write_private;
use windlass_testbed::tools;

/// What runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) pid: i32,
    pub(crate) clusters: usize,
    pub(crate) nodes: usize,
    /// Set once everything is ready.
    pub(crate) ready: bool,
    pub(crate) log_dirs: Vec<PathBuf>,
}

/// The folder of the state.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let path = tools::cache_dir()?.join("up");
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    pub(crate) fn write_kubeconfig(&self, text: &str) -> anyhow::Result<()> {
        write_private(&self.0, "kubeconfig", text).map(drop)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("serve.log")
    }

    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// The lock, when nobody else holds it.
    pub(crate) fn lock(&self) -> anyhow::Result<Option<File>> {
        let path = self.0.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    pub(crate) fn is_up(&self) -> anyhow::Result<bool> {
        Ok(self.lock()?.is_none())
    }

    /// The state, when there is one.
    pub(crate) fn read(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.state()).ok()?).ok()
    }

    /// Replaces the state at once, so that a reader never sees half of it.
    pub(crate) fn write(&self, state: &State) -> anyhow::Result<()> {
        let path = self.state();
        let part = path.with_extension("part");
        std::fs::write(&part, serde_json::to_vec_pretty(state)?)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn clear(&self) {
        for path in [self.state(), self.kubeconfig()] {
            remove(&path);
        }
    }
}

fn remove(path: &Path) {
    // Not being there is what is wanted.
    drop(std::fs::remove_file(path));
}
