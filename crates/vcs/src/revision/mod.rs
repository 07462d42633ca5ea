//! Revisions: a branch, a tag, a commit or a Jujutsu change, and the commit each stands for.
//!
//! One text may fit several of them. The order is: a full ref name (`refs/…`), a branch, a tag, a commit, a change.
//! A branch goes before a tag of the same name, the other way round than in `git`, because branches are what forges
//! protect: whoever may push a tag must not be able to take over what follows the branch `main`. A branch whose name
//! looks like a commit or a change goes before those for the same reason. `refs/tags/…` names the tag beyond doubt.

mod error;
mod names;
mod resolve;

use std::{fmt, str::FromStr};

pub use error::{Candidate, InvalidRevision, ResolveError};
pub(crate) use names::{BRANCHES, TAGS, refs, tips};
pub use names::{Names, names};
pub use resolve::{Resolved, Via, resolve};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{ChangePrefix, SHORTEST_PREFIX};

/// The longest text that is taken for a revision.
const LONGEST: usize = 512;

/// A revision as people write it. See the [module](self) for what it can be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(String);

impl Revision {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as the first digits of a commit, or all of them.
    fn commit_digits(&self) -> Option<&str> {
        let digits = self.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        (digits && (SHORTEST_PREFIX..=64).contains(&self.0.len())).then_some(&self.0)
    }

    /// The text as the first letters of a change, or all of them.
    pub(crate) fn change(&self) -> Option<ChangePrefix> {
        self.0.parse().ok()
    }
}

impl FromStr for Revision {
    type Err = InvalidRevision;

    fn from_str(text: &str) -> Result<Self, InvalidRevision> {
        let fail = |why| Err(InvalidRevision { text: text.chars().take(LONGEST).collect(), why });
        let text = text.trim();
        if text.is_empty() {
            return fail("it is empty");
        }
        if text.len() > LONGEST {
            return fail("it is too long");
        }
        if text.starts_with('-') {
            return fail("it begins with a dash");
        }
        if text.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return fail("it has white space or a control character");
        }
        if text.contains(['^', '~', ':', '?', '*', '[', '\\']) || text.contains("..") || text.contains("@{") {
            return fail("expressions such as `main~1` or `a..b` are not supported");
        }
        if text.ends_with('/') || text.starts_with('/') || text.contains("//") {
            return fail("no ref can have this name");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_can_be_no_revision_is_refused() {
        for text in [
            "",
            " ",
            "-x",
            "--upload-pack=x",
            "a b",
            "main~1",
            "a..b",
            "HEAD^",
            "x:y",
            "a\u{7}",
            "@{u}",
            "a/",
            "x*",
        ] {
            assert!(text.parse::<Revision>().is_err(), "{text:?}");
        }
        assert!("a".repeat(513).parse::<Revision>().is_err());
    }

    #[test]
    fn a_text_shows_what_it_can_be() {
        let revision = |text: &str| text.parse::<Revision>().unwrap();
        assert!(revision("deadbeef").commit_digits().is_some());
        assert!(revision("abc").commit_digits().is_none());
        assert!(revision("release-1").commit_digits().is_none());
        assert!(revision("zyxw").change().is_some());
        assert!(revision("main").change().is_none());
        assert_eq!(revision(" refs/heads/main\n").as_str(), "refs/heads/main");
    }
}
