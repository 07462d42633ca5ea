//! What the type of a condition means: whether `True` is good, bad, or neither.

use super::words::{self, Tone};

/// What the type of a condition means when it is `True`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// All is well: `Ready`, `Available`, `PodsHealthy`.
    Summary,
    /// One step is done, which does not mean that all are: `Created`, `PodScheduled`.
    Step,
    /// Something is wrong: `Stalled`, `ReconcileError`.
    Fault,
    /// Something is not there, be it yet or no more: `NotReady`.
    Lacking,
    /// Something goes on: `Reconciling`, `Issuing`.
    Busy,
    /// Switched off: `Paused`.
    Paused,
    /// Says nothing about health: `Upgradeable`.
    Neutral,
}

/// Types that say nothing about health, though their words would.
const NEUTRAL: &[&str] = &[
    "upgradeable",
    "deletable",
    "evictable",
    "removable",
    "scalable",
    "disruptionallowed",
    "ablescale",
    "abletoscale",
    "scalingactive",
    "scalinglimited",
    "active",
    "recommendationprovided",
    "deprecated",
    "lastreconciled",
    "rebootrequired",
    "updateavailable",
    "upgradeavailable",
    "newversionavailable",
    "warning",
];

/// Words of types that are steps on the way: done is not yet well.
const STEPS: &[&str] = &[
    "created",
    "initialized",
    "scheduled",
    "started",
    "approved",
    "running",
    "requested",
    "submitted",
    "validated",
    "bootstrapped",
    "registered",
    "built",
    "committed",
    "loaded",
    "migrated",
    "processed",
    "recovered",
    "restored",
    "resumed",
    "scaled",
];

/// What a type of condition means, by its words.
pub(super) fn role(kind: &str) -> Role {
    let name = kind.rsplit(['/', '.']).next().unwrap_or(kind);
    let last = words::last_word(name);
    if NEUTRAL.iter().any(|neutral| name.eq_ignore_ascii_case(neutral))
        || words::starts(last, "upgrad") && able(last)
    {
        return Role::Neutral;
    }
    let first = words::words(name).next().unwrap_or("");
    let mut parts = words::words(name);
    if ["not", "non"].iter().any(|not| first.eq_ignore_ascii_case(not)) && parts.nth(1).is_some() {
        return match words::tone(name) {
            Some(Tone::Lacking) => Role::Lacking,
            _ => Role::Fault,
        };
    }
    if ["no", "without"].iter().any(|no| first.eq_ignore_ascii_case(no)) {
        return if words::tone(name) == Some(Tone::Good) { Role::Step } else { Role::Neutral };
    }
    // `ScalingUp`, `RollingOut`: a verb and where it leads.
    if ["up", "down", "out"].iter().any(|to| last.eq_ignore_ascii_case(to)) && words::ends(first, "ing") {
        return Role::Busy;
    }
    if words::has_word(last, &["fallback", "pressure", "unhealthy"]) {
        return Role::Fault;
    }
    if STEPS.iter().any(|step| last.eq_ignore_ascii_case(step)) {
        return Role::Step;
    }
    let said = words::word(last);
    // `BootstrapChecked`: one thing done, whatever the words before the last would say.
    if said.is_none() && last.ends_with("ed") && words::tone(name) != Some(Tone::Bad) {
        return Role::Step;
    }
    // `Irreconcilable`, `Inaccessible`: unable to do what it is for.
    if said.is_none() && unable(last) {
        return Role::Fault;
    }
    match said.or_else(|| words::tone(name)) {
        Some(Tone::Good) => Role::Summary,
        Some(Tone::Bad) => Role::Fault,
        Some(Tone::Busy) => Role::Busy,
        Some(Tone::Paused) => Role::Paused,
        Some(Tone::Lacking) => Role::Lacking,
        // `Discoverable`, `Reachable`: able to do what it is for.
        None if able(last) => Role::Summary,
        None => Role::Neutral,
    }
}

/// Ends as an ability does.
pub(super) fn able(word: &str) -> bool {
    words::ends(word, "able") || words::ends(word, "ible")
}

fn unable(word: &str) -> bool {
    able(word) && ["un", "in", "ir", "im", "non"].iter().any(|not| words::starts(word, not))
}
