//! Conditions: what each says, by the polarity of its type, the words of its reason and those of its message.

use std::borrow::Cow;

use serde_json::Value;

use super::object::{int, text};
use super::role::{Role, able, role};
use super::words::{self, Tone};
use super::{Health, Status};

/// The `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
    /// None of the three: a controller that breaks the convention.
    Other,
}

/// One condition, borrowed from the object.
#[derive(Debug, Clone)]
pub(super) struct Condition<'a> {
    pub kind: &'a str,
    pub truth: Truth,
    /// The word the status was written with.
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    pub observed: Option<i64>,
    /// How grave it is, where the controller says: `Error`, `Warning`, `Info`.
    severity: &'a str,
    changed: &'a str,
}

fn truth(value: Option<&Value>) -> Truth {
    match value {
        Some(Value::Bool(true)) => Truth::True,
        Some(Value::Bool(false)) => Truth::False,
        Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "true" => Truth::True,
            "false" => Truth::False,
            "unknown" | "" => Truth::Unknown,
            _ => Truth::Other,
        },
        None | Some(Value::Null) => Truth::Unknown,
        Some(_) => Truth::Other,
    }
}

fn word(value: Option<&Value>) -> &str {
    match value {
        Some(Value::Bool(true)) => "True",
        Some(Value::Bool(false)) => "False",
        Some(Value::String(text)) => text,
        _ => "Unknown",
    }
}

/// The condition of one type: the newest of several.
pub(super) fn find<'a>(value: Option<&'a Value>, kind: &str) -> Option<Condition<'a>> {
    match value? {
        Value::Array(items) => items
            .iter()
            .filter(|item| text(item, &["type"]) == kind)
            .map(|item| one(text(item, &["type"]), item))
            .reduce(|old, new| if old.changed <= new.changed { new } else { old }),
        all => read(Some(all)).into_iter().find(|condition| condition.kind == kind),
    }
}

