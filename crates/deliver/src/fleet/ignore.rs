//! Differences that do not count.
//!
//! What is ignored is left as it is in the cluster: the wanted object takes the live values there, so that an apply for
//! another reason neither changes them nor, because it leaves them out, removes them. Only values that the source wants,
//! or that we set before, are taken over: nobody else's field becomes ours.

use serde_json::{Map, Value};
use windlass_api::application::sync::IgnoreDifference;
use windlass_manifest::diff::{Difference, FieldPath, Step};

use crate::{object::ObjectId, tracking};

/// The rules that are about an object.
pub(super) fn rules_for<'a>(rules: &'a [IgnoreDifference], id: &ObjectId) -> Vec<&'a IgnoreDifference> {
    let fits = |rule: &IgnoreDifference| {
        let group = rule.group.as_deref().unwrap_or_default();
        (group == "*" || group == id.group)
            && (rule.kind == "*" || rule.kind == id.kind)
            && rule.name.as_ref().is_none_or(|name| *name == id.name)
            && rule.namespace.as_ref().is_none_or(|namespace| *namespace == id.namespace)
    };
    rules.iter().filter(|rule| fits(rule)).collect()
}

/// The wanted object with the live values where pointers of the rules lead. `owned` is the live object cut down to the
/// fields that we own.
pub(super) fn at_pointers(
    wanted: &Value,
    live: &Value,
    owned: Option<&Value>,
    rules: &[&IgnoreDifference],
) -> Value {
    let mut rebuilt = wanted.clone();
    for pointer in rules.iter().flat_map(|rule| &rule.json_pointers) {
        let Some(steps) = parse(pointer) else { continue };
        let merged = merged(Some(&rebuilt), Some(live), owned, &steps);
        if let Some(merged) = merged {
            rebuilt = merged;
        }
    }
    restore(&mut rebuilt, wanted);
    rebuilt
}

/// The wanted object with the live values where managers of the rules set them.
pub(super) fn of_managers(
    wanted: &Value,
    live: &Value,
    differences: &[Difference],
    rules: &[&IgnoreDifference],
) -> Value {
    let mut rebuilt = wanted.clone();
    for difference in differences {
        let Some(owner) = &difference.owner else { continue };
        let ignored = rules.iter().any(|rule| rule.managers.contains(&owner.manager));
        if ignored {
            put(&mut rebuilt, &difference.path.0, at_path(live, &difference.path));
        }
    }
    restore(&mut rebuilt, wanted);
    rebuilt
}

/// `/a/b~1c` in its parts; `None` when it is no pointer into an object.
fn parse(pointer: &str) -> Option<Vec<String>> {
    let rest = pointer.strip_prefix('/')?;
    Some(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

/// What makes the object ours, and itself, is never anybody else's.
fn restore(rebuilt: &mut Value, wanted: &Value) {
    let mut keep = |path: &[&str]| {
        let value = path.iter().try_fold(wanted, |value, name| value.get(name));
        let steps: Vec<Step> = path.iter().map(|name| Step::Field((*name).to_owned())).collect();
        put(rebuilt, &steps, value);
    };
    keep(&["apiVersion"]);
    keep(&["kind"]);
    keep(&["metadata", "name"]);
    keep(&["metadata", "namespace"]);
    keep(&["metadata", "labels", tracking::LABEL]);
    keep(&["metadata", "annotations", tracking::OWNER]);
}

/// The wanted value with what is live at (and below) the steps; `None` when nothing is left.
fn merged(
    wanted: Option<&Value>,
    live: Option<&Value>,
    owned: Option<&Value>,
    steps: &[String],
) -> Option<Value> {
    if wanted.is_none() && owned.is_none() {
        return None;
    }
    let Some((step, rest)) = steps.split_first() else { return taken(wanted, live, owned) };
    match wanted.or(owned) {
        Some(Value::Array(_)) => {
            let mut items = wanted.and_then(Value::as_array).cloned()?;
            // A pointer to an item that is not wanted leads nowhere.
            let Some((at, item)) = step.parse().ok().and_then(|at: usize| Some((at, items.get(at)?))) else {
                return wanted.cloned();
            };
            let counterpart = |list: Option<&Value>| match_item(list, item, at).cloned();
            let (there, ours) = (counterpart(live), counterpart(owned));
            match merged(Some(item), there.as_ref(), ours.as_ref(), rest) {
                Some(value) => items[at] = value,
                None => {
                    items.remove(at);
                }
            }
            Some(Value::Array(items))
        }
        Some(Value::Object(_)) => {
            let below = |value: Option<&Value>| value.and_then(|value| value.get(step)).cloned();
            let inner = merged(below(wanted).as_ref(), below(live).as_ref(), below(owned).as_ref(), rest);
            let mut fields = wanted.and_then(Value::as_object).cloned().unwrap_or_default();
            match inner {
                Some(value) => {
                    fields.insert(step.clone(), value);
                }
                None => {
                    fields.remove(step);
                }
            }
            // A map that only we own is not brought back empty.
            (wanted.is_some() || !fields.is_empty()).then_some(Value::Object(fields))
        }
        _ => wanted.cloned(),
    }
}

/// The item of another list that stands for the same thing: by its name if it has one, else by its place.
fn match_item<'v>(list: Option<&'v Value>, item: &Value, at: usize) -> Option<&'v Value> {
    let items = list?.as_array()?;
    match item.get("name") {
        Some(name) => items.iter().find(|other| other.get("name") == Some(name)),
        None => items.get(at),
    }
}

