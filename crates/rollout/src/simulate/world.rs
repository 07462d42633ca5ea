//! A cluster in memory: just as much of it as the planner sees.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::{
    analysis::{AnalysisRunSpec, AnalysisRunStatus, TemplateRef},
    experiment::ExperimentSpec,
    rollout::Rollout,
};

use super::Scenario;
use crate::{
    observed::{
        ExperimentFacts, Observed, PodFacts, ReplicaSetFacts, RouteFacts, RunFacts, ServiceFacts,
        TemplateFacts, WorkloadFacts,
    },
    plan::scene::resolved,
};

/// The cluster.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) rollout: Rollout,
    pub(super) workload: Option<WorkloadFacts>,
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) services: BTreeMap<String, Option<ServiceFacts>>,
    pub(super) routes: Vec<RouteFacts>,
    pub(super) runs: BTreeMap<String, Run>,
    pub(super) experiments: BTreeMap<String, Experiment>,
    pub(super) templates: BTreeMap<TemplateRef, Option<TemplateFacts>>,
    pub(super) ready_after: Duration,
    /// Counts what was made, for names and UIDs.
    pub(super) made: u64,
}

/// A `ReplicaSet` with its pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Without the counts of pods.
    pub(super) facts: ReplicaSetFacts,
    pub(super) pods: Vec<Pod>,
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) born: Timestamp,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// An `AnalysisRun`.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) facts: RunFacts,
    pub(super) spec: AnalysisRunSpec,
    pub(super) status: AnalysisRunStatus,
    /// When its planner wants to look again.
    pub(super) wake: Option<Timestamp>,
    /// It belongs to an Experiment: the Rollout does not see it.
    pub(super) of_experiment: bool,
}

/// An Experiment.
#[derive(Clone, Debug, Default)]
pub(super) struct Experiment {
    pub(super) facts: ExperimentFacts,
    pub(super) spec: ExperimentSpec,
    /// When its pods were there.
    pub(super) available_at: Option<Timestamp>,
    /// Names of its runs, and whether it waits for them.
    pub(super) runs: Vec<(String, bool)>,
}

impl World {
    /// The cluster of a scenario before anything is applied.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut rollout = scenario.rollout.clone();
        rollout.metadata.uid = Some("simulated".to_owned());
        rollout.metadata.generation = Some(1);
        rollout.metadata.deletion_timestamp = None;
        rollout.metadata.resource_version = None;
        rollout.status = None;
        rollout.metadata.name.get_or_insert_with(|| "rollout".to_owned());
        Self {
            rollout,
            workload: scenario.world.workload.clone(),
            sets: BTreeMap::new(),
            services: scenario.world.services.clone(),
            routes: scenario.world.routes.clone(),
            runs: BTreeMap::new(),
            experiments: BTreeMap::new(),
            templates: scenario.world.templates.clone(),
            ready_after: scenario.ready_after,
            made: 0,
        }
    }

    /// The pod template that counts.
    pub(super) fn template(&self) -> Option<Value> {
        let observed = Observed {
            rollout: Arc::new(self.rollout.clone()),
            workload: self.workload.clone(),
            ..Observed::default()
        };
        resolved(&observed).map(|(template, _)| template.into_owned())
    }

    /// Another pod template: a new generation.
    pub(super) fn set_template(&mut self, wanted: Value) {
        if let Some(WorkloadFacts::Found { template, generation, .. }) = &mut self.workload {
            *template = Arc::new(wanted);
            *generation += 1;
        } else {
            self.rollout.spec.template = Some(wanted);
            self.rollout.metadata.generation = self.rollout.metadata.generation.map(|number| number + 1);
        }
    }

    /// What the planner sees at this time.
    pub(super) fn observed(&self, now: Timestamp) -> Observed {
        let wants_pods = Observed::wants_pods(&self.rollout, now);
        Observed {
            rollout: Arc::new(self.rollout.clone()),
            workload: self.workload.clone(),
            replica_sets: self.sets.values().map(|set| self.counted(set, now)).collect(),
            services: self.services.clone(),
            routes: self.routes.clone(),
            runs: self.runs.values().filter(|run| !run.of_experiment).map(|run| run.facts.clone()).collect(),
            experiments: self.experiments.values().map(|experiment| experiment.facts.clone()).collect(),
            templates: self.templates.clone(),
            rivals: Vec::new(),
            pods: wants_pods.then(|| self.pods(now)),
        }
    }

    /// A `ReplicaSet` with its counts at this time.
    pub(super) fn counted(&self, set: &Set, now: Timestamp) -> ReplicaSetFacts {
        let count = |ready: &dyn Fn(&Pod) -> Timestamp| {
            let ready = set.pods.iter().filter(|pod| ready(pod) <= now).count();
            i32::try_from(ready).unwrap_or(i32::MAX)
        };
        ReplicaSetFacts {
            replicas: i32::try_from(set.pods.len()).unwrap_or(i32::MAX),
            ready: count(&|pod| self.ready_at(pod)),
            available: count(&|pod| self.available_at(set, pod)),
            ..set.facts.clone()
        }
    }

    fn pods(&self, now: Timestamp) -> Vec<PodFacts> {
        let of = |set: &Set| {
            let facts = |pod: &Pod| PodFacts {
                name: pod.name.clone(),
                uid: pod.name.clone(),
                replica_set: set.facts.uid.clone(),
                created: pod.born,
                deleting: false,
                available: self.available_at(set, pod) <= now,
                labels: pod.labels.clone(),
                annotations: pod.annotations.clone(),
            };
            set.pods.iter().map(facts).collect::<Vec<_>>()
        };
        self.sets.values().flat_map(of).collect()
    }

    fn ready_at(&self, pod: &Pod) -> Timestamp {
        later(pod.born, self.ready_after)
    }

    fn available_at(&self, set: &Set, pod: &Pod) -> Timestamp {
        let least = u64::try_from(set.facts.min_ready_seconds).unwrap_or(0);
        later(self.ready_at(pod), Duration::from_secs(least))
    }

    /// When the next pod becomes ready or available, or the next experiment moves.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let of_set = |set: &Set| -> Vec<Timestamp> {
            let times = |pod: &Pod| [self.ready_at(pod), self.available_at(set, pod)];
            set.pods.iter().flat_map(times).collect()
        };
        let pods = self.sets.values().flat_map(of_set);
        let runs = self.runs.values().filter_map(|run| run.wake);
        let experiments =
            self.experiments.values().filter_map(|experiment| self.experiment_moves(experiment));
        pods.chain(runs).chain(experiments).filter(|at| *at > now).min()
    }

    /// A number that nothing else has.
    pub(super) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

/// A time after another.
pub(super) fn later(time: Timestamp, wait: Duration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
