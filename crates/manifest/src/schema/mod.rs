//! What is known about the fields of kinds: which lists are told apart by keys, which values are replaced as a whole,
//! and which texts are quantities, ports or times.
//!
//! The built-in kinds come from `built_in.txt`, which a test makes from the API server's own description and compares
//! with it. Custom resources come from their definitions, when the caller has them; without, their fields are
//! [`Shape::Any`] and the differ looks at `managedFields` for what it can.

mod defaults;
mod definitions;
mod text;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

/// The shapes of a number of kinds.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    types: Vec<Type>,
    kinds: HashMap<String, Root>,
}

/// Where the shape of a kind starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) id: TypeId,
    /// Kinds of the API server itself are Go types: a zero that nobody asked to keep is left out when it is written.
    pub(crate) drops_zeros: bool,
}

/// A type of a [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeId(usize);

/// A map with known fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Type {
    /// Sorted as [`by_length`] compares.
    fields: Vec<Field>,
    /// Always replaced as a whole.
    atomic: bool,
}

/// A field of a [`Type`].
#[derive(Debug, Clone)]
pub(crate) struct Field {
    name: String,
    pub(crate) shape: Shape,
    /// What the server puts where nothing is written.
    pub(crate) default: Option<Value>,
    /// The server puts something where nothing is written, and what depends on more than the type.
    pub(crate) filled: bool,
}

/// What a value looks like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Nothing is known.
    Any,
    /// Text, a number or a boolean.
    Scalar,
    /// `500m`, `1Gi`: compared by what it amounts to.
    Quantity,
    /// A number, or text: a port or a percentage.
    IntOrString,
    /// A point in time.
    Time,
    /// Base64.
    Bytes,
    /// Known fields.
    Struct(TypeId),
    /// Any keys.
    Map {
        /// Shape of the values.
        item: Box<Shape>,
        /// Replaced as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// Shape of the items.
        item: Box<Shape>,
        /// How items are told apart.
        kind: ListKind,
    },
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// They are not: the list is replaced as a whole.
    Atomic,
    /// By value.
    Set,
    /// By these fields.
    Keyed(Vec<String>),
}

static BUILT_IN: LazyLock<Schema> = LazyLock::new(|| text::read(include_str!("built_in.txt")));

impl Schema {
    /// The kinds of the API server itself.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// These kinds and those of some `CustomResourceDefinition`s. What is malformed in one of them is left out.
    #[must_use]
    pub fn with_definitions<'a>(&self, definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut schema = self.clone();
        for definition in definitions {
            schema.add_definition(definition);
        }
        schema
    }

    /// Whether the fields of a kind are known.
    pub fn knows(&self, api_version: &str, kind: &str) -> bool {
        self.root(api_version, kind).is_some()
    }

    pub(crate) fn root(&self, api_version: &str, kind: &str) -> Option<Root> {
        let mut key = String::with_capacity(api_version.len() + kind.len() + 1);
        key.push_str(api_version);
        key.push(' ');
        key.push_str(kind);
        self.kinds.get(&key).copied()
    }

    /// The root of an object's kind.
    pub(crate) fn root_of(&self, object: &Value) -> Option<Root> {
        self.root(object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?)
    }

    /// A field of a type.
    pub(crate) fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        let fields = &self.types.get(id.0)?.fields;
        fields.binary_search_by(|field| by_length(&field.name, name)).ok().map(|at| &fields[at])
    }

    /// Whether a value of this shape is replaced as a whole.
    pub(crate) fn is_atomic(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Struct(id) => self.types.get(id.0).is_some_and(|known| known.atomic),
            Shape::Map { atomic, .. } => *atomic,
            Shape::List { kind, .. } => *kind == ListKind::Atomic,
            _ => false,
        }
    }

    fn insert(&mut self, api_version: &str, kind: &str, root: Root) {
        self.kinds.insert(format!("{api_version} {kind}"), root);
    }

    fn add_type(&mut self, mut known: Type) -> TypeId {
        known.fields.sort_by(|a, b| by_length(&a.name, &b.name));
        self.types.push(known);
        TypeId(self.types.len() - 1)
    }
}