/// Live values for everything that is wanted or ours. Lists are taken whole.
fn taken(wanted: Option<&Value>, live: Option<&Value>, owned: Option<&Value>) -> Option<Value> {
    let live = live.filter(|live| !live.is_null())?;
    let Value::Object(there) = live else { return Some(live.clone()) };
    let names = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_object).map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    if !is_map(wanted) || !is_map(owned) {
        return Some(live.clone());
    }
    let mut fields = Map::new();
    for name in names(wanted).into_iter().chain(names(owned)) {
        let below = |value: Option<&'_ Value>| value.and_then(|value| value.get(&name)).cloned();
        if let Some(value) = taken(below(wanted).as_ref(), there.get(&name), below(owned).as_ref()) {
            fields.insert(name, value);
        }
    }
    Some(Value::Object(fields))
}

/// The value at a path of the live object.
fn at_path<'v>(object: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    path.0.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Key(keys) => value.as_array()?.iter().find(|item| has_keys(item, keys)),
        Step::Member(member) => value.as_array()?.iter().find(|item| *item == member),
        Step::Index(at) => value.get(at),
    })
}

/// Items are told apart by fields that may be defaults and so not written: those do not speak against an item.
fn has_keys(item: &Value, keys: &[(String, Value)]) -> bool {
    let mut says = false;
    for (name, value) in keys {
        match item.get(name) {
            Some(found) if found == value => says = true,
            Some(_) => return false,
            None => {}
        }
    }
    says
}

/// Sets what is at a path, or removes it. What leads there is made where something is set.
fn put(object: &mut Value, path: &[Step], value: Option<&Value>) {
    let Some((step, rest)) = path.split_first() else {
        if let Some(value) = value {
            *object = value.clone();
        }
        return;
    };
    match step {
        Step::Field(name) => {
            if object.is_null() && value.is_some() {
                *object = Value::Object(Map::new());
            }
            let Some(fields) = object.as_object_mut() else { return };
            match (rest.is_empty(), value) {
                (true, Some(value)) => {
                    fields.insert(name.clone(), value.clone());
                }
                (true, None) => {
                    fields.remove(name);
                }
                (false, Some(_)) => put(fields.entry(name.clone()).or_insert(Value::Null), rest, value),
                (false, None) => {
                    if let Some(below) = fields.get_mut(name) {
                        put(below, rest, value);
                    }
                }
            }
        }
        Step::Key(keys) => put_item(
            object,
            |item| has_keys(item, keys),
            rest,
            value,
            || Value::Object(keys.iter().cloned().collect()),
        ),
        Step::Member(member) => put_item(object, |item| item == member, rest, value, || member.clone()),
        Step::Index(at) => {
            let Some(items) = object.as_array_mut() else { return };
            match (items.get_mut(*at), rest.is_empty(), value) {
                (Some(_), true, None) => {
                    items.remove(*at);
                }
                (Some(item), _, _) => put(item, rest, value),
                (None, _, _) => {}
            }
        }
    }
}

fn put_item(
    object: &mut Value,
    is_it: impl Fn(&Value) -> bool,
    rest: &[Step],
    value: Option<&Value>,
    make: impl FnOnce() -> Value,
) {
    if object.is_null() && value.is_some() {
        *object = Value::Array(Vec::new());
    }
    let Some(items) = object.as_array_mut() else { return };
    match (items.iter().position(is_it), rest.is_empty(), value) {
        (Some(at), true, None) => {
            items.remove(at);
        }
        (Some(at), _, _) => put(&mut items[at], rest, value),
        (None, _, Some(_)) => {
            let mut item = make();
            put(&mut item, rest, value);
            items.push(item);
        }
        (None, _, None) => {}
    }
}

#[cfg(test)]
#[path = "ignore_tests.rs"]
mod tests;
