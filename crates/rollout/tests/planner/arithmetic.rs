//! Numbers of pods, worked out by hand, and what holds for all of them.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use windlass_rollout::replicas::{
    Counts, Limits, Pods,
    basic::{self, Goal, next, split},
    routed, share,
};

fn limits(replicas: i32, surge: i32, unavailable: i32) -> Limits {
    Limits { replicas, surge, unavailable }
}

fn goal(replicas: i32, weight: i32, surge: i32, unavailable: i32) -> Goal {
    Goal { limits: limits(replicas, surge, unavailable), weight, full: 100 }
}

fn pods(wanted: i32, available: i32) -> Option<Pods> {
    Some(Pods { wanted, available })
}

#[test]
fn percentages_are_rounded_up_for_surge_and_down_for_unavailability() {
    let percent = |text: &str| Some(IntOrString::String(text.into()));
    for (replicas, surge, unavailable, expected) in [
        (10, None, None, (3, 2)),
        (4, None, None, (1, 1)),
        (1, None, None, (1, 0)),
        (10, percent("20%"), Some(IntOrString::Int(0)), (2, 0)),
        (10, percent("0%"), percent("0%"), (0, 1)),
        (2, Some(IntOrString::Int(0)), percent("1%"), (0, 1)),
        (3, Some(IntOrString::Int(0)), Some(IntOrString::Int(9)), (0, 3)),
        (0, None, None, (0, 0)),
    ] {
        let limits = Limits::rolling(replicas, surge.as_ref(), unavailable.as_ref());
        assert_eq!((limits.surge, limits.unavailable), expected, "{replicas} {surge:?} {unavailable:?}");
    }
}

#[test]
fn a_weight_without_routes_is_reached_by_the_nearest_numbers_of_pods() {
    for (replicas, weight, surge, canary, stable) in [
        (10, 10, 1, 1, 9),
        (10, 5, 0, 1, 9),
        (10, 5, 1, 1, 10),
        (10, 0, 1, 0, 10),
        (10, 100, 1, 10, 0),
        (10, 99, 0, 9, 1),
        (1, 20, 1, 1, 1),
        (1, 95, 1, 1, 1),
        (1, 49, 0, 0, 1),
        (1, 51, 0, 1, 0),
        (3, 50, 0, 2, 1),
        (3, 50, 1, 2, 2),
        (4, 20, 1, 1, 4),
        (5, 20, 1, 1, 4),
        (0, 50, 1, 0, 0),
    ] {
        let counts = split(&goal(replicas, weight, surge, 1));
        assert_eq!(counts, Counts { canary, stable }, "{replicas} pods, {weight} %, surge {surge}");
    }
}

/// replicas, weight, surge, unavailable, (stable wanted, available), (canary wanted, available), older, expected
type Row = (i32, i32, i32, i32, (i32, i32), (i32, i32), i32, (i32, i32));

#[test]
fn the_next_numbers_stay_within_surge_and_unavailability() {
    const ROWS: [Row; 19] = [
        // Pods that go anyway are not counted as available.
        (10, 100, 3, 0, (7, 8), (6, 3), 0, (7, 6)),
        (10, 20, 2, 0, (10, 10), (0, 0), 0, (10, 2)),
        (10, 20, 2, 0, (10, 10), (2, 2), 0, (8, 2)),
        (10, 30, 2, 0, (10, 10), (0, 0), 0, (10, 2)),
        (10, 20, 0, 2, (10, 10), (0, 0), 0, (8, 0)),
        (10, 30, 0, 2, (10, 10), (0, 0), 0, (8, 0)),
        (10, 50, 2, 1, (10, 10), (0, 0), 0, (9, 2)),
        (10, 0, 1, 1, (10, 10), (1, 1), 0, (10, 0)),
        (10, 100, 1, 1, (1, 1), (10, 10), 0, (0, 10)),
        (1, 20, 1, 0, (1, 1), (0, 0), 0, (1, 1)),
        (1, 49, 0, 1, (1, 1), (0, 0), 0, (1, 0)),
        (1, 51, 0, 1, (1, 1), (0, 0), 0, (0, 0)),
        (1, 51, 0, 1, (0, 0), (0, 0), 0, (0, 1)),
        // Stable pods come before new ones; nothing shrinks while older revisions have pods.
        (10, 30, 1, 0, (1, 1), (0, 0), 3, (7, 1)),
        (10, 30, 0, 1, (8, 6), (4, 2), 3, (8, 4)),
        (10, 30, 0, 3, (8, 5), (4, 4), 0, (7, 3)),
        (10, 100, 1, 0, (10, 2), (10, 8), 0, (2, 9)),
        (10, 5, 0, 1, (10, 10), (0, 0), 0, (9, 0)),
        (10, 5, 0, 1, (9, 9), (0, 0), 0, (9, 1)),
    ];
    for (replicas, weight, surge, unavailable, stable, canary, older, expected) in ROWS {
        let counts = next(
            &goal(replicas, weight, surge, unavailable),
            pods(canary.0, canary.1),
            pods(stable.0, stable.1),
            older,
        );
        assert_eq!(
            (counts.stable, counts.canary),
            expected,
            "{replicas} pods, {weight} %: {stable:?} {canary:?}"
        );
    }
}

