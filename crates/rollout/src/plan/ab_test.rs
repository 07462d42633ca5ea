//! An A/B test as a canary: the new version gets its pods, then the requests that match, then the analysis or a person
//! decides. Weights stay with the version that runs until the new one has won.

use windlass_api::rollout::{
    AbTest, Canary, CanaryStep,
    ab_test::{NamedMatch, Promotion, VariantMatch},
    canary::{CanaryScale, HeaderRoute, Pause},
    traffic::{HeaderMatch, ManagedRoute, StringMatch},
};

/// Name of the rule when none is given.
const RULE: &str = "variant-b";

/// The name of the rule that sends requests to variant B.
pub fn rule(test: &AbTest) -> &str {
    test.variant.name.as_deref().unwrap_or(RULE)
}

/// The steps that an A/B test goes through.
pub fn as_canary(test: &AbTest) -> Canary {
    let name = rule(test).to_owned();
    let scale = match test.variant_replicas {
        Some(replicas) => CanaryScale { replicas: Some(replicas), ..CanaryScale::default() },
        None => CanaryScale { weight: Some(100), ..CanaryScale::default() },
    };
    let route = HeaderRoute { name: name.clone(), matches: matches(test) };
    let mut steps = vec![
        CanaryStep { set_canary_scale: Some(scale), ..CanaryStep::default() },
        CanaryStep { set_header_route: Some(route), ..CanaryStep::default() },
    ];
    let pause = |duration| CanaryStep { pause: Some(Pause { duration }), ..CanaryStep::default() };
    if let Some(duration) = &test.duration {
        steps.push(pause(Some(duration.clone())));
    }
    if let Some(analysis) = &test.analysis {
        steps.push(CanaryStep { analysis: Some(analysis.clone()), ..CanaryStep::default() });
    }
    if test.analysis.is_none() || test.promotion == Promotion::Manual {
        steps.push(pause(None));
    }
    let mut routing = test.traffic_routing.clone();
    if !routing.managed_routes.iter().any(|route| route.name == name) {
        routing.managed_routes.push(ManagedRoute { name });
    }
    Canary {
        canary_service: Some(test.canary_service.clone()),
        stable_service: Some(test.stable_service.clone()),
        steps,
        traffic_routing: Some(routing),
        max_unavailable: test.max_unavailable.clone(),
        max_surge: test.max_surge.clone(),
        scale_down_delay_seconds: test.scale_down_delay_seconds,
        canary_metadata: test.canary_metadata.clone(),
        stable_metadata: test.stable_metadata.clone(),
        other: test.other.clone(),
        ..Canary::default()
    }
}

fn matches(test: &AbTest) -> Vec<HeaderMatch> {
    test.variant.matches.iter().filter_map(header).collect()
}

/// A cookie is a part of the header `Cookie`.
fn header(rule: &VariantMatch) -> Option<HeaderMatch> {
    match rule {
        VariantMatch { header: Some(NamedMatch { name, value }), .. } => {
            Some(HeaderMatch { header_name: name.clone(), header_value: value.clone() })
        }
        VariantMatch { cookie: Some(NamedMatch { name, value }), .. } => {
            let regex = format!(r"(^|.*;\s*){name}={}(;.*|$)", pattern(value));
            let header_value = StringMatch { regex, ..StringMatch::default() };
            Some(HeaderMatch { header_name: "Cookie".into(), header_value })
        }
        _ => None,
    }
}

fn pattern(value: &StringMatch) -> String {
    if !value.regex.is_empty() {
        return format!("({})", value.regex);
    }
    if !value.prefix.is_empty() {
        return format!("{}[^;]*", escaped(&value.prefix));
    }
    escaped(&value.exact)
}

/// The text as a regular expression that matches nothing else.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if !c.is_alphanumeric() && c != '_' && c != '-' {
            out.push('\\');
        }
        out.push(c);
        out
    })
}
