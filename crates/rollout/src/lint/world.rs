//! Rules of what a spec names: Services, routes, templates, and other Rollouts.

use std::collections::BTreeSet;

use windlass_api::{
    analysis::merge::title as template_title,
    rollout::{POD_TEMPLATE_HASH, RolloutSpec, TrafficRouting, analysis::TemplateRef, traffic::GatewayApi},
};

use super::{Findings, canary::PLUGIN};
use crate::{
    observed::{Observed, Rival, RouteKind, RouteName, ServiceFacts, TemplateFacts},
    plan::scene::{Way, resolved},
    wanted::{self, Asked},
};

/// The Gateway API settings: our own, or those of the plug-in of Argo Rollouts.
pub fn gateway(routing: &TrafficRouting) -> Option<GatewayApi> {
    routing.gateway_api.clone().or_else(|| {
        let settings = routing.plugins.get(PLUGIN)?;
        serde_json::from_value(settings.clone()).ok()
    })
}

/// The routes that are named, each once, in their order.
pub fn routes(gateway: &GatewayApi) -> Vec<RouteName> {
    let http = gateway.http_route.iter().chain(gateway.http_routes.iter().map(|route| &route.name));
    let grpc = gateway.grpc_route.iter().chain(gateway.grpc_routes.iter().map(|route| &route.name));
    let named = |kind: RouteKind| move |name: &String| RouteName { kind, name: name.clone() };
    let mut seen = BTreeSet::new();
    http.map(named(RouteKind::Http))
        .chain(grpc.map(named(RouteKind::Grpc)))
        .filter(|route| !route.name.is_empty() && seen.insert(route.clone()))
        .collect()
}

/// Routes that a spec names.
pub fn routes_of(spec: &RolloutSpec) -> Vec<RouteName> {
    match Way::of(&spec.strategy) {
        Some(Way::Canary(canary)) => canary
            .traffic_routing
            .as_ref()
            .and_then(gateway)
            .map(|gateway| routes(&gateway))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Services that a spec names, with the field that names them.
pub fn services_of(spec: &RolloutSpec) -> Vec<(String, String)> {
    let at = match &spec.strategy {
        strategy if strategy.ab_test.is_some() => "spec.strategy.abTest",
        strategy if strategy.blue_green.is_some() => "spec.strategy.blueGreen",
        _ => "spec.strategy.canary",
    };
    let named: Vec<(&str, Option<String>)> = match Way::of(&spec.strategy) {
        Some(Way::Canary(canary)) => {
            vec![
                ("stableService", canary.stable_service.clone()),
                ("canaryService", canary.canary_service.clone()),
            ]
        }
        Some(Way::BlueGreen(blue_green)) => vec![
            ("activeService", Some(blue_green.active_service.clone())),
            ("previewService", blue_green.preview_service.clone()),
        ],
        None => Vec::new(),
    };
    let named = named.into_iter().filter_map(|(field, name)| Some((format!("{at}.{field}"), name?)));
    named.filter(|(_, name)| !name.is_empty()).collect()
}

/// Templates that a spec names.
pub fn templates_of(spec: &RolloutSpec) -> BTreeSet<TemplateRef> {
    wanted::templates(&spec.strategy)
}

pub(super) fn check(observed: &Observed, findings: &mut Findings) {
    let spec = &observed.rollout.spec;
    for (field, service) in services_of(spec) {
        match observed.services.get(&service) {
            Some(Some(facts)) => self::service(observed, &field, &service, facts, findings),
            _ => findings.add(
                &field,
                "ServiceNotFound",
                format!("Service {service} is not there"),
                "make it, or correct the name",
            ),
        }
    }
    for asked in wanted::analyses(&spec.strategy) {
        templates(observed, &asked, findings);
    }
    for route in &observed.routes {
        if let Some(trouble) = &route.trouble {
            let field =
                format!("spec.strategy.trafficRouting: {} {}", route.route.kind.as_str(), route.route.name);
            findings.add(field, trouble.reason, trouble.what.clone(), trouble.remedy.clone());
        }
    }
}

/// Templates are there, and every argument of theirs has a value.
fn templates(observed: &Observed, asked: &Asked, findings: &mut Findings) {
    let known = |name: &TemplateRef| observed.templates.get(name).cloned().flatten();
    let all = TemplateFacts::closure(asked.templates.iter().cloned(), known);
    for name in &asked.templates {
        let title = template_title(name);
        match all.get(name) {
            Some(Some(facts)) => {
                let given = |arg: &&String| {
                    asked.args.contains(*arg)
                        || all.values().flatten().any(|other| other.given.contains(*arg))
                };
                // One that is missing further down may give a value.
                let whole = all.values().all(Option::is_some);
                if let Some(arg) = facts.open.iter().find(|arg| whole && !given(arg)) {
                    let what = format!("argument {arg} of {title} has no value");
                    findings.add(format!("{}.args", asked.field), "MissingArgument", what, "give it one");
                }
            }
            _ => findings.add(
                &asked.field,
                "TemplateNotFound",
                format!("{title} is not there"),
                "make it, or correct the name",
            ),
        }
    }
}

fn service(observed: &Observed, field: &str, service: &str, facts: &ServiceFacts, findings: &mut Findings) {
    // The oldest keeps a Service, and whoever moves its selector already.
    let keeps = |rival: &&Rival| {
        rival.service == service && (rival.older || facts.managed_by.as_ref() == Some(&rival.rollout))
    };
    if let Some(rival) = observed.rivals.iter().find(keeps) {
        let what = format!("Service {service} is named by Rollout {} too", rival.rollout);
        findings.add(field, "SharedService", what, "give every Rollout its own Services");
    }
    if !facts.has_port {
        let what = format!("Service {service} has no port");
        findings.add(field, "MissingPort", what, "give it the port that the pods listen on");
    }
    let Some((template, _)) = resolved(observed) else { return };
    let labels = template.pointer("/metadata/labels").and_then(serde_json::Value::as_object);
    let wrong = facts.selector.iter().find(|(name, value)| {
        let of_pod = labels.and_then(|labels| labels.get(*name)).and_then(serde_json::Value::as_str);
        *name != POD_TEMPLATE_HASH && of_pod != Some(value.as_str())
    });
    if let Some((name, value)) = wrong {
        findings.add(
            field,
            "WrongSelector",
            format!("Service {service} selects {name}={value}, which the pods of this Rollout do not have"),
            "make its selector match the labels of the template",
        );
    }
}
