//! Colours, only where a person sees them.

use std::io::IsTerminal;

/// Paints words, or leaves them alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For standard error: colours on a terminal, unless `NO_COLOR` or a dumb terminal says no.
    pub(crate) fn stderr() -> Self {
        Self { on: colours(std::io::stderr().is_terminal(), |name| std::env::var_os(name)) }
    }

    /// No colours.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { on: false }
    }

    /// Whether there are colours.
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    /// The word that says that something failed.
    pub(crate) fn error(self, word: &str) -> String {
        self.wrap("1;31", word)
    }

    /// A word that introduces the rest of the line.
    pub(crate) fn label(self, word: &str) -> String {
        self.wrap("1;36", word)
    }

    fn wrap(self, code: &str, word: &str) -> String {
        if self.on { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }
}

/// `NO_COLOR` counts when it is set to anything but the empty text, as no-color.org asks.
fn colours(terminal: bool, env: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    terminal
        && env("NO_COLOR").is_none_or(|value| value.is_empty())
        && env("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_on_a_terminal_that_wants_them() {
        let env = |set: &'static [(&'static str, &'static str)]| {
            move |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        assert!(colours(true, env(&[])));
        assert!(colours(true, env(&[("NO_COLOR", ""), ("TERM", "xterm")])));
        assert!(!colours(true, env(&[("NO_COLOR", "1")])));
        assert!(!colours(true, env(&[("TERM", "dumb")])));
        assert!(!colours(false, env(&[])));
        assert_eq!(Paint { on: true }.error("error:"), "\x1b[1;31merror:\x1b[0m");
    }
}
