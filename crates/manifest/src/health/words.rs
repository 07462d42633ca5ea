//! The vocabulary of status words: what a phase, a reason or a sentence says, whoever wrote it.
//!
//! Operators do not share an enum, but they share English. A word is compared in lower case after the text is split at
//! camel humps and punctuation, so `CrashLoopBackOff`, `crash-loop-back-off` and `CRASH_LOOP` are read alike.

use std::sync::LazyLock;

/// What a status word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    /// All is well: `Running`, `Bound`, `Succeeded`.
    Good,
    /// Not well, without a word about why: `NotReady`, `NotAvailable`.
    Lacking,
    /// Under way: `Pending`, `Creating`.
    Busy,
    /// Switched off on purpose: `Paused`, `Hibernated`.
    Paused,
    /// Wrong: `Failed`, `CrashLoopBackOff`, `Invalid`.
    Bad,
}

/// Stems of words that tell of a fault.
const BAD: &[&str] = &[
    "abort",
    "backoff",
    "bad",
    "broken",
    "cancel",
    "cannot",
    "conflict",
    "corrupt",
    "crash",
    "critical",
    "dead",
    "degrad",
    "denied",
    "deny",
    "disconnected",
    "duplicate",
    "err",
    "evict",
    "exceed",
    "exception",
    "expired",
    "fail",
    "fatal",
    "forbid",
    "fault",
    "illegal",
    "imagepullbackoff",
    "impaired",
    "incompatible",
    "insufficient",
    "invalid",
    "lost",
    "malformed",
    "misconfig",
    "mismatch",
    "missing",
    "noncompliant",
    "offline",
    "oom",
    "panic",
    "refus",
    "reject",
    "stall",
    "terminal",
    "terminated",
    "killed",
    "blocked",
    "timedout",
    "timeout",
    "unable",
    "unauthor",
    "unavailable",
    "unhealthy",
    "unreachable",
    "unresolv",
    "unresponsive",
    "unschedulable",
    "unsuccessful",
    "unsupported",
    "violat",
    "warning",
    "wrong",
    "red",
];

/// Stems that tell of a fault even in the middle of a sentence about something else.
const GRAVE: &[&str] = &[
    "crash",
    "denied",
    "err",
    "exception",
    "fail",
    "forbid",
    "invalid",
    "mismatch",
    "panic",
    "unable",
    "unauthor",
    "reject",
    "exceed",
];

/// Stems of words that tell of work under way.
const BUSY: &[&str] = &[
    "await",
    "boot",
    "incomplete",
    "initiali",
    "initiat",
    "inprogress",
    "new",
    "outdated",
    "outofdate",
    "outofsync",
    "partial",
    "pend",
    "plan",
    "progress",
    "queue",
    "requested",
    "retry",
    "rollback",
    "scheduled",
    "stale",
    "start",
    "submitted",
    "unbound",
    "unfinished",
    "unknown",
    "unsynced",
    "upgrade",
    "wait",
    "yellow",
    "unstable",
];

/// Stems of words that tell of a rest on purpose.
const PAUSED: &[&str] =
    &["disabled", "dormant", "halted", "hibernat", "inactive", "pause", "shutdown", "stopped", "suspend"];

/// Words (whole) that tell that all is well.
const GOOD: &[&str] = &[
    "accepted",
    "active",
    "admitted",
    "alive",
    "allocated",
    "applied",
    "approved",
    "assigned",
    "attached",
    "authenticated",
    "available",
    "bound",
    "compliant",
    "complete",
    "completed",
    "configured",
    "connected",
    "created",
    "current",
    "deployed",
    "discovered",
    "done",
    "enabled",
    "enforced",
    "ensured",
    "established",
    "executed",
    "exported",
    "finished",
    "fulfilled",
    "green",
    "healthy",
    "imported",
    "installed",
    "insync",
    "issued",
    "latest",
    "leader",
    "listening",
    "live",
    "mounted",
    "normal",
    "ok",
    "okay",
    "online",
    "open",
    "operational",
    "optimal",
    "pass",
    "passed",
    "programmed",
    "progressed",
    "provisioned",
    "published",
    "ready",
    "reconciled",
    "registered",
    "released",
    "resolved",
    "running",
    "satisfied",
    "serving",
    "stable",
    "started",
    "succeed",
    "succeeded",
    "success",
    "successful",
    "successfully",
    "sufficient",
    "supported",
    "synced",
    "synchronized",
    "true",
    "up",
    "updated",
    "upgraded",
    "uptodate",
    "valid",
    "validated",
    "verified",
    "working",
    "atlatestknown",
    "inuse",
    "operating",
];

