//! What went wrong, sorted by what git printed.

use std::path::PathBuf;
use std::time::Duration;

/// Few names for what can go wrong with a remote, for conditions and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// The credentials are missing or wrong.
    Unauthorized,
    /// The credentials are known and not enough.
    Forbidden,
    /// There is no such repository, or it is hidden from these credentials.
    NotFound,
    /// The server is not there, breaks off, or says that it cannot.
    Unavailable,
    /// The server asks to be left alone for a while.
    Throttled,
    /// The server points elsewhere, which is not followed.
    Redirected,
    /// It took too long, or nothing came for too long.
    Timeout,
    /// More came than is allowed.
    TooLarge,
    /// Somebody wanted it to end.
    Cancelled,
    /// The ssh server is not the one that is known.
    HostKey,
    /// The server's certificate is not trusted.
    Certificate,
    /// Something else answers there.
    NotARepository,
    /// The remote names no ref at all where it named some before.
    Emptied,
    /// Objects are broken or missing, here or there.
    Corrupt,
    /// No space is left here.
    DiskFull,
    /// Another process works on the same mirror.
    Busy,
    /// The program itself: not installed, cannot be run, has no scratch folder.
    Program,
    /// Anything else.
    Other,
}

impl Category {
    /// The name as it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::Unavailable => "Unavailable",
            Self::Throttled => "Throttled",
            Self::Redirected => "Redirected",
            Self::Timeout => "Timeout",
            Self::TooLarge => "TooLarge",
            Self::Cancelled => "Cancelled",
            Self::HostKey => "HostKey",
            Self::Certificate => "Certificate",
            Self::NotARepository => "NotARepository",
            Self::Emptied => "Emptied",
            Self::Corrupt => "Corrupt",
            Self::DiskFull => "DiskFull",
            Self::Busy => "Busy",
            Self::Program => "Program",
            Self::Other => "Other",
        }
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Unauthorized => {
                "check the credentials: the token may have expired, the key may not be added there"
            }
            Self::Forbidden => "give the credentials the right to this repository",
            Self::NotFound => {
                "check the address; a private repository looks missing to credentials without access"
            }
            Self::Unavailable => "the server is down or cannot be reached; it is tried again",
            Self::Throttled => "the server limits requests; ask less often",
            Self::Redirected => {
                "the repository has moved: use the address the server points to, often with .git at the end"
            }
            Self::Timeout => {
                "the server or the way to it is too slow; raise the time limit if that is normal"
            }
            Self::TooLarge => {
                "the repository is larger than allowed; raise the limit or use a shallow mirror"
            }
            Self::Cancelled => "it was asked to stop",
            Self::HostKey => {
                "the host key is not the known one: check it with the owner, then update known_hosts"
            }
            Self::Certificate => {
                "the certificate is not trusted: give the right certificate authority (ca.crt)"
            }
            Self::NotARepository => {
                "something else than a git server answers there: check the address and the proxy"
            }
            Self::Emptied => {
                "nothing is taken as deleted; if the remote was emptied on purpose, remove the mirror"
            }
            Self::Corrupt => "objects are broken; the mirror is checked and cloned anew if need be",
            Self::DiskFull => "make room in the work folder",
            Self::Busy => "another process works on this mirror; let only one process use a work folder",
            Self::Program => "install git 2.37 or later and give the work folder write access",
            Self::Other => "see the message of git",
        }
    }

    /// Whether trying again without any change can help.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unavailable | Self::Throttled | Self::Timeout | Self::Busy | Self::DiskFull)
    }
}

