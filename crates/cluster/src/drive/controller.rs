//! What a part provides to become a controller.

use std::{error::Error, fmt::Debug, future::Future, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    key::{Key, Reference},
    plan::Plan,
};

/// An error of a controller, as the loop needs to know it.
pub trait Failure: Error + Send + Sync + 'static {
    /// One of a few names, for metrics and logs. Never made from an error text.
    fn category(&self) -> &'static str;

    /// The wait that a server asked for.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// One kind and the way it is reconciled: all reads in [`observe`](Controller::observe), all decisions in
/// [`plan`](Controller::plan), all writes in [`act`](Controller::act). The loop does the rest.
///
/// Assumes: `plan` is a function of its arguments alone; an action may be repeated after a crash anywhere.
pub trait Controller: Send + Sync + 'static {
    /// The kind.
    type Object: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// Its status.
    type Status: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// All that a decision is made from.
    type Observed: Debug + Send + Sync + 'static;
    /// One thing to do.
    type Action: Clone + Debug + PartialEq + Serialize + Send + Sync + 'static;
    /// What can go wrong on the way.
    type Error: Failure;

    /// Short name for metrics, logs, events and the field manager, like `cluster`.
    fn name(&self) -> &'static str;

    /// Field manager of this part's writes.
    fn manager(&self) -> &'static str;

    /// Finalizer to hold while the object exists, if something has to be cleaned up.
    fn finalizer(&self) -> Option<&'static str> {
        None
    }

    /// The status that the object has now.
    fn status<'a>(&self, object: &'a Self::Object) -> Option<&'a Self::Status>;

    /// Other objects in the same API that this one reads: a change of one of them wakes it.
    fn reads(&self, object: &Self::Object) -> Vec<Reference> {
        let _ = object;
        Vec::new()
    }

    /// Gathers all facts. An unreachable world is a fact, not an error; an error means that no decision is possible.
    fn observe(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Self::Observed, Self::Error>> + Send;

    /// Decides. Pure.
    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan<Self::Action, Self::Status>;

    /// Carries one action out.
    fn act(&self, action: &Self::Action) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The status that tells people why no decision was possible or an action failed. Pure.
    ///
    /// `None` leaves the status as it is.
    fn stalled(&self, object: &Self::Object, error: &Self::Error, now: Timestamp) -> Option<Self::Status> {
        let _ = (object, error, now);
        None
    }

    /// The object has left the API, with or without our finalizer: let go of what was kept for it.
    fn gone(&self, key: &Key) {
        let _ = key;
    }
}
