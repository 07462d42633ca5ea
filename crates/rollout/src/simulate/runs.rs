//! `AnalysisRuns`: the planner of runs, with measurements from the series.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    analysis::{
        AnalysisRunSpec, AnalysisRunStatus, Argument, Measurement, Metric, Phase,
        merge::{Request, run_spec},
    },
    condition::whole_seconds,
};
use windlass_cluster::drive::{Key, Wake};

use super::{
    Scenario, SimulateError, Source,
    series::Cell,
    story::{Measured, Wanted},
    world::{Run, World, later},
};
use crate::{
    analysis::{
        args::Args,
        condition::{Sample, Verdict, is_no_data, judge},
        plan::{self, Answer},
    },
    observed::RunFacts,
    plan::NewRun,
};

/// What came of looking at all runs once.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) changed: bool,
    pub(super) measured: Vec<Measured>,
    /// Metrics that were measured without finding data.
    pub(super) without_data: Vec<(String, Phase)>,
    pub(super) wanted: BTreeMap<String, Wanted>,
}

impl World {
    /// Makes a run from its templates. One that cannot be made is in error, as in a cluster.
    pub(super) fn create_run(&mut self, new: &NewRun, scenario: &Scenario, now: Timestamp) -> bool {
        if self.runs.contains_key(&new.name) {
            return false;
        }
        let mut values = new.args.clone();
        values.extend(scenario.args.clone());
        let args: Vec<Argument> = values
            .into_iter()
            .map(|(name, value)| Argument { name, value: Some(value), value_from: None })
            .collect();
        let request = Request {
            templates: &new.templates,
            args: &args,
            dry_run: &new.dry_run,
            measurement_retention: &new.measurement_retention,
        };
        let facts = RunFacts {
            name: new.name.clone(),
            uid: format!("run-{}", new.name),
            labels: new.labels.clone(),
            created: now,
            phase: Phase::Pending,
            ..RunFacts::default()
        };
        self.begin_run(
            facts,
            run_spec(request, &scenario.library).map_err(|error| error.to_string()),
            now,
            false,
        );
        true
    }

    /// A run as its controller would find it.
    pub(super) fn begin_run(
        &mut self,
        mut facts: RunFacts,
        spec: Result<AnalysisRunSpec, String>,
        now: Timestamp,
        of_experiment: bool,
    ) {
        let mut run = Run { of_experiment, ..Run::default() };
        match spec {
            Ok(spec) => {
                run.spec = spec;
                run.wake = Some(now);
            }
            Err(why) => {
                (facts.phase, facts.message) = (Phase::Error, Some(why.clone()));
                (run.status.phase, run.status.message) = (Phase::Error, why);
            }
        }
        self.runs.insert(facts.name.clone(), Run { facts, ..run });
    }

    /// Looks at every run that is not over: measures what is due.
    pub(super) fn look_at_runs(
        &mut self,
        scenario: &Scenario,
        now: Timestamp,
    ) -> Result<Looked, SimulateError> {
        let mut looked = Looked::default();
        for run in self.runs.values_mut().filter(|run| !run.facts.phase.completed()) {
            run.look(scenario, now, &mut looked)?;
        }
        Ok(looked)
    }
}

impl Run {
    fn look(
        &mut self,
        scenario: &Scenario,
        now: Timestamp,
        looked: &mut Looked,
    ) -> Result<(), SimulateError> {
        let mut answers = Vec::new();
        loop {
            let observed = plan::Observed {
                run: Key { namespace: None, name: self.facts.name.as_str().into() },
                uid: self.facts.uid.clone(),
                spec: self.spec.clone(),
                status: self.status.clone(),
                answers: std::mem::take(&mut answers),
                deleting: false,
                asking: BTreeSet::new(),
                jobs: BTreeMap::new(),
            };
            let plan = plan::plan(&observed, now);
            if let Some(status) = plan.status {
                looked.changed |= status != self.status;
                self.store(status);
            }
            self.wake = match plan.wake {
                Wake::OnChange => None,
                Wake::After(wait) | Wake::Retry { longest: wait } => Some(later(now, wait)),
            };
            for action in plan.actions {
                let (plan::Action::Measure { metric, attempt, .. }
                | plan::Action::StartJob { metric, attempt, .. }) = action
                else {
                    continue;
                };
                answers.push(self.measure(&metric, attempt, scenario, now, looked)?);
            }
            if answers.is_empty() {
                return Ok(());
            }
        }
    }

