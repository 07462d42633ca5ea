//! Where traffic should go: Service selectors first, then weights and rules on routes.
//!
//! Traffic only ever moves to pods that are ready for it: the canary Service moves to a version that has an available
//! pod, a weight rises only for pods that are there, and it goes back only as far as the stable version can take it.

use windlass_api::rollout::MANAGED_BY;

use super::{
    ab_test,
    action::Action,
    draft::Draft,
    scene::{Scene, pods},
    steps::{Place, Walk},
};
use crate::{
    observed::{HeaderRule, MirrorRule, ReplicaSetFacts, TrafficWish},
    replicas::routed,
};

/// What the routes say now, the worst of them: canary and stable.
pub(crate) fn seen(scene: &Scene<'_>) -> Option<(i32, i32)> {
    let seen = scene.observed.routes.iter().filter_map(|route| route.seen.as_ref());
    seen.map(|seen| (seen.canary, seen.stable)).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// Hash that the canary Service selects.
pub(crate) fn canary_hash<'a>(walk: &Walk<'a>) -> Option<&'a str> {
    let name = walk.canary.canary_service.as_deref()?;
    walk.scene.service(name)?.hash()
}

/// An update was given up for the stable template while a dynamic stable version was small: the version that had the
/// traffic keeps it until enough stable pods are there.
pub(crate) fn returning_to_stable<'a>(walk: &Walk<'a>) -> Option<&'a str> {
    let scene = walk.scene;
    if !scene.promoted() || !walk.routed() || !walk.canary.dynamic_stable_scale {
        return None;
    }
    let serving = canary_hash(walk).filter(|hash| *hash != scene.hash)?;
    let new = scene.roles.new?;
    (new.available < scene.replicas()).then_some(serving)
}

/// The wanted weight of the canary, from the stored place and the pods that are there; `None` leaves the routes alone.
pub(crate) fn weight(walk: &Walk<'_>, place: Place) -> i32 {
    let scene = walk.scene;
    let new = scene.roles.new.filter(|new| new.available > 0);
    if returning_to_stable(walk).is_some() {
        return on_the_way_back(walk, place);
    }
    if scene.promoted() {
        return 0;
    }
    if place.abort {
        return on_the_way_back(walk, place);
    }
    let Some(new) = new else { return 0 };
    if place.promote_full {
        return if walk.canary.dynamic_stable_scale && scene.replicas() > 0 {
            (walk.full() * new.available / scene.replicas()).min(walk.full())
        } else {
            seen(scene).map_or(0, |(canary, _)| canary)
        };
    }
    if walk.canary.steps.is_empty() {
        return 0;
    }
    if walk.at_desired(place, None) { walk.set_weight(place) } else { walk.weight_before(place) }
}

fn on_the_way_back(walk: &Walk<'_>, place: Place) -> i32 {
    let scene = walk.scene;
    let (Some(stable), true) = (scene.roles.stable, walk.canary.dynamic_stable_scale) else { return 0 };
    let wanted = if place.abort { walk.wanted_weight(place) } else { 0 };
    let now = seen(scene).map(|(canary, _)| canary);
    routed::returning(scene.replicas(), walk.full(), wanted, now, pods(stable))
}

/// Our header and mirror rules at the place: what the steps so far have set and not taken away.
fn rules(walk: &Walk<'_>, place: Place) -> (Vec<HeaderRule>, Vec<MirrorRule>) {
    let scene = walk.scene;
    let available = scene.roles.new.is_some_and(|new| new.available > 0);
    if scene.promoted() || place.abort || place.promote_full || !available {
        return Default::default();
    }
    let sticky = scene.spec.strategy.ab_test.as_ref();
    let managed = walk.canary.traffic_routing.iter().flat_map(|routing| &routing.managed_routes);
    let so_far = &walk.canary.steps[..(place.index + 1).min(walk.canary.steps.len())];
    let (mut headers, mut mirrors) = (Vec::new(), Vec::new());
    for route in managed {
        let header = so_far
            .iter()
            .rev()
            .find_map(|step| step.set_header_route.as_ref().filter(|header| header.name == route.name));
        if let Some(header) = header.filter(|header| !header.matches.is_empty()) {
            let sticky_cookie = sticky
                .filter(|test| ab_test::rule(test) == header.name)
                .and_then(|test| test.variant.sticky_cookie.clone());
            headers.push(HeaderRule {
                name: header.name.clone(),
                matches: header.matches.clone(),
                sticky_cookie,
            });
        }
        let mirror = so_far
            .iter()
            .rev()
            .find_map(|step| step.set_mirror_route.as_ref().filter(|mirror| mirror.name == route.name));
        if let Some(mirror) = mirror.filter(|mirror| !mirror.matches.is_empty()) {
            mirrors.push(MirrorRule {
                name: mirror.name.clone(),
                matches: mirror.matches.clone(),
                percentage: mirror.percentage.unwrap_or(100),
            });
        }
    }
    (headers, mirrors)
}

