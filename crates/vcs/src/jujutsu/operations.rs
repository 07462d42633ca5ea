//! The log of operations, as history and for undo.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, executor::block_on};
use jj_lib::{
    object_id::ObjectId as _,
    op_store::RefTarget,
    op_walk::walk_ancestors,
    operation::Operation as JjOperation,
    ref_name::RemoteName,
    repo::{ReadonlyRepo, Repo as _},
    view::View,
};
use serde::{Deserialize, Serialize};

use super::{
    error::{Cause, EngineError},
    import::REMOTE,
};
use crate::id::CommitId;

/// The name of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

/// A text that is not the full name of an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no operation: its full name in hexadecimal digits is needed")]
pub struct ParseOperationIdError {
    /// What was given.
    pub text: String,
}

impl OperationId {
    pub(super) fn from_hex(hex: String) -> Self {
        Self(hex)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OperationId {
    type Err = ParseOperationIdError;

    fn from_str(text: &str) -> Result<Self, ParseOperationIdError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if digits && text.len() == 128 {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseOperationIdError { text: text.to_owned() })
        }
    }
}

impl TryFrom<String> for OperationId {
    type Error = ParseOperationIdError;

    fn try_from(text: String) -> Result<Self, ParseOperationIdError> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0
    }
}

/// What moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RefKind {
    /// A branch, which Jujutsu calls a bookmark.
    Bookmark,
    /// A tag.
    Tag,
}

/// A movement of a bookmark or a tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    /// What it is.
    pub kind: RefKind,
    /// Its short name.
    pub name: String,
    /// Where it was. `None` when it is new.
    pub from: Option<CommitId>,
    /// Where it is. `None` when it was removed.
    pub to: Option<CommitId>,
}

/// Where bookmarks and tags are at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Positions {
    /// The bookmarks of the remote.
    pub bookmarks: BTreeMap<String, CommitId>,
    /// The tags.
    pub tags: BTreeMap<String, CommitId>,
}

/// An operation of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Its name.
    pub id: OperationId,
    /// When it ended.
    pub time: jiff::Timestamp,
    /// What it was.
    pub description: String,
    /// What it moved.
    pub moves: Vec<Move>,
}

/// Our name of a commit. The root that Jujutsu puts before all commits has none.
pub(super) fn commit_id(id: &jj_lib::backend::CommitId) -> Option<CommitId> {
    gix::ObjectId::try_from(id.as_bytes()).ok().filter(|id| !id.is_null()).map(CommitId)
}

pub(super) fn positions(view: &View) -> Positions {
    // Targets never conflict here: only imports write them, one after the other.
    let target = |target: &RefTarget| target.added_ids().next().and_then(commit_id);
    Positions {
        bookmarks: view
            .remote_bookmarks(RemoteName::new(REMOTE))
            .filter_map(|(name, remote)| Some((name.as_str().to_owned(), target(&remote.target)?)))
            .collect(),
        tags: view
            .local_tags()
            .filter_map(|(name, at)| Some((name.as_str().to_owned(), target(at)?)))
            .collect(),
    }
}

/// What moved between two times, bookmarks first, in the order of names.
pub(super) fn moves(before: &Positions, after: &Positions) -> Vec<Move> {
    let mut moves = moved(RefKind::Bookmark, &before.bookmarks, &after.bookmarks);
    moves.extend(moved(RefKind::Tag, &before.tags, &after.tags));
    moves
}

fn moved(
    kind: RefKind,
    before: &BTreeMap<String, CommitId>,
    after: &BTreeMap<String, CommitId>,
) -> Vec<Move> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let mut moves: Vec<Move> = after
        .keys()
        .chain(gone)
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| Move {
            kind,
            name: name.clone(),
            from: before.get(name).copied(),
            to: after.get(name).copied(),
        })
        .collect();
    moves.sort_by(|a, b| a.name.cmp(&b.name));
    moves
}

fn fail(error: impl Into<Cause>) -> EngineError {
    EngineError::Operations(error.into())
}

/// The last operations, the newest first. The one that created the store is not told: it moved nothing.
pub(super) fn list(repo: &Arc<ReadonlyRepo>, limit: usize) -> Result<Vec<Operation>, EngineError> {
    let heads = [repo.operation().clone()];
    let operations: Vec<JjOperation> =
        block_on(walk_ancestors(&heads).take(limit).try_collect()).map_err(fail)?;
    let mut listed = Vec::new();
    for operation in operations {
        let Some(before) = view_before(&operation)? else { continue };
        let after = block_on(operation.view()).map_err(fail)?;
        let metadata = operation.metadata();
        let time = jiff::Timestamp::from_millisecond(metadata.time.end.timestamp.0).unwrap_or_default();
        listed.push(Operation {
            id: OperationId::from_hex(operation.id().hex()),
            time,
            description: metadata.description.clone(),
            moves: moves(&positions(&before), &positions(&after)),
        });
    }
    Ok(listed)
}

/// The view that an operation began with; the root operation has none.
fn view_before(operation: &JjOperation) -> Result<Option<View>, EngineError> {
    let parents = block_on(operation.parents()).map_err(fail)?;
    parents.first().map(|parent| block_on(parent.view()).map_err(fail)).transpose()
}

/// Where everything was before an operation.
pub(super) fn before(repo: &Arc<ReadonlyRepo>, id: &OperationId) -> Result<Positions, EngineError> {
    let missing = || EngineError::NoSuchOperation { id: id.to_string() };
    let jj_id = jj_lib::op_store::OperationId::try_from_hex(&id.0).ok_or_else(missing)?;
    let data = match block_on(repo.op_store().read_operation(&jj_id)) {
        Ok(data) => data,
        Err(jj_lib::op_store::OpStoreError::ObjectNotFound { .. }) => return Err(missing()),
        Err(error) => return Err(fail(error)),
    };
    let operation = JjOperation::new(repo.op_store().clone(), jj_id, data);
    Ok(view_before(&operation)?.map(|view| positions(&view)).unwrap_or_default())
}

/// Where everything is now.
pub(super) fn now(repo: &Arc<ReadonlyRepo>) -> Positions {
    positions(repo.view())
}
