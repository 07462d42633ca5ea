//! Where a field is.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A path into an object, shown as `spec.template.spec.containers[name=app].image`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldPath(pub Vec<Step>);

/// One step of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A field, or an entry of a map.
    Field(String),
    /// The item of a list that has these values in its key fields.
    Key(Vec<(String, Value)>),
    /// A member of a set.
    Member(Value),
    /// The item of a list at a place, counted from 0.
    Index(usize),
}

impl FieldPath {
    /// Whether the path starts with these fields.
    pub fn starts_with(&self, fields: &[&str]) -> bool {
        self.0.len() >= fields.len()
            && self
                .0
                .iter()
                .zip(fields)
                .all(|(step, field)| matches!(step, Step::Field(name) if name == field))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(the whole object)");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if is_word(name) => {
                    write!(f, "{}{name}", if at == 0 { "" } else { "." })?;
                }
                Step::Field(name) => write!(f, "[{}]", Value::from(name.as_str()))?,
                Step::Key(keys) => {
                    for (at, (name, value)) in keys.iter().enumerate() {
                        write!(f, "{}{name}={}", if at == 0 { "[" } else { "," }, Plain(value))?;
                    }
                    f.write_str("]")?;
                }
                Step::Member(value) => write!(f, "[={}]", Plain(value))?,
                Step::Index(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

impl Serialize for FieldPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text without quotes, anything else as JSON.
struct Plain<'a>(&'a Value);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(text),
            other => write!(f, "{other}"),
        }
    }
}

fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'$'))
}
