//! What a tree can hold that is not a plain file. It is told as a value, because whether it matters is for the reader
//! of the folder to say.

use std::fmt;

use serde::Serialize;

use super::RepoPath;

/// Why a symbolic link was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LinkProblem {
    /// It leads out of the folder that is read.
    Leaves,
    /// Nothing is where it leads.
    Broken,
    /// It leads to a folder.
    Folder,
    /// It leads into a submodule.
    Submodule,
    /// It leads to itself, or through too many others.
    Loop,
}

/// Something in a folder that is not read as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Oddity {
    /// A symbolic link that is not followed.
    Link {
        /// Where it is.
        path: RepoPath,
        /// What it says, shown with odd bytes escaped.
        target: String,
        /// Why it is not followed.
        problem: LinkProblem,
    },
    /// A commit of another repository. It is not fetched.
    Submodule {
        /// Where it is.
        path: RepoPath,
        /// The commit.
        commit: String,
    },
    /// A pointer to a file in Git LFS. The file itself is not in the repository.
    LfsPointer {
        /// Where it is.
        path: RepoPath,
    },
    /// A file that is larger than allowed.
    TooLarge {
        /// Where it is.
        path: RepoPath,
        /// Its size in bytes.
        size: u64,
        /// How large a file may be.
        limit: u64,
    },
    /// A path, or a name in it, that is longer than a file system can hold.
    TooLong {
        /// Where it is, cut after 100 bytes.
        path: RepoPath,
        /// How many bytes it has.
        length: usize,
    },
    /// A name that is not UTF-8.
    NotUtf8 {
        /// Where it is.
        path: RepoPath,
    },
    /// A name that no honest tree holds: `.`, `..`, `.git`, an empty one or one with a slash.
    UnsafeName {
        /// The folder it is in.
        folder: RepoPath,
        /// The name.
        name: RepoPath,
    },
    /// Two names that differ only in upper and lower case: they overwrite each other on some file systems.
    CaseCollision {
        /// The first in order.
        path: RepoPath,
        /// The other.
        other: RepoPath,
    },
    /// A side of an unresolved Jujutsu conflict, as a plain reader of the repository sees it.
    ConflictSide {
        /// Where it is.
        path: RepoPath,
    },
}

impl Oddity {
    /// Whether a path that was asked for could not be read because of this. When it could not, what was read of the
    /// folder is not all of it, and nothing may be removed on its account.
    pub fn hides_content(&self) -> bool {
        !matches!(self, Self::CaseCollision { .. })
    }

    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Link { .. } => "Link",
            Self::Submodule { .. } => "Submodule",
            Self::LfsPointer { .. } => "LfsPointer",
            Self::TooLarge { .. } => "TooLarge",
            Self::TooLong { .. } => "TooLong",
            Self::NotUtf8 { .. } => "NotUtf8",
            Self::UnsafeName { .. } => "UnsafeName",
            Self::CaseCollision { .. } => "CaseCollision",
            Self::ConflictSide { .. } => "ConflictSide",
        }
    }
}

impl fmt::Display for LinkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaves => "leads out of the folder",
            Self::Broken => "leads to nothing",
            Self::Folder => "leads to a folder",
            Self::Submodule => "leads into a submodule",
            Self::Loop => "leads to itself or through too many links",
        })
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { path, target, problem } => {
                write!(
                    f,
                    "{path} is a symbolic link to {target}, which {problem}: replace it by the file itself"
                )
            }
            Self::Submodule { path, commit } => {
                write!(
                    f,
                    "{path} is a submodule at commit {commit}, which is not fetched: name its repository as a source"
                )
            }
            Self::LfsPointer { path } => {
                write!(
                    f,
                    "{path} is a pointer to Git LFS, the file is not in the repository: store it as a plain file"
                )
            }
            Self::TooLarge { path, size, limit } => {
                write!(
                    f,
                    "{path} has {size} bytes, {limit} are allowed: split it or leave it out with a pattern"
                )
            }
            Self::TooLong { path, length } => {
                write!(f, "{path}… has {length} bytes, which is longer than a path can be: shorten it")
            }
            Self::NotUtf8 { path } => write!(f, "the name of {path} is not UTF-8: rename it"),
            Self::UnsafeName { folder, name } => {
                write!(f, "the name {name} in {folder} is not allowed in a tree: remove it from the history")
            }
            Self::CaseCollision { path, other } => {
                write!(f, "{path} and {other} differ only in upper and lower case: rename one of them")
            }
            Self::ConflictSide { path } => {
                write!(
                    f,
                    "{path} is a side of an unresolved Jujutsu conflict: resolve it with `jj resolve` and push again"
                )
            }
        }
    }
}
