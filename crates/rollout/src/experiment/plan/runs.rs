//! Runs of the analyses.

use windlass_api::{
    analysis::{
        AnalysisRunSpec, Argument, Phase, TemplateRef,
        merge::{Request, run_spec},
    },
    experiment::{ExperimentAnalysis, ExperimentRunStatus, ExperimentStatus},
};

use super::{Action, Round};
use crate::analysis::args::fill;

impl Round<'_> {
    /// Looks after one analysis.
    pub(super) fn analysis(&mut self, analysis: &ExperimentAnalysis, status: &mut ExperimentStatus) {
        let old = status.analysis_runs.iter().find(|run| run.name == analysis.name).cloned();
        let mut new = old.unwrap_or_else(|| ExperimentRunStatus {
            name: analysis.name.clone(),
            ..ExperimentRunStatus::default()
        });
        if !new.phase.completed() {
            self.run(analysis, status, &mut new);
        }
        match status.analysis_runs.iter_mut().find(|run| run.name == analysis.name) {
            Some(place) => *place = new,
            None => status.analysis_runs.push(new),
        }
    }

    fn run(
        &mut self,
        analysis: &ExperimentAnalysis,
        status: &ExperimentStatus,
        new: &mut ExperimentRunStatus,
    ) {
        let facts = self.observed.runs.get(&analysis.name).cloned().unwrap_or_default();
        if let Some(run) = &facts.run {
            new.analysis_run.clone_from(&facts.name);
            (new.phase, new.message) = (run.phase, run.message.clone());
            if self.terminating && !run.phase.completed() && !run.terminate {
                self.actions.push(Action::EndRun { experiment: self.key(), name: facts.name });
            }
            return;
        }
        if !new.analysis_run.is_empty() {
            (new.phase, new.message) =
                (Phase::Error, format!("AnalysisRun {} is gone. Somebody deleted it", new.analysis_run));
            return;
        }
        if self.terminating {
            return;
        }
        match self.spec(analysis, status) {
            Err(why) => {
                (new.phase, new.message) =
                    (Phase::Error, format!("No run can be made for analysis '{}': {why}", analysis.name));
            }
            // Measuring begins when all pods are available. Until then only what is wrong is told.
            Ok(_) if status.available_at.is_none() => {}
            Ok(spec) => {
                new.analysis_run.clone_from(&facts.name);
                self.actions.push(Action::CreateRun { experiment: self.key(), name: facts.name, spec });
                // The round that reads it back tells its phase.
                new.phase = Phase::Pending;
            }
        }
    }

    fn spec(
        &self,
        analysis: &ExperimentAnalysis,
        status: &ExperimentStatus,
    ) -> Result<AnalysisRunSpec, String> {
        let is_early = status.available_at.is_none();
        let args = analysis.args.iter().map(|arg| {
            let value = match &arg.value {
                // What can only be known later is not missing yet.
                Some(text) if is_early => Some(text.clone()),
                Some(text) => Some(self.argument(text, status)?),
                None => None,
            };
            Ok(Argument { value, ..arg.clone() })
        });
        let args: Vec<Argument> = args.collect::<Result<_, String>>()?;
        let template = [TemplateRef {
            template_name: analysis.template_name.clone(),
            cluster_scope: analysis.cluster_scope,
        }];
        let request = Request {
            templates: &template,
            args: &args,
            dry_run: &self.observed.spec.dry_run,
            measurement_retention: &self.observed.spec.measurement_retention,
        };
        run_spec(request, &self.observed.library).map_err(|error| error.to_string())
    }

    /// An argument's value, with what the experiment knows put in.
    fn argument(&self, text: &str, status: &ExperimentStatus) -> Result<String, String> {
        let look_up = |tag: &str| {
            if tag == "experiment.availableAt" {
                return status.available_at.as_ref().map(|time| time.0.to_string());
            }
            if tag == "experiment.finishedAt" {
                return self.end(status).map(|time| time.to_string());
            }
            let (name, field) = tag.strip_prefix("templates.")?.split_once('.')?;
            let facts = self.observed.templates.get(name)?;
            match field {
                "podTemplateHash" => Some(facts.hash.clone()),
                "replicaset.name" => Some(facts.set_name.clone()),
                _ => None,
            }
        };
        fill(text, &look_up).map_err(|tag| {
            format!("{{{{{tag}}}}} is not known. Use templates.NAME.podTemplateHash, templates.NAME.replicaset.name, experiment.availableAt or experiment.finishedAt")
        })
    }
}
