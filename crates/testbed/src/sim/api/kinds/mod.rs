//! The kinds that the API serves: built-in ones and those of installed definitions.

mod builtin;
mod custom;
mod defaults;
mod events;
mod lists;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::ownership::FieldSet;
use super::schema::Schema;
pub(crate) use builtin::object_meta;
pub(crate) use custom::from_definition;
pub(crate) use defaults::{on_create, on_read};
pub(crate) use events::convert as convert_event;

/// Group and plural: what stored objects are filed under.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceKey {
    pub(crate) group: String,
    pub(crate) plural: String,
}

impl ResourceKey {
    pub(crate) fn new(group: &str, plural: &str) -> Self {
        Self { group: group.to_owned(), plural: plural.to_owned() }
    }
}

/// What a `scale` subresource reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<String>,
}

/// One served version of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) schema: Arc<Schema>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
}

/// Which changes raise `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    None,
    /// Everything but metadata and status.
    Content,
}

/// A resource with its versions.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of the kind, on or off by itself")]
pub(crate) struct Resource {
    pub(crate) key: ResourceKey,
    /// Under which key objects are stored; differs for a second group that serves the same objects.
    pub(crate) stored_as: ResourceKey,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) custom: bool,
    pub(crate) storage_version: String,
    pub(crate) versions: Vec<Version>,
    pub(crate) generation: Generation,
    /// Whether a replace needs a resourceVersion.
    pub(crate) needs_version: bool,
    /// Whether a replace of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// What an object of the kind looks like before anything is set. Fields that are there already do not come
    /// with the first write, and so have no owner.
    pub(crate) blank: Value,
    /// Fields besides name and namespace that can be selected by.
    pub(crate) selectable: Vec<&'static str>,
}

impl Resource {
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name && version.served)
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.key.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.key.group) }
    }

    /// Fields that a write to the object itself (`subresource` empty) or to a subresource leaves alone.
    pub(crate) fn reset_fields(&self, version: &Version, subresource: &str) -> FieldSet {
        match subresource {
            "status" if self.custom => FieldSet::of(&[&["metadata"], &["spec"]]),
            "status" if self.kind == "Deployment" => FieldSet::of(&[&["spec"], &["metadata", "labels"]]),
            "status" => FieldSet::of(&[&["spec"]]),
            "" if version.status => FieldSet::of(&[&["status"]]),
            _ => FieldSet::default(),
        }
    }

    /// The object as a client of this group and version sees it.
    pub(crate) fn present(&self, object: &Value, version: &str) -> Value {
        let mut shown =
            if self.key == self.stored_as { object.clone() } else { convert_event(object, &self.key.group) };
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("apiVersion".into(), self.api_version(version).into());
            fields.insert("kind".into(), self.kind.clone().into());
        }
        if self.custom {
            hide_empty_metadata(&mut shown);
        }
        shown
    }

    /// The object as it is stored.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        let mut stored =
            if self.key == self.stored_as { object } else { convert_event(&object, &self.stored_as.group) };
        if let Some(fields) = stored.as_object_mut() {
            let group = &self.stored_as.group;
            let version = &self.storage_version;
            let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            fields.insert("apiVersion".into(), api_version.into());
        }
        stored
    }
}

/// What an apply leaves empty in the metadata of a custom object is stored so, but never shown.
pub(crate) fn hide_empty_metadata(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, field| match field {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
    }
}

/// All resources by group and plural.
pub(crate) type Registry = BTreeMap<ResourceKey, Arc<Resource>>;

/// The built-in kinds.
pub(crate) fn builtin_registry() -> Registry {
    builtin::registry().clone()
}
