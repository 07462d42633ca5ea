//! One round for one object.

use std::{sync::Arc, time::Duration};

use kube::{Resource, ResourceExt};
use tracing::{debug, info, warn};

use super::{
    controller::{Controller, Failure},
    key::Key,
    metrics::Round,
    plan::{Plan, Wake},
    queue::Outcome,
    runner::Services,
    write::{self, WriteError},
};
use crate::{events::Note, lease::Fenced};

/// How a round ended, for the queue, the store and the metrics.
pub(crate) struct Ended<K> {
    pub(crate) key: Key,
    pub(crate) outcome: Outcome,
    pub(crate) round: Round,
    /// The object as we read or wrote it, so that the next round does not wait for the watch to bring it.
    pub(crate) latest: Option<K>,
    /// The object has moved on or could not be read: the next round has to read it, unless the watch is faster.
    pub(crate) stale: bool,
}

/// All that a round needs, shared by all rounds of a controller.
pub(crate) struct Rounds<C: Controller> {
    pub(crate) controller: Arc<C>,
    pub(crate) services: Services,
    pub(crate) deadline: Duration,
}

enum Trouble<E> {
    Fenced(Fenced),
    Write(WriteError),
    Controller(E),
}

impl<E> From<Fenced> for Trouble<E> {
    fn from(error: Fenced) -> Self {
        Self::Fenced(error)
    }
}

impl<E> From<WriteError> for Trouble<E> {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

struct Done<K> {
    wake: Wake,
    written: Option<K>,
    acted: bool,
}

const RETRY: Outcome = Outcome::Retry { longest: None, at_least: None };

impl<C: Controller> Rounds<C> {
    /// Runs a round to its end, whatever happens in it. With `stale` the object is read first: the copy is older than
    /// what somebody wrote.
    pub(crate) async fn run(&self, key: Key, object: Arc<C::Object>, stale: bool) -> Ended<C::Object> {
        let round = async {
            if !stale {
                return self.round(key.clone(), object).await;
            }
            match write::read(&self.services.client, &*object).await {
                Ok(latest) => {
                    let ended = self.round(key.clone(), Arc::new(latest.clone())).await;
                    Ended { latest: ended.latest.or(Some(latest)), ..ended }
                }
                Err(error) => Ended { stale: true, ..self.request_failed(key.clone(), &error) },
            }
        };
        if let Ok(ended) = tokio::time::timeout(self.deadline, round).await {
            return ended;
        }
        self.services.metrics.error(self.controller.name(), "deadline");
        warn!(deadline = ?self.deadline, "the round took too long and was given up");
        Ended { key, outcome: RETRY, round: Round::Failed, latest: None, stale }
    }

    async fn round(&self, key: Key, object: Arc<C::Object>) -> Ended<C::Object> {
        let shard = key.shard(self.services.gate.shards());
        match self.reconcile(shard, object.clone()).await {
            Ok(done) => ended(key, done),
            Err(Trouble::Fenced(fenced)) => {
                debug!(%fenced, "left to the replica that holds the shard");
                Ended { key, outcome: Outcome::Rest, round: Round::Fenced, latest: None, stale: false }
            }
            Err(Trouble::Write(error)) => self.request_failed(key, &error),
            Err(Trouble::Controller(error)) => self.failed(key, shard, &object, &error).await,
        }
    }

    async fn reconcile(
        &self,
        shard: u32,
        object: Arc<C::Object>,
    ) -> Result<Done<C::Object>, Trouble<C::Error>> {
        self.services.gate.check(shard)?;
        let deleting = object.meta().deletion_timestamp.is_some();
        let (object, mut written) = match self.controller.finalizer() {
            Some(finalizer) if deleting && !has(&*object, finalizer) => {
                return Ok(Done { wake: Wake::OnChange, written: None, acted: false });
            }
            Some(finalizer) if !deleting && !has(&*object, finalizer) => {
                let finalizers = with(&*object, finalizer);
                let write = write::finalizers(
                    &self.services.client,
                    &*object,
                    &finalizers,
                    self.controller.manager(),
                );
                let object = self.services.gate.fenced(shard, write).await??;
                (Arc::new(object.clone()), Some(object))
            }
            _ => (object, None),
        };

        let observed = self.controller.observe(object.clone()).await.map_err(Trouble::Controller)?;
        let plan: Plan<C::Action, C::Status> = self.controller.plan(&observed, self.services.clock.now());
        for action in &plan.actions {
            info!(?action, "acting");
            self.services
                .gate
                .fenced(shard, self.controller.act(action))
                .await?
                .map_err(Trouble::Controller)?;
        }

        if deleting && plan.released {
            self.release(shard, &object).await?;
            self.tell(&object, plan.notes);
            return Ok(Done { wake: Wake::OnChange, written: None, acted: true });
        }
        let acted = !plan.actions.is_empty() || written.is_some();
        if let Some(status) = &plan.status
            && let Some(after) = self.report(shard, &object, status).await?
        {
            written = Some(after);
        }
        self.tell(&object, plan.notes);
        Ok(Done { wake: plan.wake, acted: acted || written.is_some(), written })
    }

