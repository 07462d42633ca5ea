//! `AnalysisRuns`: one for every attempt, ended when nobody needs them, and some of them kept.
//!
//! The name of a run follows from what it is for, so that a crash between making it and noting it makes no second one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_api::rollout::{
    POD_TEMPLATE_HASH, REVISION, RUN_TYPE, RolloutAnalysis, STEP_INDEX,
    analysis::{HashOf, RunArgument},
    status::{PauseReason, RunPhase, RunStatus},
};

use super::{
    action::{Action, NewRun},
    draft::Draft,
    scene::Scene,
};
use crate::observed::RunFacts;

const DEFAULT_LIMIT: i32 = 5;

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Step(usize),
    Background,
    PrePromotion,
    PostPromotion,
}

impl Purpose {
    /// The word on the label.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Step(_) => "Step",
            Self::Background => "Background",
            Self::PrePromotion => "PrePromotion",
            Self::PostPromotion => "PostPromotion",
        }
    }

    fn suffix(self) -> String {
        match self {
            Self::Step(index) => format!("-{index}"),
            Self::Background => String::new(),
            Self::PrePromotion => "-pre".into(),
            Self::PostPromotion => "-post".into(),
        }
    }
}

/// What a run says about the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing yet, or all is well.
    Wait,
    Good,
    /// Neither good nor bad: a person decides.
    Unclear,
    /// Bad, and why.
    Bad(String),
}

/// The run that the status names.
pub(crate) fn named<'a>(scene: &Scene<'a>, stored: Option<&RunStatus>) -> Option<&'a RunFacts> {
    let name = &stored?.name;
    scene.observed.runs.iter().find(|run| run.name == *name && !run.deleting)
}

/// A run as the status tells it.
pub(crate) fn told(run: &RunFacts) -> RunStatus {
    RunStatus { name: run.name.clone(), status: run.phase, message: run.message.clone() }
}

/// What a run says.
pub(crate) fn verdict(run: &RunFacts, purpose: Purpose) -> Verdict {
    match run.phase {
        RunPhase::Pending | RunPhase::Running => Verdict::Wait,
        RunPhase::Successful => Verdict::Good,
        RunPhase::Inconclusive => Verdict::Unclear,
        RunPhase::Failed | RunPhase::Error => {
            let message = run.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
            let (word, name) = (purpose.word(), &run.name);
            let phase = run.phase.as_str();
            Verdict::Bad(format!("{word} AnalysisRun {name} is {phase}{message}"))
        }
    }
}

/// The run for a purpose: the one that the status names, else, or if a new attempt was asked for, a new one.
pub(crate) fn ensure(
    scene: &Scene<'_>,
    draft: &mut Draft,
    purpose: Purpose,
    analysis: &RolloutAnalysis,
    stored: Option<&RunStatus>,
) -> RunStatus {
    let current =
        named(scene, stored).filter(|run| run.labels.get(STEP_INDEX) == step_label(purpose).as_ref());
    if let Some(run) = current.filter(|run| !needs_another(scene, run)) {
        return told(run);
    }
    let base = format!("{}-{}-{}{}", scene.name, scene.hash, scene.revision(), purpose.suffix());
    let mut attempt = 0;
    loop {
        let name = if attempt == 0 { base.clone() } else { format!("{base}-{attempt}") };
        match scene.observed.runs.iter().find(|run| run.name == name) {
            Some(run) if !run.phase.completed() && !run.terminating && !run.deleting => return told(run),
            Some(_) => attempt += 1,
            None => {
                draft.note("AnalysisRunCreated", "Analyse", format!("{} AnalysisRun {name}", purpose.word()));
                draft.run(Action::CreateRun(Box::new(new_run(scene, purpose, analysis, &name))));
                return RunStatus { name, status: RunPhase::Pending, message: None };
            }
        }
    }
}

/// A person went on after an inconclusive run, or tries again after an abort.
fn needs_another(scene: &Scene<'_>, run: &RunFacts) -> bool {
    let waits = scene.paused_for(PauseReason::CanaryPauseStep).is_some()
        || scene.paused_for(PauseReason::BlueGreenPause).is_some();
    if scene.status.controller_pause && !waits {
        return run.phase == RunPhase::Inconclusive && scene.status.pause_conditions.is_empty();
    }
    scene.status.aborted_at.is_some()
}

fn step_label(purpose: Purpose) -> Option<String> {
    match purpose {
        Purpose::Step(index) => Some(index.to_string()),
        _ => None,
    }
}

