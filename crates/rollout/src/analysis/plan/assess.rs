//! From measurements to the phase of a metric, and from metrics to the phase of the run.

use windlass_api::analysis::{AnalysisRunStatus, MetricResult, Phase, RunSummary};

use super::{Prepared, result_of};

/// Sets the phases of all metrics and of the run.
pub(super) fn run(status: &mut AnalysisRunStatus, metrics: &[Prepared], ended: bool, terminating: bool) {
    let (mut summary, mut dry_summary) = (RunSummary::default(), RunSummary::default());
    let mut worst: Option<Phase> = None;
    let mut message = if ended { "Run Terminated".to_owned() } else { String::new() };
    let mut all_done = true;
    for metric in metrics {
        let sum = if metric.dry_run { &mut dry_summary } else { &mut summary };
        sum.count += 1;
        let Some(result) = status.metric_results.iter_mut().find(|result| result.name == metric.name) else {
            all_done = false;
            continue;
        };
        let phase = metric_phase(metric, result, terminating);
        if result.phase != phase {
            result.phase = phase;
            result.message = result.measurements.last().map(|last| last.message.clone()).unwrap_or_default();
        }
        if !phase.completed() {
            all_done = false;
            continue;
        }
        let limit = passed_limit(metric, result);
        tally(sum, limit.as_ref().map_or(Phase::Successful, |(phase, _)| *phase));
        if metric.dry_run {
            worst = worst.or(Some(Phase::Successful));
            if let Some((_, why)) = limit {
                result.message = format!("Metric assessed {phase} due to {why}");
            }
        } else if worst.is_none_or(|worst| phase.badness() > worst.badness()) {
            worst = Some(phase);
            if let Some((_, why)) = limit {
                message = told(result, phase, &why);
            }
        }
    }
    (status.run_summary, status.dry_run_summary) = (summary, Some(dry_summary));
    (status.phase, status.message) = match (terminating, worst) {
        (true, worst) => (worst.unwrap_or(Phase::Successful), message),
        (false, Some(worst)) if all_done => (worst, message),
        (false, _) => (Phase::Running, String::new()),
    };
    // What was cut short is still to be ended.
    if terminating && metrics.iter().any(|metric| is_under_way(status, &metric.name)) {
        (status.phase, status.message) = (Phase::Running, String::new());
    }
}

fn is_under_way(status: &AnalysisRunStatus, name: &str) -> bool {
    let last = result_of(status, name).and_then(|result| result.measurements.last());
    last.is_some_and(|last| !last.phase.completed())
}

fn told(result: &MetricResult, phase: Phase, why: &str) -> String {
    let what = format!("Metric \"{}\" assessed {phase} due to {why}", result.name);
    if result.message.is_empty() { what } else { format!("{what}: \"Error Message: {}\"", result.message) }
}

fn tally(sum: &mut RunSummary, phase: Phase) {
    match phase {
        Phase::Error => sum.error += 1,
        Phase::Failed => sum.failed += 1,
        Phase::Inconclusive => sum.inconclusive += 1,
        _ => sum.successful += 1,
    }
}

/// The phase of one metric.
fn metric_phase(metric: &Prepared, result: &MetricResult, terminating: bool) -> Phase {
    if result.phase.completed() {
        return result.phase;
    }
    let Some(last) = result.measurements.last() else {
        return if terminating { Phase::Successful } else { Phase::Pending };
    };
    if !last.phase.completed() {
        return Phase::Running;
    }
    if let Some((phase, _)) = passed_limit(metric, result) {
        return phase;
    }
    let in_a_row = metric.consecutive_success_limit;
    if in_a_row > 0 && i64::from(result.consecutive_success) >= in_a_row {
        return Phase::Successful;
    }
    if metric.count.is_some_and(|count| i64::from(result.count) >= count) {
        return match (in_a_row > 0, metric.failure_limit >= 0) {
            (true, true) => Phase::Inconclusive,
            (true, false) => Phase::Failed,
            (false, _) => Phase::Successful,
        };
    }
    if terminating { Phase::Successful } else { Phase::Running }
}

/// The limit that a metric is beyond; of several, the one that says least about the version.
fn passed_limit(metric: &Prepared, result: &MetricResult) -> Option<(Phase, String)> {
    let beyond = |phase, name: &str, number: i32, limit_name: &str, limit: i64| {
        let is_beyond = limit >= 0 && i64::from(number) > limit;
        is_beyond.then(|| (phase, format!("{name} ({number}) > {limit_name} ({limit})")))
    };
    let errors = metric.consecutive_error_limit;
    beyond(Phase::Error, "consecutiveErrors", result.consecutive_error, "consecutiveErrorLimit", errors)
        .or_else(|| {
            let limit = metric.inconclusive_limit;
            beyond(Phase::Inconclusive, "inconclusive", result.inconclusive, "inconclusiveLimit", limit)
        })
        .or_else(|| beyond(Phase::Failed, "failed", result.failed, "failureLimit", metric.failure_limit))
}
