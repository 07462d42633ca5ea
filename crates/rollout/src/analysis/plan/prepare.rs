//! Metrics as the planner needs them: numbers instead of texts.

use std::{collections::BTreeMap, time::Duration};

use windlass_api::analysis::{AnalysisRunSpec, DryRun, MeasurementRetention, Metric, Phase};

use super::{ERROR_RETRY, KEPT};
use crate::analysis::{
    args::Args,
    check::{means, problems, time, whole},
};

/// One metric of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) name: String,
    pub(super) interval: Option<Duration>,
    pub(super) initial_delay: Option<Duration>,
    /// So many measurements; without end if `None`.
    pub(super) count: Option<i64>,
    /// -1 for any number.
    pub(super) failure_limit: i64,
    pub(super) inconclusive_limit: i64,
    pub(super) consecutive_error_limit: i64,
    /// 0 if that is not asked.
    pub(super) consecutive_success_limit: i64,
    pub(super) dry_run: bool,
    pub(super) kept: usize,
    pub(super) is_job: bool,
    /// What the status shows of it, without Secrets.
    pub(super) shown: BTreeMap<String, String>,
}

impl Prepared {
    /// Time between a measurement that ended so and the next.
    pub(super) fn pause(&self, ended: Phase) -> Duration {
        match (ended, self.interval) {
            (Phase::Error, _) | (_, None) => ERROR_RETRY,
            (_, Some(interval)) => interval,
        }
    }
}

/// All metrics of a run, or why it cannot be run.
pub(super) fn metrics(spec: &AnalysisRunSpec) -> Result<Vec<Prepared>, String> {
    let unresolved = |error| format!("Unable to resolve metric arguments: {error}");
    let args = Args::of(&spec.args).map_err(unresolved)?;
    let filled: Vec<Metric> = spec
        .metrics
        .iter()
        .map(|metric| args.masked(metric))
        .collect::<Result<_, _>>()
        .map_err(unresolved)?;
    if let Some(problem) = problems(&filled).first() {
        return Err(format!("Analysis spec invalid: {problem}"));
    }
    for (index, rule) in spec.dry_run.iter().enumerate() {
        unless_idle("dryRun", index, &rule.metric_name, &filled)?;
    }
    for (index, rule) in spec.measurement_retention.iter().enumerate() {
        unless_idle("measurementRetention", index, &rule.metric_name, &filled)?;
    }
    Ok(filled.iter().map(|metric| prepared(metric, &spec.dry_run, &spec.measurement_retention)).collect())
}

fn unless_idle(field: &str, index: usize, pattern: &str, metrics: &[Metric]) -> Result<(), String> {
    if metrics.iter().any(|metric| means(pattern, &metric.name)) {
        return Ok(());
    }
    Err(format!(
        "Analysis spec invalid: {field}[{index}]: {pattern} is the name of no metric. Correct or remove it"
    ))
}

fn prepared(metric: &Metric, dry_run: &[DryRun], retention: &[MeasurementRetention]) -> Prepared {
    let number = |number: &Option<_>| number.as_ref().and_then(whole);
    let span = |text: &Option<String>| {
        text.as_deref().filter(|text| !text.is_empty()).and_then(|text| time(text).ok())
    };
    let interval = span(&metric.interval);
    let count = match number(&metric.count).filter(|count| *count > 0) {
        None if interval.is_none() => Some(1),
        given => given,
    };
    let kept = retention
        .iter()
        .rev()
        .find(|rule| means(&rule.metric_name, &metric.name))
        .map_or(0, |rule| rule.limit);
    let mut shown = BTreeMap::new();
    if let Some(prometheus) = &metric.provider.prometheus {
        shown.insert("ResolvedPrometheusQuery".to_owned(), prometheus.query.clone());
    }
    Prepared {
        name: metric.name.clone(),
        interval,
        initial_delay: span(&metric.initial_delay),
        count,
        failure_limit: number(&metric.failure_limit).unwrap_or(0),
        inconclusive_limit: number(&metric.inconclusive_limit).unwrap_or(0),
        consecutive_error_limit: number(&metric.consecutive_error_limit).unwrap_or(4),
        consecutive_success_limit: number(&metric.consecutive_success_limit).unwrap_or(0),
        dry_run: dry_run.iter().any(|rule| means(&rule.metric_name, &metric.name)),
        kept: usize::try_from(kept).ok().filter(|kept| *kept > 0).unwrap_or(KEPT),
        is_job: metric.provider.job.is_some(),
        shown,
    }
}
