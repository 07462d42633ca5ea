//! The objects of one controller's kind as last seen, and who reads what.
//!
//! Assumes: watch events and the answers to our own writes. Guarantees: for one object (same UID) an older
//! version never replaces a newer one, so a round that follows our own write does not see the state before it.
//! `managedFields` and the last-applied annotation are dropped: nobody here reads them and they are most of the
//! bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::Resource;

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
    object: Arc<K>,
    /// Shared with `readers`.
    reads: Box<[Arc<Reference>]>,
}

/// See the module's text.
pub struct Store<K> {
    objects: BTreeMap<Key, Held<K>>,
    /// In order of their keys. Most have one reader: a set for each would cost more than the object.
    readers: BTreeMap<Arc<Reference>, Vec<Key>>,
    /// Keys seen in the list that is being read, while one is.
    listing: Option<BTreeSet<Key>>,
}

impl<K: Resource> Store<K> {
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
            && !is_newer(object.meta(), held.object.meta())
        {
            return Change::Nothing;
        }
        let reads = reads(&object);
        self.unread(&key);
        let reads = reads.into_iter().map(|reference| self.read(reference, &key)).collect();
        self.objects.insert(key, Held { object: Arc::new(object), reads });
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
    pub fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        self.unread(key);
        self.objects.remove(key).map(|held| held.object)
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
        self.objects.get(key).map(|held| held.object.clone())
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

impl<K: Resource> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `new` is a later state than `old`. Another UID is always news. Versions that are not numbers are taken
/// as news unless they are equal: better one round too many than a change missed.
fn is_newer(
    new: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    old: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> bool {
    if new.uid != old.uid {
        return true;
    }
    let number = |version: &Option<String>| version.as_deref().and_then(|text| text.parse::<u128>().ok());
    match (number(&new.resource_version), number(&old.resource_version)) {
        (Some(new), Some(old)) => new > old,
        _ => new.resource_version != old.resource_version,
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
