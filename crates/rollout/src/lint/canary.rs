//! Rules of the canary strategy and of its steps.

use windlass_api::rollout::{
    Canary, CanaryStep, Rollout, TrafficRouting,
    canary::{ExperimentStep, HeaderRoute, MirrorRoute},
};

use super::{Findings, common, unknown};

/// The Gateway API plug-in of Argo Rollouts, whose settings are ours.
pub(super) const PLUGIN: &str = "argoproj-labs/gatewayAPI";

pub(super) fn check(at: &str, canary: &Canary, rollout: &Rollout, findings: &mut Findings) {
    unknown::check(at, &canary.other, findings);
    common::limits(at, canary.max_surge.as_ref(), canary.max_unavailable.as_ref(), findings);
    common::anti_affinity(at, canary.anti_affinity.as_ref(), findings);
    common::delay_limit(at, canary.scale_down_delay_revision_limit, rollout, findings);
    let background = canary.analysis.as_ref().map(|analysis| &analysis.run);
    common::analysis(&format!("{at}.analysis"), background, rollout, findings);
    services(at, canary, findings);
    match &canary.traffic_routing {
        Some(routing) => traffic(&format!("{at}.trafficRouting"), routing, findings),
        None => unrouted(at, canary, findings),
    }
    if canary.scale_down_delay_seconds.is_some() && canary.dynamic_stable_scale {
        findings.add(
            format!("{at}.dynamicStableScale"),
            "InvalidCombination",
            "a dynamic stable version has no pods left that could stay for scaleDownDelaySeconds",
            "take one of the two away",
        );
    }
    for (index, step) in canary.steps.iter().enumerate() {
        self::step(&format!("{at}.steps[{index}]"), step, canary, rollout, findings);
    }
}

fn services(at: &str, canary: &Canary, findings: &mut Findings) {
    let named = |service: &Option<String>| service.clone().filter(|name| !name.is_empty());
    let (stable, new) = (named(&canary.stable_service), named(&canary.canary_service));
    if stable.is_some() && stable == new {
        findings.add(
            format!("{at}.stableService"),
            "DuplicateService",
            "canaryService and stableService are the same Service",
            "make a Service for each of the two versions",
        );
    }
    if canary.traffic_routing.is_some() {
        for (field, service) in [("stableService", stable), ("canaryService", new)] {
            if service.is_none() {
                findings.add(
                    format!("{at}.{field}"),
                    "MissingService",
                    "trafficRouting needs a Service for each of the two versions",
                    format!("set {field}"),
                );
            }
        }
    }
}

/// What has no meaning without routes.
fn unrouted(at: &str, canary: &Canary, findings: &mut Findings) {
    let needs = [
        ("scaleDownDelaySeconds", canary.scale_down_delay_seconds.is_some()),
        ("dynamicStableScale", canary.dynamic_stable_scale),
    ];
    for (field, used) in needs {
        if used {
            findings.add(
                format!("{at}.{field}"),
                "NeedsTrafficRouting",
                "without trafficRouting every pod serves traffic, so that this cannot be done",
                "set trafficRouting, or take the field away",
            );
        }
    }
}

pub(super) fn traffic(at: &str, routing: &TrafficRouting, findings: &mut Findings) {
    unknown::check(at, &routing.other, findings);
    for name in routing.plugins.keys().filter(|name| *name != PLUGIN) {
        let what = format!("`{name}` is a plug-in of Argo Rollouts that Windlass does not have");
        findings.add(format!("{at}.plugins"), "UnsupportedField", what, "use trafficRouting.gatewayAPI");
    }
    let Some(gateway) = crate::lint::world::gateway(routing) else {
        findings.add(
            format!("{at}.gatewayAPI"),
            "MissingRoute",
            "no route is named that could split the traffic",
            "set gatewayAPI.httpRoute to the name of an HTTPRoute",
        );
        return;
    };
    unknown::check(&format!("{at}.gatewayAPI"), &gateway.other, findings);
    if crate::lint::world::routes(&gateway).is_empty() {
        findings.add(
            format!("{at}.gatewayAPI"),
            "MissingRoute",
            "no route is named that could split the traffic",
            "set httpRoute to the name of an HTTPRoute",
        );
    }
}

