//! Fields of a foreign object, taken one by one. What nobody took is told.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_api::duration::Duration;

use super::{names, report::Report};

/// What a field that was not carried over is worth to the user when nothing special is known of it.
const UNKNOWN: &str = "is not known here and was not carried over";
const LOOK: &str =
    "Look up what it does and set the field of the Application that does the same, if there is one";

/// A part of an object. Every getter takes the field away; [`Fields::finish`] tells what is left.
#[derive(Debug)]
pub(super) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The fields of a value that stands at this path. What is no mapping has none, and is told.
    pub(super) fn of(path: &str, value: Value, report: &mut Report) -> Self {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => {
                report.left(path, "is no mapping and was not read", "Correct the object");
                Map::new()
            }
        };
        Self { path: path.to_owned(), map }
    }

    /// Path of a field in here.
    pub(super) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether there is something at this field.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !is_nothing(value))
    }

    /// The value, whatever it is.
    pub(super) fn value(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// A text. Numbers and truth values count as what they are written like; the empty text counts as none.
    pub(super) fn text(&mut self, key: &str, report: &mut Report) -> Option<String> {
        match self.value(key)? {
            Value::String(text) if text.is_empty() => None,
            value => self.told(key, "text", scalar(&value), report),
        }
    }

    /// A truth value.
    pub(super) fn flag(&mut self, key: &str, report: &mut Report) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.as_bool().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        self.told(key, "truth value", flag, report)
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: &str, report: &mut Report) -> Option<i64> {
        let value = self.value(key)?;
        let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        self.told(key, "whole number", number, report)
    }

    /// A length of time, as Go writes it; a bare number counts as seconds.
    pub(super) fn duration(&mut self, key: &str, report: &mut Report) -> Option<Duration> {
        let text = self.text(key, report)?;
        self.told(key, "duration", names::duration(&text), report)
    }

    /// A list.
    pub(super) fn list(&mut self, key: &str, report: &mut Report) -> Vec<Value> {
        match self.value(key) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => self.told(key, "list", None, report).unwrap_or_default(),
        }
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, key: &str, report: &mut Report) -> Vec<String> {
        let items = self.list(key, report);
        let texts: Vec<String> = items.iter().filter_map(scalar).collect();
        if texts.len() < items.len() {
            report.left(self.at(key), "holds something that is no text", "Correct the object");
        }
        texts
    }

    /// A mapping from text to text.
    pub(super) fn pairs(&mut self, key: &str, report: &mut Report) -> BTreeMap<String, String> {
        let map = self.map(key, report).unwrap_or_default();
        let pairs: BTreeMap<String, String> =
            map.iter().filter_map(|(name, value)| Some((name.clone(), scalar(value)?))).collect();
        if pairs.len() < map.len() {
            report.left(self.at(key), "holds something that is no text", "Correct the object");
        }
        pairs
    }

    /// A mapping of any shape.
    pub(super) fn map(&mut self, key: &str, report: &mut Report) -> Option<Map<String, Value>> {
        match self.value(key)? {
            Value::Object(map) => Some(map),
            _ => self.told(key, "mapping", None, report),
        }
    }

    /// A part of its own.
    pub(super) fn part(&mut self, key: &str, report: &mut Report) -> Option<Self> {
        let map = self.map(key, report)?;
        Some(Self { path: self.at(key), map })
    }

    /// A list of parts.
    pub(super) fn parts(&mut self, key: &str, report: &mut Report) -> Vec<Self> {
        let path = self.at(key);
        let items = self.list(key, report);
        items
            .into_iter()
            .enumerate()
            .map(|(at, item)| Self::of(&format!("{path}[{at}]"), item, report))
            .collect()
    }

    /// This field is not carried over; the user gets to know if it says anything.
    pub(super) fn left(&mut self, key: &str, what: &str, remedy: &str, report: &mut Report) {
        if self.value(key).is_some_and(|value| !is_nothing(&value)) {
            report.left(self.at(key), what, remedy);
        }
    }

    /// This field needs no counterpart; the user gets to know why if it says anything.
    pub(super) fn note(&mut self, key: &str, what: &str, report: &mut Report) {
        if self.value(key).is_some_and(|value| !is_nothing(&value)) {
            report.note(self.at(key), what);
        }
    }

    /// This field says nothing that matters.
    pub(super) fn pass(&mut self, key: &str) {
        self.map.remove(key);
    }

    /// Tells every field that nobody took.
    pub(super) fn finish(self, report: &mut Report) {
        for (key, value) in &self.map {
            if !is_nothing(value) {
                report.left(self.at(key), UNKNOWN, LOOK);
            }
        }
    }

    fn told<T>(&self, key: &str, wanted: &str, value: Option<T>, report: &mut Report) -> Option<T> {
        if value.is_none() {
            report.left(self.at(key), format!("is no {wanted} and was not read"), "Correct the object");
        }
        value
    }
}

/// A text, number or truth value as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Says nothing: what an object looks like whose field was set to its zero value.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
