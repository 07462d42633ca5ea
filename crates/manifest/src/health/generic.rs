//! The rule for every kind that nobody wrote a rule for.
//!
//! It gathers what the object says about itself, in the ways that operators have of saying it, and lets the gravest word
//! decide. Doubt is never Healthy: something must say that all is well, and nothing may say otherwise.

use serde_json::{Map, Value};

use super::conditions::{self, worsen};
use super::counts;
use super::object::{at, deleting, flag, generation, int, kind, list, map, text, truthy, unread, whole};
use super::words::{self, Tone};
use super::{Health, Status};

/// Judges an object of any kind by the conventions of Kubernetes: deletion, suspension, generation, conditions, phase
/// words, flags and replica counts.
pub fn generic(object: &Value) -> Health {
    judge(object).cut()
}

fn judge(object: &Value) -> Health {
    if deleting(object) {
        return Health::deleting();
    }
    if let Some(health) = suspended(object) {
        return health;
    }
    let Some(status) = map(object, &["status"]).filter(|status| !status.is_empty()) else {
        return Health::new(Status::Progressing, "Waiting for the controller to report a status");
    };
    let generation = generation(object);
    let all = conditions::read(status.get("conditions"));
    let said = conditions::judge(&all, generation);
    if (unread(object) || unseen(status, generation)) && !said.fresh_fault {
        return Health::new(Status::Progressing, "Waiting for the new generation to be observed");
    }
    let mut worst = said.worst;
    if ends_by_itself(kind(object))
        && worst.as_ref().is_some_and(|health| health.status == Status::Progressing)
        && ended(status)
    {
        worst = None;
    }
    phases(object, status, &mut worst);
    faults(status, &mut worst);
    flags(status, &mut worst);
    counts::whole_object(object, status, &mut worst);
    parts(status, &Seen { generation, runs: ends_by_itself(kind(object)), conditions: said.any }, &mut worst);
    worst.unwrap_or_else(|| nothing_said(object, status, said.any))
}

/// Other names for `observedGeneration`.
fn unseen(status: &Map<String, Value>, generation: Option<i64>) -> bool {
    let Some(wanted) = generation else { return false };
    ["lastEvaluatedGeneration", "reconciledGeneration", "lastReconciledGeneration", "processedGeneration"]
        .iter()
        .any(|name| status.get(*name).and_then(whole).is_some_and(|seen| seen < wanted))
}

/// A schedule that has run is well as long as nothing says otherwise: between two runs it has nothing to tell.
fn schedule(object: &Value, status: &Map<String, Value>) -> Option<Health> {
    let named = words::has_word(kind(object), &["cron", "schedule"]);
    if !named || !["schedule", "schedules", "cron"].iter().any(|key| at(object, &["spec", key]).is_some()) {
        return None;
    }
    if !list(object, &["status", "active"]).is_empty() {
        return Some(Health::new(Status::Progressing, "A scheduled run is under way"));
    }
    let time = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let (started, succeeded) = (time("lastScheduleTime"), time("lastSuccessfulTime"));
    if !succeeded.is_empty() && succeeded < started {
        return Some(Health::new(Status::Degraded, "The last run did not succeed"));
    }
    (!started.is_empty() || !succeeded.is_empty())
        .then(|| Health::new(Status::Healthy, format!("Last run at {}", started.max(succeeded))))
}

fn nothing_said(object: &Value, status: &Map<String, Value>, any_condition: bool) -> Health {
    if let Some(health) = schedule(object, status) {
        return health;
    }
    let seen = int(object, &["status", "observedGeneration"]);
    if !any_condition && seen.is_some() && seen == generation(object) {
        return Health::new(Status::Healthy, "The newest generation is observed and nothing is amiss");
    }
    Health::new(Status::Progressing, "Waiting for the status to say that the object is ready")
}

/// Fields of a spec that switch an object off.
const SWITCHES: &[&str] = &["suspend", "suspended", "paused", "pause", "hibernate", "hibernated", "stopped"];

