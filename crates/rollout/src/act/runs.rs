//! `AnalysisRuns` and Experiments.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use serde_json::json;
use windlass_api::{
    AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate, Experiment,
    analysis::{Argument, TemplateRef},
};

use super::{
    Error, Hands, Whose,
    request::{Kind, owner},
};
use crate::{
    analysis::template::{Library, Request, run_spec},
    index::record::{ExperimentRecord, RunRecord, controller},
    plan::action::{NewExperiment, NewRun},
};

/// How often templates may refer to further templates: deeper ones are missing.
const DEPTH: usize = 10;

impl Hands {
    fn keep_run(&self, run: &AnalysisRun) {
        self.index.state().runs.put_own(&run.metadata, RunRecord::new(run));
    }

    fn keep_experiment(&self, experiment: &Experiment) {
        self.index.state().experiments.put_own(&experiment.metadata, ExperimentRecord::new(experiment));
    }

    pub(super) async fn create_run(&self, whose: &Whose, new: &NewRun) -> Result<(), Error> {
        let library = self.library(&whose.namespace, &new.templates).await?;
        let value = |(name, value): (&String, &String)| Argument {
            name: name.clone(),
            value: Some(value.clone()),
            ..Argument::default()
        };
        let args: Vec<Argument> = new.args.iter().map(value).collect();
        let request = Request {
            templates: &new.templates,
            args: &args,
            dry_run: &new.dry_run,
            measurement_retention: &new.measurement_retention,
        };
        let spec = run_spec(request, &library)
            .map_err(|source| Error::Template { name: new.name.clone(), source })?;
        let mut run = AnalysisRun::new(&new.name, spec);
        run.metadata.labels = Some(new.labels.clone());
        run.metadata.annotations = Some(new.annotations.clone()).filter(|all| !all.is_empty());
        if let Some(run) = self.make_child(whose, run).await? {
            self.keep_run(&run);
        }
        Ok(())
    }

    pub(super) async fn create_experiment(&self, whose: &Whose, new: &NewExperiment) -> Result<(), Error> {
        let spec = serde_json::from_value(new.spec.clone())
            .map_err(|source| Error::Shape { what: format!("Experiment {}", new.name), source })?;
        let mut experiment = Experiment::new(&new.name, spec);
        experiment.metadata.labels = Some(new.labels.clone());
        experiment.metadata.annotations = Some(new.annotations.clone()).filter(|all| !all.is_empty());
        if let Some(experiment) = self.make_child(whose, experiment).await? {
            self.keep_experiment(&experiment);
        }
        Ok(())
    }

    /// Makes an object that we control. One of that name that is ours is as good.
    async fn make_child<K: Kind>(&self, whose: &Whose, mut object: K) -> Result<Option<K>, Error> {
        let meta: &mut ObjectMeta = object.meta_mut();
        meta.namespace = Some(whose.namespace.clone());
        meta.owner_references = Some(vec![owner(whose)]);
        let name = meta.name.clone().unwrap_or_default();
        if let Some(made) = self.make(&whose.namespace, &object).await? {
            return Ok(Some(made));
        }
        let what = format!("{} {name}", K::kind(&()));
        let api = self.api::<K>(&whose.namespace);
        let there = api.get_opt(&name).await.map_err(|error| Error::api(format!("read {what}"), error))?;
        let Some(there) = there else { return Err(Error::Stale(what)) };
        let owners = there.meta().owner_references.as_deref().unwrap_or_default();
        if controller(owners).is_some_and(|owner| owner.uid == whose.uid) {
            Ok(Some(there))
        } else {
            Err(Error::Taken(what))
        }
    }

    pub(super) async fn terminate_run(&self, whose: &Whose, name: &str) -> Result<(), Error> {
        let patch = json!({ "spec": { "terminate": true } });
        if let Some(run) = self.merge::<AnalysisRun>(&whose.namespace, name, &patch).await? {
            self.keep_run(&run);
        }
        Ok(())
    }

    pub(super) async fn terminate_experiment(&self, whose: &Whose, name: &str) -> Result<(), Error> {
        let patch = json!({ "spec": { "terminate": true } });
        if let Some(experiment) = self.merge::<Experiment>(&whose.namespace, name, &patch).await? {
            self.keep_experiment(&experiment);
        }
        Ok(())
    }

    pub(super) async fn delete_run(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        self.delete::<AnalysisRun>(&whose.namespace, name, uid).await?;
        self.index.state().runs.remove(&(whose.namespace.clone(), name.to_owned()), Some(uid));
        Ok(())
    }

    pub(super) async fn delete_experiment(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        self.delete::<Experiment>(&whose.namespace, name, uid).await?;
        self.index.state().experiments.remove(&(whose.namespace.clone(), name.to_owned()), Some(uid));
        Ok(())
    }

    /// All templates that these need. One that is not there is left out: merging names it.
    async fn library(&self, namespace: &str, wanted: &[TemplateRef]) -> Result<Library, Error> {
        let mut library = Library::default();
        let mut asked = std::collections::BTreeSet::new();
        for _ in 0..DEPTH {
            let missing: Vec<TemplateRef> =
                library.missing(wanted).into_iter().filter(|template| !asked.contains(template)).collect();
            if missing.is_empty() {
                break;
            }
            for template in missing {
                self.fetch(namespace, &template, &mut library).await?;
                asked.insert(template);
            }
        }
        Ok(library)
    }

    async fn fetch(
        &self,
        namespace: &str,
        template: &TemplateRef,
        library: &mut Library,
    ) -> Result<(), Error> {
        let name = &template.template_name;
        let failed = |error| Error::api(format!("read the analysis template {name}"), error);
        if template.cluster_scope {
            let api = Api::<ClusterAnalysisTemplate>::all(self.client.clone());
            if let Some(found) = api.get_opt(name).await.map_err(failed)? {
                library.cluster.insert(
                    name.clone(),
                    serde_json::from_value(json!(found.spec)).map_err(|source| Error::Shape {
                        what: format!("ClusterAnalysisTemplate {name}"),
                        source,
                    })?,
                );
            }
        } else if let Some(found) =
            self.api::<AnalysisTemplate>(namespace).get_opt(name).await.map_err(failed)?
        {
            library.namespaced.insert(name.clone(), found.spec);
        }
        Ok(())
    }
}
