//! The vocabulary of status words: what a phase, a reason or a sentence says, whoever wrote it.
//!
//! Operators do not share an enum, but they share English. A word is compared in lower case after the text is split at
//! camel humps and punctuation, so `CrashLoopBackOff`, `crash-loop-back-off` and `CRASH_LOOP` are read alike.

use std::sync::LazyLock;

use super::vocabulary::{BAD, BUSY, DOING, GOOD, GRAVE, NOT, PAUSED, WORK};

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

/// Whether a word starts so, in any case.
pub(super) fn starts(word: &str, stem: &str) -> bool {
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
    // A failover is what saves from a failure.
    if word.len() < 2 || starts(word, "failover") {
        return None;
    }
    if any_stem(word, &letter.bad) {
        return Some(Tone::Bad);
    }
    if letter.good.iter().any(|good| word.eq_ignore_ascii_case(good)) {
        return Some(Tone::Good);
    }
    // `Unregistered`, `Unscheduled`.
    if let Some(rest) = word.get(2..).filter(|_| starts(word, "un"))
        && GOOD.iter().any(|good| rest.eq_ignore_ascii_case(good))
    {
        return Some(Tone::Lacking);
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

/// What two words say that say something only together: `not found`, `in sync`, `out of date`, `already exists`,
/// `timed out`.
fn pair(last: Option<&str>, part: &str, negated: bool) -> Option<Tone> {
    let is = |word: &str| part.eq_ignore_ascii_case(word);
    let after = |word: &str| last.is_some_and(|last| last.eq_ignore_ascii_case(word));
    if negated && (is("found") || is("enough"))
        || after("already") && is("exists")
        || after("timed") && is("out")
        || after("back") && is("off")
        || after("rolled") && is("back")
    {
        Some(Tone::Bad)
    } else if after("in") && (is("sync") || is("use")) {
        Some(Tone::Good)
    } else if after("of") && (is("sync") || is("date")) {
        Some(Tone::Busy)
    } else {
        None
    }
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
    let mut parts = words(text).enumerate().peekable();
    while let Some((at, part)) = parts.next() {
        // "Failed: 0": none of what would be bad.
        if parts.peek().is_some_and(|(_, next)| *next == "0") {
            negated = false;
            continue;
        }
        if NOT.iter().any(|not| part.eq_ignore_ascii_case(not)) {
            negated = true;
            continue;
        }
        let said = if let Some(tone) = pair(joined_last, part, negated) {
            Some(tone)
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
                    // A state in capitals is none: "bucket in CREATING state".
                    let noun = if part.bytes().all(|byte| byte.is_ascii_uppercase()) {
                        false
                    } else if sentence {
                        !doing
                    } else {
                        count > 3 && at > 0 && at + 1 < count
                    };
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
    if !sentence && gravest == Some(Tone::Busy) {
        gravest = Some(ended(text));
    }
    Reading { tone: gravest, grave }
}

/// What a status word says that names work: it may name its end, too.
fn ended(text: &str) -> Tone {
    let over = ["complete", "completed", "done", "finished", "successful", "succeeded", "success"];
    let last = last_word(text);
    if !over.iter().any(|end| last.eq_ignore_ascii_case(end)) {
        return Tone::Busy;
    }
    if has_word(text, &["rollback"]) {
        // What was wanted did not come to be.
        return Tone::Bad;
    }
    let only_work = words(text).all(|part| word(part) != Some(Tone::Busy) || any_stem(part, WORK));
    if only_work && !has_word(text, NOT) { Tone::Good } else { Tone::Busy }
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
