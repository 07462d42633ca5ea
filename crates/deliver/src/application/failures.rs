//! Which `Rollout`s failed with what is wanted.
//!
//! The index knows how an object fares, not why. Only a `Rollout` that is not well is read as a whole, and only while
//! its revision is not quarantined yet.

use jiff::Timestamp;
use kube::Api;
use windlass_api::{
    GROUP, Rollout,
    condition::{self, Truth},
    rollout::status::{DEGRADED, INVALID_SPEC, Phase},
};
use windlass_manifest::health::Status;

use super::{
    controller::ApplicationController,
    observed::{FailedRollout, Observed, Want},
};
use crate::{
    fleet::{Connector, State},
    object::ObjectId,
    origin::Origin,
};

impl<O: Origin, C: Connector> ApplicationController<O, C> {
    /// Reads the Rollouts that are not well.
    pub(super) async fn failures(&self, observed: &mut Observed) {
        for (cluster, id) in suspects(observed) {
            let Ok(link) = self.fleet.link(&cluster) else { continue };
            let api: Api<Rollout> = Api::namespaced(link.client(), &id.namespace);
            match api.get_opt(&id.name).await {
                Ok(Some(rollout)) => {
                    if let Some((at, reason)) = failure(&rollout) {
                        let object = id.short();
                        observed.failed.push(FailedRollout { cluster, object, at, reason });
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(app = %observed.key, %cluster, rollout = %id, %error, "not read");
                    observed.unsure = true;
                }
            }
        }
    }
}

/// Rollouts that are as wanted by the desired revision, and not well.
fn suspects(observed: &Observed) -> Vec<(String, ObjectId)> {
    let known = observed.status.quarantine.as_ref().map(|known| known.digest.as_str());
    let open = observed.targets.iter().filter(|target| {
        matches!(&target.want, Want::New { digest } if known != Some(digest)) && target.unseen.is_none()
    });
    open.flat_map(|target| {
        let failed = target.found().filter(|found| {
            let id = found.wanted.id();
            let live = found.live.as_ref();
            id.group == GROUP
                && id.kind == "Rollout"
                && found.state == State::Same
                && live.is_some_and(|live| live.health.status == Status::Degraded)
        });
        failed.map(|found| (target.member.name.clone(), found.wanted.id().clone()))
    })
    .collect()
}

/// When and why a Rollout failed, if it did: it was aborted, or did not get on in time. One whose spec cannot be
/// followed was never tried, and tells that itself.
fn failure(rollout: &Rollout) -> Option<(Timestamp, String)> {
    let status = rollout.status.as_ref()?;
    if status.observed_generation < rollout.metadata.generation {
        return None;
    }
    let holds = |type_: &str| {
        condition::get(&status.conditions, type_).filter(|one| one.status == Truth::True.as_str())
    };
    let failed = status.abort || status.phase == Some(Phase::Failed);
    if !failed || holds(INVALID_SPEC).is_some() {
        return None;
    }
    let degraded = holds(DEGRADED);
    let at = status.aborted_at.as_ref().filter(|_| status.abort).map(|at| at.0);
    let at = at.or_else(|| degraded.map(|one| one.last_transition_time.0))?;
    let texts = [status.abort_reason.as_ref().filter(|_| status.abort), status.message.as_ref()];
    let said = texts.into_iter().flatten().chain(degraded.map(|one| &one.message));
    let reason = said.map(|text| text.trim()).find(|text| !text.is_empty()).unwrap_or("the update failed");
    Some((at, reason.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::{Value, json};
    use windlass_api::Rollout;

    use super::failure;

    fn told(status: &Value) -> Option<(String, String)> {
        let rollout: Rollout = serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout",
            "metadata": { "name": "web", "generation": 2 }, "spec": {}, "status": status,
        }))
        .unwrap();
        failure(&rollout).map(|(at, why)| (at.to_string(), why))
    }

    #[test]
    fn a_rollout_failed_when_it_says_so_of_its_newest_spec_and_its_spec_can_be_followed() {
        let condition = |type_: &str| {
            json!([{ "type": type_, "status": "True", "reason": "x", "message": "no progress",
                "lastTransitionTime": "2026-01-01T00:00:01Z" }])
        };
        let some = |at: &str, why: &str| Some((at.to_owned(), why.to_owned()));
        let aborted = json!({ "observedGeneration": 2, "phase": "Failed", "abort": true, "message": "aborted",
            "abortedAt": "2026-01-01T00:00:00Z", "abortReason": "metric errors failed" });
        assert_eq!(told(&aborted), some("2026-01-01T00:00:00Z", "metric errors failed"));
        let late = json!({ "observedGeneration": 2, "phase": "Failed", "conditions": condition("Degraded") });
        assert_eq!(told(&late), some("2026-01-01T00:00:01Z", "no progress"));
        let mut stale = aborted.clone();
        stale["observedGeneration"] = 1.into();
        assert_eq!(told(&stale), None);
        let mut invalid = aborted;
        invalid["conditions"] = condition("InvalidSpec");
        assert_eq!(told(&invalid), None);
        assert_eq!(told(&json!({ "observedGeneration": 2, "phase": "Progressing" })), None);
        assert_eq!(
            told(&json!({ "observedGeneration": 2, "phase": "Failed" })),
            None,
            "since when is not known"
        );
    }
}
