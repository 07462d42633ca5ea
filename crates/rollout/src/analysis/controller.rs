//! The `AnalysisRun` kind as the loop sees it.

use std::sync::Arc;

use futures::Stream;
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, PostParams, Preconditions, PropagationPolicy},
    core::PartialObjectMeta,
};
use windlass_api::analysis::{AnalysisRun, AnalysisRunStatus};
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Drive, Failure, Key, Options, Plan, Reference, Services},
    watch::{self, Seen, Selection},
};

use super::{
    args::redact,
    desk::Desk,
    job,
    measure::{Meter, unasked},
    metrics::AnalysisMetrics,
    plan::{self, Action, JOB_NAME, JobFact, Observed},
};

/// Why nothing can be decided or done about a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A Job could not be read, made or deleted.
    #[error("Job {name} could not be {what}")]
    Job {
        /// Its name.
        name: String,
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The run could not be deleted.
    #[error("the run could not be deleted")]
    Run(#[source] Box<kube::Error>),
}

impl Failure for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Job { .. } => "job",
            Self::Run(_) => "run",
        }
    }
}

/// Measures what runs ask for, and says how they ended.
pub struct AnalysisController<M> {
    desk: Arc<Desk<M>>,
}

impl<M: Meter> AnalysisController<M> {
    /// A controller that measures with this meter.
    pub fn new(client: Client, meter: M, clock: Clock, metrics: AnalysisMetrics) -> Self {
        Self { desk: Arc::new(Desk::new(client, meter, clock, metrics)) }
    }

    /// The loop that runs it, woken by Jobs and by measurements that have ended.
    pub fn drive(self, services: Services, options: Options) -> Drive<Self> {
        let (controller, client) = (Arc::new(self), services.client.clone());
        let drive = Drive::new(controller.clone(), services, options).related(jobs(client));
        controller.desk.wakes(drive.waker());
        drive
    }

    fn jobs(&self, namespace: &str) -> Api<Job> {
        Api::namespaced(self.desk.client.clone(), namespace)
    }

    /// How the Jobs are that the run waits for.
    async fn facts(&self, run: &AnalysisRun) -> Result<job::Facts, Error> {
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let mut facts = job::Facts::new();
        for name in under_way(run) {
            let failed = |source| Error::Job { name: name.clone(), what: "read", source: Box::new(source) };
            let Some(found) = self.jobs(namespace).get_opt(&name).await.map_err(failed)? else { continue };
            let fact = if let Some(ended) = job::ended(found.status.as_ref()) {
                ended
            } else {
                let selection = format!("batch.kubernetes.io/job-name={name}");
                let pods: Api<Pod> = Api::namespaced(self.desk.client.clone(), namespace);
                let pods = pods.list(&ListParams::default().labels(&selection)).await.map_err(failed)?.items;
                job::stuck(&pods).map_or(JobFact::Running, JobFact::Stuck)
            };
            facts.insert(name, fact);
        }
        Ok(facts)
    }

    async fn start_job(&self, key: &Key, metric: &str, attempt: u32, name: &str) -> Result<(), Error> {
        let Some(run) = self.desk.run(key) else { return Ok(()) };
        let refuse = |why: &str| self.desk.put(key, unasked(metric, attempt, why, self.desk.clock.now()));
        let Some(metric) = run.spec.metrics.iter().find(|known| known.name == metric) else { return Ok(()) };
        let (filled, secrets) = match self.desk.filled(&run, metric).await {
            Ok(filled) => filled,
            Err(why) => {
                refuse(&why);
                return Ok(());
            }
        };
        let object = match job::object(&run, &filled, name) {
            Ok(object) => object,
            Err(why) => {
                refuse(&why);
                return Ok(());
            }
        };
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let jobs = Api::namespaced_with(self.desk.client.clone(), namespace, &job::resource());
        match jobs
            .create(&PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }, &object)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => self.claim(&run, name, refuse).await,
            // The API server does not take it, and will not take it later.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                refuse(&redact(
                    &format!("the Job was refused: {}. Correct the metric", status.message),
                    &secrets,
                ));
                Ok(())
            }
            Err(source) => Err(Error::Job { name: name.to_owned(), what: "made", source: Box::new(source) }),
        }
    }

    /// There is a Job of this name already: it is ours from an earlier try, or somebody else's.
    async fn claim(&self, run: &AnalysisRun, name: &str, refuse: impl Fn(&str)) -> Result<(), Error> {
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let failed = |source| Error::Job { name: name.to_owned(), what: "read", source: Box::new(source) };
        let found = self.jobs(namespace).get_opt(name).await.map_err(failed)?;
        if found.is_some_and(|found| !is_owned(&found, run)) {
            refuse(&format!("there is a Job {name} that belongs to somebody else. Delete it"));
        }
        Ok(())
    }

    /// Deletes a Job of the run, and never anybody else's.
    async fn delete_job(&self, key: &Key, name: &str) -> Result<(), Error> {
        let Some(run) = self.desk.run(key) else { return Ok(()) };
        let jobs = self.jobs(key.namespace.as_deref().unwrap_or_default());
        let failed =
            |what| move |source| Error::Job { name: name.to_owned(), what, source: Box::new(source) };
        let Some(found) = jobs.get_opt(name).await.map_err(failed("read"))? else { return Ok(()) };
        if !is_owned(&found, &run) {
            return Ok(());
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: found.metadata.uid, resource_version: None }),
            ..DeleteParams::default()
        };
        gone_is_fine(jobs.delete(name, &params).await.map(drop)).map_err(failed("deleted"))
    }
}

