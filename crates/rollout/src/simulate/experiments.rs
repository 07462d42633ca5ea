//! Experiments, simply: their pods come up, their analyses are measured, and the time passes.

use jiff::Timestamp;
use windlass_api::{
    analysis::{
        Phase, TemplateRef,
        merge::{Request, run_spec},
    },
    experiment::ExperimentSpec,
    rollout::POD_TEMPLATE_HASH,
};

use super::{
    Scenario,
    world::{Experiment, World, later},
};
use crate::{
    analysis::check,
    observed::{ExperimentFacts, ExperimentTemplateFacts, RunFacts},
    plan::NewExperiment,
};

impl World {
    pub(super) fn create_experiment(&mut self, new: &NewExperiment, now: Timestamp) -> bool {
        if self.experiments.contains_key(&new.name) {
            return false;
        }
        let mut spec = new.spec.clone();
        // A step may have a number of seconds where the kind has a text.
        if let Some(seconds) = spec.get("duration").and_then(serde_json::Value::as_i64) {
            spec["duration"] = format!("{seconds}s").into();
        }
        let spec: ExperimentSpec = serde_json::from_value(spec).unwrap_or_default();
        let templates = spec.templates.iter().map(|template| {
            let service = template.service.as_ref();
            let hash = template
                .template
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(POD_TEMPLATE_HASH));
            ExperimentTemplateFacts {
                name: template.name.clone(),
                service: service.map(|service| {
                    service.name.clone().unwrap_or_else(|| format!("{}-{}", new.name, template.name))
                }),
                hash: hash.and_then(serde_json::Value::as_str).map(str::to_owned),
            }
        });
        let facts = ExperimentFacts {
            name: new.name.clone(),
            uid: format!("experiment-{}", new.name),
            labels: new.labels.clone(),
            created: now,
            phase: Phase::Pending,
            templates: templates.collect(),
            ..ExperimentFacts::default()
        };
        self.experiments.insert(new.name.clone(), Experiment { facts, spec, ..Experiment::default() });
        true
    }

    /// When an experiment moves by itself.
    pub(super) fn experiment_moves(&self, experiment: &Experiment) -> Option<Timestamp> {
        if experiment.facts.phase.completed() {
            return None;
        }
        match experiment.available_at {
            None => Some(later(experiment.facts.created, self.ready_after)),
            Some(since) => duration(experiment).map(|length| later(since, length)),
        }
    }

    /// Moves every experiment that is not over. `true` if something changed.
    pub(super) fn move_experiments(&mut self, scenario: &Scenario, now: Timestamp) -> bool {
        let mut changed = false;
        let names: Vec<String> = self.experiments.keys().cloned().collect();
        for name in names {
            let Some(mut experiment) = self.experiments.remove(&name) else { continue };
            if !experiment.facts.phase.completed() {
                changed |= self.move_one(&mut experiment, scenario, now);
            }
            self.experiments.insert(name, experiment);
        }
        changed
    }

    fn move_one(&mut self, experiment: &mut Experiment, scenario: &Scenario, now: Timestamp) -> bool {
        let before = experiment.facts.phase;
        if experiment.available_at.is_none() {
            if later(experiment.facts.created, self.ready_after) > now && !experiment.spec.terminate {
                return false;
            }
            experiment.available_at = Some(now);
            experiment.facts.phase = Phase::Running;
            self.begin_analyses(experiment, scenario, now);
        }
        let phase = |name: &str| self.runs.get(name).map_or(Phase::Error, |run| run.facts.phase);
        let worst = experiment.runs.iter().map(|(name, _)| phase(name)).max_by_key(|phase| phase.badness());
        let bad = worst.filter(|phase| matches!(phase, Phase::Failed | Phase::Error | Phase::Inconclusive));
        let required: Vec<Phase> =
            experiment.runs.iter().filter(|(_, required)| *required).map(|(name, _)| phase(name)).collect();
        let since = experiment.available_at.unwrap_or(now);
        let over = match duration(experiment) {
            Some(length) => later(since, length) <= now && required.iter().all(|phase| phase.completed()),
            None => {
                !experiment.runs.is_empty() && experiment.runs.iter().all(|(name, _)| phase(name).completed())
            }
        };
        if let Some(bad) = bad {
            experiment.facts.phase = bad;
            let told = experiment.runs.iter().find(|(name, _)| phase(name) == bad);
            experiment.facts.message =
                told.and_then(|(name, _)| self.runs.get(name)).and_then(|run| run.facts.message.clone());
        } else if over || experiment.spec.terminate {
            experiment.facts.phase = Phase::Successful;
        }
        if experiment.facts.phase.completed() {
            for (name, _) in &experiment.runs {
                if let Some(run) = self.runs.get_mut(name) {
                    run.spec.terminate = true;
                }
            }
        }
        experiment.facts.phase != before
    }

    fn begin_analyses(&mut self, experiment: &mut Experiment, scenario: &Scenario, now: Timestamp) {
        for analysis in experiment.spec.analyses.clone() {
            let template = TemplateRef {
                template_name: analysis.template_name.clone(),
                cluster_scope: analysis.cluster_scope,
            };
            let mut args = analysis.args.clone();
            for arg in &mut args {
                if let Some(value) = scenario.args.get(&arg.name) {
                    (arg.value, arg.value_from) = (Some(value.clone()), None);
                }
            }
            let request = Request {
                templates: std::slice::from_ref(&template),
                args: &args,
                dry_run: &experiment.spec.dry_run,
                measurement_retention: &experiment.spec.measurement_retention,
            };
            let name = format!("{}-{}", experiment.facts.name, analysis.name);
            let spec = run_spec(request, &scenario.library).map_err(|error| error.to_string());
            let facts = RunFacts {
                name: name.clone(),
                uid: format!("run-{name}"),
                created: now,
                phase: Phase::Pending,
                ..RunFacts::default()
            };
            self.begin_run(facts, spec, now, true);
            experiment.runs.push((name, analysis.required_for_completion));
        }
    }
}

fn duration(experiment: &Experiment) -> Option<std::time::Duration> {
    experiment.spec.duration.as_deref().and_then(|text| check::time(text).ok())
}
