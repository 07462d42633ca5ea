//! What to do about the certificates.

use std::net::IpAddr;

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

/// An address can be written in several ways, and a certificate knows only one.
fn canonical(name: &str) -> String {
    name.parse::<IpAddr>().map_or_else(|_| name.to_owned(), |address| address.to_string())
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
        if !observed.spec.names.iter().all(|name| serving.names.contains(&canonical(name))) {
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
mod tests;
