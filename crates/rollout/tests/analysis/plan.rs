//! The plan of a run: limits, intervals, the end.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::analysis::{AnalysisRunSpec, AnalysisRunStatus, Measurement, Phase};
use windlass_cluster::drive::{Key, Wake};
use windlass_rollout::analysis::plan::{Action, Answer, JobFact, Observed, plan};

/// A run in a world where every measurement ends at once, with what the test says.
struct World {
    observed: Observed,
    now: Timestamp,
    notes: Vec<String>,
    /// Second of each measurement, with its metric.
    measured: Vec<(i64, String)>,
    actions: Vec<Action>,
}

const START: i64 = 1_900_000_000;

impl World {
    fn new(spec: Value) -> Self {
        let observed = Observed {
            run: Key { namespace: Some("ns".into()), name: "run".into() },
            uid: "0123456789-uid".into(),
            spec: serde_json::from_value::<AnalysisRunSpec>(spec).unwrap(),
            status: AnalysisRunStatus::default(),
            deleting: false,
            answers: vec![],
            asking: std::collections::BTreeSet::default(),
            jobs: BTreeMap::default(),
        };
        let now = Timestamp::from_second(START).unwrap();
        Self { observed, now, notes: vec![], measured: vec![], actions: vec![] }
    }

    /// One look. Gives when to look again.
    fn look(&mut self, answers: &mut dyn FnMut(&str, u32) -> Phase) -> Wake {
        let made = plan(&self.observed, self.now);
        if let Some(status) = made.status {
            self.observed.status = status;
        }
        self.notes.extend(made.notes.into_iter().map(|note| note.reason));
        let mut answered = false;
        for action in &made.actions {
            if let Action::Measure { metric, attempt, .. } = action {
                self.measured.push((self.now.as_second() - START, metric.clone()));
                let phase = answers(metric, *attempt);
                self.observed.answers.push(self.answer(metric, *attempt, phase));
                answered = true;
            }
        }
        self.actions.extend(made.actions);
        if answered { Wake::After(Duration::ZERO) } else { made.wake }
    }

    fn answer(&self, metric: &str, attempt: u32, phase: Phase) -> Answer {
        let time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
        let message = if phase == Phase::Error { "it is down".to_owned() } else { String::new() };
        let value = attempt.to_string();
        Answer {
            metric: metric.into(),
            attempt,
            measurement: Measurement {
                phase,
                message,
                value,
                started_at: time.clone(),
                finished_at: time,
                ..Measurement::default()
            },
            metadata: BTreeMap::new(),
        }
    }

    /// Looks until the run has ended, or so many seconds have passed.
    fn run(&mut self, seconds: i64, mut answers: impl FnMut(&str, u32) -> Phase) -> &AnalysisRunStatus {
        for _ in 0..2000 {
            let wake = self.look(&mut answers);
            if self.observed.status.phase.completed() {
                break;
            }
            match wake {
                Wake::After(wait) => self.now = self.now.checked_add(wait).unwrap(),
                _ => break,
            }
            if self.now.as_second() > START + seconds {
                break;
            }
        }
        &self.observed.status
    }

    fn result(&self, metric: &str) -> &windlass_api::analysis::MetricResult {
        self.observed.status.metric_results.iter().find(|result| result.name == metric).unwrap()
    }
}

fn metric(name: &str, more: Value) -> Value {
    let mut metric =
        json!({ "name": name, "provider": { "prometheus": { "address": "http://p", "query": "up" } } });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metric
}

fn one(more: Value) -> World {
    World::new(json!({ "metrics": [metric("m", more)] }))
}

#[test]
fn one_measurement_is_enough_without_count_and_interval() {
    let mut world = one(json!({}));
    let status = world.run(100, |_, _| Phase::Successful);
    assert_eq!(
        (status.phase, status.run_summary.successful, status.run_summary.count),
        (Phase::Successful, 1, 1)
    );
    assert!(status.started_at.is_some() && status.completed_at.is_some());
    assert_eq!(world.notes, ["MetricSuccessful", "AnalysisRunSuccessful"]);
    assert_eq!(world.result("m").metadata["ResolvedPrometheusQuery"], "up");
    let after = plan(&world.observed, world.now);
    assert!(after.actions.is_empty() && after.status.is_none(), "an ended run is left alone: {after:?}");
}

