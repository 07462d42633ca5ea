//! What a user gets to read when a command fails: what, why, and what to do.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use crate::terminal::Paint;

/// How a failure is told to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The command could not do its work.
    Failure,
    /// The command line, the environment or the config file is wrong: trying again is of no use.
    Usage,
    /// What was asked about is not done yet.
    Unfinished,
    /// What was asked about waits for a person.
    Waiting,
}

impl ErrorKind {
    /// The exit code; documented in `--help`.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Unfinished => 3,
            Self::Waiting => 4,
        }
    }
}

/// The end of a command that failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
}

impl CommandError {
    /// The command could not do its work.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failure, message: message.into(), source: None, hints: Vec::new() }
    }

    /// The user asked for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, ..Self::failure(message) }
    }

    /// What was asked about is not done yet.
    pub(crate) fn unfinished(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unfinished, ..Self::failure(message) }
    }

    /// What was asked about waits for a person.
    pub(crate) fn waiting(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Waiting, ..Self::failure(message) }
    }

    /// Everything was said on standard output already: only the exit code is left to tell.
    pub(crate) fn told() -> Self {
        Self::failure(String::new())
    }

    /// Adds the cause.
    #[must_use]
    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// For the shell.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }

    /// For people.
    pub(crate) fn render(&self, paint: Paint) -> String {
        if self.message.is_empty() {
            return String::new();
        }
        let mut text = format!("{} {}\n", paint.error("error:"), self.message);
        for cause in self.causes() {
            let _ = writeln!(text, "{} {cause}", paint.label("caused by:"));
        }
        for hint in &self.hints {
            let _ = writeln!(text, "{} {hint}", paint.label("hint:"));
        }
        text
    }

    /// The causes from the outermost to the innermost. One that only repeats what was already said is left out: many
    /// errors print their source as a part of themselves.
    fn causes(&self) -> Vec<String> {
        let mut said = self.message.clone();
        let mut causes = Vec::new();
        let mut next: Option<&dyn Error> = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(error) = next {
            let text = error.to_string();
            if !said.contains(&text) {
                causes.push(text.clone());
            }
            said = text;
            next = error.source();
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the file is broken")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("outside: {0}")]
    struct Repeating(#[source] std::io::Error);

    #[test]
    fn what_why_and_what_to_do() {
        let cause = Outer(std::io::Error::other("disk on fire"));
        let error = CommandError::usage("cannot read x.yaml").because(cause).hint("Put the fire out.");
        assert_eq!(
            error.render(Paint::plain()),
            "error: cannot read x.yaml\ncaused by: the file is broken\ncaused by: disk on fire\nhint: Put the fire out.\n"
        );
        assert_eq!(error.exit_code(), ExitCode::from(2));
        assert_eq!(CommandError::failure("x").exit_code(), ExitCode::from(1));
        assert_eq!(CommandError::told().render(Paint::plain()), "");
        assert_eq!(CommandError::told().exit_code(), ExitCode::from(1));
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let error = CommandError::failure("no").because(Repeating(std::io::Error::other("disk on fire")));
        assert_eq!(error.render(Paint::plain()), "error: no\ncaused by: outside: disk on fire\n");
    }
}
