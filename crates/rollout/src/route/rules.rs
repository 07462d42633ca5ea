//! Rules of our own, made from the rules that carry the pair.

use serde_json::{Map, Value, json};

use super::{
    matches,
    memory::{Ours, digest},
    read::Place,
    trouble,
};
use crate::observed::{HeaderRule, MirrorRule, RouteKind, RouteTrouble, TrafficWish};

/// The most rules that a route may have.
const MOST_RULES: usize = 16;

/// One rule of ours as it should stand in the route.
pub(super) struct Made {
    pub(super) rule: Value,
    pub(super) ours: Ours,
}

/// All rules of ours that the wish asks for, in their order. `bases` are the rules with the pair that are not ours,
/// `others` is how many rules are not ours.
pub(super) fn make(
    route: &Value,
    kind: RouteKind,
    wish: &TrafficWish,
    order: &[String],
    bases: &[Place],
    others: usize,
) -> Result<Vec<Made>, RouteTrouble> {
    let mut made = Vec::new();
    for name in names(wish, order) {
        for (count, base) in bases.iter().enumerate() {
            let source = &route["spec"]["rules"][base.rule];
            for rule in wish.headers.iter().filter(|rule| rule.name == name) {
                made.push(finished(header(kind, source, *base, rule), name, count));
            }
            for rule in wish.mirrors.iter().filter(|rule| rule.name == name) {
                made.push(finished(mirror(kind, source, *base, rule)?, name, count));
            }
        }
    }
    if made.len() + others > MOST_RULES && !made.is_empty() {
        return Err(trouble(
            "RouteTooManyRules",
            format!("the route would have {} rules, and {MOST_RULES} are the most", made.len() + others),
            "Divide the route, or use fewer header and mirror routes",
        ));
    }
    Ok(made)
}

/// Each name once: those of `managedRoutes` first, then the rest as they come.
fn names<'a>(wish: &'a TrafficWish, order: &'a [String]) -> Vec<&'a str> {
    let wanted = wish.headers.iter().map(|rule| &rule.name).chain(wish.mirrors.iter().map(|rule| &rule.name));
    let wanted: Vec<&str> = wanted.map(String::as_str).collect();
    let ordered = order.iter().map(String::as_str).filter(|name| wanted.contains(name));
    let mut names: Vec<&str> = Vec::new();
    for name in ordered.chain(wanted.iter().copied()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn finished(mut rule: Map<String, Value>, name: &str, count: usize) -> Made {
    let own = if count == 0 { name.to_owned() } else { format!("{name}-{count}") };
    rule.shift_remove("name");
    let digest = digest(&Value::Object(rule.clone()));
    let mut whole = Map::new();
    whole.insert("name".to_owned(), Value::from(own.as_str()));
    whole.extend(rule);
    Made { rule: Value::Object(whole), ours: Ours { name: name.to_owned(), rule: own, digest } }
}

/// The base rule, for requests with one of the headers, to the canary alone.
fn header(kind: RouteKind, base: &Value, place: Place, wanted: &HeaderRule) -> Map<String, Value> {
    let mut rule = base.as_object().cloned().unwrap_or_default();
    let bases = base_matches(kind, base);
    let mut narrowed = Vec::new();
    for one in &wanted.matches {
        let narrow = |base| matches::with_header(base, &one.header_name, &one.header_value);
        narrowed.extend(bases.iter().map(narrow));
    }
    if let Some(cookie) = &wanted.sticky_cookie {
        narrowed.extend(bases.iter().map(|base| matches::with_cookie(base, cookie, &wanted.name)));
        set_cookie(&mut rule, cookie, &wanted.name);
    }
    rule.insert("matches".to_owned(), Value::Array(narrowed));
    let mut canary = base["backendRefs"][place.canary].as_object().cloned().unwrap_or_default();
    canary.insert("weight".to_owned(), json!(1));
    rule.insert("backendRefs".to_owned(), json!([canary]));
    rule
}

/// Answers set the cookie. The API takes one filter of this type in a rule: ours goes into one that is there.
fn set_cookie(rule: &mut Map<String, Value>, cookie: &str, value: &str) {
    let header = json!({ "name": "Set-Cookie", "value": format!("{cookie}={value}; Path=/") });
    let filters = rule.entry("filters").or_insert_with(|| json!([]));
    let Value::Array(filters) = filters else { return };
    let there = filters.iter_mut().find(|filter| filter["type"] == "ResponseHeaderModifier");
    match there {
        Some(filter) => match &mut filter["responseHeaderModifier"]["add"] {
            Value::Array(list) => list.push(header),
            empty => *empty = json!([header]),
        },
        None => filters.push(json!({
            "type": "ResponseHeaderModifier", "responseHeaderModifier": { "add": [header] }
        })),
    }
}

/// The base rule with its weights, for requests that match, with a copy to the canary.
fn mirror(
    kind: RouteKind,
    base: &Value,
    place: Place,
    wanted: &MirrorRule,
) -> Result<Map<String, Value>, RouteTrouble> {
    let mut rule = base.as_object().cloned().unwrap_or_default();
    let mut narrowed = Vec::new();
    for one in &wanted.matches {
        for base in base_matches(kind, base) {
            narrowed.push(matches::with_mirror(kind, &wanted.name, &base, one)?);
        }
    }
    rule.insert("matches".to_owned(), Value::Array(narrowed));
    let canary = &base["backendRefs"][place.canary];
    let mut backend = json!({ "group": "", "kind": "Service", "name": canary["name"] });
    for field in ["namespace", "port"] {
        if let Some(value) = canary.get(field) {
            backend[field] = value.clone();
        }
    }
    let mut copy = json!({ "backendRef": backend });
    if wanted.percentage < 100 {
        copy["percent"] = json!(wanted.percentage);
    }
    let filter = json!({ "type": "RequestMirror", "requestMirror": copy });
    match rule.entry("filters").or_insert_with(|| json!([])) {
        Value::Array(filters) => filters.push(filter),
        other => *other = json!([filter]),
    }
    Ok(rule)
}

/// The matches of a rule with the defaults written out: what the API server would add is no difference later.
fn base_matches(kind: RouteKind, rule: &Value) -> Vec<Map<String, Value>> {
    let mut matches: Vec<Map<String, Value>> =
        rule["matches"].as_array().into_iter().flatten().filter_map(Value::as_object).cloned().collect();
    if matches.is_empty() {
        matches.push(Map::new());
    }
    if kind == RouteKind::Http {
        for one in &mut matches {
            one.entry("path").or_insert_with(|| json!({ "type": "PathPrefix", "value": "/" }));
        }
    }
    matches
}
