//! The public health suite: what a large user base expects of some seven hundred objects.
//!
//! Found by `WINDLASS_SUITES`, else beside the project; without it the tests say so and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use windlass_manifest::health::{Health, Rules, Status, generic, health};
use windlass_manifest::parse::{Limits, ParseError, parse};

/// One case of the suite.
struct Case {
    group: String,
    kind: String,
    path: String,
    object: Value,
    status: String,
    message: String,
}

fn suite() -> Option<Vec<Case>> {
    let root = std::env::var_os("WINDLASS_SUITES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"), PathBuf::from)
        .join("health");
    if !root.is_dir() {
        eprintln!("skipped: no health suite at {} (set WINDLASS_SUITES)", root.display());
        return None;
    }
    let mut cases = Vec::new();
    for group in folders(&root) {
        for kind in folders(&group) {
            let test = lower(&first(&kind.join("health_test.yaml")));
            for case in test["tests"].as_array().expect("tests is a list") {
                let case = lower(case);
                let wanted = lower(&case["healthstatus"]);
                let path = case["inputpath"].as_str().expect("a path").to_owned();
                cases.push(Case {
                    group: name(&group),
                    kind: name(&kind),
                    object: first(&kind.join(&path)),
                    status: wanted["status"].as_str().expect("a status").to_owned(),
                    message: wanted.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    path,
                });
            }
        }
    }
    assert!(cases.len() > 600, "the suite has {} cases only", cases.len());
    Some(cases)
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Reads the first document as the suite's own reader does, which is less strict than the house's: of a key that stands
/// twice the last counts.
fn first(path: &Path) -> Value {
    let mut text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for _ in 0..8 {
        let error = match parse(&text, &Limits::default()) {
            Ok(documents) => {
                let mut values = documents.into_iter().map(|document| document.value);
                return values.find(|value| !value.is_null()).expect("a document");
            }
            Err(error) => error,
        };
        let line = error.position().map_or(0, |position| position.line);
        let lines: Vec<&str> = text.lines().collect();
        text = match &error {
            ParseError::DuplicateKey { .. } if !lines[line - 1].starts_with(' ') => {
                let key = lines[line - 1].split(':').next().unwrap();
                let start = lines.iter().position(|of| of.split(':').next() == Some(key)).unwrap();
                let end = start + 1 + lines[start + 1..].iter().position(|of| !of.starts_with(' ')).unwrap();
                [&lines[..start], &lines[end..]].concat().join("\n")
            }
            other => panic!("{}: {other}", path.display()),
        };
    }
    panic!("{}: cannot be read", path.display());
}

/// The keys of the suite vary in case.
fn lower(value: &Value) -> Map<String, Value> {
    value.as_object().expect("a map").iter().map(|(key, value)| (key.to_lowercase(), value.clone())).collect()
}

/// How a judge fared.
#[derive(Default)]
struct Score {
    cases: usize,
    right: usize,
    messages: usize,
    false_healthy: usize,
    misses: Vec<String>,
}

impl Score {
    fn of<'a>(cases: impl IntoIterator<Item = &'a Case>, judge: impl Fn(&Value) -> Health) -> Self {
        let mut score = Self::default();
        for case in cases {
            let health = judge(&case.object);
            score.cases += 1;
            score.messages += usize::from(health.message == case.message);
            if health.status.as_str() == case.status {
                score.right += 1;
                continue;
            }
            score.false_healthy += usize::from(health.status == Status::Healthy);
            score.misses.push(format!(
                "{:40} {:30} {:45} want {:12} got {:12} {}",
                case.group,
                case.kind,
                case.path.trim_start_matches("testdata/"),
                case.status,
                health.status,
                health.message.chars().take(80).collect::<String>()
            ));
        }
        score
    }

    #[allow(clippy::cast_precision_loss)] // hundreds
    fn percent(&self) -> f64 {
        100.0 * self.right as f64 / self.cases as f64
    }

    fn print(&self, name: &str) {
        println!(
            "{name}: {} of {} statuses ({:.1} %), {} false Healthy, {} messages equal",
            self.right,
            self.cases,
            self.percent(),
            self.false_healthy,
            self.messages
        );
        for miss in &self.misses {
            println!("  {miss}");
        }
    }
}