impl std::fmt::Display for Category {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A run of git that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program cannot be started.
    #[error("cannot run {}: is git installed?", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder for scratch files cannot be used.
    #[error("cannot use the scratch folder {}", path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Talking to the child failed.
    #[error("cannot talk to git {what}")]
    Pipe {
        /// What was run.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// It was cancelled.
    #[error("git {what} for {place} was cancelled")]
    Cancelled {
        /// What was run.
        what: String,
        /// Where.
        place: String,
    },
    /// It took too long.
    #[error("git {what} for {place} was not done after {limit:?}: {}", Category::Timeout.hint())]
    Timeout {
        /// What was run.
        what: String,
        /// Where.
        place: String,
        /// The limit.
        limit: Duration,
    },
    /// Nothing was heard for too long.
    #[error("git {what} for {place} made no progress for {limit:?}: {}", Category::Timeout.hint())]
    Stalled {
        /// What was run.
        what: String,
        /// Where.
        place: String,
        /// The limit.
        limit: Duration,
    },
    /// Too much arrived.
    #[error("git {what} for {place} received more than {limit} bytes: {}", Category::TooLarge.hint())]
    TooLarge {
        /// What was run.
        what: String,
        /// Where.
        place: String,
        /// The limit.
        limit: u64,
    },
    /// git said that it failed.
    #[error(transparent)]
    Failed(Box<Failure>),
}

impl CommandError {
    /// What kind of error it is.
    pub fn category(&self) -> Category {
        match self {
            Self::Start { .. } | Self::Pipe { .. } => Category::Program,
            Self::Scratch { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Category::DiskFull,
                _ => Category::Program,
            },
            Self::Cancelled { .. } => Category::Cancelled,
            Self::Timeout { .. } | Self::Stalled { .. } => Category::Timeout,
            Self::TooLarge { .. } => Category::TooLarge,
            Self::Failed(failure) => failure.category,
        }
    }
}

/// git ended with an error.
#[derive(Debug, thiserror::Error)]
#[error("git {what} for {place} failed ({category}): {message}; {}", category.hint())]
pub struct Failure {
    /// What kind of error it is.
    pub category: Category,
    /// What was run.
    pub what: String,
    /// Where.
    pub place: String,
    /// git's exit code; `None` when it was ended by a signal.
    pub code: Option<i32>,
    /// What git and the remote said, without progress and credentials, shortened.
    pub message: String,
    /// What it printed to its standard output up to then.
    pub stdout: Vec<u8>,
    /// Whether it was killed from outside, most likely for want of memory: that says nothing about the repository.
    pub killed: bool,
}

/// What is said of a git that was ended from outside.
pub(super) const KILLED: &str = "it was killed; is there enough memory?";

/// The longest message that is passed on.
const LONGEST_MESSAGE: usize = 1000;

/// The lines of git's standard error that say something: no progress, no empty lines, no general advice.
pub(super) fn telling_lines(stderr: &str) -> Vec<&str> {
    let general = |line: &str| {
        line.starts_with("Please make sure you have the correct access rights")
            || line.starts_with("and the repository exists.")
            || line.starts_with("hint:")
            || line.starts_with("warning:")
    };
    stderr
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line).trim_end())
        .filter(|line| !line.is_empty() && !is_progress(line) && !general(line))
        .collect()
}

/// How lines of progress begin.
const PROGRESS: [&str; 9] = [
    "Enumerating objects:",
    "Counting objects:",
    "Compressing objects:",
    "Receiving objects:",
    "Resolving deltas:",
    "Writing objects:",
    "Unpacking objects:",
    "Total ",
    "Delta compression using",
];

fn is_progress(line: &str) -> bool {
    let line = line.strip_prefix("remote: ").unwrap_or(line);
    PROGRESS.iter().any(|word| line.starts_with(word))
}

/// The message for people: the last lines, on one line, not too long.
pub(super) fn message(stderr: &str) -> String {
    let lines = telling_lines(stderr);
    let text = lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("; ");
    match text.char_indices().rev().nth(LONGEST_MESSAGE) {
        Some((place, _)) => format!("…{}", &text[place..]),
        None if text.is_empty() => "it gave no reason".to_owned(),
        None => text,
    }
}

