//! What the headers of a commit say.

use std::collections::{HashSet, VecDeque};

use gix::{
    ObjectId,
    objs::{CommitRef, Kind},
};
use jj_lib::{
    git_backend::{JJ_TREES_COMMIT_HEADER, extract_change_id_from_commit},
    object_id::ObjectId as _,
};

use crate::{
    id::{ChangeId, CommitId},
    repo::{self, ReadError, Repo},
};

/// How many commits behind the tips are looked at for a change id. A repository that is worked on with Jujutsu carries
/// it near every tip; a squash by a forge may hide a few.
const NEAR: usize = 100;

/// The sides of a conflict, as a commit's header lists them.
pub(super) enum Sides {
    /// There is no conflict.
    None,
    /// Trees to add and to take away, in turns, beginning and ending with one to add.
    Trees(Vec<ObjectId>),
    /// There is a header that makes no sense. It is still a conflict.
    Unreadable,
}

/// The change id in a commit's header. A commit of plain `git` has none.
pub fn change_of(repo: &Repo, commit: CommitId) -> Result<Option<ChangeId>, ReadError> {
    with_commit(&repo.local(), commit.0, change_id)
}

/// Whether a commit at or near the tips carries a change id, which is where a Jujutsu store is worth having.
pub fn is_jujutsu(repo: &Repo, tips: &[CommitId]) -> Result<bool, ReadError> {
    let repo = repo.local();
    let mut queue: VecDeque<ObjectId> = tips.iter().map(|tip| tip.0).collect();
    let mut seen: HashSet<ObjectId> = queue.iter().copied().collect();
    // Every tip is looked at; the walk behind them is bounded.
    let most = NEAR + queue.len();
    let mut looked_at = 0;
    while let Some(id) = queue.pop_front() {
        looked_at += 1;
        if looked_at > most {
            break;
        }
        // The parents beyond the edge of a shallow mirror are not there.
        if looked_at > tips.len() && repo::header(&repo, id)?.is_none() {
            continue;
        }
        let looked = with_commit(&repo, id, |commit| {
            (change_id(commit).is_some(), commit.parents().collect::<Vec<_>>())
        });
        let (found, parents) = match looked {
            // One odd commit must not hide what the others are.
            Err(ReadError::Corrupt { .. } | ReadError::TooLarge { .. }) => continue,
            looked => looked?,
        };
        if found {
            return Ok(true);
        }
        queue.extend(parents.into_iter().filter(|parent| seen.insert(*parent)));
    }
    Ok(false)
}

pub(crate) fn change_id(commit: &CommitRef<'_>) -> Option<ChangeId> {
    extract_change_id_from_commit(commit).and_then(|id| ChangeId::from_bytes(id.as_bytes()))
}

/// The sides of a conflict and the root tree of a commit.
pub(super) fn sides(repo: &gix::Repository, commit: ObjectId) -> Result<(Sides, ObjectId), ReadError> {
    with_commit(repo, commit, |commit| {
        let sides = match commit.extra_headers().find(JJ_TREES_COMMIT_HEADER) {
            None => Sides::None,
            Some(value) => parse_sides(value).map_or(Sides::Unreadable, Sides::Trees),
        };
        (sides, commit.tree())
    })
}

fn parse_sides(value: &[u8]) -> Option<Vec<ObjectId>> {
    let trees: Option<Vec<ObjectId>> =
        value.split(|byte| *byte == b' ').map(|hex| ObjectId::from_hex(hex).ok()).collect();
    trees.filter(|trees| trees.len() > 1 && trees.len() % 2 == 1)
}

/// Decodes a commit and takes something from it.
pub(crate) fn with_commit<T>(
    repo: &gix::Repository,
    id: ObjectId,
    take: impl FnOnce(&CommitRef<'_>) -> T,
) -> Result<T, ReadError> {
    let object = repo::object(repo, id, Kind::Commit)?;
    let commit = CommitRef::from_bytes(&object.data, repo.object_hash())
        .map_err(|source| ReadError::corrupt(repo, id, source))?;
    Ok(take(&commit))
}
