//! Finds items of lists again, by their keys or by their value.
//!
//! Most lists are short, and to look through them is fastest. A list can be as long as the API server takes objects,
//! though, and then must not cost the square of it.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;

use super::scalar;
use crate::canonical;
use crate::digest::digest;
use crate::schema::Shape;

/// The fields that tell an item apart, with their values.
pub(super) type Key = Vec<(String, Value)>;

/// Up to so many are looked through.
const FEW: usize = 16;

/// The keys of the items of a list, all by the same fields in the same order.
pub(super) struct Keys {
    all: Vec<Key>,
    /// Filled for long lists.
    by_text: HashMap<String, usize>,
}

impl Keys {
    pub(super) fn new(all: Vec<Key>) -> Self {
        let mut by_text = HashMap::new();
        if all.len() > FEW {
            for (at, key) in all.iter().enumerate() {
                by_text.entry(text_of(key)).or_insert(at);
            }
        }
        Self { all, by_text }
    }

    /// Whether no two are the same.
    pub(super) fn are_unique(&self) -> bool {
        if self.all.len() > FEW {
            return self.by_text.len() == self.all.len();
        }
        self.all.iter().enumerate().all(|(at, key)| self.find(key) == Some(at))
    }

    pub(super) fn all(&self) -> &[Key] {
        &self.all
    }

    /// The place of a key.
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        if self.all.len() > FEW {
            return self.by_text.get(&text_of(key)).copied();
        }
        self.all.iter().position(|other| {
            other.len() == key.len() && other.iter().zip(key).all(|((_, a), (_, b))| scalar::equal(a, b))
        })
    }
}

/// The members of a set.
pub(super) struct Members<'v> {
    all: &'v [Value],
    shape: &'v Shape,
    /// Filled for long sets whose members are equal by their text.
    texts: HashSet<String>,
}

impl<'v> Members<'v> {
    pub(super) fn new(all: &'v [Value], shape: &'v Shape) -> Self {
        let texts = match shape {
            Shape::Scalar | Shape::Any if all.len() > FEW => all.iter().map(value_text).collect(),
            _ => HashSet::new(),
        };
        Self { all, shape, texts }
    }

    pub(super) fn holds(&self, member: &Value) -> bool {
        if self.texts.is_empty() {
            self.all.iter().any(|other| scalar::same(other, member, self.shape))
        } else {
            self.texts.contains(&value_text(member))
        }
    }
}

fn text_of(key: &Key) -> String {
    let mut text = String::with_capacity(32);
    for (_, value) in key {
        // Writing to a string cannot fail.
        let _ = write!(text, "{},", value_text(value));
    }
    text
}

/// A text that equal values share and others do not.
fn value_text(value: &Value) -> String {
    match value {
        Value::Number(number) => canonical::number(number),
        Value::Array(_) | Value::Object(_) => format!("{:?}", digest(value)),
        other => other.to_string(),
    }
}
