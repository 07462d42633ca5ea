//! What the controller remembers of its own work between rounds. In memory only: everything in it can be found out anew.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use windlass_api::application::status::Revert;
use windlass_cluster::drive::Key;

use super::{
    contest::Reverts,
    observed::{Attempt, Batch, RevertTry},
};
use crate::{
    fleet::{Done, Found, State, Work},
    object::ObjectId,
    trouble::Trouble,
};

/// What was tried, per Application.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<BTreeMap<Key, Book>>);

/// What was tried for one Application.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    /// What failed, by cluster.
    pub(super) attempts: BTreeMap<String, BTreeMap<ObjectId, Attempt>>,
    /// What was applied and was not yet seen to be in place, by cluster.
    pub(super) applied: BTreeMap<String, BTreeMap<ObjectId, [u8; 32]>>,
    /// How often what was put back.
    pub(super) reverts: Reverts,
    /// How the last try to revert a revision in the repository ended.
    pub(super) revert: Option<RevertTry>,
}

impl Ledger {
    /// What is known of an Application.
    pub(super) fn book(&self, app: &Key) -> Book {
        self.lock().get(app).cloned().unwrap_or_default()
    }

    /// An Application is gone.
    pub(super) fn forget(&self, app: &Key) {
        self.lock().remove(app);
    }

    /// How these objects were found: as wanted, or not.
    pub(super) fn found<'a>(
        &self,
        app: &Key,
        cluster: &str,
        objects: impl Iterator<Item = &'a Found>,
        now: Timestamp,
    ) {
        let mut books = self.lock();
        let Some(book) = books.get_mut(app) else { return };
        for found in objects {
            let id = found.wanted.id();
            if found.state != State::Same {
                book.reverts.differs(cluster, id, found.wanted.digest(), now);
                continue;
            }
            book.reverts.same(cluster, id, now);
            if let Some(attempts) = book.attempts.get_mut(cluster) {
                attempts.remove(id);
            }
            if let Some(applied) = book.applied.get_mut(cluster) {
                applied.remove(id);
            }
        }
        book.attempts.retain(|_, attempts| !attempts.is_empty());
        book.applied.retain(|_, applied| !applied.is_empty());
    }

    /// How the work of a batch ended.
    pub(super) fn record(&self, app: &Key, batch: &Batch, done: &[Done], now: Timestamp) {
        let mut books = self.lock();
        let book = books.entry(app.clone()).or_default();
        let work: BTreeMap<ObjectId, &Work> =
            batch.steps.iter().flatten().map(|work| (work.object(), work)).collect();
        for done in done {
            let digest = match work.get(&done.object) {
                Some(Work::Apply(wanted) | Work::Put(wanted) | Work::Replace { wanted, .. }) => {
                    *wanted.digest()
                }
                _ => [0; 32],
            };
            match &done.result {
                Ok(()) => {
                    if let Some(attempts) = book.attempts.get_mut(&batch.cluster) {
                        attempts.remove(&done.object);
                    }
                    if digest != [0; 32] {
                        let applied = book.applied.entry(batch.cluster.clone()).or_default();
                        applied.insert(done.object.clone(), digest);
                    }
                    if let Some(one) = batch.reverting.iter().find(|one| one.object == done.object) {
                        book.reverts.reverted(&batch.cluster, &one.object, &one.digest, one.manager(), now);
                    }
                }
                Err(trouble) => {
                    let attempts = book.attempts.entry(batch.cluster.clone()).or_default();
                    let count = attempts
                        .get(&done.object)
                        .filter(|before| before.digest == digest)
                        .map_or(0, |before| before.count);
                    let attempt =
                        Attempt { digest, trouble: trouble.clone(), at: now, count: count.saturating_add(1) };
                    attempts.insert(done.object.clone(), attempt);
                }
            }
        }
    }

    /// How a try to revert a revision in the repository ended.
    pub(super) fn reverted(&self, app: &Key, bad: &str, result: Result<Revert, Trouble>, now: Timestamp) {
        let mut books = self.lock();
        let book = books.entry(app.clone()).or_default();
        let before = book.revert.as_ref().filter(|known| known.bad == bad).map_or(0, |known| known.count);
        let count = if result.is_err() { before.saturating_add(1) } else { 0 };
        book.revert = Some(RevertTry { bad: bad.to_owned(), result, at: now, count });
    }

    /// Nothing here can be left half-done by a panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Book>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
