//! Lists whose items are told apart.

use serde_json::{Map, Value};

use super::keys::{Key, Keys, Members};
use super::managers::{Node, key_of, member_of};
use super::path::Step;
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
            let (our_keys, nodes): (Vec<Key>, Vec<Node<'_>>) =
                ours.map(|ours| items_of(ours, &keys)).unwrap_or_default().into_iter().unzip();
            let our_keys = Keys::new(our_keys);
            for (item, key) in wanted.iter().zip(wanted_keys.all()) {
                let found = live_keys.find(key).map(|at| &live[at]);
                let below = our_keys.find(key).map(|at| nodes[at]);
                walk.path.push(Step::Key(key.clone()));
                walk.value(item, found, below, item_shape);
                walk.path.pop();
            }
            for (key, below) in our_keys.all().iter().zip(nodes) {
                if wanted_keys.find(key).is_none()
                    && let Some(at) = live_keys.find(key)
                {
                    removed_item(walk, &live[at], live_keys.all()[at].clone(), below, item_shape);
                }
            }
            true
        }
    }
}

/// Items of a list that we have set, when the list is no longer wanted at all.
pub(super) fn removed(walk: &mut Walk<'_>, live: &[Value], ours: Node<'_>, shape: &Shape) {
    let item_shape = item_of(shape);
    if let Some(ListKind::Keyed(keys)) = kind_in(ours) {
        let live_keys: Vec<Option<Key>> =
            live.iter().map(|item| key(walk.schema, item, &keys, item_shape)).collect();
        // An item without a key is found by none.
        let live_keys = Keys::new(live_keys.into_iter().map(Option::unwrap_or_default).collect());
        for (key, below) in items_of(ours, &keys) {
            if let Some(at) = live_keys.find(&key) {
                removed_item(walk, &live[at], live_keys.all()[at].clone(), below, item_shape);
            }
        }
    }
    let members = Members::new(live, item_shape);
    for member in ours.keys().filter_map(|text| member_of(text)) {
        if members.holds(&member) {
            walk.path.push(Step::Member(member.clone()));
            walk.differs(None, Some(&member));
            walk.path.pop();
        }
    }
}

/// An item that is no longer wanted: one difference, unless somebody else has set a part of it, which then stays.
fn removed_item(walk: &mut Walk<'_>, item: &Value, key: Key, ours: Node<'_>, shape: &Shape) {
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
    let (wanted_members, live_members) = (Members::new(wanted, shape), Members::new(live, shape));
    for member in wanted.iter().filter(|member| !live_members.holds(member)) {
        walk.path.push(Step::Member(member.clone()));
        walk.differs(Some(member), None);
        walk.path.pop();
    }
    for member in ours.into_iter().flat_map(Map::keys).filter_map(|text| member_of(text)) {
        if live_members.holds(&member) && !wanted_members.holds(&member) {
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

/// The items of a field set that these fields tell apart.
fn items_of<'a>(node: Node<'a>, keys: &[String]) -> Vec<(Key, Node<'a>)> {
    let item = |(text, below): (&String, &'a Value)| {
        let mut found = key_of(text).filter(|found| found.len() == keys.len())?;
        let key =
            keys.iter().map(|name| Some((name.clone(), found.remove(name)?))).collect::<Option<Key>>()?;
        Some((key, below.as_object()?))
    };
    node.iter().filter_map(item).collect()
}

/// The keys of all items; `None` when one has none, or two have the same.
pub(super) fn keys_of_all(schema: &Schema, items: &[Value], keys: &[String], shape: &Shape) -> Option<Keys> {
    let all = items.iter().map(|item| key(schema, item, keys, shape)).collect::<Option<Vec<Key>>>()?;
    Some(Keys::new(all)).filter(Keys::are_unique)
}

/// The key of an item, defaults included.
pub(super) fn key(schema: &Schema, item: &Value, keys: &[String], shape: &Shape) -> Option<Key> {
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
