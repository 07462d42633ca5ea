//! The objects of one controller's kind as last seen, and who reads what.
//!
//! Assumes: watch events and the answers to our own writes. Guarantees: for one object (same UID) an older
//! version never replaces a newer one, so a round that follows our own write does not see the state before it.
//! `managedFields` and the last-applied annotation are dropped: nobody here reads them and they are most of the
//! bytes. Objects lie here packed, as JSON: a third of their size in memory, for a few microseconds a round.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

use super::key::{Key, Reference};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What an event changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new or differs from the one before.
    Changed,
    /// Nothing that we did not know.
    Nothing,
}

struct Held<K> {
    object: Kept<K>,
    uid: Option<Box<str>>,
    version: Option<Box<str>>,
    /// Shared with `readers`.
    reads: Box<[Arc<Reference>]>,
}

enum Kept<K> {
    Packed(Box<[u8]>),
    /// What cannot be packed stays as it is.
    Whole(Arc<K>),
}

impl<K: Serialize + DeserializeOwned> Kept<K> {
    fn new(object: K) -> Self {
        match serde_json::to_vec(&object) {
            Ok(bytes) => Self::Packed(bytes.into_boxed_slice()),
            Err(_) => Self::Whole(Arc::new(object)),
        }
    }

    fn object(&self) -> Option<Arc<K>> {
        match self {
            Self::Whole(object) => Some(object.clone()),
            Self::Packed(bytes) => serde_json::from_slice(bytes).map(Arc::new).inspect_err(unreadable).ok(),
        }
    }
}

/// A kind that cannot read what it wrote is a bug of its types. The text of the error may quote the object.
fn unreadable(error: &serde_json::Error) {
    tracing::error!(category = ?error.classify(), "an object cannot be read back: it is passed over");
}

/// See the module's text.
pub struct Store<K> {
    objects: BTreeMap<Key, Held<K>>,
    /// In order of their keys. Most have one reader: a set for each would cost more than the object.
    readers: BTreeMap<Arc<Reference>, Vec<Key>>,
    /// Keys seen in the list that is being read, while one is.
    listing: Option<BTreeSet<Key>>,
}

impl<K: Resource + Serialize + DeserializeOwned> Store<K> {
    /// An empty store.
    pub fn new() -> Self {
        Self { objects: BTreeMap::new(), readers: BTreeMap::new(), listing: None }
    }

    /// Puts an object in. `reads` are the other objects that it depends on.
    pub fn put(&mut self, mut object: K, reads: impl FnOnce(&K) -> Vec<Reference>) -> Change {
        let meta = object.meta_mut();
        meta.managed_fields = None;
        if let Some(annotations) = meta.annotations.as_mut() {
            annotations.remove(LAST_APPLIED);
        }
        let key = Key::of(&object);
        if let Some(listing) = self.listing.as_mut() {
            listing.insert(key.clone());
        }
        if let Some(held) = self.objects.get(&key)
            && !held.is_older_than(object.meta())
        {
            return Change::Nothing;
        }
        let reads = reads(&object);
        self.unread(&key);
        let reads = reads.into_iter().map(|reference| self.read(reference, &key)).collect();
        let uid = object.meta().uid.as_deref().map(Box::from);
        let version = object.meta().resource_version.as_deref().map(Box::from);
        self.objects.insert(key, Held { object: Kept::new(object), uid, version, reads });
        Change::Changed
    }

    /// Notes a reader and gives the shared name of what it reads.
    fn read(&mut self, reference: Reference, key: &Key) -> Arc<Reference> {
        let shared = self.readers.get_key_value(&reference).map(|(shared, _)| shared.clone());
        let shared = shared.unwrap_or_else(|| Arc::new(reference));
        let keys = self.readers.entry(shared.clone()).or_default();
        if let Err(place) = keys.binary_search(key) {
            if keys.is_empty() {
                keys.reserve_exact(1);
            }
            keys.insert(place, key.clone());
        }
        shared
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &Key) {
        self.unread(key);
        self.objects.remove(key);
    }

