//! Text → documents.
//!
//! YAML is read the way Kubernetes reads it: the structure of YAML, the plain scalars of YAML 1.1 as its Go reader
//! resolves them (`yes`, `on`, `0777` and `1_000` are no strings), the types of JSON. Text that starts like JSON is read
//! as JSON first, which is several times faster.
//!
//! ```text
//!  text ──► limits ──► events ──► scalar (1.1 words, numbers, tags) ──► Document { value, position, range }
//!                        │                                                  │
//!                        └──► tree (spans of every node, for edit)          └──► objects(): Lists flattened
//! ```
//!
//! Guarantees: no panic and no unbounded memory on any input ([`Limits`] are checked while reading); a key that stands
//! twice in a map is an error; errors name the place and never quote a value, since it may belong to a Secret.

mod build;
mod error;
mod json;
mod objects;
mod outdent;
mod scalar;
pub(crate) mod tree;

use std::ops::Range;

use serde_json::Value;

pub use self::{
    error::ParseError,
    objects::{Object, objects},
};
pub(crate) use self::{
    error::kind_of,
    scalar::{Plain, float, is_decimal, resolve_plain},
};

/// How much one text may cost. The defaults hold every sane repository file and stop the bombs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Values in the whole text, those that aliases repeat included.
    pub nodes: usize,
    /// Collections inside of each other.
    pub depth: usize,
    /// Documents in one text.
    pub documents: usize,
    /// Values that aliases may repeat.
    pub alias_nodes: usize,
    /// Bytes of text that aliases may repeat.
    pub alias_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            nodes: 4_000_000,
            depth: 200,
            documents: 50_000,
            alias_nodes: 100_000,
            alias_bytes: 8 << 20,
        }
    }
}

/// A place in a text, counted from one; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Position {
    /// The position of a byte of `text`; one past the end is fine, more is taken as the end.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Self { line, column }
    }
}

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Where its content starts.
    pub position: Position,
    /// The bytes of its content: from the first one to the last one, without the `---` before it.
    pub range: Range<usize>,
    /// Where the items of a top-level `items` stand, for Lists.
    items: Vec<Position>,
}

/// Reads all documents of a text. Empty ones are left out.
pub fn parse(text: &str, limits: &Limits) -> Result<Vec<Document>, ParseError> {
    if text.len() > limits.bytes {
        return Err(ParseError::TooLarge { bytes: text.len(), limit: limits.bytes });
    }
    let first = text.bytes().find(|b| !b.is_ascii_whitespace());
    if !matches!(first, Some(b'{' | b'[')) {
        return build::documents(text, limits);
    }
    // What starts like JSON may still be YAML in flow style, or JSON documents between `---` lines.
    match json::documents(text, limits) {
        Ok(documents) => Ok(documents),
        Err(failure) => match build::documents(text, limits) {
            Ok(documents) if !failure.is_final() => Ok(documents),
            Ok(_) => Err(failure.into_error(text)),
            Err(error) if failure.explains(&error, text) => Err(failure.into_error(text)),
            Err(error) => Err(error),
        },
    }
}

/// Reads all documents of a file as it was stored: refuses what is not UTF-8 and skips a byte order mark.
///
/// Ranges count from the byte after the mark.
pub fn parse_bytes(bytes: &[u8], limits: &Limits) -> Result<Vec<Document>, ParseError> {
    if bytes.len() > limits.bytes {
        return Err(ParseError::TooLarge { bytes: bytes.len(), limit: limits.bytes });
    }
    parse(text_of(bytes)?, limits)
}

/// The text of a stored file, without its byte order mark.
pub fn text_of(bytes: &[u8]) -> Result<&str, ParseError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        ParseError::NotUtf8 { position: Position::of(&String::from_utf8_lossy(valid), valid.len()) }
    })
}

/// Where the value stands that `pointer` (RFC 6901) names in the document at `index`, counted without empty ones.
///
/// Reads the text anew: meant for errors, which are rare, so that parsing stays fast.
pub fn locate(text: &str, index: usize, pointer: &str, limits: &Limits) -> Option<Position> {
    parse(text, limits).ok()?;
    let documents = tree::documents(text, limits).ok()?;
    let mut node = &documents.iter().filter(|d| !d.root.is_empty()).nth(index)?.root;
    for step in pointer.split('/').skip(1) {
        node = node.child(&step.replace("~1", "/").replace("~0", "~"))?;
    }
    Some(Position::of(text, node.range.start))
}
