//! Walks the wanted and the live object together.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::atomic::{self, Leniency, field_shape};
use super::managers::{self, Managers, Node};
use super::path::{FieldPath, Step};
use super::value::FieldValue;
use super::{Difference, list, scalar, secret};
use crate::identity::{NOTED_BY_SERVER, is_kind, is_secret};
use crate::schema::{Schema, Shape};

/// Deeper than any object that the API server takes.
const DEEPEST: usize = 200;

/// The differences between two objects.
pub(super) fn diff(schema: &Schema, wanted: &Value, live: &Value, manager: &str) -> Vec<Difference> {
    let managers = Managers::of(live, manager);
    let root = schema.root_of(wanted);
    let mut walk = Walk {
        schema,
        drops_zeros: root.is_some_and(|root| root.drops_zeros),
        managers: &managers,
        hides: is_secret(wanted) || is_secret(live),
        is_pod: is_kind(wanted, "", "Pod"),
        path: Vec::with_capacity(16),
        out: Vec::new(),
    };
    let shape = root.map_or(Shape::Any, |root| Shape::Struct(root.id));
    let wanted = normal(wanted);
    let ours = managers.ours().map(|ours| normal_set(ours, walk.hides));
    if let (Value::Object(wanted), Value::Object(live)) = (&*wanted, live) {
        walk.object(wanted, live, ours.as_deref(), &shape);
    }
    walk.out
}

/// The wanted object in the spelling of the server.
fn normal(wanted: &Value) -> Cow<'_, Value> {
    if is_secret(wanted) && wanted.get("stringData").is_some() {
        let mut folded = wanted.clone();
        secret::fold_string_data(&mut folded);
        return Cow::Owned(folded);
    }
    Cow::Borrowed(wanted)
}

