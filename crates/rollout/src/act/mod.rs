//! Carries out what was planned. Each action may be repeated after a crash anywhere.
//!
//! Every write names the object by its UID (or the version that was read), so that one that was made anew in between is
//! never hit, and goes under our own field manager. What the API answers is put into the index: the next round sees it
//! without waiting for the watch.

mod deed;
mod error;
mod pods;
mod replica_sets;
mod request;
mod runs;
mod traffic;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use serde_json::json;
use windlass_api::Rollout;

pub use deed::{Deed, Task, Whose};
pub use error::Error;

use crate::{
    cdevents::{Origin, Outbox},
    index::Index,
    plan::Action,
};

/// Field manager of every write of this part.
pub const MANAGER: &str = "windlass-rollout";

/// How long the end of a Rollout waits for the sinks of `CDEvents`.
const LAST_WORD: Duration = Duration::from_secs(10);

/// The hands of the controller.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) client: Client,
    pub(crate) index: Index,
    pub(crate) outbox: Option<Outbox>,
    pub(crate) origin: Origin,
}

impl Hands {
    /// Does one thing.
    pub(crate) async fn act(&self, deed: &Deed) -> Result<(), Error> {
        let whose = &*deed.whose;
        let action = match &deed.task {
            Task::Planned(action) => action,
            Task::LetGo { version, finalizers } => {
                let patch = json!({ "metadata": {
                    "uid": whose.uid, "resourceVersion": version, "finalizers": finalizers,
                } });
                return self.merge::<Rollout>(&whose.namespace, &whose.name, &patch).await.map(drop);
            }
        };
        match action {
            Action::AdoptReplicaSet { name, uid } => self.adopt(whose, name, uid).await,
            Action::ReleaseReplicaSet { name, uid } => self.release(whose, name, uid).await,
            Action::CreateReplicaSet(new) => self.create_replica_set(whose, new).await,
            Action::PatchReplicaSet(patch) => self.patch_replica_set(whose, patch).await,
            Action::DeleteReplicaSet { name, uid } => self.delete_replica_set(whose, name, uid).await,
            Action::PatchPod { name, uid, labels, annotations } => {
                self.patch_pod(whose, name, uid, labels, annotations).await
            }
            Action::EvictPod { name, uid } => self.evict(whose, name, uid).await,
            Action::SwitchService { name, hash, .. } => self.switch_service(whose, name, hash).await,
            Action::SetTraffic { route, stable_service, canary_service, wish } => {
                self.set_traffic(whose, route, (stable_service, canary_service), wish).await
            }
            Action::CreateRun(new) => self.create_run(whose, new).await,
            Action::TerminateRun { name } => self.terminate_run(whose, name).await,
            Action::DeleteRun { name, uid } => self.delete_run(whose, name, uid).await,
            Action::CreateExperiment(new) => self.create_experiment(whose, new).await,
            Action::TerminateExperiment { name } => self.terminate_experiment(whose, name).await,
            Action::DeleteExperiment { name, uid } => self.delete_experiment(whose, name, uid).await,
            Action::ScaleWorkload { name, replicas } => {
                let patch = json!({ "spec": { "replicas": replicas } });
                self.merge::<Deployment>(&whose.namespace, name, &patch).await.map(drop)
            }
            Action::SetRevision { revision } => {
                let annotations = json!({ windlass_api::rollout::REVISION: revision.to_string() });
                let patch = json!({ "metadata": { "uid": whose.uid, "annotations": annotations } });
                self.merge::<Rollout>(&whose.namespace, &whose.name, &patch).await.map(drop)
            }
            Action::Announce(transition) => {
                self.announce(whose, transition).await;
                Ok(())
            }
        }
    }

    /// Tells the sinks of the end of a Rollout. A sink that is away does not keep the Rollout for ever.
    async fn announce(&self, whose: &Whose, transition: &windlass_api::rollout::status::Transition) {
        let Some(outbox) = self.outbox.as_ref().filter(|outbox| outbox.is_on()) else { return };
        let Some(id) = crate::announce::offer(outbox, &self.origin, whose, transition) else { return };
        let settled = async {
            while !outbox.settled(&id) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(LAST_WORD, settled).await.is_err() {
            tracing::warn!(event = id, "the Rollout goes although not every sink has heard of it");
        }
    }
}
