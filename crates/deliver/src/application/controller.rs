//! The `Application` kind as the loop sees it.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use windlass_api::{
    Application, ApplicationStatus, GROUP,
    application::FINALIZER,
    condition::{self, READY, Truth},
};
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Failure, Key, Plan, Reference},
};
use windlass_manifest::health::Status;

use super::{
    analyses,
    ledger::Ledger,
    metrics::ApplicationMetrics,
    observed::{Action, Batch, Observed, PartKind, Target},
    plan,
};
use crate::{
    fleet::{self, Connector, Done, Fleet, Link, Memory, Preparations, Work},
    origin::Origin,
    trouble::Trouble,
};

/// How long a round waits for the list of Clusters after a start.
const WARM_UP: Duration = Duration::from_secs(15);

/// What the operator decided at start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The account that Applications without one are applied as; the controller's own rights if `None`.
    pub default_service_account: Option<String>,
    /// `dependsOn` may name Applications of other namespaces.
    pub cross_namespace_dependencies: bool,
}

/// Why nothing can be decided.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list of Clusters is not there yet.
    #[error("the list of Clusters was not read yet")]
    Warming,
    /// Another Application could not be read.
    #[error("Application {key} could not be read")]
    Dependency {
        /// Its name.
        key: Key,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// An `AnalysisRun` could not be read or made.
    #[error("AnalysisRun {name} could not be read or made")]
    Analysis {
        /// Its name.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl Failure for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Warming => "warming",
            Self::Dependency { .. } => "dependency",
            Self::Analysis { .. } => "analysis",
        }
    }
}

/// Delivers Applications.
pub struct ApplicationController<O, C> {
    pub(super) hub: Client,
    pub(super) origin: Arc<O>,
    pub(super) fleet: Arc<Fleet<C>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) ledger: Ledger,
    memories: Mutex<BTreeMap<String, Arc<Memory>>>,
    pub(super) preparations: Preparations,
    metrics: ApplicationMetrics,
}

impl<O: Origin, C: Connector> ApplicationController<O, C> {
    /// A controller for the Applications of this hub.
    pub fn new(
        hub: Client,
        origin: Arc<O>,
        fleet: Arc<Fleet<C>>,
        settings: Settings,
        clock: Clock,
        metrics: ApplicationMetrics,
    ) -> Self {
        Self {
            hub,
            origin,
            fleet,
            settings,
            clock,
            ledger: Ledger::default(),
            memories: Mutex::default(),
            preparations: Preparations::default(),
            metrics,
        }
    }

    /// What was found out about a cluster before.
    pub(super) fn memory(&self, cluster: &str) -> Arc<Memory> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(cluster.to_owned()).or_default().clone()
    }

    async fn work(&self, app: &Key, batch: &Batch) {
        let done = match self.fleet.link(&batch.cluster) {
            Ok(link) => fleet::carry_out(&link, app, batch.as_user.as_deref(), &batch.steps, || Ok(())).await,
            Err(trouble) => undone(batch, &trouble),
        };
        self.metrics.worked(&done);
        if let Some(trouble) = done
            .iter()
            .filter_map(|done| done.result.as_ref().err())
            .find(|trouble| fleet::is_unreachable(trouble))
        {
            self.fleet.suspect(&batch.cluster, trouble);
        }
        self.ledger.record(app, batch, &done, self.clock.now());
    }

    /// Connection secrets that the infrastructure on a cluster has not written yet.
    pub(super) async fn missing_secrets(
        &self,
        observed: &Observed,
        link: &Link,
        target: &Target,
    ) -> Result<Vec<String>, Trouble> {
        let Some(infrastructure) = &observed.spec.infrastructure else { return Ok(Vec::new()) };
        let mut wanted: Vec<(String, String)> = infrastructure
            .connection_secrets
            .iter()
            .map(|one| (one.namespace.clone(), one.name.clone()))
            .collect();
        let parts = target.parts.iter().filter(|part| part.kind == PartKind::Infrastructure);
        for found in parts.flat_map(|part| &part.found) {
            // Until they are ready there is no use in asking.
            let ready = found.live.as_ref().is_some_and(|live| live.health.status == Status::Healthy);
            let reference = &found.wanted.object()["spec"]["writeConnectionSecretToRef"];
            if let (true, Some(name)) = (ready, reference["name"].as_str()) {
                let namespace = reference["namespace"].as_str().unwrap_or(&found.wanted.id().namespace);
                wanted.push((namespace.to_owned(), name.to_owned()));
            }
        }
        let mut missing = Vec::new();
        for (namespace, name) in wanted {
            if !fleet::secret_exists(link, &namespace, &name).await? {
                missing.push(format!("{namespace}/{name}"));
            }
        }
        Ok(missing)
    }
}

