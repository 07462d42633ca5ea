//! The `Experiment` kind as the loop sees it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::ReplicaSet, core::v1::Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_api::{
    AnalysisRun, Experiment,
    analysis::{AnalysisRunSpec, merge::Library},
    experiment::ExperimentStatus,
};
use windlass_cluster::{
    drive::{Controller, Drive, Failure, Key, Options, Plan, Reference, Services},
    templates::Unread,
    watch::{self, Seen, Selection},
};

use super::{
    observe::{Reader, is_ours},
    plan::{self, Action, Observed},
    set::{self, EXPERIMENT_UID},
};

/// Field manager of this part's writes.
const MANAGER: &str = "windlass-experiment";

/// Why nothing can be decided or done about an experiment.
#[derive(Debug, thiserror::Error)]
#[error("{object} could not be {what}")]
pub struct Error {
    /// Kind and name.
    object: String,
    what: &'static str,
    source: Box<kube::Error>,
}

impl Error {
    pub(super) fn reading<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> Self {
        Self::new::<K>(name, "read", source)
    }

    fn new<K: Resource<DynamicType = ()>>(name: &str, what: &'static str, source: kube::Error) -> Self {
        Self { object: format!("{} {name}", K::kind(&())), what, source: Box::new(source) }
    }
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        Self { object: unread.what, what: "read", source: unread.source }
    }
}

impl Failure for Error {
    fn category(&self) -> &'static str {
        self.what
    }
}

/// Runs versions side by side.
pub struct ExperimentController {
    client: Client,
    /// Experiments as last looked at, and what the API server refused to make for their templates.
    seen: Mutex<BTreeMap<Key, Entry>>,
}

struct Entry {
    experiment: Arc<Experiment>,
    refused: BTreeMap<String, String>,
}

impl ExperimentController {
    /// A controller of this API's experiments.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// The loop that runs it, with every watch that it needs.
    pub fn drive(self, services: Services, options: Options) -> Drive<Self> {
        let client = services.client.clone();
        let drive = Drive::new(Arc::new(self), services, options);
        related(&client).into_iter().fold(drive, Drive::related)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an experiment, and gives what was refused for its present spec.
    fn look(&self, key: &Key, experiment: &Arc<Experiment>) -> BTreeMap<String, String> {
        let mut seen = self.seen();
        let entry = seen
            .entry(key.clone())
            .or_insert_with(|| Entry { experiment: experiment.clone(), refused: BTreeMap::new() });
        let version = |it: &Experiment| (it.uid(), it.metadata.generation);
        if version(&entry.experiment) != version(experiment) {
            entry.refused.clear();
        }
        entry.experiment = experiment.clone();
        entry.refused.clone()
    }

    fn experiment(&self, key: &Key) -> Option<Arc<Experiment>> {
        self.seen().get(key).map(|entry| entry.experiment.clone())
    }

    fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self, key: &Key) -> Api<K> {
        Api::namespaced(self.client.clone(), key.namespace.as_deref().unwrap_or_default())
    }

    /// Makes an object. One that is there already was made by an earlier try, or is found to be foreign at the next look.
    async fn create<K>(&self, key: &Key, template: &str, object: Value) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let refuse = |why: &str| {
            if let Some(entry) = self.seen().get_mut(key) {
                let why = format!("{} {name} was refused: {why}. Correct the template", K::kind(&()));
                entry.refused.insert(template.to_owned(), why);
            }
        };
        let Ok(object) = serde_json::from_value::<K>(object) else {
            refuse("it has a field of a wrong kind");
            return Ok(());
        };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.api::<K>(key).create(&params, &object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                refuse(&status.message);
                Ok(())
            }
            Err(source) => Err(Error::new::<K>(&name, "made", source)),
        }
    }

    async fn create_run(&self, key: &Key, name: &str, spec: &AnalysisRunSpec) -> Result<(), Error> {
        let Some(experiment) = self.experiment(key) else { return Ok(()) };
        let mut run = AnalysisRun::new(name, spec.clone());
        run.metadata.namespace = experiment.metadata.namespace.clone();
        run.metadata.owner_references = experiment.controller_owner_ref(&()).map(|owner| vec![owner]);
        let metadata = experiment.spec.analysis_run_metadata.clone().unwrap_or_default();
        run.metadata.annotations = Some(metadata.annotations);
        run.metadata.labels = Some(metadata.labels);
        run.labels_mut().insert(EXPERIMENT_UID.to_owned(), experiment.uid().unwrap_or_default());
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.api::<AnalysisRun>(key).create(&params, &run).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(Error::new::<AnalysisRun>(name, "made", source)),
        }
    }

    /// Changes an object, if it is there and ours.
    async fn change<K>(&self, key: &Key, name: &str, patch: Value) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api = self.api::<K>(key);
        let Some(found) = self.ours::<K>(key, name).await? else { return Ok(()) };
        let mut patch = patch;
        patch["metadata"]["uid"] = json!(found.meta().uid);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(name, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error::new::<K>(name, "changed", source)),
        }
    }

    async fn delete_service(&self, key: &Key, name: &str) -> Result<(), Error> {
        let Some(found) = self.ours::<Service>(key, name).await? else { return Ok(()) };
        let preconditions = Some(Preconditions { uid: found.metadata.uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.api::<Service>(key).delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(source) => Err(Error::new::<Service>(name, "deleted", source)),
        }
    }

    async fn ours<K>(&self, key: &Key, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let Some(experiment) = self.experiment(key) else { return Ok(None) };
        let found =
            self.api::<K>(key).get_opt(name).await.map_err(|source| Error::reading::<K>(name, source))?;
        Ok(found.filter(|found| is_ours(found, &experiment)))
    }
}

