//! A length of time as users of Argo Rollouts write it: a number of seconds, or a text like `30s` or `1h30m`.
//!
//! What is written stays as it is written. Whether it is a length of time is asked with [`Span::length`], so that a bad
//! one becomes a condition that names it and never an object that cannot be read.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number of seconds, or a text like `30s`, `5m` or `1h30m`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(untagged)]
pub enum Span {
    /// Seconds.
    Seconds(i64),
    /// Digits are seconds, else Go's notation.
    Text(String),
}

impl Span {
    /// How long it is; `None` for what is no length of time, such as a negative number.
    pub fn length(&self) -> Option<Duration> {
        match self {
            Self::Seconds(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            Self::Text(text) => {
                text.parse::<u64>().map(Duration::from_secs).ok().or_else(|| go_duration(text))
            }
        }
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self::Text(crate::duration::Duration(duration).to_string())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "{seconds}s"),
            Self::Text(text) if text.parse::<i64>().is_ok() => write!(f, "{text}s"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Go's notation without a sign: `1h30m`, `1.5s`, `250ms`, `0`.
fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(number);
        let value: f64 = digits.parse().ok()?;
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total += value * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).ok()
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_texts_are_lengths_of_time() {
        for (written, millis) in [
            ("10", 10_000),
            ("\"10\"", 10_000),
            ("\"30s\"", 30_000),
            ("\"1h30m\"", 5_400_000),
            ("\"1.5s\"", 1_500),
            ("\"250ms\"", 250),
            ("0", 0),
        ] {
            let span: Span = serde_json::from_str(written).unwrap();
            assert_eq!(span.length().unwrap().as_millis(), millis, "{written}");
            assert_eq!(serde_json::to_string(&span).unwrap(), written, "what is written stays");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_told_and_never_a_failure_to_read() {
        for written in ["-1", "\"-5s\"", "\"\"", "\"soon\"", "\"1d\"", "\"5 s\"", "\"s\"", "\"1..5s\""] {
            let span: Span = serde_json::from_str(written).unwrap();
            assert_eq!(span.length(), None, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_length_or_none(text in "\\PC{0,20}") {
            let _ = Span::Text(text).length();
        }
    }
}
