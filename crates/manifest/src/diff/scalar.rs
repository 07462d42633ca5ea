//! When two texts, numbers or booleans mean the same.

use serde_json::{Number, Value};

use super::{quantity, secret};
use crate::schema::Shape;

/// Whether two scalars of this shape mean the same.
pub(super) fn same(a: &Value, b: &Value, shape: &Shape) -> bool {
    if equal(a, b) {
        return true;
    }
    match shape {
        Shape::Quantity => quantity::same(a, b),
        Shape::IntOrString => matches!((text(a), text(b)), (Some(a), Some(b)) if a == b),
        Shape::Bytes => match (a, b) {
            (Value::String(a), Value::String(b)) => {
                matches!((secret::decode(a), secret::decode(b)), (Some(a), Some(b)) if a == b)
            }
            _ => false,
        },
        Shape::Time => match (a, b) {
            (Value::String(a), Value::String(b)) => {
                let instant = |text: &str| text.parse::<jiff::Timestamp>().ok();
                matches!((instant(a), instant(b)), (Some(a), Some(b)) if a == b)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Equality of scalars where `1` is `1.0`, as it is to the API server.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || same_number(a, b),
        _ => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    // Integers that differ as integers do differ, even where floats could not tell.
    (a.is_f64() || b.is_f64()) && a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether a value says nothing: `null`, an empty map or list, or a map of such.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether a value is what Go has where nothing was said.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        other => is_empty(other),
    }
}