/// Names what experiments are made of when it changes: one stream a kind, for the loop
/// ([`Drive::related`](windlass_cluster::drive::Drive::related)).
pub fn related(client: &Client) -> [BoxStream<'static, Seen>; 3] {
    fn kind<K>(client: &Client, name: &str) -> BoxStream<'static, Seen>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(client.clone());
        watch::references(api, &Selection::labels(EXPERIMENT_UID), name).boxed()
    }
    [
        kind::<ReplicaSet>(client, "experiment-sets"),
        kind::<Service>(client, "experiment-services"),
        kind::<AnalysisRun>(client, "experiment-runs"),
    ]
}

impl Controller for ExperimentController {
    type Object = Experiment;
    type Status = ExperimentStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    fn name(&self) -> &'static str {
        "experiment"
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn status<'a>(&self, object: &'a Experiment) -> Option<&'a ExperimentStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &Experiment) -> Vec<Reference> {
        let namespace = object.metadata.namespace.clone();
        let name = object.name_any();
        let refer = |group, kind, name| Reference { group, kind, namespace: namespace.clone(), name };
        let mut reads = Vec::new();
        for template in &object.spec.templates {
            let set = set::name(&name, &template.name);
            reads.push(refer(ReplicaSet::group(&()), ReplicaSet::kind(&()), set));
            if let Some(service) = set::service_name(&name, template) {
                reads.push(refer(Service::group(&()), Service::kind(&()), service));
            }
        }
        for run in object.status.iter().flat_map(|status| &status.analysis_runs) {
            reads.push(refer(AnalysisRun::group(&()), AnalysisRun::kind(&()), run.analysis_run.clone()));
        }
        reads
    }

    async fn observe(&self, object: Arc<Experiment>) -> Result<Observed, Error> {
        let experiment = Key::of(object.as_ref());
        let deleting = object.metadata.deletion_timestamp.is_some();
        let refused = self.look(&experiment, &object);
        let reader = Reader { client: &self.client, experiment: &object };
        let (mut templates, mut runs) = (BTreeMap::new(), BTreeMap::new());
        let mut library = Library::default();
        if !deleting {
            for template in &object.spec.templates {
                let mut facts = reader.template(template).await?;
                facts.refused = refused.get(&template.name).cloned();
                templates.insert(template.name.clone(), facts);
            }
            for analysis in &object.spec.analyses {
                runs.insert(analysis.name.clone(), reader.run(analysis).await?);
            }
            library = reader.library().await?;
        }
        Ok(Observed {
            experiment,
            generation: object.metadata.generation,
            spec: object.spec.clone(),
            status: object.status.clone().unwrap_or_default(),
            deleting,
            templates,
            runs,
            library,
        })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<Action, ExperimentStatus> {
        plan::plan(observed, now)
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::CreateSet { experiment: key, template, replicas } => {
                let Some(experiment) = self.experiment(key) else { return Ok(()) };
                let Some(wanted) = experiment.spec.templates.iter().find(|it| it.name == *template) else {
                    return Ok(());
                };
                let object = set::replica_set(&experiment, wanted, *replicas);
                self.create::<ReplicaSet>(key, template, object).await
            }
            Action::CreateService { experiment: key, template, name } => {
                let Some(experiment) = self.experiment(key) else { return Ok(()) };
                let Some(wanted) = experiment.spec.templates.iter().find(|it| it.name == *template) else {
                    return Ok(());
                };
                self.create::<Service>(key, template, set::service(&experiment, wanted, name)).await
            }
            Action::Scale { experiment, name, replicas } => {
                self.change::<ReplicaSet>(experiment, name, json!({ "spec": { "replicas": replicas } })).await
            }
            Action::DeleteService { experiment, name } => self.delete_service(experiment, name).await,
            Action::CreateRun { experiment, name, spec } => self.create_run(experiment, name, spec).await,
            Action::EndRun { experiment, name } => {
                self.change::<AnalysisRun>(experiment, name, json!({ "spec": { "terminate": true } })).await
            }
        }
    }

    fn gone(&self, key: &Key) {
        self.seen().remove(key);
    }
}
