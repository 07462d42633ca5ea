//! The `Rollout` kind as the loop sees it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use windlass_api::{Rollout, RolloutStatus, rollout::FINALIZER};
use windlass_cluster::{
    clock::Clock,
    drive::{Controller, Drive, Key, Options, Plan, Reference, Services, Wake},
};

use crate::{
    act::{Deed, Error, Hands, MANAGER, Task, Whose},
    announce,
    cdevents::{Origin, Outbox},
    freed::{Bell, FreedController},
    index::Index,
    lag::Lag,
    metrics::RolloutMetrics,
    observe::Eyes,
    observed::Observed,
    plan::{self, Action},
    rivals::Moved,
    wanted,
};

/// Brings Rollouts to what their specs say.
pub struct RolloutController {
    eyes: Eyes,
    hands: Hands,
    metrics: RolloutMetrics,
    /// Wakes Rollouts that share a Service.
    others: Bell,
    /// Wakes Services that a Rollout names no more.
    left: Bell,
    /// Numbers that wait to be written.
    lag: Lag,
}

/// What a controller is made with.
pub struct Parts {
    /// Client of the cluster that the Rollouts are in.
    pub client: Client,
    /// Time of day.
    pub clock: Clock,
    /// Where `CDEvents` go, if anybody listens.
    pub outbox: Option<Outbox>,
    /// Where `CDEvents` come from.
    pub origin: Origin,
    /// What Prometheus is told.
    pub metrics: RolloutMetrics,
}

impl RolloutController {
    /// A controller with an empty index.
    pub fn new(parts: Parts) -> Self {
        let Parts { client, clock, outbox, origin, metrics } = parts;
        let index = Index::default();
        let eyes = Eyes { client: client.clone(), index: index.clone(), rivals: Arc::default(), clock };
        let outbox = outbox.filter(Outbox::is_on);
        let hands = Hands { client, index, outbox, origin };
        Self { eyes, hands, metrics, others: Bell::default(), left: Bell::default(), lag: Lag::default() }
    }

    /// The controller that lets go of Services which Rollouts of this one leave behind.
    pub fn freed(&self) -> FreedController {
        FreedController::new(self.hands.clone(), self.eyes.rivals.clone(), self.left.clone())
    }

    /// The loop that runs it, with every watch that it needs.
    pub fn drive(self, services: Services, options: Options) -> Drive<Self> {
        let (controller, client) = (Arc::new(self), services.client.clone());
        let drive = Drive::new(controller.clone(), services, options);
        controller.others.hang(drive.waker());
        controller.eyes.index.clone().feed(&client, drive)
    }

    fn wake(&self, moved: Moved) {
        self.others.ring(moved.others);
        self.left.ring(moved.left);
    }

    /// Our finalizer is on a Rollout that is being deleted, and nobody listens any more.
    fn left_behind(&self, rollout: &Rollout) -> Option<Task> {
        let ours = |name: &&String| *name == FINALIZER;
        if self.finalizer().is_some() || rollout.finalizers().iter().find(ours).is_none() {
            return None;
        }
        let finalizers = rollout.finalizers().iter().filter(|name| !ours(name)).cloned().collect();
        let version = rollout.metadata.resource_version.clone().unwrap_or_default();
        Some(Task::LetGo { version, finalizers })
    }
}

/// The next moment.
const AT_ONCE: Duration = Duration::from_millis(1);

impl Controller for RolloutController {
    type Object = Rollout;
    type Status = RolloutStatus;
    type Observed = Observed;
    type Action = Deed;
    type Error = Error;

    fn name(&self) -> &'static str {
        "rollout"
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    /// Held only while somebody listens: so that the end of a Rollout can be told.
    fn finalizer(&self) -> Option<&'static str> {
        self.hands.outbox.as_ref().map(|_| FINALIZER)
    }

    fn status<'a>(&self, object: &'a Rollout) -> Option<&'a RolloutStatus> {
        object.status.as_ref()
    }

    /// Also notes which Services the Rollout names: this is asked for every Rollout that comes or changes.
    fn reads(&self, object: &Rollout) -> Vec<Reference> {
        self.wake(self.eyes.rivals.note(object));
        wanted::reads(object)
    }

    async fn observe(&self, object: Arc<Rollout>) -> Result<Observed, Error> {
        // What is stored now may be told: the round before wrote it down.
        if let Some(outbox) = &self.hands.outbox {
            announce::offer_stored(outbox, &self.hands.origin, &object);
        }
        self.eyes.observe(object).await
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan<Deed, RolloutStatus> {
        let rollout = &observed.rollout;
        let whose = Arc::new(Whose::of(rollout));
        let planned = plan::plan(observed, now);
        let deleting = rollout.metadata.deletion_timestamp.is_some();
        let mut status = planned.status;
        let mut wake = planned.wake;
        if let Some(outbox) = self.hands.outbox.as_ref().filter(|_| !deleting) {
            let announced = announce::announced(outbox, rollout);
            if let Some(next) = status.as_mut() {
                next.announced = announced;
            } else if announced != rollout.status.as_ref().and_then(|status| status.announced) {
                status = rollout.status.clone().map(|status| RolloutStatus { announced, ..status });
            }
        }
        let (key, stored) = (Key::of(&**rollout), rollout.status.as_ref());
        if let Some(status) = &status {
            self.metrics.observe(&key, status, now);
        }
        if let Some(left) = status.as_ref().and_then(|next| self.lag.wait(&key, stored, next, now)) {
            status = None;
            wake = match wake {
                Wake::After(delay) => Wake::After(delay.min(left)),
                Wake::OnChange | Wake::Retry { .. } => Wake::After(left),
            };
        }
        let writes = status.is_some() && status.as_ref() != stored;
        if writes {
            // What follows from a decision is done once it is stored. The watch may tell of our own write before the round
            // ends or after it, when it is no news any more: nobody else may wake us.
            wake = Wake::After(AT_ONCE);
        }
        let mut tasks: Vec<Task> = planned
            .actions
            .into_iter()
            // A write to the Rollout itself would make the write of the status fail: it waits for the next round.
            .filter(|action| !(writes && matches!(action, Action::SetRevision { .. })))
            .map(Task::Planned)
            .collect();
        if deleting {
            tasks.extend(self.left_behind(rollout));
        }
        let actions = tasks.into_iter().map(|task| Deed { whose: whose.clone(), task }).collect();
        Plan { actions, status, notes: planned.notes, wake, released: planned.released }
    }

    async fn act(&self, deed: &Deed) -> Result<(), Error> {
        self.hands.act(deed).await
    }

    fn stalled(&self, object: &Rollout, error: &Error, _now: Timestamp) -> Option<RolloutStatus> {
        let message = format!("{}. The controller tries again by itself.", error.told()?);
        Some(RolloutStatus { message: Some(message), ..object.status.clone().unwrap_or_default() })
    }

    fn gone(&self, key: &Key) {
        self.wake(self.eyes.rivals.gone(key));
        self.metrics.forget(key);
        self.lag.forget(key);
    }
}
