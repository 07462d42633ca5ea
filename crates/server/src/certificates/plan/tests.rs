//! Tables of what follows from what.

use super::super::CertificateSpec;
use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Hours since the start of the story.
fn at(hours: i64) -> Timestamp {
    after("2026-01-01T00:00:00Z".parse().unwrap(), HOUR.checked_mul(hours.try_into().unwrap()).unwrap())
}

/// CA for 300 h (due after 200), serving certificate for 90 h (due after 60), overlap of 4 h.
fn spec() -> CertificateSpec {
    CertificateSpec {
        ca_validity: HOUR * 300,
        serving_validity: HOUR * 90,
        overlap: HOUR * 4,
        settle: HOUR,
        backdate: SignedDuration::ZERO,
        ..CertificateSpec::for_service("webhook", "windlass")
    }
}

fn ca(from: i64) -> AuthorityFacts {
    AuthorityFacts {
        serial: format!("{from:02x}"),
        not_before: at(from),
        not_after: at(from + 300),
        key: KeyFacts::Usable,
    }
}

fn serving(from: i64) -> ServingFacts {
    ServingFacts {
        not_before: at(from),
        not_after: at(from + 90),
        names: spec().names,
        key: KeyFacts::Usable,
        signed_by: SignedBy::Ca,
    }
}

/// Everything is well, made at hour 0.
fn well() -> ObservedCertificates {
    ObservedCertificates {
        spec: spec(),
        ca: Piece::Found(ca(0)),
        next_ca: Piece::Missing,
        previous_ca: Piece::Missing,
        serving: Piece::Found(serving(0)),
        next_published_since: None,
    }
}

fn garbage<T>() -> Piece<T> {
    Piece::Garbage("not PEM".into())
}

fn keyless(facts: AuthorityFacts) -> AuthorityFacts {
    AuthorityFacts { key: KeyFacts::Unusable, ..facts }
}

