#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;
use windlass_api::application::progressive::OnFailure;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn new() -> Revision {
    Revision { commit: "c2".into(), digest: "new".into(), proven: false }
}

/// Two waves by label and the rest. The second one goes two at a time.
fn spec() -> Progressive {
    serde_json::from_value(json!({ "waves": [
        { "name": "canary", "selector": { "matchLabels": { "stage": "canary" } }, "bake": "10m" },
        { "selector": { "matchLabels": { "stage": "prod" } }, "maxParallel": 2 },
    ] }))
    .unwrap()
}

fn cluster(name: &str, stage: &str) -> ClusterState {
    ClusterState {
        name: name.into(),
        labels: [("stage".to_owned(), stage.to_owned())].into(),
        reachable: true,
        revision: Some("c1".into()),
        digest: Some("old".into()),
        sync: SyncWord::Synced,
        health: HealthWord::Healthy,
        healthy_since: Some(at(-9999)),
        ..ClusterState::default()
    }
}

impl ClusterState {
    fn applying(mut self) -> Self {
        self.target = Some("new".into());
        self.sync = SyncWord::OutOfSync;
        self.healthy_since = None;
        self
    }

    fn done(mut self, since: i64) -> Self {
        self.digest = Some("new".into());
        self.target = Some("new".into());
        self.sync = SyncWord::Synced;
        self.health = HealthWord::Healthy;
        self.healthy_since = Some(at(since));
        self
    }

    fn degraded(mut self, why: &str) -> Self {
        self.health = HealthWord::Degraded;
        self.healthy_since = None;
        self.message = Some(why.into());
        self
    }

    fn away(mut self) -> Self {
        self.reachable = false;
        self
    }
}

fn chosen(clusters: &[ClusterState], now: i64) -> (Vec<String>, Assignment) {
    let assignment = assign(&spec(), &new(), clusters, &[], at(now)).unwrap();
    let mut names: Vec<String> =
        assignment.targets.iter().filter(|(_, t)| **t == Target::New).map(|(n, _)| n.clone()).collect();
    names.sort();
    (names, assignment)
}

#[test]
fn clusters_get_a_revision_wave_by_wave() {
    let canary = || cluster("a", "canary");
    let rest = || [cluster("b", "prod"), cluster("c", "prod"), cluster("d", "prod"), cluster("z", "")];
    let with = |first: ClusterState| std::iter::once(first).chain(rest()).collect::<Vec<_>>();

    let (names, assignment) = chosen(&with(canary()), 0);
    assert_eq!((names, assignment.current), (vec!["a".to_owned()], Some(0)));
    let (names, assignment) = chosen(&with(canary().done(0)), 60);
    assert_eq!(names, ["a"]);
    assert_eq!((assignment.current, assignment.wake), (Some(0), Some(at(600))), "it bakes");
    assert_eq!(assignment.notes, ["wave 1 (canary) bakes until 2027-01-15T08:10:00Z"]);
    let (names, assignment) = chosen(&with(canary().done(0)), 600);
    assert_eq!(names, ["a", "b", "c"], "two at a time");
    assert_eq!((assignment.current, assignment.wake), (Some(1), None));

    let mut clusters = with(canary().done(0));
    clusters[1] = clusters[1].clone().done(650);
    clusters[2] = clusters[2].clone().applying();
    assert_eq!(chosen(&clusters, 700).0, ["a", "b", "c", "d"]);
    for cluster in &mut clusters[1..4] {
        *cluster = cluster.clone().done(700);
    }
    let (names, assignment) = chosen(&clusters, 700);
    assert_eq!((names.len(), assignment.current), (5, Some(2)), "the rest comes last");
    clusters[4] = clusters[4].clone().done(800);
    let (names, assignment) = chosen(&clusters, 800);
    assert_eq!((names.len(), assignment.current, assignment.outcome), (5, None, Outcome::Through));
    assert_eq!(assignment.waves["z"], 2);
}