/// A remote may send anything, terminal sequences too.
fn printable(line: &str) -> String {
    line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Texts and what they mean; the first that fits counts.
const MEANINGS: &[(&str, Category)] = &[
    // EFBIG: the limit on what may arrive.
    ("File too large", Category::TooLarge),
    // The limit on the memory that one object may take.
    ("attempting to allocate", Category::TooLarge),
    ("No space left on device", Category::DiskFull),
    ("Disk quota exceeded", Category::DiskFull),
    // Somebody writes at the same time, or left a lock behind.
    ("cannot lock ref", Category::Busy),
    ("': File exists", Category::Busy),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", Category::HostKey),
    ("Host key verification failed", Category::HostKey),
    ("host key is known for", Category::HostKey),
    ("certificate verification failed", Category::Certificate),
    ("certificate problem", Category::Certificate),
    ("error setting certificate", Category::Certificate),
    ("SSL: no alternative certificate", Category::Certificate),
    ("certificate subject name", Category::Certificate),
    ("server certificate", Category::Certificate),
    ("could not load PEM client certificate", Category::Certificate),
    ("error reading X.509", Category::Certificate),
    ("terminal prompts disabled", Category::Unauthorized),
    ("Authentication failed", Category::Unauthorized),
    ("Permission denied (", Category::Unauthorized),
    ("Too many authentication failures", Category::Unauthorized),
    ("HTTP code 407", Category::Unauthorized),
    ("response 407", Category::Unauthorized),
    ("returned error: 407", Category::Unauthorized),
    ("returned error: 401", Category::Unauthorized),
    ("returned error: 403", Category::Forbidden),
    ("HTTP 403", Category::Forbidden),
    ("returned error: 429", Category::Throttled),
    ("HTTP 429", Category::Throttled),
    ("returned error: 404", Category::NotFound),
    ("returned error: 410", Category::NotFound),
    ("returned error: 30", Category::Redirected),
    ("HTTP 30", Category::Redirected),
    ("unable to update url base from redirection", Category::Redirected),
    ("not valid: is this a git repository", Category::NotARepository),
    ("invalid server response", Category::NotARepository),
    ("invalid content-type", Category::NotARepository),
    ("ERROR: Repository not found", Category::NotFound),
    ("does not appear to be a git repository", Category::NotFound),
    ("could not be found", Category::NotFound),
    // A transfer that broke off, whatever was said about the pieces that arrived.
    ("transfer closed with", Category::Unavailable),
    // Nothing or rubbish where a pack should begin: that is the wire, not an object.
    ("protocol error: bad pack header", Category::Unavailable),
    // Objects that are broken on the way or on disk.
    ("inflate", Category::Corrupt),
    ("bad object", Category::Corrupt),
    ("missing blob", Category::Corrupt),
    ("missing tree", Category::Corrupt),
    ("missing commit", Category::Corrupt),
    ("is corrupt", Category::Corrupt),
    ("corrupted", Category::Corrupt),
    ("SHA1 mismatch", Category::Corrupt),
    ("SHA1 COLLISION", Category::Corrupt),
    ("does not match index", Category::Corrupt),
    ("did not send all necessary objects", Category::Corrupt),
    ("does not point to a valid object", Category::Corrupt),
    ("unable to parse object", Category::Corrupt),
    ("could not parse commit", Category::Corrupt),
    ("unable to read tree", Category::Corrupt),
    ("unable to read sha1 file", Category::Corrupt),
    ("Failed to traverse parents", Category::Corrupt),
    ("bad pack", Category::Corrupt),
    ("pack has bad", Category::Corrupt),
    ("pack signature mismatch", Category::Corrupt),
    ("unresolved delta", Category::Corrupt),
    ("packfile", Category::Corrupt),
    ("not a git repository", Category::Corrupt),
    ("bad config line", Category::Corrupt),
    ("unterminated line in", Category::Corrupt),
    ("unexpected line in", Category::Corrupt),
    ("object file", Category::Corrupt),
    // A server that is not there or that breaks off.
    ("returned error: 5", Category::Unavailable),
    ("HTTP 5", Category::Unavailable),
    ("Could not resolve", Category::Unavailable),
    ("Couldn't connect", Category::Unavailable),
    ("Failed to connect", Category::Unavailable),
    ("Connection refused", Category::Unavailable),
    ("Connection timed out", Category::Timeout),
    ("Operation timed out", Category::Timeout),
    ("Operation too slow", Category::Timeout),
    ("Connection reset", Category::Unavailable),
    ("Connection closed", Category::Unavailable),
    ("Network is unreachable", Category::Unavailable),
    ("No route to host", Category::Unavailable),
    ("Name or service not known", Category::Unavailable),
    ("Temporary failure in name resolution", Category::Unavailable),
    ("Empty reply from server", Category::Unavailable),
    ("hung up unexpectedly", Category::Unavailable),
    ("unexpected disconnect", Category::Unavailable),
    ("early EOF", Category::Unavailable),
    ("Proxy CONNECT aborted", Category::Unavailable),
    ("response 5", Category::Unavailable),
    ("HTTP code 5", Category::Unavailable),
    ("gnutls_handshake() failed", Category::Unavailable),
    ("SSL_connect", Category::Unavailable),
    ("GnuTLS recv error", Category::Unavailable),
    ("Could not read from remote repository", Category::Unavailable),
    ("RPC failed", Category::Unavailable),
    ("bad line length", Category::NotARepository),
    ("protocol error", Category::NotARepository),
];

/// What the text of a failed run means. Lines of the remote do not count: it could say anything.
pub(super) fn classify(stderr: &str) -> Category {
    let lines: Vec<_> =
        telling_lines(stderr).into_iter().filter(|line| !line.starts_with("remote:")).collect();
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    if lines.iter().any(|line| line.starts_with("fatal: repository '") && line.ends_with("not found")) {
        return Category::NotFound;
    }
    MEANINGS.iter().find(|(text, _)| has(text)).map_or(Category::Other, |(_, category)| *category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_git_are_sorted() {
        for (text, expected) in [
            (
                "fatal: could not read Username for 'http://h': terminal prompts disabled",
                Category::Unauthorized,
            ),
            ("fatal: Authentication failed for 'https://h/x/'", Category::Unauthorized),
            (
                "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                Category::Unauthorized,
            ),
            (
                "remote: no\nfatal: unable to access 'u': The requested URL returned error: 403",
                Category::Forbidden,
            ),
            ("remote: no\nfatal: repository 'http://h/x/' not found", Category::NotFound),
            (
                "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
                Category::NotFound,
            ),
            ("fatal: unable to access 'u': The requested URL returned error: 429", Category::Throttled),
            ("fatal: unable to access 'u': The requested URL returned error: 503", Category::Unavailable),
            ("fatal: unable to access 'u': The requested URL returned error: 302", Category::Redirected),
            ("fatal: unable to access 'u': Could not resolve host: h", Category::Unavailable),
            (
                "fatal: unable to access 'u': Failed to connect to h port 1 after 0 ms: Couldn't connect to server",
                Category::Unavailable,
            ),
            ("ssh: connect to host h port 1: Connection refused", Category::Unavailable),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.",
                Category::HostKey,
            ),
            (
                "fatal: unable to access 'u': server certificate verification failed. CAfile: none CRLfile: none",
                Category::Certificate,
            ),
            ("fatal: http://h/info/refs not valid: is this a git repository?", Category::NotARepository),
            (
                "error: inflate: data stream error (incorrect data check)\nfatal: pack has bad object at offset 12",
                Category::Corrupt,
            ),
            ("fatal: write error: No space left on device", Category::DiskFull),
            (
                "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\nfatal: early EOF",
                Category::Unavailable,
            ),
            (
                "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\nfatal: protocol error: bad pack header",
                Category::Unavailable,
            ),
            ("fatal: protocol error: bad pack header", Category::Unavailable),
            ("fatal: bad pack data", Category::Corrupt),
            ("fatal: something new", Category::Other),
            ("remote: Authentication failed\nfatal: something new", Category::Other),
        ] {
            assert_eq!(classify(text), expected, "{text}");
        }
    }

    #[test]
    fn messages_are_short_and_without_progress_or_control_characters() {
        let text = "remote: Counting objects: 10% (1/10)\rremote: Counting objects: 100% (10/10), done.\nremote: \u{1b}[31mred\nfatal: no\n";
        assert_eq!(message(text), "remote:  [31mred; fatal: no");
        assert!(message(&format!("fatal: {}", "x".repeat(5000))).len() < 1100);
        assert_eq!(message(""), "it gave no reason");
    }
}
