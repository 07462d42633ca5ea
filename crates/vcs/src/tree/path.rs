//! Paths inside a repository.

use std::fmt;

use gix::bstr::{BStr, BString, ByteSlice};
use serde::{Serialize, Serializer};

/// The longest path that is read: what Linux can open.
pub const LONGEST_PATH: usize = 4096;

/// The longest name between two slashes that is read: what common file systems can hold.
pub const LONGEST_NAME: usize = 255;

/// A text that is no path inside a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no path inside a repository: {why}")]
pub struct PathError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A path inside a repository, from its root, without a leading slash. The empty path is the root.
///
/// A path that was [parsed](Self::parse) can never leave the repository. A path that was found in a tree may hold any
/// bytes: it is shown with odd bytes escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RepoPath(BString);

impl RepoPath {
    /// The root of the repository.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path from what people write: `.`, `./apps/`, `apps//web` are fine; `..`, a leading slash and control
    /// characters are not.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let fail = |why| Err(PathError { text: text.to_owned(), why });
        if text.starts_with('/') {
            return fail("it must be relative to the root of the repository; remove the leading slash");
        }
        if text.len() > LONGEST_PATH {
            return fail("it is longer than 4096 bytes");
        }
        if text.chars().any(char::is_control) {
            return fail("it has a control character");
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return fail("`..` is not allowed; write the path from the root of the repository"),
                part if part.len() > LONGEST_NAME => return fail("a name in it is longer than 255 bytes"),
                part => parts.push(part),
            }
        }
        Ok(Self(parts.join("/").into()))
    }

    /// A path as it was found in a tree.
    pub(crate) fn from_tree(bytes: impl Into<BString>) -> Self {
        Self(bytes.into())
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str().ok()
    }

    /// The bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names between the slashes.
    pub(crate) fn names(&self) -> impl Iterator<Item = &BStr> {
        self.0.split_str("/").filter(|name| !name.is_empty()).map(ByteSlice::as_bstr)
    }

    /// The last name.
    pub(crate) fn file_name(&self) -> &[u8] {
        self.0.rsplit_str("/").next().unwrap_or_default()
    }

    /// What follows a folder in this path, if the path lies in that folder.
    pub fn within(&self, folder: &Self) -> Option<Self> {
        if folder.is_root() {
            return Some(self.clone());
        }
        let rest = self.0.strip_prefix(folder.as_bytes())?;
        Some(Self(rest.strip_prefix(b"/")?.into()))
    }

    /// The path of something in this folder.
    pub(crate) fn join(&self, rest: &[u8]) -> Self {
        if self.is_root() {
            return Self(rest.into());
        }
        let mut path = self.0.clone();
        path.push(b'/');
        path.extend_from_slice(rest);
        Self(path)
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::str::FromStr for RepoPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_would_leave_the_repository_is_refused() {
        for text in ["/etc", "..", "a/../..", "a/..", "../a", "a/b/../c", "a\0b", "a\nb", "//etc", "/"] {
            assert!(RepoPath::parse(text).is_err(), "{text:?}");
        }
        assert!(RepoPath::parse(&"a/".repeat(3000)).is_err());
        assert!(RepoPath::parse(&"a".repeat(256)).is_err());
    }

    #[test]
    fn a_path_is_written_in_one_way() {
        for (text, path) in
            [(".", "."), ("", "."), ("./apps/", "apps"), ("apps//web", "apps/web"), ("a/./b", "a/b")]
        {
            assert_eq!(RepoPath::parse(text).unwrap().to_string(), path);
        }
        assert_eq!(RepoPath::parse("...").unwrap().to_string(), "...");
        assert_eq!(RepoPath::parse(".github").unwrap().to_string(), ".github");
    }

    #[test]
    fn odd_bytes_are_shown_escaped() {
        assert_eq!(RepoPath::from_tree("a\n\u{1b}[31m").to_string(), "a\\n\\u{1b}[31m");
        assert_eq!(RepoPath::from_tree(b"caf\xe9".to_vec()).to_string(), "caf\\xe9");
        assert_eq!(RepoPath::from_tree(b"caf\xe9".to_vec()).as_str(), None);
    }

    #[test]
    fn a_path_knows_its_place_in_a_folder() {
        let folder = RepoPath::parse("apps/web").unwrap();
        assert_eq!(
            RepoPath::parse("apps/web/a.yaml").unwrap().within(&folder).unwrap().to_string(),
            "a.yaml"
        );
        assert_eq!(RepoPath::parse("apps/website/a.yaml").unwrap().within(&folder), None);
        assert_eq!(folder.join(b"a.yaml").to_string(), "apps/web/a.yaml");
        assert_eq!(RepoPath::root().join(b"a.yaml").to_string(), "a.yaml");
    }
}