fn suspended(object: &Value) -> Option<Health> {
    let spec = at(object, &["spec"]);
    for switch in SWITCHES {
        if spec.is_some_and(|spec| flag(spec, &[switch])) {
            return Some(Health::new(Status::Suspended, format!("spec.{switch} is true")));
        }
    }
    for strategy in ["strategy", "updateStrategy"] {
        for path in [&["spec", strategy, "paused"][..], &["spec", strategy, "rollingUpdate", "paused"]] {
            if flag(object, path) {
                return Some(Health::new(Status::Suspended, format!("{} is true", path.join("."))));
            }
        }
    }
    if at(object, &["spec", "enabled"]) == Some(&Value::Bool(false)) {
        return Some(Health::new(Status::Suspended, "spec.enabled is false"));
    }
    let annotations = map(object, &["metadata", "annotations"])?;
    annotations
        .iter()
        .find(|(key, value)| key.ends_with("/paused") && truthy(value))
        .map(|(key, _)| Health::new(Status::Suspended, format!("annotation {key} is true")))
}

/// Kinds whose objects run once and end: to run is to be under way.
const RUNS: &[&str] = &[
    "action",
    "analysis",
    "backup",
    "build",
    "check",
    "clone",
    "evaluation",
    "execution",
    "experiment",
    "export",
    "import",
    "installation",
    "job",
    "migration",
    "operation",
    "request",
    "restore",
    "run",
    "scan",
    "snapshot",
    "sync",
    "task",
    "test",
    "upgrade",
    "upload",
    "workflow",
];

fn ends_by_itself(kind: &str) -> bool {
    let first = words::words(kind).next().unwrap_or("");
    let last = words::last_word(kind);
    !["cron", "scheduled", "schedule", "scaled"].iter().any(|word| first.eq_ignore_ascii_case(word))
        && RUNS.iter().any(|run| last.eq_ignore_ascii_case(run))
}

/// Last words of the names of fields that hold a status word.
const PHASES: &[&str] = &[
    "phase",
    "state",
    "status",
    "health",
    "compliant",
    "compliance",
    "result",
    "outcome",
    "stage",
    "verdict",
    "conclusion",
    "progress",
];

/// Whether a field holds a status word, by its name. What came before says nothing, but for the last thing done.
fn is_phase_field(name: &str) -> bool {
    // Most fields are none: told by their end before they are split into words.
    if !PHASES.iter().any(|word| words::ends(name, word)) {
        return false;
    }
    let last = words::last_word(name);
    let first = words::words(name).next().unwrap_or("");
    PHASES.iter().any(|word| last.eq_ignore_ascii_case(word))
        && !["previous", "desired", "target", "old"].iter().any(|word| first.eq_ignore_ascii_case(word))
        && (!first.eq_ignore_ascii_case("last")
            || words::has_word(name, &["operation", "reconcile", "apply", "update", "sync", "deploy"]))
}