    /// A list begins: what it does not name is gone when it ends.
    pub fn begin_list(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// The list ended. Returns what it did not name any more.
    pub fn end_list(&mut self) -> Vec<Key> {
        let Some(seen) = self.listing.take() else { return Vec::new() };
        let gone: Vec<Key> = self.objects.keys().filter(|key| !seen.contains(key)).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
        gone
    }

    /// The object as last seen.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).and_then(|held| held.object.object())
    }

    /// Whether there is an object of this name.
    pub fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// Whether this very object is there, and not another one of the same name.
    pub fn holds(&self, key: &Key, object: &K) -> bool {
        self.objects.get(key).is_some_and(|held| held.uid.as_deref() == object.meta().uid.as_deref())
    }

    /// The objects that read this one.
    pub fn readers(&self, reference: &Reference) -> impl Iterator<Item = &Key> {
        self.readers.get(reference).into_iter().flatten()
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn unread(&mut self, key: &Key) {
        let Some(held) = self.objects.get_mut(key) else { return };
        for reference in std::mem::take(&mut held.reads) {
            if let Some(keys) = self.readers.get_mut(&reference) {
                if let Ok(place) = keys.binary_search(key) {
                    keys.remove(place);
                }
                if keys.is_empty() {
                    self.readers.remove(&reference);
                }
            }
        }
    }
}

impl<K: Resource + Serialize + DeserializeOwned> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Held<K> {
    /// Whether `new` is a later state. Another UID is always news. Versions that are not numbers are taken as news
    /// unless they are equal: better one round too many than a change missed.
    fn is_older_than(&self, new: &ObjectMeta) -> bool {
        if new.uid.as_deref() != self.uid.as_deref() {
            return true;
        }
        let number = |version: Option<&str>| version.and_then(|text| text.parse::<u128>().ok());
        let (new, old) = (new.resource_version.as_deref(), self.version.as_deref());
        match (number(new), number(old)) {
            (Some(new), Some(old)) => new > old,
            _ => new != old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.into());
        object.metadata.uid = Some(uid.into());
        object.metadata.resource_version = Some(version.into());
        object
    }

    fn secret(name: &str) -> Reference {
        Reference::secret("ns", name)
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut store = Store::new();
        assert_eq!(store.put(object("a", "1", "10"), |_| vec![]), Change::Changed);
        assert_eq!(store.put(object("a", "1", "9"), |_| vec![]), Change::Nothing);
        assert_eq!(store.put(object("a", "1", "10"), |_| vec![]), Change::Nothing);
        assert_eq!(store.put(object("a", "1", "11"), |_| vec![]), Change::Changed);
        assert_eq!(
            store.put(object("a", "2", "3"), |_| vec![]),
            Change::Changed,
            "made anew with another UID"
        );
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn what_a_list_does_not_name_is_gone() {
        let mut store = Store::new();
        store.put(object("a", "1", "1"), |_| vec![]);
        store.put(object("b", "2", "2"), |_| vec![secret("s")]);
        store.begin_list();
        store.put(object("a", "1", "1"), |_| vec![]);
        assert_eq!(store.end_list().iter().map(|key| &*key.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(store.readers(&secret("s")).count(), 0);
        assert!(store.end_list().is_empty(), "no list, nothing gone");
    }

    #[test]
    fn readers_follow_the_object() {
        let mut store = Store::new();
        store.put(object("a", "1", "1"), |_| vec![secret("old")]);
        store.put(object("a", "1", "2"), |_| vec![secret("new")]);
        assert_eq!(store.readers(&secret("old")).count(), 0);
        assert_eq!(store.readers(&secret("new")).count(), 1);
        store.remove(&Key { namespace: None, name: "a".into() });
        assert_eq!(store.readers(&secret("new")).count(), 0);
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let mut store = Store::new();
        let mut heavy = object("a", "1", "1");
        heavy.metadata.managed_fields = Some(vec![]);
        heavy.metadata.annotations = Some([(LAST_APPLIED.to_owned(), "{}".to_owned())].into());
        store.put(heavy, |_| vec![]);
        let kept = store.get(&Key { namespace: None, name: "a".into() }).unwrap();
        assert!(kept.metadata.managed_fields.is_none());
        assert!(kept.metadata.annotations.as_ref().unwrap().is_empty());
    }
}
