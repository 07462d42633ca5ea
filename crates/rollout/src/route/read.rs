//! What a route says about the pair now.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Pair,
    memory::{Memory, digest},
    trouble,
};
use crate::observed::{HeaderRule, RouteKind, RouteTrouble, TrafficWish};

/// A rule that names both Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the rule.
    pub(super) rule: usize,
    /// Index of the stable backend in it.
    pub(super) stable: usize,
    /// Index of the canary backend in it.
    pub(super) canary: usize,
}

/// What the route says now, in the words of a wish: equal to a wish exactly if nothing has to be written for it.
///
/// Weights are told as they are written. Where rules differ, the largest of each is told: no wish sums to that. A header
/// or mirror rule of ours that was edited or is missing is told without matches, which no wish is.
pub fn read(route: &Value, kind: RouteKind, pair: &Pair) -> Result<TrafficWish, RouteTrouble> {
    let memory = Memory::of(route);
    let places = places(route, pair)?;
    let bases: Vec<Place> = bases(route, &memory, &places);
    if bases.is_empty() {
        return Err(missing(route, kind, pair, &memory));
    }
    let mut seen = memory.wished();
    for place in &places {
        let backends = &route["spec"]["rules"][place.rule]["backendRefs"];
        seen.stable = seen.stable.max(weight(&backends[place.stable]));
        seen.canary = seen.canary.max(weight(&backends[place.canary]));
    }
    for name in &memory.backends {
        let largest = bases.iter().map(|place| extra(route, place.rule, name, pair)).max().flatten();
        let everywhere = bases.iter().all(|place| extra(route, place.rule, name, pair) == largest);
        seen.additional.insert(name.clone(), largest.filter(|_| everywhere).unwrap_or(-1));
    }
    if !rules_stand(route, kind, &memory, &bases, &seen) {
        seen.headers.iter_mut().for_each(|rule| *rule = blank(rule));
        seen.mirrors.iter_mut().for_each(|rule| rule.matches = Vec::new());
    }
    Ok(seen)
}

fn blank(rule: &HeaderRule) -> HeaderRule {
    HeaderRule { name: rule.name.clone(), ..HeaderRule::default() }
}

/// Whether exactly the rules that are remembered are there, as they would be made now, at the front and in order.
fn rules_stand(
    route: &Value,
    kind: RouteKind,
    memory: &Memory,
    bases: &[Place],
    wished: &TrafficWish,
) -> bool {
    let ours: Vec<(usize, &Value)> =
        rules(route).enumerate().filter(|(_, rule)| memory.knows(rule)).collect();
    let Ok(made) = super::rules::make(route, kind, wished, &memory.order(), bases, 0) else { return false };
    ours.len() == made.len()
        && memory.rules.len() == made.len()
        && ours.iter().zip(&made).zip(&memory.rules).enumerate().all(|(at, ((there, made), remembered))| {
            at == there.0 && digest(there.1) == made.ours.digest && *remembered == made.ours
        })
}

/// What is wrong with a route, or with the Services that it names. `ports` are the ports of each Service by name; a
/// Service that is not in it is not judged.
pub fn check(
    route: &Value,
    kind: RouteKind,
    pair: &Pair,
    ports: &BTreeMap<String, Vec<i32>>,
) -> Option<RouteTrouble> {
    let memory = Memory::of(route);
    let places = match places(route, pair) {
        Err(trouble) => return Some(trouble),
        Ok(places) => places,
    };
    let bases = bases(route, &memory, &places);
    if bases.is_empty() {
        return Some(missing(route, kind, pair, &memory));
    }
    let name = named(route, kind);
    for place in bases {
        let backends = &route["spec"]["rules"][place.rule]["backendRefs"];
        for (backend, service) in [(place.stable, &pair.stable), (place.canary, &pair.canary)] {
            let at = format!("spec.rules[{}].backendRefs[{backend}]", place.rule);
            match (backends[backend]["port"].as_i64(), ports.get(service)) {
                (None, _) => {
                    return Some(trouble(
                        "RoutePortMissing",
                        format!("{name} names Service {service} without a port in {at}"),
                        "Write the port that the Service offers",
                    ));
                }
                (Some(port), Some(offered)) if !offered.iter().any(|one| i64::from(*one) == port) => {
                    return Some(trouble(
                        "RoutePortMissing",
                        format!(
                            "{name} sends to port {port} of Service {service} in {at}, which it does not offer"
                        ),
                        format!("Use one of the ports {}", listed(offered)),
                    ));
                }
                _ => {}
            }
        }
    }
    None
}