    async fn report(
        &self,
        shard: u32,
        object: &C::Object,
        status: &C::Status,
    ) -> Result<Option<C::Object>, Trouble<C::Error>> {
        let old = self.controller.status(object);
        if old == Some(status) {
            return Ok(None);
        }
        let write = write::status(&self.services.client, object, old, status, self.controller.manager());
        Ok(self.services.gate.fenced(shard, write).await??)
    }

    /// Takes our finalizer off. Gone already is as good.
    async fn release(&self, shard: u32, object: &C::Object) -> Result<(), Trouble<C::Error>> {
        let Some(finalizer) = self.controller.finalizer() else { return Ok(()) };
        let finalizers: Vec<String> =
            object.finalizers().iter().filter(|name| *name != finalizer).cloned().collect();
        let write = write::finalizers(&self.services.client, object, &finalizers, self.controller.manager());
        match self.services.gate.fenced(shard, write).await? {
            Ok(_) | Err(WriteError::Gone) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn tell(&self, object: &C::Object, notes: Vec<Note>) {
        for note in notes {
            self.services.recorder.record(object.object_ref(&()), note);
        }
    }

    fn request_failed(&self, key: Key, error: &WriteError) -> Ended<C::Object> {
        let outcome = match error {
            // The watch brings the news and with it the next round; the retry, which reads the object, is for a watch
            // that is late.
            WriteError::Conflict => {
                debug!("the object moved on, looking anew");
                RETRY
            }
            WriteError::Gone => Outcome::Rest,
            _ => {
                warn!(error = error as &dyn std::error::Error, "a request failed");
                RETRY
            }
        };
        self.services.metrics.error(self.controller.name(), error.category());
        let stale = matches!(error, WriteError::Conflict | WriteError::Gone);
        Ended { key, outcome, round: Round::Failed, latest: None, stale }
    }

    async fn failed(&self, key: Key, shard: u32, object: &C::Object, error: &C::Error) -> Ended<C::Object> {
        self.services.metrics.error(self.controller.name(), error.category());
        warn!(error = error as &dyn std::error::Error, category = error.category(), "the round failed");
        let mut latest = None;
        if let Some(status) = self.controller.stalled(object, error, self.services.clock.now()) {
            match self.report(shard, object, &status).await {
                Ok(after) => latest = after,
                Err(Trouble::Fenced(fenced)) => debug!(%fenced, "the failure is not reported"),
                Err(Trouble::Write(error)) => debug!(%error, "the failure is not reported"),
                Err(Trouble::Controller(error)) => debug!(%error, "the failure is not reported"),
            }
        }
        let outcome = Outcome::Retry { longest: None, at_least: error.retry_after() };
        Ended { key, outcome, round: Round::Failed, latest, stale: false }
    }
}

fn ended<K>(key: Key, done: Done<K>) -> Ended<K> {
    let (outcome, round) = match done.wake {
        Wake::OnChange => (Outcome::Rest, None),
        Wake::After(delay) => (Outcome::After(delay), None),
        Wake::Retry { longest } => {
            (Outcome::Retry { longest: Some(longest), at_least: None }, Some(Round::Retried))
        }
    };
    let round = round.unwrap_or(if done.acted { Round::Changed } else { Round::Unchanged });
    Ended { key, outcome, round, latest: done.written, stale: false }
}

fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}

fn with<K: Resource>(object: &K, finalizer: &str) -> Vec<String> {
    object.finalizers().iter().cloned().chain([finalizer.to_owned()]).collect()
}
