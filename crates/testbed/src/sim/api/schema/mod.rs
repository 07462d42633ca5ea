//! Structural schemas: of custom kinds from their definition, of built-in kinds from the Kubernetes types.
//!
//! CEL rules (`x-kubernetes-validations`) are not evaluated here: an object that breaks only such a rule is
//! accepted by the simulation. Tests of rules belong on a real API server.

mod pattern;
mod shape;
mod tidy;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use shape::{ListKind, Shape};
pub(crate) use tidy::{apply_defaults, drop_defaulted_nulls, drop_nulls, prune};
pub(crate) use validate::{Cause, validate};

use pattern::Pattern;

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    /// Nothing is asked.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

/// Limits on values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) required: Vec<String>,
    pub(crate) choices: Vec<Value>,
    pub(crate) minimum: Option<(f64, bool)>,
    pub(crate) maximum: Option<(f64, bool)>,
    pub(crate) length: (Option<usize>, Option<usize>),
    pub(crate) items: (Option<usize>, Option<usize>),
    pub(crate) properties: (Option<usize>, Option<usize>),
    pub(crate) pattern: Option<(String, Arc<Pattern>)>,
    pub(crate) format: Option<String>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

/// A structural schema.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of schemas, on or off by itself")]
pub(crate) struct Schema {
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
    pub(crate) properties: BTreeMap<String, Arc<Schema>>,
    pub(crate) additional: Option<Arc<Schema>>,
    pub(crate) items: Option<Arc<Schema>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub(crate) preserve: bool,
    /// `x-kubernetes-embedded-resource`.
    pub(crate) embedded: bool,
    pub(crate) list: ListKind,
    /// `x-kubernetes-map-type: atomic`.
    pub(crate) atomic: bool,
    pub(crate) default: Option<Value>,
    pub(crate) limits: Limits,
}

impl Schema {
    /// Anything goes, as below `x-kubernetes-preserve-unknown-fields`.
    pub(crate) fn any() -> Self {
        Self { preserve: true, nullable: true, ..Self::default() }
    }

    /// Reads a schema; `definitions` are the targets of its `$ref`s.
    pub(crate) fn parse(value: &Value, definitions: &Map<String, Value>) -> Self {
        let Some(object) = value.as_object() else {
            return Self::any();
        };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            let mut schema = Self::parse_reference(reference, definitions);
            // What stands beside the reference adds to its target.
            if let Some(default) = object.get("default").filter(|default| !default.is_null()) {
                schema.default = Some(default.clone());
            }
            return schema;
        }
        let child = |key: &str| object.get(key).map(|schema| Arc::new(Self::parse(schema, definitions)));
        let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or_default();
        let kind = parse_type(object);
        let preserve = flag("x-kubernetes-preserve-unknown-fields");
        Self {
            kind,
            nullable: flag("nullable"),
            properties: object
                .get("properties")
                .and_then(Value::as_object)
                .map(|fields| {
                    fields
                        .iter()
                        .map(|(name, schema)| (name.clone(), Arc::new(Self::parse(schema, definitions))))
                        .collect()
                })
                .unwrap_or_default(),
            additional: match object.get("additionalProperties") {
                Some(Value::Bool(true)) => Some(Arc::new(Self::any())),
                Some(Value::Object(_)) => child("additionalProperties"),
                _ => None,
            },
            items: child("items"),
            preserve,
            embedded: flag("x-kubernetes-embedded-resource"),
            list: ListKind::parse(object),
            atomic: object.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            default: object.get("default").filter(|default| !default.is_null()).cloned(),
            limits: parse_limits(object, definitions),
        }
    }

    fn parse_reference(reference: &str, definitions: &Map<String, Value>) -> Self {
        let name = reference.rsplit('/').next().unwrap_or_default();
        // A schema of schemas refers to itself: what is below is taken as it comes.
        if name.contains("JSONSchemaProps") {
            return Self::any();
        }
        definitions.get(name).map_or_else(Self::any, |schema| Self::parse(schema, definitions))
    }

    /// The schema of a field of an object, `None` when the field is not known.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_ref()).map(Arc::as_ref)
    }

    /// Replaces a field's schema.
    pub(crate) fn set_field(&mut self, name: &str, schema: Arc<Schema>) {
        self.properties.insert(name.to_owned(), schema);
    }
}

fn parse_type(object: &Map<String, Value>) -> Type {
    if object.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true) {
        return Type::IntOrString;
    }
    match object.get("type").and_then(Value::as_str) {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ if object.get("format").and_then(Value::as_str) == Some("int-or-string") => Type::IntOrString,
        _ => Type::Any,
    }
}

fn parse_limits(object: &Map<String, Value>, definitions: &Map<String, Value>) -> Limits {
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    let size =
        |key: &str| object.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or_default();
    let list = |key: &str| object.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let schemas = |key: &str| list(key).iter().map(|schema| Schema::parse(schema, definitions)).collect();
    Limits {
        required: list("required").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        choices: list("enum"),
        minimum: number("minimum").map(|limit| (limit, flag("exclusiveMinimum"))),
        maximum: number("maximum").map(|limit| (limit, flag("exclusiveMaximum"))),
        length: (size("minLength"), size("maxLength")),
        items: (size("minItems"), size("maxItems")),
        properties: (size("minProperties"), size("maxProperties")),
        pattern: object
            .get("pattern")
            .and_then(Value::as_str)
            .and_then(|text| Some((text.to_owned(), Arc::new(Pattern::parse(text)?)))),
        format: object.get("format").and_then(Value::as_str).map(str::to_owned),
        all_of: schemas("allOf"),
        any_of: schemas("anyOf"),
        one_of: schemas("oneOf"),
        not: object.get("not").map(|schema| Box::new(Schema::parse(schema, definitions))),
    }
}
