//! What to do about the certificates.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::after;
use super::facts::{AuthorityFacts, KeyFacts, ObservedCertificates, Piece, ServingFacts, SignedBy};

/// One step. Each is one write of the Secret; after it the Secret is read and planned for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CertificateAction {
    /// Nothing to write.
    Keep,
    /// Start anew: a CA and a serving certificate, whatever was there before.
    Create,
    /// A new serving certificate from the CA.
    IssueServing,
    /// Make the next CA and let it be trusted.
    StageCa,
    /// The next CA becomes the CA and issues; the CA becomes the previous one.
    PromoteCa,
    /// The previous CA is no longer trusted.
    RetireCa,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Because {
    /// The Secret is missing or empty.
    NothingIsThere,
    /// The CA is missing, damaged, expired or from the future.
    CaUnusable,
    /// The key of the CA is lost, so that it could not issue when it has to.
    CaKeyUnusable,
    /// Two thirds of the CA's life are over.
    CaIsDue,
    /// The staged CA is damaged or has expired.
    StagedCaUnusable,
    /// Everyone has had the time to learn the staged CA.
    StagedCaIsTrusted,
    /// Nobody uses the previous CA any more.
    PreviousCaUnneeded,
    /// The serving certificate is missing or damaged.
    ServingUnusable,
    /// Its validity is over, or has not begun.
    ServingExpired,
    /// It is not for all the names that are wanted.
    ServingNamesDiffer,
    /// None of the CAs has signed it, or one that is not valid.
    ServingUntrusted,
    /// Two thirds of its life are over.
    ServingIsDue,
    /// Another CA than the one that issues has signed it.
    ServingSignerDiffers,
    /// Everything is as it should be, or a rotation is waiting for its time.
    AllIsWell,
}

/// What to do now, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificatePlan {
    /// The next step.
    pub action: CertificateAction,
    /// Why this one.
    pub because: Because,
    /// When there will be something to do if nothing else changes; `None` together with a step.
    pub wake_at: Option<Timestamp>,
}

/// Plans one step.
///
/// Guarantees, as long as nobody damages the Secret and checks come more often than every `overlap`:
/// * whatever serving certificate was current at any time within the last `overlap`, every bundle that was
///   current within that time trusts it;
/// * a CA is only used once it has been published;
/// * carrying out plans ends in `Keep` after a few steps.
pub fn plan(observed: &ObservedCertificates, now: Timestamp) -> CertificatePlan {
    let view = View { observed, now };
    let (action, because) = view.decide();
    let wake_at = if action == CertificateAction::Keep { view.next_event() } else { None };
    CertificatePlan { action, because, wake_at }
}

struct View<'a> {
    observed: &'a ObservedCertificates,
    now: Timestamp,
}

