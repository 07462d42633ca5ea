//! Gathers all that a decision about a Rollout is made from. All reads are here: most are from the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, Client,
    api::ListParams,
    core::{Selector, SelectorExt as _},
};
use windlass_api::{
    AnalysisRun, Rollout,
    rollout::{POD_TEMPLATE_HASH, WorkloadRef, analysis::TemplateRef},
};
use windlass_cluster::clock::Clock;

use crate::{
    act::Error,
    index::{
        Index, State,
        record::{Owner, ReplicaSetRecord, RouteRecord, RunRecord, ServiceRecord, controller, created},
    },
    observed::{
        Observed, PodFacts, ReplicaSetFacts, RouteFacts, RouteName, RouteTrouble, ServiceFacts,
        TemplateFacts, WorkloadFacts,
    },
    revision::replica_set_name,
    rivals::{self, Rivals},
    route::{self, Pair},
    wanted,
};

/// The eyes of the controller.
pub(crate) struct Eyes {
    pub(crate) client: Client,
    pub(crate) index: Index,
    pub(crate) rivals: Arc<Rivals>,
    pub(crate) clock: Clock,
}

impl Eyes {
    /// Everything about one Rollout.
    pub(crate) async fn observe(&self, rollout: Arc<Rollout>) -> Result<Observed, Error> {
        self.index.whole().await;
        let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
        let workload = match &rollout.spec.workload_ref {
            Some(reference) => Some(self.workload(&namespace, reference).await?),
            None => None,
        };
        let mut observed = {
            let state = self.index.state();
            seen(&state, &namespace, &rollout, workload)
        };
        observed.rivals = self.rivals.of(&rollout);
        self.strangers(&namespace, &rollout, &mut observed).await?;
        self.late_set(&namespace, &rollout, &mut observed).await?;
        self.late_runs(&namespace, &rollout, &mut observed).await?;
        let now = self.clock.now();
        if Observed::wants_pods(&rollout, now) {
            observed.pods = Some(self.pods(&namespace, &observed.replica_sets, now).await?);
        }
        Ok(observed)
    }

    async fn workload(&self, namespace: &str, reference: &WorkloadRef) -> Result<WorkloadFacts, Error> {
        if reference.kind != "Deployment" || reference.api_version != "apps/v1" {
            return Ok(WorkloadFacts::Unsupported);
        }
        let api = Api::<Deployment>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(&reference.name).await;
        let found =
            found.map_err(|error| Error::api(format!("read Deployment {}", reference.name), error))?;
        let Some(found) = found else { return Ok(WorkloadFacts::Missing) };
        let Some(spec) = found.spec else { return Ok(WorkloadFacts::Missing) };
        let template = serde_json::to_value(&spec.template).unwrap_or_default();
        Ok(WorkloadFacts::Found {
            generation: found.metadata.generation.unwrap_or(0),
            replicas: spec.replicas.unwrap_or(1),
            template: Arc::new(template),
            selector: spec.selector,
        })
    }

    /// Rollouts that move one of our Services and that are not known here: another shard may look after them.
    async fn strangers(
        &self,
        namespace: &str,
        rollout: &Rollout,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let managed = |(service, facts): (&String, &Option<ServiceFacts>)| {
            let manager = facts.as_ref()?.managed_by.clone()?;
            let known =
                observed.rivals.iter().any(|rival| rival.service == *service && rival.rollout == manager);
            (rollout.metadata.name.as_ref() != Some(&manager) && !known).then(|| (service.clone(), manager))
        };
        let managed: Vec<(String, String)> = observed.services.iter().filter_map(managed).collect();
        for (service, manager) in managed {
            if let Some(other) = naming(&self.client, namespace, &manager, &service).await? {
                observed.rivals.push(rivals::between(rollout, &other, service));
            }
        }
        Ok(())
    }

