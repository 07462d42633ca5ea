//! Who set which field: `managedFields`, read where it lies.

use serde_json::{Map, Value};

use super::Owner;
use super::path::Step;
use super::scalar;

/// A node of a field set: its keys are `f:name`, `k:{…}`, `v:…`, `i:…` and `.`.
pub(super) type Node<'a> = &'a Map<String, Value>;

/// The managers of a live object. What is malformed counts as nobody's.
pub(super) struct Managers<'a> {
    entries: Vec<Entry<'a>>,
    ours: Option<Node<'a>>,
    any: bool,
}

struct Entry<'a> {
    manager: &'a str,
    operation: &'a str,
    subresource: &'a str,
    time: &'a str,
    fields: Node<'a>,
}

impl<'a> Managers<'a> {
    /// Reads the managers; `manager` is us. Only what we applied is ours: an apply does not remove what an update of
    /// the same name has set.
    pub(super) fn of(live: &'a Value, manager: &str) -> Self {
        let list = live.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
        let mut managers =
            Self { entries: Vec::new(), ours: None, any: list.is_some_and(|list| !list.is_empty()) };
        for entry in list.into_iter().flatten() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) else { continue };
            if !matches!(text("fieldsType"), "FieldsV1" | "") {
                continue;
            }
            let is_main = text("subresource").is_empty();
            if text("manager") == manager && text("operation") == "Apply" && is_main {
                managers.ours = Some(fields);
            } else {
                managers.entries.push(Entry {
                    manager: text("manager"),
                    operation: text("operation"),
                    subresource: text("subresource"),
                    time: text("time"),
                    fields,
                });
            }
        }
        managers
    }

    /// Whether the object says anything about its managers.
    pub(super) fn is_known(&self) -> bool {
        self.any
    }

    /// What we applied.
    pub(super) fn ours(&self) -> Option<Node<'a>> {
        self.ours
    }

    /// Who else set the field at a path, or something in it, or something that it is a part of; the latest of them. Who
    /// set a field to nothing still holds it; a part of a whole that is not there is nobody's.
    pub(super) fn owner(&self, path: &[Step], is_there: bool) -> Option<Owner> {
        self.entries
            .iter()
            .filter_map(|entry| Some((hold(entry.fields, path)?, entry)))
            .filter(|(hold, _)| is_there || *hold == Hold::Exact)
            .max_by_key(|(hold, entry)| (*hold, entry.time))
            .map(|(_, entry)| Owner {
                manager: entry.manager.to_owned(),
                operation: entry.operation.to_owned(),
                subresource: Some(entry.subresource.to_owned()).filter(|name| !name.is_empty()),
            })
    }

    /// What somebody else noted at a path; for lists, whose nodes tell how items are told apart.
    pub(super) fn nodes_at(&self, path: &[Step]) -> impl Iterator<Item = Node<'a>> {
        self.entries
            .iter()
            .filter_map(move |entry| path.iter().try_fold(entry.fields, |node, step| child(node, step)))
    }
}

/// How a manager holds a field: a part of what it replaced as a whole, or the field itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Around,
    Exact,
}

fn hold(fields: Node<'_>, path: &[Step]) -> Option<Hold> {
    let mut node = fields;
    for step in path {
        match child(node, step) {
            Some(below) => node = below,
            None => return node.is_empty().then_some(Hold::Around),
        }
    }
    Some(Hold::Exact)
}

/// The node of a field.
pub(super) fn field<'a>(node: Node<'a>, name: &str) -> Option<Node<'a>> {
    // Most nodes are small, and to look at each key is faster there than to make one for the map.
    const FEW: usize = 12;
    if node.len() <= FEW {
        let found = node.iter().find(|(key, _)| key.strip_prefix("f:") == Some(name));
        return found.and_then(|(_, below)| below.as_object());
    }
    let mut key = String::with_capacity(name.len() + 2);
    key.push_str("f:");
    key.push_str(name);
    node.get(&key)?.as_object()
}

/// The node of a step.
pub(super) fn child<'a>(node: Node<'a>, step: &Step) -> Option<Node<'a>> {
    // The server spells keys in one way, mostly ours; only where there are few is each one read for what it means.
    const FEW: usize = 64;
    let spelled = match step {
        Step::Key(keys) => Some(key_text(keys)),
        Step::Member(value) => Some(format!("v:{value}")),
        _ => None,
    };
    if let Some(text) = spelled {
        let found = node.get(&text).and_then(Value::as_object);
        if found.is_some() || node.len() > FEW {
            return found;
        }
    }
    match step {
        Step::Field(name) => field(node, name),
        Step::Key(keys) => node.iter().find_map(|(text, below)| {
            let wanted = key_of(text)?;
            let matches = wanted.len() == keys.len()
                && keys
                    .iter()
                    .all(|(name, value)| wanted.get(name).is_some_and(|wanted| scalar::equal(wanted, value)));
            matches.then(|| below.as_object())?
        }),
        Step::Member(value) => node.iter().find_map(|(text, below)| {
            let wanted = member_of(text)?;
            scalar::equal(&wanted, value).then(|| below.as_object())?
        }),
        Step::Index(at) => node.get(&format!("i:{at}"))?.as_object(),
    }
}

/// The key of a list item as the server writes it into a field set: JSON, its fields sorted.
fn key_text(keys: &[(String, Value)]) -> String {
    let mut sorted: Vec<_> = keys.to_vec();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    format!("k:{}", Value::Object(sorted.into_iter().collect()))
}

/// The key of a list item in a field set.
pub(super) fn key_of(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text.strip_prefix("k:")?).ok()? {
        Value::Object(keys) => Some(keys),
        _ => None,
    }
}

/// The member of a set in a field set.
pub(super) fn member_of(text: &str) -> Option<Value> {
    serde_json::from_str(text.strip_prefix("v:")?).ok()
}
