//! Objects that are being made on a cluster: one after the other has the word.
//!
//! An API server lets a manager apply over its own fields, so it cannot keep two Applications of one process apart when
//! both make the same object at the same moment. Who looks whether an object is there and makes it then does both
//! under the object's word: the next one sees what came of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use windlass_manifest::identity::ObjectKey;

/// Words by object; only of those that somebody holds or waits for.
#[derive(Debug, Default)]
pub(super) struct Makings {
    words: Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// The word for one object. Others have it once this is dropped.
pub(super) struct Word<'a> {
    makings: &'a Makings,
    /// `None` only while it is dropped.
    held: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Makings {
    /// Waits for the word about an object. Who came first has it first.
    pub(super) async fn word(&self, key: &ObjectKey) -> Word<'_> {
        let word = Arc::clone(self.words().entry(key.clone()).or_default());
        let held = word.lock_owned().await;
        Word { makings: self, held: Some(held) }
    }

    fn words(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Word<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        // The map has one, and everybody who holds it or waits for it has one. Few objects are made at a time.
        self.makings.words().retain(|_, word| Arc::strong_count(word) > 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(name: &str) -> ObjectKey {
        crate::object::ObjectId {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: name.into(),
        }
        .key()
    }

    #[tokio::test]
    async fn the_word_about_an_object_is_had_by_one_at_a_time_and_forgotten_after_the_last() {
        let makings = Makings::default();
        let first = makings.word(&key("a")).await;
        let _other = makings.word(&key("b")).await;
        let (a, waiting) = (key("a"), Arc::new(Mutex::new(Vec::new())));
        let second = async {
            let _word = makings.word(&a).await;
            waiting.lock().unwrap().push("second");
        };
        let end = async {
            tokio::task::yield_now().await;
            waiting.lock().unwrap().push("first");
            drop(first);
        };
        tokio::join!(second, end);
        assert_eq!(*waiting.lock().unwrap(), ["first", "second"]);
        assert_eq!(makings.words().keys().collect::<Vec<_>>(), [&key("b")]);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let makings = Makings::default();
        let first = makings.word(&key("a")).await;
        let a = key("a");
        tokio::select! {
            biased;
            _word = makings.word(&a) => unreachable!("somebody has it"),
            () = tokio::task::yield_now() => {}
        }
        drop(first);
        assert!(makings.words().is_empty());
    }
}
