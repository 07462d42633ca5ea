//! The facts of one round, sorted: which strategy, which template, which `ReplicaSet` is which.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use windlass_api::rollout::{
    BlueGreen, Canary, Rollout, RolloutSpec, RolloutStatus, Strategy,
    status::{PauseCondition, PauseReason, Phase},
};

use super::{ab_test, pause};
use crate::{
    observed::{Observed, ReplicaSetFacts, ServiceFacts, WorkloadFacts},
    replicas::{Limits, Pods},
    revision::{self, Claim, Roles},
    skew,
};

/// How the update goes: simple and A/B updates are canaries in another dress.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one in a round")]
pub(crate) enum Way<'a> {
    /// Step by step.
    Canary(Cow<'a, Canary>),
    /// One switch.
    BlueGreen(&'a BlueGreen),
}

impl<'a> Way<'a> {
    pub(crate) fn of(strategy: &'a Strategy) -> Option<Self> {
        match strategy {
            Strategy { canary: Some(canary), .. } => Some(Self::Canary(Cow::Borrowed(canary))),
            Strategy { blue_green: Some(blue_green), .. } => Some(Self::BlueGreen(blue_green)),
            Strategy { ab_test: Some(test), .. } => Some(Self::Canary(Cow::Owned(ab_test::as_canary(test)))),
            Strategy { simple: Some(simple), .. } => Some(Self::Canary(Cow::Owned(Canary {
                max_surge: simple.max_surge.clone(),
                max_unavailable: simple.max_unavailable.clone(),
                ..Canary::default()
            }))),
            _ => None,
        }
    }
}

/// The facts of one round, sorted.
pub(crate) struct Scene<'a> {
    pub(crate) observed: &'a Observed,
    pub(crate) rollout: &'a Rollout,
    pub(crate) spec: &'a RolloutSpec,
    /// The status that is stored: everything that is done follows from it.
    pub(crate) status: Cow<'a, RolloutStatus>,
    pub(crate) now: Timestamp,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) way: Way<'a>,
    pub(crate) template: Cow<'a, Value>,
    pub(crate) selector: LabelSelector,
    /// Hash of the newest template: that of its `ReplicaSet`, if it has one.
    pub(crate) hash: String,
    pub(crate) claim: Claim<'a>,
    pub(crate) roles: Roles<'a>,
}

/// The template and selector that count: the Rollout's own, or the workload's.
pub(crate) fn resolved(observed: &Observed) -> Option<(Cow<'_, Value>, LabelSelector)> {
    let spec = &observed.rollout.spec;
    if spec.workload_ref.is_none() {
        return Some((Cow::Borrowed(spec.template.as_ref()?), spec.selector.clone()?));
    }
    let Some(WorkloadFacts::Found { template, selector, .. }) = &observed.workload else { return None };
    let own = spec.selector.clone().filter(|selector| {
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|rules| !rules.is_empty())
    });
    Some((Cow::Borrowed(template.as_ref()), own.unwrap_or_else(|| selector.clone())))
}

