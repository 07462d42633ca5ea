//! What is replaced as a whole, compared as a whole.

use serde_json::{Map, Value};

use super::scalar;
use crate::schema::{Schema, Shape};

/// How much is forgiven.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leniency {
    /// Zeros are left out when the value is stored.
    pub(super) drops_zeros: bool,
    /// The live value was set by us: what it has beyond the wanted one, in places nothing is known of, are defaults.
    pub(super) ours: bool,
}

/// Whether a live value is the wanted one, but for defaults that the server has added.
pub(super) fn same(schema: &Schema, wanted: &Value, live: &Value, shape: &Shape, leniency: Leniency) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => maps(schema, wanted, live, shape, leniency),
        (Value::Array(wanted), Value::Array(live)) => {
            let item = match shape {
                Shape::List { item, .. } => item,
                _ => &Shape::Any,
            };
            wanted.len() == live.len()
                && wanted.iter().zip(live).all(|(wanted, live)| same(schema, wanted, live, item, leniency))
        }
        _ => scalar::same(wanted, live, shape) || (scalar::is_empty(wanted) && scalar::is_empty(live)),
    }
}

fn maps(
    schema: &Schema,
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
    shape: &Shape,
    leniency: Leniency,
) -> bool {
    let says_nothing = |value: &Value| {
        scalar::is_empty(value)
            || (leniency.drops_zeros && !matches!(shape, Shape::Map { .. }) && scalar::is_zero(value))
    };
    let kept = wanted.iter().all(|(name, value)| match live.get(name) {
        Some(live) if !live.is_null() => {
            same(schema, value, live, field_shape(schema, shape, name), leniency)
        }
        _ => says_nothing(value),
    });
    kept && live.iter().all(|(name, value)| {
        wanted.get(name).is_some_and(|value| !value.is_null())
            || says_nothing(value)
            || is_filled_in(schema, shape, name, value, leniency)
    })
}

/// Whether the server may have put a value where nothing was wanted.
fn is_filled_in(schema: &Schema, shape: &Shape, name: &str, value: &Value, leniency: Leniency) -> bool {
    match shape {
        Shape::Struct(id) => match schema.field(*id, name) {
            Some(field) => {
                field.filled
                    || field
                        .default
                        .as_ref()
                        .is_some_and(|default| same(schema, default, value, &field.shape, leniency))
            }
            // A field of a newer server: nobody who knows it not can have wanted it.
            None => true,
        },
        Shape::Any => leniency.ours,
        _ => false,
    }
}

/// The shape of an entry of a map.
pub(super) fn field_shape<'s>(schema: &'s Schema, shape: &'s Shape, name: &str) -> &'s Shape {
    match shape {
        Shape::Struct(id) => schema.field(*id, name).map_or(&Shape::Any, |field| &field.shape),
        Shape::Map { item, .. } => item,
        _ => &Shape::Any,
    }
}
