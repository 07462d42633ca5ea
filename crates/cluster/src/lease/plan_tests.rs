use super::*;
use proptest::prelude::*;

const TIMING: Timing = Timing {
    duration: Duration::from_secs(10),
    renew: Duration::from_secs(2),
    margin: Duration::from_secs(2),
};

fn seen(holder: Option<&str>, shards: u32, since: u64) -> Seen {
    Seen { holder: holder.map(Into::into), shards, since: Duration::from_secs(since), lasts: TIMING.duration }
}

#[derive(Default)]
struct World {
    leases: BTreeMap<u32, Seen>,
    members: BTreeMap<String, Seen>,
    renewed: BTreeMap<u32, Duration>,
    beaten: Option<Duration>,
}

impl World {
    fn plan(&self, me: &str, shards: u32, willing: bool, now: u64) -> (Vec<Step>, Duration) {
        let view = View {
            me,
            shards,
            leases: &self.leases,
            members: &self.members,
            renewed: &self.renewed,
            beaten: self.beaten,
            willing,
            timing: TIMING,
        };
        plan(&view, Duration::from_secs(now))
    }
}

#[test]
fn a_single_leader_table() {
    let at = Duration::from_secs;
    let held = |holder, since| BTreeMap::from([(0, seen(holder, 1, since))]);
    #[allow(clippy::type_complexity, reason = "a table")]
    let cases: Vec<(&str, BTreeMap<u32, Seen>, BTreeMap<u32, Duration>, bool, u64, Vec<Step>)> = vec![
        ("nobody yet", BTreeMap::new(), BTreeMap::new(), true, 0, vec![Step::Take(0)]),
        ("nobody yet, but cold", BTreeMap::new(), BTreeMap::new(), false, 0, vec![]),
        ("another holds it", held(Some("b"), 5), BTreeMap::new(), true, 14, vec![]),
        ("another let it run out", held(Some("b"), 5), BTreeMap::new(), true, 15, vec![Step::Take(0)]),
        ("another released it", held(None, 5), BTreeMap::new(), true, 5, vec![Step::Take(0)]),
        ("ours, fresh", held(Some("a"), 5), BTreeMap::from([(0, at(5))]), true, 6, vec![]),
        ("ours, due", held(Some("a"), 5), BTreeMap::from([(0, at(5))]), true, 7, vec![Step::Renew(0)]),
        (
            "ours, going down",
            held(Some("a"), 5),
            BTreeMap::from([(0, at(5))]),
            false,
            7,
            vec![Step::Renew(0)],
        ),
        (
            "left by a larger number",
            BTreeMap::from([(0, seen(Some("b"), 4, 5))]),
            BTreeMap::new(),
            true,
            9,
            vec![],
        ),
    ];
    for (name, leases, renewed, willing, now, expected) in cases {
        let world = World { leases, renewed, ..World::default() };
        assert_eq!(world.plan("a", 1, willing, now).0, expected, "{name}");
    }
}

#[test]
fn a_standby_looks_again_exactly_when_the_lease_runs_out() {
    let world = World { leases: BTreeMap::from([(0, seen(Some("b"), 1, 5))]), ..World::default() };
    assert_eq!(world.plan("a", 1, true, 14).1, Duration::from_secs(15));
}

#[test]
fn shards_are_taken_only_under_the_number_that_shard_0_names() {
    let members = BTreeMap::from([("a".to_owned(), seen(Some("a"), 4, 0))]);
    let mut world = World { members, beaten: Some(Duration::ZERO), ..World::default() };
    assert_eq!(world.plan("a", 4, true, 1).0, [Step::Take(0)], "shard 0 first");
    world.leases.insert(0, seen(Some("a"), 4, 1));
    world.renewed.insert(0, Duration::from_secs(1));
    assert_eq!(world.plan("a", 4, true, 1).0, [Step::Take(1), Step::Take(2), Step::Take(3)]);
    world.leases.insert(0, seen(Some("old"), 2, 1));
    world.renewed.clear();
    assert_eq!(world.plan("a", 4, true, 1).0, [], "another number is in force");
}

