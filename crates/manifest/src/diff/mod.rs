//! What differs between the object that is wanted and the one that lives in the cluster.
//!
//! Server-side apply keeps a list of who set which field. That list decides here what a difference is:
//!
//! ```text
//!   wanted and live differ              → difference, with whoever else set the live value
//!   not wanted, but ours in the cluster → difference: an apply would remove it
//!   not wanted, not ours                → none: a default, or somebody else's business
//! ```
//!
//! Values are compared by what they mean: `1000m` is `1` where the field is a quantity, `"80"` is `80` where it takes
//! both, base64 is what it decodes to, and items of a list are found by their keys. What is replaced as a whole (a
//! selector, the tolerations) is compared as a whole, but for defaults that the server adds inside. The order of items
//! that have keys is no difference.
//!
//! An explicit `null` in the wanted object accepts whatever the server makes of it. The versions of both objects should
//! be the same: read the live one in the version of the wanted one.

mod atomic;
mod comparable;
mod compare;
mod keys;
mod list;
mod managers;
mod owned;
mod path;
mod quantity;
mod scalar;
mod secret;
mod value;
mod walk;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use comparable::comparable;
pub use owned::{owned, owned_digest};
pub use path::{FieldPath, Step};
pub use secret::fold_string_data;
pub use value::FieldValue;

use crate::schema::Schema;

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Where.
    pub path: FieldPath,
    /// What is wanted; `None` when the field is to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<FieldValue>,
    /// What is there; `None` when the field is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<FieldValue>,
    /// Who else has set the live value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// A manager of fields, as the API server knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The name it gave itself.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource it wrote through, such as `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// What is to happen to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Change {
    /// It is missing.
    Add,
    /// It has another value.
    Replace,
    /// It is there and not wanted.
    Remove,
}

/// Differences between a wanted object and the live one, for the field manager that applies it, with what is known
/// about built-in kinds. See the module for what counts.
pub fn diff(wanted: &Value, live: &Value, manager: &str) -> Vec<Difference> {
    diff_with(Schema::built_in(), wanted, live, manager)
}

/// The same, with what is known about other kinds too.
pub fn diff_with(schema: &Schema, wanted: &Value, live: &Value, manager: &str) -> Vec<Difference> {
    walk::diff(schema, wanted, live, manager)
}

/// Differences between two documents, field by field: what one has and the other has not is a difference too, unless it
/// is a default that the server is known to fill in. The first is the wanted one in each [`Difference`].
pub fn compare(a: &Value, b: &Value) -> Vec<Difference> {
    compare_with(Schema::built_in(), a, b)
}

/// The same, with what is known about other kinds too.
pub fn compare_with(schema: &Schema, a: &Value, b: &Value) -> Vec<Difference> {
    compare::compare(schema, a, b)
}

impl Difference {
    /// What is to happen to the field.
    pub fn change(&self) -> Change {
        match (&self.wanted, &self.live) {
            (Some(_), None) => Change::Add,
            (None, _) => Change::Remove,
            (Some(_), Some(_)) => Change::Replace,
        }
    }

    /// The difference as a sentence with other words for the two sides, such as the names of two files.
    pub fn between(&self, wanted: &str, live: &str) -> String {
        let side = |name: &str, value: Option<&FieldValue>| match value {
            Some(value) => format!("{name} {value}"),
            None => format!("not in {name}"),
        };
        format!("{}: {}, {}", self.path, side(wanted, self.wanted.as_ref()), side(live, self.live.as_ref()))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match (&self.wanted, &self.live) {
            (Some(wanted), Some(live)) => write!(f, "wanted {wanted}, live {live}")?,
            (Some(wanted), None) => write!(f, "wanted {wanted}, missing in the cluster")?,
            (None, Some(live)) => write!(f, "no longer wanted, live {live}")?,
            (None, None) => f.write_str("no longer wanted")?,
        }
        match &self.owner {
            Some(owner) => write!(f, ", set by {owner}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.manager, self.operation)?;
        match &self.subresource {
            Some(subresource) => write!(f, " of {subresource})"),
            None => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod drawn;
#[cfg(test)]
mod tests;
