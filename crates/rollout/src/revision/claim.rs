//! Which `ReplicaSets` are ours: owned and selected ones stay, orphans that the selector matches are adopted, owned ones
//! that it no longer matches are released, and what another controller owns is never touched.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::observed::ReplicaSetFacts;

/// What becomes of the `ReplicaSets`.
#[derive(Clone, Debug, Default)]
pub struct Claim<'a> {
    /// Ours, also those that are being adopted, by time of creation and name.
    pub ours: Vec<&'a ReplicaSetFacts>,
    /// Orphans to adopt.
    pub adopt: Vec<&'a ReplicaSetFacts>,
    /// Owned ones to let go of.
    pub release: Vec<&'a ReplicaSetFacts>,
}

/// Sorts `ReplicaSets` into ours and others'. While the Rollout is being deleted nothing is adopted.
pub fn claim<'a>(
    replica_sets: &'a [ReplicaSetFacts],
    owner: &str,
    selector: &LabelSelector,
    deleting: bool,
) -> Claim<'a> {
    let mut claim = Claim::default();
    for set in replica_sets {
        let selected = matches(selector, &set.labels);
        match set.controller.as_deref() {
            Some(uid) if uid == owner && selected => claim.ours.push(set),
            Some(uid) if uid == owner => claim.release.push(set),
            None if selected && !deleting && !set.deleting => {
                claim.adopt.push(set);
                claim.ours.push(set);
            }
            _ => {}
        }
    }
    claim.ours.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name)));
    claim
}

/// Whether a selector matches labels. An empty one matches nothing here: it would take every pod of the namespace.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let rules = selector.match_expressions.iter().flatten();
    if equal.clone().next().is_none() && rules.clone().next().is_none() {
        return false;
    }
    equal.clone().all(|(name, value)| labels.get(name) == Some(value))
        && rules.clone().all(|rule| {
            let value = labels.get(&rule.key);
            let listed = || {
                let values = rule.values.as_deref().unwrap_or_default();
                value.is_some_and(|value| values.contains(value))
            };
            match rule.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// A selector as `kubectl` writes it.
pub fn selector_text(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}={value}"));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let values = rule.values.as_deref().unwrap_or_default().join(",");
        match rule.operator.as_str() {
            "In" => format!("{} in ({values})", rule.key),
            "NotIn" => format!("{} notin ({values})", rule.key),
            "DoesNotExist" => format!("!{}", rule.key),
            _ => rule.key.clone(),
        }
    });
    equal.chain(rules).collect::<Vec<_>>().join(",")
}
