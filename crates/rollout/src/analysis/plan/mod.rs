//! What is done next about one run: `plan(observed, now)`, purely.
//!
//! ```text
//!  spec, status ─┐                  ┌─► Measure, StartJob, DeleteJob, DeleteRun
//!  answers ──────┼─► fold ─► assess ┼─► status: each metric, then the run (the worst decides)
//!  Jobs ─────────┘                  └─► when to look again
//! ```
//!
//! Measuring takes time, so the planner only asks for it ([`Action::Measure`]); the answer comes with a later look, and
//! what it was goes into the status and nowhere else. An answer that is lost is asked for again. Order of states, limits
//! and words are those of Argo Rollouts.

mod assess;
mod fold;
mod prepare;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use windlass_api::{
    analysis::{AnalysisRunSpec, AnalysisRunStatus, Measurement, MetricResult, Phase},
    condition::whole_seconds,
};
use windlass_cluster::{
    drive::{Key, Plan, Wake},
    events::Note,
};

use crate::skew::rebase;
use prepare::Prepared;

/// Wait after an error, whatever the interval is.
pub const ERROR_RETRY: Duration = Duration::from_secs(10);

/// Measurements of a metric that the status keeps where nothing else is said.
pub const KEPT: usize = 10;

/// A look at least so often while something is being measured, in case word of its end got lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Key in a measurement's metadata: the Job that it is.
pub const JOB_NAME: &str = "job-name";

/// All that a decision about a run is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Which run.
    pub run: Key,
    /// Its identity.
    pub uid: String,
    /// What is to be measured.
    pub spec: AnalysisRunSpec,
    /// What was found so far.
    pub status: AnalysisRunStatus,
    /// The run is being deleted.
    pub deleting: bool,
    /// What came back since the last look.
    pub answers: Vec<Answer>,
    /// What is being measured: metric and attempt.
    pub asking: BTreeSet<(String, u32)>,
    /// Jobs of the run, by name.
    pub jobs: BTreeMap<String, JobFact>,
}

/// What a measurement came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Name of the metric.
    pub metric: String,
    /// Which measurement of it, from 1.
    pub attempt: u32,
    /// The measurement itself, with its times.
    pub measurement: Measurement,
    /// What is kept with the metric, such as evidence for the next measurement.
    pub metadata: BTreeMap<String, String>,
}

/// How a Job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFact {
    /// It runs, or is going to.
    Running,
    /// Its pods cannot start, and why.
    Stuck(String),
    /// It is complete.
    Complete,
    /// It failed, and why.
    Failed(String),
}

/// One thing to do about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Measure a metric. The answer comes with a later look.
    Measure {
        /// Of this run.
        run: Key,
        /// Its name.
        metric: String,
        /// Which measurement of it, from 1.
        attempt: u32,
    },
    /// Make the Job that measures.
    StartJob {
        /// For this run.
        run: Key,
        /// Name of the metric.
        metric: String,
        /// Which measurement of it, from 1.
        attempt: u32,
        /// Name of the Job.
        name: String,
    },
    /// Delete a Job of the run.
    DeleteJob {
        /// Of this run.
        run: Key,
        /// Its name.
        name: String,
    },
    /// The run has been there long enough.
    DeleteRun {
        /// Which.
        run: Key,
        /// Its identity: another one of the same name stays.
        uid: String,
    },
}

/// Decides.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, AnalysisRunStatus> {
    if observed.deleting {
        return Plan::rest();
    }
    if observed.status.phase.completed() {
        return old_age(observed, now);
    }
    let mut status = observed.status.clone();
    rebase(&mut status.started_at, now);
    for last in status.metric_results.iter_mut().filter_map(|result| result.measurements.last_mut()) {
        rebase(&mut last.started_at, now);
        rebase(&mut last.finished_at, now);
    }
    let stamp = || Some(Time(whole_seconds(now)));
    let metrics = match prepare::metrics(&observed.spec) {
        Ok(metrics) => metrics,
        Err(message) => {
            status.started_at = status.started_at.or_else(stamp);
            (status.phase, status.message, status.completed_at) = (Phase::Error, message, stamp());
            return finished(observed, status, Vec::new());
        }
    };
    let mut round = Round { observed, metrics: &metrics, now, actions: Vec::new(), wakes: Vec::new() };
    status.started_at = status.started_at.or_else(stamp);
    let mut terminating = is_terminating(observed.spec.terminate, &status);
    loop {
        round.take_in(&mut status, terminating);
        assess::run(&mut status, &metrics, observed.spec.terminate, terminating);
        // A metric that has just decided ends what the others are at.
        let now_terminating = is_terminating(observed.spec.terminate, &status);
        if terminating || !now_terminating || status.phase.completed() {
            break;
        }
        terminating = true;
    }
    round.trim(&mut status);
    if status.phase.completed() {
        status.completed_at = stamp();
        let actions = std::mem::take(&mut round.actions);
        return finished(observed, status, actions.into_iter().filter(Action::outlives).collect());
    }
    round.ask(&mut status);
    let notes = notes(&observed.status, &status);
    let wake = round.wake();
    Plan { actions: round.actions, status: Some(status), notes, wake, released: false }
}

