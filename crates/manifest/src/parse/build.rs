//! Events → values.

use std::{collections::HashMap, ops::Range};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag};
use serde_json::{Map, Value, map::Entry};

use super::{
    Document, Limits, ParseError, Position,
    error::shown_key,
    outdent,
    scalar::{Scalar, key_of},
};

/// Reads all documents that are not empty.
pub(super) fn documents(text: &str, limits: &Limits) -> Result<Vec<Document>, ParseError> {
    refuse_ambiguous_breaks(text)?;
    match read(text, limits) {
        Ok(documents) => Ok(documents),
        Err(Stop { error, refused: None }) => Err(error),
        Err(Stop { error, refused: Some(refused) }) => outdent::documents(text, refused, error, limits),
    }
}

/// Why reading stopped, and where, if it was at quoted text that may be read all the same.
pub(super) struct Stop {
    pub error: ParseError,
    pub refused: Option<outdent::Refused>,
}

impl From<ParseError> for Stop {
    fn from(error: ParseError) -> Self {
        Self { error, refused: None }
    }
}

/// Reads a text as the event parser takes it.
pub(super) fn read(text: &str, limits: &Limits) -> Result<Vec<Document>, Stop> {
    let mut parser = Parser::new_from_str_with_options(text, options(limits));
    let mut builder = Builder::new(limits);
    let mut before = 0;
    while let Some(event) = parser.next_event() {
        let (mut event, span) = event.map_err(|error| {
            let quoted = matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent);
            let at = error.marker().byte_offset().filter(|_| quoted);
            Stop { error: syntax(&error, limits), refused: at.map(|at| outdent::Refused { before, at }) }
        })?;
        end_with_text(&mut event, &span, text);
        builder.event(event, &span)?;
        before = bytes_of(&span).end;
    }
    Ok(builder.documents)
}

/// The event parser's options: no comments (the edit finds them in the text), nesting bounded a little above our limit, so
/// that ours speaks first.
pub(super) fn options(limits: &Limits) -> granit_parser::Options {
    granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: limits.depth + 2,
        block_nesting_limit: limits.depth + 2,
    }
}

pub(super) fn place(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// The bytes of an event. The parser reads a string, so that offsets are always there.
pub(super) fn bytes_of(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or(0..0)
}

pub(super) fn syntax(error: &ScanError, limits: &Limits) -> ParseError {
    let position = place(error.marker());
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => ParseError::TooDeep { position, limit: limits.depth },
        _ => ParseError::Syntax { position, message: error.info() },
    }
}

/// A block scalar in the last line of a text without final line break has none either for Kubernetes' reader; the event
/// parser adds one.
pub(super) fn end_with_text(event: &mut Event<'_>, span: &Span, text: &str) {
    let Event::Scalar(value, ScalarStyle::Literal | ScalarStyle::Folded, ..) = event else { return };
    if !value.ends_with('\n') || bytes_of(span).end != text.len() || text.ends_with(['\n', '\r']) {
        return;
    }
    // A last line of spaces belongs to the value only where it is longer than the indentation.
    let last = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    let inner = value.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
    let blank = |line: &str| line.bytes().all(|b| b == b' ');
    if !blank(last) || (!inner.is_empty() && blank(inner)) {
        value.to_mut().pop();
    }
}

/// YAML 1.1 breaks lines at U+0085, U+2028 and U+2029, YAML 1.2 does not: such a text means two things.
fn refuse_ambiguous_breaks(text: &str) -> Result<(), ParseError> {
    if text.is_ascii() {
        return Ok(());
    }
    let found = text.char_indices().find_map(|(at, c)| match c {
        '\u{85}' => Some((at, "U+0085")),
        '\u{2028}' => Some((at, "U+2028")),
        '\u{2029}' => Some((at, "U+2029")),
        _ => None,
    });
    match found {
        Some((at, character)) => {
            Err(ParseError::AmbiguousBreak { position: Position::of(text, at), character })
        }
        None => Ok(()),
    }
}

/// A place in few bytes: there is one for each key of every open map.
#[derive(Clone, Copy)]
struct Mark {
    line: u32,
    column: u32,
}

impl Mark {
    fn new(position: Position) -> Self {
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Self { line: narrow(position.line), column: narrow(position.column) }
    }
}

/// Where the keys of an open map stand.
#[derive(Default)]
struct Marks {
    /// Of the keys that the map has itself, in their order.
    own: Vec<Mark>,
    /// The keys that a merge brought, with the place where the map overrides them.
    merged: HashMap<String, Option<Mark>>,
}

enum Pending {
    Key(String, Position),
    Merge,
}

enum Content {
    List(Vec<Value>),
    Map { map: Map<String, Value>, marks: Marks, pending: Option<Pending> },
}

