//! The part of a live object that one manager has applied.
//!
//! It is what that manager sent, but for what the server spells otherwise: [`comparable`](super::comparable) brings both
//! into one spelling. So one digest tells whether an object is still as it was applied, without the object:
//!
//! ```text
//!   wanted ─► comparable ─► digest ─┐
//!                                   ├─ equal: in sync · otherwise: look closer, with diff
//!   live ─► owned ─► comparable ─► digest ─┘
//! ```
//!
//! Equal digests are never wrong: whoever changes a field takes it from its manager, so it is missing here then. Different
//! digests may be: the server has more ways to spell a value than are known here.

use serde_json::{Map, Value};

use super::atomic::field_shape;
use super::comparable;
use super::list::{self, item_of};
use super::managers::{Managers, Node, child, key_of, member_of};
use super::path::Step;
use super::walk::normal_set;
use crate::digest::{Digest, digest};
use crate::identity::is_secret;
use crate::schema::{Schema, Shape};

/// Deeper than any object that the API server takes.
const DEEPEST: usize = 200;

/// The live object cut down to what `manager` has applied, plus kind, name and namespace; `None` when it has applied
/// nothing.
///
/// What the manager holds and the server left out when it stored the object, because it is empty or zero, is `false`
/// here for kinds of the server itself: [`comparable`](super::comparable) makes no difference between the two.
pub fn owned(live: &Value, manager: &str) -> Option<Value> {
    let managers = Managers::of(live, manager);
    let ours = normal_set(managers.ours()?, is_secret(live));
    let schema = Schema::built_in();
    let root = schema.root_of(live);
    let cut = Cut { schema, drops_zeros: root.is_some_and(|root| root.drops_zeros) };
    let shape = root.map_or(Shape::Any, |root| Shape::Struct(root.id));
    let Value::Object(mut object) = cut.value(Some(live), &ours, &shape, 0) else { return None };
    for field in ["apiVersion", "kind"] {
        keep(&mut object, live, field);
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let (Value::Object(metadata), Some(found)) = (metadata, live.get("metadata")) {
        for field in ["name", "namespace"] {
            keep(metadata, found, field);
        }
    }
    Some(Value::Object(object))
}

/// The digest of [`owned`], in the spelling of [`comparable`](super::comparable).
pub fn owned_digest(live: &Value, manager: &str) -> Option<Digest> {
    owned(live, manager).map(|owned| digest(&comparable(&owned)))
}

fn keep(into: &mut Map<String, Value>, from: &Value, field: &str) {
    if let Some(value) = from.get(field) {
        into.insert(field.to_owned(), value.clone());
    }
}

struct Cut<'s> {
    schema: &'s Schema,
    drops_zeros: bool,
}

