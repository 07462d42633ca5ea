//! Who wrote a value: somebody, or the server.

use serde_json::{Map, Value};

/// Managers that write for the control plane, or stand for an unknown past.
const CONTROL_PLANE: [&str; 6] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "kubelet",
    "before-first-apply",
];

/// What an object tells about its past.
pub(super) struct Evidence {
    live: bool,
    managed: Vec<Value>,
}

impl Evidence {
    /// Takes `managedFields` out of an object.
    pub(super) fn take(fields: &mut Map<String, Value>) -> Self {
        let Some(Value::Object(metadata)) = fields.get_mut("metadata") else {
            return Self { live: false, managed: Vec::new() };
        };
        let managed = match metadata.remove("managedFields") {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        };
        let noted = |name| metadata.get(name).is_some_and(|value| !value.is_null());
        Self { live: !managed.is_empty() || noted("uid") || noted("resourceVersion"), managed }
    }

    /// Whether the object was read from a cluster.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the server picked the value at a path of field names.
    pub(super) fn picked(&self, path: &[&str]) -> bool {
        self.live && !self.written().any(|set| node(set, path).is_some())
    }

    /// Whether the server picked a field of an item of a keyed list; `item` gives the values of the key.
    pub(super) fn picked_in(&self, list: &[&str], item: &Value, field: &str) -> bool {
        let field = format!("f:{field}");
        self.live
            && !self.written().filter_map(|set| node(set, list)).any(|items| {
                items.iter().any(|(key, below)| {
                    key.strip_prefix("k:").is_some_and(|key| is_key_of(key, item))
                        && below.get(&field).is_some()
                })
            })
    }

    /// The field sets of those who write objects, and not only their status.
    fn written(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.managed
            .iter()
            .filter(|entry| {
                let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
                text("subresource").is_empty() && !CONTROL_PLANE.contains(&text("manager"))
            })
            .filter_map(|entry| entry.get("fieldsV1")?.as_object())
    }
}

fn node<'a>(set: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    let mut set = set;
    for name in path {
        set = set.get(&format!("f:{name}"))?.as_object()?;
    }
    Some(set)
}

/// Whether the key of a list item, as `managedFields` writes it, is the key of this item.
fn is_key_of(key: &str, item: &Value) -> bool {
    let Ok(Value::Object(key)) = serde_json::from_str(key) else { return false };
    key.iter().all(|(name, value)| match item.get(name) {
        Some(found) => found == value,
        None => name == "protocol" && value == "TCP",
    })
}
