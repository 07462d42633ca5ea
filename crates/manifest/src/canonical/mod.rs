//! Value → the one YAML that stands for it.
//!
//! Guarantees: equal values give equal bytes; [`crate::parse::parse`] gives the value back; a reader of YAML 1.1 and one of
//! YAML 1.2 both do. The form is the one `kubectl` prints: two spaces a level, list items at the indentation of their
//! key, `|` for text of several lines, `{}` and `[]` for empty collections, quotes exactly where a reader would take a
//! string for something else.
//!
//! Order: `apiVersion`, `kind`, `metadata`, `spec`, `data`, then the rest sorted; all other maps are sorted by bytes.
//!
//! Numbers: a float without fraction within 64 bits is written as the integer that Kubernetes makes of it, so that `1.0`
//! and `1` are one value ([`normalize`] does the same to a value).

mod text;

use serde_json::{Map, Number, Value};

use crate::parse::float;

pub(crate) use self::text::{Context, double_quoted, plain_fits, single_quoted_fits};

/// The members of an object that come first, in this order.
pub(crate) const FIRST: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "data"];

/// How far things are indented; a text that is edited may have its own ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// A map or a block of text, from its parent.
    pub step: usize,
    /// The dashes of a list, from the key before them.
    pub list: usize,
}

impl Layout {
    const CANONICAL: Self = Self { step: 2, list: 0 };
}

/// A key longer than this stands after a `?`: readers look for the `:` of a simple key no further than 1,024 characters.
const LONGEST_KEY: usize = 1_000;

/// Writes a value as YAML, with a line break at the end.
pub fn encode(value: &Value) -> String {
    let mut writer = Writer { out: String::with_capacity(512), layout: Layout::CANONICAL };
    writer.root(value);
    writer.out
}

/// Writes several documents, with `---` lines between them.
pub fn encode_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut writer = Writer { out: String::with_capacity(4096), layout: Layout::CANONICAL };
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            writer.out.push_str("---\n");
        }
        writer.root(value);
    }
    writer.out
}

/// Turns numbers into what the API server stores, as [`encode`] and [`crate::parse::parse`] do.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(stored) = number.as_f64().and_then(float) {
                *number = stored;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => map.values_mut().for_each(normalize),
        _ => {}
    }
}

/// The members of a map in the order of the canonical form.
pub(crate) fn ordered(map: &Map<String, Value>, root: bool) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = map.iter().collect();
    if root {
        members.sort_unstable_by_key(|(key, _)| (rank(key), *key));
    } else if !members.is_sorted_by_key(|(key, _)| *key) {
        members.sort_unstable_by_key(|(key, _)| *key);
    }
    members
}

/// Where a member of an object belongs: lower comes first.
pub(crate) fn rank(key: &str) -> usize {
    FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len())
}

/// Writes a number as all readers take it: a float has a dot, an exponent has a sign.
pub(crate) fn number(number: &Number) -> String {
    let stored = match number.as_f64().filter(|_| number.is_f64()).and_then(float) {
        Some(stored) => stored,
        None => number.clone(),
    };
    let text = stored.to_string();
    if !stored.is_f64() {
        return text;
    }
    let (mantissa, exponent) = text.split_once('e').map_or((text.as_str(), None), |(m, e)| (m, Some(e)));
    let dot = if mantissa.contains('.') { "" } else { ".0" };
    match exponent {
        None => format!("{mantissa}{dot}"),
        Some(exponent) if exponent.starts_with(['+', '-']) => format!("{mantissa}{dot}e{exponent}"),
        Some(exponent) => format!("{mantissa}{dot}e+{exponent}"),
    }
}

/// The members of a map as lines at `indent`: for an edit that puts new parts into a text. Ends with a line break.
pub(crate) fn members(map: &Map<String, Value>, indent: usize, layout: Layout) -> String {
    let mut writer = Writer { out: String::new(), layout };
    writer.map(map, indent, false, false);
    writer.out
}

/// One key with its value as lines at `indent`.
pub(crate) fn member(key: &str, value: &Value, indent: usize, layout: Layout) -> String {
    let mut writer = Writer { out: String::new(), layout };
    writer.pad(indent);
    writer.member(key, value, indent);
    writer.out
}

/// One item of a list as lines, its dash at `indent`.
pub(crate) fn item(value: &Value, indent: usize, layout: Layout) -> String {
    let mut writer = Writer { out: String::new(), layout };
    writer.pad(indent);
    writer.item(value, indent);
    writer.out
}

