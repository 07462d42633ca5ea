//! Edits on top of a commit become new commits, in the object database and without a work tree.
//!
//! ```text
//!  parent ──tree──┐
//!                 ├─► new blobs and trees ─┐
//!  Edits ─────────┘                        ├─► one pack, synced ─► CommitIds
//!  author, message, key, change id ────────┘
//! ```
//!
//! Nothing here names a commit by a ref: that is what [`push`](crate::push) does, after all of it is on disk.
//!
//! # Guarantees
//! - The same parent, edits, persons, message, change id and key give the same commit id: a push whose answer was lost
//!   is recognised by it.
//! - Edits that change nothing make no commit.
//! - When [`write`] returns, the objects survive a crash of the machine. Killed before, it leaves at most temporary
//!   files and objects that nothing names.

mod batch;
mod edits;
mod message;
mod pack;
mod path;
mod person;
mod revert;
mod rsa;
mod sign;
mod store;
mod tree;

use std::sync::Arc;

use gix::objs::Kind;

pub use edits::{Edit, EditError, Edits};
pub use message::{Message, MessageError};
pub use path::{BadPath, BadPathReason, check as check_path};
pub use person::{Person, PersonError};
pub use revert::{RevertError, revert, with_trailers};
pub use sign::{KeyError, SignError, SshSigner};
pub use store::StoreError;

use crate::{
    id::{ChangeId, CommitId, TreeId},
    jujutsu::{self, ConflictError},
    repo::{self, ReadError, Repo},
};
use batch::Batch;

/// A commit to be written.
#[derive(Debug, Clone)]
pub struct CommitSpec {
    /// What it changes.
    pub edits: Edits,
    /// Who made the change.
    pub author: Person,
    /// Who made the commit.
    pub committer: Person,
    /// What it says.
    pub message: Message,
    /// Signs the commit.
    pub signer: Option<Arc<SshSigner>>,
    /// Jujutsu's name for the change, which stays when the commit is rewritten.
    pub change_id: Option<[u8; 16]>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The new commits, oldest first. Empty when nothing changes.
    pub commits: Vec<CommitId>,
    /// The tree of the last one, or of the parent when there is none.
    pub tree: TreeId,
}

/// Commits that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The author or the committer cannot be recorded.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// The message cannot be written.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The key did not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// Jujutsu's conflicted commits hold several trees; none of them is the one to edit.
    #[error(transparent)]
    Parent(#[from] ConflictError),
    /// An object is missing or cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The hash function noticed an attempt at a collision.
    #[error("a new object cannot be named")]
    Hash {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The new objects cannot be stored.
    #[error("cannot store the new objects")]
    Store(#[from] StoreError),
}

impl WriteError {
    /// A word for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Person(_) | Self::Message(_) => "Invalid",
            Self::Sign(_) => "Signing",
            Self::Parent(error) => error.category(),
            Self::Read(error) => error.category(),
            Self::Hash { .. } | Self::Store(_) => "Storage",
        }
    }
}

/// Writes the commits one on top of the other, the first one on the parent; without a parent it begins a new history.
///
/// A spec whose edits change nothing is left out. Blocks on the disk: call it from a thread that may.
pub fn write(repo: &Repo, parent: Option<CommitId>, specs: &[CommitSpec]) -> Result<Written, WriteError> {
    let local = repo.local();
    let mut batch = Batch::new(&local);
    let mut tip = parent.map(|CommitId(id)| id);
    let mut tree = match parent {
        Some(parent) => {
            jujutsu::require_clean(repo, parent)?;
            repo::tree_of(&local, parent.0)?
        }
        None => gix::ObjectId::empty_tree(local.object_hash()),
    };
    let mut commits = Vec::new();
    for spec in specs {
        let edited = tree::apply(&mut batch, tree, &spec.edits)?;
        if edited == tree {
            continue;
        }
        let commit = batch.add(Kind::Commit, encode(spec, edited, tip)?)?;
        commits.push(CommitId(commit));
        (tip, tree) = (Some(commit), edited);
    }
    // Without a commit nothing would name what the edits may have made on the way.
    if !commits.is_empty() {
        let folder = local.objects.store_ref().path();
        store::store(folder, &batch.into_objects(), local.object_hash())?;
    }
    Ok(Written { commits, tree: TreeId(tree) })
}

fn encode(
    spec: &CommitSpec,
    tree: gix::ObjectId,
    parent: Option<gix::ObjectId>,
) -> Result<Vec<u8>, WriteError> {
    let parent = parent.map(|id| format!("parent {}\n", id.to_hex())).unwrap_or_default();
    let change = spec.change_id.map(|id| format!("change-id {}\n", ChangeId::from(id))).unwrap_or_default();
    let (author, committer) = (spec.author.header("author")?, spec.committer.header("committer")?);
    let tree = tree.to_hex();
    let head = format!("tree {tree}\n{parent}author {author}\ncommitter {committer}\n{change}");
    let message = spec.message.render()?;
    let plain = format!("{head}\n{message}");
    let Some(signer) = &spec.signer else { return Ok(plain.into_bytes()) };
    let signature = signer.sign(plain.as_bytes())?.replace('\n', "\n ");
    Ok(format!("{head}gpgsig {signature}\n\n{message}").into_bytes())
}
