//! Which paths may be written.
//!
//! A path that is written here is checked out elsewhere, on systems that fold case, skip code points or read a
//! backslash as a slash. What `git` itself refuses to check out there is refused before it becomes a commit.

use gix::bstr::ByteSlice as _;
use gix::validate::path::component;

use crate::tree::{LONGEST_NAME, LONGEST_PATH as MAX_PATH};

/// The deepest path: each folder takes a step down the stack of whoever walks the tree, here and in `git`.
const DEEPEST: usize = 128;

/// How much of a refused path an error repeats.
const SHOWN: usize = 120;

/// A path that must not be written to a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be a path in a repository: {reason}")]
pub struct BadPath {
    /// The path, shortened when it is very long.
    pub path: String,
    /// Why it is refused.
    pub reason: BadPathReason,
}

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPathReason {
    /// Nothing is left of it.
    #[error("it is empty")]
    Empty,
    /// It begins with a slash.
    #[error("it is absolute; give it from the top of the repository")]
    Absolute,
    /// Two slashes in a row, or one at the end.
    #[error("one of its parts is empty")]
    EmptyPart,
    /// A part is `.` or `..`.
    #[error("one of its parts is `.` or `..`")]
    Relative,
    /// A part is `.git`, or is the same on a file system that folds names.
    #[error("one of its parts means `.git` on some file system")]
    DotGit,
    /// A separator on Windows.
    #[error("it holds a backslash; use `/` between folders")]
    Backslash,
    /// NUL, a line break or another control character.
    #[error("it holds a control character")]
    Control,
    /// More than [`LONGEST_PATH`](crate::tree::LONGEST_PATH) bytes.
    #[error("it is longer than {MAX_PATH} bytes")]
    TooLong,
    /// More parts than anybody walks down.
    #[error("it has more than {DEEPEST} parts")]
    TooDeep,
    /// A part of more than [`LONGEST_NAME`] bytes: no common file system can hold it, so nobody could check it out.
    #[error("one of its parts is longer than {LONGEST_NAME} bytes")]
    LongPart,
}

/// Says whether a path may be written.
pub fn check(path: &str) -> Result<(), BadPath> {
    reason(path).map_or(Ok(()), |reason| Err(BadPath { path: shorten(path), reason }))
}

fn reason(path: &str) -> Option<BadPathReason> {
    if path.is_empty() {
        return Some(BadPathReason::Empty);
    }
    if path.len() > MAX_PATH {
        return Some(BadPathReason::TooLong);
    }
    if path.starts_with('/') {
        return Some(BadPathReason::Absolute);
    }
    if path.contains('\\') {
        return Some(BadPathReason::Backslash);
    }
    if path.bytes().any(|byte| byte.is_ascii_control()) {
        return Some(BadPathReason::Control);
    }
    if path.split('/').count() > DEEPEST {
        return Some(BadPathReason::TooDeep);
    }
    path.split('/').find_map(bad_part)
}

fn bad_part(part: &str) -> Option<BadPathReason> {
    if part.len() > LONGEST_NAME {
        return Some(BadPathReason::LongPart);
    }
    // Names that only Windows refuses stay possible: `system:node` is a fine name for a ClusterRole.
    let options = component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    match gix::validate::path::component(part.as_bytes().as_bstr(), None, options) {
        Ok(_) => None,
        Err(component::Error::Empty) => Some(BadPathReason::EmptyPart),
        Err(component::Error::Relative) => Some(BadPathReason::Relative),
        Err(_) => Some(BadPathReason::DotGit),
    }
}

fn shorten(path: &str) -> String {
    match path.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_pass() {
        for path in [
            "a",
            "apps/web/deployment.yaml",
            ".gitignore",
            ".github/x",
            "a b/ü.yaml",
            "system:node",
            "..a",
            "git~10",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        assert_eq!(check(&"a/".repeat(128)[..255]), Ok(()));
    }

    #[test]
    fn a_path_that_means_something_else_on_another_system_is_refused() {
        use BadPathReason::{Absolute, Backslash, Control, DotGit, Empty, EmptyPart, Relative, TooLong};
        let cases = [
            ("", Empty),
            ("/etc/passwd", Absolute),
            ("a//b", EmptyPart),
            ("a/", EmptyPart),
            ("..", Relative),
            ("a/../../b", Relative),
            ("./a", Relative),
            ("a/.git/config", DotGit),
            (".GIT", DotGit),
            ("a/.Git", DotGit),
            ("git~1/hooks/x", DotGit),
            ("GIT~1", DotGit),
            (".git ", DotGit),
            (".git.", DotGit),
            (".git...  ./x", DotGit),
            (".git::$INDEX_ALLOCATION/x", DotGit),
            (".git:x", DotGit),
            (".g\u{200c}it/config", DotGit),
            ("\u{feff}.git", DotGit),
            (".gi\u{200d}T", DotGit),
            ("a\\b", Backslash),
            ("..\\x", Backslash),
            ("a\0b", Control),
            ("a\nb", Control),
            ("a\u{1b}[31m", Control),
        ];
        for (path, expected) in cases {
            assert_eq!(check(path).map_err(|error| error.reason), Err(expected), "{path:?}");
        }
        assert_eq!(check(&"a/".repeat(3000)).unwrap_err().reason, TooLong);
        assert_eq!(check(&"a/".repeat(2000)).unwrap_err().reason, BadPathReason::TooDeep);
        assert_eq!(check(&format!("a/{}", "b".repeat(255))), Ok(()));
        let long = check(&format!("a/{}/c", "b".repeat(256)));
        assert_eq!(long.unwrap_err().reason, BadPathReason::LongPart, "what is written can be read again");
        assert!(check(&"x".repeat(5000)).unwrap_err().path.len() < 200, "errors stay short");
    }
}
