//! Leftovers of git processes that were killed.
//!
//! git names what it has not finished: `tmp_*` and `.tmp-*` in the object folders, `*.lock` beside what it replaces, `*.keep`
//! beside a pack whose refs are still to come. When nobody writes, all of that is rubbish, and the locks would stop everybody
//! for good.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::MirrorError;

/// Files younger than this may belong to somebody in this process who writes without the lock of the mirror, for an instant.
pub(super) const MAY_BE_ALIVE: Duration = Duration::from_secs(2);

/// Removes leftovers that are at least this old; returns how many younger ones are there. Only under the lock of the mirror.
pub(super) fn sweep(git: &Path, age: Duration) -> Result<usize, MirrorError> {
    let mut sweeper = Sweeper { age, younger: 0 };
    if !git.exists() {
        return Ok(0);
    }
    sweeper.folder(git, 0, &|name| is(name, "lock") || name == "gc.pid")?;
    sweeper.folder(&git.join("refs"), 16, &|name| is(name, "lock"))?;
    sweeper.folder(&git.join("logs"), 16, &|name| is(name, "lock"))?;
    // Loose objects and those of a push that is being received; gix names its own `.tmp…`.
    let is_rubbish = |name: &str| {
        name.starts_with("tmp_")
            || name.starts_with(".tmp")
            || name.starts_with("incoming-")
            || is(name, "lock")
    };
    sweeper.folder(&git.join("objects"), 1, &is_rubbish)?;
    sweeper.folder(&git.join("objects/pack"), 0, &|name| is(name, "keep"))?;
    sweeper.half_packs(&git.join("objects/pack"))?;
    Ok(sweeper.younger)
}

/// Removes packs that were arriving when a fetch failed: git leaves them for its next garbage collection. Only git writes
/// there, and only under the lock of the mirror.
pub(super) fn half_arrived_packs(git: &Path) -> Result<(), MirrorError> {
    let mut sweeper = Sweeper { age: Duration::ZERO, younger: 0 };
    sweeper.folder(&git.join("objects/pack"), 0, &|name| name.starts_with("tmp_"))
}

fn is(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

struct Sweeper {
    age: Duration,
    younger: usize,
}

impl Sweeper {
    fn folder(
        &mut self,
        folder: &Path,
        depth: usize,
        is_rubbish: &dyn Fn(&str) -> bool,
    ) -> Result<(), MirrorError> {
        for entry in entries(folder)? {
            let name = entry.file_name();
            if is_rubbish(&name.to_string_lossy()) {
                self.remove(&entry)?;
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.folder(&entry.path(), depth - 1, is_rubbish)?;
            }
        }
        Ok(())
    }

    /// A pack without index and an index without pack: the other half was still to come, or already gone.
    fn half_packs(&mut self, folder: &Path) -> Result<(), MirrorError> {
        for entry in entries(folder)? {
            let path = entry.path();
            let other = match path.extension().and_then(|extension| extension.to_str()) {
                Some("pack") => "idx",
                Some("idx" | "rev" | "mtimes" | "promisor" | "bitmap") => "pack",
                _ => continue,
            };
            if !path.with_extension(other).exists() {
                self.remove(&entry)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, entry: &DirEntry) -> Result<(), MirrorError> {
        // What is gone by now was no leftover.
        let Ok(data) = entry.metadata() else { return Ok(()) };
        let age = data.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        if age < self.age {
            self.younger += 1;
            return Ok(());
        }
        super::store::remove_tree(&entry.path())
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, MirrorError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(MirrorError::io("list", folder, error)),
    }
}