#[test]
fn the_first_failure_ends_a_run_unless_a_limit_allows_more() {
    let mut world = one(json!({ "interval": "10s", "count": 5 }));
    let status = world.run(1000, |_, attempt| if attempt == 2 { Phase::Failed } else { Phase::Successful });
    assert_eq!(status.phase, Phase::Failed);
    assert_eq!(status.message, "Metric \"m\" assessed Failed due to failed (1) > failureLimit (0)");
    assert_eq!(world.measured.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 10]);

    let mut world = one(json!({ "interval": "10s", "count": 5, "failureLimit": 2 }));
    let status = world.run(1000, |_, attempt| if attempt < 3 { Phase::Failed } else { Phase::Successful });
    assert_eq!(status.phase, Phase::Successful);
    assert_eq!((world.result("m").failed, world.result("m").successful), (2, 3));
}

#[test]
fn errors_in_a_row_are_retried_after_ten_seconds_and_end_the_run_beyond_the_limit() {
    let mut world = one(json!({ "interval": "1m", "count": 2 }));
    let status = world.run(1000, |_, attempt| if attempt <= 4 { Phase::Error } else { Phase::Successful });
    assert_eq!(status.phase, Phase::Successful, "four in a row are allowed");
    assert_eq!(world.measured.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 10, 20, 30, 40, 100]);

    let mut world = one(json!({}));
    let status = world.run(1000, |_, _| Phase::Error);
    assert_eq!(status.phase, Phase::Error);
    assert!(
        status.message.contains("consecutiveErrors (5) > consecutiveErrorLimit (4)"),
        "{}",
        status.message
    );
    assert!(status.message.contains("it is down"), "{}", status.message);
    assert_eq!((world.result("m").error, world.result("m").count), (5, 0));
}

#[test]
fn inconclusive_measurements_beyond_the_limit_make_the_run_inconclusive() {
    let mut world = one(json!({ "interval": "1s", "count": 3, "inconclusiveLimit": 1 }));
    assert_eq!(world.run(100, |_, _| Phase::Inconclusive).phase, Phase::Inconclusive);
    assert_eq!(world.result("m").inconclusive, 2);
    let mut world = one(json!({ "interval": "1s", "count": 3, "inconclusiveLimit": 3 }));
    assert_eq!(
        world.run(100, |_, _| Phase::Inconclusive).phase,
        Phase::Successful,
        "nothing is beyond its limit"
    );
}

#[test]
fn successes_in_a_row_end_a_metric_early_and_are_missed_at_the_end() {
    let mut world =
        one(json!({ "interval": "1s", "count": 10, "consecutiveSuccessLimit": 2, "failureLimit": 3 }));
    let phases = |_: &str, attempt: u32| if attempt == 2 { Phase::Failed } else { Phase::Successful };
    assert_eq!(world.run(100, phases).phase, Phase::Successful);
    assert_eq!(world.measured.len(), 4);

    let turns =
        |_: &str, attempt: u32| if attempt.is_multiple_of(2) { Phase::Failed } else { Phase::Successful };
    let mut world =
        one(json!({ "interval": "1s", "count": 6, "consecutiveSuccessLimit": 2, "failureLimit": 4 }));
    assert_eq!(world.run(100, turns).phase, Phase::Inconclusive, "neither limit was reached");
    let mut world =
        one(json!({ "interval": "1s", "count": 6, "consecutiveSuccessLimit": 2, "failureLimit": -1 }));
    assert_eq!(world.run(100, turns).phase, Phase::Failed, "only the successes count");
}

#[test]
fn the_worst_metric_decides_and_ends_the_others() {
    let mut world = World::new(json!({ "metrics": [
        metric("endless", json!({ "interval": "5s" })),
        metric("good", json!({ "interval": "5s", "count": 1 })),
        metric("bad", json!({ "interval": "5s", "count": 3, "initialDelay": "20s" })),
    ] }));
    let status = world.run(1000, |name, _| if name == "bad" { Phase::Failed } else { Phase::Successful });
    assert_eq!(status.phase, Phase::Failed);
    assert!(status.message.starts_with("Metric \"bad\""), "{}", status.message);
    assert_eq!(
        (status.run_summary.count, status.run_summary.failed, status.run_summary.successful),
        (3, 1, 2)
    );
    assert_eq!(world.result("endless").phase, Phase::Successful);
    assert!(
        world.measured.iter().filter(|(_, name)| name == "bad").all(|(at, _)| *at >= 20),
        "{:?}",
        world.measured
    );
    assert_eq!(world.measured.iter().filter(|(_, name)| name == "endless").count(), 5);
}

#[test]
fn a_metric_without_count_goes_on_until_the_run_is_ended() {
    let mut world = one(json!({ "interval": "5s" }));
    assert_eq!(world.run(60, |_, _| Phase::Successful).phase, Phase::Running);
    assert_eq!(world.measured.len(), 13);
    world.observed.spec.terminate = true;
    let status = world.run(100, |_, _| Phase::Failed);
    assert_eq!((status.phase, status.message.as_str()), (Phase::Successful, "Run Terminated"));
    assert_eq!(world.measured.len(), 13, "nothing more is measured");

    let mut early = one(json!({ "interval": "5s", "initialDelay": "1h" }));
    early.observed.spec.terminate = true;
    assert_eq!(
        early.run(10, |_, _| Phase::Failed).phase,
        Phase::Successful,
        "ended before anything was measured"
    );
    assert!(early.measured.is_empty());
}

