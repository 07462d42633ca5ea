//! Folders for what must not stay: keys and certificates while a child reads them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;

const HOME: &str = "home";
const LOCK: &str = "lock";

/// A lock on a file that the kernel releases when the last process that holds the file open is gone, however it went.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock, or gives `None` when somebody has it.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The locked file. Whoever holds a duplicate of it holds the lock.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// The folder above all scratch folders.
#[derive(Debug)]
pub(super) struct ScratchRoot {
    path: PathBuf,
    home: PathBuf,
}

impl ScratchRoot {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        create(path, true)?;
        let path = path.canonicalize()?;
        let home = path.join(HOME);
        create(&home, true)?;
        sweep(&path)?;
        Ok(Self { path, home })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty folder, for programs that want a home.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// A new folder that only this user can look into.
    pub(super) fn folder(&self) -> io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = self.path.join(format!("{}-{count}", std::process::id()));
            match create(&path, false) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match FileLock::try_take(&path.join(LOCK)) {
                Ok(Some(lock)) if path.join(LOCK).exists() => return Ok(Scratch { path, _lock: lock }),
                // Somebody who sweeps had the lock first: the folder is gone or about to go.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // No file can be opened, or the disk is full: another folder would fare no better.
                Err(error) => {
                    drop(remove(&path));
                    return Err(error);
                }
            }
        }
    }
}

fn create(path: &Path, may_exist: bool) -> io::Result<()> {
    DirBuilder::new().recursive(may_exist).mode(0o700).create(path)
}

/// Removes the folders of processes that are gone: their locks are free.
fn sweep(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == HOME) || !path.is_dir() {
            continue;
        }
        match FileLock::try_take(&path.join(LOCK)) {
            Ok(Some(_lock)) => remove(&path)?,
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A folder that is removed with this value, or by the next [`ScratchRoot::open`] after a crash.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    _lock: FileLock,
}

impl Scratch {
    /// Writes a file that only this user can read.
    pub(super) fn file(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a scratch folder; the next start tries again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn scratch_files_are_private_and_go_with_their_owner() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = ScratchRoot::open(dir.path()).expect("opens");
        let scratch = root.folder().expect("a folder");
        let file = scratch.file("key", "planted").expect("writes");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&scratch.path)), (0o600, 0o700));
        // One that is in use is not swept, one that is not is.
        let left = dir.path().join("999-0");
        fs::create_dir(&left).expect("creates");
        fs::write(left.join("key"), "planted").expect("writes");
        ScratchRoot::open(dir.path()).expect("opens again");
        assert!(file.exists() && !left.exists());
        drop(scratch);
        assert!(!file.exists());
    }
}
