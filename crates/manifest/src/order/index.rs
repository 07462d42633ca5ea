//! Finds objects by what references say about them.

use std::collections::HashMap;

use serde_json::Value;

use crate::identity::{Identity, ObjectKey};

/// The objects of an input by identity.
pub(super) struct Index {
    keys: Vec<Option<ObjectKey>>,
    by_key: HashMap<ObjectKey, Vec<usize>>,
    definitions: HashMap<(String, String), Vec<usize>>,
    services: HashMap<(String, String), Vec<usize>>,
}

impl Index {
    pub(super) fn new(objects: &[Value]) -> Self {
        let mut index = Self {
            keys: Vec::with_capacity(objects.len()),
            by_key: HashMap::new(),
            definitions: HashMap::new(),
            services: HashMap::new(),
        };
        for (at, object) in objects.iter().enumerate() {
            let identity = Identity::of(object).ok();
            if let Some(identity) = &identity {
                index.by_key.entry(identity.key()).or_default().push(at);
                let spec = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                match (identity.group.as_str(), identity.kind.as_str()) {
                    ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                        if let (Some(group), Some(kind)) = (spec("/spec/group"), spec("/spec/names/kind")) {
                            index.definitions.entry((group, kind)).or_default().push(at);
                        }
                    }
                    ("apiregistration.k8s.io", "APIService") => {
                        if let (Some(group), Some(version)) = (spec("/spec/group"), spec("/spec/version")) {
                            index.services.entry((group, version)).or_default().push(at);
                        }
                    }
                    _ => {}
                }
            }
            index.keys.push(identity.map(|identity| identity.key()));
        }
        index
    }

    /// The identity of an object; `None` for what has none.
    pub(super) fn key(&self, at: usize) -> Option<&ObjectKey> {
        self.keys.get(at)?.as_ref()
    }

    /// Objects of a kind by name, in a namespace or in none.
    pub(super) fn find(&self, group: &str, kind: &str, namespace: Option<&str>, name: &str) -> &[usize] {
        let key = ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        self.by_key.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Definitions of a kind.
    pub(super) fn definitions(&self, group: &str, kind: &str) -> &[usize] {
        self.definitions.get(&(group.to_owned(), kind.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// API services for a group and version.
    pub(super) fn api_services(&self, group: &str, version: &str) -> &[usize] {
        self.services.get(&(group.to_owned(), version.to_owned())).map_or(&[], Vec::as_slice)
    }
}
