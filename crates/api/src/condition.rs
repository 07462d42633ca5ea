//! Status conditions: one way to write them for every kind.
//!
//! A condition changes its `lastTransitionTime` only when its status changes, so writing the same verdict twice
//! gives equal values and no API write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The condition every kind has: `True` when the object does what its spec says.
pub const READY: &str = "Ready";

/// The longest message the Kubernetes API conventions allow for a condition.
const MESSAGE_LIMIT: usize = 32_768;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told at the moment.
    Unknown,
}

impl Truth {
    /// The word in `status.conditions[].status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Sets one condition, keeping the others and their order, and the transition time if the status stays the same.
///
/// `generation` is that of the object the verdict was reached on, never a newer one.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    truth: Truth,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let next = Condition {
        type_: type_.to_owned(),
        status: truth.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message[..message.floor_char_boundary(MESSAGE_LIMIT)].to_owned(),
        observed_generation: generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(old) => {
            let since = if old.status == next.status {
                old.last_transition_time.clone()
            } else {
                next.last_transition_time.clone()
            };
            *old = Condition { last_transition_time: since, ..next };
        }
        None => conditions.push(next),
    }
}

/// The condition of this type, if there is one.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The time without its fraction: the API server keeps whole seconds, and what it keeps must compare equal.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        set(&mut conditions, READY, Truth::False, "Unreachable", "no answer", Some(1), at(10));
        set(&mut conditions, READY, Truth::False, "TimedOut", "still none", Some(2), at(20));
        let ready = get(&conditions, READY).unwrap();
        assert_eq!((ready.last_transition_time.0, ready.reason.as_str()), (at(10), "TimedOut"));
        set(&mut conditions, READY, Truth::True, "Reachable", "", Some(2), at(30));
        assert_eq!(get(&conditions, READY).unwrap().last_transition_time.0, at(30));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn an_equal_verdict_gives_an_equal_value() {
        let mut conditions = Vec::new();
        set(&mut conditions, READY, Truth::True, "Reachable", "fine", Some(1), at(10));
        let before = conditions.clone();
        set(&mut conditions, READY, Truth::True, "Reachable", "fine", Some(1), at(99));
        assert_eq!(conditions, before);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut conditions = Vec::new();
        set(&mut conditions, READY, Truth::True, "Long", &"é".repeat(40_000), None, at(0));
        assert!(conditions[0].message.len() <= MESSAGE_LIMIT);
    }
}
