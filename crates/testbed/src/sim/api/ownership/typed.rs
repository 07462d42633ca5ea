//! Objects under a schema: their field sets, what differs between two, merging and cutting out.
//!
//! The rules are those of Kubernetes' structured merge: structs and maps are taken apart, sets and keyed lists
//! by item, everything else is a leaf.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::schema::{ListKind, Schema, Shape};
use super::fields::{Element, FieldSet};

/// What changed from one object to another.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Leaves out what lies in or below `ignored`.
    pub(crate) fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

fn any_schema() -> &'static Schema {
    static ANY: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(Schema::any);
    &ANY
}

fn field_schema<'a>(schema: &'a Schema, name: &str) -> &'a Schema {
    schema.field(name).unwrap_or_else(|| any_schema())
}

fn item_schema(schema: &Schema) -> &Schema {
    schema.item().unwrap_or_else(|| any_schema())
}

/// The element that an item of a set or keyed list has in paths, `None` when it has none of the keys.
pub(super) fn item_element(schema: &Schema, item: &Value) -> Option<Element> {
    match &schema.list {
        ListKind::Set => (!item.is_object() && !item.is_array()).then(|| Element::Value(item.to_string())),
        ListKind::Map(keys) => {
            let mut found: Vec<(String, String)> = keys
                .iter()
                .filter_map(|key| {
                    let value = item.get(key).or_else(|| schema.key_default(key))?;
                    Some((key.clone(), value.to_string()))
                })
                .collect();
            found.sort();
            (!found.is_empty()).then_some(Element::Key(found))
        }
        ListKind::Atomic => None,
    }
}

/// The field set of an object: what somebody who applies it comes to own.
pub(crate) fn field_set(schema: &Schema, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(schema, value, &mut Vec::new(), &mut set);
    set
}

