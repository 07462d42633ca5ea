//! Events → nodes with the bytes they stand in: what an edit in place needs.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};
use serde_json::{Map, Value};

use super::{
    Limits, ParseError,
    build::{self, bytes_of, place},
    scalar::{Scalar, key_of},
};

/// One document with the bytes of its nodes.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The bytes of `---`, if it is there.
    pub marker: Option<Range<usize>>,
    pub root: Node,
}

/// A value and where it stands. The range covers the value alone: no anchor, no tag, no comment after it. It ends in the
/// last line of the value, before the line break; a block scalar starts with its header.
#[derive(Debug)]
pub(crate) struct Node {
    pub range: Range<usize>,
    pub content: Content,
    /// The number of its anchor, zero without: others may repeat it.
    pub anchor: usize,
}

#[derive(Debug)]
pub(crate) enum Content {
    Scalar { style: ScalarStyle, value: Value },
    List { flow: bool, items: Vec<Node> },
    Map { flow: bool, entries: Vec<Item> },
    Alias { id: usize, value: Value },
}

/// A key with its value.
#[derive(Debug)]
pub(crate) struct Item {
    pub key: String,
    pub key_range: Range<usize>,
    /// The key is `<<`.
    pub merge: bool,
    pub value: Node,
}

impl Node {
    /// The value that the text has here.
    pub fn value(&self) -> Value {
        match &self.content {
            Content::Scalar { value, .. } | Content::Alias { value, .. } => value.clone(),
            Content::List { items, .. } => Value::Array(items.iter().map(Self::value).collect()),
            Content::Map { entries, .. } => {
                let mut map = Map::new();
                for entry in entries {
                    if entry.merge {
                        merge(&mut map, entry.value.value());
                    } else {
                        map.insert(entry.key.clone(), entry.value.value());
                    }
                }
                Value::Object(map)
            }
        }
    }

    /// Whether the text says just this value here; copies nothing but for merges.
    pub fn says(&self, wanted: &Value) -> bool {
        match (&self.content, wanted) {
            (Content::Scalar { value, .. } | Content::Alias { value, .. }, wanted) => value == wanted,
            (Content::List { items, .. }, Value::Array(wanted)) => {
                items.len() == wanted.len()
                    && items.iter().zip(wanted).all(|(item, wanted)| item.says(wanted))
            }
            (Content::Map { entries, .. }, Value::Object(wanted)) => {
                if entries.iter().any(|entry| entry.merge) {
                    return self.value().as_object() == Some(wanted);
                }
                entries.len() == wanted.len()
                    && entries.iter().all(|entry| wanted.get(&entry.key).is_some_and(|v| entry.value.says(v)))
            }
            _ => false,
        }
    }

    /// Whether there is nothing at all, as in an empty document.
    pub fn is_empty(&self) -> bool {
        matches!(&self.content, Content::Scalar { value: Value::Null, .. })
    }

    /// A member of a map or an item of a list, by name or by number.
    pub fn child(&self, step: &str) -> Option<&Self> {
        match &self.content {
            Content::Map { entries, .. } => {
                entries.iter().find(|entry| entry.key == step).map(|entry| &entry.value)
            }
            Content::List { items, .. } => items.get(step.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// This node and all inside of it.
    pub fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        each(self);
        match &self.content {
            Content::List { items, .. } => items.iter().for_each(|item| item.visit(each)),
            Content::Map { entries, .. } => entries.iter().for_each(|entry| entry.value.visit(each)),
            _ => {}
        }
    }
}

fn merge(map: &mut Map<String, Value>, value: Value) {
    let sources = match value {
        Value::Array(sources) => sources,
        other => vec![other],
    };
    for source in sources.into_iter().rev() {
        if let Value::Object(source) = source {
            map.extend(source);
        }
    }
}

/// All documents of a text, the empty ones too.
///
/// The text must have passed [`super::parse`]: what that refuses (limits of aliases, keys that are collections) is not
/// checked again.
pub(crate) fn documents(text: &str, limits: &Limits) -> Result<Vec<Tree>, ParseError> {
    let mut parser = Parser::new_from_str_with_options(text, build::options(limits));
    let mut builder = Builder { text, ..Builder::default() };
    while let Some(event) = parser.next_event() {
        let (mut event, span) = event.map_err(|error| build::syntax(&error, limits))?;
        build::end_with_text(&mut event, &span, text);
        builder.event(event, bytes_of(&span), place(&span.start))?;
    }
    Ok(builder.documents)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |before| before + 1)
}

struct Frame {
    node: Node,
    /// The key that waits for its value.
    pending: Option<(String, Range<usize>, bool)>,
}

#[derive(Default)]
struct Builder<'a> {
    text: &'a str,
    documents: Vec<Tree>,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Value>,
    marker: Option<Range<usize>>,
    root: Option<Node>,
}

