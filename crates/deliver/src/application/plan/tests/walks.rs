//! Random walks: whatever people, clusters and crashes do, the world ends as the last good commit says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_api::application::status::{Phase, SyncWord};

use super::world::{World, app, config};
use crate::tracking;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(u8, u8)>),
    Break(bool),
    Edit(bool, u8),
    Delete(bool, u8),
    Away(bool, bool),
    Deny(u8, bool),
    Rounds(u8),
    Crash,
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec((0u8..6, 0u8..4), 0..6).prop_map(Step::Commit),
        1 => any::<bool>().prop_map(Step::Break),
        2 => (any::<bool>(), 0u8..6).prop_map(|(east, name)| Step::Edit(east, name)),
        1 => (any::<bool>(), 0u8..6).prop_map(|(east, name)| Step::Delete(east, name)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(east, away)| Step::Away(east, away)),
        1 => (0u8..6, any::<bool>()).prop_map(|(name, on)| Step::Deny(name, on)),
        4 => (1u8..6).prop_map(Step::Rounds),
        2 => Just(Step::Crash),
        1 => (1u16..900).prop_map(Step::Wait),
    ]
}

fn cluster(east: bool) -> &'static str {
    if east { "east" } else { "west" }
}

fn play(world: &mut World, step: &Step) {
    match step {
        Step::Commit(objects) => {
            let objects: BTreeMap<u8, u8> = objects.iter().copied().collect();
            world.commit(
                objects.iter().map(|(name, value)| config(&format!("c{name}"), &value.to_string())).collect(),
            );
        }
        Step::Break(broken) => {
            world.broken =
                broken.then(|| crate::trouble::Trouble::standing("Broken", "it is broken", "mend it"));
        }
        Step::Edit(east, name) => {
            world.edit(cluster(*east), &format!("c{name}"), |object| object["data"]["v"] = "edited".into());
        }
        Step::Delete(east, name) => {
            world.place(cluster(*east)).objects.retain(|id, _| id.name != format!("c{name}"));
        }
        Step::Away(east, away) => world.place(cluster(*east)).away = *away,
        Step::Deny(name, on) => {
            if *on {
                world.deny.insert(format!("c{name}"));
            } else {
                world.deny.remove(&format!("c{name}"));
            }
        }
        Step::Rounds(count) => {
            for _ in 0..*count {
                world.round(false);
            }
        }
        Step::Crash => {
            world.round(true);
        }
        Step::Wait(seconds) => world.wait(i64::from(*seconds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// The assertions inside of the world hold at every step: nothing is applied that the inventory does not name,
    /// nothing is deleted or taken that is not ours, nothing is done on a cluster that is away.
    #[test]
    fn the_last_good_commit_runs_in_the_end(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new(&["east", "west"]);
        world.spec.sync.deletion_budget.max_objects = 1000;
        world.edit("east", "theirs", |object| object["metadata"]["annotations"] = serde_json::json!({ tracking::OWNER: "other/app" }));
        for step in &steps {
            play(&mut world, step);
        }
        // Calm: everything answers, nothing is refused, and there is something to run.
        world.broken = None;
        world.deny.clear();
        for east in [true, false] {
            world.place(cluster(east)).away = false;
        }
        world.commit(vec![config("c0", "end"), config("c7", "end")]);
        for _ in 0..12 {
            world.wait(200);
            world.settle();
        }
        prop_assert_eq!(world.status.phase, Some(Phase::Healthy), "{:#?}", world.status);
        prop_assert_eq!(world.status.sync.status, SyncWord::Synced);
        for name in ["east", "west"] {
            let ours: Vec<String> = world.clusters[name].objects.iter()
                .filter(|(_, held)| tracking::owner(&held.object) == Some(app().to_string().as_str()))
                .map(|(id, held)| format!("{}={}", id.name, held.object["data"]["v"].as_str().unwrap_or_default()))
                .collect();
            prop_assert_eq!(ours, ["c0=end", "c7=end"]);
        }
        prop_assert!(world.names("east").contains(&"theirs".to_owned()));
        let (before, work) = (world.status.clone(), world.log.len());
        let plan = world.round(false);
        prop_assert!(plan.actions.is_empty() && plan.notes.is_empty());
        prop_assert_eq!(&world.status, &before);
        prop_assert_eq!(world.log.len(), work);
    }

    /// With `strict`, what policy refuses is never applied, at no moment.
    #[test]
    fn strict_never_applies_what_is_refused(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new(&["east", "west"]);
        for step in &steps {
            let (denied, seen) = (world.deny.clone(), world.log.len());
            play(&mut world, step);
            for line in &world.log[seen..] {
                let bad = denied.iter().any(|name| line.ends_with(&format!("apply ConfigMap shop/{name}")));
                prop_assert!(!bad, "{line} although {denied:?} are refused");
            }
        }
    }
}