impl View<'_> {
    fn decide(&self) -> (CertificateAction, Because) {
        let Some(ca) = self.valid(&self.observed.ca) else {
            return self.without_ca();
        };
        let serving = match self.sound_serving() {
            Ok(serving) => serving,
            Err(flaw) => return (self.replace_serving(ca), flaw),
        };
        self.retire(serving)
            .or_else(|| self.rotate_ca(ca))
            .or_else(|| self.rotate_serving(ca, serving))
            .unwrap_or((CertificateAction::Keep, Because::AllIsWell))
    }

    fn without_ca(&self) -> (CertificateAction, Because) {
        let observed = self.observed;
        if self.issuer(&observed.next_ca).is_some() {
            return (CertificateAction::PromoteCa, Because::CaUnusable);
        }
        let nothing = observed.ca.is_missing()
            && observed.next_ca.is_missing()
            && observed.previous_ca.is_missing()
            && observed.serving.is_missing();
        let because = if nothing { Because::NothingIsThere } else { Because::CaUnusable };
        (CertificateAction::Create, because)
    }

    /// Clients fail already: whatever gives a good certificate soonest is best.
    fn replace_serving(&self, ca: &AuthorityFacts) -> CertificateAction {
        if ca.key == KeyFacts::Usable {
            CertificateAction::IssueServing
        } else if self.issuer(&self.observed.next_ca).is_some() {
            CertificateAction::PromoteCa
        } else {
            CertificateAction::Create
        }
    }

    fn retire(&self, serving: &ServingFacts) -> Option<(CertificateAction, Because)> {
        let retired = match &self.observed.previous_ca {
            Piece::Missing => return None,
            Piece::Garbage(_) => true,
            Piece::Found(previous) => {
                previous.not_after <= self.now
                    || (serving.signed_by != SignedBy::PreviousCa && self.now >= self.retire_at(serving))
            }
        };
        retired.then_some((CertificateAction::RetireCa, Because::PreviousCaUnneeded))
    }

    fn rotate_ca(&self, ca: &AuthorityFacts) -> Option<(CertificateAction, Because)> {
        let observed = self.observed;
        if observed.next_ca.is_missing() {
            return if ca.key == KeyFacts::Unusable {
                Some((CertificateAction::StageCa, Because::CaKeyUnusable))
            } else if self.now >= self.due(ca.not_before, ca.not_after) {
                Some((CertificateAction::StageCa, Because::CaIsDue))
            } else {
                None
            };
        }
        let Some(next) = self.issuer(&observed.next_ca) else {
            return Some((CertificateAction::StageCa, Because::StagedCaUnusable));
        };
        // Two rotations never overlap: the bundle would lose a CA that is still in use.
        let promoted =
            observed.previous_ca.is_missing() && self.promote_at(next).is_some_and(|at| self.now >= at);
        promoted.then_some((CertificateAction::PromoteCa, Because::StagedCaIsTrusted))
    }

    fn rotate_serving(
        &self,
        ca: &AuthorityFacts,
        serving: &ServingFacts,
    ) -> Option<(CertificateAction, Because)> {
        if ca.key == KeyFacts::Unusable {
            return None;
        }
        if serving.signed_by != SignedBy::Ca {
            return Some((CertificateAction::IssueServing, Because::ServingSignerDiffers));
        }
        // A certificate does not outlive its CA: when a new one would not last longer, there is nothing to gain.
        let due =
            self.now >= self.due(serving.not_before, serving.not_after) && ca.not_after > serving.not_after;
        due.then_some((CertificateAction::IssueServing, Because::ServingIsDue))
    }

    /// The serving certificate, when clients can trust it.
    fn sound_serving(&self) -> Result<&ServingFacts, Because> {
        let observed = self.observed;
        let serving = observed.serving.found().ok_or(Because::ServingUnusable)?;
        if serving.key == KeyFacts::Unusable {
            return Err(Because::ServingUnusable);
        }
        if !self.within(serving.not_before, serving.not_after) {
            return Err(Because::ServingExpired);
        }
        if !observed.spec.names.is_subset(&serving.names) {
            return Err(Because::ServingNamesDiffer);
        }
        let signer = match serving.signed_by {
            SignedBy::Ca => &observed.ca,
            SignedBy::NextCa => &observed.next_ca,
            SignedBy::PreviousCa => &observed.previous_ca,
            SignedBy::Nobody => return Err(Because::ServingUntrusted),
        };
        self.valid(signer).map(|_| serving).ok_or(Because::ServingUntrusted)
    }

    fn next_event(&self) -> Option<Timestamp> {
        let observed = self.observed;
        let ca = observed.ca.found()?;
        let serving = observed.serving.found()?;
        let mut events = vec![ca.not_after, serving.not_after];
        if ca.key == KeyFacts::Usable {
            events.push(self.due(serving.not_before, serving.not_after));
        }
        match self.issuer(&observed.next_ca) {
            Some(next) => events.extend(self.promote_at(next)),
            None => events.push(self.due(ca.not_before, ca.not_after)),
        }
        if let Some(previous) = observed.previous_ca.found() {
            events.extend([previous.not_after, self.retire_at(serving)]);
        }
        events.into_iter().filter(|at| *at > self.now).min()
    }

    /// When the staged CA may issue; unknown as long as it is not published.
    fn promote_at(&self, next: &AuthorityFacts) -> Option<Timestamp> {
        let spec = &self.observed.spec;
        let published = self.observed.next_published_since?;
        let overlapped = after(self.issued_at(next.not_before), spec.overlap);
        Some(overlapped.max(after(published, spec.settle)))
    }

    fn retire_at(&self, serving: &ServingFacts) -> Timestamp {
        after(self.issued_at(serving.not_before), self.observed.spec.overlap)
    }

    fn issued_at(&self, not_before: Timestamp) -> Timestamp {
        after(not_before, self.observed.spec.backdate)
    }

    /// Two thirds into the life, which begins when it was issued and not when validity was dated back to.
    fn due(&self, not_before: Timestamp, not_after: Timestamp) -> Timestamp {
        let issued_at = self.issued_at(not_before);
        let life = not_after.duration_since(issued_at).max(SignedDuration::ZERO);
        after(issued_at, life / 3 * 2)
    }

    fn within(&self, not_before: Timestamp, not_after: Timestamp) -> bool {
        not_before <= self.now && self.now < not_after
    }

    fn valid<'a>(&self, piece: &'a Piece<AuthorityFacts>) -> Option<&'a AuthorityFacts> {
        piece.found().filter(|facts| self.within(facts.not_before, facts.not_after))
    }

    fn issuer<'a>(&self, piece: &'a Piece<AuthorityFacts>) -> Option<&'a AuthorityFacts> {
        self.valid(piece).filter(|facts| facts.key == KeyFacts::Usable)
    }
}

#[cfg(test)]
mod tests {
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
            (
                "next CA has no key",
                |o| o.next_ca = Piece::Found(keyless(ca(0))),
                1,
                StageCa,
                StagedCaUnusable,
            ),
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
                    o.serving =
                        Piece::Found(ServingFacts { signed_by: SignedBy::PreviousCa, ..serving(204) });
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
}
