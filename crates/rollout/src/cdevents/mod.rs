//! `CDEvents` to sinks: what became of a service, for whoever listens.
//!
//! ```text
//!   plan ─► status.cdEvents (pending) ─ stored ─► Outbox ─► one queue a sink ─► HTTP, CloudEvents in binary mode
//!                    ▲                                                                   │
//!                    └──────────── the entry goes when every sink has taken it ◄─────────┘
//! ```
//!
//! An event is written down with the status that it tells of, and sent only after that status is stored. It stays there
//! until every sink has taken it: a controller that is killed in between sends it again, with the same id. So each event
//! arrives at least once, and a receiver knows a repetition by its id, which is made from the Rollout's UID, the revision
//! and the transition (its kind and its number).
//!
//! A sink that is away is tried again with growing waits. Each queue is bounded: when it is full the oldest event is
//! dropped and counted. What is dropped still stands in the status and is offered again at the next look.

mod build;
mod outbox;
mod purl;
mod sink;
#[cfg(test)]
mod tests;

pub use build::{BuildError, Message, Origin, build, id};
pub use outbox::{Outbox, OutboxMetrics, OutboxOptions, Post, Posting, Refusal, Web, Woken};
pub use purl::purl;
pub use sink::{Sink, SinkError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What became of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Happening {
    /// It runs for the first time.
    Deployed,
    /// A new revision became the stable one.
    Upgraded,
    /// It can be reached through traffic.
    Published,
    /// An earlier revision was restored.
    RolledBack,
    /// It is gone.
    Removed,
}

impl Happening {
    /// The word that ids and metrics are made with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Upgraded => "upgraded",
            Self::Published => "published",
            Self::RolledBack => "rolledback",
            Self::Removed => "removed",
        }
    }
}

/// One event, with all that it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// What happened.
    pub happening: Happening,
    /// Namespace of the Rollout.
    pub namespace: String,
    /// Name of the Rollout.
    pub name: String,
    /// UID of the Rollout.
    pub uid: String,
    /// The revision that it is about; the restored one for [`Happening::RolledBack`].
    pub revision: i64,
    /// Which of the Rollout's transitions it is.
    pub number: i64,
    /// Image of that revision's first container.
    pub image: Option<String>,
    /// When it happened.
    pub at: Timestamp,
}
