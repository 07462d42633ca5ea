//! The field walk: every field of a kind's schema is set, changed, removed and set to nonsense, as Acto does it.
//!
//! [`cases`] derives the cases from a CRD and one good object, purely. [`run`] plays them on a real control plane
//! where the controller runs, and finds: a controller that dies, a status that does not explain, a state that
//! depends on how it was reached, and one that cannot be left again.

mod pattern;
mod play;
mod schema;
mod values;

use std::fmt;

use serde_json::Value;

pub use play::{Finding, Hooks, Report, run};
pub use schema::cases;

/// What a case does to its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// Sets a field that the base object does not have.
    Set,
    /// Changes a field that it has.
    Change,
    /// Removes a field that it has.
    Remove,
    /// Sets a value that breaks the schema.
    Illegal,
    /// Sets a value that the schema may allow and that no one has in mind: paths, flags, control characters.
    Hostile,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set => "set",
            Self::Change => "change",
            Self::Remove => "remove",
            Self::Illegal => "illegal",
            Self::Hostile => "hostile",
        })
    }
}

/// What the API server has to say to a case, as far as the schema tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expect {
    /// The schema allows it and nothing else has a say.
    Accepted,
    /// The schema forbids it.
    Refused,
    /// A CEL rule, a logical combination or an unknown pattern decides.
    Either,
}

/// One case: an object to apply, and what to expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The field, as `spec.a.b[0].c`.
    pub path: String,
    /// What is done to it.
    pub deed: Deed,
    /// With which value, or why it is illegal.
    pub what: String,
    /// The whole object.
    pub object: Value,
    /// What the API server says.
    pub expect: Expect,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.deed, self.path, self.what)
    }
}