#[test]
fn metrics_on_dry_run_never_decide() {
    let mut world = World::new(json!({
        "metrics": [metric("seen", json!({})), metric("counts", json!({ "interval": "1s", "count": 2 }))],
        "dryRun": [{ "metricName": "se.*" }],
    }));
    let status = world.run(100, |name, _| if name == "seen" { Phase::Failed } else { Phase::Successful });
    assert_eq!(status.phase, Phase::Successful);
    let (run, dry) = (status.run_summary, status.dry_run_summary.unwrap());
    assert_eq!((run.count, run.successful, dry.count, dry.failed), (1, 1, 1, 1));
    assert!(world.result("seen").dry_run && world.result("seen").message.contains("failureLimit"));

    let mut world =
        World::new(json!({ "metrics": [metric("m", json!({}))], "dryRun": [{ "metricName": "*" }] }));
    assert_eq!(world.run(100, |_, _| Phase::Error).phase, Phase::Successful);
}

#[test]
fn the_status_keeps_as_many_measurements_as_wanted() {
    let spec = json!({ "metrics": [metric("few", json!({ "interval": "1s", "count": 30 })), metric("more", json!({ "interval": "1s", "count": 30 }))],
        "measurementRetention": [{ "metricName": "more", "limit": 20 }] });
    let mut world = World::new(spec);
    world.run(100, |_, _| Phase::Successful);
    assert_eq!((world.result("few").measurements.len(), world.result("few").count), (10, 30));
    assert_eq!(world.result("more").measurements.len(), 20);
    assert_eq!(world.result("few").measurements.last().unwrap().value, "30");
}

#[test]
fn a_spec_that_cannot_be_run_is_an_error_that_says_why() {
    for (spec, told) in [
        (json!({ "metrics": [] }), "there is no metric"),
        (
            json!({ "metrics": [metric("m", json!({ "successCondition": "{{args.x}} > 1" }))] }),
            "argument x has no value",
        ),
        (
            json!({ "metrics": [metric("m", json!({}))], "args": [{ "name": "y" }] }),
            "argument y has no value",
        ),
        (json!({ "metrics": [metric("m", json!({}))], "dryRun": [{ "metricName": "other" }] }), "dryRun[0]"),
        (json!({ "metrics": [{ "name": "m", "provider": { "datadog": { "query": "x" } } }] }), "datadog"),
    ] {
        let mut world = World::new(spec);
        let status = world.run(10, |_, _| Phase::Successful);
        assert_eq!(status.phase, Phase::Error);
        assert!(status.message.contains(told), "{}", status.message);
        assert!(status.completed_at.is_some());
        assert_eq!(world.notes, ["AnalysisRunError"]);
    }
}

#[test]
fn a_run_goes_when_its_time_has_come() {
    let mut world = one(json!({}));
    world.observed.spec.ttl_strategy =
        serde_json::from_value(json!({ "secondsAfterSuccess": 60, "secondsAfterCompletion": 10 })).unwrap();
    world.run(100, |_, _| Phase::Successful);
    assert_eq!(plan(&world.observed, world.now).wake, Wake::After(Duration::from_secs(60)));
    let later = world.now.checked_add(Duration::from_secs(60)).unwrap();
    let gone = plan(&world.observed, later);
    assert!(
        matches!(gone.actions.as_slice(), [Action::DeleteRun { uid, .. }] if uid == "0123456789-uid"),
        "{gone:?}"
    );
    world.observed.spec.ttl_strategy = serde_json::from_value(json!({ "secondsAfterFailure": 1 })).unwrap();
    assert!(plan(&world.observed, later).actions.is_empty());
}

fn job_world(more: Value) -> World {
    let mut metric = json!({ "name": "smoke", "provider": { "job": { "spec": { "template": {} } } } });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    World::new(json!({ "metrics": [metric] }))
}