fn new_run(scene: &Scene<'_>, purpose: Purpose, analysis: &RolloutAnalysis, name: &str) -> NewRun {
    let metadata = analysis.analysis_run_metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels;
    labels.extend(scene.selector.match_labels.clone().unwrap_or_default());
    labels.insert(POD_TEMPLATE_HASH.into(), scene.hash.clone());
    labels.insert(RUN_TYPE.into(), purpose.word().into());
    if let Some(index) = step_label(purpose) {
        labels.insert(STEP_INDEX.into(), index);
    }
    let mut annotations = metadata.annotations;
    annotations.insert(REVISION.into(), scene.revision().to_string());
    NewRun {
        name: name.to_owned(),
        labels,
        annotations,
        templates: analysis.templates.clone(),
        args: arguments(scene, &analysis.args),
        dry_run: analysis.dry_run.clone(),
        measurement_retention: analysis.measurement_retention.clone(),
    }
}

/// The values of arguments. One whose field is not there is left out, and the run says so.
pub(crate) fn arguments(scene: &Scene<'_>, args: &[RunArgument]) -> BTreeMap<String, String> {
    let rollout = || serde_json::to_value(scene.rollout).unwrap_or_default();
    let value = |arg: &RunArgument| {
        let Some(from) = &arg.value_from else { return Some(arg.value.clone().unwrap_or_default()) };
        match (from.pod_template_hash_value, &from.field_ref) {
            (Some(HashOf::Latest), _) => Some(scene.hash.clone()),
            (Some(HashOf::Stable), _) => scene.status.stable_rs.clone(),
            (None, Some(field)) => at_path(&rollout(), &field.field_path),
            (None, None) => arg.value.clone(),
        }
    };
    args.iter().filter_map(|arg| Some((arg.name.clone(), value(arg)?))).collect()
}

/// The text at a path like `metadata.labels['region']` or `spec.template.spec.containers[0].image`.
pub fn at_path(object: &Value, path: &str) -> Option<String> {
    let mut value = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (key, tail) = quoted.split_once("']")?;
            (value, rest) = (value.get(key)?, tail);
        } else if let Some(number) = rest.strip_prefix('[') {
            let (index, tail) = number.split_once(']')?;
            (value, rest) = (value.get(index.parse::<usize>().ok()?)?, tail);
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            (value, rest) = (value.get(&name[..end])?, &name[end..]);
        }
    }
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => serde_json::to_string(value).ok(),
    }
}

/// Ends runs that nobody needs any more and deletes those beyond the limits.
pub(crate) fn tidy(scene: &Scene<'_>, draft: &mut Draft, current: &[Option<&RunStatus>]) {
    let names: BTreeSet<&str> = current.iter().flatten().map(|run| run.name.as_str()).collect();
    let mut others: Vec<_> = scene
        .observed
        .runs
        .iter()
        .filter(|run| !names.contains(run.name.as_str()) && !run.deleting)
        .collect();
    others.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.name.cmp(&a.name)));
    let history = scene.spec.analysis.clone().unwrap_or_default();
    let mut good = history.successful_run_history_limit.unwrap_or(DEFAULT_LIMIT);
    let mut bad = history.unsuccessful_run_history_limit.unwrap_or(DEFAULT_LIMIT);
    let hashes: BTreeSet<&str> =
        scene.roles.all.iter().filter(|set| !set.deleting).filter_map(|set| set.hash()).collect();
    for run in others {
        if !run.phase.completed() && !run.terminating {
            draft.run(Action::TerminateRun { name: run.name.clone() });
        }
        let of_a_revision =
            run.labels.get(POD_TEMPLATE_HASH).is_some_and(|hash| hashes.contains(hash.as_str()));
        let keep = match run.phase {
            _ if !of_a_revision => false,
            RunPhase::Pending | RunPhase::Running => true,
            RunPhase::Successful => take(&mut good),
            RunPhase::Failed | RunPhase::Error | RunPhase::Inconclusive => take(&mut bad),
        };
        if !keep {
            draft.last(Action::DeleteRun { name: run.name.clone(), uid: run.uid.clone() });
        }
    }
}

pub(crate) fn take(left: &mut i32) -> bool {
    *left -= 1;
    *left >= 0
}

/// Tells people when a run's phase has changed.
pub(crate) fn tell(draft: &mut Draft, purpose: &str, before: Option<&RunStatus>, after: Option<&RunStatus>) {
    let Some(after) = after else { return };
    let was = before.filter(|before| before.name == after.name).map(|before| before.status);
    if was == Some(after.status) || was.is_none() && after.status == RunPhase::Pending {
        return;
    }
    let message = format!("{purpose} AnalysisRun {} is {}", after.name, after.status.as_str());
    let reason = format!("AnalysisRun{}", after.status.as_str());
    match after.status {
        RunPhase::Failed | RunPhase::Error => draft.warn(&reason, "Analyse", message),
        _ => draft.note(&reason, "Analyse", message),
    }
}
