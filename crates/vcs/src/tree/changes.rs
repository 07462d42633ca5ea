//! What changed between two trees.
//!
//! Two trees are walked side by side. Subtrees with equal names are equal and are never read, so that the cost is that
//! of the difference and not that of the repository.

use std::{cmp::Ordering, collections::HashMap};

use gix::{
    ObjectId,
    objs::{
        Kind, TreeRef,
        tree::{EntryKind, EntryRef},
    },
};
use serde::Serialize;

use super::{At, LONGEST_PATH, Located, RepoPath, TreeError, locate};
use crate::{
    id::BlobId,
    repo::{self, ReadError, Repo},
};

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// A file.
    File,
    /// A file that may be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// A commit of another repository.
    Submodule,
}

impl Mode {
    /// `None` for a folder.
    fn of(kind: EntryKind) -> Option<Self> {
        match kind {
            EntryKind::Tree => None,
            EntryKind::Blob => Some(Self::File),
            EntryKind::BlobExecutable => Some(Self::Executable),
            EntryKind::Link => Some(Self::Link),
            EntryKind::Commit => Some(Self::Submodule),
        }
    }
}

/// What a path holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Entry {
    /// What it is.
    pub mode: Mode,
    /// The name of its content; of the commit, for a submodule.
    pub content: BlobId,
}

/// How a path changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Its content or its mode is another one.
    Changed,
    /// It is no longer there.
    Removed,
    /// It was at another path before, with the same content and mode.
    Renamed {
        /// Where it was.
        from: RepoPath,
    },
}

/// A path that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The path, from the root of the repository.
    pub path: RepoPath,
    /// How it changed.
    pub kind: ChangeKind,
    /// What it was; for a rename, what the former path was.
    pub before: Option<Entry>,
    /// What it is.
    pub after: Option<Entry>,
}

/// How to compare.
#[derive(Debug, Clone, Copy)]
pub struct Compare {
    /// Whether a removed and an added path with the same content are told as a rename. Similar content is never taken
    /// for the same.
    pub renames: bool,
    /// How many changes and folders are looked at before the comparison is given up: a hostile tree of a few kilobytes
    /// can hold billions of paths.
    pub limit: usize,
}

impl Default for Compare {
    fn default() -> Self {
        Self { renames: true, limit: 1_000_000 }
    }
}

/// What changed under a folder, in the order of the paths. Without `from`, everything is new.
///
/// A folder that is missing on one side is empty there. A folder that is something else in `to` is an error, and so is a
/// commit that the mirror does not have (any more): it is never taken for an empty one.
pub fn changes(
    repo: &Repo,
    from: Option<At>,
    to: impl Into<At>,
    folder: &RepoPath,
) -> Result<Vec<Change>, TreeError> {
    changes_with(repo, from, to, folder, Compare::default())
}