/// A change of the good state, the hour, and what has to follow.
type Case = (&'static str, fn(&mut ObservedCertificates), i64, CertificateAction, Because);

fn check(cases: &[Case]) {
    for (name, change, hour, action, because) in cases {
        let mut observed = well();
        change(&mut observed);
        let plan = plan(&observed, at(*hour));
        assert_eq!((plan.action, plan.because), (*action, *because), "{name}");
    }
}

#[test]
fn damage_is_repaired_with_the_least_that_helps() {
    use Because::*;
    use CertificateAction::*;
    check(&[
        ("empty", |o| (o.ca, o.serving) = (Piece::Missing, Piece::Missing), 1, Create, NothingIsThere),
        ("no CA", |o| o.ca = Piece::Missing, 1, Create, CaUnusable),
        ("CA is garbage", |o| o.ca = garbage(), 1, Create, CaUnusable),
        ("CA from the future", |o| o.ca = Piece::Found(ca(5)), 1, Create, CaUnusable),
        ("CA has expired", |_| {}, 300, Create, CaUnusable),
        (
            "CA is garbage, the next one is not",
            |o| (o.ca, o.next_ca) = (garbage(), Piece::Found(ca(0))),
            1,
            PromoteCa,
            CaUnusable,
        ),
        ("CA key lost", |o| o.ca = Piece::Found(keyless(ca(0))), 1, StageCa, CaKeyUnusable),
        ("no serving", |o| o.serving = Piece::Missing, 1, IssueServing, ServingUnusable),
        ("serving is garbage", |o| o.serving = garbage(), 1, IssueServing, ServingUnusable),
        (
            "serving key is of another",
            |o| o.serving = Piece::Found(ServingFacts { key: KeyFacts::Unusable, ..serving(0) }),
            1,
            IssueServing,
            ServingUnusable,
        ),
        ("serving has expired", |_| {}, 90, IssueServing, ServingExpired),
        (
            "serving is from the future",
            |o| o.serving = Piece::Found(serving(2)),
            1,
            IssueServing,
            ServingExpired,
        ),
        (
            "a name is missing",
            |o| {
                o.spec.names.insert("webhook.example".into());
            },
            1,
            IssueServing,
            ServingNamesDiffer,
        ),
        (
            "signed by nobody we know",
            |o| o.serving = Piece::Found(ServingFacts { signed_by: SignedBy::Nobody, ..serving(0) }),
            1,
            IssueServing,
            ServingUntrusted,
        ),
        (
            "serving and CA key are lost",
            |o| (o.ca, o.serving) = (Piece::Found(keyless(ca(0))), Piece::Missing),
            1,
            Create,
            ServingUnusable,
        ),
        (
            "serving and CA key are lost, the next CA is not",
            |o| {
                o.ca = Piece::Found(keyless(ca(0)));
                o.serving = Piece::Missing;
                o.next_ca = Piece::Found(ca(0));
            },
            1,
            PromoteCa,
            ServingUnusable,
        ),
        ("next CA is garbage", |o| o.next_ca = garbage(), 1, StageCa, StagedCaUnusable),
        ("next CA has no key", |o| o.next_ca = Piece::Found(keyless(ca(0))), 1, StageCa, StagedCaUnusable),
        ("previous CA is garbage", |o| o.previous_ca = garbage(), 1, RetireCa, PreviousCaUnneeded),
    ]);
}

#[test]
fn rotation_goes_by_time_and_publication() {
    use Because::*;
    use CertificateAction::*;
    /// In mid-rotation at hour 200, with a fresh serving certificate.
    fn staged(o: &mut ObservedCertificates, published: Option<i64>) {
        o.serving = Piece::Found(serving(190));
        o.next_ca = Piece::Found(ca(200));
        o.next_published_since = published.map(at);
    }
    fn promoted(o: &mut ObservedCertificates) {
        o.previous_ca = Piece::Found(keyless(ca(0)));
        o.ca = Piece::Found(ca(200));
        o.serving = Piece::Found(serving(204));
    }
    check(&[
        ("young", |_| {}, 59, Keep, AllIsWell),
        ("serving is due", |_| {}, 60, IssueServing, ServingIsDue),
        ("CA is not due", |o| o.serving = Piece::Found(serving(190)), 199, Keep, AllIsWell),
        ("CA is due", |o| o.serving = Piece::Found(serving(190)), 200, StageCa, CaIsDue),
        ("within the overlap", |o| staged(o, Some(200)), 203, Keep, AllIsWell),
        ("after the overlap", |o| staged(o, Some(200)), 204, PromoteCa, StagedCaIsTrusted),
        ("never published", |o| staged(o, None), 230, Keep, AllIsWell),
        ("published late, not settled", |o| staged(o, Some(230)), 230, Keep, AllIsWell),
        ("published late, settled", |o| staged(o, Some(230)), 231, PromoteCa, StagedCaIsTrusted),
        (
            "serving falls due while the next CA waits to be published",
            |o| staged(o, None),
            250,
            IssueServing,
            ServingIsDue,
        ),
        ("never published until the CA has expired", |o| staged(o, None), 300, PromoteCa, CaUnusable),
        ("old serving certificates may be in use", promoted, 207, Keep, AllIsWell),
        ("no longer", promoted, 208, RetireCa, PreviousCaUnneeded),
        (
            "the next rotation waits until the last is over",
            |o| {
                promoted(o);
                o.next_ca = Piece::Found(ca(200));
                o.next_published_since = Some(at(200));
            },
            207,
            Keep,
            AllIsWell,
        ),
        (
            "a serving certificate does not outlive its CA, so there is nothing to gain",
            |o| {
                staged(o, None);
                o.serving = Piece::Found(ServingFacts { not_after: at(300), ..serving(250) });
            },
            290,
            Keep,
            AllIsWell,
        ),
        (
            "signed by the previous CA",
            |o| {
                promoted(o);
                o.serving = Piece::Found(ServingFacts { signed_by: SignedBy::PreviousCa, ..serving(204) });
            },
            220,
            IssueServing,
            ServingSignerDiffers,
        ),
    ]);
}

#[test]
fn wakes_for_the_next_thing_to_do() {
    assert_eq!(plan(&well(), at(1)).wake_at, Some(at(60)), "serving is due");
    let mut staged = well();
    staged.next_ca = Piece::Found(ca(1));
    assert_eq!(plan(&staged, at(1)).wake_at, Some(at(60)), "unpublished: nothing to wait for");
    staged.next_published_since = Some(at(1));
    assert_eq!(plan(&staged, at(1)).wake_at, Some(at(5)), "promotion");
    let mut promoted = well();
    promoted.previous_ca = Piece::Found(ca(0));
    assert_eq!(plan(&promoted, at(1)).wake_at, Some(at(4)), "retirement");
}

#[test]
fn plans_are_plain_data() {
    let planned = plan(&well(), at(60));
    let text = serde_json::to_string(&planned).unwrap();
    assert_eq!(text, r#"{"action":"issueServing","because":"servingIsDue","wakeAt":null}"#);
    assert_eq!(serde_json::from_str::<CertificatePlan>(&text).unwrap(), planned);
    let observed: ObservedCertificates =
        serde_json::from_str(&serde_json::to_string(&well()).unwrap()).unwrap();
    assert_eq!(observed, well());
}
