//! Where a canary is in its steps, and what that place asks for: a weight, and numbers of pods.

use windlass_api::rollout::{
    Canary, CanaryStep,
    canary::{CanaryScale, ProgressThreshold, ThresholdType},
};

use super::scene::{Scene, pods};
use crate::{
    observed::ReplicaSetFacts,
    replicas::{Counts, basic, routed},
    revision::steps_hash,
};

/// The weight that stands for everything when nothing else is said.
const FULL: i32 = 100;

/// A place in the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The step; as many as there are steps, when all are done.
    pub(crate) index: usize,
    /// The update is taken back.
    pub(crate) abort: bool,
    /// All that is left is skipped.
    pub(crate) promote_full: bool,
}

/// A canary and where it is.
pub(crate) struct Walk<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) canary: &'a Canary,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, canary: &'a Canary) -> Self {
        Self { scene, canary }
    }

    /// The place that is stored.
    pub(crate) fn stored(&self) -> Place {
        let status = &self.scene.status;
        let index = status.current_step_index.and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
        Place {
            index: index.min(self.canary.steps.len()),
            abort: status.abort,
            promote_full: status.promote_full,
        }
    }

    /// The steps are not those that the stored index counts, and an update is in the middle of them: nothing moves.
    pub(crate) fn changed(&self) -> bool {
        let scene = self.scene;
        let stored = scene.status.current_step_hash.as_ref();
        let in_steps =
            scene.has_stable() && !scene.promoted() && !scene.status.abort && !scene.status.promote_full;
        in_steps && stored.is_some_and(|stored| *stored != steps_hash(&self.canary.steps))
    }

    pub(crate) fn step(&self, place: Place) -> Option<&'a CanaryStep> {
        self.canary.steps.get(place.index)
    }

    /// Steps up to the place, the newest first.
    fn back(&self, place: Place) -> impl Iterator<Item = &'a CanaryStep> {
        let end = (place.index + 1).min(self.canary.steps.len());
        self.canary.steps[..end].iter().rev()
    }

    pub(crate) fn full(&self) -> i32 {
        let routing = self.canary.traffic_routing.as_ref();
        routing.and_then(|routing| routing.max_traffic_weight).unwrap_or(FULL)
    }

    pub(crate) fn routed(&self) -> bool {
        self.canary.traffic_routing.is_some()
    }

    /// The weight of the last `setWeight` up to the place; everything once all steps are done.
    pub(crate) fn set_weight(&self, place: Place) -> i32 {
        if place.abort {
            return 0;
        }
        if place.index >= self.canary.steps.len() {
            return self.full();
        }
        self.back(place).find_map(|step| step.set_weight).unwrap_or(0)
    }

    /// The weight of the last `setWeight` before the place.
    pub(crate) fn weight_before(&self, place: Place) -> i32 {
        let before = &self.canary.steps[..place.index.min(self.canary.steps.len())];
        before.iter().rev().find_map(|step| step.set_weight).unwrap_or(0)
    }

    /// The weight that numbers of pods follow.
    pub(crate) fn wanted_weight(&self, place: Place) -> i32 {
        let roles = &self.scene.roles;
        match (roles.new, roles.stable) {
            (Some(new), Some(stable)) if place.abort && self.canary.dynamic_stable_scale => {
                let weights: Vec<i32> = self.canary.steps.iter().filter_map(|step| step.set_weight).collect();
                let replicas = self.scene.replicas();
                routed::stepping_back(replicas, self.full(), &weights, pods(new), pods(stable))
            }
            _ => self.set_weight(place),
        }
    }

    /// The `setCanaryScale` that counts at the place.
    fn scale_step(&self, place: Place) -> Option<&'a CanaryScale> {
        if !self.routed() || place.index >= self.canary.steps.len() {
            return None;
        }
        if place.abort && self.canary.abort_scale_down_delay_seconds != Some(0) {
            return None;
        }
        let scale = self.back(place).find_map(|step| step.set_canary_scale.as_ref())?;
        (!scale.match_traffic_weight).then_some(scale)
    }

    fn scale(&self, place: Place) -> routed::Scale {
        if place.promote_full || !self.scene.has_stable() || self.scene.promoted() {
            return routed::Scale::Weight(self.full());
        }
        match self.scale_step(place) {
            Some(CanaryScale { replicas: Some(replicas), .. }) => routed::Scale::Replicas((*replicas).max(0)),
            Some(CanaryScale { weight: Some(weight), .. }) => routed::Scale::Weight(*weight),
            _ => routed::Scale::Weight(self.wanted_weight(place)),
        }
    }

    /// How many pods the new and the stable version should have next. `weights` are canary and stable as routed now.
    pub(crate) fn counts(&self, place: Place, weights: Option<(i32, i32)>) -> Counts {
        let scene = self.scene;
        let scale = self.scale(place);
        if self.routed() {
            return routed::counts(&routed::Goal {
                replicas: scene.replicas(),
                full: self.full(),
                scale,
                dynamic: self.canary.dynamic_stable_scale,
                at_least: self.canary.min_pods_per_replica_set,
                aborting: place.abort,
                weights,
            });
        }
        let weight = match scale {
            routed::Scale::Weight(weight) => weight,
            routed::Scale::Replicas(_) => 0,
        };
        let goal = basic::Goal { limits: scene.limits(), weight, full: self.full() };
        let older = scene.roles.other.iter().map(|set| set.wanted).sum();
        basic::next(&goal, Some(scene.new_pods()), scene.roles.old().map(pods), older)
    }

    /// Whether the pods that the place asks for are there.
    pub(crate) fn at_desired(&self, place: Place, weights: Option<(i32, i32)>) -> bool {
        let counts = self.counts(place, weights);
        let roles = &self.scene.roles;
        let threshold = self.canary.replica_progress_threshold.as_ref();
        if !reached(threshold, roles.new, counts.canary) {
            return false;
        }
        if !(self.routed() && self.canary.dynamic_stable_scale) {
            let created =
                |set: &ReplicaSetFacts| set.wanted == counts.stable && set.replicas == counts.stable;
            // With nothing but the new version there is no stable one to wait for.
            if !roles.old().map_or(counts.stable == 0 || roles.stable.is_some(), created) {
                return false;
            }
        }
        // Without routes every pod serves traffic: old revisions have to be gone.
        self.routed() || roles.other.iter().all(|set| set.available == 0)
    }

    /// Whether a `ReplicaSet` has enough available pods for a share of the traffic.
    pub(crate) fn can_take(&self, set: Option<&ReplicaSetFacts>, weight: i32) -> bool {
        let Some(set) = set else { return false };
        let wanted =
            i64::from(weight.max(0)) * i64::from(self.scene.replicas()) / i64::from(self.full().max(1));
        let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
        set.available >= wanted
            || self.canary.replica_progress_threshold.is_some()
                && reached(self.canary.replica_progress_threshold.as_ref(), Some(set), wanted)
    }
}

