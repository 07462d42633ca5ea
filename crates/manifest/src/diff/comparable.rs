//! One spelling for what is sent and what is stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::atomic::field_shape;
use super::list::item_of;
use super::{quantity, scalar, secret};
use crate::identity::NOTED_BY_SERVER;
use crate::schema::{Schema, Shape};

/// Deeper than any object that the API server takes.
const DEEPEST: usize = 200;

/// An object in a spelling in which what was sent and what the server made of it are the same; only for digests, not to
/// be sent.
///
/// Everywhere: `null` in a map is absence, `stringData` is `data`, and what only the server can know is left out. In
/// kinds of the server itself, where types are known: a field that is empty or zero is `null`, because the server leaves
/// some of these out; quantities are in billionths; the status is left out; inside of what is replaced as a whole,
/// defaults are left out.
///
/// Whoever relies on it should send no `null`s: the server notes them as held, and a field that was sent as `null` and is
/// sent as zero later could not be told apart.
pub fn comparable(object: &Value) -> Value {
    let schema = Schema::built_in();
    let mut object = object.clone();
    secret::fold_string_data(&mut object);
    let root = schema.root_of(&object);
    let spelling = Spelling { schema, drops_zeros: root.is_some_and(|root| root.drops_zeros) };
    if let Value::Object(fields) = &mut object {
        if spelling.drops_zeros {
            fields.remove("status");
        }
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|name, _| !NOTED_BY_SERVER.contains(&name.as_str()));
        }
    }
    let shape = root.map_or(Shape::Any, |root| Shape::Struct(root.id));
    spelling.value(&object, &shape, 0)
}

struct Spelling<'s> {
    schema: &'s Schema,
    drops_zeros: bool,
}

impl Spelling<'_> {
    /// A value whose parts are held one by one, as far as that is known.
    fn value(&self, value: &Value, shape: &Shape, depth: usize) -> Value {
        if self.schema.is_atomic(shape) || depth > DEEPEST {
            return self.whole(value, shape, depth);
        }
        match value {
            Value::Object(fields) => {
                let said = fields.iter().filter(|(_, value)| !value.is_null());
                let field = |(name, value): (&String, &Value)| {
                    let field = field_shape(self.schema, shape, name);
                    let spelled = self.value(value, field, depth + 1);
                    (name.clone(), self.zero(spelled, shape))
                };
                Value::Object(said.map(field).collect())
            }
            Value::Array(items) => {
                let item = item_of(shape);
                items.iter().map(|value| self.value(value, item, depth + 1)).collect()
            }
            other => spell(other, shape),
        }
    }

    /// A field of a known type that says nothing is `null`.
    fn zero(&self, value: Value, within: &Shape) -> Value {
        let is_field = self.drops_zeros && matches!(within, Shape::Struct(_));
        // A map of fields that say nothing still says which fields are held.
        let has_fields = value.as_object().is_some_and(|fields| !fields.is_empty());
        if is_field && !has_fields && scalar::is_zero(&value) { Value::Null } else { value }
    }

    /// A value that is replaced as a whole. Its zeros and nulls are what somebody chose; defaults that the server is
    /// known to add are not.
    fn whole(&self, value: &Value, shape: &Shape, depth: usize) -> Value {
        match value {
            _ if depth > DEEPEST => value.clone(),
            Value::Object(fields) => {
                let mut spelled = Map::new();
                for (name, value) in fields {
                    if self.is_default(shape, name, value) {
                        continue;
                    }
                    let field = field_shape(self.schema, shape, name);
                    spelled.insert(name.clone(), self.whole(value, field, depth + 1));
                }
                Value::Object(spelled)
            }
            Value::Array(items) => {
                let item = item_of(shape);
                items.iter().map(|value| self.whole(value, item, depth + 1)).collect()
            }
            other => spell(other, shape),
        }
    }

    fn is_default(&self, shape: &Shape, name: &str, value: &Value) -> bool {
        let Shape::Struct(id) = shape else { return false };
        self.schema
            .field(*id, name)
            .and_then(|field| field.default.as_ref())
            .is_some_and(|known| known == value)
    }
}

/// A scalar as the server would spell it.
fn spell(value: &Value, shape: &Shape) -> Value {
    let spelled = match (shape, value) {
        (Shape::Quantity, value) => quantity::nano(value).map(|nano| format!("{nano}n").into()),
        (Shape::Bytes, Value::String(text)) if text.contains(['\n', '\r']) => {
            secret::decode(text).map(|bytes| STANDARD.encode(bytes).into())
        }
        _ => None,
    };
    spelled.unwrap_or_else(|| value.clone())
}