/// Lengths first: most names are told apart without a look at their letters.
fn by_length(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn at<'a>(schema: &'a Schema, api_version: &str, kind: &str, path: &[&str]) -> &'a Shape {
        let root = schema.root(api_version, kind).unwrap();
        let mut shape = &schema.field(root.id, path[0]).unwrap().shape;
        for step in &path[1..] {
            shape = match shape {
                Shape::Struct(id) => &schema.field(*id, step).unwrap().shape,
                Shape::Map { item, .. } | Shape::List { item, .. } => item,
                other => other,
            };
        }
        shape
    }

    #[test]
    fn built_in_kinds_know_their_lists_quantities_and_ports() {
        let schema = Schema::built_in();
        let containers = at(schema, "apps/v1", "Deployment", &["spec", "template", "spec", "containers"]);
        let Shape::List { item, kind } = containers else { panic!("{containers:?}") };
        assert_eq!(*kind, ListKind::Keyed(vec!["name".into()]));
        let Shape::Struct(container) = **item else { panic!("{item:?}") };
        let ports = &schema.field(container, "ports").unwrap().shape;
        let Shape::List { item: port, kind } = ports else { panic!("{ports:?}") };
        assert_eq!(*kind, ListKind::Keyed(vec!["containerPort".into(), "protocol".into()]));
        let Shape::Struct(port) = **port else { panic!("{port:?}") };
        assert_eq!(schema.field(port, "protocol").unwrap().default, Some(json!("TCP")));
        let limits = ["spec", "template", "spec", "containers", "", "resources", "limits", ""];
        assert_eq!(*at(schema, "apps/v1", "Deployment", &limits), Shape::Quantity);
        assert_eq!(*at(schema, "v1", "Service", &["spec", "ports", "", "targetPort"]), Shape::IntOrString);
        assert!(schema.is_atomic(at(schema, "v1", "Service", &["spec", "selector"])));
        assert!(schema.is_atomic(at(schema, "apps/v1", "Deployment", &["spec", "selector"])));
        let tolerations = at(schema, "v1", "Pod", &["spec", "tolerations"]);
        assert!(schema.is_atomic(tolerations));
        assert_eq!(*at(schema, "v1", "Secret", &["data", ""]), Shape::Bytes);
        let finalizers = at(schema, "v1", "Pod", &["metadata", "finalizers"]);
        assert!(matches!(finalizers, Shape::List { kind: ListKind::Set, .. }));
        assert!(!schema.knows("example.org/v1", "Widget"));
    }

    #[test]
    fn a_definition_adds_its_kind_in_every_version() {
        let definition = json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.org",
            "names": {"kind": "Widget"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {
                "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                    "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "words": {"type": "array", "items": {"type": "string"}},
                "mode": {"type": "string", "default": "slow"},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}}}}}, {"name": "v2"}]}});
        let schema = Schema::built_in().with_definitions([&definition]);
        let spec = |name: &str| at(&schema, "example.org/v1", "Widget", &["spec", name]);
        assert!(matches!(spec("parts"), Shape::List { kind: ListKind::Keyed(keys), .. } if keys == &["id"]));
        assert!(matches!(spec("tags"), Shape::List { kind: ListKind::Set, .. }));
        assert!(matches!(spec("words"), Shape::List { kind: ListKind::Atomic, .. }));
        assert_eq!(*spec("port"), Shape::IntOrString);
        assert!(matches!(spec("labels"), Shape::Map { atomic: false, .. }));
        assert!(schema.is_atomic(spec("whole")));
        assert_eq!(*spec("free"), Shape::Any);
        let root = schema.root("example.org/v1", "Widget").unwrap();
        assert!(!root.drops_zeros);
        let Shape::Struct(id) = at(&schema, "example.org/v1", "Widget", &["spec"]) else { panic!() };
        assert_eq!(schema.field(*id, "mode").unwrap().default, Some(json!("slow")));
        assert!(!schema.knows("example.org/v2", "Widget"), "a version without a schema is not known");
        assert!(schema.knows("v1", "Pod"));
    }
}
