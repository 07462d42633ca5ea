//! What the cluster has that Rollouts are about: `ReplicaSets`, Services, routes, runs, experiments, and what analysis
//! templates ask for. One watch a kind, cut to what is needed.
//!
//! A watch feeds the index first and wakes the Rollouts that read the object afterwards, so that a round that it wakes
//! sees it. Children (`ReplicaSets`, runs, experiments) wake their owner; what a spec names wakes whoever names it. A kind
//! that is not served counts as empty, and its watch tries again: a schema that is installed later is picked up.
//!
//! Of `ReplicaSets` only those with our hash label are watched. One whose owner is gone keeps the label, so that it can be
//! adopted.

pub(crate) mod record;
pub(crate) mod shelf;
mod watches;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::core::{ApiResource, GroupVersionKind};
use tokio::sync::watch;
use windlass_api::GROUP;
use windlass_cluster::drive::Reference;

use self::{
    record::{ExperimentRecord, ReplicaSetRecord, RouteRecord, RunRecord, ServiceRecord},
    shelf::Shelf,
};
use crate::observed::{RouteKind, TemplateFacts};

/// API group of routes.
pub(crate) const GATEWAY: &str = "gateway.networking.k8s.io";

/// Everything on the shelves.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) replica_sets: Shelf<ReplicaSetRecord>,
    pub(crate) services: Shelf<ServiceRecord>,
    pub(crate) http_routes: Shelf<RouteRecord>,
    pub(crate) grpc_routes: Shelf<RouteRecord>,
    pub(crate) runs: Shelf<RunRecord>,
    pub(crate) experiments: Shelf<ExperimentRecord>,
    pub(crate) templates: Shelf<TemplateFacts>,
    pub(crate) cluster_templates: Shelf<TemplateFacts>,
}

impl State {
    pub(crate) fn routes(&self, kind: RouteKind) -> &Shelf<RouteRecord> {
        match kind {
            RouteKind::Http => &self.http_routes,
            RouteKind::Grpc => &self.grpc_routes,
        }
    }

    pub(crate) fn routes_mut(&mut self, kind: RouteKind) -> &mut Shelf<RouteRecord> {
        match kind {
            RouteKind::Http => &mut self.http_routes,
            RouteKind::Grpc => &mut self.grpc_routes,
        }
    }
}

/// How many kinds have a shelf.
const SHELVES: usize = 8;

/// See the module's text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Index {
    state: Arc<Mutex<State>>,
    /// How many shelves have seen all that exists.
    whole: watch::Sender<usize>,
}

impl Default for Index {
    fn default() -> Self {
        Self { state: Arc::default(), whole: watch::Sender::new(0) }
    }
}

/// The resource of a kind of route.
pub(crate) fn route_resource(kind: RouteKind) -> ApiResource {
    let plural = match kind {
        RouteKind::Http => "httproutes",
        RouteKind::Grpc => "grpcroutes",
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GATEWAY, "v1", kind.as_str()), plural)
}

/// Names an object for those who read it.
pub(crate) fn reference(group: &'static str, kind: &'static str, namespace: &str, name: &str) -> Reference {
    Reference {
        group: Cow::Borrowed(group),
        kind: Cow::Borrowed(kind),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// The Rollout that children name: everyone reads itself under this name.
pub(crate) fn myself(namespace: &str, name: &str) -> Reference {
    reference(GROUP, "Rollout", namespace, name)
}

impl Index {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every shelf has seen what exists: before that, what is not on it may be there.
    pub(crate) async fn whole(&self) {
        let mut whole = self.whole.subscribe();
        // The sender lives as long as `self`.
        let _ = whole.wait_for(|shelves| *shelves >= SHELVES).await;
    }
}