/// Our field set of a Secret, where `stringData` is `data`.
pub(super) fn normal_set(ours: Node<'_>, is_secret: bool) -> Cow<'_, Map<String, Value>> {
    let Some(Value::Object(texts)) = ours.get("f:stringData").filter(|_| is_secret) else {
        return Cow::Borrowed(ours);
    };
    let mut folded = ours.clone();
    folded.remove("f:stringData");
    if let Value::Object(data) = folded.entry("f:data").or_insert_with(|| Value::Object(Map::new())) {
        data.extend(texts.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Cow::Owned(folded)
}

pub(super) struct Walk<'a> {
    pub(super) schema: &'a Schema,
    pub(super) drops_zeros: bool,
    pub(super) managers: &'a Managers<'a>,
    hides: bool,
    is_pod: bool,
    pub(super) path: Vec<Step>,
    out: Vec<Difference>,
}

impl Walk<'_> {
    fn object(
        &mut self,
        wanted: &Map<String, Value>,
        live: &Map<String, Value>,
        ours: Option<Node<'_>>,
        shape: &Shape,
    ) {
        let owns_status = ours.is_some_and(|ours| ours.contains_key("f:status"));
        let computed = is_aggregated(wanted);
        self.fields(wanted, live, ours, shape, &|name| match name {
            "apiVersion" | "kind" | "metadata" => true,
            // An apply of the object leaves its status alone, unless the kind keeps it with the rest.
            "status" => !owns_status,
            "rules" => computed,
            _ => false,
        });
        let empty = Map::new();
        if let Some(Value::Object(found)) = live.get("metadata") {
            let metadata = wanted.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
            let ours = ours.and_then(|ours| managers::field(ours, "metadata"));
            self.path.push(Step::Field("metadata".into()));
            let shape = field_shape(self.schema, shape, "metadata");
            // By these the live object was found.
            let is_name = |name: &str| matches!(name, "name" | "namespace" | "generateName");
            self.fields(metadata, found, ours, shape, &|name| {
                is_name(name) || NOTED_BY_SERVER.contains(&name)
            });
            self.path.pop();
        }
    }

    /// Fields of a map or struct, but for some.
    fn fields(
        &mut self,
        wanted: &Map<String, Value>,
        live: &Map<String, Value>,
        ours: Option<Node<'_>>,
        shape: &Shape,
        skip: &dyn Fn(&str) -> bool,
    ) {
        for (name, value) in wanted {
            if value.is_null() || skip(name) {
                continue;
            }
            let found = live.get(name);
            // What is the same needs neither a shape nor a look at who set it.
            if is_plain(value) && found == Some(value) {
                continue;
            }
            let below = ours.and_then(|ours| managers::field(ours, name));
            let hint = quantity_hint(shape, &self.path, name, value);
            let shape = hint.unwrap_or_else(|| field_shape(self.schema, shape, name));
            self.path.push(Step::Field(name.clone()));
            self.value(value, found, below, shape);
            self.path.pop();
        }
        for (key, below) in ours.into_iter().flatten() {
            let (Some(name), Value::Object(below)) = (key.strip_prefix("f:"), below) else { continue };
            if wanted.contains_key(name) || skip(name) {
                continue;
            }
            if let Some(found) = live.get(name).filter(|found| !found.is_null()) {
                let shape = field_shape(self.schema, shape, name);
                self.path.push(Step::Field(name.to_owned()));
                self.removed(found, below, shape);
                self.path.pop();
            }
        }
    }

    /// One value that is wanted.
    pub(super) fn value(
        &mut self,
        wanted: &Value,
        live: Option<&Value>,
        ours: Option<Node<'_>>,
        shape: &Shape,
    ) {
        let Some(live) = live.filter(|live| !live.is_null()) else {
            if !self.may_be_missing(wanted, ours, shape) {
                self.differs(Some(wanted), None);
            }
            return;
        };
        match (wanted, live) {
            (Value::Object(wanted_fields), Value::Object(live_fields)) => {
                let atomic = self.schema.is_atomic(shape)
                    || (*shape == Shape::Any && !wanted_fields.is_empty() && self.is_leaf(live_fields, ours));
                if atomic || self.path.len() > DEEPEST {
                    self.whole(wanted, live, ours, shape);
                } else {
                    self.fields(wanted_fields, live_fields, ours, shape, &|_| false);
                }
            }
            (Value::Array(wanted_items), Value::Array(live_items)) => {
                if !list::walk(self, wanted_items, live_items, ours, shape) {
                    self.whole(wanted, live, ours, shape);
                }
            }
            _ => {
                let says_nothing = scalar::is_empty(wanted) && scalar::is_empty(live);
                if !(says_nothing || scalar::same(wanted, live, shape)) {
                    self.differs(Some(wanted), Some(live));
                }
            }
        }
    }

    /// A map that somebody replaced as a whole is a leaf of their set, though it holds something.
    fn is_leaf(&self, live: &Map<String, Value>, ours: Option<Node<'_>>) -> bool {
        match ours {
            Some(ours) => ours.is_empty(),
            None => !live.is_empty() && self.managers.nodes_at(&self.path).any(Map::is_empty),
        }
    }

    fn whole(&mut self, wanted: &Value, live: &Value, ours: Option<Node<'_>>, shape: &Shape) {
        let admitted = self.without_admitted(wanted, live);
        let live = admitted.as_ref().unwrap_or(live);
        let leniency = Leniency { drops_zeros: self.drops_zeros, ours: ours.is_some() };
        if !atomic::same(self.schema, wanted, live, shape, leniency) {
            self.differs(Some(wanted), Some(live));
        }
    }

    /// The tolerations of a pod without those that admission adds to every pod.
    fn without_admitted(&self, wanted: &Value, live: &Value) -> Option<Value> {
        let is_here =
            matches!(&self.path[..], [Step::Field(a), Step::Field(b)] if a == "spec" && b == "tolerations");
        let (true, Value::Array(wanted), Value::Array(live)) = (self.is_pod && is_here, wanted, live) else {
            return None;
        };
        let key = |toleration: &Value| toleration.get("key").and_then(Value::as_str).map(str::to_owned);
        let added = |toleration: &Value| {
            let key = key(toleration);
            matches!(key.as_deref(), Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"))
                && !wanted.iter().any(|wanted| wanted.get("key").and_then(Value::as_str) == key.as_deref())
        };
        Some(live.iter().filter(|toleration| !added(toleration)).cloned().collect())
    }

    /// Whether a live object without this value can be what became of the wanted one. What is empty or zero is often
    /// left out when it is stored; but if the field was taken away since, then it is no longer in our set.
    fn may_be_missing(&self, wanted: &Value, ours: Option<Node<'_>>, shape: &Shape) -> bool {
        let kept_as_ours = ours.is_some() || !self.managers.is_known();
        match wanted {
            _ if scalar::is_empty(wanted) => kept_as_ours || !matches!(shape, Shape::Struct(_)),
            _ => self.drops_zeros && scalar::is_zero(wanted) && kept_as_ours,
        }
    }

    /// What we have set and no longer want.
    pub(super) fn removed(&mut self, live: &Value, ours: Node<'_>, shape: &Shape) {
        let is_leaf = ours.keys().all(|key| key == ".");
        match live {
            _ if is_leaf || self.path.len() > DEEPEST => {
                if !scalar::is_empty(live) {
                    self.differs(None, Some(live));
                }
            }
            Value::Object(fields) => {
                for (key, below) in ours {
                    let (Some(name), Value::Object(below)) = (key.strip_prefix("f:"), below) else {
                        continue;
                    };
                    if let Some(found) = fields.get(name).filter(|found| !found.is_null()) {
                        let shape = field_shape(self.schema, shape, name);
                        self.path.push(Step::Field(name.to_owned()));
                        self.removed(found, below, shape);
                        self.path.pop();
                    }
                }
            }
            Value::Array(items) => list::removed(self, items, ours, shape),
            _ => self.differs(None, Some(live)),
        }
    }

    /// Notes a difference at the current path.
    pub(super) fn differs(&mut self, wanted: Option<&Value>, live: Option<&Value>) {
        let hidden = self.hides && secret::is_hidden(&self.path);
        self.out.push(Difference {
            path: FieldPath(self.path.clone()),
            wanted: wanted.map(|value| FieldValue::new(value, hidden)),
            live: live.map(|value| FieldValue::new(value, hidden)),
            owner: self.managers.owner(&self.path, live.is_some()),
        });
    }
}

/// Whether the control plane computes the rules of this role.
fn is_aggregated(wanted: &Map<String, Value>) -> bool {
    let says = |name: &str| wanted.get(name).is_some_and(|value| !scalar::is_empty(value));
    says("aggregationRule")
        && !says("rules")
        && is_kind(&Value::Object(wanted.clone()), "rbac.authorization.k8s.io", "ClusterRole")
}

fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_))
}

/// Requests and limits of resources are quantities also in kinds of which nothing is known.
fn quantity_hint(shape: &Shape, path: &[Step], name: &str, value: &Value) -> Option<&'static Shape> {
    static AMOUNTS: std::sync::LazyLock<Shape> =
        std::sync::LazyLock::new(|| Shape::Map { item: Box::new(Shape::Quantity), atomic: false });
    let in_resources = matches!(path.last(), Some(Step::Field(parent)) if parent == "resources");
    (*shape == Shape::Any && in_resources && matches!(name, "requests" | "limits") && value.is_object())
        .then(|| &*AMOUNTS)
}
