//! Names of things in a repository: commits, trees and Jujutsu changes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not the full hexadecimal name of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no full object name: 40 hexadecimal digits are needed (64 in a SHA-256 repository)")]
pub struct ParseIdError {
    /// What was given.
    pub text: String,
}

macro_rules! object_name {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) gix::ObjectId);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.to_hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.to_hex())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                gix::ObjectId::from_hex(text.as_bytes())
                    .map(Self)
                    .map_err(|_| ParseIdError { text: text.to_owned() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

object_name!(CommitId, "The name of a commit.");
object_name!(TreeId, "The name of a tree: equal names mean equal folders.");
object_name!(BlobId, "The name of what a path holds: equal names mean equal bytes.");

/// How many letters a full change id has.
const CHANGE_LETTERS: usize = 32;

/// The fewest letters or digits with which a commit or a change may be named: what `git` itself asks for.
pub const SHORTEST_PREFIX: usize = 4;

/// A text that is no change id and no prefix of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no change id: {SHORTEST_PREFIX} to {CHANGE_LETTERS} letters from k to z are needed")]
pub struct ParseChangeIdError {
    /// What was given.
    pub text: String,
}

/// The name of a Jujutsu change: it stays the same while the commit behind it is rewritten.
///
/// It is written in the letters k to z (z is 0, k is 15), so that it is never taken for a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId([u8; CHANGE_LETTERS / 2]);

impl ChangeId {
    /// A change id from its bytes, if there are sixteen of them.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; CHANGE_LETTERS / 2]> for ChangeId {
    fn from(bytes: [u8; CHANGE_LETTERS / 2]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{}{}", char::from(b'z' - (byte >> 4)), char::from(b'z' - (byte & 15)))?;
        }
        Ok(())
    }
}

impl fmt::Debug for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChangeId {
    type Err = ParseChangeIdError;

    fn from_str(text: &str) -> Result<Self, ParseChangeIdError> {
        text.parse::<ChangePrefix>()?.full().ok_or_else(|| ParseChangeIdError { text: text.to_owned() })
    }
}

impl Serialize for ChangeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChangeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The first letters of a change id, or all of them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ChangePrefix(String);

impl ChangePrefix {
    /// The letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The change id, if all of its letters are there.
    pub fn full(&self) -> Option<ChangeId> {
        if self.0.len() != CHANGE_LETTERS {
            return None;
        }
        let digits: Vec<u8> = self.0.bytes().map(|letter| b'z' - letter).collect();
        let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(|[high, low]| (high << 4) | low).collect();
        ChangeId::from_bytes(&bytes)
    }

    /// Whether a change id begins with these letters.
    pub fn matches(&self, change: &ChangeId) -> bool {
        change.to_string().starts_with(&self.0)
    }
}

impl From<ChangeId> for ChangePrefix {
    fn from(change: ChangeId) -> Self {
        Self(change.to_string())
    }
}

impl fmt::Display for ChangePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ChangePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ChangePrefix {
    type Err = ParseChangeIdError;

    fn from_str(text: &str) -> Result<Self, ParseChangeIdError> {
        let letters = text.bytes().all(|byte| (b'k'..=b'z').contains(&byte));
        if letters && (SHORTEST_PREFIX..=CHANGE_LETTERS).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseChangeIdError { text: text.to_owned() })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_change_id_is_written_in_letters_that_no_commit_has() {
        let change = ChangeId::from_bytes(&[
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 0, 0, 0, 0xff,
        ])
        .unwrap();
        assert_eq!(change.to_string(), "zyxwvutsrqponmlkzzzzzzzzzzzzzzkk");
        assert_eq!(change.to_string().parse::<ChangeId>().unwrap(), change);
        assert_eq!(serde_json::to_string(&change).unwrap(), "\"zyxwvutsrqponmlkzzzzzzzzzzzzzzkk\"");
    }

    #[test]
    fn a_prefix_needs_four_letters_from_k_to_z() {
        assert!("kkk".parse::<ChangePrefix>().is_err());
        assert!("kkka".parse::<ChangePrefix>().is_err());
        assert!("KKKK".parse::<ChangePrefix>().is_err());
        assert!("k".repeat(33).parse::<ChangePrefix>().is_err());
        let prefix = "zyxw".parse::<ChangePrefix>().unwrap();
        assert_eq!(prefix.full(), None);
        assert!(prefix.matches(&"zyxwvutsrqponmlkzzzzzzzzzzzzzzkk".parse().unwrap()));
        assert!(!prefix.matches(&"kyxwvutsrqponmlkzzzzzzzzzzzzzzkk".parse().unwrap()));
        assert!("zyxw".parse::<ChangeId>().is_err());
    }
}