    /// The stable `ReplicaSet` when the index does not have it: a watch may have been silent for long, and without it the
    /// new version would be taken for the first one.
    async fn late_set(
        &self,
        namespace: &str,
        rollout: &Rollout,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let stable = rollout.status.as_ref().and_then(|status| status.stable_rs.as_deref());
        let Some(hash) = stable.filter(|hash| {
            !hash.is_empty() && !observed.replica_sets.iter().any(|set| set.hash() == Some(*hash))
        }) else {
            return Ok(());
        };
        let name = replica_set_name(rollout.metadata.name.as_deref().unwrap_or_default(), hash);
        let found = Api::<ReplicaSet>::namespaced(self.client.clone(), namespace).get_opt(&name).await;
        let found = found.map_err(|error| Error::api(format!("read ReplicaSet {name}"), error))?;
        observed.replica_sets.extend(found.map(|set| ReplicaSetRecord::new(&set).facts()));
        Ok(())
    }

    /// Runs that the status names and the index does not have: the watch may be behind a list.
    async fn late_runs(
        &self,
        namespace: &str,
        rollout: &Rollout,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        for name in named_runs(rollout) {
            if observed.runs.iter().any(|run| run.name == name) {
                continue;
            }
            let api = Api::<AnalysisRun>::namespaced(self.client.clone(), namespace);
            match api.get_opt(&name).await {
                Ok(Some(run)) => observed.runs.push(RunRecord::new(&run).facts),
                Ok(None) => {}
                Err(error) => return Err(Error::api(format!("read AnalysisRun {name}"), error)),
            }
        }
        Ok(())
    }

    async fn pods(
        &self,
        namespace: &str,
        sets: &[ReplicaSetFacts],
        now: Timestamp,
    ) -> Result<Vec<PodFacts>, Error> {
        let hashes: BTreeSet<&str> = sets.iter().filter_map(ReplicaSetFacts::hash).collect();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let hashes: Vec<&str> = hashes.into_iter().collect();
        let labels = format!("{POD_TEMPLATE_HASH} in ({})", hashes.join(","));
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let found = api.list(&ListParams::default().labels(&labels)).await;
        let found = found.map_err(|error| Error::api("list pods", error))?;
        Ok(found.items.iter().filter_map(|pod| pod_facts(pod, sets, now)).collect())
    }
}

/// A Rollout, if it is there and names a Service. Asked of the API: a watch may be behind.
pub(crate) async fn naming(
    client: &Client,
    namespace: &str,
    rollout: &str,
    service: &str,
) -> Result<Option<Rollout>, Error> {
    let found = Api::<Rollout>::namespaced(client.clone(), namespace).get_opt(rollout).await;
    let found = found.map_err(|error| Error::api(format!("read Rollout {rollout}"), error))?;
    Ok(found.filter(|found| wanted::services(&found.spec.strategy).contains(service)))
}

/// What the index says.
fn seen(state: &State, namespace: &str, rollout: &Arc<Rollout>, workload: Option<WorkloadFacts>) -> Observed {
    let uid = rollout.metadata.uid.as_deref().unwrap_or_default();
    let name = rollout.metadata.name.as_deref().unwrap_or_default();
    let strategy = &rollout.spec.strategy;
    let theirs = match &workload {
        Some(WorkloadFacts::Found { selector, .. }) => Some(selector),
        _ => None,
    };
    let selector = selector(rollout.spec.selector.as_ref().or(theirs));
    let prefix = format!("{name}-");
    let replica_sets = state.replica_sets.of(namespace).filter(|(set, record)| {
        let matched = selector.as_ref().is_some_and(|selector| selector.matches(record.labels()));
        record.controller() == Some(uid) || matched || set.starts_with(&prefix)
    });
    let services = wanted::services(strategy);
    let facts = |service: String| {
        let facts: Option<ServiceFacts> = state.services.get(namespace, &service).map(ServiceRecord::facts);
        (service, facts)
    };
    let ours = |owner: &Option<Owner>| owner.as_ref().is_some_and(|owner| owner.uid == uid);
    Observed {
        rollout: rollout.clone(),
        workload,
        replica_sets: replica_sets.map(|(_, record)| record.facts()).collect(),
        services: services.into_iter().map(facts).collect(),
        routes: routes(state, namespace, rollout),
        runs: state
            .runs
            .of(namespace)
            .filter(|(_, record)| ours(&record.owner))
            .map(|(_, record)| record.facts.clone())
            .collect(),
        experiments: state
            .experiments
            .of(namespace)
            .filter(|(_, record)| ours(&record.owner))
            .map(|(_, record)| record.facts.clone())
            .collect(),
        templates: templates(state, namespace, wanted::templates(strategy)),
        rivals: Vec::new(),
        pods: None,
    }
}

