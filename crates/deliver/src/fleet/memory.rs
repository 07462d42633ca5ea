//! What was found out about objects of one cluster by asking, so that it is not asked again.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use windlass_cluster::drive::Key;
use windlass_manifest::{diff, digest, digest::Digest, identity::ObjectKey, schema::Schema};

use super::{Found, Live, State, lru::Lru};
use crate::{
    gate::{Ruling, Verdict},
    object::Sealed,
};

/// A refusal, or an error, of a dry run is not asked for again within this time. Policies change without any sign on the
/// object, so whoever is held back by one should look again after it.
pub const REFUSAL_HOLDS: Duration = Duration::from_secs(30);

/// A pass is not asked for again within this time.
const PASS_HOLDS: Duration = Duration::from_secs(300);

/// How long a state counts that no watch vouches for: of an object that does not carry our label, or is not there.
const UNSEEN_HOLDS: Duration = Duration::from_secs(10);

/// How long the schema of a custom kind counts.
const SCHEMA_HOLDS: Duration = Duration::from_secs(300);

/// Wishes that are remembered of one object: what runs, and what is to come. Both are looked at while the newer one is
/// held back or waits for its wave.
const WISHES: usize = 2;

const ENTRIES: usize = 10_000;
const SCHEMAS: usize = 512;

/// What was found out about the objects of one cluster. Bounded; never shows content.
pub struct Memory {
    /// Newest first.
    entries: Mutex<Lru<(Key, ObjectKey), Vec<Entry>>>,
    comparable: Mutex<Lru<Digest, Digest>>,
    schemas: Mutex<Lru<(String, String), KindSchema>>,
}

/// What was read of a custom kind.
#[derive(Clone)]
pub(super) struct KindSchema {
    at: Instant,
    /// `None` when there is no definition that can be read.
    pub(super) schema: Option<Arc<Schema>>,
    /// Versions whose objects cannot have a status.
    pub(super) mute: Arc<BTreeSet<String>>,
}

#[derive(Clone)]
struct Entry {
    /// Of the object as it was asked for, before anything was ignored.
    wanted: Digest,
    rules: Digest,
    at: Instant,
    found: Found,
    judged: Option<Judged>,
}

#[derive(Clone)]
struct Judged {
    at: Instant,
    as_user: Option<String>,
}

