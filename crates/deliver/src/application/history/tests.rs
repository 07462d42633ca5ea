#![allow(clippy::unwrap_used)]

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

fn deployment(revision: &str, result: DeploymentResult) -> Deployment {
    Deployment {
        revision: revision.into(),
        digest: Some(format!("d-{revision}")),
        result,
        ..Deployment::default()
    }
}

fn made(list: &[(&str, DeploymentResult)]) -> Vec<Deployment> {
    let mut history = Vec::new();
    for (revision, result) in list {
        record(&mut history, deployment(revision, *result));
    }
    history
}

use DeploymentResult::{Failed, RolledBack, Succeeded, Superseded};

#[test]
fn deployments_are_numbered_newest_first_and_only_so_many_are_kept() {
    let mut history = Vec::new();
    for at in 0..(HISTORY + 7) {
        record(&mut history, deployment(&format!("c{at}"), Succeeded));
    }
    assert_eq!(history.len(), HISTORY);
    let ids: Vec<u64> = history.iter().map(|known| known.id).collect();
    let newest = HISTORY as u64 + 7;
    assert_eq!(ids, (newest + 1 - HISTORY as u64..=newest).rev().collect::<Vec<_>>());
}

#[test]
fn the_same_again_goes_on_and_does_not_repeat() {
    let begun = Time(Timestamp::from_second(1_800_000_000).unwrap());
    let later = Time(Timestamp::from_second(1_800_000_500).unwrap());
    let mut history = Vec::new();
    record(
        &mut history,
        Deployment { started_at: Some(begun.clone()), by: Some("eve".into()), ..deployment("a", Failed) },
    );
    let again = Deployment {
        started_at: Some(later.clone()),
        finished_at: Some(later.clone()),
        ..deployment("a", Succeeded)
    };
    record(&mut history, again);
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].id, history[0].result), (1, Succeeded));
    assert_eq!((&history[0].started_at, &history[0].finished_at), (&Some(begun), &Some(later)));
    assert_eq!(history[0].by.as_deref(), Some("eve"));

    record(&mut history, Deployment { digest: Some("other values".into()), ..deployment("a", Succeeded) });
    record(&mut history, deployment("b", Superseded));
    record(&mut history, deployment("a", Succeeded));
    assert_eq!(history.iter().map(|known| known.id).collect::<Vec<_>>(), [4, 3, 2, 1]);
}

#[test]
fn the_previous_good_deployment_is_the_last_that_ran_and_was_something_else() {
    let history = made(&[("a", Succeeded), ("b", Succeeded), ("c", RolledBack), ("d", Failed)]);
    let good = |current: &str| previous_good(&history, current).map(|known| known.revision.as_str());
    assert_eq!(good("d"), Some("b"));
    assert_eq!(good("b"), Some("a"));
    assert_eq!(good("a"), None);
    assert_eq!(good("not yet deployed"), Some("b"));
    assert_eq!(previous_good(&[], "a"), None);

    let mut history = made(&[("a", Succeeded)]);
    record(&mut history, Deployment { digest: Some("same".into()), ..deployment("b", Succeeded) });
    record(&mut history, Deployment { digest: Some("same".into()), ..deployment("c", Failed) });
    assert_eq!(previous_good(&history, "c").unwrap().revision, "a", "b has the same content");
}

fn pin(to: Option<&str>, excludes: &str, by: Option<&str>) -> Pin {
    Pin { to: to.map(str::to_owned), excludes: excludes.into(), by: by.map(str::to_owned), ..Pin::default() }
}

#[test]
fn a_pin_is_in_force_while_the_source_is_at_what_it_excludes() {
    let asked = r#"{"to":"a","excludes":"b","by":"eve"}"#;
    assert_eq!(pin_in_force(Some(asked), None, "b", None, &[]), Ok(Some(pin(Some("a"), "b", Some("eve")))));
    assert_eq!(pin_in_force(Some(asked), None, "c", None, &[]), Ok(None), "the source moved past it");
    assert_eq!(pin_in_force(None, None, "b", None, &[]), Ok(None));
}