/// As [`changes`], with options.
pub fn changes_with(
    repo: &Repo,
    from: Option<At>,
    to: impl Into<At>,
    folder: &RepoPath,
    options: Compare,
) -> Result<Vec<Change>, TreeError> {
    let repo = repo.local();
    let before = match from.map(|at| locate(&repo, at, folder)).transpose()? {
        Some(Located::Folder(tree)) => Some(tree),
        // A file where the folder is now: not a part of the folder.
        Some(Located::Other { .. } | Located::Missing { .. }) | None => None,
    };
    let after = match locate(&repo, to.into(), folder)? {
        Located::Folder(tree) => Some(tree),
        Located::Missing { .. } => None,
        Located::Other { path, what } => return Err(TreeError::NotAFolder { path, what }),
    };
    let mut walk = Walk { repo: &repo, folder, limit: options.limit, looked_at: 0, found: Vec::new() };
    walk.run(before, after)?;
    let mut found = walk.found;
    if options.renames {
        found = pair_renames(&repo, found);
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Two subtrees to compare, and where they lie under the folder.
struct Pair {
    before: Option<ObjectId>,
    after: Option<ObjectId>,
    path: Vec<u8>,
}

struct Walk<'a> {
    repo: &'a gix::Repository,
    folder: &'a RepoPath,
    limit: usize,
    looked_at: usize,
    found: Vec<Change>,
}

impl Walk<'_> {
    fn run(&mut self, before: Option<ObjectId>, after: Option<ObjectId>) -> Result<(), TreeError> {
        let mut pairs = vec![Pair { before, after, path: Vec::new() }];
        while let Some(pair) = pairs.pop() {
            if pair.before == pair.after {
                continue;
            }
            self.count()?;
            let before = self.data(pair.before)?;
            let after = self.data(pair.after)?;
            let before = self.entries(pair.before, &before)?;
            let after = self.entries(pair.after, &after)?;
            self.join(&pair.path, &before, &after, &mut pairs)?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), TreeError> {
        self.looked_at += 1;
        if self.looked_at > self.limit {
            let limit = self.limit as u64;
            return Err(TreeError::TooMuch { folder: self.folder.clone(), what: "changes", limit });
        }
        Ok(())
    }

    fn data(&self, tree: Option<ObjectId>) -> Result<Vec<u8>, ReadError> {
        match tree {
            Some(tree) => Ok(repo::object(self.repo, tree, Kind::Tree)?.detach().data),
            None => Ok(Vec::new()),
        }
    }

    /// The entries in their order. A tree that was not written by `git` may be out of order, or name a path twice.
    fn entries<'d>(&self, tree: Option<ObjectId>, data: &'d [u8]) -> Result<Vec<EntryRef<'d>>, ReadError> {
        let Some(tree) = tree else { return Ok(Vec::new()) };
        let mut entries = TreeRef::from_bytes(data, self.repo.object_hash())
            .map_err(|source| ReadError::corrupt(self.repo, tree, source))?
            .entries;
        if !entries.is_sorted_by(|a, b| order(a, b).is_lt()) {
            entries.sort_by(order);
            entries.dedup_by(|a, b| order(a, b).is_eq());
        }
        Ok(entries)
    }

    /// Merges two lists of entries, in the order of their names.
    fn join(
        &mut self,
        path: &[u8],
        before: &[EntryRef<'_>],
        after: &[EntryRef<'_>],
        pairs: &mut Vec<Pair>,
    ) -> Result<(), TreeError> {
        let mut before = before.iter().peekable();
        let mut after = after.iter().peekable();
        loop {
            let ordering = match (before.peek(), after.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => order(a, b),
            };
            let old = if ordering.is_le() { before.next() } else { None };
            let new = if ordering.is_ge() { after.next() } else { None };
            self.compare(path, old, new, pairs)?;
        }
    }

    fn compare(
        &mut self,
        path: &[u8],
        old: Option<&EntryRef<'_>>,
        new: Option<&EntryRef<'_>>,
        pairs: &mut Vec<Pair>,
    ) -> Result<(), TreeError> {
        if let (Some(old), Some(new)) = (old, new)
            && old.oid == new.oid
            && old.mode.kind() == new.mode.kind()
        {
            return Ok(());
        }
        let Some(name) = old.or(new).map(|entry| entry.filename) else { return Ok(()) };
        let path = below(path, name);
        // Entries of one pair are both folders or both not: their order tells them apart.
        if old.or(new).is_some_and(|entry| entry.mode.is_tree()) {
            if path.len() > LONGEST_PATH {
                let limit = LONGEST_PATH as u64;
                return Err(TreeError::TooMuch {
                    folder: self.folder.clone(),
                    what: "bytes in a path",
                    limit,
                });
            }
            let before = old.map(|entry| entry.oid.to_owned());
            let after = new.map(|entry| entry.oid.to_owned());
            pairs.push(Pair { before, after, path });
            return Ok(());
        }
        self.count()?;
        let before = old.and_then(entry);
        let after = new.and_then(entry);
        let kind = match (before, after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        self.found.push(Change { path: self.folder.join(&path), kind, before, after });
        Ok(())
    }
}

fn entry(entry: &EntryRef<'_>) -> Option<Entry> {
    let mode = Mode::of(entry.mode.kind())?;
    Some(Entry { mode, content: BlobId(entry.oid.to_owned()) })
}

/// The path of a name in a folder.
pub(super) fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(folder.len() + 1 + name.len());
    if !folder.is_empty() {
        path.extend_from_slice(folder);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The order of a tree's entries: folders are ordered as if a slash ended their names.
fn order(a: &EntryRef<'_>, b: &EntryRef<'_>) -> Ordering {
    gix::objs::tree::name_order(a.filename, a.mode.is_tree(), b.filename, b.mode.is_tree())
}

/// Turns a removed and an added path with the same content into one rename. A path with the same file name is
/// preferred, then the first in order: the same trees always give the same answer. Empty files tell nothing.
fn pair_renames(repo: &gix::Repository, mut found: Vec<Change>) -> Vec<Change> {
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let empty = ObjectId::empty_blob(repo.object_hash());
    let mut gone: HashMap<Entry, Vec<usize>> = HashMap::new();
    for (index, change) in found.iter().enumerate().rev() {
        if let (ChangeKind::Removed, Some(entry)) = (&change.kind, change.before)
            && entry.content.0 != empty
            && entry.mode != Mode::Submodule
        {
            gone.entry(entry).or_default().push(index);
        }
    }
    let mut used = vec![false; found.len()];
    for index in 0..found.len() {
        let change = &found[index];
        let (ChangeKind::Added, Some(entry)) = (&change.kind, change.after) else { continue };
        let Some(sources) = gone.get_mut(&entry) else { continue };
        let name = change.path.file_name();
        let same_name = sources.iter().rposition(|source| found[*source].path.file_name() == name);
        let Some(source) = same_name.map(|at| sources.remove(at)).or_else(|| sources.pop()) else { continue };
        used[source] = true;
        let from = found[source].path.clone();
        found[index].before = found[source].before;
        found[index].kind = ChangeKind::Renamed { from };
    }
    let mut used = used.into_iter();
    found.retain(|_| !used.next().unwrap_or_default());
    found
}