    fn store(&mut self, status: AnalysisRunStatus) {
        self.facts.phase = status.phase;
        self.facts.message = Some(status.message.clone()).filter(|message| !message.is_empty());
        self.status = status;
    }

    fn measure(
        &self,
        name: &str,
        attempt: u32,
        scenario: &Scenario,
        now: Timestamp,
        looked: &mut Looked,
    ) -> Result<Answer, SimulateError> {
        let stamp = Some(Time(whole_seconds(now)));
        let mut measurement =
            Measurement { started_at: stamp.clone(), finished_at: stamp, ..Measurement::default() };
        // The planner has checked that it can be read with its arguments.
        let metric = self.spec.metrics.iter().find(|metric| metric.name == name);
        let args = Args::of(&self.spec.args).unwrap_or_default();
        let metric = metric.and_then(|metric| args.masked(metric).ok()).unwrap_or_default();
        note(&metric, name, looked);
        let cell = cell(&metric, name, scenario, now)?;
        let (verdict, sample) = judged(&metric, &cell);
        measurement.phase = verdict.phase;
        measurement.message = verdict.message;
        measurement.value = sample.as_ref().map(Sample::shown).unwrap_or_default();
        if cell == Cell::Gap || sample.as_ref().is_some_and(is_no_data) {
            looked.without_data.push((name.to_owned(), measurement.phase));
        }
        looked.measured.push(Measured {
            run: self.facts.name.clone(),
            metric: name.to_owned(),
            value: measurement.value.clone(),
            number: match &sample {
                Some(Sample::Number(number)) => Some(*number),
                Some(Sample::Numbers(numbers)) => numbers.first().copied(),
                _ => None,
            }
            .filter(|number| number.is_finite()),
            phase: measurement.phase,
            message: measurement.message.clone(),
        });
        Ok(Answer { metric: name.to_owned(), attempt, measurement, metadata: BTreeMap::new() })
    }
}

/// Notes what the metric asks for.
fn note(metric: &Metric, name: &str, looked: &mut Looked) {
    let wanted = looked.wanted.entry(name.to_owned()).or_default();
    wanted.interval.clone_from(&metric.interval);
    match &metric.provider.prometheus {
        Some(prometheus) if !wanted.queries.contains(&prometheus.query) => {
            wanted.queries.push(prometheus.query.clone());
        }
        Some(_) => {}
        None => wanted.other = true,
    }
}

/// What the series say.
fn cell(metric: &Metric, name: &str, scenario: &Scenario, now: Timestamp) -> Result<Cell, SimulateError> {
    let Source::Series(series) = &scenario.source else { return Ok(Cell::Verdict(Phase::Successful)) };
    let query = metric.provider.prometheus.as_ref().map(|prometheus| prometheus.query.as_str());
    match series.column(name, query) {
        Some(column) => Ok(series.at(column, now)),
        None => Err(SimulateError::NoSeries {
            metric: name.to_owned(),
            known: series.names().collect::<Vec<_>>().join(", "),
        }),
    }
}

/// The verdict by the conditions of the metric.
fn judged(metric: &Metric, cell: &Cell) -> (Verdict, Option<Sample>) {
    let numbers = match cell {
        Cell::Verdict(phase) => return (Verdict::plain(*phase), None),
        Cell::Gap => return (judge(metric, &Sample::Numbers(Vec::new()), None), None),
        Cell::Numbers(numbers) => numbers,
    };
    let own = numbers.first().map(|number| own_verdict(metric, *number));
    let list = Sample::Numbers(numbers.clone());
    let verdict = judge(metric, &list, own.clone());
    let [number] = numbers.as_slice() else { return (verdict, Some(list)) };
    // A scalar: conditions speak of `result` and not of `result[0]`.
    if verdict.phase == Phase::Error {
        let single = Sample::Number(*number);
        let other = judge(metric, &single, own);
        if other.phase != Phase::Error {
            return (other, Some(single));
        }
    }
    (verdict, Some(list))
}

/// What a provider that judges by itself would say of a number: the burn rate over its limit, the p-value of a comparison,
/// 0 for a Job that failed.
fn own_verdict(metric: &Metric, number: f64) -> Verdict {
    let provider = &metric.provider;
    let bad = if provider.slo_burn_rate.is_some() {
        number > 1.0
    } else if let Some(compare) = &provider.compare {
        number < compare.alpha.unwrap_or(0.05)
    } else {
        provider.job.is_some() && number == 0.0
    };
    Verdict::plain(if bad { Phase::Failed } else { Phase::Successful })
}