#[test]
fn every_status_of_the_public_suite_is_met() {
    let Some(cases) = suite() else { return };
    let score = Score::of(&cases, health);
    score.print("all rules");
    assert_eq!(score.right, score.cases, "see the table of misses");
}

#[test]
fn the_generic_rule_alone_judges_most_of_the_suite_and_hardly_ever_calls_healthy_what_is_not() {
    let Some(cases) = suite() else { return };
    let score = Score::of(&cases, generic);
    score.print("generic rule alone");
    let mut by_group: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in &cases {
        let tally = by_group.entry(&case.group).or_default();
        tally.1 += 1;
        tally.0 += usize::from(generic(&case.object).status.as_str() == case.status);
    }
    #[allow(clippy::cast_precision_loss)]
    let mean = by_group.values().map(|(right, all)| *right as f64 / *all as f64).sum::<f64>()
        / by_group.len() as f64;
    println!("generic rule alone, mean over {} groups: {:.1} %", by_group.len(), 100.0 * mean);
    assert!(score.percent() >= 84.0, "{:.1} %", score.percent());
    assert!(mean >= 0.88, "{:.1} % over groups", 100.0 * mean);
    assert!(score.false_healthy <= 16, "{} false Healthy", score.false_healthy);
}

/// Kinds for which an absent status is a state: schedules that have not run, configuration, switches in the spec.
fn speaks_without_status(case: &Case) -> bool {
    let spec = &case.object["spec"];
    case.kind.contains("Cron")
        || case.kind == "Schedule"
        || case.kind == "ExecHook"
        || spec["type"] == "oci"
        || spec["mode"] == "sidecar"
        || spec["includes"].is_array()
}

#[test]
fn without_its_status_nothing_of_the_suite_becomes_healthy() {
    let Some(cases) = suite() else { return };
    for case in cases.iter().filter(|case| case.status != "Healthy" && !speaks_without_status(case)) {
        let mut object = case.object.clone();
        object.as_object_mut().unwrap().remove("status");
        for judged in [health(&object), generic(&object)] {
            assert_ne!(
                judged.status,
                Status::Healthy,
                "{}/{}/{}: {}",
                case.group,
                case.kind,
                case.path,
                judged.message
            );
        }
    }
}

#[test]
fn what_is_being_deleted_is_never_healthy() {
    let Some(cases) = suite() else { return };
    for case in &cases {
        let mut object = case.object.clone();
        let metadata = object.as_object_mut().unwrap().entry("metadata").or_insert_with(|| json!({}));
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for judged in [health(&object), generic(&object)] {
            assert_ne!(judged.status, Status::Healthy, "{}/{}/{}", case.group, case.kind, case.path);
        }
    }
}

#[test]
fn mutilated_objects_of_the_suite_are_judged_without_a_panic_and_briefly() {
    let Some(cases) = suite() else { return };
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut dice = move || {
        // xorshift: enough to pick fields, and the same on every machine
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap()
    };
    for round in 0..6 {
        for case in &cases {
            let mut object = case.object.clone();
            for _ in 0..=round {
                mutilate(&mut object, &mut dice);
            }
            for judged in [health(&object), generic(&object)] {
                assert!(judged.message.len() < 1100, "{} bytes of message", judged.message.len());
            }
        }
    }
}

/// Drops or replaces one random field, somewhere.
fn mutilate(value: &mut Value, dice: &mut impl FnMut() -> usize) {
    let odd = |dice: usize| match dice % 9 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(0.5),
        5 => json!(""),
        6 => json!([]),
        7 => json!({}),
        _ => json!([{ "type": "Ready", "status": 1 }, null, "x"]),
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(dice() % map.len()).unwrap().clone();
            match dice() % 6 {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(key, odd(dice()))),
                _ => mutilate(&mut map[&key], dice),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = dice() % items.len();
            match dice() % 6 {
                0 => drop(items.remove(at)),
                1 => items[at] = odd(dice()),
                _ => mutilate(&mut items[at], dice),
            }
        }
        other => *other = odd(dice()),
    }
}

#[test]
fn every_embedded_rule_parses() {
    let kinds = Rules::check_embedded().unwrap();
    assert!(kinds > 150, "{kinds} kinds have rules");
}
