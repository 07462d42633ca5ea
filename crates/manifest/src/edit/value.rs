//! A value that changes: in its own bytes where it can, as a whole where its kind changes.

use std::{collections::HashSet, ops::Range};

use granit_parser::ScalarStyle;
use serde_json::Value;

use super::{
    EditError,
    source::{Patch, Source},
};
use crate::{
    canonical::{self, Context, double_quoted, plain_fits, single_quoted_fits},
    parse::tree::{Content, Node},
};

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// It is the document.
    Root,
    /// In a block map, after the colon; the keys stand at `column`.
    Member { colon: usize, column: usize },
    /// In a block list, after the dash, which stands at `column`.
    Item { dash: usize, column: usize },
    /// Between brackets.
    Flow,
}

/// New text for a value: what goes on in its line, and the lines after that (without the last break).
struct Rendered {
    inline: String,
    lines: String,
}

impl Rendered {
    /// Splits text whose first line goes on in the line that is there.
    fn split(text: &str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        match text.split_once('\n') {
            Some((inline, lines)) => Self { inline: inline.to_owned(), lines: lines.to_owned() },
            None => Self { inline: text.to_owned(), lines: String::new() },
        }
    }
}

/// Collects the patches for one object.
pub(super) struct Editor<'a> {
    pub source: Source<'a>,
    pub patches: Vec<Patch>,
    /// The anchors that aliases repeat.
    used: HashSet<usize>,
    /// The object itself: its members have their own order.
    pub object: Range<usize>,
    /// New parts must be JSON.
    pub json: bool,
}

impl<'a> Editor<'a> {
    pub fn new(source: Source<'a>, used: HashSet<usize>, object: Range<usize>, json: bool) -> Self {
        Self { source, patches: Vec::new(), used, object, json }
    }

    pub fn patch(&mut self, range: Range<usize>, text: String) {
        if !range.is_empty() || !text.is_empty() {
            self.patches.push(Patch { range, text });
        }
    }

    /// Makes `node` say `wanted`.
    pub fn change(&mut self, node: &Node, wanted: &Value, slot: Slot) -> Result<(), EditError> {
        if node.says(wanted) {
            return Ok(());
        }
        if self.used.contains(&node.anchor) {
            return Err(EditError::Shared { position: self.source.position(node.range.start) });
        }
        match (&node.content, wanted) {
            (Content::Map { flow: false, entries }, Value::Object(wanted)) if !wanted.is_empty() => {
                self.block_map(node, entries, wanted, slot)
            }
            (Content::Map { flow: true, entries }, Value::Object(wanted))
                if !wanted.is_empty() && !entries.is_empty() =>
            {
                self.flow_map(node, entries, wanted, slot)
            }
            (Content::List { flow: false, items }, Value::Array(wanted)) if !wanted.is_empty() => {
                self.block_list(node, items, wanted, slot)
            }
            (Content::List { flow: true, items }, Value::Array(wanted))
                if !wanted.is_empty() && !items.is_empty() =>
            {
                self.flow_list(node, items, wanted, slot)
            }
            _ => self.replace(node, wanted, slot),
        }
    }

