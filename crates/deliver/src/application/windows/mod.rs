//! Times in which changes may, or may not, be applied.
//!
//! A window is open from each of its beginnings for as long as it lasts. A beginning is a minute that the clock of the
//! window's time zone shows and the schedule names. Where that clock is set forward, the minutes that it leaves out
//! count at the moment of the change; where it is set back, a minute that it shows twice counts twice. So a window never
//! falls out because of the season, and a `Deny` is rather too long than too short.

mod starts;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windlass_api::application::sync::{Window, WindowKind};

use crate::trouble::Trouble;
use starts::Starts;

/// Reason of the [`Trouble`] about a window that cannot be understood.
pub const INVALID_WINDOW: &str = "InvalidWindow";

/// Beginnings and ends that are looked at to find out when an answer changes. A schedule of every minute has many that
/// change nothing; after so many of them it is enough to look again.
const STEPS: usize = 16;

/// Whether changes may be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// They may.
    pub open: bool,
    /// Which window decides, for people; `None` when there is none.
    pub why: Option<String>,
    /// Until then the answer stays the same; `None` when it never changes.
    pub changes_at: Option<Timestamp>,
}

/// Whether changes may be applied now. `manual`: somebody asked for this sync.
///
/// Guarantees: within a `Deny` window nothing is applied, whatever else is open; with an `Allow` window something is
/// applied only within one. For a sync that somebody asked for, windows do not count that say `manualSync`, where every
/// window that is in the way says so. The answer is the same at any time from `now` to `changes_at`.
pub fn look(windows: &[Window], now: Timestamp, manual: bool) -> Result<Opening, Trouble> {
    if windows.is_empty() {
        return Ok(Opening { open: true, why: None, changes_at: None });
    }
    let calendar = Calendar::new(windows, now)?;
    let (open, why) = calendar.answer(now, manual);
    let mut changes_at = calendar.next_edge(now);
    for _ in 1..STEPS {
        let Some(edge) = changes_at else { break };
        if calendar.answer(edge, manual) != (open, why.clone()) {
            break;
        }
        changes_at = calendar.next_edge(edge);
    }
    Ok(Opening { open, why, changes_at })
}

/// All windows, ready to be asked.
struct Calendar<'w> {
    entries: Vec<Entry<'w>>,
}

struct Entry<'w> {
    window: &'w Window,
    starts: Starts,
    lasts: Duration,
}

impl Entry<'_> {
    fn is_open(&self, at: Timestamp) -> bool {
        // A beginning after this is one whose window is not over yet.
        self.starts.next_after(earlier(at, self.lasts)).is_some_and(|start| start <= at)
    }

    /// The next time at which this window opens or closes, or goes on.
    fn next_edge(&self, after: Timestamp) -> Option<Timestamp> {
        let opens = self.starts.next_after(after);
        let closes = self.starts.next_after(earlier(after, self.lasts)).map(|start| later(start, self.lasts));
        opens.into_iter().chain(closes).filter(|edge| *edge > after && *edge < Timestamp::MAX).min()
    }

    /// For people.
    fn name(&self) -> String {
        let Window { kind, schedule, duration, time_zone, .. } = self.window;
        format!("{kind:?} window \"{schedule}\" ({}) of {duration}", time_zone.as_deref().unwrap_or("UTC"))
    }
}

impl<'w> Calendar<'w> {
    fn new(windows: &'w [Window], now: Timestamp) -> Result<Self, Trouble> {
        let entry = |(at, window): (usize, &'w Window)| {
            let field = format!("spec.sync.windows[{at}]");
            let starts = Starts::new(&field, &window.schedule, window.time_zone.as_deref(), now)?;
            Ok(Entry { window, starts, lasts: window.duration.0 })
        };
        Ok(Self { entries: windows.iter().enumerate().map(entry).collect::<Result<_, Trouble>>()? })
    }

    fn next_edge(&self, after: Timestamp) -> Option<Timestamp> {
        self.entries.iter().filter_map(|entry| entry.next_edge(after)).min()
    }

    fn of(&self, kind: WindowKind) -> impl Iterator<Item = &Entry<'w>> {
        self.entries.iter().filter(move |entry| entry.window.kind == kind)
    }

    fn answer(&self, at: Timestamp, manual: bool) -> (bool, Option<String>) {
        let denying: Vec<&Entry> = self.of(WindowKind::Deny).filter(|entry| entry.is_open(at)).collect();
        // The one that somebody who asks cannot pass is the one to name.
        let firm = denying.iter().find(|entry| !manual || !entry.window.manual_sync);
        if let Some(entry) = firm {
            return (false, Some(format!("Within the {}", entry.name())));
        }
        let allowing: Vec<&Entry> = self.of(WindowKind::Allow).collect();
        if let Some(entry) = allowing.iter().find(|entry| entry.is_open(at)) {
            return (true, Some(format!("Within the {}", entry.name())));
        }
        let passed = denying.first().map(|entry| format!("Asked for, within the {}", entry.name()));
        let Some(first) = allowing.first() else { return (true, passed) };
        if manual && allowing.iter().all(|entry| entry.window.manual_sync) {
            return (true, Some(format!("Asked for, outside of the {}", first.name())));
        }
        let more = match allowing.len() {
            1 => String::new(),
            more => format!(" and {} more", more - 1),
        };
        (false, Some(format!("Outside of the {}{more}", first.name())))
    }
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
