//! How ownership looks at a value: as a leaf, or as a container whose parts have owners of their own.

use serde_json::{Map, Value};

use super::{Schema, Type};

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars, each there once.
    Set,
    /// Objects that are told apart by these fields.
    Map(Vec<String>),
}

impl ListKind {
    pub(super) fn parse(object: &Map<String, Value>) -> Self {
        match object.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Self::Set,
            Some("map") => Self::Map(
                object
                    .get("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                    .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                    .unwrap_or_default(),
            ),
            _ => Self::Atomic,
        }
    }
}

/// What a value is for ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Owned as a whole: a scalar, an atomic list or an atomic map.
    Leaf,
    /// A set or a keyed list.
    List,
    /// A struct or a map, field by field.
    Object,
}

impl Schema {
    /// The shape of `value` under this schema. Where the schema says nothing, the value decides: maps are
    /// taken apart, lists are atomic.
    pub(crate) fn shape(&self, value: &Value) -> Shape {
        match self.kind {
            Type::Object if self.atomic => Shape::Leaf,
            Type::Object => Shape::Object,
            Type::Array if self.list == ListKind::Atomic => Shape::Leaf,
            Type::Array => Shape::List,
            Type::Any if value.is_object() && !self.atomic => Shape::Object,
            _ => Shape::Leaf,
        }
    }

    /// The schema of a list's items.
    pub(crate) fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The default of a key field of the items, which counts when an item omits the field.
    pub(crate) fn key_default(&self, key: &str) -> Option<&Value> {
        self.item()?.properties.get(key)?.default.as_ref()
    }
}