    /// Keeps a block of text at the end of the file without a line break when something is put behind it: its last line
    /// gets one, which the header must not count.
    pub fn close_last_block(&mut self, root: &Node) {
        let text = self.source.text;
        if !self.patches.iter().any(|patch| patch.range == (text.len()..text.len())) {
            return;
        }
        let mut last = None;
        root.visit(&mut |node| {
            if let Content::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. } = node.content
                && node.range.end == text.trim_end_matches(' ').len()
            {
                last = Some(node.range.clone());
            }
        });
        let Some(last) = last else { return };
        if self.patches.iter().any(|patch| patch.range.start < last.end && patch.range.end > last.start) {
            return;
        }
        let header = text[last.clone()].bytes().skip(1).take_while(|b| matches!(b, b'1'..=b'9')).count();
        let at = last.start + 1 + header;
        match text.as_bytes().get(at) {
            Some(b'-') => {}
            Some(b'+') => self.patch(at..at + 1, "-".to_owned()),
            _ => self.patch(at..at, "-".to_owned()),
        }
    }

    /// Refuses to take away what others repeat.
    pub fn refuse_shared(&self, node: &Node) -> Result<(), EditError> {
        let mut shared = None;
        node.visit(&mut |inner| {
            if self.used.contains(&inner.anchor) {
                shared = shared.or(Some(inner.range.start));
            }
        });
        match shared {
            Some(at) => Err(EditError::Shared { position: self.source.position(at) }),
            None => Ok(()),
        }
    }

    /// Writes a value anew.
    pub fn replace(&mut self, node: &Node, wanted: &Value, slot: Slot) -> Result<(), EditError> {
        self.refuse_shared(node)?;
        self.refuse_template(node, wanted)?;
        match slot {
            Slot::Root => Err(EditError::Unsupported {
                position: self.source.position(node.range.start),
                what: "a document that is no block map",
            }),
            Slot::Flow => {
                let text = self.flow_text(node, wanted);
                self.patch(node.range.clone(), text);
                Ok(())
            }
            Slot::Member { column, .. } | Slot::Item { column, .. } => {
                let rendered = self.rendered(node, wanted, slot, column);
                self.place(node, &rendered, slot);
                Ok(())
            }
        }
    }

    /// A template in a line of its own value must not be lost: it is what the authors wrote.
    fn refuse_template(&self, node: &Node, wanted: &Value) -> Result<(), EditError> {
        let Content::Scalar { value: Value::String(old), .. } = &node.content else { return Ok(()) };
        let template = |text: &str| text.contains("{{") && text.contains("}}");
        if template(old) && !old.contains('\n') && !wanted.as_str().is_some_and(template) {
            return Err(EditError::Templated { position: self.source.position(node.range.start) });
        }
        Ok(())
    }

    /// A value between brackets, in the style of the old one.
    pub fn flow_text(&self, node: &Node, wanted: &Value) -> String {
        if self.json {
            return wanted.to_string();
        }
        match (&node.content, wanted) {
            (Content::Scalar { style, .. }, Value::String(text)) => quoted_like(*style, text, Context::Flow)
                .unwrap_or_else(|| canonical::inline(wanted, Context::Flow)),
            _ => canonical::inline(wanted, Context::Flow),
        }
    }

    fn rendered(&self, node: &Node, wanted: &Value, slot: Slot, column: usize) -> Rendered {
        let layout = self.source.layout;
        match (wanted, slot) {
            (Value::Object(map), Slot::Member { .. }) if !map.is_empty() => {
                let lines = canonical::members(map, column + layout.step, layout);
                Rendered { inline: String::new(), lines: lines.trim_end_matches('\n').to_owned() }
            }
            (Value::Array(items), Slot::Member { .. }) if !items.is_empty() => {
                let lines: String =
                    items.iter().map(|item| canonical::item(item, column + layout.list, layout)).collect();
                Rendered {
                    inline: String::new(),
                    lines: lines.strip_suffix('\n').unwrap_or(&lines).to_owned(),
                }
            }
            (Value::Object(_) | Value::Array(_), _) => {
                let item = canonical::item(wanted, column, layout);
                Rendered::split(item.get(column + 2..).unwrap_or_default())
            }
            (Value::String(text), _) => self.rendered_string(node, text, column),
            _ => Rendered::split(&canonical::inline(wanted, Context::Block)),
        }
    }

    fn rendered_string(&self, node: &Node, text: &str, column: usize) -> Rendered {
        let style = match &node.content {
            Content::Scalar { style, .. } => *style,
            _ => ScalarStyle::Plain,
        };
        let block =
            |step| canonical::block(text, column, step).map(|block| Rendered::split(&format!("{block}\n")));
        let old_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if old_block && let Some(rendered) = block(self.block_step(node, column)) {
            return rendered;
        }
        if let Some(quoted) = quoted_like(style, text, Context::Block) {
            return Rendered { inline: quoted, lines: String::new() };
        }
        if text.contains('\n')
            && let Some(rendered) = block(self.source.layout.step)
        {
            return rendered;
        }
        let value = Value::String(text.to_owned());
        Rendered { inline: canonical::inline(&value, Context::Block), lines: String::new() }
    }

    /// How far right of its parent the text of an old block stands.
    fn block_step(&self, node: &Node, column: usize) -> usize {
        let lines = self.source.text[node.range.clone()].lines().skip(1);
        let indent = lines
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.bytes().take_while(|b| *b == b' ').count())
            .min();
        match indent.and_then(|indent| indent.checked_sub(column)) {
            Some(step @ 1..=9) => step,
            _ => self.source.layout.step,
        }
    }

    /// The bytes of a value: those in its first line, and the lines after it that belong to it.
    fn regions(&self, node: &Node, slot: Slot) -> (Range<usize>, Range<usize>) {
        let Range { start, end } = node.range;
        let source = &self.source;
        match &node.content {
            Content::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. } => {
                let header = source.text[start..]
                    .bytes()
                    .take_while(|b| matches!(b, b'|' | b'>' | b'+' | b'-' | b'0'..=b'9'))
                    .count();
                // Blanks after the last word are not in the range, and would be a part of the new text.
                (start..start + header, source.line_end(start)..source.line_end(end))
            }
            Content::Map { flow: false, .. } | Content::List { flow: false, .. } => {
                let before = match slot {
                    Slot::Member { colon, .. } => colon,
                    Slot::Item { dash, .. } => dash,
                    Slot::Root | Slot::Flow => start,
                };
                let last = source.line_end(end);
                if source.line_start(start) == source.line_start(before) {
                    (start..last, last..last)
                } else {
                    (before + 1..before + 1, source.line_end(before)..last)
                }
            }
            _ => {
                // A value that is not there at all is reported before the colon.
                let (start, end) = match slot {
                    Slot::Member { colon, .. } if start == end => (colon + 1, colon + 1),
                    _ => (start, end),
                };
                let line_end = source.line_end(end);
                (start..end, line_end..line_end)
            }
        }
    }

    fn place(&mut self, node: &Node, rendered: &Rendered, slot: Slot) {
        let (mut inline, tail) = self.regions(node, slot);
        let before = &self.source.text[..inline.start];
        let text = if rendered.inline.is_empty() {
            inline.start = before.trim_end_matches([' ', '\t']).len();
            String::new()
        } else if before.ends_with([' ', '\t', '\n']) {
            rendered.inline.clone()
        } else {
            format!(" {}", rendered.inline)
        };
        let lines = if rendered.lines.is_empty() && !rendered.inline.starts_with('|') {
            String::new()
        } else {
            self.source.broken(&format!("\n{}", rendered.lines))
        };
        self.patch(inline, text);
        self.patch(tail, lines);
    }
}

/// The text in the quotes it had, where these can express it.
fn quoted_like(style: ScalarStyle, text: &str, context: Context) -> Option<String> {
    match style {
        ScalarStyle::DoubleQuoted => {
            let mut out = String::new();
            double_quoted(text, &mut out);
            Some(out)
        }
        ScalarStyle::SingleQuoted if single_quoted_fits(text) => {
            Some(format!("'{}'", text.replace('\'', "''")))
        }
        ScalarStyle::Plain if plain_fits(text, context) => Some(text.to_owned()),
        _ => None,
    }
}