impl<'a> Scene<'a> {
    /// Sorts the facts; `None` if there is no template, selector or strategy, which lint has told already.
    pub(crate) fn new(observed: &'a Observed, now: Timestamp) -> Option<Self> {
        let rollout = observed.rollout.as_ref();
        let status =
            rollout.status.as_ref().map_or_else(|| Cow::Owned(RolloutStatus::default()), Cow::Borrowed);
        let status = rebased(status, now);
        let (template, selector) = resolved(observed)?;
        let way = Way::of(&rollout.spec.strategy)?;
        let uid = rollout.metadata.uid.as_deref().unwrap_or_default();
        let deleting = rollout.metadata.deletion_timestamp.is_some();
        let claim = revision::claim(&observed.replica_sets, uid, &selector, deleting);
        let hash = revision::template_hash(&template, status.collision_count.unwrap_or(0));
        let roles = Roles::find(
            claim.ours.clone(),
            &template,
            &hash,
            status.stable_rs.as_deref(),
            ReplicaSetFacts::plain_template,
        );
        let hash = roles.new.and_then(ReplicaSetFacts::hash).map_or(hash, str::to_owned);
        Some(Self {
            observed,
            rollout,
            spec: &rollout.spec,
            status,
            now,
            name: rollout.metadata.name.as_deref().unwrap_or_default(),
            uid,
            way,
            template,
            selector,
            hash,
            claim,
            roles,
        })
    }

    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas
    }

    pub(crate) fn limits(&self) -> Limits {
        match &self.way {
            Way::Canary(canary) => {
                Limits::rolling(self.replicas(), canary.max_surge.as_ref(), canary.max_unavailable.as_ref())
            }
            Way::BlueGreen(blue_green) => {
                Limits::blue_green(self.replicas(), blue_green.max_unavailable.as_ref())
            }
        }
    }

    /// The newest template is the stable one: no update goes on.
    pub(crate) fn promoted(&self) -> bool {
        self.status.stable_rs.as_deref() == Some(&self.hash)
    }

    /// Something is stable already, and its `ReplicaSet` is there.
    pub(crate) fn has_stable(&self) -> bool {
        self.roles.stable.is_some()
    }

    pub(crate) fn paused_for(&self, reason: PauseReason) -> Option<&PauseCondition> {
        self.status.pause_conditions.iter().find(|pause| pause.reason == reason)
    }

    /// Why numbers of pods must not move.
    pub(crate) fn halted(&self) -> bool {
        self.spec.paused
            || self.paused_for(PauseReason::InconclusiveAnalysisRun).is_some()
            || self.paused_for(PauseReason::StepsChanged).is_some()
    }

    /// A person resumed what the controller had paused.
    pub(crate) fn resumed(&self) -> bool {
        self.status.controller_pause && self.status.pause_conditions.is_empty()
    }

    pub(crate) fn service(&self, name: &str) -> Option<&'a ServiceFacts> {
        self.observed.services.get(name).and_then(Option::as_ref)
    }

    /// The new `ReplicaSet`'s pods; none yet if it is not made.
    pub(crate) fn new_pods(&self) -> Pods {
        self.roles.new.map(pods).unwrap_or_default()
    }

    /// The number of the newest revision.
    pub(crate) fn revision(&self) -> i64 {
        let next = revision::next_revision(self.roles.older());
        self.roles.new.map_or(next, |new| new.revision().max(next))
    }

    /// The newest template was made before the stable one: it is a rollback.
    pub(crate) fn is_rollback(&self) -> bool {
        match (self.roles.new, self.roles.stable) {
            (Some(new), Some(stable)) => new.is_older_than(stable),
            _ => false,
        }
    }

    /// A rollback to one of the last revisions, which skips steps and analyses.
    pub(crate) fn within_window(&self) -> bool {
        let (Some(new), Some(stable), Some(window)) =
            (self.roles.new, self.roles.stable, &self.spec.rollback_window)
        else {
            return false;
        };
        let between = self.roles.all.iter().filter(|set| new.is_older_than(set) && set.is_older_than(stable));
        self.is_rollback() && i32::try_from(between.count()).unwrap_or(i32::MAX) < window.revisions
    }

    /// Image of the first container of the newest template.
    pub(crate) fn image(&self) -> Option<String> {
        image(&self.template)
    }
}

/// Waits count from now if a clock was set back since they began.
fn rebased(status: Cow<'_, RolloutStatus>, now: Timestamp) -> Cow<'_, RolloutStatus> {
    let pauses = status.pause_conditions.iter().map(|pause| pause.start_time.0);
    let over = matches!(status.phase, Some(Phase::Completed | Phase::Failed));
    let progress = status.last_progress_time.iter().filter(|_| !over).map(|time| time.0);
    if !pauses.chain(progress).any(|time| skew::is_ahead(time, now)) {
        return status;
    }
    let mut status = status.into_owned();
    for pause in &mut status.pause_conditions {
        if skew::is_ahead(pause.start_time.0, now) {
            pause.start_time = pause::start(now);
        }
    }
    skew::rebase(&mut status.last_progress_time, now);
    Cow::Owned(status)
}

/// Image of a template's first container.
pub(crate) fn image(template: &Value) -> Option<String> {
    template.pointer("/spec/containers/0/image").and_then(Value::as_str).map(str::to_owned)
}

pub(crate) fn pods(set: &ReplicaSetFacts) -> Pods {
    Pods { wanted: set.wanted, available: set.available }
}
