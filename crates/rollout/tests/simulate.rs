//! `simulate` on the examples: the planners of the controllers over a cluster in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeMap, path::Path, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{analysis::Phase as RunPhase, rollout::status::Phase};
use windlass_rollout::simulate::{
    Absent, Objects, Outcome, Scenario, Series, SimulateError, Simulation, Source, chart, simulate, svg,
    table,
};

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rollouts");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn values(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn scenario(yaml: &str, csv: Option<&str>) -> Scenario {
    scenario_of(values(yaml), csv)
}

fn scenario_of(values: Vec<Value>, csv: Option<&str>) -> Scenario {
    let objects = Objects::sort(values).unwrap();
    let rollout = objects.rollouts[0].clone();
    let (world, assumed) = objects.observed(&rollout, Absent::Assumed);
    let source = csv.map_or(Source::Good, |csv| Source::Series(Series::parse(csv, start()).unwrap().0));
    Scenario {
        library: objects.library(&rollout),
        rollout,
        world,
        before: None,
        source,
        args: BTreeMap::new(),
        start: start(),
        ready_after: Duration::from_secs(10),
        promote_after: None,
        longest: Duration::from_secs(86_400),
        assumed,
    }
}

fn weights(simulation: &Simulation) -> Vec<i32> {
    let mut weights: Vec<i32> = simulation.moments.iter().map(|moment| moment.weight).collect();
    weights.dedup();
    weights
}

#[test]
fn a_good_series_completes() {
    let simulation = simulate(&scenario(&example("canary.yaml"), Some(&example("good.csv")))).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Completed { .. }), "{}", table(&simulation));
    let last = simulation.moments.last().unwrap();
    assert_eq!(
        (last.phase, last.weight, last.canary.available),
        (Some(Phase::Completed), 100, 5),
        "{last:?}"
    );
    assert_eq!(last.stable.wanted, 0);
    let measured: Vec<_> = simulation.moments.iter().flat_map(|moment| &moment.measured).collect();
    assert!(
        measured.len() >= 6 && measured.iter().all(|it| it.phase == RunPhase::Successful),
        "{measured:?}"
    );
    assert!(simulation.gaps.is_empty());
    // Pods are never fewer than wanted, never more than one above.
    for moment in &simulation.moments {
        let (available, wanted) =
            (moment.stable.available + moment.canary.available, moment.stable.wanted + moment.canary.wanted);
        assert!(available >= 5 && wanted <= 6, "{moment:?}");
    }
    insta::assert_snapshot!(table(&simulation));
}

#[test]
fn a_bad_series_aborts_at_the_step_where_it_got_bad() {
    let simulation = simulate(&scenario(&example("canary.yaml"), Some(&example("bad.csv")))).unwrap();
    let Outcome::Aborted { at, step, why } = &simulation.outcome else { panic!("{}", table(&simulation)) };
    assert_eq!(step.as_deref(), Some("3/4"), "{}", table(&simulation));
    assert!((160..=260).contains(&at.as_secs()), "{at:?}");
    assert!(why.contains("error-rate"), "{why}");
    let last = simulation.moments.last().unwrap();
    assert_eq!((last.phase, last.stable.available, last.weight), (Some(Phase::Failed), 5, 0), "{last:?}");
    assert_eq!(last.canary.wanted, 0);
    insta::assert_snapshot!(table(&simulation));
}

#[test]
fn gaps_in_the_data_are_told_and_pause_the_rollout() {
    let csv = "time,error-rate\n0,0.01\n1m,0.01\n90s,\n5m,0.01\n";
    let simulation = simulate(&scenario(&example("canary.yaml"), Some(csv))).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Waits { .. }), "{}", table(&simulation));
    assert_eq!(simulation.gaps[0].metric, "error-rate");
    assert_eq!(simulation.gaps[0].phase, RunPhase::Inconclusive);
    let text = table(&simulation);
    assert!(text.contains("\nNo data:\n  error-rate: 1 times: +"), "{text}");
    // With a policy a gap is what the policy says.
    let lenient = example("canary.yaml")
        .replace("      failureLimit: 1\n", "      failureLimit: 1\n      noData: Success\n");
    let simulation = simulate(&scenario(&lenient, Some(csv))).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Completed { .. }), "{}", table(&simulation));
    assert!(!simulation.gaps.is_empty(), "a gap that counts as a success is told as well");
}

#[test]
fn the_same_input_gives_the_same_output() {
    let scenario = scenario(&example("canary.yaml"), Some(&example("bad.csv")));
    let (a, b) = (simulate(&scenario).unwrap(), simulate(&scenario).unwrap());
    assert_eq!(a, b);
    assert_eq!(svg(&a).unwrap(), svg(&b).unwrap());
}

