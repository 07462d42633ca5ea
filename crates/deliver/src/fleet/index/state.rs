//! What the index knows, and what each event makes of it. Pure: the watches feed it, and it says who is to be woken.
//!
//! Three things bring news: lists, events, and the answers to our own writes. They come in any order, so versions decide:
//! what is older than what is known is dropped. A list is believed whole: what it does not name is gone. An answer is
//! believed for a while: by then the event of the same write has come, or the object went before its answer arrived.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use kube::api::GroupVersionKind;
use tokio::time::Instant;
use windlass_manifest::identity::ObjectKey;

use super::record::{Fresh, Record, Uid, Version};
use crate::{fleet::Live, trouble::Trouble};

/// Objects that went and are remembered for each kind, so that late news does not bring them back.
const TOMBS: usize = 256;

/// How long the answer to a write is believed before the watch has told the same.
const BELIEVED: Duration = Duration::from_secs(30);

/// Where an object is: its kind by number, its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    kind: u32,
    namespace: Option<Arc<str>>,
    name: Box<str>,
}

/// Everything that is known about one cluster.
#[derive(Debug, Default)]
pub(super) struct State {
    kinds: BTreeMap<u32, Kind>,
    numbers: BTreeMap<(String, String), u32>,
    next: u32,
    owners: BTreeMap<Arc<str>, BTreeSet<Arc<Spot>>>,
    namespaces: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Kind {
    gvk: GroupVersionKind,
    phase: Phase,
    /// Lists that have begun.
    round: u32,
    /// A list is being read.
    listing: bool,
    /// What we wrote and the watch has not told yet.
    answers: BTreeMap<Arc<Spot>, Answer>,
    /// Boxed: the nodes of the map are half empty at times.
    objects: BTreeMap<Arc<Spot>, Box<Record>>,
    /// What went, at which version; without one it never comes back.
    tombs: VecDeque<(Uid, Option<Version>)>,
    /// Somebody waited for the first list in vain.
    missed: bool,
}

/// When a write was answered, and after how many lists had begun.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    round: u32,
}

/// How far the watch of a kind is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// Not listed yet, and what went wrong so far.
    Starting(Option<Trouble>),
    /// Listed, and changes are followed.
    Following,
}

/// What follows from an event.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Effects {
    /// Applications that may have to look.
    pub(super) wake: BTreeSet<Arc<str>>,
    /// All Applications may have to look.
    pub(super) wake_all: bool,
    /// Whoever waits for a list should look again.
    pub(super) progress: bool,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    List,
    Event,
    /// The answer to a write of ours.
    Ours,
}

