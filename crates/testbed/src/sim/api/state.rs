//! Stored objects with their history.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::admission::Rule;
use super::agenda::Agenda;
use super::clock::TimeSource;
use super::kinds::{Registry, Resource, ResourceKey, builtin_registry};
use super::log::Write;

/// What an object is filed under. The order is that of lists: by namespace, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) resource: ResourceKey,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One committed change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: ObjectKey,
    /// The object after the change; for a removal its last state with the version of the removal.
    pub(crate) object: Arc<Value>,
    pub(crate) previous: Option<Arc<Value>>,
    pub(crate) removed: bool,
}

struct Watcher {
    resource: ResourceKey,
    sender: mpsc::UnboundedSender<Arc<Change>>,
}

/// Everything that the API knows.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) objects: BTreeMap<ObjectKey, Arc<Value>>,
    pub(crate) writes: Vec<Write>,
    pub(crate) agenda: Agenda,
    pub(crate) rules: BTreeMap<String, Rule>,
    pub(crate) automatic_gc: bool,
    /// Whether something was committed since the last collection that the collector may care about.
    pub(crate) collectable: bool,
    version: u64,
    compacted: u64,
    history: Vec<Arc<Change>>,
    watchers: Vec<Watcher>,
    made: u64,
    seed: u64,
    clock: TimeSource,
}

impl State {
    pub(crate) fn new(seed: u64, clock: TimeSource) -> Self {
        Self {
            registry: builtin_registry(),
            objects: BTreeMap::new(),
            writes: Vec::new(),
            agenda: Agenda::default(),
            rules: BTreeMap::new(),
            automatic_gc: true,
            collectable: false,
            version: 1,
            compacted: 0,
            history: Vec::new(),
            watchers: Vec::new(),
            made: 0,
            seed,
            clock,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.registry.get(&ResourceKey::new(group, plural)).cloned()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        self.get(&ObjectKey {
            resource: ResourceKey::new("", "namespaces"),
            namespace: String::new(),
            name: name.to_owned(),
        })
    }

    /// Objects of one resource, in the order of lists.
    pub(crate) fn of_resource(
        &self,
        resource: &ResourceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        let start = ObjectKey { resource: resource.clone(), ..ObjectKey::default() };
        self.objects.range(start..).take_while(move |(key, _)| key.resource == *resource)
    }

    /// Objects of one resource as they were at a version; `None` when that history is gone.
    pub(crate) fn of_resource_at(
        &self,
        resource: &ResourceKey,
        version: u64,
    ) -> Option<BTreeMap<ObjectKey, Arc<Value>>> {
        if version < self.compacted {
            return None;
        }
        let mut objects: BTreeMap<_, _> =
            self.of_resource(resource).map(|(key, object)| (key.clone(), object.clone())).collect();
        let undone = self.history.iter().rev().take_while(|change| change.version > version);
        for change in undone.filter(|change| change.key.resource == *resource) {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// Changes of one resource after a version.
    pub(crate) fn changes_after(&self, resource: &ResourceKey, version: u64) -> Vec<Arc<Change>> {
        let newer = |change: &&Arc<Change>| change.version > version && change.key.resource == *resource;
        self.history.iter().filter(newer).cloned().collect()
    }

    /// Changes of one resource from now on.
    pub(crate) fn subscribe(&mut self, resource: &ResourceKey) -> mpsc::UnboundedReceiver<Arc<Change>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.push(Watcher { resource: resource.clone(), sender });
        receiver
    }

    /// Forgets the history, as etcd does when it compacts: older versions can no longer be read or watched.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    /// Ends every watch, as an API server does that goes away.
    pub(crate) fn drop_watches(&mut self) {
        self.watchers.clear();
    }

    /// Stores an object under a new version.
    pub(crate) fn store(&mut self, key: &ObjectKey, object: Value) -> Arc<Value> {
        self.commit(key, object, false)
    }

    /// Removes an object. Watchers see the state that was stored last, under the version of the removal.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Value>> {
        let last = self.get(key)?;
        Some(self.commit(key, (*last).clone(), true))
    }

    fn commit(&mut self, key: &ObjectKey, mut object: Value, removed: bool) -> Arc<Value> {
        self.version += 1;
        set_metadata(&mut object, "resourceVersion", Some(self.version.to_string().into()));
        let owned = object.pointer("/metadata/ownerReferences").is_some();
        self.collectable |= removed || owned || is_deleting(&object);
        let object = Arc::new(object);
        let previous =
            if removed { self.objects.remove(key) } else { self.objects.insert(key.clone(), object.clone()) };
        let change = Arc::new(Change {
            version: self.version,
            key: key.clone(),
            object: object.clone(),
            previous,
            removed,
        });
        self.history.push(change.clone());
        if !removed {
            let now = self.now();
            self.agenda.stored(now, key, &object);
        }
        self.watchers.retain(|watcher| {
            if watcher.resource == key.resource {
                watcher.sender.send(change.clone()).is_ok()
            } else {
                !watcher.sender.is_closed()
            }
        });
        object
    }

    /// A UID that no other object has.
    pub(crate) fn new_uid(&mut self) -> String {
        self.made += 1;
        let mixed = mix(self.seed ^ self.made);
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            mixed >> 32,
            (mixed >> 16) & 0xffff,
            mixed & 0xfff,
            (mixed >> 12) & 0xfff,
            self.made
        )
    }

    /// A name with a suffix, as for `generateName`.
    pub(crate) fn new_name(&mut self, prefix: &str) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.made += 1;
        let mut left = mix(self.seed.rotate_left(32) ^ self.made);
        let mut name: String = prefix.chars().take(58).collect();
        for _ in 0..5 {
            let at = usize::try_from(left % LETTERS.len() as u64).unwrap_or_default();
            name.push(char::from(LETTERS[at]));
            left /= LETTERS.len() as u64;
        }
        name
    }
}

/// Spreads the bits of a counter (splitmix64), so that made-up identifiers do not look alike.
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A text in an object's metadata, empty when it is absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets or removes a field of an object's metadata.
pub(crate) fn set_metadata(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        match value {
            Some(value) => {
                metadata.insert(field.to_owned(), value);
            }
            None => {
                metadata.shift_remove(field);
            }
        }
    }
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether a delete is under way.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}
