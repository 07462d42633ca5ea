//! A bare repository, opened for reading: cheap to clone and safe to share between threads.
//!
//! All reads block on the disk: async callers run them on a blocking thread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::{ObjectId, objs::Kind};

use crate::id::{CommitId, TreeId};

/// How many packs may lie beside each other before the repository must be opened anew. A mirror gathers a pack with
/// every large fetch until it is tidied.
const PACK_SLOTS: u16 = 1024;

/// What a handle keeps of decoded objects, in bytes: enough for the trees on the way to a few thousand folders.
const OBJECT_CACHE: usize = 4 << 20;

/// The longest chain of annotated tags that is followed.
const TAG_CHAIN: usize = 16;

/// The largest tree, commit or tag that is read, in bytes: a tree of a million names is half of it. A few megabytes of
/// pack can hold one that fills any memory. Blobs have limits of their own where they are read.
const LARGEST: u64 = 128 << 20;

/// How long is waited before each further look at something that changes at that moment, in milliseconds. A fetch may
/// delete hundreds of refs, one after the other.
const WAITS: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];

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

/// Something that cannot be read from a repository.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The object is not there.
    #[error(
        "object {id} is missing in the repository at {}: it was never fetched, or the mirror is damaged and must be cloned anew",
        path.display()
    )]
    Missing {
        /// The object.
        id: String,
        /// The repository.
        path: PathBuf,
    },
    /// The object is there and cannot be decoded.
    #[error("object {id} in the repository at {} cannot be read: the mirror is damaged and must be cloned anew", path.display())]
    Corrupt {
        /// The object.
        id: String,
        /// The repository.
        path: PathBuf,
        /// What failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The object is of another kind than its place promises.
    #[error("object {id} is a {found} where a {wanted} was expected")]
    Kind {
        /// The object.
        id: String,
        /// What was expected.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// The object is larger than anything of its kind needs to be.
    #[error(
        "object {id} is a {kind} of {size} bytes, and {LARGEST} are the most that is read of one: was it made to do harm?"
    )]
    TooLarge {
        /// The object.
        id: String,
        /// What it is.
        kind: &'static str,
        /// How large it is.
        size: u64,
    },
    /// The refs cannot be listed or read.
    #[error("the refs of the repository at {} cannot be read: the mirror is damaged and must be cloned anew", path.display())]
    Refs {
        /// The repository.
        path: PathBuf,
        /// What failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ReadError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "Missing",
            Self::Corrupt { .. } | Self::Refs { .. } => "Corrupt",
            Self::Kind { .. } => "WrongKind",
            Self::TooLarge { .. } => "TooLarge",
        }
    }

    /// An error while listing or reading refs.
    pub(crate) fn refs(
        repo: &gix::Repository,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Refs { path: repo.path().to_owned(), source: source.into() }
    }

    /// An object that was found and cannot be understood.
    pub(crate) fn corrupt(
        repo: &gix::Repository,
        id: impl std::fmt::Display,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Corrupt { id: id.to_string(), path: repo.path().to_owned(), source: source.into() }
    }
}

/// A bare repository. Clones share packs and caches.
#[derive(Clone)]
pub struct Repo {
    inner: gix::ThreadSafeRepository,
}

impl Repo {
    /// Opens the bare repository in a folder. Configuration of the machine and of its users is not read.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let options = gix::open::Options::isolated()
            .open_path_as_is(true)
            .object_store_slots(gix::odb::store::init::Slots::Given(PACK_SLOTS));
        let inner = gix::ThreadSafeRepository::open_opts(path, options)
            .map_err(|source| OpenError { path: path.to_owned(), source: Box::new(source) })?;
        Ok(Self { inner })
    }

    /// The folder of the repository.
    pub fn path(&self) -> &Path {
        self.inner.path()
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: CommitId) -> Result<TreeId, ReadError> {
        tree_of(&self.local(), commit.0).map(TreeId)
    }

    /// A handle for one thread, with its own object cache.
    pub(crate) fn local(&self) -> gix::Repository {
        let mut local = self.inner.to_thread_local();
        local.object_cache_size_if_unset(OBJECT_CACHE);
        local
    }
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("path", &self.path()).finish()
    }
}

