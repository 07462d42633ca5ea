//! From templates and runs to the phase of the experiment, its conditions and what people are told.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    analysis::Phase,
    condition::{self, Truth, whole_seconds},
    experiment::{ExperimentSpec, ExperimentStatus, TemplatePhase, TemplateStatus},
};
use windlass_cluster::events::Note;

use super::required_are_successful;

const INVALID_SPEC: &str = "InvalidSpec";
const PROGRESSING: &str = "Progressing";
const RUNNING: &str = "Running";
const COMPLETED: &str = "Completed";

/// The spec cannot be carried out.
pub(super) fn invalid(status: &mut ExperimentStatus, problem: &str, generation: Option<i64>, now: Timestamp) {
    condition::set(&mut status.conditions, INVALID_SPEC, Truth::True, INVALID_SPEC, problem, generation, now);
    if !status.phase.completed() {
        problem.clone_into(&mut status.message);
    }
}

/// Sets the phase and the conditions.
pub(super) fn assess(
    status: &mut ExperimentStatus,
    spec: &ExperimentSpec,
    generation: Option<i64>,
    now: Timestamp,
) {
    if !status.phase.completed() {
        let (templates, told) = of_templates(status);
        let (runs, runs_told) = of_runs(status, spec);
        if templates == Phase::Running && status.available_at.is_none() {
            status.available_at = Some(Time(whole_seconds(now)));
        }
        let has_required = spec.analyses.iter().any(|analysis| analysis.required_for_completion);
        let by_runs = if templates.completed() {
            templates == Phase::Successful && (runs.completed() || has_required)
        } else {
            (runs.completed() && runs != Phase::Successful) || required_are_successful(spec, status)
        };
        (status.phase, status.message) = if by_runs { (runs, runs_told) } else { (templates, told) };
        if status.phase.completed() {
            status.completed_at = Some(Time(whole_seconds(now)));
        }
    }
    conditions(status, generation, now);
}

/// The worst of all templates.
fn of_templates(status: &ExperimentStatus) -> (Phase, String) {
    let badness = |it: &&TemplateStatus| match it.status {
        TemplatePhase::Successful => 0,
        TemplatePhase::Running => 1,
        TemplatePhase::Progressing => 2,
        TemplatePhase::Error => 3,
        TemplatePhase::Failed => 4,
    };
    let Some(worst) = status.template_statuses.iter().max_by_key(badness) else {
        return (Phase::Pending, String::new());
    };
    let phase = match worst.status {
        TemplatePhase::Successful => Phase::Successful,
        TemplatePhase::Running => Phase::Running,
        TemplatePhase::Progressing => Phase::Pending,
        TemplatePhase::Error => Phase::Error,
        TemplatePhase::Failed => Phase::Failed,
    };
    (phase, worst.message.clone())
}

/// The worst of all runs. Without analyses that is a success.
fn of_runs(status: &ExperimentStatus, spec: &ExperimentSpec) -> (Phase, String) {
    let worst = status.analysis_runs.iter().max_by_key(|run| run.phase.badness());
    let (phase, message) =
        worst.map_or((Phase::Successful, String::new()), |run| (run.phase, run.message.clone()));
    let is_open = matches!(phase, Phase::Pending | Phase::Running | Phase::Successful);
    if required_are_successful(spec, status) && is_open {
        return (Phase::Successful, "All required analyses are successful".to_owned());
    }
    (if phase == Phase::Pending { Phase::Running } else { phase }, message)
}

fn conditions(status: &mut ExperimentStatus, generation: Option<i64>, now: Timestamp) {
    status.conditions.retain(|known| known.type_ != INVALID_SPEC);
    let (phase, message) = (status.phase, status.message.clone());
    let mut set = |type_: &str, truth: Truth, reason: &str| {
        condition::set(&mut status.conditions, type_, truth, reason, &message, generation, now);
    };
    let is = |truth: bool| if truth { Truth::True } else { Truth::False };
    let failed = matches!(phase, Phase::Failed | Phase::Error);
    let reason = match phase {
        Phase::Pending => "ReplicaSetsProgress",
        Phase::Running => "ReplicaSetsAvailable",
        Phase::Successful => "ExperimentCompleted",
        Phase::Failed => "ExperimentFailed",
        Phase::Error => "ExperimentError",
        Phase::Inconclusive => "ExperimentInconclusive",
    };
    set(PROGRESSING, is(!failed), reason);
    set(RUNNING, is(phase == Phase::Running), reason);
    set(COMPLETED, is(phase.completed()), reason);
}

/// What changed, for people.
pub(super) fn notes(before: &ExperimentStatus, after: &ExperimentStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    for template in &after.template_statuses {
        let was = before.template_statuses.iter().find(|it| it.name == template.name).map(|it| it.status);
        if was == Some(template.status) || (was.is_none() && template.status == TemplatePhase::Progressing) {
            continue;
        }
        let reason = format!("Template{:?}", template.status);
        let message =
            tell(format!("Template '{}' is {:?}", template.name, template.status), &template.message);
        notes.push(match template.status {
            TemplatePhase::Failed | TemplatePhase::Error => Note::warning(reason, "Experiment", message),
            _ => Note::normal(reason, "Experiment", message),
        });
    }
    for run in &after.analysis_runs {
        let was = before.analysis_runs.iter().find(|it| it.name == run.name).map(|it| it.phase);
        if was.unwrap_or_default() == run.phase {
            continue;
        }
        let reason = format!("AnalysisRun{}", run.phase);
        notes.push(told(
            run.phase,
            reason,
            tell(format!("Analysis '{}' is {}", run.name, run.phase), &run.message),
        ));
    }
    if before.phase != after.phase {
        let message = tell(format!("Experiment is {}", after.phase), &after.message);
        notes.push(told(after.phase, format!("Experiment{}", after.phase), message));
    }
    let invalid = |status: &ExperimentStatus| condition::get(&status.conditions, INVALID_SPEC).cloned();
    if let (None, Some(now)) = (invalid(before), invalid(after)) {
        notes.push(Note::warning(INVALID_SPEC, "Experiment", now.message));
    }
    notes
}

fn told(phase: Phase, reason: String, message: String) -> Note {
    match phase {
        Phase::Failed | Phase::Error | Phase::Inconclusive => Note::warning(reason, "Experiment", message),
        _ => Note::normal(reason, "Experiment", message),
    }
}

fn tell(what: String, why: &str) -> String {
    if why.is_empty() { what } else { format!("{what}: {why}") }
}
