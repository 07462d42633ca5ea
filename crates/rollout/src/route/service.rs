//! A Service as a value: only our key in its selector, and the note of who manages it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::rollout::{MANAGED_BY, POD_TEMPLATE_HASH as HASH};

/// The merge patch that points a Service at the pods of one hash; `None` if it does already.
///
/// The version guards against a Service that was made anew in between; keys of others stay.
pub fn point(
    selector: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    rollout: &str,
    hash: &str,
) -> Option<Value> {
    let mut patch = serde_json::Map::new();
    if selector.get(HASH).map(String::as_str) != Some(hash) {
        patch.insert("spec".to_owned(), json!({ "selector": { HASH: hash } }));
    }
    if annotations.get(MANAGED_BY).map(String::as_str) != Some(rollout) {
        patch.insert("metadata".to_owned(), json!({ "annotations": { MANAGED_BY: rollout } }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_our_key_of_a_selector_is_written_and_only_if_it_differs() {
        let selector = map(&[("app", "web"), (HASH, "aaa")]);
        let noted = map(&[(MANAGED_BY, "web"), ("x", "y")]);
        assert_eq!(
            point(&selector, &noted, "web", "bbb"),
            Some(json!({ "spec": { "selector": { HASH: "bbb" } } }))
        );
        assert_eq!(point(&selector, &noted, "web", "aaa"), None);
        let fresh = point(&map(&[("app", "web")]), &map(&[]), "web", "aaa").unwrap();
        assert_eq!(fresh["metadata"]["annotations"], json!({ MANAGED_BY: "web" }));
    }
}
