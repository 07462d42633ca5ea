//! The index's state against every order in which news can arrive.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kube::api::GroupVersionKind;
use proptest::prelude::*;
use tokio::time::Instant;
use windlass_manifest::{
    health::{Health, Status},
    identity::ObjectKey,
};

use super::{
    record::{Fresh, Uid, Version},
    state::{Effects, From, Phase, State},
};
use crate::{fleet::Fate, trouble::Trouble};

fn gvk() -> GroupVersionKind {
    GroupVersionKind::gvk("", "v1", "ConfigMap")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: "ConfigMap".into(),
        namespace: Some("shop".into()),
        name: name.into(),
    }
}

fn fresh(name: &str, uid: u8, version: u64) -> Fresh {
    Fresh {
        namespace: Some("shop".into()),
        name: name.into(),
        uid: Uid::Plain([uid; 16]),
        version: Version::Number(version),
        owned: [uid; 32],
        health: Health { status: Status::Healthy, message: String::new() },
        owner: Some("shop/web".into()),
        operation: None,
        deleting: false,
        fate: Fate::default(),
        labelled: true,
    }
}

fn owners(effects: &Effects) -> Vec<&str> {
    effects.wake.iter().map(AsRef::as_ref).collect()
}

/// A state with one kind, listed, with these objects.
fn following(objects: &[Fresh]) -> (State, u32) {
    let mut state = State::default();
    let number = state.open(&gvk()).unwrap();
    list(&mut state, number, objects);
    (state, number)
}

fn list(state: &mut State, number: u32, objects: &[Fresh]) -> Effects {
    let mut all = Effects::default();
    state.begins(number);
    for object in objects {
        all.wake.extend(state.put(number, object.clone(), From::List, Instant::now()).wake);
    }
    let end = state.ends(number);
    all.wake.extend(end.wake);
    (all.wake_all, all.progress) = (end.wake_all, end.progress);
    all
}

fn version(state: &State, name: &str) -> Option<String> {
    state.get(&key(name), Instant::now()).map(|live| live.version)
}

#[test]
fn a_change_wakes_the_owner_and_our_own_write_does_not() {
    let (mut state, number) = following(&[fresh("a", 1, 5)]);
    let now = Instant::now();
    let drifted = Fresh { owned: [9; 32], ..fresh("a", 1, 6) };
    assert_eq!(owners(&state.put(number, drifted, From::Event, now)), ["shop/web"]);
    let healed = fresh("a", 1, 7);
    assert_eq!(state.put(number, healed.clone(), From::Ours, now), Effects::default());
    assert_eq!(state.put(number, healed, From::Event, now), Effects::default(), "the event of our own write");
    let touched = fresh("a", 1, 8);
    assert_eq!(state.put(number, touched, From::Event, now), Effects::default(), "nothing of ours changed");
    assert_eq!(version(&state, "a").as_deref(), Some("8"));
    let ill = Health { status: Status::Degraded, message: "crash".into() };
    let ill = Fresh { health: ill, ..fresh("a", 1, 9) };
    assert_eq!(owners(&state.put(number, ill, From::Event, now)), ["shop/web"]);
}

#[test]
fn an_older_answer_or_event_changes_nothing() {
    let (mut state, number) = following(&[fresh("a", 1, 9)]);
    for from in [From::Ours, From::Event] {
        let old = Fresh { owned: [7; 32], ..fresh("a", 1, 8) };
        assert_eq!(state.put(number, old, from, Instant::now()), Effects::default());
        assert_eq!(version(&state, "a").as_deref(), Some("9"), "{from:?}");
    }
}

#[test]
fn an_object_that_loses_its_owner_wakes_the_one_it_had() {
    let (mut state, number) = following(&[fresh("a", 1, 5)]);
    let now = Instant::now();
    let lost = Fresh { owner: None, ..fresh("a", 1, 6) };
    assert_eq!(owners(&state.put(number, lost.clone(), From::Event, now)), ["shop/web"]);
    assert_eq!(state.get(&key("a"), now).unwrap().owner, None);
    assert!(state.owned_by("shop/web", now).is_empty(), "it says it belongs to nobody");
    let drifted = Fresh { version: Version::Number(7), owned: [9; 32], ..lost };
    assert_eq!(owners(&state.put(number, drifted, From::Event, now)), ["shop/web"]);
    let stolen = Fresh { owner: Some("shop/other".into()), ..fresh("a", 1, 8) };
    assert_eq!(owners(&state.put(number, stolen, From::Event, now)), ["shop/other", "shop/web"]);
    assert_eq!(state.owned_by("shop/other", now).len(), 1);
    assert_eq!(owners(&state.remove(number, &fresh("a", 1, 9))), ["shop/other"]);
    assert!(state.owned_by("shop/other", now).is_empty() && state.len() == 0);
}

