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
    judge(object).told()
}

fn judge(object: &Value) -> Health {
    if deleting(object) {
        return Health::deleting();
    }
    if let Some(health) = suspended(object) {
        return health;
    }
    let Some(status) = map(object, &["status"]).filter(|status| !status.is_empty()) else {
        return silent(object);
    };
    let generation = generation(object);
    let all = conditions::read(status.get("conditions"));
    let said = conditions::judge(&all, generation, own_phase(status));
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
    if !said.any {
        hints(status, &mut worst);
    }
    contradictions(status, &mut worst);
    worst.unwrap_or_else(|| match said.step {
        Some(step) => Health::new(Status::Progressing, step),
        None => nothing_said(object, status, said.any),
    })
}

/// What an object without a status is: waiting for one, but for a schedule, which waits for its time, and for the odd
/// kind whose whole status is one word.
fn silent(object: &Value) -> Health {
    if let Some(Value::String(word)) = at(object, &["status"]) {
        let mut worst = None;
        phase("status", word, &Map::new(), ends_by_itself(kind(object)), &mut worst);
        if let Some(health) = worst {
            return health;
        }
    }
    if is_schedule(object) {
        return Health::new(Status::Healthy, "The schedule has not run yet");
    }
    Health::new(Status::Progressing, SILENT)
}

const SILENT: &str = "Waiting for the controller to report a status";

/// Whether a verdict says nothing but that the object has no status at all. Whoever knows that its kind cannot have one
/// knows that there is nothing to wait for; the object alone does not tell.
pub fn waits_for_any_status(health: &Health) -> bool {
    health.status == Status::Progressing && health.message == SILENT
}

fn is_schedule(object: &Value) -> bool {
    words::has_word(kind(object), &["cron", "schedule"])
        && ["schedule", "schedules", "cron"].iter().any(|key| at(object, &["spec", key]).is_some())
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
    if !is_schedule(object) {
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
    "promotion",
    "reboot",
    "remediation",
    "request",
    "restore",
    "rollback",
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
        if !is_phase_field(name) && name != "lastOperation" {
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

/// What the phase of the object itself says, the gravest of several.
fn own_phase(status: &Map<String, Value>) -> Option<Tone> {
    ["phase", "state", "status", "printableStatus"]
        .iter()
        .filter_map(|name| status.get(*name).and_then(Value::as_str).and_then(words::tone))
        .max()
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
        // It says itself that it cannot be told.
        _ if word.eq_ignore_ascii_case("unknown") => Status::Unknown,
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

/// Ends of the names of fields that only say something when something went wrong.
const FAULTS: &[&str] = &[
    "error",
    "errors",
    "errormessage",
    "errordescription",
    "errorreason",
    "failuremessage",
    "failurereason",
    "errmsg",
    "errormsg",
    "problems",
];

/// Texts that say that there is no fault.
const NONE: &[&str] = &["none", "nil", "<nil>", "null", "no error", "no errors", "n/a", "ok"];

fn faults(status: &Map<String, Value>, worst: &mut Option<Health>) {
    for (name, value) in status {
        if !FAULTS.iter().any(|fault| words::ends(name, fault)) {
            continue;
        }
        // What went wrong last may be long over.
        let over = words::starts(name, "last") && worst.as_ref().is_some_and(|w| w.status == Status::Healthy);
        let what = match value {
            Value::String(text)
                if !text.trim().is_empty() && !NONE.iter().any(|no| text.trim().eq_ignore_ascii_case(no)) =>
            {
                text.trim()
            }
            Value::Array(items) if !items.is_empty() => items[0].as_str().unwrap_or("there are errors"),
            Value::Object(what) => match what.get("message").or_else(|| what.get("description")) {
                Some(Value::String(text)) if !text.trim().is_empty() => text.trim(),
                _ => continue,
            },
            Value::Bool(true) => "the object says so",
            _ => continue,
        };
        if !over {
            worsen(worst, Status::Degraded, || format!("{name}: {what}").into());
        }
    }
}

fn flags(status: &Map<String, Value>, worst: &mut Option<Health>) {
    for name in ["suspended", "paused", "hibernated"] {
        if status.get(name) == Some(&Value::Bool(true)) {
            worsen(worst, Status::Suspended, || format!("{name} is true").into());
        }
    }
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

/// One word that tells of a fault, in a field of any name, is enough to not call the object healthy.
fn contradictions(status: &Map<String, Value>, worst: &mut Option<Health>) {
    if worst.as_ref().is_some_and(|health| health.status != Status::Healthy) {
        return;
    }
    for (name, value) in status {
        if let Value::String(word) = value
            && words::word(word) == Some(Tone::Bad)
            && !word.contains(|c: char| !c.is_alphanumeric())
            && !words::has_word(name, NOT_NOW)
        {
            worsen(worst, Status::Degraded, || format!("{name} is {word}").into());
        }
    }
}

/// Flags and fields that are asked when nothing else spoke: one aspect, told by a kind that has no other.
fn hints(status: &Map<String, Value>, worst: &mut Option<Health>) {
    if worst.is_some() {
        return;
    }
    if let Some(Value::String(reason)) = status.get("reason")
        && words::tone(reason) == Some(Tone::Bad)
    {
        let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
        return worsen(worst, Status::Degraded, || {
            format!("{reason} {message}").trim_end().to_owned().into()
        });
    }
    for name in ["synced", "reconciled", "provisioned", "deployed", "installed", "bound", "active", "valid"] {
        match status.get(name) {
            Some(Value::Bool(true)) => worsen(worst, Status::Healthy, || format!("{name} is true").into()),
            Some(Value::Bool(false)) => {
                worsen(worst, Status::Progressing, || format!("{name} is false").into());
            }
            _ => {}
        }
    }
    if let Some(Value::Object(balancer)) = status.get("loadBalancer")
        && matches!(balancer.get("ingress"), Some(Value::Array(ingress)) if !ingress.is_empty())
    {
        worsen(worst, Status::Healthy, || "The load balancer has an address".into());
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
        let said =
            conditions::judge(&conditions::read(inner.get("conditions")), seen.generation, own_phase(inner));
        if let Some(health) = said.worst {
            worsen(worst, health.status, || format!("{label}: {}", health.message).into());
        } else if let Some(step) = said.step {
            worsen(worst, Status::Progressing, || format!("{label}: {step}").into());
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
