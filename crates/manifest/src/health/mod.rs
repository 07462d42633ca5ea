//! How an object fares, from nothing but the object.
//!
//! ```text
//!  object ──► rules of the user ──► built-in kinds (Rust) ──► embedded rules (YAML + CEL) ──► generic rule ──► Health
//!              the first that knows the kind decides; a rule without an answer asks the generic one
//! ```
//!
//! Assumes: the object is what an API server returned, or what somebody wrote into a file; anything else is taken too.
//! Guarantees: never fails, never panics, ends; the same object has the same health; what is being deleted is never
//! Healthy; doubt is never Healthy: a status that is missing (but for a schedule, which has nothing to tell before its
//! first run) or tells of an older spec is Progressing, one that cannot be understood is Unknown. Messages are for people and at most about a thousand bytes long.
//!
//! [`generic`] alone judges any kind by the conventions of Kubernetes. [`Rules`] know better for the kinds they name; how
//! to write them is told in `docs/health.md`.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

mod builtin;
mod conditions;
mod counts;
mod generic;
mod object;
mod role;
mod rules;
mod vocabulary;
mod words;
mod yaml;

pub use generic::{generic, waits_for_any_status};
pub use rules::{RuleError, Rules};

/// Judges an object by what is built in: see [`Rules::builtin`].
pub fn health(object: &serde_json::Value) -> Health {
    Rules::builtin().health(object)
}

/// How an object fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It is what it should be.
    Healthy,
    /// It is on its way there.
    Progressing,
    /// It failed, or cannot get there by itself.
    Degraded,
    /// It rests on purpose.
    Suspended,
    /// It does not exist.
    Missing,
    /// It cannot be judged.
    Unknown,
}

impl Status {
    /// The word of the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Suspended => "Suspended",
            Self::Missing => "Missing",
            Self::Unknown => "Unknown",
        }
    }

    pub(self) const fn gravity(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Unknown => 1,
            Self::Progressing => 2,
            Self::Suspended => 3,
            Self::Missing => 4,
            Self::Degraded => 5,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A judgement: the status and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How the object fares.
    pub status: Status,
    /// Why, for a person.
    pub message: String,
}

/// Bytes of a message at most: some operators put whole logs into a condition.
const LONGEST: usize = 1000;

impl Health {
    pub(self) fn deleting() -> Self {
        Self::new(Status::Progressing, "pending deletion")
    }

    /// Makes the message one for people: cut where nobody would read to its end, and never empty where something is
    /// amiss.
    fn told(mut self) -> Self {
        if self.status != Status::Healthy && self.message.trim().is_empty() {
            "The status gives no reason".clone_into(&mut self.message);
        }
        if self.message.len() > LONGEST {
            let end = self.message.floor_char_boundary(LONGEST);
            self.message.truncate(end);
            self.message.push('…');
        }
        self
    }

    pub(self) fn new(status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into().into_owned() }
    }
}
