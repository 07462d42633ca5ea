//! A length of time as Kubernetes users write it: `30s`, `1m30s`, `250ms`.

use std::{fmt, str::FromStr, time::Duration as StdDuration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The pattern the schema enforces; [`Duration::from_str`] accepts exactly the same texts.
pub const PATTERN: &str = r"^([0-9]{1,6}(h|ms|m|s))+$";

/// A non-negative duration in Go's notation, limited to the units `h`, `m`, `s` and `ms`.
///
/// Guarantees: [`fmt::Display`] writes the shortest equal text, and parsing that text gives the same value back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub StdDuration);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write it like 30s, 5m or 1h30m")]
pub struct ParseDurationError(String);

impl Duration {
    /// So many whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(StdDuration::from_secs(seconds))
    }
}

impl From<Duration> for StdDuration {
    fn from(value: Duration) -> Self {
        value.0
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDurationError(text.chars().take(40).collect());
        let mut total = StdDuration::ZERO;
        let mut rest = text;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            if digits == 0 || digits > 6 {
                return Err(bad());
            }
            let (number, tail) = rest.split_at(digits);
            let number: u64 = number.parse().map_err(|_| bad())?;
            let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit);
            total += match unit {
                "h" => StdDuration::from_secs(number * 3600),
                "m" => StdDuration::from_secs(number * 60),
                "s" => StdDuration::from_secs(number),
                "ms" => StdDuration::from_millis(number),
                _ => return Err(bad()),
            };
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let mut empty = true;
        for (number, unit) in [(hours, "h"), (minutes, "m"), (seconds, "s"), (u64::from(millis), "ms")] {
            if number > 0 {
                write!(f, "{number}{unit}")?;
                empty = false;
            }
        }
        if empty { f.write_str("0s") } else { Ok(()) }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN, "maxLength": 32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("250ms", 250),
            ("0s", 0),
            ("1h1ms", 3_600_001),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.0.as_millis(), millis, "{text}");
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_an_example() {
        for text in
            ["", "30", "s", "1d", "-1s", "1.5s", "1s ", " 1s", "1000000s", "9999999999999999999h", "1µs"]
        {
            let error = text.parse::<Duration>().unwrap_err();
            assert!(error.to_string().contains("30s"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_its_text(millis in 0u64..3_599_999_999) {
            let duration = Duration(StdDuration::from_millis(millis));
            prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = text.parse::<Duration>();
        }
    }
}
