//! A value in a difference, which does not show what is secret.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::secret;

/// Longer values are cut when they are shown.
const MOST_SHOWN: usize = 120;

/// A value. What comes from the data of a Secret is shown by its size alone, whatever prints it: `Debug`, `Display` or
/// serde. Only [`FieldValue::expose`] gives it away.
#[derive(Clone, PartialEq)]
pub struct FieldValue {
    value: Value,
    secret: bool,
}

impl FieldValue {
    pub(super) fn new(value: &Value, secret: bool) -> Self {
        Self { value: value.clone(), secret }
    }

    /// Whether the value must not be shown.
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// The value itself. What is secret must not reach logs, events, status or errors.
    pub fn expose(&self) -> &Value {
        &self.value
    }

    /// The value as it may be shown.
    pub fn shown(&self) -> Value {
        if self.secret { secret::mask(&self.value) } else { self.value.clone() }
    }
}

impl fmt::Debug for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldValue({})", self.shown())
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.shown() {
            Value::String(text) if self.secret => text,
            other => other.to_string(),
        };
        match text.char_indices().nth(MOST_SHOWN) {
            Some((at, _)) => write!(f, "{}…", &text[..at]),
            None => f.write_str(&text),
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}