/// Nothing of a batch could be done.
fn undone(batch: &Batch, trouble: &Trouble) -> Vec<Done> {
    let failed = |work: &Work| Done { object: work.object(), result: Err(trouble.clone()) };
    batch.steps.iter().flatten().map(failed).collect()
}

impl<O: Origin, C: Connector> Controller for ApplicationController<O, C> {
    type Object = Application;
    type Status = ApplicationStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    fn name(&self) -> &'static str {
        "application"
    }

    fn manager(&self) -> &'static str {
        "windlass-application"
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(FINALIZER)
    }

    fn status<'a>(&self, object: &'a Application) -> Option<&'a ApplicationStatus> {
        object.status.as_ref()
    }

    fn reads(&self, object: &Application) -> Vec<Reference> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let source = &object.spec.source;
        let secrets = source.secret_ref.iter().chain(source.decryption.iter().map(|one| &one.secret_ref));
        let secrets = secrets.map(|secret| Reference::secret(namespace, &secret.name));
        let others = object.spec.depends_on.iter().map(|other| Reference {
            group: Cow::Borrowed(GROUP),
            kind: Cow::Borrowed("Application"),
            namespace: Some(other.namespace.clone().unwrap_or_else(|| namespace.to_owned())),
            name: other.name.clone(),
        });
        let templates = object.spec.progressive.iter().flat_map(|waves| analyses::reads(namespace, waves));
        secrets.chain(others).chain(templates).collect()
    }

    async fn observe(&self, object: Arc<Application>) -> Result<Observed, Error> {
        // At once, but for the first seconds after a start.
        let mut warm = self.fleet.warm();
        let is_warm = async { warm.wait_for(|warm| *warm).await.is_ok() };
        if !tokio::time::timeout(WARM_UP, is_warm).await.unwrap_or(false) {
            return Err(Error::Warming);
        }
        self.facts(&object).await
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<Action, ApplicationStatus> {
        let plan = plan::plan(observed, now);
        if let Some(status) = &plan.status {
            self.metrics.observe(&observed.key, status);
        }
        plan
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Work { app, batches } => {
                join_all(batches.iter().map(|batch| self.work(app, batch))).await;
                Ok(())
            }
            Action::Analyse(run) => self.analyse(run).await,
            Action::Revert(order) => {
                let result = self.origin.revert(order).await;
                self.ledger.reverted(&order.app, &order.bad, result, self.clock.now());
                Ok(())
            }
        }
    }

    fn stalled(&self, object: &Application, error: &Error, now: Timestamp) -> Option<ApplicationStatus> {
        if matches!(error, Error::Warming) {
            return None;
        }
        let mut status = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation;
        status.observed_generation = generation;
        let message = format!("{error}. The controller tries again by itself.");
        condition::set(
            &mut status.conditions,
            READY,
            Truth::Unknown,
            "NotObserved",
            &message,
            generation,
            now,
        );
        Some(status)
    }

    fn gone(&self, key: &Key) {
        self.origin.forget(key);
        self.fleet.forget(key);
        self.preparations.forget(key);
        for memory in self.memories.lock().unwrap_or_else(PoisonError::into_inner).values() {
            memory.forget(key);
        }
        self.ledger.forget(key);
        self.metrics.forget(key);
    }
}
