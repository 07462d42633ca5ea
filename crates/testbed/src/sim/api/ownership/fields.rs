//! Sets of field paths, as `managedFields` stores them (`fieldsV1`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of a struct or an entry of a map.
    Field(String),
    /// An item of a list that is keyed by fields; values are JSON texts so that they can be ordered.
    Key(Vec<(String, String)>),
    /// An item of a set; the value as JSON text.
    Value(String),
}

impl Element {
    pub(crate) fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let body: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", body.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (tag, rest) = text.split_once(':')?;
        match tag {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(keys.into_iter().map(|(name, value)| (name, value.to_string())).collect()))
            }
            "v" => {
                let value: Value = serde_json::from_str(rest).ok()?;
                Some(Self::Value(value.to_string()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let parts: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", parts.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
        }
    }
}

/// A set of paths. A path may be a member itself and also lead to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// A set of paths made of plain field names, for example `[["metadata", "labels"]]`.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(*name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(crate) fn child(&self, element: &Element) -> Option<&FieldSet> {
        self.children.get(element).filter(|set| !set.is_empty())
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = (&Element, &FieldSet)> {
        self.children.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let merged = out.children.get(element).map_or_else(|| set.clone(), |mine| mine.union(set));
            out.children.insert(element.clone(), merged);
        }
        out
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self
                .children
                .iter()
                .filter_map(|(element, set)| {
                    let both = set.intersection(other.children.get(element)?);
                    (!both.is_empty()).then(|| (element.clone(), both))
                })
                .collect(),
        }
    }

    /// What is in `self` and not in `other`, path by path.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self
                .children
                .iter()
                .filter_map(|(element, set)| {
                    let rest = other
                        .children
                        .get(element)
                        .map_or_else(|| set.clone(), |theirs| set.difference(theirs));
                    (!rest.is_empty()).then(|| (element.clone(), rest))
                })
                .collect(),
        }
    }

    /// Like [`difference`](Self::difference), and a member of `other` also takes everything below it away.
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self
                .children
                .iter()
                .filter(|(element, _)| !other.members.contains(*element))
                .filter_map(|(element, set)| {
                    let rest = other
                        .children
                        .get(element)
                        .map_or_else(|| set.clone(), |theirs| set.recursive_difference(theirs));
                    (!rest.is_empty()).then(|| (element.clone(), rest))
                })
                .collect(),
        }
    }

    /// The same members and some more, over other children.
    pub(crate) fn with_members(
        &self,
        extra: impl IntoIterator<Item = Element>,
        children: BTreeMap<Element, FieldSet>,
    ) -> Self {
        let mut members = self.members.clone();
        members.extend(extra);
        Self { members, children }
    }

    /// Every path of the set, members of a level before what lies below.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect_paths("", &mut out);
        out
    }

    fn collect_paths(&self, prefix: &str, out: &mut Vec<String>) {
        out.extend(self.members.iter().map(|element| format!("{prefix}{element}")));
        for (element, set) in &self.children {
            set.collect_paths(&format!("{prefix}{element}"), out);
        }
    }

    /// The `fieldsV1` form.
    pub(crate) fn to_json(&self) -> Value {
        let mut out: BTreeMap<String, Value> = BTreeMap::new();
        for element in &self.members {
            out.insert(element.encode(), json!({}));
        }
        for (element, set) in self.children.iter().filter(|(_, set)| !set.is_empty()) {
            let mut inner = Map::new();
            if self.members.contains(element) {
                inner.insert(".".into(), json!({}));
            }
            if let Value::Object(fields) = set.to_json() {
                inner.extend(fields);
            }
            out.insert(element.encode(), Value::Object(inner));
        }
        Value::Object(out.into_iter().collect())
    }

    /// Reads the `fieldsV1` form; `None` when it is malformed.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (text, inner) in value.as_object()? {
            if text == "." {
                continue;
            }
            let element = Element::decode(text)?;
            let fields = inner.as_object()?;
            if fields.is_empty() || fields.contains_key(".") {
                set.members.insert(element.clone());
            }
            let below = Self::from_json(inner)?;
            if !below.is_empty() {
                set.children.insert(element, below);
            }
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_v1_round_trip() {
        let json = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}
        });
        let set = FieldSet::from_json(&json).unwrap();
        assert_eq!(set.to_json(), json);
        assert_eq!(
            set.paths(),
            [
                ".metadata.finalizers",
                ".metadata.finalizers[=\"a/b\"]",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port"
            ]
        );
    }

    #[test]
    fn difference_is_by_path_and_recursive_takes_the_subtree() {
        let all = FieldSet::of(&[&["status"], &["status", "phase"], &["spec"]]);
        let status = FieldSet::of(&[&["status"]]);
        assert_eq!(all.difference(&status), FieldSet::of(&[&["status", "phase"], &["spec"]]));
        assert_eq!(all.recursive_difference(&status), FieldSet::of(&[&["spec"]]));
        assert!(all.difference(&all).is_empty());
    }

    #[test]
    fn malformed_sets_are_refused() {
        assert_eq!(FieldSet::from_json(&json!({"x:y": {}})), None);
        assert_eq!(FieldSet::from_json(&json!({"f:y": 1})), None);
    }
}
