//! The folder of a repository below which objects are written.

use std::fmt;

use super::segment;

/// A relative folder in a repository, checked: no traversal, nothing that a file system would read differently, nothing
/// inside of what Git and Jujutsu keep for themselves. The empty text is the root of the repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BaseFolder(String);

/// Why a text is no base folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseFolderError {
    /// It starts with a slash.
    #[error(
        "the base folder {text:?} is absolute; write it without the leading `/`, such as `clusters/prod`"
    )]
    Absolute {
        /// The text.
        text: String,
    },
    /// It holds a backslash.
    #[error("the base folder {text:?} holds a backslash; separate folders by `/`")]
    Backslash {
        /// The text.
        text: String,
    },
    /// Two slashes in a row, or one at the end.
    #[error("the base folder {text:?} has an empty part; write one `/` between folders and none at the end")]
    EmptyPart {
        /// The text.
        text: String,
    },
    /// A part is `.` or `..`.
    #[error("the base folder {text:?} must not hold {part:?}; name the folder itself")]
    Traversal {
        /// The text.
        text: String,
        /// The part.
        part: String,
    },
    /// A part belongs to the version control.
    #[error("the base folder {text:?} leads into {part:?}, which belongs to the repository itself")]
    Reserved {
        /// The text.
        text: String,
        /// The part.
        part: String,
    },
    /// A part cannot exist, or means something else, on some file systems.
    #[error("the base folder {text:?} has the part {part:?}, which not every file system can hold: {why}")]
    Unportable {
        /// The text.
        text: String,
        /// The part.
        part: String,
        /// The reason.
        why: &'static str,
    },
}

impl BaseFolderError {
    /// A few words for conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Absolute { .. } => "AbsolutePath",
            Self::Backslash { .. } | Self::EmptyPart { .. } => "MalformedPath",
            Self::Traversal { .. } => "PathTraversal",
            Self::Reserved { .. } => "ReservedPath",
            Self::Unportable { .. } => "UnportablePath",
        }
    }
}

impl BaseFolder {
    /// Checks a folder.
    pub fn new(text: &str) -> Result<Self, BaseFolderError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let owned = || text.to_owned();
        if text.starts_with('/') {
            return Err(BaseFolderError::Absolute { text: owned() });
        }
        if text.contains('\\') {
            return Err(BaseFolderError::Backslash { text: owned() });
        }
        for part in text.split('/') {
            check_part(part).map_err(|fault| fault.error(text, part))?;
        }
        Ok(Self(owned()))
    }

    /// The folder, without a slash at either end; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root of the repository.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether two folders share files: one is the other, or lies in it. Case does not tell folders apart, since it
    /// does not on every disk that the repository may be checked out on.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.0.to_lowercase(), other.0.to_lowercase());
        let contains = |outer: &str, inner: &str| {
            outer.is_empty()
                || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        contains(&ours, &theirs) || contains(&theirs, &ours)
    }

    /// What follows the folder in a path; `None` when the path is elsewhere.
    pub fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.is_root() { Some(path) } else { path.strip_prefix(self.as_str())?.strip_prefix('/') }
    }
}

impl fmt::Display for BaseFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

enum Fault {
    Empty,
    Traversal,
    Reserved,
    Unportable(&'static str),
}

impl Fault {
    fn error(self, text: &str, part: &str) -> BaseFolderError {
        let (text, part) = (text.to_owned(), part.to_owned());
        match self {
            Self::Empty => BaseFolderError::EmptyPart { text },
            Self::Traversal => BaseFolderError::Traversal { text, part },
            Self::Reserved => BaseFolderError::Reserved { text, part },
            Self::Unportable(why) => BaseFolderError::Unportable { text, part, why },
        }
    }
}

fn check_part(part: &str) -> Result<(), Fault> {
    if part.is_empty() {
        return Err(Fault::Empty);
    }
    // What a disk may ignore must not make `.git` of something that is not spelled so: macOS skips invisible
    // characters, Windows skips dots and spaces at the end and knows `.git` as `git~1`.
    if part.chars().any(is_invisible) {
        return Err(Fault::Unportable("it holds a character that cannot be seen"));
    }
    let lower = part.to_lowercase();
    let bare = lower.trim_end_matches(['.', ' ']);
    if bare.is_empty() || part == "." || part == ".." {
        return Err(Fault::Traversal);
    }
    if matches!(bare, ".git" | ".jj" | "git~1" | ".gitmodules") {
        return Err(Fault::Reserved);
    }
    if bare.len() != lower.len() {
        return Err(Fault::Unportable("it ends in a dot or a space"));
    }
    if part.contains([':', '*', '?', '"', '<', '>', '|']) {
        return Err(Fault::Unportable("it holds one of : * ? \" < > |"));
    }
    if segment::is_device(&lower) {
        return Err(Fault::Unportable("Windows keeps this name for a device"));
    }
    if part.len() > segment::MOST_BYTES {
        return Err(Fault::Unportable("it is longer than 255 bytes"));
    }
    Ok(())
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
