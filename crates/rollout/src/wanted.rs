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

/// An analysis that a spec asks for.
pub(crate) struct Asked {
    /// Where.
    pub(crate) field: String,
    /// By which templates.
    pub(crate) templates: Vec<TemplateRef>,
    /// Arguments that it gives them.
    pub(crate) args: BTreeSet<String>,
}

impl Asked {
    fn new(field: impl Into<String>, analysis: &RolloutAnalysis) -> Self {
        let args = analysis.args.iter().map(|arg| arg.name.clone()).collect();
        Self { field: field.into(), templates: analysis.templates.clone(), args }
    }
}

/// Every analysis that the spec asks for.
pub(crate) fn analyses(strategy: &Strategy) -> Vec<Asked> {
    let mut all = Vec::new();
    let mut add = |field: &str, analysis: Option<&RolloutAnalysis>| {
        all.extend(analysis.map(|analysis| Asked::new(format!("spec.strategy.{field}"), analysis)));
    };
    if let Some(blue_green) = &strategy.blue_green {
        add("blueGreen.prePromotionAnalysis", blue_green.pre_promotion_analysis.as_ref());
        add("blueGreen.postPromotionAnalysis", blue_green.post_promotion_analysis.as_ref());
    }
    if let Some(test) = &strategy.ab_test {
        add("abTest.analysis", test.analysis.as_ref());
    }
    let Some(canary) = &strategy.canary else { return all };
    add("canary.analysis", canary.analysis.as_ref().map(|analysis| &analysis.run));
    for (index, step) in canary.steps.iter().enumerate() {
        add(&format!("canary.steps[{index}].analysis"), step.analysis.as_ref());
    }
    for (index, step) in canary.steps.iter().enumerate() {
        for (place, analysis) in step.experiment.iter().flat_map(|step| &step.analyses).enumerate() {
            let (template_name, cluster_scope) = (analysis.template_name.clone(), analysis.cluster_scope);
            all.push(Asked {
                field: format!("spec.strategy.canary.steps[{index}].experiment.analyses[{place}]"),
                templates: vec![TemplateRef { template_name, cluster_scope }],
                args: analysis.args.iter().map(|arg| arg.name.clone()).collect(),
            });
        }
    }
    all
}

/// Every template that the spec names.
pub(crate) fn templates(strategy: &Strategy) -> BTreeSet<TemplateRef> {
    analyses(strategy).into_iter().flat_map(|asked| asked.templates).collect()
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