fn collect(schema: &Schema, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    match (schema.shape(value), value) {
        (Shape::Leaf, _) => set.insert(path),
        (Shape::Object, Value::Object(fields)) => {
            for (name, field) in fields {
                path.push(Element::field(name));
                collect(field_schema(schema, name), field, path, set);
                let empty = field.is_null() || field.as_object().is_some_and(Map::is_empty);
                if empty || !schema.properties.contains_key(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::List, Value::Array(items)) => {
            for item in items {
                let Some(element) = item_element(schema, item) else {
                    continue;
                };
                path.push(element);
                collect(item_schema(schema), item, path, set);
                set.insert(path);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Compares two objects.
pub(crate) fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    compare_at(schema, Some(old), Some(new), &mut Vec::new(), &mut comparison);
    comparison
}

fn is_blank(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

fn compare_at(
    schema: &Schema,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let Some(sample) = new.filter(|value| !value.is_null()).or(old).or(new) else {
        return;
    };
    let mut shape = schema.shape(sample);
    // Values of different kinds at one place, and two empty containers, are compared as a whole.
    let mixed =
        |value: Option<&Value>| value.is_some_and(|value| !value.is_null() && kind(value) != kind(sample));
    if mixed(old) || mixed(new) || (is_blank(old) && is_blank(new)) {
        shape = Shape::Leaf;
    }
    match shape {
        Shape::Leaf => match (old, new) {
            (None, _) => out.added.insert(path),
            (_, None) => out.removed.insert(path),
            (old, new) if old != new => out.modified.insert(path),
            _ => {}
        },
        Shape::Object => {
            compare_fields(schema, old, new, path, out);
            note_container(old, new, path, out);
        }
        Shape::List => {
            compare_items(schema, old, new, path, out);
            note_container(old, new, path, out);
        }
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Object(_) => 2,
        Value::Array(_) => 1,
        _ => 0,
    }
}

/// A container that comes or goes is itself part of the change.
fn note_container(old: Option<&Value>, new: Option<&Value>, path: &[Element], out: &mut Comparison) {
    if old.is_none() {
        out.added.insert(path);
    } else if new.is_none() {
        out.removed.insert(path);
    }
}

fn compare_fields(
    schema: &Schema,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mut names: Vec<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
    names.sort();
    names.dedup();
    for name in names {
        path.push(Element::field(name));
        let (before, after) =
            (old.and_then(|fields| fields.get(name)), new.and_then(|fields| fields.get(name)));
        compare_at(field_schema(schema, name), before, after, path, out);
        path.pop();
    }
}

fn by_element<'a>(schema: &Schema, list: Option<&'a Value>) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Some(element) = item_element(schema, item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}

fn compare_items(
    schema: &Schema,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (before, after) = (by_element(schema, old), by_element(schema, new));
    let mut elements: Vec<&Element> = before.keys().chain(after.keys()).collect();
    elements.sort();
    elements.dedup();
    for element in elements {
        let old = before.get(element).map(Vec::as_slice).unwrap_or_default();
        let new = after.get(element).map(Vec::as_slice).unwrap_or_default();
        path.push(element.clone());
        match (old, new) {
            ([_, _, ..], [_, _, ..]) if old != new => out.modified.insert(path),
            ([_, _, ..], [_, _, ..]) => {}
            ([_, _, ..], rest) => {
                compare_at(item_schema(schema), None, rest.first().copied(), path, out);
                out.removed.insert(path);
            }
            (rest, [_, _, ..]) => {
                compare_at(item_schema(schema), rest.first().copied(), None, path, out);
                out.added.insert(path);
            }
            (old, new) => {
                compare_at(item_schema(schema), old.first().copied(), new.first().copied(), path, out);
            }
        }
        path.pop();
    }
}

/// Lays an applied object over a live one.
pub(crate) fn merge(schema: &Schema, live: &Value, applied: &Value) -> Value {
    merge_at(schema, Some(live), Some(applied)).unwrap_or(Value::Null)
}

fn merge_at(schema: &Schema, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let keep = || applied.or(live).cloned();
    let sample = applied.filter(|value| !value.is_null()).or(live).or(applied)?;
    let mixed =
        |value: Option<&Value>| value.is_some_and(|value| !value.is_null() && kind(value) != kind(sample));
    if mixed(live) || mixed(applied) || (is_blank(live) && is_blank(applied)) {
        return keep();
    }
    match schema.shape(sample) {
        Shape::Leaf => keep(),
        Shape::Object => {
            let (live, applied) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let names = live.into_iter().flat_map(Map::keys).chain(
                applied
                    .into_iter()
                    .flat_map(Map::keys)
                    .filter(|name| !live.is_some_and(|fields| fields.contains_key(*name))),
            );
            let merged: Map<String, Value> = names
                .filter_map(|name| {
                    let before = live.and_then(|fields| fields.get(name));
                    let after = applied.and_then(|fields| fields.get(name));
                    Some((name.clone(), merge_at(field_schema(schema, name), before, after)?))
                })
                .collect();
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Shape::List => {
            let items = merge_items(schema, live, applied);
            (!items.is_empty()).then_some(Value::Array(items))
        }
    }
}

/// Merges two keyed lists or sets: items of both keep the applied order, live ones keep their neighbours.
fn merge_items(schema: &Schema, live: Option<&Value>, applied: Option<&Value>) -> Vec<Value> {
    let index = |list: Option<&Value>| -> Vec<(Element, Value)> {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| Some((item_element(schema, item)?, item.clone()))).collect()
    };
    let (live, applied) = (index(live), index(applied));
    let find = |list: &[(Element, Value)], element: &Element| {
        list.iter().find(|(candidate, _)| candidate == element).map(|(_, item)| item.clone())
    };
    let among = |list: &[(Element, Value)], element: &Element| list.iter().any(|(found, _)| found == element);
    let mut next_shared =
        applied.iter().map(|(element, _)| element).filter(|element| among(&live, element)).peekable();
    let (mut at_live, mut at_applied) = (0, 0);
    let mut out = Vec::new();
    while at_live < live.len() || at_applied < applied.len() {
        if let (Some((mine, _)), Some((theirs, _))) = (live.get(at_live), applied.get(at_applied))
            && mine != theirs
            && among(&applied, mine)
            && next_shared.peek().is_some_and(|next| *next != mine)
        {
            // An item of both, but not the one whose turn it is: it comes where the applied list has it.
            at_live += 1;
            continue;
        }
        if let Some((element, item)) = live.get(at_live) {
            if !among(&applied, element) {
                out.push(item.clone());
                at_live += 1;
                continue;
            }
            let due = applied.get(at_applied).is_some_and(|(theirs, _)| theirs == element);
            if due || among(&applied[..at_applied], element) {
                at_live += 1;
            }
        }
        if let Some((element, item)) = applied.get(at_applied) {
            out.extend(merge_at(item_schema(schema), find(&live, element).as_ref(), Some(item)));
            at_applied += 1;
            next_shared.next_if(|next| *next == element);
        }
    }
    out
}

/// Cuts the paths of `set` out of an object. Where nothing is left of a container, a null takes its place: the real
/// server does so, and it matters for what it removes next.
pub(crate) fn remove(schema: &Schema, value: &Value, set: &FieldSet) -> Value {
    match (schema.shape(value), value) {
        (Shape::Object, Value::Object(fields)) => {
            let mut left = Map::new();
            for (name, field) in fields {
                let element = Element::field(name);
                if set.has(&element) {
                    continue;
                }
                let field = match set.child(&element) {
                    None => field.clone(),
                    Some(below) => remove(field_schema(schema, name), field, below),
                };
                left.insert(name.clone(), field);
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Shape::List, Value::Array(items)) => {
            let left: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let Some(element) = item_element(schema, item) else {
                        return Some(item.clone());
                    };
                    if set.has(&element) {
                        return None;
                    }
                    Some(match set.child(&element) {
                        None => item.clone(),
                        Some(below) => remove(item_schema(schema), item, below),
                    })
                })
                .collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        // A path below something that is a leaf means that leaf as a whole.
        (Shape::Leaf, Value::Object(_) | Value::Array(_)) => Value::Null,
        _ => value.clone(),
    }
}

/// Makes struct fields members of a set when something below them is: they come and go with their content.
pub(crate) fn with_named_fields(schema: &Schema, set: &FieldSet) -> FieldSet {
    let mut named = Vec::new();
    let mut children = BTreeMap::new();
    for (element, below) in set.children() {
        let inner = match element {
            Element::Field(name) => {
                if schema.properties.contains_key(name) {
                    named.push(element.clone());
                }
                field_schema(schema, name)
            }
            Element::Key(_) | Element::Value(_) => item_schema(schema),
        };
        children.insert(element.clone(), with_named_fields(inner, below));
    }
    set.with_members(named, children)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            &json!({"type": "object", "properties": {
                "data": {"type": "object", "additionalProperties": {"type": "string"}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {
                        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}},
                "args": {"type": "array", "items": {"type": "string"}}
            }}),
            &Map::new(),
        )
    }

    #[test]
    fn set_of_an_applied_object() {
        let value = json!({"data": {"a": "1"}, "tags": ["x"], "ports": [{"port": 80, "name": "http"}], "args": ["y"]});
        assert_eq!(
            field_set(&schema(), &value).to_json(),
            json!({"f:args": {}, "f:data": {"f:a": {}}, "f:tags": {"v:\"x\"": {}},
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}})
        );
    }

    #[test]
    fn comparison_names_containers_that_come_and_go() {
        let found = compare(&schema(), &json!({"tags": ["x"]}), &json!({"data": {"a": "1"}}));
        assert_eq!(found.added.paths(), [".data", ".data.a"]);
        assert_eq!(found.removed.paths(), [".tags", ".tags[=\"x\"]"]);
    }

    #[test]
    fn merge_keeps_what_is_not_applied_and_the_applied_order() {
        let live = json!({"data": {"a": "1", "b": "2"}, "tags": ["p", "q", "r"], "args": ["1", "2"]});
        let applied = json!({"data": {"b": "3"}, "tags": ["r", "p", "n"], "args": ["4"]});
        assert_eq!(
            merge(&schema(), &live, &applied),
            json!({"data": {"a": "1", "b": "3"}, "tags": ["q", "r", "p", "n"], "args": ["4"]})
        );
    }

    #[test]
    fn removal_by_item_and_of_leaves_as_a_whole() {
        let value = json!({"tags": ["p", "q"], "args": ["1"], "data": {"a": "1"}});
        let set =
            FieldSet::from_json(&json!({"f:tags": {"v:\"p\"": {}}, "f:args": {}, "f:data": {"f:a": {}}}))
                .unwrap();
        assert_eq!(remove(&schema(), &value, &set), json!({"tags": ["q"], "data": null}));
    }
}
