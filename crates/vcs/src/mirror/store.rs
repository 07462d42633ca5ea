//! Folders of mirrors: how they begin and end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::MirrorError;
use super::lock::WriteLock;
use super::sweep;
use crate::command::end_orphan;
use crate::remote::Remote;

/// The bare repository in the folder of a mirror.
pub(super) const GIT: &str = "git";
/// A repository that is being made.
pub(super) const FRESH: &str = "git.fresh";
/// A broken one on its way out.
pub(super) const BROKEN: &str = "git.broken";
/// One writer.
pub(super) const LOCK: &str = "lock";
/// There while the repository is being changed: if it is found, somebody was killed meanwhile.
pub(super) const WRITING: &str = "writing";
/// Its age is the time since the last thorough tidying.
pub(super) const TIDIED: &str = "tidied";

/// Makes a folder that only this user can look into.
pub(super) fn create_private(path: &Path) -> Result<(), MirrorError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| MirrorError::io("create", path, error))
}

/// Makes the folder of a mirror ready. Leftovers of a killed process are swept here, before anybody of this process can
/// have begun to write.
pub(super) fn prepare(folder: &Path, remote: &Remote) -> Result<(), MirrorError> {
    create_private(folder)?;
    // For people who look into the work folder.
    let note = folder.join("remote");
    let text = format!("{remote}\nscope: {}\n", remote.scope());
    if fs::read_to_string(&note).is_ok_and(|old| old == text) {
        // As it was.
    } else {
        fs::write(&note, text).map_err(|error| MirrorError::io("write", &note, error))?;
    }
    if let Some(_lock) = lock_after_a_crash(&folder.join(LOCK))? {
        remove_leftovers(folder)?;
        sweep::sweep(&folder.join(GIT), Duration::ZERO)?;
    }
    Ok(())
}

/// The lock, if nobody has it but the child of a process that is dead. That child is ended, which takes an instant.
fn lock_after_a_crash(path: &Path) -> Result<Option<WriteLock>, MirrorError> {
    for _ in 0..20 {
        if let Some(lock) = WriteLock::try_take(path)? {
            return Ok(Some(lock));
        }
        if !end_orphan(path).map_err(|error| MirrorError::io("read", path, error))? {
            // Somebody alive has it, or it has just become free.
            return WriteLock::try_take(path);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

/// Removes repositories that were being made or on their way out. Only under the lock.
pub(super) fn remove_leftovers(folder: &Path) -> Result<(), MirrorError> {
    for name in [FRESH, BROKEN] {
        remove_tree(&folder.join(name))?;
    }
    Ok(())
}

/// Puts the new repository in the place of the old one. Only under the lock.
pub(super) fn swap(folder: &Path) -> Result<(), MirrorError> {
    let (git, fresh, broken) = (folder.join(GIT), folder.join(FRESH), folder.join(BROKEN));
    remove_tree(&broken)?;
    match fs::rename(&git, &broken) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(MirrorError::io("move aside", &git, error));
        }
        _ => {}
    }
    fs::rename(&fresh, &git).map_err(|error| MirrorError::io("put in place", &fresh, error))?;
    remove_tree(&broken)
}

/// The folders of mirrors in a work folder.
pub(super) fn digests(work: &Path) -> Result<Vec<String>, MirrorError> {
    let entries = fs::read_dir(work).map_err(|error| MirrorError::io("list", work, error))?;
    let is_digest = |name: &String| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(is_digest).collect())
}

/// Removes the folder of a mirror. `false` when somebody works on it.
pub(super) fn remove(folder: &Path) -> Result<bool, MirrorError> {
    if !folder.exists() {
        return Ok(true);
    }
    let Some(_lock) = WriteLock::try_take(&folder.join(LOCK))? else { return Ok(false) };
    // The lock goes last: who finds the folder half gone finds no repository in it.
    let entries = fs::read_dir(folder).map_err(|error| MirrorError::io("list", folder, error))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| !path.ends_with(LOCK)) {
        remove_tree(&path)?;
    }
    remove_tree(folder)?;
    Ok(true)
}

/// Removes a file or folder, if it is there.
pub(super) fn remove_tree(path: &Path) -> Result<(), MirrorError> {
    let removed =
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(MirrorError::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// A note that the repository is being changed. It stays when the change does not come to its end.
#[derive(Debug)]
pub(super) struct Writing {
    path: PathBuf,
}

impl Writing {
    pub(super) fn begin(folder: &Path) -> Result<Self, MirrorError> {
        let path = folder.join(WRITING);
        fs::write(&path, "").map_err(|error| MirrorError::io("write", &path, error))?;
        Ok(Self { path })
    }

    pub(super) fn end(self) -> Result<(), MirrorError> {
        remove_tree(&self.path)
    }
}

/// The packs of a repository.
pub(super) fn packs(git_dir: &Path) -> Result<Vec<PathBuf>, MirrorError> {
    let folder = git_dir.join("objects/pack");
    match fs::read_dir(&folder) {
        Ok(entries) => {
            let paths = entries.flatten().map(|entry| entry.path());
            Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(MirrorError::io("list", &folder, error)),
    }
}

/// Whether something was ever fetched into a repository.
pub(super) fn has_packs(git_dir: &Path) -> bool {
    packs(git_dir).is_ok_and(|packs| !packs.is_empty())
}
