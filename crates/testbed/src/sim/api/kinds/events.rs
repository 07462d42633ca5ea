//! Events are one stored kind that two groups serve under different field names.

use serde_json::{Map, Value};

/// `(core, events.k8s.io)`.
const NAMES: &[(&str, &str)] = &[
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An event with the field names of `group`; fields that both groups name alike stay.
pub(crate) fn convert(object: &Value, group: &str) -> Value {
    let Some(fields) = object.as_object() else {
        return object.clone();
    };
    let renamed: Map<String, Value> = fields
        .iter()
        .map(|(name, value)| {
            let found = NAMES.iter().find_map(|(core, other)| match group {
                "" if other == name => Some(*core),
                "events.k8s.io" if core == name => Some(*other),
                _ => None,
            });
            (found.unwrap_or(name).to_owned(), value.clone())
        })
        .collect();
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back() {
        let stored = json!({"message": "m", "involvedObject": {"name": "x"}, "reason": "R", "count": 2});
        let shown = convert(&stored, "events.k8s.io");
        assert_eq!(
            shown,
            json!({"note": "m", "regarding": {"name": "x"}, "reason": "R", "deprecatedCount": 2})
        );
        assert_eq!(convert(&shown, ""), stored);
    }
}
