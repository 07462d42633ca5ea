//! What takes a change back: edits on top of a tip that make folders what they were before a range of commits.
//!
//! Only what the range changed is touched. A file that somebody changed again since is not overwritten: then there are
//! no edits at all, for half a revert is a state that nobody ever had.

use std::collections::{BTreeMap, BTreeSet};

use gix::objs::Kind;

use super::{EditError, Edits};
use crate::{
    id::CommitId,
    repo::{self, ReadError, Repo},
    tree::{Change, Compare, Entry, Mode, RepoPath, TreeError, changes_with},
};

/// Commits that are looked through for a trailer.
const MOST: usize = 10_000;

/// A change that cannot be taken back by itself.
#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    /// Somebody changed the path again.
    #[error("{path} was changed again since")]
    Changed {
        /// The path.
        path: RepoPath,
    },
    /// What was at the path cannot be written.
    #[error("{path} was a link or a submodule, or its name cannot be written")]
    Special {
        /// The path.
        path: RepoPath,
    },
    /// The edits do not go together.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A folder cannot be compared.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Edits on `tip` that take back what changed from `good` to `bad` within these folders. What is taken back already is
/// left out. Blocks on the disk: call it from a thread that may.
pub fn revert(
    repo: &Repo,
    good: CommitId,
    bad: CommitId,
    tip: CommitId,
    folders: &[RepoPath],
) -> Result<Edits, RevertError> {
    let exact = Compare { renames: false, ..Compare::default() };
    let mut edits = Edits::new();
    // One folder may lie within another.
    let mut done = BTreeSet::new();
    for folder in folders {
        let since: BTreeMap<RepoPath, Option<Entry>> =
            changes_with(repo, Some(bad.into()), tip, folder, exact)?
                .into_iter()
                .map(|change| (change.path, change.after))
                .collect();
        for change in changes_with(repo, Some(good.into()), bad, folder, exact)? {
            if !done.insert(change.path.clone()) {
                continue;
            }
            match since.get(&change.path) {
                Some(now) if *now == change.before => {}
                Some(_) => return Err(RevertError::Changed { path: change.path }),
                None => take_back(repo, &change, &mut edits)?,
            }
        }
    }
    Ok(edits)
}

fn take_back(repo: &Repo, change: &Change, edits: &mut Edits) -> Result<(), RevertError> {
    let special = || RevertError::Special { path: change.path.clone() };
    let path = change.path.as_str().ok_or_else(special)?;
    match change.before {
        None => edits.delete(path)?,
        Some(Entry { mode: mode @ (Mode::File | Mode::Executable), content }) => {
            let local = repo.local();
            let blob = repo::object(&local, content.0, Kind::Blob).map_err(TreeError::Read)?;
            edits.upsert_as(path, blob.detach().data, mode == Mode::Executable)?
        }
        Some(_) => return Err(special()),
    };
    Ok(())
}

/// The commit with all these trailers among those that lead from `since` to `tip`, if there is one. Blocks on the disk.
pub fn with_trailers(
    repo: &Repo,
    tip: CommitId,
    since: CommitId,
    trailers: &[(&str, &str)],
) -> Result<Option<CommitId>, ReadError> {
    let local = repo.local();
    let wanted: Vec<String> = trailers.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let walk = local
        .rev_walk([tip.0])
        .with_hidden([since.0])
        .all()
        .map_err(|source| ReadError::corrupt(&local, tip, source))?;
    for commit in walk.take(MOST) {
        let id = commit.map_err(|source| ReadError::corrupt(&local, tip, source))?.id;
        let object = repo::object(&local, id, Kind::Commit)?;
        let commit = gix::objs::CommitRef::from_bytes(&object.data, local.object_hash())
            .map_err(|source| ReadError::corrupt(&local, id, source))?;
        let message = String::from_utf8_lossy(commit.message);
        // Trailers are the last paragraph.
        let last = message.trim_end().rsplit("\n\n").next().unwrap_or_default();
        if wanted.iter().all(|wanted| last.lines().any(|line| line.trim() == wanted)) {
            return Ok(Some(CommitId(id)));
        }
    }
    Ok(None)
}
