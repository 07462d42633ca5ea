//! What a `Cluster` says about itself, and whether it can be used. Pure.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt, api::ObjectMeta};
use windlass_api::{
    Cluster,
    condition::{self, READY, Truth},
};

use crate::trouble::Trouble;

/// The label that stands for a cluster's name wherever clusters are selected.
pub const NAME_LABEL: &str = "windlass.dev/cluster";

/// What decisions about a cluster are made from. While it stays equal, nothing that matters has changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    /// How to reach it; `None` for the controller's own cluster without a `Cluster`.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// See [`super::Member::labels`].
    pub(super) labels: BTreeMap<String, String>,
    /// Its Kubernetes version.
    pub(super) version: Option<String>,
    /// Why its `Cluster` says that it cannot be used.
    pub(super) standing: Option<Trouble>,
    /// Its `Cluster` is being deleted.
    pub(super) leaving: bool,
}

impl Facts {
    /// Of a `Cluster`.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let status = cluster.status.as_ref();
        // Neither status nor managed fields are needed to connect, and they change with every heartbeat.
        let slim = Cluster {
            metadata: ObjectMeta {
                name: cluster.metadata.name.clone(),
                uid: cluster.metadata.uid.clone(),
                generation: cluster.metadata.generation,
                ..ObjectMeta::default()
            },
            spec: cluster.spec.clone(),
            status: None,
        };
        Self {
            labels: labels(&cluster.name_any(), cluster.metadata.labels.clone().unwrap_or_default()),
            version: status.and_then(|status| status.version.clone()),
            standing: standing(cluster),
            leaving: cluster.metadata.deletion_timestamp.is_some(),
            cluster: Some(Arc::new(slim)),
        }
    }

    /// Of the controller's own cluster, when no `Cluster` has its name.
    pub(super) fn own(name: &str) -> Self {
        Self {
            cluster: None,
            labels: labels(name, BTreeMap::new()),
            version: None,
            standing: None,
            leaving: false,
        }
    }
}

/// The name is told by a label of ours, whatever somebody may have written there.
fn labels(name: &str, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    labels
}

/// Why a `Cluster` says that it cannot be used; only a verdict on the spec as it is now counts.
fn standing(cluster: &Cluster) -> Option<Trouble> {
    let name = cluster.name_any();
    if cluster.spec.suspend {
        let remedy = format!("Set spec.suspend of Cluster {name} to false to use it again");
        return Some(Trouble::standing("ClusterSuspended", format!("cluster {name} is suspended"), remedy));
    }
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = condition::get(conditions, READY)
        .filter(|ready| ready.observed_generation == cluster.metadata.generation);
    match ready {
        Some(ready) if ready.status == Truth::True.as_str() => None,
        Some(ready) => Some(Trouble::standing(
            "ClusterNotReady",
            format!("cluster {name} is not ready ({}): {}", ready.reason, ready.message),
            String::new(),
        )),
        None => Some(Trouble::standing(
            "ClusterNotReady",
            format!("cluster {name} has not been looked at yet"),
            "The Cluster controller does that within seconds; it has to be switched on",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn cluster(metadata: &Value, spec: &Value, ready: Option<(&str, i64)>) -> Cluster {
        let conditions = ready.map(|(status, generation)| {
            json!([{ "type": "Ready", "status": status, "reason": "Timeout", "message": "No answer.",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z" }])
        });
        let mut object = json!({ "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "east", "generation": 2 }, "spec": spec,
            "status": { "version": "v1.36.3", "conditions": conditions.unwrap_or_else(|| json!([])) } });
        for (name, value) in metadata.as_object().unwrap() {
            object["metadata"][name] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_a_verdict_on_the_current_spec_makes_a_cluster_usable() {
        let spec = json!({ "inCluster": {} });
        let reason = |ready| {
            Facts::of(&cluster(&json!({}), &spec, ready))
                .standing
                .map(|trouble| (trouble.reason, trouble.what))
        };
        assert_eq!(reason(Some(("True", 2))), None);
        let (old, what) = reason(Some(("True", 1))).unwrap();
        assert_eq!((old, what.contains("not been looked at")), ("ClusterNotReady", true));
        let (_, what) = reason(Some(("False", 2))).unwrap();
        assert_eq!(what, "cluster east is not ready (Timeout): No answer.");
        assert!(reason(Some(("Unknown", 2))).is_some() && reason(None).is_some());
        let suspended = cluster(&json!({}), &json!({ "inCluster": {}, "suspend": true }), Some(("True", 2)));
        assert_eq!(Facts::of(&suspended).standing.unwrap().reason, "ClusterSuspended");
    }

    #[test]
    fn a_heartbeat_changes_no_fact_and_a_label_does() {
        let spec = json!({ "inCluster": {} });
        let before = Facts::of(&cluster(&json!({ "resourceVersion": "1" }), &spec, Some(("True", 2))));
        let mut beat = cluster(&json!({ "resourceVersion": "2" }), &spec, Some(("True", 2)));
        let status = beat.status.as_mut().unwrap();
        status.last_probe = Some(serde_json::from_value(json!("2026-01-01T00:05:00Z")).unwrap());
        assert_eq!(Facts::of(&beat), before);
        let labels = json!({ "labels": { "tier": "prod", NAME_LABEL: "west" } });
        let labelled = Facts::of(&cluster(&labels, &spec, Some(("True", 2))));
        assert_ne!(labelled, before);
        assert_eq!(labelled.labels[NAME_LABEL], "east", "nobody else says what a cluster is called");
    }
}
