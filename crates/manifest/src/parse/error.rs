//! Why a text could not be read.

use super::Position;

/// Why a text could not be read. Names places and keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text breaks the grammar of YAML (or JSON).
    #[error("{position}: {message}")]
    Syntax {
        /// Where.
        position: Position,
        /// What the reader expected or found, without the text itself.
        message: String,
    },
    /// The bytes are not UTF-8.
    #[error("{position}: the text is not UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// The first byte that does not fit.
        position: Position,
    },
    /// One key stands twice in a map.
    #[error("{position}: the key {key} is already set at {first}; keep one of them")]
    DuplicateKey {
        /// The key, quoted and cut to a sane length.
        key: String,
        /// The second place.
        position: Position,
        /// The first place, or “an earlier line” where the reader did not keep it.
        first: String,
    },
    /// A key that JSON cannot hold: null, a collection, an integer beyond 64 bits.
    #[error("{position}: {found} cannot be a key; quote it to make it a string")]
    Key {
        /// Where.
        position: Position,
        /// What stands there, in words.
        found: &'static str,
    },
    /// `.inf` or `.nan`.
    #[error("{position}: JSON has no infinite numbers and no NaN; quote it to make it a string")]
    NotFinite {
        /// Where.
        position: Position,
    },
    /// A scalar does not fit the tag before it.
    #[error("{position}: the value is no {tag}; correct it or remove the tag")]
    Tag {
        /// Where.
        position: Position,
        /// The tag's name, such as `!!int`.
        tag: String,
    },
    /// `<<` has something else than maps.
    #[error("{position}: `<<` merges maps only; give it a map, an alias of a map or a list of these")]
    Merge {
        /// Where the value of `<<` stands.
        position: Position,
    },
    /// An anchor's value contains an alias of itself.
    #[error("{position}: the alias stands inside of the value it repeats")]
    AliasOfItself {
        /// Where the alias stands.
        position: Position,
    },
    /// A character that is a line break in YAML 1.1 and none in YAML 1.2, so that readers disagree.
    #[error(
        "{position}: the character {character} is a line break for some readers; write it as an escape in double quotes"
    )]
    AmbiguousBreak {
        /// Where.
        position: Position,
        /// Its name, such as `U+2028`.
        character: &'static str,
    },
    /// A document that should be an object is something else.
    #[error("{position}: expected an object (a map), found {found}")]
    NotAnObject {
        /// Where the document starts.
        position: Position,
        /// What it is, in words.
        found: &'static str,
    },
    /// The text is too long.
    #[error("the text has {bytes} bytes, more than the limit of {limit}; split the file")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// There are too many values.
    #[error("{position}: more than {limit} values in one text; split the file")]
    TooManyNodes {
        /// Where the limit was passed.
        position: Position,
        /// How many may be.
        limit: usize,
    },
    /// There are too many documents.
    #[error("{position}: more than {limit} documents in one text; split the file")]
    TooManyDocuments {
        /// Where the limit was passed.
        position: Position,
        /// How many may be.
        limit: usize,
    },
    /// Collections are nested too deeply.
    #[error("{position}: more than {limit} collections inside of each other")]
    TooDeep {
        /// Where the limit was passed.
        position: Position,
        /// How many may be.
        limit: usize,
    },
    /// Aliases repeat too much.
    #[error("{position}: the aliases repeat more than {nodes} values or {bytes} bytes; write the values out")]
    TooManyAliases {
        /// The alias that passed the limit.
        position: Position,
        /// How many values may be repeated.
        nodes: usize,
        /// How many bytes may be repeated.
        bytes: usize,
    },
}

impl ParseError {
    /// A short name of the class, for metrics and events.
    pub fn category(&self) -> &'static str {
        match self {
            Self::TooLarge { .. }
            | Self::TooManyNodes { .. }
            | Self::TooManyDocuments { .. }
            | Self::TooDeep { .. }
            | Self::TooManyAliases { .. } => "limit",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::NotAnObject { .. } => "not-an-object",
            Self::NotUtf8 { .. } => "encoding",
            _ => "syntax",
        }
    }

    /// The place the error is about, where there is one.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { position, .. }
            | Self::NotUtf8 { position }
            | Self::DuplicateKey { position, .. }
            | Self::Key { position, .. }
            | Self::NotFinite { position }
            | Self::Tag { position, .. }
            | Self::Merge { position }
            | Self::AliasOfItself { position }
            | Self::AmbiguousBreak { position, .. }
            | Self::NotAnObject { position, .. }
            | Self::TooManyNodes { position, .. }
            | Self::TooManyDocuments { position, .. }
            | Self::TooDeep { position, .. }
            | Self::TooManyAliases { position, .. } => Some(*position),
            Self::TooLarge { .. } => None,
        }
    }
}

/// A key as errors show it: quoted, control characters escaped, at most 60 characters.
pub(super) fn shown_key(key: &str) -> String {
    const MOST: usize = 60;
    if key.chars().count() <= MOST {
        return format!("{key:?}");
    }
    let cut: String = key.chars().take(MOST).collect();
    format!("{cut:?}…")
}

/// What a value is, in words.
pub(crate) fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a string",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "a map",
    }
}
