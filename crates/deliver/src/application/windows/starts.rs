//! When windows begin.
//!
//! The schedule is asked in plain calendar time, which has no seasons, and its answers are brought to the time zone
//! here. The reader of schedules could do both, but it does not come to an end in zones that are set back by less than
//! an hour, and says nothing about minutes that a clock leaves out.

use cronexpr::Crontab;
use jiff::{SignedDuration, Timestamp, tz::Offset, tz::TimeZone};

use super::INVALID_WINDOW;
use crate::trouble::Trouble;

/// Beyond this nobody plans, and calendar arithmetic comes to its end. In seconds: the year 9000.
const LAST: i64 = 221_845_392_000;

/// Changes of the clock that are looked at for one beginning: the schedule is searched for four years, and no zone has
/// had more than a few in one.
const MOST_CHANGES: usize = 64;

/// The beginnings of one window.
pub(super) struct Starts {
    schedule: Crontab,
    zone: TimeZone,
}

impl Starts {
    /// Reads a schedule. `field` is where it is from, for the message.
    pub(super) fn new(
        field: &str,
        schedule: &str,
        zone: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Trouble> {
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| {
                Trouble::standing(
                    INVALID_WINDOW,
                    format!("{field}.timeZone: there is no time zone {name}"),
                    "Write a name of the IANA time zone database, such as Europe/Vienna",
                )
            })?,
        };
        let wrong = |what: &str| {
            Trouble::standing(
                INVALID_WINDOW,
                format!("{field}.schedule \"{schedule}\" {what}"),
                "Write the five fields of cron: minute, hour, day of month, month, day of week, such as 0 22 * * MON-FRI",
            )
        };
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        let [_, _, day, _, weekday] = fields.as_slice() else {
            return Err(wrong(&format!("has {} fields instead of five", fields.len())));
        };
        // Extensions of the reader that no other cron shares, and that it reads wrongly in December.
        if day.contains(['L', 'l', 'W', 'w']) || weekday.contains(['L', 'l', '#']) {
            return Err(wrong("has L, W or #, which cron does not know"));
        }
        let schedule = cronexpr::parse_crontab(&format!("{} UTC", fields.join(" ")))
            .map_err(|error| wrong(&format!("cannot be read: {}", first_line(&error.to_string()))))?;
        let starts = Self { schedule, zone };
        if starts.next_after(now).is_none() && now.as_second() < LAST {
            return Err(wrong("names a day that does not come"));
        }
        Ok(starts)
    }

    /// The first beginning after a time; `None` when there is none in the next four years.
    pub(super) fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut offset = self.zone.to_offset(time);
        // What the clock shows, as if it were in UTC.
        let mut clock = shown(time, offset)?;
        for change in self.zone.following(time).take(MOST_CHANGES) {
            let next = self.on_the_clock(clock)?;
            let limit = shown(change.timestamp(), offset)?;
            if next < limit {
                return at(next, offset);
            }
            let after = shown(change.timestamp(), change.offset())?;
            // The clock jumps from `limit` to `after`: what lies between counts now.
            if next < after {
                return Some(change.timestamp());
            }
            offset = change.offset();
            clock = just_before(after)?;
        }
        at(self.on_the_clock(clock)?, offset)
    }

    fn on_the_clock(&self, after: Timestamp) -> Option<Timestamp> {
        if after.as_second() >= LAST {
            return None;
        }
        self.schedule.find_next(after).ok().map(|next| next.timestamp())
    }
}

/// What a clock with this offset shows.
fn shown(time: Timestamp, offset: Offset) -> Option<Timestamp> {
    time.checked_add(SignedDuration::from_secs(i64::from(offset.seconds()))).ok()
}

/// When a clock with this offset shows it.
fn at(clock: Timestamp, offset: Offset) -> Option<Timestamp> {
    clock.checked_sub(SignedDuration::from_secs(i64::from(offset.seconds()))).ok()
}

fn just_before(time: Timestamp) -> Option<Timestamp> {
    time.checked_sub(SignedDuration::from_secs(1)).ok()
}

/// The reader draws the schedule and an arrow below it: a condition has one line.
fn first_line(text: &str) -> String {
    let told = text.lines().rev().find(|line| line.chars().any(char::is_alphabetic)).unwrap_or(text);
    told.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
}
