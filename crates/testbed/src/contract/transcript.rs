//! Answers in a form that two servers can be compared by.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Replaces what differs from run to run by tokens, the same value always by the same token.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: Vec<String>,
    tokens: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
    words: Vec<(String, String)>,
}

impl Transcript {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.clone()
    }

    /// From now on `word` is written as `token`.
    pub(crate) fn replace(&mut self, word: &str, token: &str) {
        self.words.push((word.to_owned(), token.to_owned()));
    }

    pub(crate) fn add(&mut self, what: &str, value: &Value) {
        let value = self.normal(value, "");
        let line = format!("{what} {value}");
        let line = self.words.iter().fold(line, |line, (word, token)| line.replace(word, token));
        self.lines.push(line);
    }

    fn token(&mut self, kind: &'static str, value: &str) -> String {
        if let Some(token) = self.tokens.get(value) {
            return token.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let token = format!("<{kind}-{count}>");
        self.tokens.insert(value.to_owned(), token.clone());
        token
    }

    fn normal(&mut self, value: &Value, name: &str) -> Value {
        match value {
            Value::Object(fields) if fields.get("kind").and_then(Value::as_str) == Some("Deployment") => {
                let quiet = without_controller(fields);
                self.fields(&quiet)
            }
            Value::Object(fields) => self.fields(fields),
            Value::Array(items) => items.iter().map(|item| self.normal(item, name)).collect(),
            Value::String(text) => self.text(text, name),
            other => other.clone(),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>) -> Value {
        // The version of a list or bookmark also counts what others do.
        let is_list =
            fields.contains_key("items") || (fields.get("type").and_then(Value::as_str) == Some("BOOKMARK"));
        let mut sorted: BTreeMap<String, Value> = BTreeMap::new();
        for (name, field) in fields {
            let kept = match name.as_str() {
                // Continue tokens are opaque.
                "continue" if field.as_str() != Some("") => Value::from("<continue>"),
                "metadata" if is_list => self.list_metadata(field),
                "object" if is_list => {
                    let kind = field.get("kind").cloned().unwrap_or_default();
                    let annotations = field.pointer("/metadata/annotations").cloned().unwrap_or_default();
                    Value::from(vec![kind, annotations])
                }
                "managedFields" => self.entries(field),
                _ => self.normal(field, name),
            };
            sorted.insert(self.known(name), kept);
        }
        Value::Object(sorted.into_iter().collect())
    }

    /// Keys may have a UID in them.
    fn known(&self, text: &str) -> String {
        if !text.contains("uid") {
            return text.to_owned();
        }
        self.tokens.iter().fold(text.to_owned(), |text, (value, token)| {
            if value.len() == 36 { text.replace(value, token) } else { text }
        })
    }

    fn list_metadata(&mut self, metadata: &Value) -> Value {
        let mut kept = metadata.as_object().cloned().unwrap_or_default();
        kept.remove("resourceVersion");
        self.normal(&Value::Object(kept), "metadata")
    }

    fn text(&mut self, text: &str, name: &str) -> Value {
        match name {
            "uid" => self.token("uid", text).into(),
            "resourceVersion" => self.token("version", text).into(),
            _ if text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok() => "<time>".into(),
            _ => text.into(),
        }
    }

    /// Entries are ordered by time, which is not the same everywhere.
    fn entries(&mut self, entries: &Value) -> Value {
        let entries: Vec<Value> =
            entries.as_array().into_iter().flatten().map(|entry| self.normal(entry, "")).collect();
        let mut entries: Vec<(String, Value)> = entries
            .into_iter()
            .map(|entry| {
                let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                (
                    format!(
                        "{} {} {} {}",
                        text("operation"),
                        text("manager"),
                        text("subresource"),
                        text("apiVersion")
                    ),
                    entry,
                )
            })
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// A Deployment without what its controller does to it in a real cluster, at its own pace.
fn without_controller(object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    object.shift_remove("status");
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    metadata.shift_remove("resourceVersion");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        entries
            .retain(|entry| entry.get("manager").and_then(Value::as_str) != Some("kube-controller-manager"));
    }
    object
}

/// What of a failed answer has to agree everywhere: the code, the reason and what it is about. The wording only
/// where controllers read it.
pub(crate) fn failure(status: &Value) -> Value {
    let mut kept = Map::new();
    for field in ["code", "reason"] {
        kept.extend(status.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    let code = status.get("code").and_then(Value::as_u64).unwrap_or_default();
    if code == 404 || code == 403 {
        kept.extend(status.get("message").map(|value| ("message".to_owned(), value.clone())));
    }
    if let Some(details) = status.get("details").and_then(Value::as_object) {
        let mut details = details.clone();
        if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut) {
            let mut short: Vec<String> = causes
                .iter()
                .map(|cause| {
                    let text =
                        |key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let who = if code == 409 { text("message") } else { String::new() };
                    format!("{} {} {who}", text("reason"), text("field")).trim_end().to_owned()
                })
                .collect();
            short.sort();
            *causes = short.into_iter().map(Value::from).collect();
        }
        kept.insert("details".into(), Value::Object(details));
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_value_gets_the_same_token() {
        let mut transcript = Transcript::default();
        transcript.replace("ns-7", "<namespace>");
        let object = |version: &str| {
            json!({"metadata": {"uid": "u", "resourceVersion": version, "namespace": "ns-7",
                "creationTimestamp": "2026-01-01T00:00:00Z"}})
        };
        transcript.add("get", &object("10"));
        transcript.add("get", &object("10"));
        transcript.add("get", &object("12"));
        let lines = transcript.lines();
        assert_eq!(lines[0], lines[1]);
        assert_ne!(lines[0], lines[2]);
        assert!(
            lines[0].contains("<namespace>") && lines[0].contains("<time>") && lines[0].contains("<uid-1>")
        );
    }

    #[test]
    fn causes_are_compared_without_order_and_wording() {
        let status = json!({"code": 422, "reason": "Invalid", "message": "m", "details": {"causes": [
            {"reason": "B", "field": "y", "message": "1"}, {"reason": "A", "field": "x", "message": "2"}]}});
        assert_eq!(
            failure(&status),
            json!({"code": 422, "reason": "Invalid", "details": {"causes": ["A x", "B y"]}})
        );
    }
}
