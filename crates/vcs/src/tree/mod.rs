//! Trees: what changed between two of them, what is in a folder, and the hash that stands for all of it.
//!
//! Nothing is checked out: trees and files are read from the object database. Whatever a tree can hold that is not a
//! plain file is reported as an [`Oddity`] and never followed out of the folder.

mod changes;
mod glob;
mod link;
mod oddities;
mod path;
mod read;

pub use changes::{Change, ChangeKind, Compare, Entry, Mode, changes, changes_with};
pub use glob::{GlobError, Globs};
pub use oddities::{LinkProblem, Oddity};
pub use path::{LONGEST_NAME, LONGEST_PATH, PathError, RepoPath};
pub use read::{Content, File, Files, Found, Limits, read, read_all};

use gix::{
    ObjectId,
    bstr::BStr,
    objs::{Kind, TreeRefIter, tree::EntryKind},
};

use crate::{
    id::{CommitId, TreeId},
    repo::{self, ReadError, Repo},
};

/// A tree, named by itself or by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The tree of a commit.
    Commit(CommitId),
    /// A tree.
    Tree(TreeId),
}

impl From<CommitId> for At {
    fn from(commit: CommitId) -> Self {
        Self::Commit(commit)
    }
}

impl From<TreeId> for At {
    fn from(tree: TreeId) -> Self {
        Self::Tree(tree)
    }
}

/// A tree that cannot be read as asked.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The folder is not in the tree.
    #[error(
        "folder {folder} is not in the repository at this revision: {nearest} is the deepest part of it that is there"
    )]
    FolderMissing {
        /// What was asked for.
        folder: RepoPath,
        /// The deepest folder on the way that exists.
        nearest: RepoPath,
    },
    /// What should be a folder is something else.
    #[error("{path} is a {what}, not a folder: name the folder itself")]
    NotAFolder {
        /// What was found.
        path: RepoPath,
        /// What it is: a file, a symbolic link, a submodule.
        what: &'static str,
    },
    /// The folder holds more than may be read.
    #[error(
        "folder {folder} holds more than {limit} {what}: narrow the path or the patterns, or raise the limit"
    )]
    TooMuch {
        /// The folder.
        folder: RepoPath,
        /// What there is too much of: entries, files, bytes, changes.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// An object cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl TreeError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::FolderMissing { .. } => "FolderMissing",
            Self::NotAFolder { .. } => "NotAFolder",
            Self::TooMuch { .. } => "TooMuch",
            Self::Read(error) => error.category(),
        }
    }
}

/// The name of a folder's tree, which is the hash of everything in it: equal hashes mean equal files.
///
/// `None` when the folder is not there.
pub fn hash(repo: &Repo, at: impl Into<At>, folder: &RepoPath) -> Result<Option<TreeId>, TreeError> {
    match locate(&repo.local(), at.into(), folder)? {
        Located::Folder(tree) => Ok(Some(TreeId(tree))),
        Located::Missing { .. } => Ok(None),
        Located::Other { path, what } => Err(TreeError::NotAFolder { path, what }),
    }
}

/// What lies at the path of a folder.
enum Located {
    /// The folder's tree.
    Folder(ObjectId),
    /// Something that is no folder, here or on the way.
    Other { path: RepoPath, what: &'static str },
    /// Nothing.
    Missing { nearest: RepoPath },
}

/// Walks down to a folder. Symbolic links on the way are not followed: the folder's hash would not tell their changes.
fn locate(repo: &gix::Repository, at: At, folder: &RepoPath) -> Result<Located, ReadError> {
    let mut tree = match at {
        At::Commit(commit) => repo::tree_of(repo, commit.0)?,
        At::Tree(tree) => tree.0,
    };
    let mut nearest = RepoPath::root();
    for name in folder.names() {
        let Some((kind, id)) = find(repo, tree, name)? else {
            return Ok(Located::Missing { nearest });
        };
        nearest = nearest.join(name);
        match kind {
            EntryKind::Tree => tree = id,
            kind => return Ok(Located::Other { path: nearest, what: describe(kind) }),
        }
    }
    // The root itself may have been named wrongly.
    repo::object(repo, tree, Kind::Tree)?;
    Ok(Located::Folder(tree))
}

/// One entry of a tree, by name.
fn find(
    repo: &gix::Repository,
    tree: ObjectId,
    name: &BStr,
) -> Result<Option<(EntryKind, ObjectId)>, ReadError> {
    let object = repo::object(repo, tree, Kind::Tree)?;
    for entry in TreeRefIter::from_bytes(&object.data, repo.object_hash()) {
        let entry = entry.map_err(|source| ReadError::corrupt(repo, tree, source))?;
        if entry.filename == name {
            return Ok(Some((entry.mode.kind(), entry.oid.to_owned())));
        }
    }
    Ok(None)
}

/// What people call a kind of entry.
fn describe(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Tree => "folder",
        EntryKind::Blob | EntryKind::BlobExecutable => "file",
        EntryKind::Link => "symbolic link",
        EntryKind::Commit => "submodule",
    }
}