#[test]
fn a_new_member_gets_its_share_and_the_old_one_lets_go() {
    let mut world = World { beaten: Some(Duration::ZERO), ..World::default() };
    for shard in 0..8 {
        world.leases.insert(shard, seen(Some("a"), 8, 0));
        world.renewed.insert(shard, Duration::ZERO);
    }
    world.members.insert("a".into(), seen(Some("a"), 8, 0));
    assert_eq!(world.plan("a", 8, true, 1).0, []);
    world.members.insert("b".into(), seen(Some("b"), 8, 0));
    let steps = world.plan("a", 8, true, 1).0;
    assert_eq!(steps.len(), 4, "{steps:?}");
    assert!(steps.iter().all(|step| matches!(step, Step::Release(_))));
}

#[test]
fn a_member_long_gone_is_buried_by_others_only() {
    let members = BTreeMap::from([("a".into(), seen(Some("a"), 2, 0)), ("b".into(), seen(Some("b"), 2, 0))]);
    let world = World { members, beaten: Some(Duration::from_secs(99)), ..World::default() };
    let steps = world.plan("a", 2, true, 100).0;
    assert!(steps.contains(&Step::Bury("b".into())) && !steps.contains(&Step::Bury("a".into())), "{steps:?}");
}

/// A little world of replicas with lossy views, to show that no shard is trusted by two at once and none is left.
#[derive(Clone, Default)]
struct Replica {
    renewed: BTreeMap<u32, Duration>,
    beaten: Option<Duration>,
    alive: bool,
}

fn trusted(replica: &Replica, shard: u32, now: Duration) -> bool {
    replica
        .renewed
        .get(&shard)
        .is_some_and(|sent| now < *sent + TIMING.duration.saturating_sub(TIMING.margin))
}

proptest! {
    #[test]
    fn never_two_holders_and_no_shard_left_over(
        shards in 1u32..7,
        script in proptest::collection::vec((0usize..3, prop_oneof![4 => Just(true), 1 => Just(false)]), 20..80),
    ) {
        let names = ["a", "b", "c"];
        let mut replicas = vec![Replica { alive: true, ..Replica::default() }; 3];
        let mut leases: BTreeMap<u32, Seen> = BTreeMap::new();
        let mut members: BTreeMap<String, Seen> = BTreeMap::new();
        let run = |who: usize, now: Duration, replicas: &mut Vec<Replica>, leases: &mut BTreeMap<u32, Seen>, members: &mut BTreeMap<String, Seen>| {
            let me = names[who];
            let view = View {
                me, shards, leases, members, renewed: &replicas[who].renewed.clone(),
                beaten: replicas[who].beaten, willing: true, timing: TIMING,
            };
            for step in plan(&view, now).0 {
                let state = Seen { holder: Some(me.to_owned()), shards, since: now, lasts: TIMING.duration };
                match step {
                    Step::Beat => { members.insert(me.to_owned(), state); replicas[who].beaten = Some(now); }
                    Step::Bury(name) => { members.remove(&name); }
                    Step::Take(shard) | Step::Renew(shard) => { leases.insert(shard, state); replicas[who].renewed.insert(shard, now); }
                    Step::Release(shard) => { leases.insert(shard, Seen { holder: None, ..state }); replicas[who].renewed.remove(&shard); }
                }
            }
            for shard in 0..shards {
                let holders: Vec<_> = (0..3).filter(|n| trusted(&replicas[*n], shard, now)).collect();
                if holders.len() > 1 {
                    return Err(TestCaseError::fail(format!("shard {shard} is held by {holders:?} at {now:?}")));
                }
            }
            Ok(())
        };
        let mut now = Duration::ZERO;
        for (who, alive) in script {
            now += Duration::from_millis(700);
            replicas[who].alive = alive;
            for n in 0..3 {
                if replicas[n].alive {
                    run(n, now, &mut replicas, &mut leases, &mut members)?;
                }
            }
        }
        for (n, replica) in replicas.iter_mut().enumerate() { replica.alive = n == 1; }
        for _ in 0..60 {
            now += Duration::from_millis(700);
            run(1, now, &mut replicas, &mut leases, &mut members)?;
        }
        for shard in 0..shards {
            prop_assert!(trusted(&replicas[1], shard, now), "shard {} is left over", shard);
        }
    }
}
