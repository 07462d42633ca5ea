//! What a change id stands for now.

use std::{collections::BTreeMap, sync::Arc};

use futures::{TryStreamExt as _, executor::block_on};
use jj_lib::{
    index::ResolvedChangeState,
    object_id::{HexPrefix, ObjectId as _, PrefixResolution},
    repo::{ReadonlyRepo, Repo as _},
    revset::{ResolvedRevsetExpression, RevsetExpression},
};
use serde::Serialize;

use super::{
    error::{Cause, EngineError},
    operations::commit_id,
};
use crate::id::{ChangeId, ChangePrefix, CommitId};

/// How many candidates are named when the first letters fit several changes.
const CANDIDATES: usize = 10;

/// What a change id stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum ChangeState {
    /// One commit.
    Visible {
        /// The change.
        change: ChangeId,
        /// The commit.
        commit: CommitId,
    },
    /// Several commits that all are the change.
    Divergent {
        /// The change.
        change: ChangeId,
        /// The commits, in the order of their names.
        commits: Vec<CommitId>,
    },
    /// No commit any more: no bookmark and no tag leads to it.
    Abandoned {
        /// The change.
        change: ChangeId,
        /// The commit that it was last.
        last: CommitId,
    },
    /// Several changes begin with these letters.
    Ambiguous {
        /// Some of them.
        candidates: Vec<ChangeId>,
    },
    /// No such change was ever seen.
    Unknown,
}

pub(super) fn look_up(repo: &Arc<ReadonlyRepo>, prefix: &ChangePrefix) -> Result<ChangeState, EngineError> {
    let fail = |source: Cause| EngineError::Change { change: prefix.to_string(), source };
    let Some(hex) = HexPrefix::try_from_reverse_hex(prefix.as_str()) else {
        return Ok(ChangeState::Unknown);
    };
    let found = block_on(repo.resolve_change_id_prefix(&hex)).map_err(|error| fail(error.into()))?;
    Ok(match found {
        PrefixResolution::NoMatch => ChangeState::Unknown,
        PrefixResolution::AmbiguousMatch => among_visible(repo, prefix)?,
        PrefixResolution::SingleMatch(targets) => {
            let (visible, hidden): (Vec<_>, Vec<_>) =
                targets.targets.iter().partition(|(_, state)| *state == ResolvedChangeState::Visible);
            let ids = |list: Vec<&(jj_lib::backend::CommitId, _)>| -> Vec<CommitId> {
                list.into_iter().filter_map(|(id, _)| commit_id(id)).collect()
            };
            state(repo, prefix, ids(visible), &ids(hidden))?
        }
    })
}

/// The state of one change, from the commits that are it now and those that were it.
fn state(
    repo: &Arc<ReadonlyRepo>,
    prefix: &ChangePrefix,
    mut visible: Vec<CommitId>,
    hidden: &[CommitId],
) -> Result<ChangeState, EngineError> {
    // The newest comes first.
    let Some(last) = visible.first().or(hidden.first()).copied() else { return Ok(ChangeState::Unknown) };
    let change = match prefix.full() {
        Some(change) => change,
        None => change_of(repo, prefix, last)?,
    };
    visible.sort_unstable();
    Ok(match visible.as_slice() {
        [] => ChangeState::Abandoned { change, last },
        [commit] => ChangeState::Visible { change, commit: *commit },
        _ => ChangeState::Divergent { change, commits: visible },
    })
}

fn change_of(
    repo: &Arc<ReadonlyRepo>,
    prefix: &ChangePrefix,
    commit: CommitId,
) -> Result<ChangeId, EngineError> {
    let fail = |source: Cause| EngineError::Change { change: prefix.to_string(), source };
    let id = jj_lib::backend::CommitId::from_bytes(commit.0.as_bytes());
    let commit = block_on(repo.store().get_commit_async(&id)).map_err(|error| fail(error.into()))?;
    ChangeId::from_bytes(commit.change_id().as_bytes())
        .ok_or_else(|| fail("the change id has an odd length".into()))
}

/// Letters that fit several changes may fit only one that is still visible: nobody can mean the others.
fn among_visible(repo: &Arc<ReadonlyRepo>, prefix: &ChangePrefix) -> Result<ChangeState, EngineError> {
    let fail = |source: Cause| EngineError::Change { change: prefix.to_string(), source };
    let heads: Vec<_> = repo.view().heads().iter().cloned().collect();
    let expression: Arc<ResolvedRevsetExpression> = RevsetExpression::commits(heads).ancestors();
    let revset = expression.evaluate(repo.as_ref()).map_err(|error| fail(error.into()))?;
    let mut stream = revset.commit_change_ids();
    let mut matching: BTreeMap<ChangeId, Vec<CommitId>> = BTreeMap::new();
    while let Some((commit, change)) = block_on(stream.try_next()).map_err(|error| fail(error.into()))? {
        let (Some(change), Some(commit)) = (ChangeId::from_bytes(change.as_bytes()), commit_id(&commit))
        else {
            continue;
        };
        if prefix.matches(&change) {
            matching.entry(change).or_default().push(commit);
        }
    }
    let first = matching.pop_first();
    Ok(match (first, matching.is_empty()) {
        (Some((change, commits)), true) => state(repo, &change.into(), commits, &[])?,
        (first, _) => ChangeState::Ambiguous {
            candidates: first
                .into_iter()
                .map(|(change, _)| change)
                .chain(matching.into_keys())
                .take(CANDIDATES)
                .collect(),
        },
    })
}
