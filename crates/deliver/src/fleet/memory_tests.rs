#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::json;
use windlass_manifest::health::{Health, Status};

use super::*;
use crate::fleet::Fate;

fn app() -> Key {
    Key { namespace: Some("team".into()), name: "shop".into() }
}

fn sealed(value: &str) -> Sealed {
    Sealed::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"},
        "data": {"k": value}}))
    .unwrap()
}

fn live(version: &str, owned: u8) -> Live {
    Live {
        uid: "u".into(),
        version: version.into(),
        owned: [owned; 32],
        health: Health { status: Status::Healthy, message: String::new() },
        owner: Some("team/shop".into()),
        operation: None,
        deleting: false,
        fate: Fate::default(),
    }
}

fn verdict(ruling: Ruling) -> Verdict {
    Verdict { object: sealed("1").id().clone(), cluster: Some("east".into()), policy: "p".into(), ruling }
}

fn found(state: State, live: Option<Live>, ruling: Option<Ruling>) -> Found {
    Found { wanted: sealed("1"), state, live, verdict: ruling.map(verdict) }
}

struct Case {
    memory: Memory,
    app: Key,
    key: ObjectKey,
    wanted: Sealed,
}

impl Case {
    fn new(found: &Found) -> Self {
        let wanted = sealed("1");
        let case = Self { memory: Memory::default(), app: app(), key: wanted.id().key(), wanted };
        let known = found.live.clone();
        case.memory.keep(&case.question(known.as_ref()), found);
        case
    }

    fn question<'a>(&'a self, known: Option<&'a Live>) -> Question<'a> {
        Question {
            app: &self.app,
            key: &self.key,
            wanted: &self.wanted,
            rules: [0; 32],
            as_user: None,
            known,
        }
    }

    fn recall(&self, known: Option<&Live>) -> Option<Found> {
        self.memory.recall(&self.question(known))
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_object_stays_the_same_until_a_field_of_ours_changes() {
    let case = Case::new(&found(State::Same, Some(live("1", 1)), None));
    let recalled = case.recall(Some(&live("2", 1))).unwrap();
    assert_eq!(recalled.live.unwrap().version, "2", "what the index knows is told");
    assert!(case.recall(Some(&live("2", 2))).is_none());
    assert!(case.recall(Some(&Live { uid: "other".into(), ..live("1", 1) })).is_none());
    let other = sealed("2");
    assert!(case.memory.recall(&Question { wanted: &other, ..case.question(Some(&live("1", 1))) }).is_none());
    let ruled = Question { rules: [1; 32], ..case.question(None) };
    assert!(case.memory.recall(&ruled).is_none(), "other rules may find otherwise");
}

#[tokio::test(start_paused = true)]
async fn what_was_found_with_ignored_fields_counts_for_that_version_only() {
    let mut with_live_values = found(State::Same, Some(live("1", 1)), None);
    with_live_values.wanted = sealed("live");
    let case = Case::new(&with_live_values);
    assert_eq!(case.recall(Some(&live("1", 1))).unwrap().wanted, sealed("live"));
    assert!(case.recall(Some(&live("2", 1))).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_asked_for_again_sooner_than_a_pass() {
    let refused =
        Case::new(&found(State::Differs(Vec::new()), Some(live("1", 1)), Some(Ruling::Refused("no".into()))));
    let passed = Case::new(&found(State::Differs(Vec::new()), Some(live("1", 1)), Some(Ruling::Pass)));
    let verdict = |case: &Case| case.recall(Some(&live("1", 1))).unwrap().verdict;
    assert!(verdict(&refused).is_some() && verdict(&passed).is_some());
    tokio::time::advance(REFUSAL_HOLDS).await;
    assert!(verdict(&refused).is_none() && verdict(&passed).is_some());
    tokio::time::advance(PASS_HOLDS).await;
    assert!(verdict(&passed).is_none());
    assert!(passed.recall(Some(&live("2", 1))).is_none(), "a new version may differ otherwise");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_counts_only_for_the_user_it_was_given_to() {
    let case = Case::new(&found(State::Missing, None, Some(Ruling::Pass)));
    assert!(case.recall(None).unwrap().verdict.is_some());
    let as_other = Question { as_user: Some("somebody"), ..case.question(None) };
    assert!(case.memory.recall(&as_other).unwrap().verdict.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_no_watch_vouches_for_counts_for_seconds_only() {
    let case = Case::new(&found(State::Missing, None, None));
    assert!(case.recall(None).is_some());
    assert!(case.recall(Some(&live("1", 1))).is_none(), "it is there now");
    tokio::time::advance(UNSEEN_HOLDS).await;
    assert!(case.recall(None).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_would_be_new_is_not_tried_out_again_while_its_verdict_counts() {
    let passed = Case::new(&found(State::Missing, None, Some(Ruling::Pass)));
    let refused = Case::new(&found(State::Missing, None, Some(Ruling::Refused("no".into()))));
    assert!(passed.recall(Some(&live("1", 1))).is_none(), "it is there now");
    tokio::time::advance(UNSEEN_HOLDS).await;
    assert!(passed.recall(None).unwrap().verdict.is_some());
    assert!(refused.recall(None).unwrap().verdict.is_some());
    tokio::time::advance(REFUSAL_HOLDS.saturating_sub(UNSEEN_HOLDS)).await;
    assert!(passed.recall(None).unwrap().verdict.is_some());
    assert!(refused.recall(None).is_none());
    tokio::time::advance(PASS_HOLDS.saturating_sub(REFUSAL_HOLDS)).await;
    assert!(passed.recall(None).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_runs_and_what_is_to_come_are_both_remembered() {
    let case = Case::new(&found(State::Same, Some(live("1", 1)), None));
    let known = live("1", 1);
    let ask = |wanted: &Sealed| {
        case.memory.recall(&Question { wanted, ..case.question(Some(&known)) }).map(|found| found.state)
    };
    let keep = |wanted: &Sealed| {
        let found =
            Found { wanted: wanted.clone(), ..found(State::Differs(Vec::new()), Some(live("1", 1)), None) };
        case.memory.keep(&Question { wanted, ..case.question(Some(&known)) }, &found);
    };
    let (newer, newest) = (sealed("2"), sealed("3"));
    keep(&newer);
    assert_eq!((ask(&case.wanted), ask(&newer)), (Some(State::Same), Some(State::Differs(Vec::new()))));
    keep(&newest);
    assert_eq!(ask(&case.wanted), None, "no more than two");
    assert!(ask(&newer).is_some() && ask(&newest).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_application_can_be_forgotten() {
    let case = Case::new(&found(State::Missing, None, None));
    case.memory.forget(&Key { namespace: None, name: "other".into() });
    assert!(case.recall(None).is_some());
    case.memory.forget(&app());
    assert!(case.recall(None).is_none());
}

#[test]
fn the_namespaces_of_a_change_are_known() {
    let namespace =
        Sealed::new(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).unwrap();
    let all = [sealed("1"), namespace];
    assert_eq!(namespaces_of(&all, Some("made")), BTreeSet::from(["made", "n"]));
}
