//! Label and field selectors.

use serde_json::Value;

use super::status::Failure;

/// A parsed `labelSelector`: all requirements must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(Vec<Requirement>);

#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Compare { key: String, greater: bool, than: i64 },
}

impl Labels {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let bad = || Failure::bad_request(format!("unable to parse requirement: found '{text}'"));
        split_outside_parentheses(text)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| Requirement::parse(part).ok_or_else(bad))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| requirement.matches(object))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|found: char| {
        match found {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        found == ',' && depth == 0
    })
    .collect()
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        if let Some((key, rest)) = text.split_once(" notin ").or_else(|| text.split_once(" notin(")) {
            return Some(Self::NotIn(name(key)?, values(rest)?));
        }
        if let Some((key, rest)) = text.split_once(" in ").or_else(|| text.split_once(" in(")) {
            return Some(Self::In(name(key)?, values(rest)?));
        }
        if let Some((key, value)) = text.split_once("!=") {
            return Some(Self::NotIn(name(key)?, vec![word(value)?]));
        }
        if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Some(Self::In(name(key)?, vec![word(value)?]));
        }
        if let Some((key, value)) = text.split_once('>') {
            return Some(Self::Compare { key: name(key)?, greater: true, than: value.trim().parse().ok()? });
        }
        if let Some((key, value)) = text.split_once('<') {
            return Some(Self::Compare { key: name(key)?, greater: false, than: value.trim().parse().ok()? });
        }
        match text.strip_prefix('!') {
            Some(key) => Some(Self::Absent(name(key)?)),
            None => Some(Self::Exists(name(text)?)),
        }
    }

    fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        match self {
            Self::In(key, values) => {
                label(key).is_some_and(|value| values.iter().any(|other| other == value))
            }
            Self::NotIn(key, values) => {
                label(key).is_none_or(|value| values.iter().all(|other| other != value))
            }
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
            Self::Compare { key, greater, than } => label(key)
                .and_then(|value| value.parse::<i64>().ok())
                .is_some_and(|value| if *greater { value > *than } else { value < *than }),
        }
    }
}

fn name(text: &str) -> Option<String> {
    word(text).filter(|word| !word.is_empty())
}

fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = |found: char| found.is_ascii_alphanumeric() || "-_./".contains(found);
    text.chars().all(plain).then(|| text.to_owned())
}

fn values(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().trim_start_matches('(').strip_suffix(')')?;
    inner.split(',').map(word).collect()
}

/// A parsed `fieldSelector`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Parses; `extra` are the fields that the kind can be selected by besides name and namespace.
    pub(crate) fn parse(text: &str, extra: &[&str]) -> Result<Self, Failure> {
        let mut parsed = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (field, equal, value) = if let Some((field, value)) = part.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (field, true, value)
            } else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            if !["metadata.name", "metadata.namespace"].contains(&field) && !extra.contains(&field) {
                return Err(Failure::bad_request(format!("field label not supported: {field}")));
            }
            parsed.push((field.to_owned(), equal, value.to_owned()));
        }
        Ok(Self(parsed))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let found = object.pointer(&format!("/{}", field.replace('.', "/")));
            let found = found.map_or_else(String::new, |found| match found {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            (found == *value) == *equal
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str) -> bool {
        let object = json!({"metadata": {"name": "x", "labels": {"app": "web", "tier": "1", "a.b/c": "d"}}});
        Labels::parse(selector).unwrap().matches(&object)
    }

    #[test]
    fn label_selectors() {
        for yes in [
            "",
            "app=web",
            "app==web",
            "app",
            "!other",
            "app!=db",
            "other!=x",
            "app in (db, web)",
            "app notin (db)",
            "other notin (a,b)",
            "app=web,tier in (1,2),a.b/c=d",
            "tier>0",
            "tier<2",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in [
            "app=db",
            "!app",
            "other",
            "app!=web",
            "app in (db)",
            "app notin (web,db)",
            "tier>1",
            "app=web,tier=2",
        ] {
            assert!(!selects(no), "{no}");
        }
        assert!(Labels::parse("a=b=c").is_err());
        assert!(Labels::parse("a in b").is_err());
    }

    #[test]
    fn field_selectors() {
        let object = json!({"metadata": {"name": "x", "namespace": "y"}, "type": "Opaque"});
        let selects = |text: &str| Fields::parse(text, &["type"]).unwrap().matches(&object);
        assert!(selects("metadata.name=x,metadata.namespace!=z"));
        assert!(selects("type=Opaque"));
        assert!(!selects("metadata.name==y"));
        assert!(Fields::parse("spec.x=1", &[]).is_err());
        assert!(Fields::parse("nonsense", &[]).is_err());
    }
}