/// Field manager of this part's writes.
const MANAGER: &str = "windlass-analysis";

/// Names the Jobs of runs that change, for the loop ([`Drive::related`](windlass_cluster::drive::Drive::related)).
pub fn jobs(client: Client) -> impl Stream<Item = Seen> + Send + 'static {
    let jobs: Api<PartialObjectMeta<Job>> = Api::all(client);
    watch::references(jobs, &Selection::labels(job::RUN_UID), "analysis-jobs")
}

/// Names of Jobs that measurements of the run wait for.
fn under_way(run: &AnalysisRun) -> Vec<String> {
    let results = run.status.as_ref().map(|status| status.metric_results.as_slice()).unwrap_or_default();
    let last = results.iter().filter_map(|result| result.measurements.last());
    last.filter(|last| !last.phase.completed())
        .filter_map(|last| last.metadata.get(JOB_NAME).cloned())
        .collect()
}

fn is_owned(found: &Job, run: &AnalysisRun) -> bool {
    let owners = found.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == run.metadata.uid.as_ref())
}

/// What is gone, or is another one by now, need not be deleted.
fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}

impl<M: Meter> Controller for AnalysisController<M> {
    type Object = AnalysisRun;
    type Status = AnalysisRunStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    fn name(&self) -> &'static str {
        "analysisrun"
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn status<'a>(&self, object: &'a AnalysisRun) -> Option<&'a AnalysisRunStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &AnalysisRun) -> Vec<Reference> {
        let reference = |name| Reference {
            group: Job::group(&()),
            kind: Job::kind(&()),
            namespace: object.metadata.namespace.clone(),
            name,
        };
        under_way(object).into_iter().map(reference).collect()
    }

    async fn observe(&self, object: Arc<AnalysisRun>) -> Result<Observed, Error> {
        let run = Key::of(object.as_ref());
        let status = object.status.clone().unwrap_or_default();
        let deleting = object.metadata.deletion_timestamp.is_some();
        let state = self.desk.look(&run, &object);
        let jobs = if deleting { job::Facts::new() } else { self.facts(&object).await? };
        if deleting || status.phase.completed() {
            self.desk.forget(&run);
        }
        Ok(Observed {
            run,
            uid: object.metadata.uid.clone().unwrap_or_default(),
            spec: object.spec.clone(),
            status,
            deleting,
            answers: state.answers,
            asking: state.asking,
            jobs,
        })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<Action, AnalysisRunStatus> {
        let plan = plan::plan(observed, now);
        if let Some(status) = &plan.status {
            self.desk.metrics.observe(&observed.run, status);
            if status.phase.completed() {
                self.desk.metrics.ended(status.phase);
            }
        }
        plan
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Measure { run, metric, attempt } => {
                self.desk.ask(run, metric, *attempt);
                Ok(())
            }
            Action::StartJob { run, metric, attempt, name } => {
                self.start_job(run, metric, *attempt, name).await
            }
            Action::DeleteJob { run, name } => self.delete_job(run, name).await,
            Action::DeleteRun { run, uid } => {
                let namespace = run.namespace.as_deref().unwrap_or_default();
                let runs: Api<AnalysisRun> = Api::namespaced(self.desk.client.clone(), namespace);
                let params = DeleteParams {
                    preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..DeleteParams::default()
                };
                let deleted = runs.delete(&run.name, &params).await.map(drop);
                gone_is_fine(deleted).map_err(|source| Error::Run(Box::new(source)))
            }
        }
    }

    fn gone(&self, key: &Key) {
        self.desk.forget(key);
        self.desk.metrics.forget(key);
    }
}