impl Builder<'_> {
    fn event(
        &mut self,
        event: Event<'_>,
        range: Range<usize>,
        position: super::Position,
    ) -> Result<(), ParseError> {
        match event {
            Event::DocumentStart(explicit, _) => {
                self.anchors.clear();
                self.marker = explicit.then_some(range);
            }
            Event::DocumentEnd => {
                if let Some(root) = self.root.take() {
                    self.documents.push(Tree { marker: self.marker.take(), root });
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                return self.scalar(&text, style, (anchor, tag), range, position);
            }
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned().unwrap_or_default();
                if self.wants_key() {
                    let key = key_of(&value, position)?;
                    self.set_key(key, range, false);
                } else {
                    self.put(Node { range, content: Content::Alias { id, value }, anchor: 0 });
                }
            }
            Event::SequenceStart(style, anchor, _) => {
                let content = Content::List { flow: style == StructureStyle::Flow, items: Vec::new() };
                self.open(content, anchor, range);
            }
            Event::MappingStart(style, anchor, _) => {
                let content = Content::Map { flow: style == StructureStyle::Flow, entries: Vec::new() };
                self.open(content, anchor, range);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(&range),
            _ => {}
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        self.stack
            .last()
            .is_some_and(|frame| frame.pending.is_none() && matches!(frame.node.content, Content::Map { .. }))
    }

    fn set_key(&mut self, key: String, range: Range<usize>, merge: bool) {
        if let Some(frame) = self.stack.last_mut() {
            frame.pending = Some((key, range, merge));
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        (anchor, tag): (usize, Option<Cow<'_, Tag>>),
        range: Range<usize>,
        position: super::Position,
    ) -> Result<(), ParseError> {
        let scalar = Scalar { text, style, tag: tag.as_deref(), position };
        if self.wants_key() {
            let merge = scalar.is_merge();
            let key = if merge { "<<".to_owned() } else { scalar.key()? };
            if anchor != 0 {
                self.anchors.insert(anchor, scalar.value()?);
            }
            self.set_key(key, range, merge);
            return Ok(());
        }
        let content = Content::Scalar { style, value: scalar.value()? };
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let range = if block { self.block_range(&range) } else { range };
        self.put(Node { range, content, anchor });
        Ok(())
    }

    /// The bytes of a block scalar from its header to its last line. The parser gives the content alone, with the blank
    /// lines after it.
    fn block_range(&self, content: &Range<usize>) -> Range<usize> {
        let text = self.text;
        let after_key =
            self.stack.last().and_then(|frame| frame.pending.as_ref()).map_or(0, |pending| pending.1.end);
        let mut line = line_start(text, content.start);
        if !content.is_empty() || line == content.start {
            // The header is in the last line above that is not blank.
            while line > 0 {
                let end = line - 1;
                line = line_start(text, end);
                if !text[line..end].trim().is_empty() {
                    break;
                }
            }
        }
        let from = line.max(after_key).min(content.start);
        let end = text[from..].find('\n').map_or(text.len(), |at| from + at);
        let header = text[from..end].char_indices().find(|(at, c)| {
            matches!(c, '|' | '>') && {
                let rest =
                    text[from + at + 1..end].trim_start_matches(|c: char| matches!(c, '0'..='9' | '+' | '-'));
                rest.trim().is_empty()
                    || (rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#'))
            }
        });
        let Some((at, _)) = header else { return content.clone() };
        let start = from + at;
        let keep = text[start + 1..end].starts_with(['+', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
            && text[start + 1..end].split([' ', '\t']).next().is_some_and(|header| header.contains('+'));
        let lines = &text[start..content.end.max(end)];
        let last = if keep { lines.strip_suffix('\n').unwrap_or(lines) } else { lines.trim_end() };
        let trimmed = last.strip_suffix('\r').unwrap_or(last);
        start..start + trimmed.len()
    }

    fn open(&mut self, content: Content, anchor: usize, range: Range<usize>) {
        self.stack.push(Frame { node: Node { range, content, anchor }, pending: None });
    }

    fn close(&mut self, range: &Range<usize>) {
        let Some(Frame { mut node, .. }) = self.stack.pop() else { return };
        let last = match &node.content {
            Content::List { flow: false, items } => items.last().map(|item| item.range.end),
            Content::Map { flow: false, entries } => entries.last().map(|entry| entry.value.range.end),
            _ => Some(range.end),
        };
        node.range.end = last.unwrap_or(node.range.start).max(node.range.start);
        self.put(node);
    }

    fn put(&mut self, node: Node) {
        if node.anchor != 0 {
            self.anchors.insert(node.anchor, node.value());
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        match (&mut frame.node.content, frame.pending.take()) {
            (Content::List { items, .. }, _) => items.push(node),
            (Content::Map { entries, .. }, Some((key, key_range, merge))) => {
                entries.push(Item { key, key_range, merge, value: node });
            }
            _ => {}
        }
    }
}