impl Action {
    /// Whether it is to be done also when the run has ended.
    fn outlives(&self) -> bool {
        matches!(self, Self::DeleteJob { .. } | Self::DeleteRun { .. })
    }
}

/// One look at a run.
struct Round<'a> {
    observed: &'a Observed,
    metrics: &'a [Prepared],
    now: Timestamp,
    actions: Vec<Action>,
    wakes: Vec<Timestamp>,
}

impl Round<'_> {
    /// Asks for what is due, and notes when the rest is.
    fn ask(&mut self, status: &mut AnalysisRunStatus) {
        let started = status.started_at.as_ref().map_or(self.now, |time| time.0);
        for metric in self.metrics {
            let result = result_of(status, &metric.name);
            if result.is_some_and(|result| result.phase.completed()) {
                continue;
            }
            let attempt = attempt(result);
            let last = result.and_then(|result| result.measurements.last());
            let due = match last {
                None => after(started, metric.initial_delay.unwrap_or_default()),
                Some(last) => match &last.finished_at {
                    // A Job that runs: word of it comes by a watch, and a look now and then finds one that is stuck.
                    None => {
                        self.wakes.push(look_again(last, self.now));
                        continue;
                    }
                    Some(finished) => after(finished.0, metric.pause(last.phase)),
                },
            };
            if due > self.now {
                self.wakes.push(due);
            } else if metric.is_job {
                self.start_job(status, metric, attempt);
            } else {
                if !self.observed.asking.contains(&(metric.name.clone(), attempt)) {
                    let run = self.observed.run.clone();
                    self.actions.push(Action::Measure { run, metric: metric.name.clone(), attempt });
                }
                self.wakes.push(after(self.now, PATIENCE));
            }
        }
    }

    fn start_job(&mut self, status: &mut AnalysisRunStatus, metric: &Prepared, attempt: u32) {
        let name = job_name(&self.observed.uid, &metric.name, attempt);
        let run = self.observed.run.clone();
        self.actions.push(Action::StartJob { run, metric: metric.name.clone(), attempt, name: name.clone() });
        let measurement = Measurement {
            phase: Phase::Running,
            started_at: Some(Time(whole_seconds(self.now))),
            metadata: BTreeMap::from([(JOB_NAME.to_owned(), name)]),
            ..Measurement::default()
        };
        self.wakes.push(after(self.now, Duration::from_secs(1)));
        let result = result_mut(status, metric);
        result.phase = Phase::Running;
        result.measurements.push(measurement);
    }

    /// Keeps as many measurements as wanted; Jobs of those that go, go too.
    fn trim(&mut self, status: &mut AnalysisRunStatus) {
        for result in &mut status.metric_results {
            let kept =
                self.metrics.iter().find(|metric| metric.name == result.name).map_or(KEPT, |it| it.kept);
            let surplus = result.measurements.len().saturating_sub(kept);
            for old in result.measurements.drain(..surplus) {
                if let Some(name) = old.metadata.get(JOB_NAME) {
                    let run = self.observed.run.clone();
                    self.actions.push(Action::DeleteJob { run, name: name.clone() });
                }
            }
        }
    }

    fn wake(&self) -> Wake {
        match self.wakes.iter().min() {
            None => Wake::OnChange,
            Some(next) => Wake::After(until(self.now, *next)),
        }
    }
}

