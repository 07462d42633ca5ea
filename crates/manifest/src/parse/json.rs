//! The fast way for text that is plain JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, map::Entry};

use super::{Document, Limits, ParseError, Position, error::shown_key, float};

/// Marks our own error among serde's, which carry text only.
const DUPLICATE: &str = "duplicate key ";

/// Why the text is not taken as JSON.
pub(super) enum Failure {
    Json(serde_json::Error, usize),
    Limit(ParseError),
}

impl Failure {
    /// Whether the text is JSON with an error that a YAML reader would not see.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Limit(_) => true,
            Self::Json(error, _) => {
                let text = error.to_string();
                text.starts_with(DUPLICATE) || text.starts_with("number out of range")
            }
        }
    }

    /// Whether this explains the text better than what the YAML reader said: it got at least as far. Of what is well
    /// formed, the YAML reader knows more (both places of a duplicate).
    pub fn explains(&self, other: &ParseError, text: &str) -> bool {
        match (self, other) {
            (Self::Limit(_), _) => true,
            (Self::Json(error, start), ParseError::Syntax { position: theirs, .. }) => {
                position(error, *start, text) >= *theirs
            }
            _ => false,
        }
    }

    pub fn into_error(self, text: &str) -> ParseError {
        let (error, start) = match self {
            Self::Limit(error) => return error,
            Self::Json(error, start) => (error, start),
        };
        let position = position(&error, start, text);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match message.strip_prefix(DUPLICATE) {
            Some(key) => ParseError::DuplicateKey {
                key: key.to_owned(),
                position,
                first: "an earlier place".to_owned(),
            },
            None => ParseError::Syntax { position, message: message.to_owned() },
        }
    }
}

/// The place of an error in the whole text, of which serde saw the part from `start` on.
fn position(error: &serde_json::Error, start: usize, text: &str) -> Position {
    let base = Position::of(text, start);
    let line = error.line().max(1);
    let column = error.column().max(1);
    if line == 1 {
        Position { line: base.line, column: base.column + column - 1 }
    } else {
        Position { line: base.line + line - 1, column }
    }
}

/// Reads one or more JSON values one after the other.
pub(super) fn documents(text: &str, limits: &Limits) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    let mut nodes = 0;
    let mut cursor = Cursor { offset: 0, position: Position { line: 1, column: 1 } };
    let mut at = skip_space(text, 0);
    while at < text.len() {
        let position = cursor.advance(text, at);
        if documents.len() == limits.documents {
            return Err(Failure::Limit(ParseError::TooManyDocuments { position, limit: limits.documents }));
        }
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Checked>();
        let checked = match stream.next() {
            Some(Ok(checked)) => checked,
            Some(Err(error)) => return Err(Failure::Json(error, at)),
            None => break,
        };
        nodes += checked.nodes;
        if nodes > limits.nodes {
            return Err(Failure::Limit(ParseError::TooManyNodes { position, limit: limits.nodes }));
        }
        if checked.depth > limits.depth {
            return Err(Failure::Limit(ParseError::TooDeep { position, limit: limits.depth }));
        }
        let end = at + stream.byte_offset();
        if !checked.value.is_null() {
            documents.push(Document { value: checked.value, position, range: at..end, items: Vec::new() });
        }
        at = skip_space(text, end);
    }
    Ok(documents)
}

/// Counts lines and columns once for all documents.
struct Cursor {
    offset: usize,
    position: Position,
}

impl Cursor {
    fn advance(&mut self, text: &str, to: usize) -> Position {
        let passed = text.get(self.offset..to).unwrap_or_default();
        self.offset = to;
        match passed.rfind('\n') {
            Some(at) => {
                self.position.line += passed.bytes().filter(|&b| b == b'\n').count();
                self.position.column = passed[at + 1..].chars().count() + 1;
            }
            None => self.position.column += passed.chars().count(),
        }
        self.position
    }
}

fn skip_space(text: &str, from: usize) -> usize {
    from + text.as_bytes()[from..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// A value without duplicate keys, and its size.
struct Checked {
    value: Value,
    nodes: usize,
    depth: usize,
}

impl Checked {
    fn leaf(value: Value) -> Self {
        Self { value, nodes: 1, depth: 0 }
    }
}

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckedVisitor)
    }
}

struct CheckedVisitor;

impl<'de> Visitor<'de> for CheckedVisitor {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked::leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Checked, E> {
        Ok(Checked::leaf(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Checked, E> {
        Ok(Checked::leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Checked, E> {
        Ok(Checked::leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Checked, E> {
        Ok(Checked::leaf(float(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Checked, E> {
        Ok(Checked::leaf(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Checked, E> {
        Ok(Checked::leaf(Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Checked, A::Error> {
        let (mut items, mut nodes, mut depth) = (Vec::new(), 1, 0);
        while let Some(item) = access.next_element::<Checked>()? {
            nodes += item.nodes;
            depth = depth.max(item.depth);
            items.push(item.value);
        }
        Ok(Checked { value: Value::Array(items), nodes, depth: depth + 1 })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Checked, A::Error> {
        let (mut map, mut nodes, mut depth) = (Map::new(), 1, 0);
        while let Some(key) = access.next_key::<String>()? {
            let place = match map.entry(key) {
                Entry::Vacant(place) => place,
                Entry::Occupied(taken) => {
                    return Err(serde::de::Error::custom(format!("{DUPLICATE}{}", shown_key(taken.key()))));
                }
            };
            let value = access.next_value::<Checked>()?;
            nodes += value.nodes;
            depth = depth.max(value.depth);
            place.insert(value.value);
        }
        Ok(Checked { value: Value::Object(map), nodes, depth: depth + 1 })
    }
}