/// The conditions in a value: the usual list, or a map by type. Of several of one type the newest counts.
pub(super) fn read(value: Option<&Value>) -> Vec<Condition<'_>> {
    let mut found: Vec<Condition<'_>> = Vec::new();
    match value {
        Some(Value::Array(items)) => {
            for item in items {
                let kind = text(item, &["type"]);
                if !kind.is_empty() {
                    push(&mut found, one(kind, item));
                }
            }
        }
        Some(Value::Object(by_type)) => {
            for (kind, item) in by_type {
                match item {
                    Value::Object(_) => push(&mut found, one(kind, item)),
                    Value::Bool(_) | Value::String(_) => push(
                        &mut found,
                        Condition {
                            kind,
                            truth: truth(Some(item)),
                            status: word(Some(item)),
                            reason: "",
                            message: "",
                            observed: None,
                            severity: "",
                            changed: "",
                        },
                    ),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    found
}

fn one<'a>(kind: &'a str, item: &'a Value) -> Condition<'a> {
    Condition {
        kind,
        truth: truth(item.get("status")),
        status: word(item.get("status")),
        reason: text(item, &["reason"]).trim(),
        message: [text(item, &["message"]).trim(), text(item, &["error"]).trim()]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or(""),
        observed: int(item, &["observedGeneration"]),
        severity: text(item, &["severity"]),
        changed: text(item, &["lastTransitionTime"]),
    }
}

fn push<'a>(found: &mut Vec<Condition<'a>>, new: Condition<'a>) {
    match found.iter_mut().find(|old| old.kind == new.kind) {
        Some(old) if old.changed <= new.changed => *old = new,
        Some(_) => {}
        None => found.push(new),
    }
}

impl Condition<'_> {
    /// The reason and the message as one text for a person.
    pub(super) fn says(&self) -> String {
        match (self.reason, self.message) {
            ("", "") => format!("{} is {}", self.kind, self.truth.word()),
            ("", message) => message.to_owned(),
            (reason, "") => format!("{}: {reason}", self.kind),
            (reason, message) if message.contains(reason) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }

    /// What the condition says beside the others, if it says something.
    fn verdict(&self, role: Role, beside: Beside) -> Option<Status> {
        match (role, self.truth) {
            (Role::Summary, Truth::True) => Some(Status::Healthy),
            // Operators that replay a script run for ever; how the last run ended is the reason.
            (Role::Step, Truth::True) => {
                (self.kind == "Running" && self.reason == "Successful").then_some(Status::Healthy)
            }
            (Role::Step, Truth::False) if self.kind.ends_with("Running") => None,
            // A step that is not done says little where the whole is said to be well.
            (Role::Step, _)
                if beside.well && !matches!(words::tone(self.reason), Some(Tone::Bad | Tone::Busy)) =>
            {
                None
            }
            // `Ready` and its like sum up: that one aspect is not there says little beside it, if nothing is said to be wrong.
            (Role::Summary, Truth::False | Truth::Unknown)
                if beside.well
                    && self.is_an_aspect()
                    && self.severity != "Error"
                    && (!self.troubles() || self.is_an_ability()) =>
            {
                None
            }
            (Role::Summary | Role::Step, _) | (Role::Lacking, Truth::True) => Some(self.shortfall(beside)),
            // Some call themselves degraded for as long as they are being set up.
            (Role::Fault, Truth::True)
                if beside.busy
                    && words::tone(self.reason) == Some(Tone::Busy)
                    && !words::read(self.message).grave =>
            {
                Some(Status::Progressing)
            }
            (Role::Fault, Truth::True) => Some(Status::Degraded),
            (Role::Paused, Truth::True) => Some(Status::Suspended),
            (Role::Busy, Truth::True) => {
                let done = words::word(words::last_word(self.reason)) == Some(Tone::Good);
                let working = matches!(words::tone(self.message), Some(Tone::Busy | Tone::Bad));
                (working || !done).then_some(Status::Progressing)
            }
            (Role::Busy, Truth::Unknown | Truth::Other) => {
                match words::tone(self.reason).or_else(|| words::tone(self.message))? {
                    Tone::Bad => Some(Status::Degraded),
                    Tone::Paused => Some(Status::Suspended),
                    Tone::Busy | Tone::Lacking => Some(Status::Progressing),
                    Tone::Good => None,
                }
            }
            (Role::Busy | Role::Neutral, Truth::False) => {
                (words::tone(self.reason) == Some(Tone::Bad)).then_some(Status::Degraded)
            }
            _ => None,
        }
    }

    /// What a condition that should be `True` means when it is not.
    fn shortfall(&self, beside: Beside) -> Status {
        match self.severity {
            "Error" => return Status::Degraded,
            "Info" | "None" => return Status::Progressing,
            _ => {}
        }
        let reason = words::read(self.reason);
        let message = words::read(self.message);
        if reason.grave || message.grave {
            return Status::Degraded;
        }
        // Too few of something is how every start looks: `MinimumReplicasUnavailable`.
        if counts(self.reason) && words::has_word(self.reason, &["unavailable", "insufficient", "minimum"]) {
            return Status::Progressing;
        }
        if beside.resting {
            return Status::Suspended;
        }
        match reason.tone {
            Some(Tone::Bad) if self.truth != Truth::Unknown => return Status::Degraded,
            Some(Tone::Paused) => return Status::Suspended,
            Some(Tone::Busy) => return Status::Progressing,
            _ => {}
        }
        match message.tone {
            Some(Tone::Bad) if self.truth != Truth::Unknown => return Status::Degraded,
            Some(Tone::Paused) => return Status::Suspended,
            Some(Tone::Busy) => return Status::Progressing,
            _ => {}
        }
        let silent = self.reason.is_empty() && self.message.is_empty();
        match self.truth {
            // `status: Progressing` instead of `Unknown`.
            Truth::Other if words::tone(self.status) == Some(Tone::Busy) => Status::Progressing,
            Truth::Other => Status::Degraded,
            Truth::Unknown => Status::Progressing,
            // Another condition tells of work under way, not all replicas yet, or a job that has not ended: that is how every start looks.
            _ if beside.busy || silent || counts(self.message) || self.is_an_end() || self.waits() => {
                Status::Progressing
            }
            _ => Status::Degraded,
        }
    }

    /// `StatefulSetNotReady`, `NotScheduled`: the fault, if there is one, lies elsewhere, or it is only not yet done.
    /// A bare `NotReady` says no more than the condition itself.
    fn waits(&self) -> bool {
        let bare = ["NotReady", "NotAvailable", "NotHealthy"].contains(&self.reason);
        !bare && words::tone(self.reason) == Some(Tone::Lacking)
    }

    /// Speaks of one part or feature: `BackupConfigured`, `TLSEnabled`, not of the whole as `Available` does.
    fn is_an_aspect(&self) -> bool {
        words::words(self.kind).nth(1).is_some()
    }

    /// Speaks of the whole, and of more than that it was understood.
    fn sums_up(&self) -> bool {
        SUMS.iter().any(|sum| self.kind.eq_ignore_ascii_case(sum))
    }

    /// Speaks of what could be done with it: `LiveMigratable`.
    fn is_an_ability(&self) -> bool {
        let last = words::last_word(self.kind);
        able(last) && words::word(last).is_none()
    }

    /// Tells of a fault or of work.
    fn troubles(&self) -> bool {
        [self.reason, self.message]
            .iter()
            .any(|text| matches!(words::tone(text), Some(Tone::Bad | Tone::Busy)))
    }

    /// The type names the end of something: before it, it is `False`.
    fn is_an_end(&self) -> bool {
        let last = words::last_word(self.kind);
        ENDS.iter().any(|end| last.eq_ignore_ascii_case(end))
    }
}

/// Speaks of how many there are: in words, or as `1/3`.
fn counts(text: &str) -> bool {
    text.split(' ').any(|part| super::counts::ratio(part).is_some())
        || words::words(text).any(|word| COUNTED.iter().any(|counted| word.eq_ignore_ascii_case(counted)))
}

/// Words of sentences that count things which become ready one after another.
const COUNTED: &[&str] = &[
    "replicas",
    "pods",
    "nodes",
    "instances",
    "endpoints",
    "members",
    "machines",
    "availability",
    "brokers",
    "shards",
];

/// Types that sum up all others.
const SUMS: &[&str] =
    &["ready", "available", "healthy", "operational", "reconciled", "complete", "completed", "succeeded"];

/// Last words of types that name the end of something.
const ENDS: &[&str] = &["complete", "completed", "succeeded", "finished", "done"];

impl Truth {
    fn word(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
            Self::Other => "neither True nor False",
        }
    }
}

/// What the other conditions say.
#[derive(Debug, Clone, Copy, Default)]
struct Beside {
    /// One calls the whole well.
    well: bool,
    /// One, or the phase, tells of work under way.
    busy: bool,
    /// The phase tells that it is switched off: then it is no wonder that it is not ready.
    resting: bool,
}

/// What a set of conditions says together.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub worst: Option<Health>,
    /// A fault that the controller saw in the newest spec.
    pub fresh_fault: bool,
    /// There was at least one condition.
    pub any: bool,
    /// The last step that is done: where nothing says more, the rest of the way lies ahead.
    pub step: Option<String>,
}

