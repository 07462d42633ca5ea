//! Conflicts that a commit carries.
//!
//! A conflicted commit lists the trees of its sides in the header `jj:trees`. The tree that plain `git` shows holds the
//! first side at its usual place and all sides in folders named `.jjconflict-*`. When such a commit was rewritten by
//! plain `git`, the header is gone and the folders are left: that is a conflict, too. In neither case may the first side
//! be taken for the content.

use std::collections::BTreeMap;

use gix::{
    ObjectId,
    bstr::BString,
    objs::{Kind, TreeRefIter, tree::EntryKind},
};
use jj_lib::merge::{SameChange, trivial_merge};

use super::header::{self, Sides};
use crate::{
    id::CommitId,
    repo::{self, ReadError, Repo},
    tree::RepoPath,
};

/// How many paths are listed: enough to find the place, and a hostile commit cannot ask for more.
const MOST_PATHS: usize = 1000;

/// How many folders are compared to find the paths.
const MOST_FOLDERS: usize = 100_000;

/// How many sides are compared. More are a conflict of which no paths are told.
const MOST_SIDES: usize = 64;

/// A commit that carries conflicts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "commit {commit} has unresolved conflicts{}: resolve them with `jj resolve` and push again",
    list(paths)
)]
pub struct Conflicted {
    /// The commit.
    pub commit: CommitId,
    /// The conflicting paths. Empty when the commit's header cannot be understood.
    pub paths: Vec<RepoPath>,
}

/// A commit that is not clean, or cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ConflictError {
    /// It carries conflicts.
    #[error(transparent)]
    Conflicted(#[from] Conflicted),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ConflictError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Conflicted(_) => "Conflicted",
            Self::Read(error) => error.category(),
        }
    }
}

fn list(paths: &[RepoPath]) -> String {
    const SHOWN: usize = 10;
    if paths.is_empty() {
        return String::new();
    }
    let names: Vec<String> = paths.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = paths.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(" in {}{more}", names.join(", "))
}

/// Refuses a commit that carries conflicts.
pub fn require_clean(repo: &Repo, commit: CommitId) -> Result<(), ConflictError> {
    match conflicts(repo, commit)? {
        None => Ok(()),
        Some(conflicted) => Err(conflicted.into()),
    }
}

/// The conflicts that a commit carries, if any.
pub fn conflicts(repo: &Repo, commit: CommitId) -> Result<Option<Conflicted>, ReadError> {
    let repo = repo.local();
    let (sides, root) = header::sides(&repo, commit.0)?;
    let trees = match sides {
        Sides::Trees(trees) => trees,
        Sides::Unreadable => return Ok(Some(Conflicted { commit, paths: Vec::new() })),
        Sides::None => match left_behind(&repo, root)? {
            Some(trees) => trees,
            None => return Ok(None),
        },
    };
    let paths = if trees.len() > MOST_SIDES { Vec::new() } else { paths(&repo, trees)? };
    Ok(Some(Conflicted { commit, paths }))
}

/// The sides of a conflict whose header is gone: bases to take away and sides to add, as folders at the root.
fn left_behind(repo: &gix::Repository, root: ObjectId) -> Result<Option<Vec<ObjectId>>, ReadError> {
    let entries = entries(repo, root)?;
    let numbered = |what: &str| -> Vec<ObjectId> {
        let names = (0..MOST_SIDES).map(|number| BString::from(format!(".jjconflict-{what}-{number}")));
        let values = names.map_while(|name| entries.get(&name).copied());
        values.take_while(|value| value.0 == EntryKind::Tree).map(|value| value.1).collect()
    };
    let adds = numbered("side");
    let removes = numbered("base");
    if removes.is_empty() || adds.len() != removes.len() + 1 {
        return Ok(None);
    }
    let mut trees = Vec::new();
    for (at, add) in adds.iter().enumerate() {
        trees.push(*add);
        trees.extend(removes.get(at));
    }
    Ok(Some(trees))
}

type Value = (EntryKind, ObjectId);

/// The paths at which the sides cannot be merged by looking at names of content alone. That is all there is to merge:
/// Jujutsu has merged the contents it could before it wrote the commit.
fn paths(repo: &gix::Repository, trees: Vec<ObjectId>) -> Result<Vec<RepoPath>, ReadError> {
    let mut found = Vec::new();
    let mut folders = 0;
    let mut open = vec![(RepoPath::root(), trees.into_iter().map(Some).collect::<Vec<_>>())];
    while let Some((folder, sides)) = open.pop() {
        folders += 1;
        if folders > MOST_FOLDERS || found.len() >= MOST_PATHS {
            break;
        }
        let mut names: BTreeMap<BString, Vec<Option<Value>>> = BTreeMap::new();
        let count = sides.len();
        for (side, tree) in sides.into_iter().enumerate() {
            let Some(tree) = tree else { continue };
            for (name, value) in entries(repo, tree)? {
                names.entry(name).or_insert_with(|| vec![None; count])[side] = Some(value);
            }
        }
        for (name, values) in names {
            if trivial_merge(&values, SameChange::Accept).is_some() {
                continue;
            }
            let path = folder.join(&name);
            if values.iter().flatten().all(|value| value.0 == EntryKind::Tree) {
                open.push((path, values.into_iter().map(|value| value.map(|value| value.1)).collect()));
            } else {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    found.truncate(MOST_PATHS);
    Ok(found)
}

fn entries(repo: &gix::Repository, tree: ObjectId) -> Result<BTreeMap<BString, Value>, ReadError> {
    if tree.is_empty_tree() {
        return Ok(BTreeMap::new());
    }
    let object = repo::object(repo, tree, Kind::Tree)?;
    TreeRefIter::from_bytes(&object.data, repo.object_hash())
        .map(|entry| {
            let entry = entry.map_err(|source| ReadError::corrupt(repo, tree, source))?;
            Ok((entry.filename.to_owned(), (entry.mode.kind(), entry.oid.to_owned())))
        })
        .collect()
}