#[test]
fn a_pin_without_a_target_leads_to_where_the_source_was_before() {
    let asked = Some(r#"{"excludes":"b"}"#);
    let history = made(&[("x", Succeeded), ("b", Failed)]);
    let to = |before, status: Option<&Pin>| {
        pin_in_force(asked, status, "b", before, &history).unwrap().unwrap().to.unwrap()
    };
    assert_eq!(to(Some("w"), None), "w");
    assert_eq!(to(None, None), "x");
    assert_eq!(to(Some("b"), None), "x", "before and now are the same commit");
    let found = pin(Some("kept"), "b", Some("somebody"));
    assert_eq!(to(Some("w"), Some(&found)), "kept", "what was found once stays");
    let of_another = pin(Some("kept"), "z", None);
    assert_eq!(to(Some("w"), Some(&of_another)), "w");
}

#[test]
fn an_automatic_pin_lives_in_the_status_and_one_that_was_asked_for_ends_with_its_annotation() {
    let automatic = pin(Some("a"), "b", None);
    assert_eq!(pin_in_force(None, Some(&automatic), "b", None, &[]), Ok(Some(automatic.clone())));
    assert_eq!(pin_in_force(None, Some(&automatic), "c", None, &[]), Ok(None));
    let past = Some(r#"{"to":"a","excludes":"z"}"#);
    assert_eq!(
        pin_in_force(past, Some(&automatic), "b", None, &[]),
        Ok(Some(automatic)),
        "an old request changes nothing"
    );
    let asked = pin_in_force(Some(r#"{"to":"a","excludes":"b"}"#), None, "b", None, &[]).unwrap().unwrap();
    assert_eq!(pin_in_force(None, Some(&asked), "b", None, &[]), Ok(None), "the annotation was taken away");
}

#[test]
fn a_pin_that_cannot_be_followed_says_why() {
    for (annotation, part) in [
        ("back please", "cannot be read"),
        ("{}", "excludes"),
        (r#"{"excludes":" "}"#, "empty"),
        (r#"{"excludes":"b","to":""}"#, "empty"),
        (r#"{"excludes":"b"}"#, "nothing before it"),
        (r#"{"excludes":"b","to":"b"}"#, "which is the commit that it excludes"),
    ] {
        let trouble = pin_in_force(Some(annotation), None, "b", None, &[]).unwrap_err();
        assert_eq!(trouble.reason, INVALID_PIN);
        assert!(trouble.what.contains(part), "{annotation}: {trouble:?}");
        assert!(trouble.remedy.contains(PIN_ANNOTATION) || trouble.remedy.contains("excludes"));
    }
}

proptest! {
    #[test]
    fn history_is_always_short_numbered_downwards_and_without_repetition(drawn in proptest::collection::vec((0..4_u8, 0..3_u8), 0..60)) {
        let mut history = Vec::new();
        for (revision, result) in drawn {
            let result = [Succeeded, Failed, RolledBack][usize::from(result)];
            record(&mut history, deployment(&format!("c{revision}"), result));
            prop_assert_eq!(history[0].result, result);
        }
        prop_assert!(history.len() <= HISTORY);
        prop_assert!(history.windows(2).all(|two| two[0].id == two[1].id + 1));
        prop_assert!(history.windows(2).all(|two| two[0].revision != two[1].revision));
    }

    #[test]
    fn a_pin_in_force_never_leads_to_what_it_excludes(
        to in proptest::option::of("[abc]"), excludes in "[abc]", head in "[abc]", before in proptest::option::of("[abc]"),
        runs in proptest::collection::vec("[abc]", 0..4),
    ) {
        let history = made(&runs.iter().map(|revision| (revision.as_str(), Succeeded)).collect::<Vec<_>>());
        let annotation = serde_json::to_string(&pin(to.as_deref(), &excludes, None)).unwrap();
        if let Ok(Some(found)) = pin_in_force(Some(&annotation), None, &head, before.as_deref(), &history) {
            prop_assert_eq!(&found.excludes, &head);
            prop_assert!(found.to.is_some_and(|to| to != head));
        }
    }
}
