//! Gathers what there is for an experiment. All reads are here.

use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::ReplicaSet, core::v1::Service},
};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use windlass_api::{
    AnalysisRun, Experiment,
    analysis::{TemplateRef, merge::Library},
    experiment::{ExperimentAnalysis, ExperimentTemplate},
};
use windlass_cluster::templates;

use super::{
    controller::Error,
    plan::{RunFact, RunFacts, SetFacts, TemplateFacts},
    set,
};

/// Names that are tried for a run when others have them already.
const MOST_NAMES: u32 = 20;

/// Reads on behalf of one experiment.
pub(super) struct Reader<'a> {
    pub(super) client: &'a Client,
    pub(super) experiment: &'a Experiment,
}

/// What a name stands for.
enum Found<K> {
    Nothing,
    Ours(Box<K>),
    Foreign,
}

impl Reader<'_> {
    fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(
            self.client.clone(),
            self.experiment.metadata.namespace.as_deref().unwrap_or_default(),
        )
    }

    async fn find<K>(&self, name: &str) -> Result<Found<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let found =
            self.api::<K>().get_opt(name).await.map_err(|source| Error::reading::<K>(name, source))?;
        Ok(match found {
            None => Found::Nothing,
            Some(object) if is_ours(&object, self.experiment) => Found::Ours(Box::new(object)),
            Some(_) => Found::Foreign,
        })
    }

    /// What there is for one template.
    pub(super) async fn template(&self, template: &ExperimentTemplate) -> Result<TemplateFacts, Error> {
        let experiment = self.experiment.name_any();
        let mut facts = TemplateFacts {
            hash: set::hash(template),
            set_name: set::name(&experiment, &template.name),
            service_name: set::service_name(&experiment, template),
            ..TemplateFacts::default()
        };
        match self.find::<ReplicaSet>(&facts.set_name).await? {
            Found::Nothing => {}
            Found::Foreign => facts.set_is_foreign = true,
            Found::Ours(found) => {
                let status = found.status.unwrap_or_default();
                facts.set = Some(SetFacts {
                    wanted: found.spec.and_then(|spec| spec.replicas).unwrap_or(1),
                    replicas: status.replicas,
                    ready: status.ready_replicas.unwrap_or(0),
                    available: status.available_replicas.unwrap_or(0),
                });
            }
        }
        if let Some(name) = &facts.service_name {
            match self.find::<Service>(name).await? {
                Found::Nothing => {}
                Found::Foreign => facts.service_is_foreign = true,
                Found::Ours(_) => facts.service = true,
            }
        }
        Ok(facts)
    }

    /// What there is for one analysis.
    pub(super) async fn run(&self, analysis: &ExperimentAnalysis) -> Result<RunFacts, Error> {
        let known = self.experiment.status.as_ref().and_then(|status| {
            let run = status.analysis_runs.iter().find(|run| run.name == analysis.name)?;
            (!run.analysis_run.is_empty()).then(|| run.analysis_run.clone())
        });
        if let Some(name) = known {
            let run = match self.find::<AnalysisRun>(&name).await? {
                Found::Ours(run) => Some(fact(&run)),
                Found::Nothing | Found::Foreign => None,
            };
            return Ok(RunFacts { name, run });
        }
        let base = format!("{}-{}", self.experiment.name_any(), analysis.name);
        let mut name = base.clone();
        for number in 1..MOST_NAMES {
            match self.find::<AnalysisRun>(&name).await? {
                // Made by an earlier try that did not come to write its name down.
                Found::Ours(run) => return Ok(RunFacts { name, run: Some(fact(&run)) }),
                Found::Nothing => break,
                Found::Foreign => name = format!("{base}.{number}"),
            }
        }
        Ok(RunFacts { name, run: None })
    }

    /// All analysis templates that the experiment needs, as far as they are there.
    pub(super) async fn library(&self) -> Result<Library, Error> {
        let wanted: Vec<TemplateRef> = self.experiment.spec.analyses.iter().map(wanted).collect();
        let namespace = self.experiment.metadata.namespace.as_deref().unwrap_or_default();
        Ok(templates::library(self.client, namespace, &wanted).await?)
    }
}

fn wanted(analysis: &ExperimentAnalysis) -> TemplateRef {
    TemplateRef { template_name: analysis.template_name.clone(), cluster_scope: analysis.cluster_scope }
}

fn fact(run: &AnalysisRun) -> RunFact {
    let status = run.status.clone().unwrap_or_default();
    RunFact { phase: status.phase, message: status.message, terminate: run.spec.terminate }
}

/// Whether an object is controlled by the experiment.
pub(super) fn is_ours<K: Resource>(object: &K, experiment: &Experiment) -> bool {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == experiment.metadata.uid.as_ref())
}