/// A collection that is still open.
struct Frame {
    content: Content,
    position: Position,
    anchor: usize,
    flow: bool,
    /// The counters when it was opened: what it has cost is the difference.
    nodes: usize,
    bytes: usize,
}

struct Anchored {
    value: Value,
    nodes: usize,
    bytes: usize,
}

struct Builder<'a> {
    limits: &'a Limits,
    documents: Vec<Document>,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    bytes: usize,
    alias_nodes: usize,
    alias_bytes: usize,
    root: Option<(Value, Position, usize)>,
    root_start: Option<(Position, usize)>,
    end: usize,
    items: Vec<Position>,
    in_items: bool,
}

impl<'a> Builder<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            documents: Vec::new(),
            stack: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            bytes: 0,
            alias_nodes: 0,
            alias_bytes: 0,
            root: None,
            root_start: None,
            end: 0,
            items: Vec::new(),
            in_items: false,
        }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), ParseError> {
        match event {
            Event::DocumentStart(..) => self.start_document(),
            Event::DocumentEnd => return self.end_document(),
            Event::Scalar(text, style, anchor, tag) => {
                return self.scalar(&text, style, anchor, tag.as_deref(), span);
            }
            Event::Alias(id) => return self.alias(id, span),
            Event::SequenceStart(style, anchor, _) => {
                return self.open(Content::List(Vec::new()), style, anchor, span);
            }
            Event::MappingStart(style, anchor, _) => {
                let content = Content::Map { map: Map::new(), marks: Marks::default(), pending: None };
                return self.open(content, style, anchor, span);
            }
            Event::SequenceEnd | Event::MappingEnd => return self.close(span),
            _ => {}
        }
        Ok(())
    }

    fn start_document(&mut self) {
        self.anchors.clear();
        self.stack.clear();
        self.items.clear();
        self.root = None;
        self.root_start = None;
        self.in_items = false;
    }

    fn end_document(&mut self) -> Result<(), ParseError> {
        let Some((value, position, start)) = self.root.take() else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        if self.documents.len() == self.limits.documents {
            return Err(ParseError::TooManyDocuments { position, limit: self.limits.documents });
        }
        let items = std::mem::take(&mut self.items);
        self.documents.push(Document { value, position, range: start..self.end.max(start), items });
        Ok(())
    }

    /// Counts a value and remembers where the document and the items of a List start.
    fn begin(&mut self, span: &Span) -> Result<Position, ParseError> {
        let position = place(&span.start);
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(ParseError::TooManyNodes { position, limit: self.limits.nodes });
        }
        if self.stack.is_empty() {
            self.root_start = Some((position, bytes_of(span).start));
        } else if self.in_items && self.stack.len() == 2 {
            self.items.push(position);
        }
        Ok(position)
    }

    /// Whether the next node is a key.
    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Map { pending: None, .. }, .. }))
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<(), ParseError> {
        self.end = bytes_of(span).end;
        self.bytes += text.len();
        let scalar = Scalar { text, style, tag, position: place(&span.start) };
        if self.wants_key() {
            return self.key(&scalar, anchor);
        }
        let position = self.begin(span)?;
        let value = scalar.value()?;
        self.finish(value, position, anchor, 1, text.len())
    }

    fn key(&mut self, scalar: &Scalar<'_>, anchor: usize) -> Result<(), ParseError> {
        let position = scalar.position;
        let pending = if scalar.is_merge() { Pending::Merge } else { Pending::Key(scalar.key()?, position) };
        if anchor != 0 {
            let bytes = scalar.text.len();
            self.spend(1, bytes, position)?;
            self.anchors.insert(anchor, Anchored { value: scalar.value()?, nodes: 1, bytes });
        }
        self.set_pending(pending);
        Ok(())
    }

    fn set_pending(&mut self, next: Pending) {
        if let Some(Frame { content: Content::Map { pending, .. }, .. }) = self.stack.last_mut() {
            *pending = Some(next);
        }
    }

    /// Takes from what aliases may repeat. Anchors count as well, since their values are kept.
    fn spend(&mut self, nodes: usize, bytes: usize, position: Position) -> Result<(), ParseError> {
        self.alias_nodes += nodes;
        self.alias_bytes += bytes;
        if self.alias_nodes > self.limits.alias_nodes || self.alias_bytes > self.limits.alias_bytes {
            let (nodes, bytes) = (self.limits.alias_nodes, self.limits.alias_bytes);
            return Err(ParseError::TooManyAliases { position, nodes, bytes });
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<(), ParseError> {
        self.end = bytes_of(span).end;
        let position = place(&span.start);
        let Some((nodes, bytes)) = self.anchors.get(&id).map(|anchored| (anchored.nodes, anchored.bytes))
        else {
            return Err(ParseError::AliasOfItself { position });
        };
        self.spend(nodes, bytes, position)?;
        let wants_key = self.wants_key();
        if !wants_key {
            self.begin(span)?;
            self.nodes += nodes;
            self.bytes += bytes;
        }
        let Some(anchored) = self.anchors.get(&id) else { return Ok(()) };
        if wants_key {
            let key = key_of(&anchored.value, position)?;
            self.set_pending(Pending::Key(key, position));
            return Ok(());
        }
        let value = anchored.value.clone();
        self.finish(value, position, 0, nodes, bytes)
    }

    fn open(
        &mut self,
        content: Content,
        style: StructureStyle,
        anchor: usize,
        span: &Span,
    ) -> Result<(), ParseError> {
        let position = place(&span.start);
        if self.wants_key() {
            let found = if matches!(content, Content::List(_)) { "a list" } else { "a map" };
            return Err(ParseError::Key { position, found });
        }
        if self.stack.len() >= self.limits.depth {
            return Err(ParseError::TooDeep { position, limit: self.limits.depth });
        }
        let position = self.begin(span)?;
        if let (
            [Frame { content: Content::Map { pending: Some(Pending::Key(key, _)), .. }, .. }],
            Content::List(_),
        ) = (self.stack.as_slice(), &content)
        {
            self.in_items = key == "items";
        }
        let flow = style == StructureStyle::Flow;
        self.stack.push(Frame { content, position, anchor, flow, nodes: self.nodes - 1, bytes: self.bytes });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), ParseError> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        if self.stack.len() == 1 {
            self.in_items = false;
        }
        if frame.flow {
            self.end = bytes_of(span).end;
        }
        let value = match frame.content {
            Content::List(items) => Value::Array(items),
            Content::Map { map, .. } => Value::Object(map),
        };
        let (nodes, bytes) = (self.nodes - frame.nodes, self.bytes - frame.bytes);
        self.finish(value, frame.position, frame.anchor, nodes, bytes)
    }

    /// Puts a whole value where it belongs.
    fn finish(
        &mut self,
        value: Value,
        position: Position,
        anchor: usize,
        nodes: usize,
        bytes: usize,
    ) -> Result<(), ParseError> {
        if anchor != 0 {
            self.spend(nodes, bytes, position)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), nodes, bytes });
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = self.root_start.map(|(position, start)| (value, position, start));
            return Ok(());
        };
        match &mut frame.content {
            Content::List(items) => items.push(value),
            Content::Map { map, marks, pending } => match pending.take() {
                Some(Pending::Key(key, at)) => insert(map, marks, key, value, at)?,
                Some(Pending::Merge) => merge(map, marks, value, position)?,
                None => {}
            },
        }
        Ok(())
    }
}