#[test]
fn without_a_stable_version_all_pods_are_new_ones() {
    assert_eq!(next(&goal(5, 20, 1, 0), pods(0, 0), None, 0), Counts { canary: 5, stable: 0 });
    assert_eq!(next(&goal(2, 20, 1, 0), pods(10, 10), None, 0), Counts { canary: 2, stable: 0 });
}

fn routed_goal(replicas: i32, scale: routed::Scale) -> routed::Goal {
    routed::Goal {
        replicas,
        full: 100,
        scale,
        dynamic: false,
        at_least: None,
        aborting: false,
        weights: None,
    }
}

#[test]
fn with_routes_the_numbers_follow_the_weight() {
    use routed::{Goal, Scale::Replicas, Scale::Weight, counts};
    let plain = |replicas, scale| routed_goal(replicas, scale);
    for (goal, canary, stable) in [
        (plain(10, Weight(25)), 3, 10),
        (plain(1, Weight(5)), 1, 1),
        (plain(10, Weight(0)), 0, 10),
        (plain(1, Replicas(9)), 9, 1),
        (Goal { at_least: Some(2), ..plain(10, Weight(5)) }, 2, 10),
        (Goal { at_least: Some(2), ..plain(10, Weight(0)) }, 0, 10),
        (Goal { at_least: Some(20), ..plain(4, Weight(5)) }, 4, 4),
        (Goal { dynamic: true, ..plain(10, Weight(40)) }, 4, 6),
        // The stable version keeps pods for the traffic that it still has.
        (Goal { dynamic: true, weights: Some((20, 80)), ..plain(10, Weight(40)) }, 4, 8),
        (Goal { dynamic: true, weights: Some((80, 20)), ..plain(10, Weight(40)) }, 4, 6),
        // While aborting the new version keeps pods for its traffic.
        (Goal { dynamic: true, aborting: true, weights: Some((80, 20)), ..plain(10, Weight(0)) }, 8, 10),
    ] {
        assert_eq!(counts(&goal), Counts { canary, stable }, "{goal:?}");
    }
}

#[test]
fn on_the_way_back_the_weight_follows_ready_stable_pods() {
    let stable = |available| Pods { wanted: 10, available };
    assert_eq!(routed::returning(10, 100, 0, Some(80), stable(2)), 80, "nothing more is ready");
    assert_eq!(routed::returning(10, 100, 0, Some(80), stable(5)), 50);
    assert_eq!(routed::returning(10, 100, 0, Some(50), stable(2)), 50, "it never rises again");
    assert_eq!(routed::returning(10, 100, 0, Some(50), stable(10)), 0);
    assert_eq!(routed::returning(10, 100, 40, Some(80), stable(5)), 80, "not enough for the step");
    assert_eq!(routed::returning(10, 100, 40, Some(80), stable(6)), 40);
}

proptest! {
    #[test]
    fn total_pods_stay_under_the_surge_and_available_ones_above_the_least(
        replicas in 1..40i32, weight in 0..=100i32, surge in 0..6i32, unavailable in 0..6i32, broken in any::<bool>(),
    ) {
        prop_assume!(surge + unavailable > 0);
        let goal = Goal { limits: limits(replicas, surge, unavailable.min(replicas)), weight, full: 100 };
        let (mut canary, mut stable) = (Pods::default(), Pods { wanted: replicas, available: replicas });
        for _ in 0..200 {
            let counts = next(&goal, Some(canary), Some(stable), 0);
            prop_assert!(counts.canary + counts.stable <= goal.limits.most());
            prop_assert!(counts.canary >= 0 && counts.stable >= 0);
            let available = canary.available.min(counts.canary) + stable.available.min(counts.stable);
            prop_assert!(available >= goal.limits.least(), "{available} {goal:?}");
            canary.wanted = counts.canary;
            canary.available = if broken { 0 } else { counts.canary };
            stable = Pods { wanted: counts.stable, available: counts.stable };
        }
        if !broken {
            let end = split(&goal);
            prop_assert_eq!((canary.wanted, stable.wanted), (end.canary, end.stable));
        }
    }

    #[test]
    fn a_weight_between_the_ends_gets_pods_on_both_sides(replicas in 2..200i32, weight in 1..100i32, surge in 0..3i32) {
        let counts = basic::split(&goal(replicas, weight, surge, 1));
        prop_assert!(counts.canary > 0 && counts.stable > 0, "{counts:?}");
        prop_assert!(counts.canary + counts.stable <= replicas + surge.min(1));
    }

    #[test]
    fn a_share_is_enough_and_no_more_than_one_pod_too_much(replicas in 0..1000i32, weight in 0..=100i32) {
        let pods = share(replicas, weight, 100);
        prop_assert!(pods * 100 >= replicas * weight && (pods - 1) * 100 < replicas * weight || pods == 0 && replicas * weight == 0);
    }
}
