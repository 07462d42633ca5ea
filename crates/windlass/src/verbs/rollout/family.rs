//! What a Rollout made: its `ReplicaSets`, their pods, its runs and experiments.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use windlass_api::{
    analysis::AnalysisRun,
    experiment::Experiment,
    rollout::{POD_TEMPLATE_HASH, REVISION, Rollout},
};

use crate::{
    cli,
    error::CommandError,
    verbs::hub::{Hub, failed},
};

/// What a Rollout made.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// `ReplicaSets`, the newest revision first.
    pub(super) sets: Vec<ReplicaSet>,
    /// Pods by the UID of their `ReplicaSet`.
    pub(super) pods: BTreeMap<String, Vec<Pod>>,
    /// `AnalysisRuns`, the newest first.
    pub(super) runs: Vec<AnalysisRun>,
    /// Experiments, the newest first.
    pub(super) experiments: Vec<Experiment>,
}

/// Reads it. Without the right to read pods, runs or experiments the rest is shown.
pub(super) async fn read(hub: &Hub, rollout: &Rollout) -> Result<Family, CommandError> {
    let sets = replica_sets(hub, rollout).await?;
    let mut family = Family { sets, ..Family::default() };
    let labelled = ListParams::default().labels(POD_TEMPLATE_HASH);
    for pod in optional::<Pod>(hub, &labelled).await {
        if let Some(owner) = controller(&pod) {
            family.pods.entry(owner).or_default().push(pod);
        }
    }
    let uid = rollout.uid();
    family.runs = optional::<AnalysisRun>(hub, &ListParams::default()).await;
    family.runs.retain(|run| controller(run) == uid);
    family.experiments = optional::<Experiment>(hub, &ListParams::default()).await;
    family.experiments.retain(|experiment| controller(experiment) == uid);
    newest_first(&mut family.runs);
    newest_first(&mut family.experiments);
    for pods in family.pods.values_mut() {
        pods.sort_by_key(ResourceExt::name_any);
    }
    Ok(family)
}

/// The `ReplicaSets` of a Rollout, the newest revision first.
pub(super) async fn replica_sets(hub: &Hub, rollout: &Rollout) -> Result<Vec<ReplicaSet>, CommandError> {
    let api: Api<ReplicaSet> = Api::namespaced(hub.client.clone(), &hub.namespace);
    let list = api
        .list(&ListParams::default().labels(POD_TEMPLATE_HASH))
        .await
        .map_err(|error| failed("cannot list ReplicaSets", error))?;
    let uid = rollout.uid();
    let mut sets: Vec<ReplicaSet> = list.items.into_iter().filter(|set| controller(set) == uid).collect();
    sets.sort_by_key(|set| (std::cmp::Reverse(revision(set)), set.name_any()));
    Ok(sets)
}

/// The number of a `ReplicaSet`'s revision; 0 without one.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The hash that a `ReplicaSet`'s pods carry.
pub(super) fn hash(set: &ReplicaSet) -> &str {
    set.labels().get(POD_TEMPLATE_HASH).map_or("", String::as_str)
}

/// Images of a `ReplicaSet`'s containers.
pub(super) fn images(set: &ReplicaSet) -> Vec<String> {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let containers =
        template.and_then(|template| template.spec.as_ref()).map(|spec| spec.containers.as_slice());
    containers.unwrap_or_default().iter().filter_map(|container| container.image.clone()).collect()
}

async fn optional<K>(hub: &Hub, params: &ListParams) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(hub.client.clone(), &hub.namespace);
    match api.list(params).await {
        Ok(list) => list.items,
        Err(error) => {
            cli::note(&format!("{} are not shown: {error}", K::plural(&())));
            Vec::new()
        }
    }
}

fn controller<K: Resource>(object: &K) -> Option<String> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}

fn newest_first<K: Resource>(objects: &mut [K]) {
    objects.sort_by_key(|object| {
        (std::cmp::Reverse(object.meta().creation_timestamp.clone()), object.meta().name.clone())
    });
}
