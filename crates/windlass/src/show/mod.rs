//! Objects as text for people: pure functions from what the hub says to what a terminal shows.
//!
//! Nothing here reads a clock or a cluster, so every page can be tested by its text.

pub(crate) mod application;
pub(crate) mod cluster;
pub(crate) mod comparison;
pub(crate) mod describe;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod history;
pub(crate) mod page;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod why;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What stands where nothing is known, as kubectl has it.
pub(crate) const NONE: &str = "<none>";

/// Length of a commit in tables.
const SHORT: usize = 10;

/// The first characters of a commit. Anything else is left as it is.
pub(crate) fn short(commit: &str) -> &str {
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { &commit[..SHORT] } else { commit }
}

/// Time since then, in kubectl's words.
pub(crate) fn age(time: Option<&Time>, now: Timestamp) -> String {
    match time {
        Some(time) => span(now.as_second().saturating_sub(time.0.as_second())),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds as kubectl writes ages: never more than two figures that matter.
pub(crate) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// A text on one line.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text of one line that is cut where a table would become unreadable.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let text = line(text);
    if text.chars().count() <= longest {
        return text;
    }
    format!("{}…", text.chars().take(longest.saturating_sub(1)).collect::<String>().trim_end())
}

/// `1 object`, `2 objects`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (601, "10m"),
            (10_799, "179m"),
            (12_000, "3h20m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (70_000_000, "2y80d"),
            (260_000_000, "8y"),
        ] {
            assert_eq!(span(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn texts_are_kept_on_one_line_and_cut() {
        assert_eq!(line(" a\n\tb  c "), "a b c");
        assert_eq!(cut("äöü äöü", 5), "äöü…");
        assert_eq!(short("59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5"), "59b20b8d5c");
        assert_eq!(short("main"), "main");
    }
}