#[test]
fn a_chart_shows_the_weight_and_every_metric() {
    let simulation = simulate(&scenario(&example("canary.yaml"), Some(&example("bad.csv")))).unwrap();
    let text = chart(&simulation, 60);
    assert!(text.contains("100% │") && text.contains('█'), "{text}");
    assert!(text.contains("error-rate: 0.0"), "{text}");
    assert!(text.lines().any(|line| line.contains('+') && line.contains('x')), "{text}");
    let drawing = svg(&simulation).unwrap();
    assert!(
        drawing.starts_with("<svg") && drawing.contains("error-rate") && drawing.contains("polyline"),
        "{drawing}"
    );
    assert!(!drawing.contains("NaN"), "{drawing}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_pause_without_a_length_waits_for_a_person_who_may_be_assumed() {
    let yaml = example("canary.yaml").replace("- pause: { duration: 2m }\n---", "- pause: {}\n---");
    assert!(yaml.contains("pause: {}"));
    let mut scenario = scenario(&yaml, None);
    // The analysis beside the steps would be measured until the end.
    scenario.longest = Duration::from_secs(600);
    let simulation = simulate(&scenario).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Waits { .. }), "{}", simulation.outcome);
    scenario.promote_after = Some(Duration::from_secs(60));
    let simulation = simulate(&scenario).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Completed { .. }), "{}", table(&simulation));
    assert!(table(&simulation).contains("Promoted by hand"));
}

#[test]
fn blue_green_previews_switches_and_takes_the_old_version_away() {
    let simulation = simulate(&scenario(&example("blue-green.yaml"), None)).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Completed { .. }), "{}", table(&simulation));
    assert!(simulation.assumed.is_empty(), "the Services are in the file: {:?}", simulation.assumed);
    let previewed =
        simulation.moments.iter().any(|moment| moment.canary.wanted == 1 && moment.stable.available == 3);
    assert!(previewed, "{}", table(&simulation));
    let switched = simulation.moments.iter().find(|moment| moment.weight == 100).unwrap();
    assert!(switched.at >= Duration::from_secs(60) && switched.stable.available == 3, "{switched:?}");
    assert_eq!(simulation.moments.last().unwrap().stable.wanted, 0);
}

#[test]
fn shares_of_traffic_go_through_the_steps() {
    let simulation = simulate(&scenario(&example("gateway.yaml"), None)).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Completed { .. }), "{}", table(&simulation));
    assert_eq!(weights(&simulation), [0, 10, 50, 100], "{}", table(&simulation));
    // Traffic only to pods that are there.
    for moment in &simulation.moments {
        assert!(moment.weight == 0 || moment.canary.available > 0, "{moment:?}");
    }
}

#[test]
fn pods_that_take_too_long_are_seen_by_the_progress_deadline() {
    let mut scenario = scenario(&example("canary.yaml"), None);
    scenario.ready_after = Duration::from_secs(3000);
    scenario.rollout.spec.progress_deadline_seconds = Some(300);
    scenario.rollout.spec.progress_deadline_abort = true;
    let simulation = simulate(&scenario).unwrap();
    assert!(matches!(simulation.outcome, Outcome::Aborted { .. }), "{}", table(&simulation));
}

#[test]
fn a_wrong_spec_a_missing_series_and_foreign_objects_are_refused_by_name() {
    let wrong = example("canary.yaml").replace("setWeight: 60", "setWeight: 600");
    let error = simulate(&scenario(&wrong, None)).unwrap_err();
    assert!(
        matches!(&error, SimulateError::Invalid(findings) if findings[0].field.contains("steps[2]")),
        "{error}"
    );
    let error = simulate(&scenario(&example("canary.yaml"), Some("time,latency\n0,1\n"))).unwrap_err();
    assert!(error.to_string().contains("no series for the metric error-rate; there are: latency"), "{error}");
    let argo =
        json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": { "name": "web" } });
    let error = Objects::sort([argo]).unwrap_err().to_string();
    assert!(error.contains("windlass migrate argo-rollouts"), "{error}");
}

#[test]
fn what_has_to_be_recorded_is_told_with_its_arguments() {
    let simulation = simulate(&scenario(&example("canary.yaml"), None)).unwrap();
    let wanted = &simulation.wanted["error-rate"];
    assert_eq!(wanted.interval.as_deref(), Some("30s"));
    assert!(wanted.queries[0].contains("service=\"web\"") && !wanted.other, "{wanted:?}");
}