fn insert(
    map: &mut Map<String, Value>,
    marks: &mut Marks,
    key: String,
    value: Value,
    position: Position,
) -> Result<(), ParseError> {
    let mut taken = match map.entry(key) {
        Entry::Vacant(place) => {
            place.insert(value);
            marks.own.push(Mark::new(position));
            return Ok(());
        }
        Entry::Occupied(taken) => taken,
    };
    let first = match marks.merged.get_mut(taken.key()) {
        // A merge brought it: what the map says itself wins.
        Some(mark @ None) => {
            *mark = Some(Mark::new(position));
            taken.insert(value);
            return Ok(());
        }
        Some(Some(mark)) => Some(*mark),
        None => {
            let key = taken.key().clone();
            let own = map.keys().filter(|other| !marks.merged.contains_key(*other));
            let index = own.take_while(|other| **other != key).count();
            return Err(duplicate(&key, position, marks.own.get(index)));
        }
    };
    Err(duplicate(taken.key(), position, first.as_ref()))
}

fn duplicate(key: &str, position: Position, first: Option<&Mark>) -> ParseError {
    let first = first.map_or_else(
        || "an earlier place".to_owned(),
        |mark| format!("line {}, column {}", mark.line, mark.column),
    );
    ParseError::DuplicateKey { key: shown_key(key), position, first }
}

/// Merges as Kubernetes' reader does: in the order of the text, so that a merge also replaces keys that stand before it;
/// of several maps the earlier one wins.
fn merge(
    map: &mut Map<String, Value>,
    marks: &mut Marks,
    value: Value,
    position: Position,
) -> Result<(), ParseError> {
    let sources = match value {
        Value::Object(source) => vec![Value::Object(source)],
        Value::Array(sources) => sources,
        _ => return Err(ParseError::Merge { position }),
    };
    for source in sources.into_iter().rev() {
        let Value::Object(source) = source else { return Err(ParseError::Merge { position }) };
        for (key, value) in source {
            match map.entry(key) {
                Entry::Vacant(place) => {
                    marks.merged.insert(place.key().clone(), None);
                    place.insert(value);
                }
                Entry::Occupied(mut taken) => {
                    taken.insert(value);
                }
            }
        }
    }
    Ok(())
}