/// The gravest of all conditions: fault, rest, work, and only then health. Nothing where none of them speaks of health.
/// `phase` is what the phase beside them says.
pub(super) fn judge(conditions: &[Condition<'_>], generation: Option<i64>, phase: Option<Tone>) -> Said {
    let mut said = Said { any: !conditions.is_empty(), ..Said::default() };
    let roles: Vec<Role> = conditions.iter().map(|condition| role(condition.kind)).collect();
    let fresh = |condition: &Condition<'_>| !is_stale(condition, generation);
    let well = conditions
        .iter()
        .zip(&roles)
        .any(|(c, role)| c.truth == Truth::True && *role == Role::Summary && c.sums_up() && fresh(c));
    let busy = phase == Some(Tone::Busy)
        || conditions.iter().zip(&roles).any(|(c, role)| {
            c.truth == Truth::True
                && *role == Role::Busy
                && fresh(c)
                && c.verdict(*role, Beside::default()) == Some(Status::Progressing)
        });
    let beside = Beside { well, busy, resting: phase == Some(Tone::Paused) };
    let ready_is_fresh = conditions.iter().any(|c| c.kind == "Ready" && fresh(c));
    for (condition, role) in conditions.iter().zip(roles) {
        if !fresh(condition) {
            if role == Role::Summary && !ready_is_fresh {
                worsen(&mut said.worst, Status::Progressing, || {
                    format!("Waiting for the new generation to be observed by condition {}", condition.kind)
                        .into()
                });
            }
            continue;
        }
        if let Some(status) = condition.verdict(role, beside) {
            said.fresh_fault |= status == Status::Degraded && condition.observed == generation;
            worsen(&mut said.worst, status, || condition.says().into());
        } else if role == Role::Step && condition.truth == Truth::True {
            said.step = Some(condition.says());
        }
    }
    said
}

/// Whether the condition tells of an older spec.
pub(super) fn is_stale(condition: &Condition<'_>, generation: Option<i64>) -> bool {
    matches!((condition.observed, generation), (Some(seen), Some(wanted)) if seen < wanted)
}

/// Keeps the graver of two verdicts; the first of equals stays.
pub(super) fn worsen(
    worst: &mut Option<Health>,
    status: Status,
    message: impl FnOnce() -> Cow<'static, str>,
) {
    if worst.as_ref().is_none_or(|old| old.status.gravity() < status.gravity()) {
        *worst = Some(Health::new(status, message()));
    }
}
