//! Why a text could not be edited in place.

use crate::parse::{ParseError, Position};

/// Why a text could not be edited in place. The text is never half edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text cannot be read.
    #[error("the file cannot be read: {0}")]
    Parse(#[from] ParseError),
    /// The text is a template: its objects exist only after rendering.
    #[error("{position}: the text is a template here; change its values instead")]
    Templated {
        /// Where the template stands.
        position: Position,
    },
    /// There is no such object.
    #[error("the file does not hold the object; it may have moved to another file")]
    NotFound,
    /// Several objects fit.
    #[error("the file holds the object twice, at {first} and at {second}; remove one of them")]
    Ambiguous {
        /// The first place.
        first: Position,
        /// The second place.
        second: Position,
    },
    /// The object must stay a map.
    #[error("an object is a map; the wanted value is not")]
    NotAnObject,
    /// The value is repeated elsewhere by aliases, which would change too.
    #[error(
        "{position}: aliases repeat this value, so that others would change with it; write them out first"
    )]
    Shared {
        /// Where the value stands.
        position: Position,
    },
    /// The member comes from a `<<` merge, which cannot take one back.
    #[error(
        "{position}: the key {key} comes from a merge (`<<`) and cannot be removed here; write the merge out first"
    )]
    Merged {
        /// Where the map stands.
        position: Position,
        /// The key.
        key: String,
    },
    /// The layout is beyond what an edit in place can do without touching more than it should.
    #[error("{position}: {what} cannot be edited in place; edit the file by hand or rewrite the object")]
    Unsupported {
        /// Where.
        position: Position,
        /// What stands there.
        what: &'static str,
    },
    /// The edited text would not say what is wanted, so that it was thrown away.
    #[error("the file's layout cannot express the change; edit the file by hand or rewrite the object")]
    NotExpressed,
}

impl EditError {
    /// A short name of the class, for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Parse(_) => "unreadable",
            Self::Templated { .. } => "templated",
            Self::NotFound | Self::Ambiguous { .. } => "not-found",
            Self::Shared { .. } | Self::Merged { .. } => "shared",
            Self::NotAnObject | Self::Unsupported { .. } | Self::NotExpressed => "not-expressed",
        }
    }
}
