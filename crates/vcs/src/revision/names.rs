//! The refs of a mirror.

use std::collections::BTreeMap;

use gix::{ObjectId, objs::Kind};
use serde::Serialize;

use crate::{
    id::CommitId,
    repo::{self, ReadError, Repo},
};

/// Where a mirror keeps the branches of its remote.
pub(crate) const BRANCHES: &str = "refs/remotes/origin/";

/// Where a mirror keeps tags.
pub(crate) const TAGS: &str = "refs/tags/";

/// Refs of our own, which keep commits from being collected as garbage: jj-lib's, and those of the mirror. Nobody at the
/// remote made them, so they make nothing visible.
const OURS: [&str; 2] = ["refs/jj/", "refs/windlass/"];

/// Whether a ref is one of our own.
pub(super) fn is_ours(name: &str) -> bool {
    OURS.iter().any(|start| name.starts_with(start))
}

/// The longest chain of symbolic refs that is followed.
const CHAIN: usize = 5;

/// How many near names are told.
const NEAR: usize = 3;

/// What a ref leads to, before tags are peeled. `None` when there is no such ref.
pub(super) fn target(repo: &gix::Repository, name: &str) -> Result<Option<ObjectId>, ReadError> {
    let mut name = name.to_owned();
    for _ in 0..CHAIN {
        // A name that no ref can have is no ref.
        if gix::refs::FullName::try_from(name.as_str()).is_err() {
            return Ok(None);
        }
        let found = repo.refs.try_find(name.as_str()).map_err(|error| ReadError::refs(repo, error))?;
        match found.map(|reference| reference.target) {
            None => return Ok(None),
            Some(gix::refs::Target::Object(id)) => return Ok(Some(id)),
            Some(gix::refs::Target::Symbolic(next)) => name = next.as_bstr().to_string(),
        }
    }
    Ok(None)
}

/// All refs that make a commit visible: everything but our own. Symbolic refs are left out.
pub(crate) fn refs(repo: &gix::Repository) -> Result<Vec<(String, ObjectId)>, ReadError> {
    repo::look_again(|| look(repo))
}

fn look(repo: &gix::Repository) -> Result<Vec<(String, ObjectId)>, ReadError> {
    let fail = |error: Box<dyn std::error::Error + Send + Sync>| ReadError::refs(repo, error);
    let mut found = Vec::new();
    let references = repo.references().map_err(|error| fail(error.into()))?;
    for reference in references.all().map_err(|error| fail(error.into()))? {
        let reference = reference.map_err(fail)?;
        let name = reference.name().as_bstr().to_string();
        if is_ours(&name) {
            continue;
        }
        if let Some(id) = reference.target().try_id() {
            found.push((name, id.to_owned()));
        }
    }
    Ok(found)
}

/// The branches and tags of a mirror, by their short names, with the commits they lead to. A tag of something that is no
/// commit is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Names {
    /// The branches of the remote.
    pub branches: BTreeMap<String, CommitId>,
    /// The tags.
    pub tags: BTreeMap<String, CommitId>,
}

impl Names {
    /// The commits that any of them leads to.
    pub fn tips(&self) -> Vec<CommitId> {
        let mut tips: Vec<CommitId> = self.branches.values().chain(self.tags.values()).copied().collect();
        tips.sort_unstable();
        tips.dedup();
        tips
    }
}

/// Lists the branches and tags of a mirror.
pub fn names(repo: &Repo) -> Result<Names, ReadError> {
    let repo = repo.local();
    let mut names = Names::default();
    for (name, id) in refs(&repo)? {
        let (list, name) = if let Some(name) = name.strip_prefix(BRANCHES) {
            (&mut names.branches, name)
        } else if let Some(name) = name.strip_prefix(TAGS) {
            (&mut names.tags, name)
        } else {
            continue;
        };
        if let (id, Kind::Commit) = repo::peel(&repo, id)? {
            list.insert(name.to_owned(), CommitId(id));
        }
    }
    Ok(names)
}

/// The commits that branches and tags lead to.
pub(crate) fn tips(repo: &gix::Repository) -> Result<Vec<ObjectId>, ReadError> {
    let mut tips = Vec::new();
    for (_, id) in refs(repo)? {
        let (id, kind) = repo::peel(repo, id)?;
        if kind == Kind::Commit {
            tips.push(id);
        }
    }
    tips.sort_unstable();
    tips.dedup();
    Ok(tips)
}

/// The branches and tags whose names are closest to a text.
pub(super) fn near(repo: &gix::Repository, text: &str) -> Result<Vec<String>, ReadError> {
    let text = text.strip_prefix("refs/heads/").or(text.strip_prefix(TAGS)).unwrap_or(text);
    let mut names: Vec<(usize, String)> = refs(repo)?
        .into_iter()
        .filter_map(|(name, _)| {
            let name = name.strip_prefix(BRANCHES).or_else(|| name.strip_prefix(TAGS))?.to_owned();
            Some((distance(text, &name)?, name))
        })
        .collect();
    names.sort();
    names.dedup();
    Ok(names.into_iter().take(NEAR).map(|(_, name)| name).collect())
}

/// How far two names are apart, if they are close.
fn distance(text: &str, name: &str) -> Option<usize> {
    if text.eq_ignore_ascii_case(name) {
        return Some(0);
    }
    // `origin/main` where `main` is meant, and `login` where `feature/login` is.
    if text.strip_suffix(name).is_some_and(|start| start.ends_with('/'))
        || name.strip_suffix(text).is_some_and(|start| start.ends_with('/'))
    {
        return Some(1);
    }
    let most = (text.chars().count() / 3).clamp(1, 3);
    let edits = edits(text, name);
    (edits <= most).then_some(edits)
}

/// The number of characters to insert, remove, replace or swap with their neighbour to make one text of the other.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut fewest = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                fewest = fewest.min(above[j - 2] + 1);
            }
            row.push(fewest);
        }
        above = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_those_a_slip_away() {
        assert_eq!(distance("Main", "main"), Some(0));
        assert_eq!(distance("origin/main", "main"), Some(1));
        assert_eq!(distance("login", "feature/login"), Some(1));
        assert_eq!(distance("mian", "main"), Some(1));
        assert_eq!(distance("mai", "main"), Some(1));
        assert_eq!(distance("relaese-1.2", "release-1.2"), Some(1));
        assert_eq!(distance("dev", "main"), None);
        assert_eq!(distance("main", "production"), None);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("same", "same"), 0);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("ca", "abc"), 3);
    }
}
