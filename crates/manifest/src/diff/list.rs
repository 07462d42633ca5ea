//! Lists whose items are told apart.

use serde_json::{Map, Value};

use super::managers::{Node, key_of, member_of};
use super::path::Step;
use super::scalar;
use super::walk::Walk;
use crate::schema::{ListKind, Schema, Shape};

/// Walks two lists item by item; `false` when their items cannot be told apart, and nothing was done.
pub(super) fn walk(
    walk: &mut Walk<'_>,
    wanted: &[Value],
    live: &[Value],
    ours: Option<Node<'_>>,
    shape: &Shape,
) -> bool {
    let item_shape = item_of(shape);
    match kind_of(walk, ours, shape) {
        ListKind::Atomic => false,
        ListKind::Set => {
            set(walk, wanted, live, ours, item_shape);
            true
        }
        ListKind::Keyed(keys) => {
            let wanted_keys = keys_of_all(walk.schema, wanted, &keys, item_shape);
            let live_keys = keys_of_all(walk.schema, live, &keys, item_shape);
            let (Some(wanted_keys), Some(live_keys)) = (wanted_keys, live_keys) else { return false };
            let ours: Vec<(Map<String, Value>, Node<'_>)> = ours.map(items_of).unwrap_or_default();
            for (item, key) in wanted.iter().zip(&wanted_keys) {
                let found = live_keys.iter().position(|live| same_key(live, key)).map(|at| &live[at]);
                let below = ours.iter().find(|(theirs, _)| is_key(theirs, key)).map(|(_, below)| *below);
                walk.path.push(Step::Key(key.clone()));
                walk.value(item, found, below, item_shape);
                walk.path.pop();
            }
            let gone = ours.iter().filter(|(theirs, _)| !wanted_keys.iter().any(|key| is_key(theirs, key)));
            for (theirs, below) in gone {
                if let Some(at) = live_keys.iter().position(|key| is_key(theirs, key)) {
                    removed_item(walk, &live[at], live_keys[at].clone(), below, item_shape);
                }
            }
            true
        }
    }
}

/// Items of a list that we have set, when the list is no longer wanted at all.
pub(super) fn removed(walk: &mut Walk<'_>, live: &[Value], ours: Node<'_>, shape: &Shape) {
    let item_shape = item_of(shape);
    for (theirs, below) in items_of(ours) {
        let keys: Vec<String> = theirs.keys().cloned().collect();
        let found = live.iter().find_map(|item| {
            let key = key(walk.schema, item, &keys, item_shape)?;
            is_key(&theirs, &key).then_some((item, key))
        });
        if let Some((item, key)) = found {
            removed_item(walk, item, key, below, item_shape);
        }
    }
    for member in ours.keys().filter_map(|text| member_of(text)) {
        if live.iter().any(|item| scalar::same(item, &member, item_shape)) {
            walk.path.push(Step::Member(member.clone()));
            walk.differs(None, Some(&member));
            walk.path.pop();
        }
    }
}

/// An item that is no longer wanted: one difference, unless somebody else has set a part of it, which then stays.
fn removed_item(walk: &mut Walk<'_>, item: &Value, key: Vec<(String, Value)>, ours: Node<'_>, shape: &Shape) {
    let names: Vec<String> = key.iter().map(|(name, _)| format!("f:{name}")).collect();
    walk.path.push(Step::Key(key));
    if walk.managers.owner(&walk.path, true).is_some() {
        let mut rest = ours.clone();
        rest.retain(|name, _| name != "." && !names.contains(name));
        if !rest.is_empty() {
            walk.removed(item, &rest, shape);
        }
    } else {
        walk.differs(None, Some(item));
    }
    walk.path.pop();
}

fn set(walk: &mut Walk<'_>, wanted: &[Value], live: &[Value], ours: Option<Node<'_>>, shape: &Shape) {
    let holds = |items: &[Value], member: &Value| items.iter().any(|item| scalar::same(item, member, shape));
    for member in wanted.iter().filter(|member| !holds(live, member)) {
        walk.path.push(Step::Member(member.clone()));
        walk.differs(Some(member), None);
        walk.path.pop();
    }
    for member in ours.into_iter().flat_map(Map::keys).filter_map(|text| member_of(text)) {
        if holds(live, &member) && !holds(wanted, &member) {
            walk.path.push(Step::Member(member.clone()));
            walk.differs(None, Some(&member));
            walk.path.pop();
        }
    }
}

/// How the items are told apart: as the schema says, or as the field sets of whoever set some of them show.
fn kind_of(walk: &Walk<'_>, ours: Option<Node<'_>>, shape: &Shape) -> ListKind {
    match shape {
        Shape::List { kind, .. } => kind.clone(),
        _ => ours
            .into_iter()
            .find_map(kind_in)
            .or_else(|| walk.managers.nodes_at(&walk.path).find_map(kind_in))
            .unwrap_or(ListKind::Atomic),
    }
}

fn kind_in(node: Node<'_>) -> Option<ListKind> {
    node.keys().find_map(|text| match key_of(text) {
        Some(keys) => Some(ListKind::Keyed(keys.keys().cloned().collect())),
        None => text.starts_with("v:").then_some(ListKind::Set),
    })
}

pub(super) fn item_of(shape: &Shape) -> &Shape {
    match shape {
        Shape::List { item, .. } => item,
        _ => &Shape::Any,
    }
}

fn items_of(node: Node<'_>) -> Vec<(Map<String, Value>, Node<'_>)> {
    node.iter().filter_map(|(text, below)| Some((key_of(text)?, below.as_object()?))).collect()
}

/// The keys of all items; `None` when one has none, or two have the same.
pub(super) fn keys_of_all(
    schema: &Schema,
    items: &[Value],
    keys: &[String],
    shape: &Shape,
) -> Option<Vec<Vec<(String, Value)>>> {
    let mut all: Vec<Vec<(String, Value)>> = Vec::with_capacity(items.len());
    for item in items {
        let key = key(schema, item, keys, shape)?;
        if all.iter().any(|other| same_key(other, &key)) {
            return None;
        }
        all.push(key);
    }
    Some(all)
}

/// The key of an item, defaults included.
fn key(schema: &Schema, item: &Value, keys: &[String], shape: &Shape) -> Option<Vec<(String, Value)>> {
    let fields = item.as_object()?;
    let mut found = Vec::with_capacity(keys.len());
    for name in keys {
        let value = match fields.get(name).filter(|value| !value.is_null()) {
            Some(value) => value.clone(),
            None => default_of(schema, shape, name)?,
        };
        found.push((name.clone(), value));
    }
    (!found.is_empty()).then_some(found)
}

fn default_of(schema: &Schema, shape: &Shape, name: &str) -> Option<Value> {
    match shape {
        Shape::Struct(id) => {
            let field = schema.field(*id, name)?;
            // A key that may be left out is an empty text, as it is in the server's field sets.
            Some(field.default.clone().unwrap_or_else(|| Value::String(String::new())))
        }
        _ => (name == "protocol").then(|| Value::from("TCP")),
    }
}

pub(super) fn same_key(a: &[(String, Value)], b: &[(String, Value)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((_, a), (_, b))| scalar::equal(a, b))
}

fn is_key(theirs: &Map<String, Value>, key: &[(String, Value)]) -> bool {
    theirs.len() == key.len()
        && key.iter().all(|(name, value)| theirs.get(name).is_some_and(|theirs| scalar::equal(theirs, value)))
}
