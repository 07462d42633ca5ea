//! What is wrong in the spec of an experiment.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_api::{experiment::ExperimentSpec, rollout::POD_TEMPLATE_HASH};

use crate::{analysis::check::time, experiment::set::pod_labels, revision::claim::matches};

/// The first thing that is wrong, with what to do about it.
pub(super) fn problem(spec: &ExperimentSpec) -> Option<String> {
    if spec.templates.is_empty() {
        return Some("spec.templates is empty. Name at least one".to_owned());
    }
    if let Some(duration) = spec.duration.as_deref().filter(|text| !text.is_empty())
        && let Err(why) = time(duration)
    {
        return Some(format!("spec.duration: {why}"));
    }
    let mut names = BTreeSet::new();
    let mut analyses = BTreeSet::new();
    if let Some(twice) = spec.analyses.iter().find(|it| !analyses.insert(&it.name)) {
        return Some(format!("spec.analyses: the name {} is taken. Give every analysis its own", twice.name));
    }
    spec.templates.iter().enumerate().find_map(|(index, template)| {
        let wrong = |what: &str| Some(format!("spec.templates[{index}]{what}"));
        if !names.insert(&template.name) {
            return wrong(".name is taken. Give every template its own name");
        }
        let labels = pod_labels(template);
                if !matches(&template.selector, &labels) {
            return wrong(".selector does not match the labels of its template. Make them agree");
        }
        if labels.contains_key(POD_TEMPLATE_HASH) {
            return wrong(&format!(".template has the label {POD_TEMPLATE_HASH}. Take it away: it is set by the controller"));
        }
        let containers = template.template.pointer("/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            return wrong(".template has no containers. Name at least one");
        }
        let progress = spec.progress_deadline_seconds.unwrap_or(600);
        (template.min_ready_seconds >= progress)
            .then(|| format!("spec.templates[{index}].minReadySeconds is not below progressDeadlineSeconds ({progress}). Lower it"))
    })
}