/// The run has ended: it may be time for it to go.
fn old_age(observed: &Observed, now: Timestamp) -> Plan<Action, AnalysisRunStatus> {
    let mut status = observed.status.clone();
    rebase(&mut status.completed_at, now);
    let (Some(ttl), Some(ended)) = (&observed.spec.ttl_strategy, &status.completed_at) else {
        return Plan::rest();
    };
    let particular = match status.phase {
        Phase::Successful => ttl.success,
        Phase::Failed => ttl.failure,
        _ => None,
    };
    let Some(seconds) = particular.or(ttl.completion) else { return Plan::rest() };
    let due = after(ended.0, Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    if due > now {
        let wake = Wake::After(until(now, due));
        return Plan { status: (status != observed.status).then_some(status), wake, ..Plan::rest() };
    }
    let (run, uid) = (observed.run.clone(), observed.uid.clone());
    Plan { actions: vec![Action::DeleteRun { run, uid }], ..Plan::rest() }
}

fn finished(
    observed: &Observed,
    status: AnalysisRunStatus,
    actions: Vec<Action>,
) -> Plan<Action, AnalysisRunStatus> {
    let notes = notes(&observed.status, &status);
    // Its age counts from now on.
    let wake = if observed.spec.ttl_strategy.is_some() {
        Wake::After(Duration::from_secs(1))
    } else {
        Wake::OnChange
    };
    Plan { actions, status: Some(status), notes, wake, released: false }
}

/// What changed, for people.
fn notes(before: &AnalysisRunStatus, after: &AnalysisRunStatus) -> Vec<Note> {
    let note = |subject: &str, phase: Phase, message: String| {
        let reason = format!("{subject}{phase}");
        match phase {
            Phase::Failed | Phase::Error => Note::warning(reason, "Measure", message),
            _ => Note::normal(reason, "Measure", message),
        }
    };
    let mut notes = Vec::new();
    for result in &after.metric_results {
        let was = result_of(before, &result.name).is_some_and(|result| result.phase.completed());
        if result.phase.completed() && !was {
            let message = format!("Metric '{}' completed. Result: {}", result.name, result.phase);
            notes.push(note("Metric", result.phase, message));
        }
    }
    if after.phase.completed() && !before.phase.completed() {
        let message = format!("Analysis completed. Result: {}", after.phase);
        notes.push(note("AnalysisRun", after.phase, message));
    }
    notes
}

/// Whether nothing new is to be measured: somebody ended the run, or a metric has decided.
fn is_terminating(asked: bool, status: &AnalysisRunStatus) -> bool {
    let decides = |result: &MetricResult| {
        !result.dry_run && matches!(result.phase, Phase::Failed | Phase::Error | Phase::Inconclusive)
    };
    asked || status.metric_results.iter().any(decides)
}

fn result_of<'a>(status: &'a AnalysisRunStatus, name: &str) -> Option<&'a MetricResult> {
    status.metric_results.iter().find(|result| result.name == name)
}

/// The result of a metric, made if there is none yet.
fn result_mut<'a>(status: &'a mut AnalysisRunStatus, metric: &Prepared) -> &'a mut MetricResult {
    let results = &mut status.metric_results;
    let at = results.iter().position(|result| result.name == metric.name).unwrap_or_else(|| {
        results.push(MetricResult {
            name: metric.name.clone(),
            phase: Phase::Running,
            dry_run: metric.dry_run,
            metadata: metric.shown.clone(),
            ..MetricResult::default()
        });
        results.len() - 1
    });
    &mut results[at]
}

/// Which measurement comes next, from 1.
fn attempt(result: Option<&MetricResult>) -> u32 {
    let taken = result.map_or(0, |result| result.count.saturating_add(result.error));
    u32::try_from(taken).unwrap_or(0).saturating_add(1)
}

/// The name of the Job that is a measurement: the same whenever it is asked for.
pub fn job_name(uid: &str, metric: &str, attempt: u32) -> String {
    let suffix = format!(".{attempt}");
    // Pods carry the name in a label, which has 63 characters at most.
    let room = 63_usize.saturating_sub(uid.len() + 1 + suffix.len());
    let safe: String = metric
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' })
        .take(room)
        .collect();
    format!("{uid}.{}{suffix}", safe.trim_matches('-'))
}

/// A Job that runs is looked at less and less often.
fn look_again(last: &Measurement, now: Timestamp) -> Timestamp {
    let started = last.started_at.as_ref().map_or(now, |time| time.0);
    let elapsed = until(started, now).as_secs_f64();
    after(now, Duration::from_secs_f64((2.0 * elapsed).sqrt().clamp(1.0, 300.0)))
}

fn after(time: Timestamp, wait: Duration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}
