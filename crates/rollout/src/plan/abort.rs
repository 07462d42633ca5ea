//! What becomes of the new version after an abort: it stays for a while, for good, or shrinks with its traffic.

use windlass_api::rollout::SCALE_DOWN_DEADLINE;

use super::{
    draft::Draft,
    older::{self, after},
    scene::{Scene, Way},
};
use crate::observed::ReplicaSetFacts;

const DEFAULT_DELAY: i32 = 30;

/// How an aborted version goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// By the arithmetic of its strategy.
    Counted,
    /// After so many seconds.
    After(i32),
    /// Not at all.
    Never,
}

/// How the new version goes, if the update is aborted.
pub(crate) fn leaving(scene: &Scene<'_>) -> Leaving {
    if !scene.status.abort || scene.roles.stable.is_none() || scene.promoted() {
        return Leaving::Counted;
    }
    let (asked, dynamic) = match &scene.way {
        Way::BlueGreen(blue_green) => (blue_green.abort_scale_down_delay_seconds, false),
        Way::Canary(canary) if canary.traffic_routing.is_some() => {
            (canary.abort_scale_down_delay_seconds, canary.dynamic_stable_scale)
        }
        Way::Canary(_) => return Leaving::Counted,
    };
    match asked {
        Some(0) => Leaving::Never,
        Some(seconds) => Leaving::After(seconds),
        None if dynamic => Leaving::Counted,
        None => Leaving::After(DEFAULT_DELAY),
    }
}

/// How many pods an aborted version keeps: all that it has, until its deadline has passed. The deadline begins once the
/// stable version can take all of the traffic.
pub(crate) fn kept(scene: &Scene<'_>, draft: &mut Draft, new: &ReplicaSetFacts, delay: i32) -> i32 {
    let latest = after(scene.now, delay);
    match older::deadline(new, latest) {
        Some(deadline) if deadline <= scene.now => 0,
        Some(deadline) => {
            draft.wake_at(deadline);
            new.wanted
        }
        None => {
            let ready = scene.roles.stable.is_some_and(|stable| stable.available >= scene.replicas());
            if ready && new.wanted > 0 {
                draft.wake_at(latest);
                draft.patch(new).annotations.insert(SCALE_DOWN_DEADLINE.into(), Some(latest.to_string()));
            }
            new.wanted
        }
    }
}