/// What is looked for in a [`Memory`].
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) app: &'a Key,
    pub(super) key: &'a ObjectKey,
    pub(super) wanted: &'a Sealed,
    /// Digest of the rules by which differences are ignored.
    pub(super) rules: Digest,
    pub(super) as_user: Option<&'a str>,
    /// What the index has of the object.
    pub(super) known: Option<&'a Live>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            entries: Mutex::new(Lru::new(ENTRIES)),
            comparable: Mutex::new(Lru::new(ENTRIES)),
            schemas: Mutex::new(Lru::new(SCHEMAS)),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// Forgets an Application.
    pub fn forget(&self, app: &Key) {
        lock(&self.entries).retain(|(of, _)| of != app);
    }

    /// Forgets everything, for a cluster that is another one now.
    pub fn clear(&self) {
        lock(&self.entries).retain(|_| false);
        lock(&self.schemas).retain(|_| false);
    }

    /// What was found before, if it still counts; without a verdict where there is none that still counts.
    pub(super) fn recall(&self, question: &Question<'_>) -> Option<Found> {
        let mut entries = lock(&self.entries);
        let known = entries.get(&(question.app.clone(), question.key.clone()))?;
        let entry = known.iter().find(|entry| entry.is_about(question))?;
        if !entry.holds(question) {
            return None;
        }
        let mut found = entry.found.clone();
        if let Some(known) = question.known {
            found.live = Some(known.clone());
        }
        if !entry.verdict_holds(question.as_user) {
            found.verdict = None;
        }
        Some(found)
    }

    /// Keeps what was found.
    pub(super) fn keep(&self, question: &Question<'_>, found: &Found) {
        let now = Instant::now();
        let judged =
            found.verdict.is_some().then(|| Judged { at: now, as_user: question.as_user.map(str::to_owned) });
        let entry = Entry {
            wanted: *question.wanted.digest(),
            rules: question.rules,
            at: now,
            found: found.clone(),
            judged,
        };
        let key = (question.app.clone(), question.key.clone());
        let mut entries = lock(&self.entries);
        let mut known = entries.remove(&key).unwrap_or_default();
        known.retain(|entry| !entry.is_about(question));
        known.insert(0, entry);
        known.truncate(WISHES);
        entries.insert(key, known);
    }

    /// The digest of the fields that an object sets, as [`Live::owned`] has it once it is applied.
    pub(super) fn comparable(&self, wanted: &Sealed) -> Digest {
        if let Some(known) = lock(&self.comparable).get(wanted.digest()) {
            return *known;
        }
        let found = digest::digest(&diff::comparable(wanted.object()));
        lock(&self.comparable).insert(*wanted.digest(), found);
        found
    }

    /// What was read of a kind lately.
    pub(super) fn schema(&self, group: &str, kind: &str) -> Option<KindSchema> {
        let mut schemas = lock(&self.schemas);
        let known = schemas.get(&(group.to_owned(), kind.to_owned()))?;
        (known.at.elapsed() < SCHEMA_HOLDS).then(|| known.clone())
    }

    pub(super) fn keep_schema(
        &self,
        group: &str,
        kind: &str,
        schema: Option<Arc<Schema>>,
        mute: BTreeSet<String>,
    ) -> KindSchema {
        let known = KindSchema { at: Instant::now(), schema, mute: Arc::new(mute) };
        lock(&self.schemas).insert((group.to_owned(), kind.to_owned()), known.clone());
        known
    }
}

impl Entry {
    fn is_about(&self, question: &Question<'_>) -> bool {
        self.wanted == *question.wanted.digest() && self.rules == question.rules
    }

    fn holds(&self, question: &Question<'_>) -> bool {
        let (Some(known), Some(seen)) = (question.known, &self.found.live) else {
            // Nothing tells of a change: what is not in the index cannot be followed.
            return question.known.is_none() && self.at.elapsed() < self.unseen_holds();
        };
        if known.uid != seen.uid {
            return false;
        }
        match &self.found.state {
            // A change of what we set shows in `owned`; what is ignored shows only in the version.
            State::Same if self.found.wanted == *question.wanted => known.owned == seen.owned,
            State::Same | State::Differs(_) | State::Foreign(_) => known.version == seen.version,
            _ => false,
        }
    }

    /// What was tried out and would be new is not tried out again before its verdict ends: with a thousand Applications
    /// in the queue, minutes lie between the look and the work, and whoever applies it looks first whether somebody
    /// else has made it meanwhile.
    fn unseen_holds(&self) -> Duration {
        match (&self.found.state, &self.found.verdict) {
            (State::Missing, Some(verdict)) => holds_for(verdict),
            _ => UNSEEN_HOLDS,
        }
    }

    fn verdict_holds(&self, as_user: Option<&str>) -> bool {
        let (Some(judged), Some(verdict)) = (&self.judged, &self.found.verdict) else { return false };
        let long = holds_for(verdict);
        judged.as_user.as_deref() == as_user && judged.at.elapsed() < long
    }
}

fn holds_for(verdict: &Verdict) -> Duration {
    match verdict.ruling {
        Ruling::Pass | Ruling::Warned(_) => PASS_HOLDS,
        Ruling::Refused(_) | Ruling::Error(_) => REFUSAL_HOLDS,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The namespaces that come with a change.
pub(super) fn namespaces_of<'a>(wanted: &'a [Sealed], makes: Option<&'a str>) -> BTreeSet<&'a str> {
    let brought = wanted
        .iter()
        .map(Sealed::id)
        .filter(|id| id.group.is_empty() && id.kind == "Namespace")
        .map(|id| id.name.as_str());
    brought.chain(makes).collect()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
