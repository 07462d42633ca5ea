//! Times of a range query, as they are written: `now() - duration("1h")`.

use std::time::Duration;

use jiff::{Timestamp, civil};

use crate::analysis::check;

/// A time. The error says how to write one.
pub(super) fn time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let wrong = || {
        let shown: String = text.chars().take(60).collect();
        format!("`{shown}` is not a time. Write now(), now() - duration(\"1h\") or 2030-01-01T00:00:00Z")
    };
    let Some(mut rest) = text.strip_prefix("now()") else {
        let plain = text.strip_prefix("date(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
        let plain = plain.trim().trim_matches(['"', '\'']);
        let day = || plain.parse::<civil::Date>().ok()?.in_tz("UTC").ok().map(|day| day.timestamp());
        return plain.parse::<Timestamp>().ok().or_else(day).ok_or_else(wrong);
    };
    let mut time = now;
    while !rest.trim().is_empty() {
        let rest_now = rest.trim_start();
        let (back, tail) = match (rest_now.strip_prefix('-'), rest_now.strip_prefix('+')) {
            (Some(tail), _) => (true, tail),
            (None, Some(tail)) => (false, tail),
            (None, None) => return Err(wrong()),
        };
        let tail = tail.trim_start().strip_prefix("duration(").ok_or_else(wrong)?;
        let (span, after) = tail.split_once(')').ok_or_else(wrong)?;
        let span: Duration = check::time(span.trim().trim_matches(['"', '\''])).map_err(|_| wrong())?;
        let moved = if back { time.checked_sub(span) } else { time.checked_add(span) };
        time = moved.map_err(|_| wrong())?;
        rest = after;
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_of_a_range_are_read_as_argo_rollouts_writes_them() {
        let now: Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
        for (text, wanted) in [
            ("now()", "2030-01-01T12:00:00Z"),
            ("now() - duration(\"1h\")", "2030-01-01T11:00:00Z"),
            ("now()-duration('30m')+duration(\"1m\")", "2030-01-01T11:31:00Z"),
            ("2029-12-31T00:00:00Z", "2029-12-31T00:00:00Z"),
            ("date(\"2029-12-31\")", "2029-12-31T00:00:00Z"),
        ] {
            assert_eq!(time(text, now).unwrap(), wanted.parse().unwrap(), "{text}");
        }
        for text in
            ["", "yesterday", "now() -", "now() * duration(\"1h\")", "now() - duration(\"1y\")", "now()é"]
        {
            assert!(time(text, now).unwrap_err().contains("is not a time"), "{text}");
        }
    }
}
