//! Answers and Jobs into the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    analysis::{AnalysisRunStatus, Measurement, MetricResult, Phase},
    condition::whole_seconds,
};

use super::{Action, Answer, JOB_NAME, JobFact, Prepared, Round, attempt, result_mut, result_of};

/// What a measurement that was cut short says.
const TERMINATED: &str = "Metric Terminated";

impl Round<'_> {
    /// Takes in what came back since the last look.
    pub(super) fn take_in(&mut self, status: &mut AnalysisRunStatus, terminating: bool) {
        for metric in self.metrics {
            let result = result_of(status, &metric.name);
            if result.is_some_and(|result| result.phase.completed()) {
                continue;
            }
            let due = attempt(result);
            let answer =
                self.observed.answers.iter().find(|it| it.metric == metric.name && it.attempt == due);
            let under_way =
                result.and_then(|result| result.measurements.last()).filter(|it| !it.phase.completed());
            match (under_way.cloned(), answer) {
                (Some(job), answer) => self.take_in_job(status, metric, job, answer, terminating),
                (None, Some(answer)) => {
                    let result = result_mut(status, metric);
                    result.metadata.extend(answer.metadata.clone());
                    result.measurements.push(answer.measurement.clone());
                    count(result);
                }
                (None, None) => {}
            }
        }
    }

    /// A measurement that is a Job: it ended, it is cut short, or it goes on.
    fn take_in_job(
        &mut self,
        status: &mut AnalysisRunStatus,
        metric: &Prepared,
        mut job: Measurement,
        answer: Option<&Answer>,
        terminating: bool,
    ) {
        let name = job.metadata.get(JOB_NAME).cloned().unwrap_or_default();
        // Without a fact about it the Job is gone: it was there when its name was written down.
        let (phase, message) = match (answer, self.observed.jobs.get(&name)) {
            (Some(answer), _) => (answer.measurement.phase, answer.measurement.message.clone()),
            (None, Some(JobFact::Complete)) => (Phase::Successful, String::new()),
            (None, Some(JobFact::Failed(why))) => (Phase::Failed, why.clone()),
            (None, Some(JobFact::Stuck(why))) => (Phase::Inconclusive, why.clone()),
            (None, Some(JobFact::Running)) if terminating => (Phase::Inconclusive, TERMINATED.to_owned()),
            (None, Some(JobFact::Running)) => return,
            (None, None) => (Phase::Error, format!("Job {name} is gone. Somebody deleted it")),
        };
        if phase == Phase::Inconclusive {
            self.actions.push(Action::DeleteJob { run: self.observed.run.clone(), name });
        }
        (job.phase, job.message, job.finished_at) = (phase, message, Some(Time(whole_seconds(self.now))));
        let result = result_mut(status, metric);
        if let Some(last) = result.measurements.last_mut() {
            *last = job;
        }
        count(result);
    }
}

/// Counts the last measurement, which has ended.
fn count(result: &mut MetricResult) {
    let Some(last) = result.measurements.last() else { return };
    let phase = last.phase;
    match phase {
        Phase::Successful => result.successful += 1,
        Phase::Failed => result.failed += 1,
        Phase::Inconclusive => result.inconclusive += 1,
        Phase::Error => result.error += 1,
        Phase::Pending | Phase::Running => return,
    }
    result.count += i32::from(phase != Phase::Error);
    result.consecutive_error = if phase == Phase::Error { result.consecutive_error + 1 } else { 0 };
    result.consecutive_success = if phase == Phase::Successful { result.consecutive_success + 1 } else { 0 };
}
