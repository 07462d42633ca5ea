//! A map that forgets what was not used for the longest time.

use std::{borrow::Borrow, collections::BTreeMap};

/// A bounded map. Never holds more than its capacity.
#[derive(Debug)]
pub(super) struct Lru<K, V> {
    capacity: usize,
    now: u64,
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, now: 0, entries: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The entry, which is the most recent one from now on.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (used, value) = self.entries.get_mut(key)?;
        self.now += 1;
        if let Some(key) = self.by_use.remove(used) {
            self.by_use.insert(self.now, key);
        }
        *used = self.now;
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        while self.entries.len() >= self.capacity.max(1) {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        self.now += 1;
        self.by_use.insert(self.now, key.clone());
        self.entries.insert(key, (self.now, value));
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (used, value) = self.entries.remove(key)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Keeps only the entries whose key passes.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.entries.retain(|key, _| keep(key));
        self.by_use.retain(|_, key| keep(key));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_goes_first_and_the_bound_holds() {
        fn see(lru: &mut Lru<&'static str, i32>, key: &str) -> Option<i32> {
            lru.get(key).copied()
        }
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(see(&mut lru, "a"), Some(1));
        lru.insert("c", 3);
        assert_eq!((see(&mut lru, "a"), see(&mut lru, "b")), (Some(1), None));
        lru.insert("a", 4);
        assert_eq!((see(&mut lru, "a"), see(&mut lru, "c"), lru.len()), (Some(4), Some(3), 2));
        lru.retain(|key| *key == "c");
        assert_eq!((see(&mut lru, "a"), see(&mut lru, "c"), lru.len()), (None, Some(3), 1));
        assert_eq!(lru.by_use.len(), 1);
    }
}
