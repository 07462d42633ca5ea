//! Maps and lists between brackets: members and items come, change and go between commas.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    EditError,
    matching::{Step, align},
    value::{Editor, Slot},
};
use crate::{
    canonical::{self, Context},
    parse::tree::{Content, Item, Node},
};

/// What happens to one part between commas.
struct Part {
    range: Range<usize>,
    kept: bool,
    /// New parts after it.
    after: Vec<String>,
}

impl Editor<'_> {
    pub(super) fn flow_map(
        &mut self,
        node: &Node,
        entries: &[Item],
        wanted: &Map<String, Value>,
        slot: Slot,
    ) -> Result<(), EditError> {
        let mut parts: Vec<Part> = entries
            .iter()
            .map(|entry| Part {
                range: entry.key_range.start..self.flow_end(entry),
                kept: entry.merge || wanted.contains_key(&entry.key),
                after: Vec::new(),
            })
            .collect();
        // `[a: b]` holds a map without brackets of its own, which has one member for ever.
        let bare = !self.source.text[node.range.start..].starts_with('{') && wanted.len() > 1;
        let Some(last) = parts.iter().rposition(|part| part.kept).filter(|_| !bare) else {
            return self.replace(node, &Value::Object(wanted.clone()), slot);
        };
        for (entry, _) in entries.iter().zip(&parts).filter(|(_, part)| !part.kept) {
            self.refuse_shared(&entry.value)?;
        }
        let sorted = entries.is_sorted_by(|a, b| a.key <= b.key);
        for (key, value) in self.new_members(node, entries, wanted)? {
            let text = self.flow_member(key, value);
            let before = entries.partition_point(|entry| entry.key < *key);
            let before = (0..before).rev().find(|at| sorted && parts[*at].kept);
            let at = before.unwrap_or(last);
            parts[at].after.push(text);
        }
        for entry in entries.iter().filter(|entry| !entry.merge) {
            let Some(value) = wanted.get(&entry.key) else { continue };
            if entry.value.range.is_empty() && !entry.value.says(value) {
                // `{key}` and `{key:}` have no value to replace.
                let end = self.flow_end(entry);
                let lead = if end > entry.key_range.end { " " } else { ": " };
                let text = format!("{lead}{}", self.flow_text(&entry.value, value));
                self.patch(end..end, text);
            } else {
                self.change(&entry.value, value, Slot::Flow)?;
            }
        }
        self.flow_parts(node, &parts)
    }

    /// The end of a member: of its value, of its colon, or of its key alone.
    fn flow_end(&self, entry: &Item) -> usize {
        if !entry.value.range.is_empty() {
            return entry.value.range.end;
        }
        self.source.colon(&entry.key_range).map_or(entry.key_range.end, |colon| colon + 1)
    }

    fn flow_member(&self, key: &str, value: &Value) -> String {
        if self.json {
            return format!("{}: {value}", Value::String(key.to_owned()));
        }
        let key = Value::String(key.to_owned());
        format!("{}: {}", canonical::inline(&key, Context::Flow), canonical::inline(value, Context::Flow))
    }

    pub(super) fn flow_list(
        &mut self,
        node: &Node,
        items: &[Node],
        wanted: &[Value],
        slot: Slot,
    ) -> Result<(), EditError> {
        let old: Vec<Value> = items.iter().map(Node::value).collect();
        let steps = align(&old, wanted);
        let mut kept = vec![false; items.len()];
        for step in &steps {
            if let Step::Keep { old, .. } = step {
                kept[*old] = true;
            }
        }
        let first = kept.iter().position(|kept| *kept);
        let starts_new = matches!(
            steps.iter().find(|step| !matches!(step, Step::Remove { .. })),
            Some(Step::Insert { .. })
        );
        let Some(mut last) = first.filter(|_| !starts_new) else {
            return self.replace(node, &Value::Array(wanted.to_vec()), slot);
        };
        let mut parts: Vec<Part> = items
            .iter()
            .enumerate()
            .map(|(at, item)| Part { range: item.range.clone(), kept: kept[at], after: Vec::new() })
            .collect();
        for step in steps {
            match step {
                Step::Keep { old, new } => {
                    last = old;
                    self.change(&items[old], &wanted[new], Slot::Flow)?;
                }
                Step::Remove { old } => self.refuse_shared(&items[old])?,
                Step::Insert { new } => {
                    let text = if self.json {
                        wanted[new].to_string()
                    } else {
                        canonical::inline(&wanted[new], Context::Flow)
                    };
                    parts[last].after.push(text);
                }
            }
        }
        self.flow_parts(node, &parts)
    }

    /// Takes parts out with one of the commas beside them, and puts new ones in as the others are separated.
    fn flow_parts(&mut self, node: &Node, parts: &[Part]) -> Result<(), EditError> {
        let text = self.source.text;
        let changed = parts.iter().any(|part| !part.kept || !part.after.is_empty());
        let comment = parts.windows(2).any(|pair| text[pair[0].range.end..pair[1].range.start].contains('#'));
        if changed && comment {
            let position = self.source.position(node.range.start);
            return Err(EditError::Unsupported { position, what: "a comment between brackets" });
        }
        let separator = self.separator(node, parts);
        let mut at = 0;
        while at < parts.len() {
            if parts[at].kept {
                let new: String =
                    parts[at].after.iter().flat_map(|part| [separator.as_str(), part]).collect();
                let end = parts[at].range.end;
                self.patch(end..end, new);
                at += 1;
                continue;
            }
            let run = parts[at..].iter().take_while(|part| !part.kept).count();
            let range = match (parts.get(at + run), at.checked_sub(1)) {
                (Some(next), _) => parts[at].range.start..next.range.start,
                (None, Some(before)) => parts[before].range.end..parts[at + run - 1].range.end,
                (None, None) => parts[at].range.start..parts[at + run - 1].range.end,
            };
            self.patch(range, String::new());
            at += run;
        }
        Ok(())
    }

    /// A comma and the white space that the others have.
    fn separator(&self, node: &Node, parts: &[Part]) -> String {
        let text = self.source.text;
        let between = match parts {
            [first, second, ..] => {
                text[first.range.end..second.range.start].trim_start_matches([' ', '\t', '\r', '\n'])
            }
            [only] => {
                let lead = text.get(node.range.start + 1..only.range.start).unwrap_or_default();
                let space = if lead.contains('\n') { lead } else { " " };
                return format!(",{space}");
            }
            [] => ", ",
        };
        let space = between.strip_prefix(',').unwrap_or(" ");
        // Something else than white space there belongs to a value.
        if space.trim().is_empty() { format!(",{space}") } else { ", ".to_owned() }
    }
}

/// Whether a node stands between brackets.
pub(super) fn is_flow(node: &Node) -> bool {
    matches!(node.content, Content::Map { flow: true, .. } | Content::List { flow: true, .. })
}
