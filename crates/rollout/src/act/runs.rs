//! `AnalysisRuns` and Experiments.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use windlass_api::{
    AnalysisRun, Experiment,
    analysis::{
        Argument,
        merge::{Request, run_spec},
    },
};
use windlass_cluster::templates;

use super::{
    Error, Hands, Whose,
    request::{Kind, owner},
};
use crate::{
    index::record::{ExperimentRecord, RunRecord, controller},
    plan::action::{NewExperiment, NewRun},
};

impl Hands {
    fn keep_run(&self, run: &AnalysisRun) {
        self.index.state().runs.put_own(&run.metadata, RunRecord::new(run));
    }

    fn keep_experiment(&self, experiment: &Experiment) {
        self.index.state().experiments.put_own(&experiment.metadata, ExperimentRecord::new(experiment));
    }

    pub(super) async fn create_run(&self, whose: &Whose, new: &NewRun) -> Result<(), Error> {
        let library = templates::library(&self.client, &whose.namespace, &new.templates).await?;
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
}
