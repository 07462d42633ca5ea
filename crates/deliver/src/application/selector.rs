//! Which clusters a label selector means.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::trouble::Trouble;

/// Reason of the [`Trouble`] about a selector that means nothing.
pub const INVALID_SELECTOR: &str = "InvalidSelector";

/// Whether labels are what a selector asks for.
///
/// The rules are those of Kubernetes: all parts have to hold, an empty selector holds for everything, and `NotIn` holds
/// where the label is missing. An operator that nobody knows is an error and never a match.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, Trouble> {
    let mut all = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    for requirement in selector.match_expressions.iter().flatten() {
        all &= holds(requirement, labels.get(&requirement.key))?;
    }
    Ok(all)
}

fn holds(requirement: &LabelSelectorRequirement, label: Option<&String>) -> Result<bool, Trouble> {
    let values = requirement.values.as_deref().unwrap_or_default();
    let LabelSelectorRequirement { key, operator, .. } = requirement;
    let wrong = |what: &str| {
        Trouble::standing(
            INVALID_SELECTOR,
            format!(
                "The selector has a matchExpression for the label {key} with the operator {operator}, {what}"
            ),
            "Write In or NotIn with values, or Exists or DoesNotExist without",
        )
    };
    let listed = label.is_some_and(|label| values.contains(label));
    match (operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(listed),
        ("NotIn", false) => Ok(!listed),
        ("Exists", true) => Ok(label.is_some()),
        ("DoesNotExist", true) => Ok(label.is_none()),
        ("In" | "NotIn", true) => Err(wrong("which needs values")),
        ("Exists" | "DoesNotExist", false) => Err(wrong("which takes no values")),
        _ => Err(wrong("which there is not")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels() -> BTreeMap<String, String> {
        [("env", "prod"), ("region", "eu")].map(|(a, b)| (a.to_owned(), b.to_owned())).into()
    }

    #[test]
    fn a_selector_means_what_kubernetes_means_by_it() {
        let one = |key: &str, operator: &str, values: Value| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        for (value, wanted) in [
            (json!({}), true),
            (json!({ "matchLabels": { "env": "prod" } }), true),
            (json!({ "matchLabels": { "env": "prod", "region": "us" } }), false),
            (json!({ "matchLabels": { "tier": "gold" } }), false),
            (one("env", "In", json!(["test", "prod"])), true),
            (one("env", "In", json!(["test"])), false),
            (one("tier", "In", json!(["gold"])), false),
            (one("env", "NotIn", json!(["prod"])), false),
            (one("tier", "NotIn", json!(["gold"])), true),
            (one("env", "Exists", json!(null)), true),
            (one("tier", "Exists", json!([])), false),
            (one("env", "DoesNotExist", json!([])), false),
            (one("tier", "DoesNotExist", json!([])), true),
            (
                json!({
                    "matchLabels": { "env": "prod" },
                    "matchExpressions": [{ "key": "region", "operator": "In", "values": ["us"] }],
                }),
                false,
            ),
        ] {
            assert_eq!(matches(&selector(value.clone()), &labels()), Ok(wanted), "{value}");
        }
    }

    #[test]
    fn a_selector_that_means_nothing_is_told_and_matches_nothing() {
        for (operator, values) in [
            ("in", json!(["a"])),
            ("In", json!([])),
            ("NotIn", json!(null)),
            ("Exists", json!(["a"])),
            ("Gt", json!(["1"])),
        ] {
            // The first part alone would decide already: the mistake is told all the same.
            let selector = selector(json!({
                "matchLabels": { "env": "none" },
                "matchExpressions": [{ "key": "env", "operator": operator, "values": values }],
            }));
            let trouble = matches(&selector, &labels()).unwrap_err();
            assert_eq!(trouble.reason, INVALID_SELECTOR);
            assert!(trouble.what.contains("env") && trouble.what.contains(operator), "{trouble:?}");
        }
    }

    proptest! {
        #[test]
        fn an_operator_and_its_opposite_never_agree(label in proptest::option::of("[ab]"), values in proptest::collection::vec("[ab]", 1..3)) {
            let labels: BTreeMap<String, String> = label.into_iter().map(|value| ("k".to_owned(), value)).collect();
            let ask = |operator: &str, values: &[String]| {
                matches(&selector(json!({ "matchExpressions": [{ "key": "k", "operator": operator, "values": values }] })), &labels).unwrap()
            };
            prop_assert_ne!(ask("In", &values), ask("NotIn", &values));
            prop_assert_ne!(ask("Exists", &[]), ask("DoesNotExist", &[]));
        }
    }
}
