//! The log of writes: what every invariant reads.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::call::{Call, Verb};

/// One write that reached the API, refused ones included. Cheap to clone: invariants go over the whole log again and
/// again.
#[derive(Clone, Debug)]
pub struct Write {
    /// Position in the log.
    pub seq: u64,
    /// Virtual time since the start.
    pub at: Duration,
    /// The request.
    pub call: Arc<Call>,
    /// HTTP status of the API's answer (also when that answer was lost).
    pub code: u16,
    /// The object before, when there was one.
    pub before: Option<Arc<Value>>,
    /// The object as the API answered it; none after a removal or a refusal.
    pub after: Option<Arc<Value>>,
}

impl Write {
    /// Whether the API accepted it.
    pub fn accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether it changed anything: an accepted write that left the resourceVersion alone did not.
    pub fn changed(&self) -> bool {
        self.accepted()
            && match (&self.before, &self.after) {
                (Some(before), Some(after)) => version(before) != version(after),
                _ => true,
            }
    }

    /// Whether it made a new object.
    pub fn created(&self) -> bool {
        self.code == 201 && self.call.subresource.is_none()
    }

    /// Whether it is the delete that ended an object's life: the first accepted one for its UID.
    pub fn deleted(&self) -> bool {
        let pending = self
            .before
            .as_ref()
            .is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null));
        self.accepted() && self.call.verb == Verb::Delete && pending
    }

    /// UID of the object that the write was about.
    pub fn uid(&self) -> Option<&str> {
        let object = self.before.as_ref().or(self.after.as_ref())?;
        object.pointer("/metadata/uid").and_then(Value::as_str)
    }

    /// What it changed: a JSON pointer with the values before and after, `metadata` left out.
    pub fn changes(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            differences("", before, after, &mut found);
        }
        found
    }

    /// The write on one line, for messages.
    pub fn line(&self) -> String {
        format!(
            "{:.3}s {} {}{} {}{} as {:?} → {}",
            self.at.as_secs_f64(),
            self.call.who(),
            self.call.verb,
            self.call.at(),
            self.call.object(),
            self.call.subresource.as_deref().map(|sub| format!("/{sub}")).unwrap_or_default(),
            self.call.manager,
            self.code
        )
    }
}

fn differences(at: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        _ if before == after || at == "/metadata" => {}
        (Value::Object(old), Value::Object(new)) => {
            for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
                let value = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&format!("{at}/{key}"), &value(old), &value(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{at}/{index}"), old, new, found);
            }
        }
        _ => found.push(format!("{at}: {before} → {after}")),
    }
}

fn version(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str)
}
