//! Two documents, field by field.

use serde_json::{Map, Value};

use super::atomic::{self, Leniency, field_shape};
use super::keys::{Keys, Members};
use super::path::{FieldPath, Step};
use super::value::FieldValue;
use super::{Difference, list, scalar, secret};
use crate::identity::is_secret;
use crate::schema::{ListKind, Schema, Shape};

/// The differences, in the order of the first document, then what only the second one has.
pub(super) fn compare(schema: &Schema, a: &Value, b: &Value) -> Vec<Difference> {
    let root = schema.root_of(a).filter(|root| schema.root_of(b).is_none_or(|other| other == *root));
    let mut pair = Pair {
        schema,
        leniency: Leniency { drops_zeros: root.is_some_and(|root| root.drops_zeros), ours: false },
        hides: is_secret(a) || is_secret(b),
        path: Vec::new(),
        out: Vec::new(),
    };
    let (mut a, mut b) = (a.clone(), b.clone());
    secret::fold_string_data(&mut a);
    secret::fold_string_data(&mut b);
    let shape = root.map_or(Shape::Any, |root| Shape::Struct(root.id));
    pair.value(Some(&a), Some(&b), &shape);
    pair.out
}

struct Pair<'s> {
    schema: &'s Schema,
    leniency: Leniency,
    hides: bool,
    path: Vec<Step>,
    out: Vec<Difference>,
}

impl Pair<'_> {
    fn value(&mut self, a: Option<&Value>, b: Option<&Value>, shape: &Shape) {
        let (a, b) = (a.filter(|a| !a.is_null()), b.filter(|b| !b.is_null()));
        match (a, b) {
            (None, None) => {}
            (Some(Value::Object(a)), Some(Value::Object(b))) => self.maps(a, b, shape),
            (Some(Value::Array(a)), Some(Value::Array(b))) => self.lists(a, b, shape),
            (Some(a), Some(b)) if scalar::same(a, b, shape) => {}
            (Some(one), None) | (None, Some(one)) if self.says_nothing(one) => {}
            _ => self.differs(a, b),
        }
    }

    fn maps(&mut self, a: &Map<String, Value>, b: &Map<String, Value>, shape: &Shape) {
        let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
        for name in names {
            let (one, other) = (a.get(name), b.get(name));
            if self.is_default(one, other, shape, name) {
                continue;
            }
            let shape = field_shape(self.schema, shape, name);
            self.path.push(Step::Field(name.clone()));
            self.value(one, other, shape);
            self.path.pop();
        }
    }

    /// Whether one side has nothing and the other what the server would put there.
    fn is_default(&self, a: Option<&Value>, b: Option<&Value>, shape: &Shape, name: &str) -> bool {
        let Shape::Struct(id) = shape else { return false };
        let Some(field) = self.schema.field(*id, name) else { return false };
        match (a.filter(|a| !a.is_null()), b.filter(|b| !b.is_null())) {
            (Some(one), None) | (None, Some(one)) => field
                .default
                .as_ref()
                .is_some_and(|default| atomic::same(self.schema, default, one, &field.shape, self.leniency)),
            _ => false,
        }
    }

    fn lists(&mut self, a: &[Value], b: &[Value], shape: &Shape) {
        let item = list::item_of(shape);
        match shape {
            Shape::List { kind: ListKind::Keyed(keys), .. } => {
                let keys_of = |items| list::keys_of_all(self.schema, items, keys, item);
                let both = keys_of(a).zip(keys_of(b));
                match both {
                    Some((a_keys, b_keys)) => self.keyed(a, &a_keys, b, &b_keys, item),
                    None => self.by_place(a, b, item),
                }
            }
            Shape::List { kind: ListKind::Set, .. } => {
                let (ours, theirs) = (Members::new(a, item), Members::new(b, item));
                for member in a.iter().filter(|member| !theirs.holds(member)) {
                    self.at(Step::Member(member.clone()), Some(member), None, item);
                }
                for member in b.iter().filter(|member| !ours.holds(member)) {
                    self.at(Step::Member(member.clone()), None, Some(member), item);
                }
            }
            _ => self.by_place(a, b, item),
        }
    }

    fn keyed(&mut self, a: &[Value], a_keys: &Keys, b: &[Value], b_keys: &Keys, shape: &Shape) {
        for (item, key) in a.iter().zip(a_keys.all()) {
            let other = b_keys.find(key).map(|at| &b[at]);
            self.at(Step::Key(key.clone()), Some(item), other, shape);
        }
        for (item, key) in b.iter().zip(b_keys.all()) {
            if a_keys.find(key).is_none() {
                self.at(Step::Key(key.clone()), None, Some(item), shape);
            }
        }
    }

    /// Items that nothing tells apart: place by place, so that one change in a long list is one difference.
    fn by_place(&mut self, a: &[Value], b: &[Value], shape: &Shape) {
        for at in 0..a.len().max(b.len()) {
            self.at(Step::Index(at), a.get(at), b.get(at), shape);
        }
    }

    fn at(&mut self, step: Step, a: Option<&Value>, b: Option<&Value>, shape: &Shape) {
        self.path.push(step);
        // An item is there or it is not, however little it says.
        if a.is_some() == b.is_some() {
            self.value(a, b, shape);
        } else {
            self.differs(a, b);
        }
        self.path.pop();
    }

    fn says_nothing(&self, value: &Value) -> bool {
        scalar::is_empty(value) || (self.leniency.drops_zeros && scalar::is_zero(value))
    }

    fn differs(&mut self, a: Option<&Value>, b: Option<&Value>) {
        let hidden = self.hides && secret::is_hidden(&self.path);
        self.out.push(Difference {
            path: FieldPath(self.path.clone()),
            wanted: a.map(|value| FieldValue::new(value, hidden)),
            live: b.map(|value| FieldValue::new(value, hidden)),
            owner: None,
        });
    }
}