/// A value on one line.
pub(crate) fn inline(value: &Value, context: Context) -> String {
    let mut writer = Writer { out: String::new(), layout: Layout::CANONICAL };
    writer.inline(value, context);
    writer.out
}

/// A literal block, header and lines, its text `step` columns right of the parent at `indent`; without the last line
/// break. `None` where a block cannot express it.
pub(crate) fn block(text: &str, indent: usize, step: usize) -> Option<String> {
    let header = text::block_header(text, step)?;
    let mut writer = Writer { out: String::new(), layout: Layout { step, list: 0 } };
    writer.block(text, &header, indent);
    writer.out.pop();
    Some(writer.out)
}

struct Writer {
    out: String,
    layout: Layout,
}

impl Writer {
    fn pad(&mut self, columns: usize) {
        const SPACES: &str = "                                                                ";
        let mut left = columns;
        while left > 0 {
            let now = left.min(SPACES.len());
            self.out.push_str(&SPACES[..now]);
            left -= now;
        }
    }

    fn root(&mut self, value: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() => self.map(map, 0, false, true),
            Value::Array(items) if !items.is_empty() => self.list(items, 0, false),
            other => {
                self.inline(other, Context::Block);
                self.out.push('\n');
            }
        }
    }

    /// The members at `indent`; the first one goes on with the line that is open when `open` is set.
    fn map(&mut self, map: &Map<String, Value>, indent: usize, open: bool, root: bool) {
        for (index, (key, value)) in ordered(map, root).into_iter().enumerate() {
            if index > 0 || !open {
                self.pad(indent);
            }
            self.member(key, value, indent);
        }
    }

    fn member(&mut self, key: &str, value: &Value, indent: usize) {
        let start = self.out.len();
        self.string(key, Context::Block);
        if self.out.len() - start > LONGEST_KEY {
            self.out.insert_str(start, "? ");
            self.out.push('\n');
            self.pad(indent);
        }
        self.out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.out.push('\n');
                self.map(map, indent + self.layout.step, false, false);
            }
            Value::Array(items) if !items.is_empty() => {
                self.out.push('\n');
                self.list(items, indent + self.layout.list, false);
            }
            other => {
                self.out.push(' ');
                self.leaf(other, indent);
            }
        }
    }

    fn list(&mut self, items: &[Value], indent: usize, open: bool) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 || !open {
                self.pad(indent);
            }
            self.item(item, indent);
        }
    }

    fn item(&mut self, item: &Value, indent: usize) {
        self.out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => self.map(map, indent + 2, true, false),
            Value::Array(items) if !items.is_empty() => self.list(items, indent + 2, true),
            other => self.leaf(other, indent),
        }
    }

    /// A scalar or an empty collection, with the line break after it.
    fn leaf(&mut self, value: &Value, indent: usize) {
        if let Value::String(text) = value
            && text.contains('\n')
            && let Some(header) = text::block_header(text, self.layout.step)
        {
            self.block(text, &header, indent);
            return;
        }
        self.inline(value, Context::Block);
        self.out.push('\n');
    }

    fn block(&mut self, text: &str, header: &str, indent: usize) {
        self.out.push_str(header);
        self.out.push('\n');
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.pad(indent + self.layout.step);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    fn inline(&mut self, value: &Value, context: Context) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(value) => self.out.push_str(&number(value)),
            Value::String(text) => self.string(text, context),
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.out.push_str(if index > 0 { ", " } else { "" });
                    self.inline(item, Context::Flow);
                }
                self.out.push(']');
            }
            Value::Object(map) => {
                self.out.push('{');
                for (index, (key, value)) in ordered(map, false).into_iter().enumerate() {
                    self.out.push_str(if index > 0 { ", " } else { "" });
                    self.string(key, Context::Flow);
                    self.out.push_str(": ");
                    self.inline(value, Context::Flow);
                }
                self.out.push('}');
            }
        }
    }

    fn string(&mut self, text: &str, context: Context) {
        match text::style(text, context) {
            text::Style::Plain => self.out.push_str(text),
            text::Style::Single => {
                self.out.push('\'');
                self.out.push_str(&text.replace('\'', "''"));
                self.out.push('\'');
            }
            text::Style::Double => double_quoted(text, &mut self.out),
        }
    }
}