/// What the routes should say; `None`: they stay as they are, because the stable version cannot take its share.
pub(crate) fn wish(walk: &Walk<'_>, place: Place) -> Option<TrafficWish> {
    let scene = walk.scene;
    let canary = weight(walk, place).clamp(0, walk.full());
    if !walk.can_take(scene.roles.stable, walk.full() - canary) {
        return None;
    }
    let additional = super::experiment::weights(walk, place);
    let (headers, mirrors) = rules(walk, place);
    let stable = walk.full() - canary - additional.values().sum::<i32>();
    Some(TrafficWish { stable, canary, additional, headers, mirrors })
}

/// Whether every route says what is wanted at the place.
pub(crate) fn settled(walk: &Walk<'_>, place: Place) -> bool {
    let Some(wish) = wish(walk, place) else { return false };
    scene_routes_say(walk.scene, &wish)
}

fn scene_routes_say(scene: &Scene<'_>, wish: &TrafficWish) -> bool {
    scene.observed.routes.iter().all(|route| route.seen.as_ref() == Some(wish))
}

/// Moves Services and routes of a canary to what the stored place asks for.
pub(crate) fn sync(walk: &Walk<'_>, draft: &mut Draft) {
    let place = walk.stored();
    if walk.changed() {
        return;
    }
    // Without pods there is nothing that a Service could be moved to.
    let stable_is_there = services(walk, place, draft) || walk.scene.replicas() == 0;
    if !walk.routed() {
        return;
    }
    let (Some(stable_service), Some(canary_service)) =
        (walk.canary.stable_service.clone(), walk.canary.canary_service.clone())
    else {
        return;
    };
    let Some(wish) = wish(walk, place).filter(|_| stable_is_there) else {
        draft.settled = false;
        draft.waits_for("waits until the stable version has pods for its share of the traffic");
        return;
    };
    for route in &walk.scene.observed.routes {
        if route.seen.as_ref() == Some(&wish) {
            continue;
        }
        draft.settled = false;
        let before = route.seen.as_ref().map(|seen| seen.canary);
        if before != Some(wish.canary) {
            let from = before.map_or(String::new(), |before| format!(" from {before}"));
            let message = format!(
                "Traffic weight of {} {}{from} to {}",
                route.route.kind.as_str(),
                route.route.name,
                wish.canary
            );
            draft.note("TrafficWeightUpdated", "Route", message);
        }
        draft.traffic(Action::SetTraffic {
            route: route.route.clone(),
            stable_service: stable_service.clone(),
            canary_service: canary_service.clone(),
            wish: wish.clone(),
        });
    }
    if !draft.settled {
        draft.waits_for("waits until the routes say what was written");
    }
}

/// Moves the selectors; whether the stable Service selects the stable version after this round.
fn services(walk: &Walk<'_>, place: Place, draft: &mut Draft) -> bool {
    let scene = walk.scene;
    let stable = scene.roles.stable;
    let stable_service = walk.canary.stable_service.as_deref().unwrap_or_default();
    let canary_service = walk.canary.canary_service.as_deref().unwrap_or_default();
    let is_there = stable.is_none_or(|stable| ensure(scene, draft, stable_service, stable, true));
    if place.abort && scene.has_stable() && !scene.promoted() {
        let back = !walk.routed() || !walk.canary.dynamic_stable_scale || weight(walk, place) == 0;
        if let Some(stable) = stable.filter(|_| back) {
            ensure(scene, draft, canary_service, stable, !walk.routed());
        }
    } else if returning_to_stable(walk).is_none()
        && let Some(new) = scene.roles.new
    {
        ensure(scene, draft, canary_service, new, true);
    }
    is_there
}

/// Points a Service at a `ReplicaSet`, if it has the pods for it: all of them for a Service that is not ours yet, else at
/// least one. Whether the Service selects it after this round.
pub(crate) fn ensure(
    scene: &Scene<'_>,
    draft: &mut Draft,
    service: &str,
    set: &ReplicaSetFacts,
    check: bool,
) -> bool {
    let (Some(facts), Some(hash)) = (scene.service(service), set.hash()) else { return service.is_empty() };
    if facts.hash() == Some(hash) {
        return true;
    }
    let ready = if facts.managed_by.is_none() { set.full() } else { set.available > 0 };
    if check && !ready {
        draft.waits_for(format!(
            "waits until ReplicaSet {} is available before Service {service} selects it",
            set.name
        ));
        return false;
    }
    switch(scene, draft, service, hash);
    true
}

/// Makes a Service select a hash.
pub(crate) fn switch(scene: &Scene<'_>, draft: &mut Draft, service: &str, hash: &str) {
    let Some(facts) = scene.service(service) else { return };
    if facts.hash() == Some(hash) && facts.managed_by == scene.rollout.metadata.name {
        return;
    }
    let from = facts.hash().map(str::to_owned);
    let told = if from.as_deref() == Some(hash) {
        format!("Service {service} is marked with {MANAGED_BY}")
    } else {
        let before = from.as_deref().unwrap_or("all pods");
        format!("Service {service} now selects {hash} instead of {before}")
    };
    draft.note("SwitchService", "Switch", told);
    draft.traffic(Action::SwitchService { name: service.to_owned(), hash: hash.to_owned(), from });
}
