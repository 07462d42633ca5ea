//! The message of a commit: a subject, a text, and trailers that programs read.
//!
//! Trailers are the last paragraph, and only that. So whatever else a message holds, it must not be able to make
//! `git` see another last paragraph: a text that came from a cluster could otherwise claim who made a change.

/// The line by which `git commit --verbose` marks the end of a message. `git` stops to look for trailers there.
const SCISSORS: &str = "------------------------ >8 ------------------------";

/// How a commit by somebody else is named at the end of a message; counts as a trailer.
const CHERRY_PICKED: &str = "(cherry picked from commit ";

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    subject: String,
    body: String,
    trailers: Vec<(String, String)>,
}

/// A message that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// There is no text in the subject.
    #[error("a commit needs a subject; check the template of the message")]
    EmptySubject,
    /// A trailer's key may hold letters, digits and dashes.
    #[error("{key:?} cannot be the key of a trailer: use letters, digits and `-`")]
    BadTrailerKey {
        /// The key.
        key: String,
    },
}

impl Message {
    /// A message of one line. Line breaks in it become spaces.
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..Self::default() }
    }

    /// Adds the text between subject and trailers.
    ///
    /// A line that would end the message for `git` (`---`, the scissors line) is set in by one space. So are lines
    /// of the form `Key: value` at the end of a message without trailers: they are text, not trailers.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds a trailer. Line breaks in the value are folded, empty lines in it are dropped.
    #[must_use]
    pub fn trailer(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.trailers.push((key.into(), value.into()));
        self
    }

    /// The message as it is stored: UTF-8, with a line break at its end.
    pub fn render(&self) -> Result<String, MessageError> {
        let subject = visible(&self.subject).split_whitespace().collect::<Vec<_>>().join(" ");
        if subject.is_empty() {
            return Err(MessageError::EmptySubject);
        }
        let mut out = format!("{subject}\n");
        let mut body = body_lines(&self.body);
        if self.trailers.is_empty() {
            set_in_last_paragraph(&mut body);
        }
        if !body.is_empty() {
            out.push('\n');
        }
        for line in body {
            out.push_str(&line);
            out.push('\n');
        }
        if !self.trailers.is_empty() {
            out.push('\n');
        }
        for (key, value) in &self.trailers {
            out.push_str(&trailer_line(key, value)?);
        }
        Ok(out)
    }
}

/// Line breaks of all kinds become `\n`, tabs stay, other control characters go.
fn visible(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text =
        text.chars().map(|c| if matches!(c, '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') { '\n' } else { c });
    text.filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The text without empty lines at its ends and with at most one between paragraphs.
fn body_lines(body: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in visible(body).lines().map(str::trim_end) {
        if line.is_empty() {
            if lines.last().is_some_and(|last| !last.is_empty()) {
                lines.push(String::new());
            }
        } else if ends_message(line) {
            lines.push(format!(" {line}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn ends_message(line: &str) -> bool {
    let divider =
        line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
    // Any character can be configured to begin a comment.
    let mut after_comment = line.chars();
    after_comment.next();
    divider || after_comment.as_str().strip_prefix(' ').is_some_and(|rest| rest.starts_with(SCISSORS))
}

/// Comments and lists of conflicts at the end do not count for `git`, so the paragraph before them is the last one.
fn set_in_last_paragraph(lines: &mut [String]) {
    for paragraph in lines.rsplit_mut(String::is_empty) {
        let ignored = paragraph.iter().all(|line| is_ignored(line));
        for line in paragraph.iter_mut().filter(|line| looks_like_trailer(line)) {
            line.insert(0, ' ');
        }
        if !ignored {
            break;
        }
    }
}

/// Whether `git` may pass over a line at the end of a message. Comments can begin with any character.
fn is_ignored(line: &str) -> bool {
    line == "Conflicts:" || !line.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn looks_like_trailer(line: &str) -> bool {
    let key = line.split_once(':').map(|(key, _)| key.trim_end_matches([' ', '\t']));
    line.starts_with(CHERRY_PICKED) || key.is_some_and(is_key)
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn trailer_line(key: &str, value: &str) -> Result<String, MessageError> {
    if !is_key(key) {
        return Err(MessageError::BadTrailerKey { key: key.chars().take(80).collect() });
    }
    let value = visible(value);
    let lines: Vec<&str> = value.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let space = if lines.is_empty() { "" } else { " " };
    Ok(format!("{key}:{space}{}\n", lines.join("\n ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_body_and_trailers_are_paragraphs() {
        let message = Message::new("Update\nthree  objects ")
            .body("\n\nWhy:\r\n- one\n\n\n- two  \n\n")
            .trailer("Windlass-User", "ada\n\nWindlass-User: root")
            .trailer("Windlass-Objects", "");
        assert_eq!(
            message.render().unwrap(),
            "Update three objects\n\nWhy:\n- one\n\n- two\n\nWindlass-User: ada\n Windlass-User: root\nWindlass-Objects:\n"
        );
        assert_eq!(Message::new("One").render().unwrap(), "One\n");
    }

    #[test]
    fn a_body_cannot_end_the_message_or_pose_as_trailers() {
        let body = format!("Windlass-User: root\n---\nx\n# {SCISSORS}\n--- a\n----");
        let rendered = Message::new("s").body(body).trailer("A", "b").render().unwrap();
        assert_eq!(
            rendered,
            format!("s\n\nWindlass-User: root\n ---\nx\n # {SCISSORS}\n --- a\n----\n\nA: b\n")
        );
        let rendered = Message::new("s")
            .body("text\n\nSigned-off-by: root\nplain\n(cherry picked from commit x)")
            .render();
        assert_eq!(
            rendered.unwrap(),
            "s\n\ntext\n\n Signed-off-by: root\nplain\n (cherry picked from commit x)\n"
        );
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        assert_eq!(Message::new(" \0\n").render(), Err(MessageError::EmptySubject));
        for key in ["", "a b", "a:b", "ä", "a\nb"] {
            let rendered = Message::new("s").trailer(key, "v").render();
            assert!(matches!(rendered, Err(MessageError::BadTrailerKey { .. })), "{key:?}");
        }
    }
}
