//! Experiments of canary steps.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::rollout::{
    POD_TEMPLATE_HASH, REVISION,
    canary::{ExperimentStep, ExperimentTemplate, SpecRef},
    status::RunPhase,
};

use super::{
    action::{Action, NewExperiment},
    draft::Draft,
    runs::{arguments, take},
    steps::{Place, Walk},
};
use crate::observed::ExperimentFacts;

const DEFAULT_LIMIT: i32 = 5;

/// The experiment that the status names.
pub(crate) fn current<'a>(walk: &Walk<'a>) -> Option<&'a ExperimentFacts> {
    let name = walk.scene.status.canary.current_experiment.as_deref()?;
    walk.scene.observed.experiments.iter().find(|experiment| experiment.name == name && !experiment.deleting)
}

/// Shares of the traffic of a running experiment, by Service.
pub(crate) fn weights(walk: &Walk<'_>, place: Place) -> BTreeMap<String, i32> {
    let step = walk.step(place).and_then(|step| step.experiment.as_ref());
    let running = current(walk).filter(|experiment| experiment.phase == RunPhase::Running);
    let (Some(step), Some(running)) = (step, running) else { return BTreeMap::new() };
    let weight = |name: &str| {
        step.templates.iter().find(|template| template.name == name).and_then(|template| template.weight)
    };
    let shares = running
        .templates
        .iter()
        .filter_map(|template| Some((template.service.clone()?, weight(&template.name)?)));
    shares.collect()
}

/// Makes the experiment of the step that is stored, ends and deletes others. Gives the name of the current one.
pub(crate) fn sync(walk: &Walk<'_>, draft: &mut Draft) -> Option<String> {
    let place = walk.stored();
    let step = walk.step(place).and_then(|step| step.experiment.as_ref());
    let wanted = step.filter(|_| {
        !place.abort
            && !place.promote_full
            && !walk.scene.promoted()
            && walk.scene.has_stable()
            && !walk.scene.halted()
    });
    let name = wanted.and_then(|step| ensure(walk, draft, place, step));
    tidy(walk, draft, name.as_deref());
    name
}

fn ensure(walk: &Walk<'_>, draft: &mut Draft, place: Place, step: &ExperimentStep) -> Option<String> {
    let again = walk.scene.resumed() || walk.scene.status.aborted_at.is_some();
    if let Some(experiment) = current(walk)
        && !(again && experiment.phase != RunPhase::Successful && experiment.phase.completed())
    {
        return Some(experiment.name.clone());
    }
    let scene = walk.scene;
    let base = format!("{}-{}-{}-{}", scene.name, scene.hash, scene.revision(), place.index);
    let mut attempt = 0;
    loop {
        let name = if attempt == 0 { base.clone() } else { format!("{base}-{attempt}") };
        match scene.observed.experiments.iter().find(|experiment| experiment.name == name) {
            Some(found) if !found.phase.completed() && !found.terminating && !found.deleting => {
                return Some(name);
            }
            Some(_) => attempt += 1,
            None => {
                let experiment = new_experiment(walk, step, &name)?;
                draft.note("ExperimentCreated", "Experiment", format!("Experiment {name}"));
                draft.run(Action::CreateExperiment(Box::new(experiment)));
                return Some(name);
            }
        }
    }
}