fn listed(ports: &[i32]) -> String {
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    ports.join(", ")
}

fn named(route: &Value, kind: RouteKind) -> String {
    format!("{} {}", kind.as_str(), route["metadata"]["name"].as_str().unwrap_or_default())
}

/// Which of the two Services no rule names.
pub(super) fn missing(route: &Value, kind: RouteKind, pair: &Pair, memory: &Memory) -> RouteTrouble {
    let name = named(route, kind);
    let names = |service: &str| {
        rules(route)
            .filter(|rule| !memory.knows(rule))
            .any(|rule| backends(rule).any(|backend| is(backend, route, service, &pair.namespace)))
    };
    let what = match (names(&pair.stable), names(&pair.canary)) {
        (true, true) => format!("no rule of {name} names both {} and {}", pair.stable, pair.canary),
        (true, false) => format!("{name} does not name the canary Service {}", pair.canary),
        (false, true) => format!("{name} does not name the stable Service {}", pair.stable),
        (false, false) => format!("{name} names neither {} nor {}", pair.stable, pair.canary),
    };
    let remedy = format!(
        "Put both Services into the backendRefs of the rule whose traffic is to be divided, {} with weight 0",
        pair.canary
    );
    trouble("RouteBackendMissing", what, remedy)
}

/// Every rule that names both Services.
pub(super) fn places(route: &Value, pair: &Pair) -> Result<Vec<Place>, RouteTrouble> {
    let mut places = Vec::new();
    for (index, rule) in rules(route).enumerate() {
        let at = |service: &str| -> Vec<usize> {
            let ours = |(_, backend): &(usize, &Value)| is(backend, route, service, &pair.namespace);
            backends(rule).enumerate().filter(ours).map(|(index, _)| index).collect()
        };
        match (at(&pair.stable).as_slice(), at(&pair.canary).as_slice()) {
            ([stable], [canary]) => places.push(Place { rule: index, stable: *stable, canary: *canary }),
            ([], _) | (_, []) => {}
            _ => {
                return Err(trouble(
                    "RouteBackendAmbiguous",
                    format!("spec.rules[{index}] names {} or {} more than once", pair.stable, pair.canary),
                    "Name each of the two Services once in a rule, or divide the rule",
                ));
            }
        }
    }
    Ok(places)
}

/// Those of the places whose rule is not ours.
pub(super) fn bases(route: &Value, memory: &Memory, places: &[Place]) -> Vec<Place> {
    let others = |place: &Place| !memory.knows(&route["spec"]["rules"][place.rule]);
    places.iter().copied().filter(others).collect()
}

/// Whether a backend is this Service.
pub(super) fn is(backend: &Value, route: &Value, service: &str, namespace: &str) -> bool {
    let text = |field: &str| backend[field].as_str();
    let home = || route["metadata"]["namespace"].as_str();
    text("name") == Some(service)
        && text("group").unwrap_or_default().is_empty()
        && text("kind").unwrap_or("Service") == "Service"
        && text("namespace").or_else(home).unwrap_or(namespace) == namespace
}

pub(super) fn rules(route: &Value) -> impl Iterator<Item = &Value> {
    route["spec"]["rules"].as_array().into_iter().flatten()
}

fn backends(rule: &Value) -> impl Iterator<Item = &Value> {
    rule["backendRefs"].as_array().into_iter().flatten()
}

/// Weight of a Service of an experiment in a rule.
fn extra(route: &Value, rule: usize, service: &str, pair: &Pair) -> Option<i32> {
    let rule = &route["spec"]["rules"][rule];
    backends(rule).find(|backend| is(backend, route, service, &pair.namespace)).map(weight)
}

/// A weight that is not written is 1, as the schema says.
fn weight(backend: &Value) -> i32 {
    backend["weight"].as_i64().map_or(1, |weight| i32::try_from(weight).unwrap_or(i32::MAX))
}