#[test]
fn a_re_list_wakes_only_for_what_it_changed() {
    let (mut state, number) = following(&[fresh("a", 1, 5), fresh("b", 2, 6), fresh("c", 3, 7)]);
    let other = Fresh { owner: Some("shop/other".into()), ..fresh("d", 4, 9) };
    let effects = list(&mut state, number, &[fresh("a", 1, 5), fresh("b", 2, 8), other]);
    assert_eq!(owners(&effects), ["shop/other", "shop/web"], "c went and d came");
    assert!(version(&state, "c").is_none() && version(&state, "d").is_some());
    let effects = list(&mut state, number, &[fresh("a", 1, 5), fresh("b", 2, 8)]);
    assert_eq!(owners(&effects), ["shop/other"], "only d went");
}

#[test]
fn a_server_that_counts_anew_after_a_restore_is_believed() {
    let (mut state, number) = following(&[fresh("a", 1, 900)]);
    list(&mut state, number, &[Fresh { owned: [8; 32], ..fresh("a", 1, 40) }]);
    assert_eq!(version(&state, "a").as_deref(), Some("40"));
}

#[test]
fn a_late_event_does_not_bring_back_what_we_deleted() {
    let (mut state, number) = following(&[fresh("a", 1, 5)]);
    state.bury(number, Some("shop"), "a", Uid::Plain([1; 16]));
    let now = Instant::now();
    assert_eq!(state.put(number, fresh("a", 1, 6), From::Event, now), Effects::default());
    assert_eq!(version(&state, "a"), None);
    state.put(number, fresh("a", 2, 7), From::Ours, now);
    assert_eq!(state.remove(number, &fresh("a", 1, 6)), Effects::default(), "the old one, not the new one");
    assert_eq!(version(&state, "a").as_deref(), Some("7"));
}

#[test]
fn an_object_that_lost_our_label_comes_back_with_it() {
    let (mut state, number) = following(&[fresh("a", 1, 5)]);
    assert_eq!(owners(&state.remove(number, &fresh("a", 1, 6))), ["shop/web"]);
    let now = Instant::now();
    state.put(number, fresh("a", 1, 5), From::Ours, now);
    assert_eq!(version(&state, "a"), None, "an answer from before");
    state.put(number, fresh("a", 1, 7), From::Ours, now);
    assert_eq!(version(&state, "a").as_deref(), Some("7"));
    assert_eq!(state.remove(number, &fresh("a", 1, 6)), Effects::default(), "a late event");
    assert_eq!(version(&state, "a").as_deref(), Some("7"));
}

#[test]
fn the_first_list_wakes_nobody_unless_somebody_gave_up_waiting() {
    let mut state = State::default();
    let number = state.open(&gvk()).unwrap();
    assert_eq!(state.open(&gvk()), None);
    assert_eq!(state.phase(&gvk()), Some(&Phase::Starting(None)));
    let effects = list(&mut state, number, &[fresh("a", 1, 5)]);
    assert_eq!(effects, Effects { progress: true, ..Effects::default() });
    let other = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let number = state.open(&other).unwrap();
    state.broken(number, Trouble::passing("ClusterUnreachable", "", ""));
    state.missed(&other);
    assert!(list(&mut state, number, &[]).wake_all);
    assert!(!list(&mut state, number, &[]).wake_all, "only once");
}

#[test]
fn a_kind_that_goes_takes_its_objects_along() {
    let (mut state, number) = following(&[fresh("a", 1, 5)]);
    let effects = state.close(number);
    assert_eq!((owners(&effects), effects.progress), (vec!["shop/web"], true));
    assert_eq!((state.phase(&gvk()), state.len()), (None, 0));
    assert_eq!(state.put(number, fresh("a", 1, 6), From::Event, Instant::now()), Effects::default());
    let again = state.open(&gvk()).unwrap();
    assert_ne!(again, number, "a late event of the old watch is not taken for one of the new");
}

#[test]
fn an_answer_that_no_event_confirms_is_not_believed_for_ever() {
    let (mut state, number) = following(&[]);
    let now = Instant::now();
    state.put(number, fresh("a", 1, 5), From::Ours, now);
    let later = now + Duration::from_secs(31);
    assert!(state.get(&key("a"), now).is_some() && state.get(&key("a"), later).is_none());
    state.put(number, fresh("a", 1, 5), From::Event, now);
    assert!(state.get(&key("a"), later).is_some());
}

/// What happens in a run: writes of others and of ours, and news on its way.
#[derive(Clone, Debug)]
enum Step {
    Write { name: u8, ours: bool },
    Delete { name: u8, ours: bool },
    Unlabel { name: u8 },
    Event,
    Answer { at: u8 },
    Begin,
    Snapshot,
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0u8..3;
    let step = prop_oneof![
        4 => (name.clone(), any::<bool>()).prop_map(|(name, ours)| Step::Write { name, ours }),
        2 => (name.clone(), any::<bool>()).prop_map(|(name, ours)| Step::Delete { name, ours }),
        1 => name.prop_map(|name| Step::Unlabel { name }),
        5 => Just(Step::Event),
        3 => any::<u8>().prop_map(|at| Step::Answer { at }),
        1 => Just(Step::Begin),
        1 => Just(Step::Snapshot),
        1 => Just(Step::End),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Clone, Debug)]
