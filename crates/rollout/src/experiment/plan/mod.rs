//! What is done next about one experiment: `plan(observed, now)`, purely.
//!
//! Order of states and words are those of Argo Rollouts, but for one thing: pods stay until the whole experiment has
//! ended. A required analysis that is still measuring would measure nothing otherwise.

mod check;
mod runs;
mod status;
mod templates;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use windlass_api::{
    analysis::{AnalysisRunSpec, Phase, merge::Library},
    experiment::{ExperimentRunStatus, ExperimentSpec, ExperimentStatus, TemplatePhase, TemplateStatus},
};
use windlass_cluster::drive::{Key, Plan, Wake};

use crate::{analysis::check::time, skew::rebase};

/// All that a decision about an experiment is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Which experiment.
    pub experiment: Key,
    /// Version of its spec.
    pub generation: Option<i64>,
    /// What is wanted.
    pub spec: ExperimentSpec,
    /// What was found so far.
    pub status: ExperimentStatus,
    /// The experiment is being deleted.
    pub deleting: bool,
    /// What there is for each template, by its name.
    pub templates: BTreeMap<String, TemplateFacts>,
    /// What there is for each analysis, by its name.
    pub runs: BTreeMap<String, RunFacts>,
    /// Analysis templates that are there.
    pub library: Library,
}

/// What there is for one template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// Its `ReplicaSet`, if there is one that is ours.
    pub set: Option<SetFacts>,
    /// The name of the `ReplicaSet` is taken by somebody else's.
    pub set_is_foreign: bool,
    /// Its Service is there and ours.
    pub service: bool,
    /// The name of the Service is taken by somebody else's.
    pub service_is_foreign: bool,
    /// The hash that its pods are labelled with.
    pub hash: String,
    /// Name of its `ReplicaSet`.
    pub set_name: String,
    /// Name of its Service, if it is to have one.
    pub service_name: Option<String>,
    /// What the API server said when the `ReplicaSet` or Service could not be made, and trying again is of no use.
    pub refused: Option<String>,
}

/// How a `ReplicaSet` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// Pods that it is to have.
    pub wanted: i32,
    /// Pods that it has.
    pub replicas: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those that are available.
    pub available: i32,
}

/// What there is for one analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// Name of its run, or the one that it is to get.
    pub name: String,
    /// Its run, if there is one.
    pub run: Option<RunFact>,
}

/// How a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFact {
    /// How far it is.
    pub phase: Phase,
    /// Why.
    pub message: String,
    /// It is being ended.
    pub terminate: bool,
}

/// One thing to do about an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(clippy::large_enum_variant, reason = "there are a few of them in a plan")]
pub enum Action {
    /// Make the `ReplicaSet` of a template.
    CreateSet {
        /// Of this experiment.
        experiment: Key,
        /// The template.
        template: String,
        /// Pods.
        replicas: i32,
    },
    /// Change how many pods the `ReplicaSet` of a template has.
    Scale {
        /// Of this experiment.
        experiment: Key,
        /// Name of the `ReplicaSet`.
        name: String,
        /// Pods.
        replicas: i32,
    },
    /// Make the Service of a template.
    CreateService {
        /// Of this experiment.
        experiment: Key,
        /// The template.
        template: String,
        /// Name of the Service.
        name: String,
    },
    /// Delete the Service of a template.
    DeleteService {
        /// Of this experiment.
        experiment: Key,
        /// Its name.
        name: String,
    },
    /// Make the run of an analysis.
    CreateRun {
        /// Of this experiment.
        experiment: Key,
        /// Name of the run.
        name: String,
        /// What it measures.
        spec: AnalysisRunSpec,
    },
    /// End a run.
    EndRun {
        /// Of this experiment.
        experiment: Key,
        /// Its name.
        name: String,
    },
}

/// Decides.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, ExperimentStatus> {
    if observed.deleting {
        // Everything is owned by the experiment and goes with it.
        return Plan::rest();
    }
    let mut status = observed.status.clone();
    rebase(&mut status.available_at, now);
    rebase(&mut status.completed_at, now);
    for template in &mut status.template_statuses {
        rebase(&mut template.last_transition_time, now);
    }
    if let Some(problem) = check::problem(&observed.spec) {
        status::invalid(&mut status, &problem, observed.generation, now);
        let notes = status::notes(&observed.status, &status);
        return Plan { status: Some(status), notes, ..Plan::rest() };
    }
    let mut round = Round { observed, now, terminating: false, actions: Vec::new(), wakes: Vec::new() };
    round.terminating = is_terminating(&observed.spec, &status);
    for template in &observed.spec.templates {
        round.template(template, &mut status);
    }
    for analysis in &observed.spec.analyses {
        round.analysis(analysis, &mut status);
    }
    status::assess(&mut status, &observed.spec, observed.generation, now);
    if is_terminating(&observed.spec, &status) != round.terminating
        || status.available_at != observed.status.available_at
        || status.completed_at != observed.status.completed_at
    {
        // There is more to do that follows from what was just found.
        round.wakes.push(now);
    }
    if let (Some(end), false) = (round.end(&status), status.phase.completed()) {
        round.wakes.push(end);
    }
    let notes = status::notes(&observed.status, &status);
    let wake = match round.wakes.iter().min() {
        None => Wake::OnChange,
        Some(next) => Wake::After(until(now, *next)),
    };
    Plan { actions: round.actions, status: Some(status), notes, wake, released: false }
}

/// One look at an experiment.
struct Round<'a> {
    observed: &'a Observed,
    now: Timestamp,
    terminating: bool,
    actions: Vec<Action>,
    wakes: Vec<Timestamp>,
}

impl Round<'_> {
    fn key(&self) -> Key {
        self.observed.experiment.clone()
    }

    /// When the experiment has run long enough, if that is known.
    fn end(&self, status: &ExperimentStatus) -> Option<Timestamp> {
        let duration = self.observed.spec.duration.as_deref().filter(|text| !text.is_empty())?;
        Some(after(status.available_at.as_ref()?.0, time(duration).ok()?))
    }
}

/// Whether the experiment is being ended: somebody said so, it has ended, or something in it has decided.
fn is_terminating(spec: &ExperimentSpec, status: &ExperimentStatus) -> bool {
    let template_failed =
        |it: &TemplateStatus| matches!(it.status, TemplatePhase::Failed | TemplatePhase::Error);
    let run_failed =
        |it: &ExperimentRunStatus| matches!(it.phase, Phase::Failed | Phase::Error | Phase::Inconclusive);
    spec.terminate
        || status.phase.completed()
        || status.template_statuses.iter().any(template_failed)
        || status.analysis_runs.iter().any(run_failed)
        || required_are_successful(spec, status)
}

/// Whether there are required analyses, and all of them are successful.
fn required_are_successful(spec: &ExperimentSpec, status: &ExperimentStatus) -> bool {
    let mut required = spec.analyses.iter().filter(|analysis| analysis.required_for_completion).peekable();
    required.peek().is_some()
        && required.all(|analysis| {
            let run = status.analysis_runs.iter().find(|run| run.name == analysis.name);
            run.is_some_and(|run| run.phase == Phase::Successful)
        })
}

fn after(time: Timestamp, wait: Duration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}