impl State {
    /// Begins to know about a kind, unless it does; its number then.
    pub(super) fn open(&mut self, gvk: &GroupVersionKind) -> Option<u32> {
        let name = (gvk.group.clone(), gvk.kind.clone());
        if self.numbers.contains_key(&name) {
            return None;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.numbers.insert(name, number);
        self.kinds.insert(
            number,
            Kind {
                gvk: gvk.clone(),
                phase: Phase::Starting(None),
                round: 0,
                listing: false,
                answers: BTreeMap::new(),
                objects: BTreeMap::new(),
                tombs: VecDeque::new(),
                missed: false,
            },
        );
        Some(number)
    }

    /// How far a kind is, in whatever version it is watched; `None` when it is not.
    pub(super) fn phase(&self, gvk: &GroupVersionKind) -> Option<&Phase> {
        let number = self.numbers.get(&(gvk.group.clone(), gvk.kind.clone()))?;
        self.kinds.get(number).map(|kind| &kind.phase)
    }

    /// The kinds that are watched.
    pub(super) fn kinds(&self) -> Vec<GroupVersionKind> {
        self.kinds.values().map(|kind| kind.gvk.clone()).collect()
    }

    /// Somebody gave up waiting for a kind: everybody is woken when it is listed after all.
    pub(super) fn missed(&mut self, gvk: &GroupVersionKind) {
        if let Some(number) = self.numbers.get(&(gvk.group.clone(), gvk.kind.clone()))
            && let Some(kind) = self.kinds.get_mut(number)
        {
            kind.missed = kind.phase != Phase::Following;
        }
    }

    /// A list begins.
    pub(super) fn begins(&mut self, number: u32) {
        if let Some(kind) = self.kinds.get_mut(&number) {
            kind.round = kind.round.wrapping_add(1);
            kind.listing = true;
        }
    }

    /// A list is whole.
    pub(super) fn ends(&mut self, number: u32) -> Effects {
        let mut effects = Effects::default();
        let Some(kind) = self.kinds.get_mut(&number) else { return effects };
        let round = kind.round;
        kind.listing = false;
        let gone: Vec<Arc<Spot>> = kind
            .objects
            .iter()
            .filter(|(_, record)| record.round != round)
            .map(|(spot, _)| Arc::clone(spot))
            .collect();
        if kind.phase != Phase::Following {
            effects.wake_all = kind.missed;
            (kind.phase, kind.missed) = (Phase::Following, false);
        }
        effects.progress = true;
        for spot in gone {
            effects.wake.extend(self.take(&spot).and_then(|record| record.owner));
        }
        self.namespaces.retain(|name| Arc::strong_count(name) > 1);
        effects
    }

    /// The watch of a kind broke; it will be tried again.
    pub(super) fn broken(&mut self, number: u32, trouble: Trouble) -> Effects {
        let Some(kind) = self.kinds.get_mut(&number) else { return Effects::default() };
        if let Phase::Starting(found) = &mut kind.phase {
            *found = Some(trouble);
        }
        Effects { progress: true, ..Effects::default() }
    }

    /// A kind is no longer watched: everything of it is gone.
    pub(super) fn close(&mut self, number: u32) -> Effects {
        let mut effects = Effects { progress: true, ..Effects::default() };
        let Some(kind) = self.kinds.get_mut(&number) else { return effects };
        let name = (kind.gvk.group.clone(), kind.gvk.kind.clone());
        let spots: Vec<Arc<Spot>> = kind.objects.keys().cloned().collect();
        for spot in spots {
            effects.wake.extend(self.take(&spot).and_then(|record| record.owner));
        }
        self.kinds.remove(&number);
        self.numbers.remove(&name);
        effects
    }

    /// An object as it is now.
    pub(super) fn put(&mut self, number: u32, fresh: Fresh, from: From, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let spot = self.spot(number, fresh.namespace.as_deref(), &fresh.name);
        let Some(kind) = self.kinds.get_mut(&number) else { return effects };
        let Some(round) = kind.accept(&spot, &fresh, from, now) else { return effects };
        let known = kind.objects.get(&spot);
        let is_news = known.is_none_or(|known| known.differs(&fresh));
        let before = known.and_then(|known| known.owner.clone());
        // The first list tells nothing that anybody knew otherwise: whoever asked for it looks at it anyway.
        let is_first = from == From::List && kind.phase != Phase::Following;
        let after = self.file(spot, fresh, round, before.as_ref());
        if is_news && !is_first && from != From::Ours {
            effects.wake.extend(before);
            effects.wake.extend(after);
        }
        effects
    }

    /// An object is gone, as an event says; one that was made anew under its name is not.
    pub(super) fn remove(&mut self, number: u32, fresh: &Fresh) -> Effects {
        let mut effects = Effects::default();
        let spot = self.spot(number, fresh.namespace.as_deref(), &fresh.name);
        let Some(kind) = self.kinds.get_mut(&number) else { return effects };
        // It may have lost our label only, and get it back: then its version is newer.
        kind.bury(fresh.uid.clone(), Some(fresh.version.clone()));
        let known = kind.objects.get(&spot).filter(|known| known.uid == fresh.uid);
        if known.is_some_and(|known| !known.version.is_newer(&fresh.version)) {
            effects.wake.extend(self.take(&spot).and_then(|record| record.owner));
        }
        effects
    }

    /// The number of a kind that is watched.
    pub(super) fn number(&self, group: &str, kind: &str) -> Option<u32> {
        self.numbers.get(&(group.to_owned(), kind.to_owned())).copied()
    }

    /// An object went by a write of ours: nobody is woken, and no late event brings it back.
    pub(super) fn bury(&mut self, number: u32, namespace: Option<&str>, name: &str, uid: Uid) {
        let spot = self.spot(number, namespace, name);
        let Some(kind) = self.kinds.get_mut(&number) else { return };
        if kind.objects.get(&spot).is_some_and(|known| known.uid == uid) {
            self.take(&spot);
        }
        if let Some(kind) = self.kinds.get_mut(&number) {
            kind.bury(uid, None);
        }
    }

    /// Forgets an object that no longer carries our label, unless it was made anew.
    pub(super) fn release(&mut self, number: u32, fresh: &Fresh) {
        let spot = self.spot(number, fresh.namespace.as_deref(), &fresh.name);
        let known = self.kinds.get(&number).and_then(|kind| kind.objects.get(&spot));
        if known.is_some_and(|known| known.uid == fresh.uid && fresh.version.is_newer(&known.version)) {
            self.take(&spot);
        }
    }

    /// What is known about an object.
    pub(super) fn get(&self, key: &ObjectKey, now: Instant) -> Option<Live> {
        let number = self.number(&key.group, &key.kind)?;
        let namespace = key.namespace.as_deref().filter(|name| !name.is_empty());
        let spot = Spot { kind: number, namespace: namespace.map(Arc::from), name: key.name.as_str().into() };
        self.kinds.get(&number)?.known(&spot, now).map(Record::live)
    }

    /// The objects that say they belong to an Application.
    pub(super) fn owned_by(&self, owner: &str, now: Instant) -> Vec<(ObjectKey, Live)> {
        let spots = self.owners.get(owner).into_iter().flatten();
        spots
            .filter_map(|spot| {
                let kind = self.kinds.get(&spot.kind)?;
                let record = kind.known(spot, now).filter(|record| record.claimed)?;
                let key = ObjectKey {
                    group: kind.gvk.group.clone(),
                    kind: kind.gvk.kind.clone(),
                    namespace: spot.namespace.as_deref().map(str::to_owned),
                    name: spot.name.to_string(),
                };
                Some((key, record.live()))
            })
            .collect()
    }

    /// Objects that are known.
    pub(super) fn len(&self) -> usize {
        self.kinds.values().map(|kind| kind.objects.len()).sum()
    }

    fn spot(&mut self, kind: u32, namespace: Option<&str>, name: &str) -> Arc<Spot> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).map(|namespace| {
            if let Some(known) = self.namespaces.get(namespace) {
                return Arc::clone(known);
            }
            let new: Arc<str> = Arc::from(namespace);
            self.namespaces.insert(Arc::clone(&new));
            new
        });
        Arc::new(Spot { kind, namespace, name: name.into() })
    }

    /// Files an object; gives whom it belongs to. One that no longer says so still belongs to who had it `before`.
    fn file(
        &mut self,
        spot: Arc<Spot>,
        fresh: Fresh,
        round: u32,
        before: Option<&Arc<str>>,
    ) -> Option<Arc<str>> {
        let claimed = fresh.owner.is_some();
        let owner = match fresh.owner.as_deref() {
            Some(name) => Some(
                self.owners
                    .get_key_value(name)
                    .map_or_else(|| Arc::from(name), |(known, _)| Arc::clone(known)),
            ),
            None => before.cloned(),
        };
        // The name that is filed already is kept, so that it is there only once.
        let filed = self.kinds.get(&spot.kind).and_then(|kind| kind.objects.get_key_value(&spot));
        let spot = filed.map_or(spot, |(filed, _)| Arc::clone(filed));
        if before != owner.as_ref() {
            if let Some(before) = before {
                self.disown(before, &spot);
            }
            if let Some(owner) = &owner {
                self.owners.entry(Arc::clone(owner)).or_default().insert(Arc::clone(&spot));
            }
        }
        let record = Record {
            uid: fresh.uid,
            version: fresh.version,
            owned: fresh.owned,
            message: fresh.health.message.into(),
            owner: owner.clone(),
            round,
            status: fresh.health.status,
            operation: fresh.operation,
            deleting: fresh.deleting,
            fate: fresh.fate,
            claimed,
        };
        if let Some(kind) = self.kinds.get_mut(&spot.kind) {
            kind.objects.insert(spot, Box::new(record));
        }
        owner
    }

    fn take(&mut self, spot: &Arc<Spot>) -> Option<Box<Record>> {
        let kind = self.kinds.get_mut(&spot.kind)?;
        kind.answers.remove(spot);
        let record = kind.objects.remove(spot)?;
        if let Some(owner) = &record.owner {
            self.disown(owner, spot);
        }
        Some(record)
    }

    fn disown(&mut self, owner: &Arc<str>, spot: &Arc<Spot>) {
        if let Some(spots) = self.owners.get_mut(owner) {
            spots.remove(spot);
            if spots.is_empty() {
                self.owners.remove(owner);
            }
        }
    }
}