/// Looks again when something could not be read. A ref that is deleted between listing and reading is an error the first
/// time and not there the next; an object whose pack is replaced at that moment is in the new one.
pub(crate) fn look_again<T>(mut look: impl FnMut() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let mut result = look();
    for wait in WAITS {
        if !matches!(result, Err(ReadError::Refs { .. } | ReadError::Corrupt { .. })) {
            break;
        }
        std::thread::sleep(Duration::from_millis(wait));
        result = look();
    }
    result
}

/// Looks for an object, and once more when it is not there or cannot be read: a look into the folder may come between the
/// old pack and the new one.
fn look_twice<T, E>(mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    match look() {
        Ok(Some(found)) => Ok(Some(found)),
        Ok(None) | Err(_) => look(),
    }
}

/// What kind of object bears a name, and how large it is, without reading all of it.
pub(crate) fn header(repo: &gix::Repository, id: ObjectId) -> Result<Option<(Kind, u64)>, ReadError> {
    // A name from a repository of another hash is in none of this one; gix does not expect to be asked.
    if id.kind() != repo.object_hash() {
        return Ok(None);
    }
    look_twice(|| repo.try_find_header(id))
        .map(|found| found.map(|header| (header.kind(), header.size())))
        .map_err(|source| ReadError::corrupt(repo, id, source))
}

/// An object of a given kind.
pub(crate) fn object(
    repo: &gix::Repository,
    id: ObjectId,
    wanted: Kind,
) -> Result<gix::Object<'_>, ReadError> {
    let missing = || ReadError::Missing { id: id.to_string(), path: repo.path().to_owned() };
    if id.kind() != repo.object_hash() {
        return Err(missing());
    }
    if wanted != Kind::Blob {
        let (kind, size) = header(repo, id)?.ok_or_else(missing)?;
        if size > LARGEST {
            return Err(ReadError::TooLarge { id: id.to_string(), kind: word(kind), size });
        }
    }
    let object = look_twice(|| repo.try_find_object(id))
        .map_err(|source| ReadError::corrupt(repo, id, source))?
        .ok_or_else(missing)?;
    if object.kind != wanted {
        let found = object.kind.to_string();
        return Err(ReadError::Kind { id: id.to_string(), wanted: word(wanted), found });
    }
    Ok(object)
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Tree => "tree",
        Kind::Blob => "blob",
        Kind::Commit => "commit",
        Kind::Tag => "tag",
    }
}

/// Whether a commit is another one or descends from it.
pub(crate) fn descends(
    repo: &gix::Repository,
    commit: CommitId,
    ancestor: CommitId,
) -> Result<bool, ReadError> {
    if commit == ancestor {
        return Ok(true);
    }
    look_again(|| match repo.merge_base(commit.0, ancestor.0) {
        Ok(base) => Ok(base.detach() == ancestor.0),
        Err(gix::repository::merge_base::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(ReadError::corrupt(repo, commit, error)),
    })
}

/// The root tree of a commit.
pub(crate) fn tree_of(repo: &gix::Repository, commit: ObjectId) -> Result<ObjectId, ReadError> {
    let object = object(repo, commit, Kind::Commit)?;
    let tree = gix::objs::CommitRefIter::from_bytes(&object.data, repo.object_hash())
        .tree_id()
        .map_err(|source| ReadError::corrupt(repo, commit, source))?;
    Ok(tree)
}

/// Where a chain of annotated tags ends; at a tag, when the chain is too long or the tag too large to follow.
pub(crate) fn peel(repo: &gix::Repository, id: ObjectId) -> Result<(ObjectId, Kind), ReadError> {
    let mut id = id;
    for _ in 0..TAG_CHAIN {
        let (kind, _) = header(repo, id)?
            .ok_or_else(|| ReadError::Missing { id: id.to_string(), path: repo.path().to_owned() })?;
        if kind != Kind::Tag {
            return Ok((id, kind));
        }
        let tag = match object(repo, id, Kind::Tag) {
            Err(ReadError::TooLarge { .. }) => break,
            tag => tag?,
        };
        id = gix::objs::TagRefIter::from_bytes(&tag.data, repo.object_hash())
            .target_id()
            .map_err(|source| ReadError::corrupt(repo, id, source))?;
    }
    Ok((id, Kind::Tag))
}
