//! All that a decision about a Rollout is made from.
//!
//! The shell gathers these facts; the planner reads nothing else. What is missing is a fact too: a Service that the spec
//! names and that is not there is an entry with `None`.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde_json::Value;
use windlass_api::{
    analysis::{AnalysisTemplateSpec, Argument},
    rollout::{
        DESIRED_REPLICAS, EPHEMERAL_METADATA, POD_TEMPLATE_HASH, PodMetadata, REVISION, REVISION_HISTORY,
        Rollout, SCALE_DOWN_DEADLINE,
        analysis::TemplateRef,
        status::RunPhase,
        traffic::{HeaderMatch, RouteMatch},
    },
};

use crate::revision::template;

/// Everything about one Rollout.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Rollout itself, with the status that is stored.
    pub rollout: Arc<Rollout>,
    /// The workload that `spec.workloadRef` names; `None` without a reference.
    pub workload: Option<WorkloadFacts>,
    /// `ReplicaSets` of the namespace that we own, that our selector matches, or that have a name that we would give.
    pub replica_sets: Vec<ReplicaSetFacts>,
    /// Every Service that the spec names; `None`: it is not there.
    pub services: BTreeMap<String, Option<ServiceFacts>>,
    /// Every route that the spec names, in its order.
    pub routes: Vec<RouteFacts>,
    /// `AnalysisRuns` that we own. A run that the status names and that no index has was asked for by name.
    pub runs: Vec<RunFacts>,
    /// Experiments that we own.
    pub experiments: Vec<ExperimentFacts>,
    /// Every template that the spec names, and those that they name; `None`: it is not there.
    pub templates: BTreeMap<TemplateRef, Option<TemplateFacts>>,
    /// Other Rollouts that name one of our Services.
    pub rivals: Vec<Rival>,
    /// Pods of our `ReplicaSets`; only while [`Observed::wants_pods`].
    pub pods: Option<Vec<PodFacts>>,
}

impl Observed {
    /// Whether pods have to be listed: a restart is asked for and not over, or pod metadata is in play.
    pub fn wants_pods(rollout: &Rollout, now: Timestamp) -> bool {
        crate::plan::restart::due(rollout, now) || crate::plan::metadata::configured(&rollout.spec.strategy)
    }
}

/// What an analysis template asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateFacts {
    /// Arguments that have no value.
    pub open: BTreeSet<String>,
    /// Arguments that have one.
    pub given: BTreeSet<String>,
    /// Templates that it names.
    pub nested: Vec<TemplateRef>,
}

impl TemplateFacts {
    /// The facts about a template.
    pub fn of(spec: &AnalysisTemplateSpec) -> Self {
        let (given, open): (Vec<_>, Vec<_>) =
            spec.args.iter().partition(|arg| arg.value.is_some() || arg.value_from.is_some());
        let names = |args: Vec<&Argument>| args.into_iter().map(|arg| arg.name.clone()).collect();
        Self { open: names(open), given: names(given), nested: spec.templates.clone() }
    }

    /// The templates of these names and of those that they name, as far as they are known.
    pub fn closure(
        names: impl IntoIterator<Item = TemplateRef>,
        known: impl Fn(&TemplateRef) -> Option<Self>,
    ) -> BTreeMap<TemplateRef, Option<Self>> {
        let mut found = BTreeMap::new();
        let mut open: Vec<TemplateRef> = names.into_iter().collect();
        while let Some(next) = open.pop() {
            if let Entry::Vacant(place) = found.entry(next) {
                let facts = known(place.key());
                open.extend(facts.iter().flat_map(|facts| facts.nested.clone()));
                place.insert(facts);
            }
        }
        found
    }
}

/// A Deployment that a Rollout takes its template from.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadFacts {
    /// It is there.
    Found {
        /// `metadata.generation`.
        generation: i64,
        /// `spec.replicas`.
        replicas: i32,
        /// `spec.template`.
        template: Arc<Value>,
        /// `spec.selector`.
        selector: LabelSelector,
    },
    /// It is not there.
    Missing,
    /// It is of a kind that is not read.
    Unsupported,
}

