//! What the planner asks for. Each action is idempotent: repeated after a crash it changes nothing more.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde_json::Value;
use windlass_api::rollout::{
    analysis::{DryRun, MeasurementRetention, TemplateRef},
    status::Transition,
};

use crate::observed::{RouteName, TrafficWish};

/// One thing to do. Objects are in the namespace of the Rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Become the controller of an orphan. The uid is a precondition.
    AdoptReplicaSet {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Let go of a `ReplicaSet` that the selector no longer matches: our owner reference goes.
    ReleaseReplicaSet {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Make a `ReplicaSet` with us as its controller. One of that name that is ours is as good.
    CreateReplicaSet(Box<NewReplicaSet>),
    /// Change a `ReplicaSet` in one patch. The uid is a precondition.
    PatchReplicaSet(Box<ReplicaSetPatch>),
    /// Delete a `ReplicaSet` without pods. The uid is a precondition.
    DeleteReplicaSet {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Change labels and annotations of a pod. One that is gone is as good.
    PatchPod {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Labels to set, or with `None` to take away.
        labels: BTreeMap<String, Option<String>>,
        /// Annotations to set, or with `None` to take away.
        annotations: BTreeMap<String, Option<String>>,
    },
    /// Ask the eviction API to remove a pod. A refusal by a disruption budget is no failure: it is asked again later.
    EvictPod {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Set the hash in a Service's selector and note that we manage it.
    SwitchService {
        /// Its name.
        name: String,
        /// The hash that it should select.
        hash: String,
        /// The hash that it selected, for people.
        from: Option<String>,
    },
    /// Make a route say this. Everything else on it stays.
    SetTraffic {
        /// The route.
        route: RouteName,
        /// The Service of the stable version.
        stable_service: String,
        /// The Service of the new version.
        canary_service: String,
        /// What it should say.
        wish: TrafficWish,
    },
    /// Make an `AnalysisRun` with us as its controller. One of that name that is ours is as good.
    CreateRun(Box<NewRun>),
    /// Ask an `AnalysisRun` to end.
    TerminateRun {
        /// Its name.
        name: String,
    },
    /// Delete an `AnalysisRun`.
    DeleteRun {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Make an Experiment with us as its controller. One of that name that is ours is as good.
    CreateExperiment(Box<NewExperiment>),
    /// Ask an Experiment to end.
    TerminateExperiment {
        /// Its name.
        name: String,
    },
    /// Delete an Experiment.
    DeleteExperiment {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Scale the workload that the template comes from.
    ScaleWorkload {
        /// Its name.
        name: String,
        /// How many pods.
        replicas: i32,
    },
    /// Write the revision's number on the Rollout as an annotation.
    SetRevision {
        /// The number.
        revision: i64,
    },
    /// Tell the sinks of `CDEvents`; only for a Rollout that is being deleted, whose status is not stored any more.
    Announce(Transition),
}

/// A `ReplicaSet` to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewReplicaSet {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// How many pods.
    pub replicas: i32,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `spec.selector`, with the hash.
    pub selector: LabelSelector,
    /// `spec.template`, with the hash, the pod metadata and the anti-affinity of the moment.
    pub template: Value,
}

/// Changes of a `ReplicaSet`, in one patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplicaSetPatch {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// `spec.replicas`.
    pub replicas: Option<i32>,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: Option<i32>,
    /// Annotations to set, or with `None` to take away.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Labels of the pod template to set, or with `None` to take away.
    pub template_labels: BTreeMap<String, Option<String>>,
    /// Annotations of the pod template to set, or with `None` to take away.
    pub template_annotations: BTreeMap<String, Option<String>>,
    /// `spec.template.spec.affinity` as a whole (`Null` takes it away); `None` leaves it.
    pub affinity: Option<Value>,
}

impl ReplicaSetPatch {
    /// Nothing to change.
    pub fn is_empty(&self) -> bool {
        self.replicas.is_none()
            && self.min_ready_seconds.is_none()
            && self.annotations.is_empty()
            && self.template_labels.is_empty()
            && self.template_annotations.is_empty()
            && self.affinity.is_none()
    }
}

/// An `AnalysisRun` to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewRun {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The templates to merge.
    pub templates: Vec<TemplateRef>,
    /// Values of the arguments, resolved.
    pub args: BTreeMap<String, String>,
    /// Metrics that never decide.
    pub dry_run: Vec<DryRun>,
    /// How many measurements are kept.
    pub measurement_retention: Vec<MeasurementRetention>,
}

/// An Experiment to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewExperiment {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its spec, in the shape of the kind `Experiment`.
    pub spec: Value,
}