fn phases(object: &Value, status: &Map<String, Value>, worst: &mut Option<Health>) {
    let runs = ends_by_itself(kind(object));
    for (name, value) in status {
        if !is_phase_field(name) {
            continue;
        }
        match value {
            Value::String(word) => phase(name, word, status, runs, worst),
            Value::Object(inner) => {
                for (name, value) in inner {
                    if let (true, Value::String(word)) = (is_phase_field(name), value) {
                        phase(name, word, inner, runs, worst);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether the phase of something that runs once says that it came to its end: its conditions may lag behind.
fn ended(status: &Map<String, Value>) -> bool {
    ["phase", "state", "status"].iter().any(|name| {
        status.get(*name).and_then(Value::as_str).is_some_and(|word| {
            words::tone(word) == Some(Tone::Good)
                && words::has_word(word, &["complete", "succe", "finish", "done", "passed"])
        })
    })
}

fn phase(name: &str, word: &str, beside: &Map<String, Value>, runs: bool, worst: &mut Option<Health>) {
    let status = match words::tone(word) {
        Some(Tone::Bad) => Status::Degraded,
        Some(Tone::Paused) => Status::Suspended,
        Some(Tone::Busy | Tone::Lacking) => Status::Progressing,
        Some(Tone::Good)
            if runs
                && ["running", "active", "started", "created"]
                    .iter()
                    .any(|w| word.eq_ignore_ascii_case(w)) =>
        {
            Status::Progressing
        }
        Some(Tone::Good) => Status::Healthy,
        // A word nobody knows is doubt where it is the object's own phase, and nothing elsewhere.
        None if worst.is_none() && ["phase", "state", "status"].contains(&name) && !word.is_empty() => {
            Status::Unknown
        }
        None => return,
    };
    worsen(worst, status, || {
        let why = ["message", "reason", "statusMessage", "description", "errorDescription"]
            .iter()
            .find_map(|key| beside.get(*key).and_then(Value::as_str).filter(|text| !text.is_empty()));
        why.map_or_else(|| format!("{name} is {word}"), |why| format!("{name} is {word}: {why}")).into()
    });
}

/// Fields that are only there when something went wrong.
const FAULTS: &[&str] = &[
    "error",
    "errors",
    "errorMessage",
    "errorDescription",
    "failureMessage",
    "failureReason",
    "errorReason",
    "errMsg",
    "errorMsg",
];

fn faults(status: &Map<String, Value>, worst: &mut Option<Health>) {
    for name in FAULTS {
        let what = match status.get(*name) {
            Some(Value::String(text)) if !text.trim().is_empty() => text.trim(),
            Some(Value::Array(items)) if !items.is_empty() => items[0].as_str().unwrap_or("there are errors"),
            Some(Value::Bool(true)) => "the object says so",
            _ => continue,
        };
        worsen(worst, Status::Degraded, || format!("{name}: {what}").into());
    }
}

fn flags(status: &Map<String, Value>, worst: &mut Option<Health>) {
    for name in ["ready", "healthy", "available", "isReady", "readyToUse"] {
        let Some(value @ (Value::Bool(_) | Value::String(_))) = status.get(name) else { continue };
        if truthy(value) {
            worsen(worst, Status::Healthy, || format!("{name} is true").into());
        } else if value.as_str().is_none_or(|text| text.eq_ignore_ascii_case("false")) {
            worsen(worst, Status::Progressing, || format!("{name} is false").into());
        }
    }
    for name in ["pass", "passed", "success", "successful", "succeeded", "valid"] {
        if status.get(name) == Some(&Value::Bool(false)) {
            worsen(worst, Status::Degraded, || format!("{name} is false").into());
        }
    }
    if status.get("failed").is_some_and(truthy) {
        worsen(worst, Status::Degraded, || "failed is true".into());
    }
}

/// What judging a part needs to know of the whole.
struct Seen {
    generation: Option<i64>,
    runs: bool,
    /// The whole has conditions: then it is they who may call it healthy, not its parts.
    conditions: bool,
}

/// Names of parts that tell of the past or of the outside, not of the object now.
const NOT_NOW: &[&str] =
    &["history", "last", "previous", "event", "attempt", "conditions", "provider", "old"];

/// Parts of the status that have conditions, phases or counts of their own: parents, listeners, racks, environments.
fn parts(status: &Map<String, Value>, seen: &Seen, worst: &mut Option<Health>) {
    for (name, value) in status {
        if words::has_word(name, NOT_NOW) {
            continue;
        }
        match value {
            Value::Array(items) => items.iter().take(MANY).for_each(|item| part(name, item, seen, worst)),
            Value::Object(inner) => {
                part(name, value, seen, worst);
                for (name, item) in inner.iter().take(MANY) {
                    match item {
                        Value::Array(items) => {
                            items.iter().take(MANY).for_each(|item| part(name, item, seen, worst));
                        }
                        item => part(name, item, seen, worst),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Parts looked at in one list: a status with more of them is judged by its first.
const MANY: usize = 256;

fn part(name: &str, item: &Value, seen: &Seen, worst: &mut Option<Health>) {
    let Value::Object(inner) = item else { return };
    let label =
        [text(item, &["name"]), text(item, &["parentRef", "name"]), text(item, &["ancestorRef", "name"])]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or(name);
    if inner.contains_key("conditions") {
        let said = conditions::judge(&conditions::read(inner.get("conditions")), seen.generation);
        if let Some(health) = said.worst {
            worsen(worst, health.status, || format!("{label}: {}", health.message).into());
        } else if !said.any {
            worsen(worst, Status::Progressing, || format!("{label}: waiting for conditions").into());
        }
    }
    for (field, value) in inner {
        if let (true, Value::String(word)) = (is_phase_field(field), value)
            && let Some(tone) = words::tone(word)
            && !(seen.conditions && tone == Tone::Good)
        {
            phase(&format!("{label}: {field}"), word, inner, seen.runs, worst);
        }
    }
    counts::part(inner, worst);
}
