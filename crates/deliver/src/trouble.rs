//! Something that stands in the way, in words that help: every condition of this part is made from one.

use serde::Serialize;

/// What stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// For the condition, in `CamelCase`, from a fixed set.
    pub reason: &'static str,
    /// What is wrong. Never holds content of Secrets or credentials.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// Trying again is of no use before something changes that wakes us.
    pub waits_for_change: bool,
}

impl Trouble {
    /// Trouble that stays until somebody changes something.
    pub fn standing(reason: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason, what: what.into(), remedy: remedy.into(), waits_for_change: true }
    }

    /// Trouble that may pass by itself.
    pub fn passing(reason: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { waits_for_change: false, ..Self::standing(reason, what, remedy) }
    }

    /// Both sentences.
    pub fn message(&self) -> String {
        format!("{} {}", sentence(&self.what), sentence(&self.remedy)).trim().to_owned()
    }
}

/// First letter large, a full stop at the end. A first word that is no word but a name (`deploy/web.yaml`, `spec.sync`,
/// `east:`) stays as it is: names are told as they are spelled.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    let word = text.split_whitespace().next().unwrap_or_default();
    if !word.trim_end_matches(',').chars().all(char::is_alphabetic) {
        return format!("{text}{end}");
    }
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn names_are_told_as_they_are_spelled() {
        for (text, told) in [
            ("the folder is gone", "The folder is gone."),
            ("first, that", "First, that."),
            ("deploy/web.yaml: line 5", "deploy/web.yaml: line 5."),
            ("spec.sync.windows[0] is wrong", "spec.sync.windows[0] is wrong."),
            ("east: it does not answer!", "east: it does not answer!"),
            (" ", ""),
        ] {
            assert_eq!(sentence(text), told);
        }
    }
}
