//! Which notes become Events, which count up an Event, and which are too many. Pure: time is an argument.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::Note;

/// A note that does not repeat within this time starts a new Event.
const WINDOW: Duration = Duration::from_mins(6);
/// A series is written at most once in this time.
const WRITE_EVERY: Duration = Duration::from_secs(30);
/// New Events of one object at once, and one more per this time afterwards.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_mins(5);
/// Objects and notes that are remembered. The oldest go first.
const REMEMBERED: usize = 4096;

/// The object that a note is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Subject {
    pub(super) fn of(reference: &ObjectReference) -> Self {
        Self {
            kind: format!(
                "{}/{}",
                reference.api_version.as_deref().unwrap_or_default(),
                reference.kind.as_deref().unwrap_or_default()
            ),
            namespace: reference.namespace.clone().unwrap_or_default(),
            name: reference.name.clone().unwrap_or_default(),
            uid: reference.uid.clone().unwrap_or_default(),
        }
    }
}

pub(super) type Key = (Subject, Note);

/// A published note that may repeat.
#[derive(Debug)]
pub(super) struct Series {
    /// Name of the Event; empty until it was created.
    pub(super) event: String,
    pub(super) count: u32,
    written_count: u32,
    last_seen: Instant,
    last_written: Instant,
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new Event.
    Create,
    /// The Event of this name now counts this many.
    CountUp { event: String, count: u32 },
    /// Counted, written later.
    Later,
    /// One too many of this object.
    Flood,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    series: BTreeMap<Key, Series>,
    allowances: BTreeMap<Subject, Allowance>,
}

#[derive(Debug)]
struct Allowance {
    left: u32,
    refilled: Instant,
}

impl Memory {
    /// Takes a note that was seen now.
    pub(super) fn take(&mut self, key: &Key, now: Instant) -> Step {
        if let Some(series) = self.series.get_mut(key)
            && now.duration_since(series.last_seen) < WINDOW
        {
            series.count = series.count.saturating_add(1);
            series.last_seen = now;
            // The first repeat shows at once that it is one.
            let due = series.written_count == 1 || now.duration_since(series.last_written) >= WRITE_EVERY;
            return if due { series.write(now) } else { Step::Later };
        }
        self.series.remove(key);
        if self.allow(&key.0, now) { Step::Create } else { Step::Flood }
    }

    /// Remembers the Event that was created for a note.
    pub(super) fn created(&mut self, key: Key, event: String, now: Instant) {
        evict(&mut self.series, |series| series.last_seen);
        let series = Series { event, count: 1, written_count: 1, last_seen: now, last_written: now };
        self.series.insert(key, series);
    }

    /// Forgets a note whose Event is not there any more.
    pub(super) fn forget(&mut self, key: &Key) {
        self.series.remove(key);
    }

    /// Series with counts that were not written yet. With `all`, also those written a moment ago.
    pub(super) fn due(&mut self, now: Instant, all: bool) -> Vec<(Key, Step)> {
        self.series.retain(|_, s| s.count > s.written_count || now.duration_since(s.last_seen) < WINDOW);
        self.allowances.retain(|_, a| a.left < BURST && now.duration_since(a.refilled) < REFILL * BURST);
        self.series
            .iter_mut()
            .filter(|(_, s)| s.count > s.written_count)
            .filter(|(_, s)| all || now.duration_since(s.last_written) >= WRITE_EVERY)
            .map(|(key, series)| (key.clone(), series.write(now)))
            .collect()
    }

    fn allow(&mut self, subject: &Subject, now: Instant) -> bool {
        if !self.allowances.contains_key(subject) {
            evict(&mut self.allowances, |allowance| allowance.refilled);
        }
        let allowance =
            self.allowances.entry(subject.clone()).or_insert(Allowance { left: BURST, refilled: now });
        while allowance.left < BURST && now.duration_since(allowance.refilled) >= REFILL {
            allowance.left += 1;
            allowance.refilled += REFILL;
        }
        if allowance.left == BURST {
            allowance.refilled = now;
        }
        let allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        allowed
    }
}

impl Series {
    fn write(&mut self, now: Instant) -> Step {
        self.written_count = self.count;
        self.last_written = now;
        Step::CountUp { event: self.event.clone(), count: self.count }
    }
}

/// Makes room for one more by dropping what was used longest ago.
fn evict<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, age: impl Fn(&V) -> Instant) {
    if map.len() >= REMEMBERED
        && let Some(oldest) = map.iter().min_by_key(|(_, value)| age(value)).map(|(key, _)| key.clone())
    {
        map.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, message: &str) -> Key {
        let reference = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        (Subject::of(&reference), Note::normal("Synced", "Sync", message))
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn repeats_count_up_and_are_written_at_most_every_half_minute() {
        let mut memory = Memory::default();
        let (now, key) = (Instant::now(), key("a", "m"));
        assert_eq!(memory.take(&key, now), Step::Create);
        memory.created(key.clone(), "e".into(), now);
        let count_up = |count| Step::CountUp { event: "e".to_owned(), count };
        assert_eq!(memory.take(&key, now + seconds(1)), count_up(2));
        assert_eq!(memory.take(&key, now + seconds(2)), Step::Later);
        assert_eq!(memory.take(&key, now + seconds(3)), Step::Later);
        assert_eq!(memory.due(now + seconds(4), false), []);
        assert_eq!(memory.due(now + seconds(40), false), [(key.clone(), count_up(4))]);
        assert_eq!(memory.due(now + seconds(80), true), [], "nothing new to write");
        assert_eq!(memory.take(&key, now + seconds(81)), count_up(5));
        assert_eq!(memory.take(&key, now + seconds(82)), Step::Later);
        assert_eq!(
            memory.due(now + seconds(83), true),
            [(key.clone(), count_up(6))],
            "all of them at the end"
        );
        assert_eq!(memory.take(&key, now + seconds(82) + WINDOW), Step::Create, "a new Event after a rest");
    }

    #[test]
    fn an_object_that_floods_is_held_back_and_others_are_not() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let steps: Vec<Step> = (0..30).map(|n| memory.take(&key("a", &n.to_string()), now)).collect();
        assert_eq!(steps.iter().filter(|step| **step == Step::Create).count(), 25);
        assert_eq!(steps[29], Step::Flood);
        assert_eq!(memory.take(&key("b", "m"), now), Step::Create);
        let later = now + REFILL;
        assert_eq!(memory.take(&key("a", "x"), later), Step::Create);
        assert_eq!(memory.take(&key("a", "y"), later), Step::Flood);
        memory.due(later, false);
        assert_eq!(memory.take(&key("a", "z"), later), Step::Flood, "house-keeping forgives nothing");
    }

    #[test]
    fn memory_is_bounded() {
        let mut memory = Memory::default();
        let now = Instant::now();
        for n in 0..REMEMBERED + 100 {
            let key = key(&n.to_string(), "m");
            memory.take(&key, now + Duration::from_millis(n as u64));
            memory.created(key, "e".into(), now + Duration::from_millis(n as u64));
        }
        assert_eq!((memory.series.len(), memory.allowances.len()), (REMEMBERED, REMEMBERED));
        assert!(!memory.series.contains_key(&key("0", "m")), "the oldest went");
    }
}