/// Words that turn the next one round.
const NOT: &[&str] =
    &["not", "no", "non", "never", "without", "isn", "didn", "doesn", "wasn", "aren", "hasn"];

/// Words of one text, as slices of it.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        if rest.is_empty() {
            return None;
        }
        let end = end_of_word(rest);
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Where the first word of `text` ends: at punctuation, at `aB`, or before the last capital of `ABc`.
fn end_of_word(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    let mut previous_upper = false;
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        if !c.is_alphanumeric() {
            return at;
        }
        let upper = c.is_uppercase();
        if !first && upper {
            let next_lower = chars.peek().is_some_and(|(_, n)| n.is_lowercase());
            if !previous_upper || next_lower {
                return at;
            }
        }
        previous_upper = upper;
        first = false;
    }
    text.len()
}

fn starts(word: &str, stem: &str) -> bool {
    word.len() >= stem.len() && word.as_bytes()[..stem.len()].eq_ignore_ascii_case(stem.as_bytes())
}

/// Whether a word ends so, in any case.
pub(super) fn ends(word: &str, tail: &str) -> bool {
    word.len() >= tail.len()
        && word.as_bytes()[word.len() - tail.len()..].eq_ignore_ascii_case(tail.as_bytes())
}

fn any_stem(word: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| is_stem(word, stem))
}

/// Short stems are whole words: `red` is not `reduced`, `new` is not `newest`, `err` is not `errand`.
fn is_stem(word: &str, stem: &str) -> bool {
    if stem.len() <= 3 { word.eq_ignore_ascii_case(stem) || plural(word, stem) } else { starts(word, stem) }
}

/// The vocabulary by first letter: a text has many words and most of them are none of these.
struct Letter {
    bad: Vec<&'static str>,
    good: Vec<&'static str>,
    paused: Vec<&'static str>,
    busy: Vec<&'static str>,
}

static LETTERS: LazyLock<Vec<Letter>> = LazyLock::new(|| {
    let of = |letter: u8, words: &[&'static str]| {
        words.iter().copied().filter(|word| word.as_bytes().first() == Some(&letter)).collect()
    };
    (b'a'..=b'z')
        .map(|letter| Letter {
            bad: of(letter, BAD),
            good: of(letter, GOOD),
            paused: of(letter, PAUSED),
            busy: of(letter, BUSY),
        })
        .collect()
});

fn plural(word: &str, stem: &str) -> bool {
    stem == "err" && (starts(word, "error") || word.eq_ignore_ascii_case("errored"))
}

/// What one word says, if it says something.
pub(super) fn word(word: &str) -> Option<Tone> {
    let first = word.as_bytes().first()?.to_ascii_lowercase();
    let letter = LETTERS.get(usize::from(first.checked_sub(b'a')?))?;
    if word.len() < 2 {
        return None;
    }
    if any_stem(word, &letter.bad) {
        return Some(Tone::Bad);
    }
    if letter.good.iter().any(|good| word.eq_ignore_ascii_case(good)) {
        return Some(Tone::Good);
    }
    if ends(word, "ing") && word.len() > 5 {
        return Some(Tone::Busy);
    }
    if any_stem(word, &letter.paused) {
        return Some(Tone::Paused);
    }
    any_stem(word, &letter.busy).then_some(Tone::Busy)
}

/// Whether a word tells of a fault whatever stands around it.
fn is_grave(word: &str) -> bool {
    any_stem(word, GRAVE)
}

/// What `not` and a word say together.
fn turned(tone: Tone, of: &str) -> Option<Tone> {
    match tone {
        Tone::Bad => Some(Tone::Good),
        Tone::Good
            if of.eq_ignore_ascii_case("healthy")
                || ["valid", "accept", "compliant"].iter().any(|w| starts(of, w)) =>
        {
            Some(Tone::Bad)
        }
        Tone::Good => Some(Tone::Lacking),
        Tone::Lacking | Tone::Busy | Tone::Paused => None,
    }
}

/// Words before which one that ends in `ing` tells of work: `is creating`, `still waiting`.
const DOING: &[&str] = &["is", "are", "be", "being", "still", "currently", "was", "were"];

/// Bytes of a text that are read: what a message has to say it says in its first lines.
const ENOUGH: usize = 400;

/// What a text says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The gravest of its words, negations read.
    pub tone: Option<Tone>,
    /// One of its words tells of a fault whatever stands around it.
    pub grave: bool,
}

/// What a status word (`phase`, `state`, `reason`) or a sentence says: the gravest of its parts, negations read.
pub(super) fn tone(text: &str) -> Option<Tone> {
    read(text).tone
}

