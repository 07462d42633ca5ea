//! What a Rollout's spec names: Services, routes, templates, a workload. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_api::{
    GROUP,
    rollout::{
        Rollout, Strategy, TrafficRouting,
        analysis::{RolloutAnalysis, TemplateRef},
        traffic::GatewayApi,
    },
};
use windlass_cluster::drive::Reference;

use crate::{
    index::{GATEWAY, myself, reference},
    observed::{RouteKind, RouteName},
    route::Pair,
};

/// Name of the plug-in whose settings are read as `gatewayAPI`.
const PLUGIN: &str = "argoproj-labs/gatewayAPI";

/// The traffic routing of the strategy, if it has any.
pub(crate) fn routing(strategy: &Strategy) -> Option<&TrafficRouting> {
    match (&strategy.canary, &strategy.ab_test) {
        (Some(canary), _) => canary.traffic_routing.as_ref(),
        (None, Some(test)) => Some(&test.traffic_routing),
        (None, None) => None,
    }
}

/// The two Services of the strategy, if it divides traffic.
pub(crate) fn pair(rollout: &Rollout) -> Option<Pair> {
    let strategy = &rollout.spec.strategy;
    let (stable, canary) = match (&strategy.canary, &strategy.ab_test) {
        (Some(canary), _) => (canary.stable_service.clone()?, canary.canary_service.clone()?),
        (None, Some(test)) => (test.stable_service.clone(), test.canary_service.clone()),
        (None, None) => return None,
    };
    let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
    Some(Pair { namespace, stable, canary })
}

/// Every Service that the spec names.
pub(crate) fn services(strategy: &Strategy) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Some(canary) = &strategy.canary {
        names.extend(canary.stable_service.clone());
        names.extend(canary.canary_service.clone());
    }
    if let Some(blue_green) = &strategy.blue_green {
        names.insert(blue_green.active_service.clone());
        names.extend(blue_green.preview_service.clone());
    }
    if let Some(test) = &strategy.ab_test {
        names.insert(test.stable_service.clone());
        names.insert(test.canary_service.clone());
    }
    names.remove("");
    names
}

/// Every route that the spec names, in its order, each once.
pub(crate) fn routes(strategy: &Strategy) -> Vec<RouteName> {
    let Some(routing) = routing(strategy) else { return Vec::new() };
    let plugin = || {
        let settings: &Value = routing.plugins.get(PLUGIN)?;
        serde_json::from_value::<GatewayApi>(settings.clone()).ok()
    };
    let Some(gateway) = routing.gateway_api.clone().or_else(plugin) else { return Vec::new() };
    let http = gateway.http_route.into_iter().chain(gateway.http_routes.into_iter().map(|route| route.name));
    let grpc = gateway.grpc_route.into_iter().chain(gateway.grpc_routes.into_iter().map(|route| route.name));
    let http = http.map(|name| RouteName { kind: RouteKind::Http, name });
    let grpc = grpc.map(|name| RouteName { kind: RouteKind::Grpc, name });
    let mut routes = Vec::new();
    for route in http.chain(grpc) {
        if !route.name.is_empty() && !routes.contains(&route) {
            routes.push(route);
        }
    }
    routes
}

/// Names of `managedRoutes`, in their order.
pub(crate) fn managed(strategy: &Strategy) -> Vec<String> {
    routing(strategy)
        .map(|routing| routing.managed_routes.iter().map(|route| route.name.clone()).collect())
        .unwrap_or_default()
}

/// Every template that the spec names.
pub(crate) fn templates(strategy: &Strategy) -> BTreeSet<TemplateRef> {
    let mut names = BTreeSet::new();
    let mut add = |analysis: Option<&RolloutAnalysis>| {
        names.extend(analysis.into_iter().flat_map(|analysis| analysis.templates.iter().cloned()));
    };
    if let Some(canary) = &strategy.canary {
        add(canary.analysis.as_ref().map(|analysis| &analysis.run));
        canary.steps.iter().for_each(|step| add(step.analysis.as_ref()));
    }
    if let Some(blue_green) = &strategy.blue_green {
        add(blue_green.pre_promotion_analysis.as_ref());
        add(blue_green.post_promotion_analysis.as_ref());
    }
    if let Some(test) = &strategy.ab_test {
        add(test.analysis.as_ref());
    }
    let steps = strategy.canary.iter().flat_map(|canary| &canary.steps);
    for analysis in steps.filter_map(|step| step.experiment.as_ref()).flat_map(|step| &step.analyses) {
        let (template_name, cluster_scope) = (analysis.template_name.clone(), analysis.cluster_scope);
        names.insert(TemplateRef { template_name, cluster_scope });
    }
    names
}

/// Every object whose change concerns the Rollout, itself among them: its children speak of it under its own name.
pub(crate) fn reads(rollout: &Rollout) -> Vec<Reference> {
    let namespace = rollout.metadata.namespace.as_deref().unwrap_or_default();
    let strategy = &rollout.spec.strategy;
    let mut reads = vec![myself(namespace, rollout.metadata.name.as_deref().unwrap_or_default())];
    reads.extend(services(strategy).iter().map(|name| reference("", "Service", namespace, name)));
    reads.extend(
        routes(strategy).iter().map(|route| reference(GATEWAY, route.kind.as_str(), namespace, &route.name)),
    );
    reads.extend(templates(strategy).iter().map(|template| {
        let (kind, namespace) = if template.cluster_scope {
            ("ClusterAnalysisTemplate", "")
        } else {
            ("AnalysisTemplate", namespace)
        };
        reference(GROUP, kind, namespace, &template.template_name)
    }));
    if let Some(workload) = &rollout.spec.workload_ref {
        reads.push(reference("apps", "Deployment", namespace, &workload.name));
    }
    reads
}

/// Ports of the two Services by name, for the check of a route.
pub(crate) type Ports = BTreeMap<String, Vec<i32>>;
