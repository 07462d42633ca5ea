//! Keeps the store and jj-lib's refs from growing for ever.
//!
//! Every import adds an operation, a view, and a ref in `refs/jj/keep/` for every new head, so that `git gc` keeps it.
//! Old operations are given up; a ref goes when a branch or a tag protects its commit anyway, or when no operation that
//! is left speaks of it.

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use futures::{StreamExt as _, TryStreamExt as _, executor::block_on};
use gix::{
    ObjectId,
    refs::transaction::{Change, PreviousValue, RefEdit, RefLog},
};
use jj_lib::{
    default_index::DefaultIndexStore,
    object_id::ObjectId as _,
    op_store::Operation as OperationData,
    op_walk::{reparent_range, walk_ancestors},
    operation::Operation,
    repo::{ReadonlyRepo, Repo as _},
};
use serde::Serialize;

use super::error::{Cause, EngineError};
use crate::repo::{ReadError, Repo};

/// Where jj-lib keeps its refs.
pub(super) const KEEP: &str = "refs/jj/keep/";

/// What the operation says that stands for all that were removed.
const REMOVED: &str = "older operations were removed";

/// What was tidied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tidied {
    /// Operations that were given up.
    pub operations: usize,
    /// Refs that were removed.
    pub refs: usize,
    /// Refs that still protect something.
    pub refs_kept: usize,
}

fn fail(error: impl Into<Cause>) -> EngineError {
    EngineError::Operations(error.into())
}

/// Tidies, and gives the store as it is afterwards.
pub(super) fn tidy(
    store: &Arc<ReadonlyRepo>,
    mirror: &Repo,
    keep: usize,
) -> Result<(Arc<ReadonlyRepo>, Tidied), EngineError> {
    let (store, operations) = trim(store, keep)?;
    let (refs, refs_kept) = drop_refs(&mirror.local(), &spoken_of(&store)?)?;
    Ok((store, Tidied { operations, refs, refs_kept }))
}

/// Gives up all but the last operations. One stands for those that are gone: without it, the oldest that is left would
/// seem to have moved everything.
fn trim(store: &Arc<ReadonlyRepo>, keep: usize) -> Result<(Arc<ReadonlyRepo>, usize), EngineError> {
    let head = store.operation().clone();
    let all: Vec<Operation> =
        block_on(walk_ancestors(std::slice::from_ref(&head)).try_collect()).map_err(fail)?;
    // The last is the root. It, and the one that stands for the others, are not counted.
    let Some(cut) = all.get(keep.max(1)).filter(|_| all.len() > keep.max(1) + 2) else {
        return Ok((store.clone(), 0));
    };
    let op_store = store.op_store();
    let mut metadata = cut.metadata().clone();
    REMOVED.clone_into(&mut metadata.description);
    let base = OperationData {
        view_id: cut.view_id().clone(),
        parents: vec![op_store.root_operation_id().clone()],
        metadata,
        commit_predecessors: Some(std::collections::BTreeMap::new()),
    };
    let id = block_on(op_store.write_operation(&base)).map_err(fail)?;
    let base = Operation::new(op_store.clone(), id, base);
    let stats = block_on(reparent_range(
        op_store.as_ref(),
        std::slice::from_ref(cut),
        std::slice::from_ref(&head),
        &base,
    ))
    .map_err(fail)?;
    let heads = store.op_heads_store();
    {
        let _lock = block_on(heads.lock()).map_err(fail)?;
        for new in &stats.new_head_ids {
            block_on(heads.update_op_heads(std::slice::from_ref(head.id()), new)).map_err(fail)?;
        }
    }
    block_on(op_store.gc(&stats.new_head_ids, SystemTime::now())).map_err(fail)?;
    // The index still holds what only the removed operations knew.
    if let Some(index) = store.index_store().downcast_ref::<DefaultIndexStore>() {
        index.reinit().map_err(fail)?;
    }
    let store = block_on(store.reload_at_head()).map_err(fail)?;
    Ok((store, all.len() - keep.max(1) - 2))
}

/// The commits that the operations speak of.
fn spoken_of(store: &Arc<ReadonlyRepo>) -> Result<HashSet<ObjectId>, EngineError> {
    let heads = [store.operation().clone()];
    let mut operations = Box::pin(walk_ancestors(&heads));
    let mut commits = HashSet::new();
    while let Some(operation) = block_on(operations.next()) {
        let view = block_on(operation.map_err(fail)?.view()).map_err(fail)?;
        commits
            .extend(view.all_referenced_commit_ids().filter_map(|id| ObjectId::try_from(id.as_bytes()).ok()));
    }
    Ok(commits)
}

/// Removes refs that protect nothing worth protecting. Gives how many went and how many are left.
fn drop_refs(repo: &gix::Repository, spoken_of: &HashSet<ObjectId>) -> Result<(usize, usize), ReadError> {
    let fail = |error: Cause| ReadError::refs(repo, error);
    let mut all = Vec::new();
    let references = repo.references().map_err(|error| fail(error.into()))?;
    for reference in references.prefixed(KEEP).map_err(|error| fail(error.into()))? {
        let reference = reference.map_err(fail)?.detach();
        if let Some(id) = reference.target.try_id() {
            all.push((id.to_owned(), reference));
        }
    }
    let reachable = reachable(repo, &all.iter().map(|(id, _)| *id).collect())?;
    let edits: Vec<RefEdit> = all
        .iter()
        .filter(|(id, _)| reachable.contains(id) || !spoken_of.contains(id))
        .map(|(_, reference)| RefEdit {
            change: Change::Delete {
                expected: PreviousValue::ExistingMustMatch(reference.target.clone()),
                log: RefLog::AndReference,
            },
            name: reference.name.clone(),
            deref: false,
        })
        .collect();
    let removed = edits.len();
    repo.edit_references(edits).map_err(|error| fail(error.into()))?;
    Ok((removed, all.len() - removed))
}

/// Which of the commits a branch or a tag leads to.
fn reachable(repo: &gix::Repository, wanted: &HashSet<ObjectId>) -> Result<HashSet<ObjectId>, ReadError> {
    let mut found = HashSet::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let tips: Vec<ObjectId> = crate::revision::tips(repo)?;
    let fail = |error: Cause| ReadError::refs(repo, error);
    for commit in repo.rev_walk(tips).all().map_err(|error| fail(error.into()))? {
        let commit = commit.map_err(|error| fail(error.into()))?;
        if wanted.contains(&commit.id) {
            found.insert(commit.id);
            if found.len() == wanted.len() {
                break;
            }
        }
    }
    Ok(found)
}
