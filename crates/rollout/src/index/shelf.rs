//! Objects of one kind as last seen, cut to what is needed.
//!
//! Assumes: watch events and answers to our own writes. Guarantees: for one object (same UID) an older version never
//! replaces a newer one, so that a round that follows our own write does not see the state before it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace (empty for none) and name.
pub(crate) type Place = (String, String);

#[derive(Debug)]
struct Held<R> {
    uid: String,
    version: String,
    record: R,
    /// A watch has brought it. What only our own write put here is still news when the watch brings it.
    watched: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Shelf<R> {
    held: BTreeMap<String, BTreeMap<String, Held<R>>>,
    /// Seen in the list that is being read, while one is.
    listing: Option<BTreeSet<Place>>,
    /// The API serves this kind.
    pub(crate) served: bool,
}

impl<R> Default for Shelf<R> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), listing: None, served: true }
    }
}

pub(crate) fn place(meta: &ObjectMeta) -> Place {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

impl<R> Shelf<R> {
    /// Puts in what a watch brought. False if it is known, or older than what is known.
    pub(crate) fn put(&mut self, meta: &ObjectMeta, record: R) -> bool {
        self.keep(meta, record, true)
    }

    /// Puts in what the API answered to our own write.
    pub(crate) fn put_own(&mut self, meta: &ObjectMeta, record: R) {
        self.keep(meta, record, false);
    }

    fn keep(&mut self, meta: &ObjectMeta, record: R, watched: bool) -> bool {
        let (namespace, name) = place(meta);
        if let Some(listing) = self.listing.as_mut() {
            listing.insert((namespace.clone(), name.clone()));
        }
        let uid = meta.uid.clone().unwrap_or_default();
        let version = meta.resource_version.clone().unwrap_or_default();
        let names = self.held.entry(namespace).or_default();
        if let Some(known) = names.get_mut(&name)
            && known.uid == uid
            && !older(&known.version, &version)
        {
            return watched && known.version == version && !std::mem::replace(&mut known.watched, true);
        }
        names.insert(name, Held { uid, version, record, watched });
        true
    }

    /// Takes an object out. One of the same name that is another is left.
    pub(crate) fn remove(&mut self, (namespace, name): &Place, uid: Option<&str>) -> Option<R> {
        let names = self.held.get_mut(namespace)?;
        let same = names.get(name).is_some_and(|held| uid.is_none_or(|uid| held.uid == uid));
        let held = if same { names.remove(name) } else { None };
        if names.is_empty() {
            self.held.remove(namespace);
        }
        held.map(|held| held.record)
    }

    /// A list begins: what it does not name is gone when it ends.
    pub(crate) fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// The list ended. Gives what it did not name any more.
    pub(crate) fn end(&mut self) -> Vec<(Place, R)> {
        self.served = true;
        let Some(seen) = self.listing.take() else { return Vec::new() };
        self.drain(|place| !seen.contains(place))
    }

    /// The kind is not served: there is nothing.
    pub(crate) fn absent(&mut self) -> Vec<(Place, R)> {
        self.served = false;
        self.listing = None;
        self.drain(|_| true)
    }

    fn drain(&mut self, gone: impl Fn(&Place) -> bool) -> Vec<(Place, R)> {
        let all = self
            .held
            .iter()
            .flat_map(|(namespace, names)| names.keys().map(move |name| (namespace.clone(), name.clone())));
        let gone: Vec<Place> = all.filter(gone).collect();
        gone.into_iter().filter_map(|place| Some((place.clone(), self.remove(&place, None)?))).collect()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&R> {
        self.held.get(namespace)?.get(name).map(|held| &held.record)
    }

    /// All of a namespace, by name.
    pub(crate) fn of(&self, namespace: &str) -> impl Iterator<Item = (&String, &R)> {
        self.held.get(namespace).into_iter().flatten().map(|(name, held)| (name, &held.record))
    }

    /// Version of an object.
    pub(crate) fn version(&self, namespace: &str, name: &str) -> Option<&str> {
        self.held.get(namespace)?.get(name).map(|held| held.version.as_str())
    }
}

/// Whether a version comes before another. What is no number is taken for older: it is replaced.
fn older(known: &str, new: &str) -> bool {
    match (known.parse::<u64>(), new.parse::<u64>()) {
        (Ok(known), Ok(new)) => known < new,
        _ => known != new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str, uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("n".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut shelf = Shelf::default();
        assert!(shelf.put(&meta("a", "1", "9"), "new"));
        assert!(!shelf.put(&meta("a", "1", "8"), "old"));
        assert!(!shelf.put(&meta("a", "1", "9"), "same"));
        assert_eq!(shelf.get("n", "a"), Some(&"new"));
        assert!(shelf.put(&meta("a", "2", "3"), "made anew"));
        assert!(shelf.remove(&("n".into(), "a".into()), Some("1")).is_none());
        assert_eq!(shelf.get("n", "a"), Some(&"made anew"));
    }

    #[test]
    fn what_our_own_write_put_there_is_news_once_when_the_watch_brings_it() {
        let mut shelf = Shelf::default();
        shelf.put_own(&meta("a", "1", "9"), "written");
        assert!(!shelf.put(&meta("a", "1", "8"), "old"));
        assert!(shelf.put(&meta("a", "1", "9"), "brought"));
        assert!(!shelf.put(&meta("a", "1", "9"), "brought"));
    }

    #[test]
    fn what_a_list_does_not_name_is_gone() {
        let mut shelf = Shelf::default();
        shelf.put(&meta("a", "1", "1"), 1);
        shelf.put(&meta("b", "2", "2"), 2);
        shelf.begin();
        shelf.put(&meta("b", "2", "2"), 2);
        assert_eq!(shelf.end(), [(("n".to_owned(), "a".to_owned()), 1)]);
        assert_eq!(shelf.of("n").count(), 1);
        assert_eq!(shelf.absent().len(), 1);
        assert!(!shelf.served);
    }
}