fn new_experiment(walk: &Walk<'_>, step: &ExperimentStep, name: &str) -> Option<NewExperiment> {
    let scene = walk.scene;
    let templates: Option<Vec<Value>> =
        step.templates.iter().map(|template| version(walk, template)).collect();
    let analyses: Vec<Value> = step
        .analyses
        .iter()
        .map(|analysis| {
            let args: Vec<Value> = arguments(scene, &analysis.args)
                .into_iter()
                .map(|(name, value)| json!({ "name": name, "value": value }))
                .collect();
            json!({
                "name": analysis.name,
                "templateName": analysis.template_name,
                "clusterScope": analysis.cluster_scope,
                "requiredForCompletion": analysis.required_for_completion,
                "args": args,
            })
        })
        .collect();
    let mut spec = Map::from_iter([("templates".to_owned(), Value::Array(templates?))]);
    if !analyses.is_empty() {
        spec.insert("analyses".into(), Value::Array(analyses));
    }
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            spec.insert(field.to_owned(), value);
        }
    };
    set("duration", step.duration.as_ref().map(|duration| duration.to_string().into()));
    set("progressDeadlineSeconds", scene.spec.progress_deadline_seconds.map(Into::into));
    set("scaleDownDelaySeconds", step.scale_down_delay_seconds.map(Into::into));
    set(
        "analysisRunMetadata",
        step.analysis_run_metadata.as_ref().and_then(|m| serde_json::to_value(m).ok()),
    );
    set("dryRun", (!step.dry_run.is_empty()).then(|| json!(step.dry_run)));
    let mut labels = scene.rollout.metadata.labels.clone().unwrap_or_default();
    labels.insert(POD_TEMPLATE_HASH.into(), scene.hash.clone());
    Some(NewExperiment {
        name: name.to_owned(),
        labels,
        annotations: BTreeMap::from([(REVISION.into(), scene.revision().to_string())]),
        spec: Value::Object(spec),
    })
}

/// One version of the experiment: the template and selector of a `ReplicaSet`, with what the step adds.
fn version(walk: &Walk<'_>, template: &ExperimentTemplate) -> Option<Value> {
    let set = match template.spec_ref {
        SpecRef::Canary => walk.scene.roles.new,
        SpecRef::Stable => walk.scene.roles.stable,
    }?;
    // The experiment gives its pods a hash of their own, so that Services of the Rollout do not reach them.
    let mut pod = set.plain_template();
    let extra = template.metadata.clone().unwrap_or_default();
    for (field, added) in [("labels", &extra.labels), ("annotations", &extra.annotations)] {
        let metadata = pod.as_object_mut()?.entry("metadata").or_insert_with(|| json!({}));
        let map = metadata.as_object_mut()?.entry(field).or_insert_with(|| json!({})).as_object_mut()?;
        map.extend(added.iter().map(|(name, value)| (name.clone(), json!(value))));
    }
    let mut selector = template.selector.as_ref().unwrap_or(&walk.scene.selector).clone();
    selector.match_labels.get_or_insert_default().extend(extra.labels);
    let mut version = json!({
        "name": template.name,
        "minReadySeconds": set.min_ready_seconds,
        "selector": selector,
        "template": pod,
    });
    let fields = version.as_object_mut()?;
    if let Some(replicas) = template.replicas {
        fields.insert("replicas".into(), replicas.into());
    }
    if template.weight.is_some() || template.service.is_some() {
        fields.insert("service".into(), template.service.clone().unwrap_or_else(|| json!({})));
    }
    Some(version)
}

fn tidy(walk: &Walk<'_>, draft: &mut Draft, current: Option<&str>) {
    let scene = walk.scene;
    let history = scene.spec.analysis.clone().unwrap_or_default();
    let mut good = history.successful_run_history_limit.unwrap_or(DEFAULT_LIMIT);
    let mut bad = history.unsuccessful_run_history_limit.unwrap_or(DEFAULT_LIMIT);
    let mut others: Vec<_> = scene
        .observed
        .experiments
        .iter()
        .filter(|experiment| Some(experiment.name.as_str()) != current && !experiment.deleting)
        .collect();
    others.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.name.cmp(&a.name)));
    for experiment in others {
        let hash = experiment.labels.get(POD_TEMPLATE_HASH).map(String::as_str);
        let of_a_revision =
            scene.roles.all.iter().any(|set| hash.is_some() && set.hash() == hash && !set.deleting);
        if !experiment.phase.completed() && !experiment.terminating {
            draft.run(Action::TerminateExperiment { name: experiment.name.clone() });
        }
        let keep = of_a_revision
            && match experiment.phase {
                RunPhase::Pending | RunPhase::Running => true,
                RunPhase::Successful => take(&mut good),
                RunPhase::Failed | RunPhase::Error | RunPhase::Inconclusive => take(&mut bad),
            };
        if !keep {
            let (name, uid) = (experiment.name.clone(), experiment.uid.clone());
            draft.last(Action::DeleteExperiment { name, uid });
        }
    }
}
