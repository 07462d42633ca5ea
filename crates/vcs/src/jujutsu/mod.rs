//! Jujutsu: change ids, conflicts and the log of operations.
//!
//! What a commit's own headers tell is read from the repository with nothing else: [`is_jujutsu`], [`change_of`],
//! [`conflicts`], [`require_clean`]. What needs the history of rewrites is asked of the [`Engine`], which keeps jj-lib's
//! store in `jj/` beside the mirror's `git/`:
//!
//! ```text
//!  Engine (a handle, Send)          thread "jujutsu"                       on disk
//!    import ──────┐  closures in   ┌──────────────────┐  reads refs, objects  <mirror>/git   bare, refs/remotes/origin/*
//!    change ──────┼───────────────►│ jj-lib, not Send │─────────────────────► <mirror>/jj    operations, views, index
//!    operations ──┘◄───────────────└──────────────────┘  writes refs/jj/keep/* (so that `git gc` keeps rewritten commits)
//!                    replies out
//! ```
//!
//! The engine never writes a commit and never moves a branch or a tag. Its store can always be built again from the
//! mirror; only the log of operations is lost then, and [`Opened::Rebuilt`] says so.

mod change;
mod conflict;
mod engine;
mod error;
mod header;
mod import;
mod operations;
mod site;
mod store;
mod tidy;
mod worker;

pub use change::ChangeState;
pub use conflict::{ConflictError, Conflicted, conflicts, require_clean};
pub use engine::{Engine, Reply};
pub use error::EngineError;
pub use header::{change_of, is_jujutsu};
pub use import::{FailedRef, Imported};
pub use operations::{Move, Operation, OperationId, ParseOperationIdError, Positions, RefKind};
pub use store::Opened;
pub use tidy::Tidied;

pub(crate) use header::{change_id, with_commit};