/// A `ReplicaSet`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSetFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Uid of its controller, if it has one.
    pub controller: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// `metadata.generation` is not yet observed by its controller.
    pub unobserved: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`.
    pub wanted: i32,
    /// `status.replicas`.
    pub replicas: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `spec.template`.
    pub template: Arc<Value>,
    /// Reason and message of the condition `ReplicaFailure`, while it is true.
    pub failure: Option<(String, String)>,
}

impl ReplicaSetFacts {
    /// The hash of its template, as its label says.
    pub fn hash(&self) -> Option<&str> {
        self.labels.get(POD_TEMPLATE_HASH).map(String::as_str)
    }

    /// Its revision; 0 for none.
    pub fn revision(&self) -> i64 {
        self.annotations.get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The revision that it was made as: an older template that is rolled out again gets a new number.
    pub fn first_revision(&self) -> i64 {
        let first =
            self.annotations.get(REVISION_HISTORY).and_then(|all| all.split(',').next()?.parse().ok());
        first.unwrap_or_else(|| self.revision())
    }

    /// Which of two was made first. Times have whole seconds, so revisions decide within one.
    pub fn is_older_than(&self, other: &Self) -> bool {
        (self.created, self.first_revision()) < (other.created, other.first_revision())
    }

    /// `spec.replicas` of the Rollout when it was last scaled.
    pub fn desired(&self) -> Option<i32> {
        self.annotations.get(DESIRED_REPLICAS)?.parse().ok()
    }

    /// When it is scaled to zero.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.annotations.get(SCALE_DOWN_DEADLINE)?.parse().ok()
    }

    /// The pod metadata that was put in.
    pub fn injected(&self) -> Option<PodMetadata> {
        serde_json::from_str(self.annotations.get(EPHEMERAL_METADATA)?).ok()
    }

    /// The template as the Rollout had it.
    pub fn plain_template(&self) -> Value {
        template::plain(&self.template, &self.injected().unwrap_or_default())
    }

    /// All pods that it wants are there and available.
    pub fn full(&self) -> bool {
        self.wanted > 0 && self.available >= self.wanted
    }
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceFacts {
    /// `spec.selector`.
    pub selector: BTreeMap<String, String>,
    /// The Rollout that moves its selector, as its annotation says.
    pub managed_by: Option<String>,
    /// It has at least one port.
    pub has_port: bool,
}

impl ServiceFacts {
    /// The hash that it selects.
    pub fn hash(&self) -> Option<&str> {
        self.selector.get(POD_TEMPLATE_HASH).map(String::as_str)
    }
}

/// A kind of route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RouteKind {
    /// `HTTPRoute`.
    Http,
    /// `GRPCRoute`.
    Grpc,
}

impl RouteKind {
    /// The kind as manifests spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
        }
    }
}

/// Names a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouteName {
    /// Its kind.
    pub kind: RouteKind,
    /// Its name.
    pub name: String,
}

/// A route as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteFacts {
    /// Which.
    pub route: RouteName,
    /// Why it cannot be used: missing, without our backends, without a port, the API is not served.
    pub trouble: Option<RouteTrouble>,
    /// What it says now, if it can be used.
    pub seen: Option<TrafficWish>,
}

/// Why a route cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteTrouble {
    /// For the condition, in `CamelCase`, from a fixed set.
    pub reason: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a route should say, or says: equal values mean that nothing has to be written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrafficWish {
    /// Share of the stable Service.
    pub stable: i32,
    /// Share of the canary Service.
    pub canary: i32,
    /// Shares of Services of an experiment, by name.
    pub additional: BTreeMap<String, i32>,
    /// Our header rules, in the order that they have on the route.
    pub headers: Vec<HeaderRule>,
    /// Our mirror rules, in the order that they have on the route.
    pub mirrors: Vec<MirrorRule>,
}

/// Requests with one of these headers go to the canary Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeaderRule {
    /// Its name.
    pub name: String,
    /// Any of them.
    pub matches: Vec<HeaderMatch>,
    /// Answers set this cookie to the rule's name, and requests that bring it match too.
    pub sticky_cookie: Option<String>,
}

/// Requests that match are copied to the canary Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MirrorRule {
    /// Its name.
    pub name: String,
    /// Any of them.
    pub matches: Vec<RouteMatch>,
    /// How many percent of them; 100 for all.
    pub percentage: i32,
}

/// An `AnalysisRun` that we own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// It was asked to end.
    pub terminating: bool,
    /// Its phase.
    pub phase: RunPhase,
    /// What it says.
    pub message: Option<String>,
}

/// An Experiment that we own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// It was asked to end.
    pub terminating: bool,
    /// Its phase.
    pub phase: RunPhase,
    /// What it says.
    pub message: Option<String>,
    /// For each of its templates: name, Service (if it has one) and pod template hash.
    pub templates: Vec<ExperimentTemplateFacts>,
}

/// A template of an Experiment, as its status says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentTemplateFacts {
    /// Its name.
    pub name: String,
    /// The Service of its pods.
    pub service: Option<String>,
    /// The hash of its pods.
    pub hash: Option<String>,
}

/// Another Rollout that names one of our Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The Service.
    pub service: String,
    /// The other Rollout.
    pub rollout: String,
    /// The other one is older: it keeps the Service.
    pub older: bool,
}

/// A pod of one of our `ReplicaSets`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Uid of its `ReplicaSet`.
    pub replica_set: String,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// It is available: ready for `minReadySeconds`.
    pub available: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}
