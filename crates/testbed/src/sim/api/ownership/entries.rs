//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fields::FieldSet;

/// At most so many managers of updates are told apart; the oldest are merged into one.
const MOST_UPDATE_MANAGERS: usize = 10;

/// `operation` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: Option<Timestamp>,
    pub(crate) set: FieldSet,
}

/// What tells entries apart: appliers are the same in every API version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    operation: Operation,
    manager: String,
    api_version: String,
    subresource: String,
}

impl Entry {
    pub(crate) fn id(&self) -> Id {
        Id {
            operation: self.operation,
            manager: self.manager.clone(),
            api_version: if self.operation == Operation::Apply {
                String::new()
            } else {
                self.api_version.clone()
            },
            subresource: self.subresource.clone(),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            manager: text("manager"),
            operation: match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            },
            api_version: Some(text("apiVersion")).filter(|version| !version.is_empty())?,
            subresource: text("subresource"),
            time: value.get("time").and_then(Value::as_str).and_then(|time| time.parse().ok()),
            set: match text("fieldsType").as_str() {
                "FieldsV1" => FieldSet::from_json(value.get("fieldsV1").unwrap_or(&json!({})))?,
                _ => return None,
            },
        })
    }

    fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("manager".into(), self.manager.clone().into());
        out.insert("operation".into(), self.operation.name().into());
        out.insert("apiVersion".into(), self.api_version.clone().into());
        if let Some(time) = self.time {
            out.insert("time".into(), super::super::clock::seconds(time).into());
        }
        out.insert("fieldsType".into(), "FieldsV1".into());
        out.insert("fieldsV1".into(), self.set.to_json());
        if !self.subresource.is_empty() {
            out.insert("subresource".into(), self.subresource.clone().into());
        }
        Value::Object(out)
    }

    /// How conflict messages name the manager.
    fn describe(&self) -> String {
        let mut name = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            name = format!("{name} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            name = format!("{name} using {}", self.api_version);
        }
        name
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries(BTreeMap<Id, Entry>);

impl Entries {
    /// The entries of an object; `None` when there are none or one cannot be read.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let list = object.pointer("/metadata/managedFields")?.as_array()?;
        let entries = list.iter().map(|entry| Entry::parse(entry).map(|entry| (entry.id(), entry)));
        entries.collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the entries into an object, in the order that the API server uses.
    pub(crate) fn store(&self, object: &mut Value) {
        let mut list: Vec<&Entry> = self.0.values().filter(|entry| !entry.set.is_empty()).collect();
        list.sort_by_key(|entry| {
            let seconds = entry.time.map_or(0, Timestamp::as_second);
            (entry.operation, seconds, &entry.manager, &entry.api_version, &entry.subresource)
        });
        let Some(metadata) = object
            .as_object_mut()
            .map(|object| object.entry("metadata").or_insert_with(|| json!({})))
            .and_then(Value::as_object_mut)
        else {
            return;
        };
        if list.is_empty() {
            metadata.shift_remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), list.into_iter().map(Entry::to_json).collect());
        }
    }

    /// Every path that anybody owns.
    pub(crate) fn all(&self) -> FieldSet {
        self.0.values().fold(FieldSet::default(), |all, entry| all.union(&entry.set))
    }

    pub(crate) fn remove(&mut self, id: &Id) -> Option<Entry> {
        self.0.remove(id)
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        self.0.insert(entry.id(), entry);
    }

    /// Adds fields to an entry, which gets the time `now`.
    pub(crate) fn add(&mut self, mut entry: Entry, now: Timestamp) {
        if let Some(previous) = self.0.get(&entry.id()) {
            entry.set = entry.set.union(&previous.set);
        }
        // What comes through a scale is accounted to the object by a way that knows no times.
        entry.time = (entry.subresource != "scale").then_some(now);
        self.insert(entry);
    }

    /// Takes fields away from all entries, and drops entries that have none left.
    pub(crate) fn take_away(&mut self, set: &FieldSet) {
        for entry in self.0.values_mut() {
            entry.set = entry.set.difference(set);
        }
        self.0.retain(|_, entry| !entry.set.is_empty());
    }

    /// Which of the changed fields have an owner: a description of the owner, and the path.
    pub(crate) fn conflicts(&self, changed: &FieldSet) -> Vec<(String, String)> {
        self.0
            .values()
            .flat_map(|entry| {
                let owner = entry.describe();
                entry.set.intersection(changed).paths().into_iter().map(move |path| (owner.clone(), path))
            })
            .collect()
    }

    /// Merges the oldest update managers until there are not too many.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<(i64, Id)> = self
            .0
            .iter()
            .filter(|(_, entry)| entry.operation == Operation::Update)
            .map(|(id, entry)| (entry.time.map_or(0, Timestamp::as_second), id.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut first: BTreeMap<String, Id> = BTreeMap::new();
        for (_, id) in updaters {
            if count <= MOST_UPDATE_MANAGERS {
                return;
            }
            let Some(first) = first.get(&id.api_version).cloned() else {
                first.insert(id.api_version.clone(), id);
                continue;
            };
            let Some(entry) = self.0.remove(&id) else {
                continue;
            };
            let merged = self.0.remove(&first).map(|entry| entry.set).unwrap_or_default();
            let bucket = Entry {
                manager: "ancient-changes".into(),
                subresource: String::new(),
                set: entry.set.union(&merged),
                ..entry
            };
            let bucket = match self.0.remove(&bucket.id()) {
                Some(previous) => Entry { set: bucket.set.union(&previous.set), ..bucket },
                None => bucket,
            };
            self.insert(bucket);
            count -= 1;
        }
    }
}
