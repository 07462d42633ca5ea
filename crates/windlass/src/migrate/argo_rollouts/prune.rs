//! Fields that are lost when an object is read as ours.

use serde_json::Value;

use crate::migrate::report::Report;

/// Takes away what is in `given` and not in `known`, which is the same object after it was read and written. What says
/// something is told.
pub(super) fn unknown(given: &mut Value, known: &Value, path: &str, report: &mut Report) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            given.retain(|key, value| {
                if known.contains_key(key) {
                    return true;
                }
                // Zero values need not be written: they are what is there without them.
                let says_something = !is_zero(value);
                if says_something {
                    report.left(
                        format!("{path}.{key}"),
                        "is not known here and was not carried over",
                        "Look up what it does and set the field that does the same, if there is one",
                    );
                }
                false
            });
            for (key, value) in given.iter_mut() {
                if let Some(known) = known.get(key) {
                    unknown(value, known, &format!("{path}.{key}"), report);
                }
            }
        }
        (Value::Array(given), Value::Array(known)) if given.len() == known.len() => {
            for (index, (value, known)) in given.iter_mut().zip(known).enumerate() {
                unknown(value, known, &format!("{path}[{index}]"), report);
            }
        }
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_lost_is_told_and_what_says_nothing_is_not() {
        let mut given = json!({ "a": 1, "odd": { "x": 1 }, "zero": 0, "off": false, "none": null, "list": [{ "b": 1, "c": 2 }] });
        let known = json!({ "a": 1, "list": [{ "b": 1 }] });
        let mut report = Report::default();
        unknown(&mut given, &known, "spec", &mut report);
        assert_eq!(given, known);
        let fields: Vec<&str> = report.leftovers().iter().map(|entry| entry.field.as_str()).collect();
        assert_eq!(fields, ["spec.odd", "spec.list[0].c"]);
    }
}
