//! A bare repository, opened for reading: cheap to clone and safe to share between threads.

use std::path::{Path, PathBuf};

/// A repository that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the repository at {}", path.display())]
pub struct OpenError {
    /// Where it was looked for.
    pub path: PathBuf,
    /// Why it could not be opened.
    #[source]
    pub source: Box<gix::open::Error>,
}

/// A bare repository. Clones share packs and caches.
#[derive(Clone)]
pub struct Repo {
    inner: gix::ThreadSafeRepository,
}

impl Repo {
    /// Opens the bare repository in a folder. Configuration of the machine and of its users is not read.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        let inner = gix::ThreadSafeRepository::open_opts(path, options)
            .map_err(|source| OpenError { path: path.to_owned(), source: Box::new(source) })?;
        Ok(Self { inner })
    }

    /// The folder of the repository.
    pub fn path(&self) -> &Path {
        self.inner.path()
    }

    /// A handle for one thread, with its own object cache.
    pub(crate) fn local(&self) -> gix::Repository {
        self.inner.to_thread_local()
    }
}