/// Whether enough of the wanted pods are available.
pub(crate) fn reached(
    threshold: Option<&ProgressThreshold>,
    set: Option<&ReplicaSetFacts>,
    wanted: i32,
) -> bool {
    let Some(set) = set else { return false };
    match threshold {
        Some(ProgressThreshold { type_: ThresholdType::Percent, value }) if *value >= 0 => {
            i64::from(set.available) * 100 >= i64::from(wanted) * i64::from(*value)
        }
        Some(ProgressThreshold { type_: ThresholdType::Pods, value }) if *value >= 0 => {
            set.available >= *value
        }
        _ => set.wanted == wanted && set.available == wanted,
    }
}

/// A step in a few words.
pub(crate) fn words(step: &CanaryStep) -> String {
    if let Some(weight) = step.set_weight {
        return format!("setWeight: {weight}");
    }
    if let Some(pause) = &step.pause {
        return pause
            .duration
            .as_ref()
            .map_or_else(|| "pause".into(), |duration| format!("pause: {duration}"));
    }
    if let Some(scale) = &step.set_canary_scale {
        return match scale {
            CanaryScale { weight: Some(weight), .. } => format!("setCanaryScale: weight {weight}"),
            CanaryScale { replicas: Some(replicas), .. } => format!("setCanaryScale: replicas {replicas}"),
            _ => "setCanaryScale: matchTrafficWeight".into(),
        };
    }
    if let Some(route) = &step.set_header_route {
        return format!("setHeaderRoute: {}", route.name);
    }
    if let Some(route) = &step.set_mirror_route {
        return format!("setMirrorRoute: {}", route.name);
    }
    if step.analysis.is_some() { "analysis".into() } else { "experiment".into() }
}

/// The share of the new version among available pods, for people.
pub(crate) fn share_of_pods(scene: &Scene<'_>) -> i32 {
    let available = |set: &ReplicaSetFacts| i64::from(set.available);
    let all: i64 = scene.roles.all.iter().map(|set| available(set)).sum();
    let new = scene.roles.new.map_or(0, available);
    if all == 0 { 0 } else { i32::try_from(new * 100 / all).unwrap_or(0) }
}