fn step(at: &str, step: &CanaryStep, canary: &Canary, rollout: &Rollout, findings: &mut Findings) {
    unknown::check(at, &step.other, findings);
    let set = [
        step.set_weight.is_some(),
        step.pause.is_some(),
        step.set_canary_scale.is_some(),
        step.analysis.is_some(),
        step.set_header_route.is_some(),
        step.set_mirror_route.is_some(),
        step.experiment.is_some(),
    ];
    let count = set.into_iter().filter(|set| *set).count();
    if count != 1 && step.other.is_empty() {
        findings.add(
            at,
            "InvalidStep",
            format!("the step does {count} things"),
            "write exactly one of setWeight, pause, setCanaryScale, analysis, setHeaderRoute, setMirrorRoute and \
             experiment in every step",
        );
    }
    let routing = canary.traffic_routing.as_ref();
    let full = routing.and_then(|routing| routing.max_traffic_weight).unwrap_or(100);
    if step.set_weight.is_some_and(|weight| !(0..=full).contains(&weight)) {
        let what = format!("the weight is not between 0 and {full}");
        findings.add(format!("{at}.setWeight"), "InvalidWeight", what, "write a share in percent");
    }
    let duration = step.pause.as_ref().and_then(|pause| pause.duration.as_ref());
    if duration.is_some_and(|duration| duration.length().is_none()) {
        findings.add(
            format!("{at}.pause.duration"),
            "InvalidDuration",
            "it is not a length of time",
            "write seconds as a number, or like 30s, 5m or 1h",
        );
    }
    scale(at, step, canary, findings);
    common::analysis(&format!("{at}.analysis"), step.analysis.as_ref(), rollout, findings);
    if let Some(header) = &step.set_header_route {
        header_route(&format!("{at}.setHeaderRoute"), header, routing, findings);
    }
    if let Some(mirror) = &step.set_mirror_route {
        mirror_route(&format!("{at}.setMirrorRoute"), mirror, routing, findings);
    }
    if let Some(experiment) = &step.experiment {
        self::experiment(&format!("{at}.experiment"), experiment, canary, findings);
    }
}

fn scale(at: &str, step: &CanaryStep, canary: &Canary, findings: &mut Findings) {
    let Some(scale) = &step.set_canary_scale else { return };
    let at = format!("{at}.setCanaryScale");
    if canary.traffic_routing.is_none() {
        findings.add(
            &at,
            "NeedsTrafficRouting",
            "without trafficRouting the number of pods is the weight",
            "set trafficRouting, or use setWeight",
        );
    }
    let set = [scale.weight.is_some(), scale.replicas.is_some(), scale.match_traffic_weight];
    if set.into_iter().filter(|set| *set).count() != 1 {
        let what = "not exactly one of weight, replicas and matchTrafficWeight is set";
        findings.add(&at, "InvalidStep", what, "set exactly one of them");
    }
    if scale.replicas.is_some_and(|replicas| replicas < 0) || scale.weight.is_some_and(|weight| weight < 0) {
        findings.add(&at, "InvalidAmount", "it is less than 0", "write 0 or more");
    }
}

fn managed(at: &str, name: &str, routing: Option<&TrafficRouting>, findings: &mut Findings) {
    let Some(routing) = routing else {
        findings.add(
            at,
            "NeedsTrafficRouting",
            "without trafficRouting there is no route to put a rule on",
            "set trafficRouting, or take the step away",
        );
        return;
    };
    if !routing.managed_routes.iter().any(|route| route.name == name) {
        findings.add(
            at,
            "UnmanagedRoute",
            format!("`{name}` is not in trafficRouting.managedRoutes"),
            "add it there: the order of the list is the order of the rules",
        );
    }
}

fn header_route(at: &str, header: &HeaderRoute, routing: Option<&TrafficRouting>, findings: &mut Findings) {
    managed(at, &header.name, routing, findings);
    for (index, rule) in header.matches.iter().enumerate() {
        common::text_match(&format!("{at}.match[{index}]"), &rule.header_value, findings);
    }
}

fn mirror_route(at: &str, mirror: &MirrorRoute, routing: Option<&TrafficRouting>, findings: &mut Findings) {
    managed(at, &mirror.name, routing, findings);
    for (index, rule) in mirror.matches.iter().enumerate() {
        let texts = rule.method.iter().chain(&rule.path).chain(rule.headers.values());
        texts.for_each(|text| common::text_match(&format!("{at}.match[{index}]"), text, findings));
    }
    if mirror.percentage.is_some_and(|percentage| !(0..=100).contains(&percentage)) {
        let what = "the percentage is not between 0 and 100";
        findings.add(format!("{at}.percentage"), "InvalidWeight", what, "write a share in percent");
    }
}

fn experiment(at: &str, experiment: &ExperimentStep, canary: &Canary, findings: &mut Findings) {
    if experiment.templates.is_empty() {
        findings.add(at, "InvalidStep", "the experiment has no templates", "add a template");
    }
    for (index, template) in experiment.templates.iter().enumerate() {
        if template.weight.is_some() && canary.traffic_routing.is_none() {
            findings.add(
                format!("{at}.templates[{index}].weight"),
                "NeedsTrafficRouting",
                "without trafficRouting there is no traffic to share",
                "set trafficRouting, or take the weight away",
            );
        }
    }
    if experiment.duration.as_ref().is_some_and(|duration| duration.length().is_none()) {
        let what = "it is not a length of time";
        findings.add(format!("{at}.duration"), "InvalidDuration", what, "write it like 30s, 5m or 1h");
    }
}
