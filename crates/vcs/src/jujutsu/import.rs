//! Takes over what moved in the mirror.

use std::{collections::HashMap, sync::Arc};

use futures::executor::block_on;
use jj_lib::{
    git::{GitImportOptions, GitImportStats, GitRefKind, import_some_refs},
    object_id::ObjectId as _,
    ref_name::RemoteRefSymbol,
    repo::{ReadonlyRepo, Repo as _},
    transaction::Transaction,
};
use serde::Serialize;

use super::{
    error::{Cause, EngineError},
    operations::{self, Move, OperationId},
};
use crate::{
    id::CommitId,
    revision::{BRANCHES, TAGS},
};

/// The remote of every mirror.
pub(super) const REMOTE: &str = "origin";

/// A ref that cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedRef {
    /// Its full name, with bytes that are not UTF-8 replaced.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What an import brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Imported {
    /// The operation that recorded it. `None` when nothing had moved.
    pub operation: Option<OperationId>,
    /// What moved.
    pub moves: Vec<Move>,
    /// Commits that no bookmark and no tag leads to any more.
    pub abandoned: Vec<CommitId>,
    /// Refs that cannot be taken over. They stay where they were.
    pub failed: Vec<FailedRef>,
    /// When the store had to be built again: why. The log of operations begins anew then.
    pub rebuilt: Option<String>,
}

/// Imports the branches of the remote and the tags, but for those whose full names are not wanted.
pub(super) fn import(
    repo: &Arc<ReadonlyRepo>,
    description: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<(Arc<ReadonlyRepo>, Imported), EngineError> {
    let mut transaction = repo.start_transaction();
    let stats = take_over(&mut transaction, wanted)?;
    let failed = stats.failed_ref_names.iter().map(|name| FailedRef {
        name: name.to_string(),
        reason: "its name is not UTF-8, or reserved".to_owned(),
    });
    let abandoned = stats.abandoned_commits.iter().filter_map(|commit| operations::commit_id(commit.id()));
    let mut imported = Imported {
        moves: operations::moves(
            &operations::positions(repo.view()),
            &operations::positions(transaction.repo().view()),
        ),
        abandoned: abandoned.collect(),
        failed: failed.collect(),
        ..Imported::default()
    };
    imported.abandoned.sort_unstable();
    if imported.moves.is_empty() {
        return Ok((repo.clone(), imported));
    }
    let repo = block_on(transaction.commit(description)).map_err(fail)?;
    imported.operation = Some(OperationId::from_hex(repo.op_id().hex()));
    Ok((repo, imported))
}

/// Tries whether refs could be imported, and records nothing.
pub(super) fn dry_run(repo: &Arc<ReadonlyRepo>, wanted: impl Fn(&str) -> bool) -> Result<(), EngineError> {
    take_over(&mut repo.start_transaction(), wanted).map(|_| ())
}

/// Takes over what moved.
///
/// Bookmarks are not tracked: a local bookmark of our own would only repeat the remote's, and could conflict with it.
/// Predecessors are not recorded: jj-lib would rebase descendants onto rewritten commits, and so write commits that
/// nobody has pushed.
fn take_over(
    transaction: &mut Transaction,
    wanted: impl Fn(&str) -> bool,
) -> Result<GitImportStats, EngineError> {
    let options = GitImportOptions {
        abandon_unreachable_commits: true,
        record_synthetic_predecessors: false,
        remote_auto_track_bookmarks: HashMap::new(),
    };
    let wanted = |kind: GitRefKind, symbol: RemoteRefSymbol<'_>| {
        let name = symbol.name.as_str();
        match kind {
            GitRefKind::Tag => wanted(&format!("{TAGS}{name}")),
            GitRefKind::Bookmark => symbol.remote.as_str() == REMOTE && wanted(&format!("{BRANCHES}{name}")),
        }
    };
    let stats = block_on(import_some_refs(transaction.repo_mut(), &options, wanted)).map_err(fail)?;
    // There are no descendants to rebase, since all that is visible comes from refs. This settles the visible heads.
    block_on(transaction.repo_mut().rebase_descendants()).map_err(fail)?;
    Ok(stats)
}

fn fail(error: impl Into<Cause>) -> EngineError {
    EngineError::Import(error.into())
}
