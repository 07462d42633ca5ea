//! The smallest patch between a route as it is and as it should be.

use serde_json::{Value, json};

use super::{
    MANAGED, Operation, Pair,
    memory::Memory,
    patch::escape,
    read::{Place, bases, is, missing, places, read, rules},
    rules::make,
};
use crate::observed::{RouteKind, RouteTrouble, TrafficWish};

/// What has to be written so that the route is as wished; nothing if it is already. `order` are the names of
/// `managedRoutes`.
///
/// Assumes: `route` is a whole object as the API gave it. Guarantees: the patch touches the weights of the pair, rules
/// and backends of ours and the annotation [`MANAGED`], nothing else; applied to a route that has changed in another
/// place in between it still means the same, or is refused.
pub fn change(
    route: &Value,
    kind: RouteKind,
    pair: &Pair,
    wish: &TrafficWish,
    order: &[String],
) -> Result<Vec<Operation>, RouteTrouble> {
    let seen = read(route, kind, pair)?;
    if seen == *wish {
        return Ok(Vec::new());
    }
    let same_rules = seen.headers == wish.headers && seen.mirrors == wish.mirrors;
    if same_rules && seen.additional.is_empty() && wish.additional.is_empty() {
        let mut operations = Vec::new();
        for place in places(route, pair)? {
            weigh(route, place, wish, &mut operations);
        }
        return Ok(operations);
    }
    rebuilt(route, kind, pair, wish, order)
}

/// Both weights of one rule, guarded by the names at those places.
fn weigh(route: &Value, place: Place, wish: &TrafficWish, operations: &mut Vec<Operation>) {
    let backends = &route["spec"]["rules"][place.rule]["backendRefs"];
    let wanted = [(place.stable, wish.stable), (place.canary, wish.canary)];
    if wanted.iter().all(|(index, weight)| backends[*index]["weight"] == json!(weight)) {
        return;
    }
    let at = |index: usize| format!("/spec/rules/{}/backendRefs/{index}", place.rule);
    for (index, _) in wanted {
        let value = backends[index]["name"].clone();
        operations.push(Operation::Test { path: format!("{}/name", at(index)), value });
    }
    for (index, weight) in wanted {
        if backends[index]["weight"] != json!(weight) {
            // `add` sets a weight that is there and one that is not.
            operations.push(Operation::Add { path: format!("{}/weight", at(index)), value: json!(weight) });
        }
    }
}

/// The list of rules anew, on the version that was read: what others wrote in it is in it as it was.
fn rebuilt(
    route: &Value,
    kind: RouteKind,
    pair: &Pair,
    wish: &TrafficWish,
    order: &[String],
) -> Result<Vec<Operation>, RouteTrouble> {
    let memory = Memory::of(route);
    let mut after = route.clone();
    if let Some(list) = after["spec"]["rules"].as_array_mut() {
        list.retain(|rule| !memory.knows(rule));
    }
    for place in places(&after, pair)? {
        set_backends(&mut after, place, pair, wish, &memory);
    }
    let none = Memory::default();
    let places = bases(&after, &none, &places(&after, pair)?);
    if places.is_empty() {
        return Err(missing(route, kind, pair, &memory));
    }
    let others = rules(&after).count();
    let made = make(&after, kind, wish, order, &places, others)?;
    let remembered = Memory::new(made.iter().map(|made| made.ours.clone()).collect(), wish);
    let list: Vec<Value> = made.into_iter().map(|made| made.rule).chain(rules(&after).cloned()).collect();
    let mut operations = Vec::new();
    let version = &route["metadata"]["resourceVersion"];
    if !version.is_null() {
        let path = "/metadata/resourceVersion".to_owned();
        operations.push(Operation::Test { path, value: version.clone() });
    }
    operations.push(Operation::Replace { path: "/spec/rules".to_owned(), value: Value::Array(list) });
    remember(route, &remembered, &mut operations);
    Ok(operations)
}

/// Weights of the pair, and the Services of an experiment behind it.
fn set_backends(route: &mut Value, place: Place, pair: &Pair, wish: &TrafficWish, memory: &Memory) {
    let home = json!({ "metadata": { "namespace": route["metadata"]["namespace"] } });
    let Some(list) = route["spec"]["rules"][place.rule]["backendRefs"].as_array_mut() else { return };
    for (index, weight) in [(place.stable, wish.stable), (place.canary, wish.canary)] {
        if let Some(backend) = list.get_mut(index) {
            backend["weight"] = json!(weight);
        }
    }
    let model = list.get(place.canary).cloned().unwrap_or_default();
    let ours =
        |backend: &Value| memory.backends.iter().any(|service| is(backend, &home, service, &pair.namespace));
    list.retain(|backend| !ours(backend));
    for (service, weight) in &wish.additional {
        let mut backend = model.clone();
        backend["name"] = json!(service);
        backend["weight"] = json!(weight);
        list.push(backend);
    }
}

fn remember(route: &Value, memory: &Memory, operations: &mut Vec<Operation>) {
    let annotations = route["metadata"].get("annotations").and_then(Value::as_object);
    let path = format!("/metadata/annotations/{}", escape(MANAGED));
    let there = annotations.is_some_and(|annotations| annotations.contains_key(MANAGED));
    if memory.is_empty() {
        let last = annotations.is_some_and(|annotations| annotations.len() == 1);
        match (there, last) {
            (false, _) => {}
            (true, true) => operations.push(Operation::Remove { path: "/metadata/annotations".to_owned() }),
            (true, false) => operations.push(Operation::Remove { path }),
        }
        return;
    }
    let text = serde_json::to_string(memory).unwrap_or_default();
    if annotations.is_none() {
        operations.push(Operation::Add {
            path: "/metadata/annotations".to_owned(),
            value: json!({ MANAGED: text }),
        });
    } else {
        operations.push(Operation::Add { path, value: Value::from(text) });
    }
}