#[test]
fn a_cluster_is_in_the_first_wave_that_selects_it() {
    let mut spec = spec();
    spec.waves[1].selector = serde_json::from_value(json!({})).unwrap();
    let clusters = [cluster("a", "canary"), cluster("b", "prod"), cluster("z", "")];
    let waves = assign(&spec, &new(), &clusters, &[], at(0)).unwrap().waves;
    assert_eq!(waves.into_values().collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn a_failure_halts_or_rolls_back_and_says_which_cluster_and_why() {
    let clusters = [
        cluster("a", "canary").done(0),
        cluster("b", "prod").done(700).degraded("Deployment shop/web: no ready replicas"),
        cluster("c", "prod").applying(),
        cluster("d", "prod"),
    ];
    let (names, assignment) = chosen(&clusters, 800);
    assert!(names.is_empty(), "everybody goes back: {names:?}");
    let Outcome::RollBack(stop) = assignment.outcome else { unreachable!("{assignment:?}") };
    assert_eq!(
        stop,
        Stop {
            wave: 1,
            cluster: Some("b".into()),
            why: "wave 2, cluster b: Deployment shop/web: no ready replicas".into()
        }
    );

    let halt = Progressive { on_failure: OnFailure::Halt, ..spec() };
    let assignment = assign(&halt, &new(), &clusters, &[], at(800)).unwrap();
    assert!(matches!(assignment.outcome, Outcome::Halted(_)));
    let got: Vec<Target> = assignment.targets.into_values().collect();
    assert_eq!(
        got,
        [Target::New, Target::New, Target::New, Target::Keep],
        "who has it keeps it, nobody else gets it"
    );
}

#[test]
fn a_sync_that_failed_is_a_failure_and_what_was_bad_before_is_not() {
    let mut failed = cluster("a", "canary").applying();
    failed.failed = Some("ConfigMap shop/a was refused".into());
    let (_, assignment) = chosen(&[failed, cluster("b", "prod")], 0);
    assert!(matches!(&assignment.outcome, Outcome::RollBack(stop) if stop.why.ends_with("was refused")));

    let clusters =
        [cluster("a", "canary").degraded("old trouble"), cluster("b", "prod").degraded("old trouble")];
    let (names, assignment) = chosen(&clusters, 0);
    assert_eq!(
        (names, assignment.outcome),
        (vec!["a".to_owned()], Outcome::Going),
        "perhaps the new one is the cure"
    );
    let mut begun = clusters[0].clone().applying();
    begun.health = HealthWord::Degraded;
    assert_eq!(chosen(&[begun], 0).1.outcome, Outcome::Going, "it does not have the new one whole");
}

#[test]
fn a_cluster_that_cannot_be_reached_neither_blocks_nor_fails() {
    let clusters = [
        cluster("a", "canary").done(0),
        cluster("b", "canary").away(),
        cluster("c", "canary").done(0).degraded("not known").away(),
        cluster("d", "prod"),
    ];
    let (names, assignment) = chosen(&clusters, 600);
    assert_eq!(names, ["a", "c", "d"]);
    assert_eq!(assignment.notes[0], "b cannot be reached and gets the revision when it is back");
    let mut back = clusters.clone();
    back[1].reachable = true;
    let (names, assignment) = chosen(&back, 700);
    assert_eq!(
        (names, assignment.current),
        (vec!["a".into(), "b".into(), "c".into()], Some(0)),
        "now it has its turn"
    );
    let (names, assignment) = chosen(&[cluster("a", "canary").away(), cluster("d", "prod")], 0);
    assert_eq!((names, assignment.current), (vec!["d".to_owned()], Some(1)));
}

#[test]
fn a_cluster_that_is_new_waits_for_its_wave_unless_all_are_through() {
    let fresh = ClusterState {
        revision: None,
        digest: None,
        healthy_since: None,
        sync: SyncWord::Unknown,
        health: HealthWord::Unknown,
        ..cluster("n", "prod")
    };
    let (names, _) = chosen(&[cluster("a", "canary"), fresh.clone()], 0);
    assert_eq!(names, ["a"]);
    let proven = Revision { proven: true, ..new() };
    let clusters = [cluster("a", "canary").done(0).degraded("weeks later"), fresh];
    let assignment = assign(&spec(), &proven, &clusters, &[], at(100)).unwrap();
    assert_eq!(assignment.targets["n"], Target::New);
    assert_eq!(assignment.outcome, Outcome::Through, "what fails after the rollout does not take it back");
}

#[test]
fn a_wave_with_analyses_is_through_when_they_succeed() {
    let mut spec = spec();
    spec.waves[0].analysis =
        serde_json::from_value(json!({ "templates": [{ "templateName": "errors" }] })).unwrap();
    let clusters = [cluster("a", "canary").done(0), cluster("b", "prod")];
    let ask = |phases: &[AnalysisPhase]| {
        let states: Vec<AnalysisState> = phases
            .iter()
            .map(|phase| AnalysisState {
                wave: 0,
                name: "errors".into(),
                phase: *phase,
                message: Some("rate 0.2".into()),
            })
            .collect();
        assign(&spec, &new(), &clusters, &states, at(600)).unwrap()
    };
    let none = ask(&[]);
    assert_eq!((none.analyse, none.current), (Some(0), Some(0)));
    let running = ask(&[AnalysisPhase::Running]);
    assert_eq!((running.analyse, running.current, running.targets["b"]), (None, Some(0), Target::Keep));
    assert_eq!(ask(&[AnalysisPhase::Successful]).targets["b"], Target::New);
    assert_eq!(ask(&[AnalysisPhase::Successful, AnalysisPhase::Running]).targets["b"], Target::Keep);
    let failed = ask(&[AnalysisPhase::Failed]);
    assert!(
        matches!(&failed.outcome, Outcome::RollBack(stop) if stop.cluster.is_none() && stop.why.contains("analysis errors failed: rate 0.2"))
    );
    let unclear = ask(&[AnalysisPhase::Inconclusive]);
    assert!(matches!(unclear.outcome, Outcome::Halted(_)), "nothing is taken back on a maybe");
    let early = assign(&spec, &new(), &[cluster("a", "canary")], &[], at(0)).unwrap();
    assert_eq!(early.analyse, None, "there is nothing to analyse yet");
}

#[test]
fn a_selector_that_means_nothing_names_its_wave() {
    let mut spec = spec();
    spec.waves[1].selector =
        serde_json::from_value(json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] })).unwrap();
    let trouble = assign(&spec, &new(), &[cluster("b", "prod")], &[], at(0)).unwrap_err();
    assert!(trouble.what.starts_with("spec.progressive.waves[1].selector: "), "{trouble:?}");
    assert!(assign(&spec, &new(), &[], &[], at(0)).unwrap().targets.is_empty());
}