impl Cut<'_> {
    /// What a field set holds of a value.
    fn value(&self, live: Option<&Value>, ours: Node<'_>, shape: &Shape, depth: usize) -> Value {
        let Some(live) = live.filter(|live| !live.is_null()) else { return self.left_out(ours, depth) };
        if ours.is_empty() || depth > DEEPEST {
            return self.whole(live, shape);
        }
        match live {
            Value::Object(fields) => {
                let below = |(key, below): (&String, &Value)| {
                    let (name, below) = (key.strip_prefix("f:")?, below.as_object()?);
                    let shape = field_shape(self.schema, shape, name);
                    Some((name.to_owned(), self.value(fields.get(name), below, shape, depth + 1)))
                };
                ours.iter().filter_map(below).collect()
            }
            Value::Array(items) => self.items(items, ours, item_of(shape), depth),
            other => other.clone(),
        }
    }

    /// A leaf of a field set: all of it, unless it is known that its parts could be held one by one. Then none of them
    /// was sent.
    fn whole(&self, live: &Value, shape: &Shape) -> Value {
        let in_parts = matches!(shape, Shape::Struct(_) | Shape::Map { .. }) && !self.schema.is_atomic(shape);
        if live.is_object() && in_parts { Value::Object(Map::new()) } else { live.clone() }
    }

    /// What was sent and is not there: it was empty or zero.
    fn left_out(&self, ours: Node<'_>, depth: usize) -> Value {
        if !self.drops_zeros {
            return Value::Null;
        }
        let below = |(key, below): (&String, &Value)| {
            let (name, below) = (key.strip_prefix("f:")?, below.as_object()?);
            Some((name.to_owned(), self.left_out(below, depth + 1)))
        };
        let fields: Map<String, Value> =
            if depth > DEEPEST { Map::new() } else { ours.iter().filter_map(below).collect() };
        if fields.is_empty() { Value::Bool(false) } else { Value::Object(fields) }
    }

    /// The items of a list that are held, in the order in which they live.
    fn items(&self, items: &[Value], ours: Node<'_>, shape: &Shape, depth: usize) -> Value {
        let names: Option<Vec<String>> =
            ours.keys().find_map(|text| key_of(text)).map(|keys| keys.keys().cloned().collect());
        let has_members = ours.keys().any(|text| member_of(text).is_some());
        let held = |(at, item): (usize, &Value)| {
            let key = names.as_ref().and_then(|names| list::key(self.schema, item, names, shape));
            let below = key
                .and_then(|key| child(ours, &Step::Key(key)))
                .or_else(|| has_members.then(|| child(ours, &Step::Member(item.clone()))).flatten())
                .or_else(|| child(ours, &Step::Index(at)))?;
            Some(self.value(Some(item), below, shape, depth + 1))
        };
        items.iter().enumerate().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const US: &str = "windlass-deliver";

    fn managed(mut live: Value, fields: &Value) -> Value {
        live["metadata"]["managedFields"] = json!([{"manager": US, "operation": "Apply", "apiVersion": live["apiVersion"],
                "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        live
    }

    fn is_same(wanted: &Value, live: &Value) -> bool {
        owned_digest(live, US) == Some(digest(&comparable(wanted)))
    }

    fn deployment(spec: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    }

    #[test]
    fn items_are_found_by_their_keys_and_defaults_are_not_ours() {
        let containers = |ports: Value, more: Value| {
            let mut container = json!({"name": "c", "image": "c:1", "ports": ports});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            deployment(&json!({"template": {"spec": {"containers": [container]}}}))
        };
        let wanted = containers(json!([{"containerPort": 80}]), json!({"args": [], "stdin": false}));
        let live = containers(
            json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]),
            json!({"imagePullPolicy": "Always"}),
        );
        let ours = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:stdin": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}}});
        assert!(is_same(&wanted, &managed(live.clone(), &ours)), "{:?}", owned(&managed(live, &ours), US));
    }

    #[test]
    fn a_field_that_says_nothing_is_missed_when_somebody_takes_it() {
        let context = |value: Value| deployment(&json!({"template": {"spec": {"securityContext": value}}}));
        let wanted = context(json!({"runAsNonRoot": false, "runAsUser": 0}));
        let ours =
            |fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:securityContext": fields}}}});
        let live = managed(wanted.clone(), &ours(json!({"f:runAsNonRoot": {}, "f:runAsUser": {}})));
        assert!(is_same(&wanted, &live));
        let taken = context(json!({"runAsNonRoot": true, "runAsUser": 0}));
        let taken = managed(taken, &ours(json!({"f:runAsUser": {}})));
        assert!(!is_same(&wanted, &taken));
        let emptied = managed(context(json!({})), &ours(json!({"f:runAsUser": {}})));
        assert!(!is_same(&wanted, &emptied));
    }

    #[test]
    fn an_empty_map_that_the_server_filled_is_still_empty_to_us() {
        let wanted = deployment(&json!({"strategy": {}}));
        let live =
            deployment(&json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}));
        assert!(is_same(&wanted, &managed(live, &json!({"f:spec": {"f:strategy": {}}}))));
    }

    #[test]
    fn what_is_replaced_as_a_whole_is_compared_as_a_whole_but_for_defaults() {
        let policy = |ports: Value| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
                "spec": {"ingress": [{"ports": ports}]}})
        };
        let ours = json!({"f:spec": {"f:ingress": {}}});
        let wanted = policy(json!([{"port": 80}]));
        assert!(is_same(&wanted, &managed(policy(json!([{"port": 80, "protocol": "TCP"}])), &ours)));
        assert!(!is_same(&wanted, &managed(policy(json!([{"port": 80, "protocol": "UDP"}])), &ours)));
        assert!(!is_same(&wanted, &managed(policy(json!([{"port": 81, "protocol": "TCP"}])), &ours)));
    }

    #[test]
    fn a_secret_is_the_same_in_either_spelling() {
        let secret = |more: Value| {
            let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
            secret.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            secret
        };
        let wanted = secret(json!({"stringData": {"k": "hello"}}));
        let live = secret(json!({"data": {"k": "aGVsbG8="}, "type": "Opaque"}));
        for fields in [json!({"f:stringData": {"f:k": {}}}), json!({"f:data": {"f:k": {}}})] {
            assert!(is_same(&wanted, &managed(live.clone(), &fields)));
        }
    }

    #[test]
    fn in_kinds_that_nothing_is_known_of_only_null_is_absence() {
        let thing = |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let live = managed(thing(json!({"size": 0})), &json!({"f:spec": {"f:size": {}}}));
        assert!(is_same(&thing(json!({"size": 0, "note": null})), &live));
        for other in [json!({"size": ""}), json!({"size": false}), json!({"size": []}), json!({})] {
            assert!(!is_same(&thing(other.clone()), &live), "{other}");
        }
        let sets = managed(
            thing(json!({"tags": ["x", "theirs", "y"]})),
            &json!({"f:spec": {"f:tags": {"v:\"x\"": {}, "v:\"y\"": {}}}}),
        );
        assert!(is_same(&thing(json!({"tags": ["x", "y"]})), &sets));
        assert!(!is_same(&thing(json!({"tags": ["x"]})), &sets));
    }

    #[test]
    fn what_the_server_notes_and_the_status_are_no_part_of_it() {
        let noted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "creationTimestamp": null,
            "uid": "x"}, "status": {}});
        let plain = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        assert_eq!(comparable(&noted), comparable(&plain));
    }
}