impl Kind {
    /// Whether what was just read is news, and then the last list that named it.
    fn accept(&mut self, spot: &Arc<Spot>, fresh: &Fresh, from: From, now: Instant) -> Option<u32> {
        if self.is_buried(fresh) {
            return None;
        }
        let round = self.round;
        // A list that is being read now has not named what we write now.
        let unnamed = if self.listing { round.wrapping_sub(1) } else { round };
        let answer = Answer { at: now, round };
        let Some(known) = self.objects.get_mut(spot) else {
            if from == From::Ours {
                self.answers.insert(Arc::clone(spot), answer);
                return Some(unnamed);
            }
            return Some(round);
        };
        let is_same = known.version == fresh.version && known.uid == fresh.uid;
        let is_newer = fresh.version.is_newer(&known.version);
        if from == From::Ours {
            if is_newer {
                self.answers.insert(Arc::clone(spot), answer);
            }
            return is_newer.then_some(known.round);
        }
        // What a list says holds, even when a server that was restored from a backup counts from an earlier number
        // again. Only what we wrote while it is being read may be newer.
        let is_ours = self.answers.get(spot).is_some_and(|answer| self.listing && answer.round == round);
        let believed = from == From::List && known.round != round && !is_ours;
        if from == From::List {
            known.round = round;
        }
        if is_same || is_newer || believed {
            self.answers.remove(spot);
        }
        (!is_same && (is_newer || believed)).then_some(round)
    }

    fn known(&self, spot: &Spot, now: Instant) -> Option<&Record> {
        let doubtful = self.answers.get(spot).is_some_and(|answer| now.duration_since(answer.at) > BELIEVED);
        if doubtful { None } else { self.objects.get(spot).map(Box::as_ref) }
    }

    fn bury(&mut self, uid: Uid, version: Option<Version>) {
        if self.tombs.len() >= TOMBS {
            self.tombs.pop_front();
        }
        self.tombs.push_back((uid, version));
    }

    fn is_buried(&self, fresh: &Fresh) -> bool {
        self.tombs.iter().any(|(uid, version)| {
            *uid == fresh.uid && version.as_ref().is_none_or(|version| !fresh.version.is_newer(version))
        })
    }
}
