//! Quoted text that goes on further left than YAML 1.2 allows.
//!
//! ```text
//!     message: 'first line
//!     second line'
//! ```
//!
//! Kubernetes' reader takes it, and files that were indented by hand have it. White space at the start of such a line
//! means nothing, so that the lines are moved to the right in a copy, and the copy is read. No value starts in a moved
//! line (only between brackets could one, and there the rule does not hold), so that lines and columns stay true; byte
//! ranges are counted back.

use std::ops::Range;

use super::{Document, Limits, ParseError, build};

/// Longer texts are not read again.
const MOST_BYTES: usize = 1 << 20;
/// How many of these texts one file may have: each costs one more reading.
const MOST_TEXTS: usize = 16;

/// Where quoted text is that was refused for its indentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    /// The end of what was read before it.
    pub before: usize,
    /// The start of what stands too far left.
    pub at: usize,
}

/// Reads a text in which quoted text was refused with `error`.
pub(super) fn documents(
    text: &str,
    mut refused: Refused,
    mut error: ParseError,
    limits: &Limits,
) -> Result<Vec<Document>, ParseError> {
    if text.len() > MOST_BYTES {
        return Err(error);
    }
    let mut copy = Copy { text: text.to_owned(), moved: Vec::new() };
    for _ in 0..MOST_TEXTS {
        if copy.indent(refused).is_none() {
            break;
        }
        match build::read(&copy.text, limits) {
            Ok(mut documents) => {
                for document in &mut documents {
                    document.range = copy.back(document.range.start)..copy.back(document.range.end);
                }
                return Ok(documents);
            }
            Err(stop) => {
                // In a moved line the column would not be the one of the text.
                if !stop.error.position().is_some_and(|position| copy.has_moved(position.line)) {
                    error = stop.error;
                }
                match stop.refused {
                    Some(next) => refused = next,
                    None => break,
                }
            }
        }
    }
    Err(error)
}

/// A line of the copy that was moved.
struct Moved {
    line: usize,
    /// Where it starts in the copy.
    at: usize,
    width: usize,
    /// By how much all lines before it were moved.
    before: usize,
}

struct Copy {
    text: String,
    /// In their order: what is refused next stands behind what is repaired.
    moved: Vec<Moved>,
}

impl Copy {
    /// Moves the lines of one quoted text right of its first quote. `None` where it is not clear what the text is.
    fn indent(&mut self, refused: Refused) -> Option<()> {
        let text = self.text.as_str();
        let Range { start, end } = quoted(text, refused)?;
        let width = start - text[..start].rfind('\n').map_or(0, |at| at + 1);
        let mut line = text[..start].matches('\n').count() + 1;
        let mut before = self.moved.last().map_or(0, |last| last.before + last.width);
        let mut out = text[..start].to_owned();
        let mut moved = Vec::new();
        for (index, part) in text[start..end].split_inclusive('\n').enumerate() {
            line += usize::from(index > 0);
            let indent = part.len() - part.trim_start_matches([' ', '\t']).len();
            if index > 0 && indent <= width && !part.trim().is_empty() && !is_marker(part) {
                moved.push(Moved { line, at: out.len(), width, before });
                before += width;
                if before > MOST_BYTES {
                    return None;
                }
                out.extend(std::iter::repeat_n(' ', width));
            }
            out.push_str(part);
        }
        out.push_str(&text[end..]);
        if moved.is_empty() {
            return None;
        }
        self.moved.append(&mut moved);
        self.text = out;
        Some(())
    }

    /// The byte of the text that stands at a byte of the copy.
    fn back(&self, at: usize) -> usize {
        let passed = self.moved.partition_point(|moved| moved.at < at);
        match passed.checked_sub(1).and_then(|last| self.moved.get(last)) {
            Some(last) => at - last.before - last.width.min(at - last.at),
            None => at,
        }
    }

    fn has_moved(&self, line: usize) -> bool {
        self.moved.binary_search_by_key(&line, |moved| moved.line).is_ok()
    }
}

/// The bytes of the quoted text, from quote to quote. Only punctuation may stand between what was read and the text:
/// after anything else the quote could be a part of it.
fn quoted(text: &str, refused: Refused) -> Option<Range<usize>> {
    let between = text.get(refused.before..refused.at)?;
    let lead = between.find(['\'', '"'])?;
    let plain = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | ':' | '-' | '?');
    if !between[..lead].chars().all(plain) {
        return None;
    }
    let start = refused.before + lead;
    let quote = text.as_bytes()[start];
    let mut bytes = text.bytes().enumerate().skip(start + 1).peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if quote == b'"' => {
                bytes.next();
            }
            b'\'' if quote == b'\'' && bytes.peek().is_some_and(|(_, next)| *next == b'\'') => {
                bytes.next();
            }
            byte if byte == quote => return (at >= refused.at).then_some(start..at + 1),
            _ => {}
        }
    }
    None
}

/// A marker of documents ends the text for every reader.
fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}