/// Reads a status word or a sentence.
pub(super) fn read(text: &str) -> Reading {
    let text = &text[..text.floor_char_boundary(ENOUGH)];
    let sentence = text.matches(' ').count() > 3;
    let count = if sentence { 0 } else { words(text).count() };
    let mut gravest = None;
    let mut grave = false;
    let mut negated = false;
    let mut joined_last: Option<&str> = None;
    for (at, part) in words(text).enumerate() {
        if NOT.iter().any(|not| part.eq_ignore_ascii_case(not)) {
            negated = true;
            continue;
        }
        let said = if negated && part.eq_ignore_ascii_case("found") {
            Some(Tone::Bad)
        } else if joined_last.is_some_and(|last| last.eq_ignore_ascii_case("in"))
            && (part.eq_ignore_ascii_case("sync") || part.eq_ignore_ascii_case("use"))
        {
            Some(Tone::Good)
        } else if joined_last.is_some_and(|last| last.eq_ignore_ascii_case("of"))
            && (part.eq_ignore_ascii_case("sync") || part.eq_ignore_ascii_case("date"))
        {
            Some(Tone::Busy)
        } else if joined_last.is_some_and(|last| last.eq_ignore_ascii_case("already"))
            && part.eq_ignore_ascii_case("exists")
        {
            Some(Tone::Bad)
        } else {
            match word(part) {
                // `RunningWorkflow` runs something; `ClusterRunning` and `Running` are.
                Some(Tone::Good) if !sentence && at + 1 < count && part.eq_ignore_ascii_case("running") => {
                    Some(Tone::Busy)
                }
                Some(tone) if negated => turned(tone, part),
                Some(Tone::Busy) if ends(part, "ing") && !any_stem(part, BUSY) => {
                    let doing = joined_last
                        .is_none_or(|last| DOING.iter().any(|doing| last.eq_ignore_ascii_case(doing)));
                    // In the middle of many words it is often a noun: "the publishing strategy".
                    let noun = if sentence { !doing } else { count > 3 && at > 0 && at + 1 < count };
                    (!noun).then_some(Tone::Busy)
                }
                other => other,
            }
        };
        if said.is_some() {
            negated = false;
        }
        grave |= said == Some(Tone::Bad) && is_grave(part);
        gravest = gravest.max(said);
        joined_last = Some(part);
    }
    Reading { tone: gravest, grave }
}

/// Whether any word of `text` is one of `stems`.
pub(super) fn has_word(text: &str, stems: &[&str]) -> bool {
    words(text).any(|word| any_stem(word, stems))
}

/// The last word of a kind or a condition type: what it is. `PipelineRun` is a run.
pub(super) fn last_word(text: &str) -> &str {
    words(text).last().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_at_humps_and_punctuation() {
        let split = |text| words(text).collect::<Vec<_>>();
        assert_eq!(split("CrashLoopBackOff"), ["Crash", "Loop", "Back", "Off"]);
        assert_eq!(split("DBClusterNotReady"), ["DB", "Cluster", "Not", "Ready"]);
        assert_eq!(
            split("in-progress, 3 of UPDATE_FAILED"),
            ["in", "progress", "3", "of", "UPDATE", "FAILED"]
        );
        assert_eq!(split("ÄtherLost"), ["Äther", "Lost"]);
        assert_eq!(split("  "), Vec::<&str>::new());
    }

    #[test]
    fn words_are_read_whatever_their_spelling() {
        for (text, said) in [
            ("Running", Tone::Good),
            ("ACTIVE", Tone::Good),
            ("in-sync", Tone::Good),
            ("NoConflicts", Tone::Good),
            ("AtLatestKnown", Tone::Good),
            ("UpgradePending", Tone::Busy),
            ("runningWorkflow", Tone::Busy),
            ("ClusterRunning", Tone::Good),
            ("NotReady", Tone::Lacking),
            ("PROVISIONING", Tone::Busy),
            ("OutOfSync", Tone::Busy),
            ("Paused", Tone::Paused),
            ("CrashLoopBackOff", Tone::Bad),
            ("UPDATE_FAILED", Tone::Bad),
            ("NotFound", Tone::Bad),
            ("Unhealthy", Tone::Bad),
            ("red", Tone::Bad),
            ("InvalidSpec", Tone::Bad),
        ] {
            assert_eq!(tone(text), Some(said), "{text}");
        }
        for text in ["", "Default", "reduced", "blue", "eu-west-1"] {
            assert_eq!(tone(text), None, "{text}");
        }
    }
}