#[test]
fn a_job_is_the_measurement_and_its_end_the_verdict() {
    for (fact, phase) in [
        (JobFact::Complete, Phase::Successful),
        (JobFact::Failed("BackoffLimitExceeded".into()), Phase::Failed),
        (JobFact::Stuck("ImagePullBackOff".into()), Phase::Inconclusive),
    ] {
        let mut world = job_world(json!({}));
        world.look(&mut |_, _| Phase::Error);
        let [Action::StartJob { name, attempt: 1, .. }] = world.actions.as_slice() else {
            panic!("{:?}", world.actions)
        };
        assert_eq!(name, "0123456789-uid.smoke.1");
        let name = name.clone();
        assert_eq!(world.result("smoke").measurements[0].phase, Phase::Running);
        world.observed.jobs.insert(name.clone(), JobFact::Running);
        let before = world.observed.status.clone();
        world.look(&mut |_, _| Phase::Error);
        assert_eq!(world.observed.status, before, "nothing is written while it runs");
        world.observed.jobs.insert(name, fact);
        world.look(&mut |_, _| Phase::Error);
        assert_eq!(world.observed.status.phase, phase);
        assert!(world.result("smoke").measurements[0].finished_at.is_some());
    }
}

#[test]
fn a_job_that_somebody_deleted_is_an_error_and_is_made_again() {
    let mut world = job_world(json!({}));
    world.look(&mut |_, _| Phase::Error);
    world.look(&mut |_, _| Phase::Error);
    assert_eq!(world.result("smoke").error, 1);
    world.now = world.now.checked_add(Duration::from_secs(10)).unwrap();
    world.look(&mut |_, _| Phase::Error);
    assert!(matches!(world.actions.last(), Some(Action::StartJob { attempt: 2, .. })), "{:?}", world.actions);
}

#[test]
fn ending_a_run_deletes_the_job_that_is_under_way() {
    let mut world = job_world(json!({}));
    world.look(&mut |_, _| Phase::Error);
    world.observed.jobs.insert("0123456789-uid.smoke.1".into(), JobFact::Running);
    world.observed.spec.terminate = true;
    world.look(&mut |_, _| Phase::Error);
    assert!(matches!(world.actions.last(), Some(Action::DeleteJob { .. })), "{:?}", world.actions);
    assert_eq!(world.observed.status.phase, Phase::Inconclusive);
    assert_eq!(world.result("smoke").measurements[0].message, "Metric Terminated");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_run_counts_right_and_either_waits_or_moves(
        phases in prop::collection::vec(0u8..4, 1..40), count in 1u32..8, failures in 0u32..4, interval in 1u32..30,
        crashes in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let mut world = one(json!({ "interval": format!("{interval}s"), "count": count + failures, "failureLimit": failures }));
        let phase = |at: usize| [Phase::Successful, Phase::Failed, Phase::Inconclusive, Phase::Error][usize::from(phases[at % phases.len()])];
        for round in 0..400_usize {
            let wake = world.look(&mut |_, attempt| phase(attempt as usize));
            if world.observed.status.phase.completed() {
                break;
            }
            // A crash loses answers that nobody has fetched; they are asked for again.
            if crashes[round % crashes.len()] && round < 100 {
                world.observed.answers.clear();
                world.observed.asking.clear();
            }
            match wake {
                Wake::After(wait) => world.now = world.now.checked_add(wait).unwrap(),
                other => prop_assert!(false, "nothing is waited for: {other:?}"),
            }
        }
        let status = &world.observed.status;
        prop_assert!(status.phase.completed(), "{status:?}");
        let result = world.result("m");
        prop_assert_eq!(result.count, result.successful + result.failed + result.inconclusive);
        prop_assert!(result.count <= i32::try_from(count + failures).unwrap());
        prop_assert_eq!(status.phase, result.phase);
        if status.phase == Phase::Successful {
            prop_assert!(result.failed <= i32::try_from(failures).unwrap() && result.inconclusive == 0);
        }
        let again = plan(&world.observed, world.now);
        prop_assert!(again.actions.is_empty() && again.status.is_none());
    }
}

#[test]
fn a_clock_that_was_set_back_does_not_make_a_run_wait() {
    let mut world = one(json!({ "interval": "10s", "count": 2 }));
    world.look(&mut |_, _| Phase::Successful);
    world.look(&mut |_, _| Phase::Successful);
    assert_eq!(world.result("m").count, 1);
    world.now = world.now.checked_sub(Duration::from_secs(3600)).unwrap();
    let wake = world.look(&mut |_, _| Phase::Successful);
    assert_eq!(wake, Wake::After(Duration::from_secs(10)), "the interval counts from the clock as it is");
    world.observed.spec.ttl_strategy =
        serde_json::from_value(json!({ "secondsAfterCompletion": 60 })).unwrap();
    assert_eq!(world.run(100, |_, _| Phase::Successful).phase, Phase::Successful);
    world.now = world.now.checked_sub(Duration::from_secs(3600)).unwrap();
    let made = plan(&world.observed, world.now);
    assert_eq!(made.wake, Wake::After(Duration::from_secs(60)));
    assert!(made.status.is_some_and(|status| status.completed_at.unwrap().0 == world.now));
}