fn templates(
    state: &State,
    namespace: &str,
    names: BTreeSet<TemplateRef>,
) -> BTreeMap<TemplateRef, Option<TemplateFacts>> {
    TemplateFacts::closure(names, |template| {
        let name = &template.template_name;
        let found = if template.cluster_scope {
            state.cluster_templates.get("", name)
        } else {
            state.templates.get(namespace, name)
        };
        found.cloned()
    })
}

fn selector(selector: Option<&LabelSelector>) -> Option<Selector> {
    let selector = selector?.clone();
    // An empty selector would match every ReplicaSet of the namespace.
    if selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
    {
        return None;
    }
    Selector::try_from(selector).ok()
}

fn routes(state: &State, namespace: &str, rollout: &Rollout) -> Vec<RouteFacts> {
    let names = wanted::routes(&rollout.spec.strategy);
    let Some(pair) = wanted::pair(rollout) else { return Vec::new() };
    let offered = |service: &String| {
        let record = state.services.get(namespace, service)?;
        Some((service.clone(), record.ports.to_vec()))
    };
    let ports: wanted::Ports = [&pair.stable, &pair.canary].into_iter().filter_map(offered).collect();
    names.into_iter().map(|name| route_facts(state, &pair, &ports, name)).collect()
}

fn route_facts(state: &State, pair: &Pair, ports: &wanted::Ports, route: RouteName) -> RouteFacts {
    let shelf = state.routes(route.kind);
    let title = format!("{} {}", route.kind.as_str(), route.name);
    let trouble = |reason, what: String, remedy: &str| RouteFacts {
        route: route.clone(),
        trouble: Some(RouteTrouble { reason, what, remedy: remedy.to_owned() }),
        seen: None,
    };
    if !shelf.served {
        return trouble(
            "GatewayApiMissing",
            format!("{title} cannot be read: the cluster does not serve the Gateway API to us"),
            "Install its schemas and give the controller the right to list, watch and patch routes: both are noticed",
        );
    }
    let Some(there) = shelf.get(&pair.namespace, &route.name).map(RouteRecord::value) else {
        return trouble("RouteMissing", format!("{title} does not exist"), "Create it, or name another");
    };
    let found = match route::check(&there, route.kind, pair, ports) {
        Some(trouble) => Err(trouble),
        None => route::read(&there, route.kind, pair),
    };
    match found {
        Ok(seen) => RouteFacts { route, trouble: None, seen: Some(seen) },
        Err(trouble) => RouteFacts { route, trouble: Some(trouble), seen: None },
    }
}

/// Runs that the status names.
fn named_runs(rollout: &Rollout) -> BTreeSet<String> {
    let Some(status) = &rollout.status else { return BTreeSet::new() };
    let runs = [
        &status.canary.current_step_analysis_run_status,
        &status.canary.current_background_analysis_run_status,
        &status.blue_green.pre_promotion_analysis_run_status,
        &status.blue_green.post_promotion_analysis_run_status,
    ];
    runs.into_iter().flatten().map(|run| run.name.clone()).collect()
}

fn pod_facts(pod: &Pod, sets: &[ReplicaSetFacts], now: Timestamp) -> Option<PodFacts> {
    let meta = &pod.metadata;
    let owner = controller(meta.owner_references.as_deref().unwrap_or_default())?;
    let set = sets.iter().find(|set| set.uid == owner.uid)?;
    Some(PodFacts {
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        replica_set: owner.uid.clone(),
        created: created(meta),
        deleting: meta.deletion_timestamp.is_some(),
        available: available(pod, set.min_ready_seconds, now),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
    })
}

/// Ready for at least this long.
fn available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().filter(|one| one.type_ == "Ready" && one.status == "True").any(|ready| {
        let since = ready.last_transition_time.as_ref().map(|time| time.0);
        min_ready_seconds == 0
            || since.is_some_and(|since| now.as_second() - since.as_second() >= i64::from(min_ready_seconds))
    })
}