/// A world in which clusters take what they are told, some of them slowly, and come and go.
#[derive(Clone, Debug)]
enum Event {
    Pass(i64),
    Applied(usize),
    Healthy(usize),
    Flap(usize),
    Away(usize),
    Back(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..400_i64).prop_map(Event::Pass),
        (0..9_usize).prop_map(Event::Applied),
        (0..9_usize).prop_map(Event::Applied),
        (0..9_usize).prop_map(Event::Healthy),
        (0..9_usize).prop_map(Event::Healthy),
        (0..9_usize).prop_map(Event::Flap),
        (0..9_usize).prop_map(Event::Away),
        (0..9_usize).prop_map(Event::Back),
    ]
}

fn happens(event: &Event, clusters: &mut [ClusterState], now: &mut i64) {
    match event {
        Event::Pass(seconds) => *now += seconds,
        Event::Applied(i) if clusters[*i].target.is_some() && clusters[*i].reachable => {
            clusters[*i].digest = Some("new".into());
            clusters[*i].sync = SyncWord::Synced;
            clusters[*i].health = HealthWord::Progressing;
        }
        Event::Healthy(i) if clusters[*i].sync == SyncWord::Synced && clusters[*i].reachable => {
            clusters[*i].health = HealthWord::Healthy;
            clusters[*i].healthy_since.get_or_insert(at(*now));
        }
        Event::Flap(i) if clusters[*i].reachable => {
            clusters[*i].health = HealthWord::Progressing;
            clusters[*i].healthy_since = None;
        }
        Event::Away(i) => clusters[*i].reachable = false,
        Event::Back(i) => clusters[*i].reachable = true,
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_goes_forward_in_order_and_never_too_many_at_once(events in proptest::collection::vec(any_event(), 1..120)) {
        let stages = ["canary", "canary", "prod", "prod", "prod", "prod", "", "", ""];
        let mut clusters: Vec<ClusterState> =
            stages.iter().enumerate().map(|(at, stage)| cluster(&format!("k{at}"), stage)).collect();
        let mut now = 0;
        for event in events {
            happens(&event, &mut clusters, &mut now);
            let assignment = assign(&spec(), &new(), &clusters, &[], at(now)).unwrap();
            let mut turned = clusters.clone();
            turned.reverse();
            prop_assert_eq!(&assignment, &assign(&spec(), &new(), &turned, &[], at(now)).unwrap(), "deterministic");
            prop_assert!(assignment.wake.is_none_or(|wake| wake > at(now)));
            let is_done = |c: &ClusterState| c.digest.as_deref() == Some("new") && c.health == HealthWord::Healthy;
            let mut begun_in = None;
            for cluster in &clusters {
                let target = assignment.targets[&cluster.name];
                if cluster.target.is_some() {
                    prop_assert_eq!(target, Target::New, "{} went back", cluster.name);
                } else if target == Target::New {
                    let wave = assignment.waves[&cluster.name];
                    begun_in = Some(wave);
                    for earlier in clusters.iter().filter(|c| assignment.waves[&c.name] < wave && c.reachable) {
                        prop_assert!(is_done(earlier), "{} began before {}", cluster.name, earlier.name);
                        let baked = assignment.waves[&earlier.name] > 0
                            || earlier.healthy_since.is_some_and(|since| since.as_second() + 600 <= at(now).as_second());
                        prop_assert!(baked, "{} began before {} was baked", cluster.name, earlier.name);
                    }
                }
            }
            if begun_in == Some(1) {
                let under_way = clusters
                    .iter()
                    .filter(|c| assignment.waves[&c.name] == 1 && c.reachable && !is_done(c))
                    .filter(|c| assignment.targets[&c.name] == Target::New)
                    .count();
                prop_assert!(under_way <= 2, "{under_way} at once");
            }
            for cluster in &mut clusters {
                if assignment.targets[&cluster.name] == Target::New && cluster.target.is_none() {
                    cluster.target = Some("new".into());
                    cluster.sync = SyncWord::OutOfSync;
                    cluster.healthy_since = None;
                }
            }
        }
    }

    #[test]
    fn a_rollout_without_faults_gets_everywhere(most in 1..4_u32, count in 1..7_usize) {
        let mut spec = spec();
        spec.waves[1].max_parallel = Some(most);
        let mut clusters: Vec<ClusterState> =
            (0..count).map(|at| cluster(&format!("k{at}"), ["canary", "prod", ""][at % 3])).collect();
        let mut now = 0;
        for _ in 0..60 {
            let assignment = assign(&spec, &new(), &clusters, &[], at(now)).unwrap();
            if assignment.outcome == Outcome::Through {
                prop_assert!(clusters.iter().all(|c| c.digest.as_deref() == Some("new")));
                return Ok(());
            }
            now = assignment.wake.map_or(now + 1, |wake| wake.as_second() - 1_800_000_000);
            for cluster in &mut clusters {
                if assignment.targets[&cluster.name] == Target::New && cluster.digest.as_deref() != Some("new") {
                    *cluster = cluster.clone().done(now);
                }
            }
        }
        prop_assert!(false, "it does not come to an end");
    }
}