enum News {
    Put(Fresh),
    Gone(Fresh),
}

/// A server with one kind, and one watch on it.
#[derive(Default)]
struct Server {
    version: u64,
    uid: u8,
    /// With whether it has our label.
    objects: BTreeMap<u8, (Fresh, bool)>,
    events: VecDeque<News>,
    answers: Vec<News>,
    #[allow(clippy::option_option, reason = "no list, one that was asked for, one that is being read")]
    listing: Option<Option<VecDeque<Fresh>>>,
}

impl Server {
    fn write(&mut self, name: u8, ours: bool) {
        self.version += 1;
        if !self.objects.contains_key(&name) {
            self.uid += 1;
        }
        let uid = self.objects.get(&name).map_or(Uid::Plain([self.uid; 16]), |(old, _)| old.uid.clone());
        let owned = [u8::try_from(self.version % 250).unwrap(); 32];
        let object = Fresh { uid, owned, ..fresh(&name.to_string(), 0, self.version) };
        self.objects.insert(name, (object.clone(), true));
        self.events.push_back(News::Put(object.clone()));
        if ours {
            self.answers.push(News::Put(object));
        }
    }

    fn delete(&mut self, name: u8, ours: bool) {
        let Some((object, labelled)) = self.objects.remove(&name) else { return };
        self.version += 1;
        let gone = Fresh { version: Version::Number(self.version), ..object };
        if labelled {
            self.events.push_back(News::Gone(gone.clone()));
        }
        if ours {
            self.answers.push(News::Gone(gone));
        }
    }

    fn unlabel(&mut self, name: u8) {
        self.version += 1;
        let version = Version::Number(self.version);
        if let Some((object, labelled)) = self.objects.get_mut(&name).filter(|(_, labelled)| *labelled) {
            object.version = version;
            *labelled = false;
            self.events.push_back(News::Gone(object.clone()));
        }
    }

    fn labelled(&self) -> VecDeque<Fresh> {
        self.objects.values().filter(|(_, labelled)| *labelled).map(|(object, _)| object.clone()).collect()
    }
}

fn deliver(state: &mut State, number: u32, news: News, from: From) {
    match news {
        News::Put(object) => drop(state.put(number, object, from, Instant::now())),
        News::Gone(object) if from == From::Ours => {
            state.bury(number, object.namespace.as_deref(), &object.name, object.uid);
        }
        News::Gone(object) => drop(state.remove(number, &object)),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a step is taken once")]
fn step(server: &mut Server, state: &mut State, number: u32, step: Step) {
    match step {
        Step::Write { name, ours } => server.write(name, ours),
        Step::Delete { name, ours } => server.delete(name, ours),
        Step::Unlabel { name } => server.unlabel(name),
        Step::Answer { at } => {
            if !server.answers.is_empty() {
                let answer = server.answers.remove(usize::from(at) % server.answers.len());
                deliver(state, number, answer, From::Ours);
            }
        }
        // A watch either follows or lists.
        Step::Event => match &mut server.listing {
            None => {
                if let Some(event) = server.events.pop_front() {
                    deliver(state, number, event, From::Event);
                }
            }
            Some(Some(pages)) => {
                if let Some(object) = pages.pop_front() {
                    state.put(number, object, From::List, Instant::now());
                }
            }
            Some(None) => {}
        },
        Step::Begin if server.listing.is_none() => {
            state.begins(number);
            server.listing = Some(None);
        }
        Step::Snapshot if matches!(server.listing, Some(None)) => {
            server.listing = Some(Some(server.labelled()));
            server.events.clear();
        }
        Step::End => {
            if let Some(Some(pages)) = server.listing.take_if(|pages| pages.is_some()) {
                for object in pages {
                    state.put(number, object, From::List, Instant::now());
                }
                state.ends(number);
            }
        }
        Step::Begin | Step::Snapshot => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// In whatever order lists, events and answers come: when all of them are there, the index is the truth.
    #[test]
    fn the_index_ends_up_with_the_truth_in_whatever_order_news_comes(steps in steps()) {
        let (mut state, number) = following(&[]);
        let mut server = Server::default();
        for one in steps {
            step(&mut server, &mut state, number, one);
        }
        for one in [Step::Snapshot, Step::End] {
            step(&mut server, &mut state, number, one);
        }
        while !server.events.is_empty() {
            step(&mut server, &mut state, number, Step::Event);
        }
        while !server.answers.is_empty() {
            step(&mut server, &mut state, number, Step::Answer { at: 0 });
        }
        let later = Instant::now() + Duration::from_secs(60);
        for name in 0..3 {
            let truth = server.objects.get(&name).filter(|(_, labelled)| *labelled);
            let found = state.get(&key(&name.to_string()), later).map(|live| (live.uid, live.version, live.owned));
            let truth = truth.map(|(object, _)| (object.uid.text(), object.version.text(), object.owned));
            prop_assert_eq!(found, truth, "object {}", name);
        }
    }
}
