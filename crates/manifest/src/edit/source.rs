//! The text under the knife: lines, columns, and the patches that were collected.

use std::ops::Range;

use crate::{
    canonical::Layout,
    parse::{
        Position,
        tree::{Content, Node, Tree},
    },
};

/// A text and its ways.
pub(super) struct Source<'a> {
    pub text: &'a str,
    /// The line break it uses.
    pub eol: &'static str,
    pub layout: Layout,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str, tree: &Tree) -> Self {
        let mut source = Self { text, eol: eol_of(text), layout: Layout { step: 2, list: 0 } };
        source.layout = source.layout_of(tree);
        source
    }

    pub fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |before| before + 1)
    }

    /// The end of the line, before its break.
    pub fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |offset| at + offset);
        if end > at && self.text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end }
    }

    /// The start of the next line, or the end of the text.
    pub fn next_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |offset| at + offset + 1)
    }

    pub fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    /// Whether only spaces stand before it in its line.
    pub fn leads(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].bytes().all(|b| b == b' ')
    }

    pub fn position(&self, at: usize) -> Position {
        Position::of(self.text, at)
    }

    /// The `:` after a key, if the key is a simple one.
    pub fn colon(&self, key: &Range<usize>) -> Option<usize> {
        let blanks = self.text[key.end..].bytes().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let at = key.end + blanks;
        let explicit = self.text[..key.start].trim_end_matches(' ').ends_with('?') && !self.leads(key.start);
        (self.text.as_bytes().get(at) == Some(&b':') && !explicit).then_some(at)
    }

    /// The first dash of a list from `from` on, past white space, comments, anchors and tags.
    pub fn dash(&self, from: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = from;
        loop {
            match bytes.get(at)? {
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                b'#' => at = self.next_line(at),
                b'&' | b'!' => at += bytes[at..].iter().take_while(|b| !b.is_ascii_whitespace()).count(),
                b'-' => return Some(at),
                _ => return None,
            }
        }
    }

    /// Where the comment block starts that stands directly above a line, at the same column; the line itself without one.
    pub fn with_comments_above(&self, line: usize, column: usize) -> usize {
        let mut start = line;
        while start > 0 {
            let above = self.line_start(start - 1);
            let content = &self.text[above..start];
            let indent = content.bytes().take_while(|b| *b == b' ').count();
            if indent != column || !content[indent..].starts_with('#') {
                break;
            }
            start = above;
        }
        start
    }

    /// New lines (with a break at the end) as they are inserted at `at`, which is the start of a line or the end of all.
    pub fn inserted(&self, lines: &str, at: usize) -> String {
        let lines = self.broken(lines);
        let open = at == self.text.len() && !self.text.is_empty() && !self.text.ends_with('\n');
        if open { format!("{}{}", self.eol, lines.strip_suffix(self.eol).unwrap_or(&lines)) } else { lines }
    }

    /// Generated text with the line breaks of this one.
    pub fn broken(&self, text: &str) -> String {
        if self.eol == "\n" { text.to_owned() } else { text.replace('\n', self.eol) }
    }

    /// The indentation that the text uses: of the first map in a map, and of the first list in a map.
    fn layout_of(&self, tree: &Tree) -> Layout {
        let (mut step, mut list) = (None, None);
        tree.root.visit(&mut |node| {
            let Content::Map { flow: false, entries } = &node.content else { return };
            for entry in entries {
                let column = self.column(entry.key_range.start);
                match &entry.value {
                    Node { content: Content::Map { flow: false, entries }, .. } => {
                        let inner = entries.first().map(|inner| self.column(inner.key_range.start));
                        step = step.or(inner.and_then(|inner| inner.checked_sub(column)));
                    }
                    Node { content: Content::List { flow: false, .. }, .. } => {
                        let dash = self.dash(entry.key_range.end + 1).map(|dash| self.column(dash));
                        list = list.or(dash.and_then(|dash| dash.checked_sub(column)));
                    }
                    _ => {}
                }
            }
        });
        Layout { step: step.unwrap_or(2).clamp(1, 8), list: list.unwrap_or(0).min(8) }
    }
}

/// The line break of a text: that of its first line.
pub(super) fn eol_of(text: &str) -> &'static str {
    if text.find('\n').is_some_and(|at| text[..at].ends_with('\r')) { "\r\n" } else { "\n" }
}

/// A change of some bytes.
#[derive(Debug)]
pub(super) struct Patch {
    pub range: Range<usize>,
    pub text: String,
}

/// Applies patches; `None` when they overlap.
pub(super) fn apply(text: &str, mut patches: Vec<Patch>) -> Option<String> {
    patches.sort_by_key(|patch| (patch.range.start, patch.range.end));
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for patch in &patches {
        out.push_str(text.get(at..patch.range.start)?);
        out.push_str(&patch.text);
        at = patch.range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// A text without final line break still has none.
pub(super) fn ended_like(text: &str, mut new: String) -> String {
    if !text.ends_with('\n') && new.ends_with('\n') {
        new.pop();
        if new.ends_with('\r') {
            new.pop();
        }
    }
    new
}
