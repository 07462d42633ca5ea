//! Block maps and block lists: members and items come, change and go as lines.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    EditError,
    matching::{Step, align},
    source::Source,
    value::{Editor, Slot},
};
use crate::{
    canonical,
    parse::tree::{Item, Node},
};

/// A member of a block map, measured.
struct Member<'t> {
    item: &'t Item,
    colon: usize,
    /// The last byte of it.
    end: usize,
    kept: bool,
}

/// The order of the members that stay.
struct Order<'t> {
    /// Their numbers; there is at least one.
    kept: Vec<usize>,
    keys: Vec<&'t str>,
    top: bool,
    sorted: bool,
    ranked: bool,
}

impl<'t> Order<'t> {
    fn new(members: &[Member<'t>], top: bool) -> Self {
        let kept: Vec<usize> = (0..members.len()).filter(|index| members[*index].kept).collect();
        let keys: Vec<&str> = kept.iter().map(|index| members[*index].item.key.as_str()).collect();
        // What overrides a merge must stand after it.
        let merges = members.iter().any(|member| member.item.merge);
        let place = |key: &&'t str| (if top { canonical::rank(key) } else { 0 }, *key);
        let sorted = !merges && keys.is_sorted_by_key(place);
        let ranked = !merges && top && keys.is_sorted_by_key(|key| canonical::rank(key));
        Self { kept, keys, top, sorted, ranked }
    }

    /// The member that a new one stands behind; `None` before the first.
    fn before(&self, key: &str) -> Option<usize> {
        let rank = |key: &str| if self.top { canonical::rank(key) } else { 0 };
        let count = if self.sorted {
            self.keys.partition_point(|other| (rank(other), *other) < (rank(key), key))
        } else if self.ranked {
            self.keys.partition_point(|other| rank(other) <= rank(key))
        } else {
            self.keys.len()
        };
        count.checked_sub(1).map(|index| self.kept[index])
    }
}

impl Editor<'_> {
    pub(super) fn block_map(
        &mut self,
        node: &Node,
        entries: &[Item],
        wanted: &Map<String, Value>,
        slot: Slot,
    ) -> Result<(), EditError> {
        let members = self.measure(entries, wanted)?;
        let Some(first_kept) = members.iter().position(|member| member.kept) else {
            return self.replace(node, &Value::Object(wanted.clone()), slot);
        };
        let column = self.source.column(entries[0].key_range.start);
        let new = self.new_members(node, entries, wanted)?;
        let top = node.range == self.object;

        for member in members.iter().filter(|member| !member.kept) {
            self.refuse_shared(&member.item.value)?;
        }
        self.remove_members(&members, first_kept, column, top);
        for member in members.iter().filter(|member| member.kept && !member.item.merge) {
            if let Some(value) = wanted.get(&member.item.key) {
                self.change(&member.item.value, value, Slot::Member { colon: member.colon, column })?;
            }
        }
        let order = Order::new(&members, top);
        for (key, value) in new {
            let at = self.insertion(&members, &order, key);
            let lines = canonical::member(key, value, column, self.source.layout);
            let text = self.source.inserted(&lines, at);
            self.patch(at..at, text);
        }
        Ok(())
    }

    /// Checks that the layout is one that can be edited line by line.
    fn measure<'t>(
        &self,
        entries: &'t [Item],
        wanted: &Map<String, Value>,
    ) -> Result<Vec<Member<'t>>, EditError> {
        let source = &self.source;
        let mut column = None;
        entries
            .iter()
            .map(|item| {
                let start = item.key_range.start;
                let unsupported = |what| EditError::Unsupported { position: source.position(start), what };
                let colon = source.colon(&item.key_range).ok_or_else(|| unsupported("a key after `?`"))?;
                let line = &source.text[source.line_start(start)..start];
                let fits = match column {
                    Some(column) => source.leads(start) && source.column(start) == column,
                    None => line.bytes().all(|b| matches!(b, b' ' | b'-')),
                };
                if !fits {
                    return Err(unsupported("a key with an anchor or a tag"));
                }
                column = Some(source.column(start));
                let kept = item.merge || wanted.contains_key(&item.key);
                Ok(Member { item, colon, end: item.value.range.end.max(colon), kept })
            })
            .collect()
    }

    /// The members that the text does not have yet, in canonical order. What a merge brings is there already.
    pub(super) fn new_members<'w>(
        &self,
        node: &Node,
        entries: &[Item],
        wanted: &'w Map<String, Value>,
    ) -> Result<Vec<(&'w String, &'w Value)>, EditError> {
        let own: HashSet<&str> =
            entries.iter().filter(|entry| !entry.merge).map(|entry| entry.key.as_str()).collect();
        let own = |key: &String| own.contains(key.as_str());
        let mut new = canonical::ordered(wanted, node.range == self.object);
        new.retain(|(key, _)| !own(key));
        if entries.iter().any(|entry| entry.merge) {
            let merged = node.value();
            let merged = merged.as_object();
            new.retain(|(key, value)| merged.and_then(|merged| merged.get(*key)) != Some(*value));
            let gone =
                merged.and_then(|merged| merged.keys().find(|key| !own(key) && !wanted.contains_key(*key)));
            if let Some(key) = gone {
                let position = self.source.position(node.range.start);
                return Err(EditError::Merged { position, key: format!("{key:?}") });
            }
        }
        Ok(new)
    }

    fn remove_members(&mut self, members: &[Member<'_>], first_kept: usize, column: usize, top: bool) {
        let mut from = 0;
        let first = members[0].item.key_range.start;
        if first_kept > 0 && !self.source.leads(first) {
            // The first ones stand behind a dash: the next one moves up, unless a comment stands between.
            let next = members[first_kept].item.key_range.start;
            let end = members[first_kept - 1].end;
            let gap = &self.source.text[self.source.line_end(end)..next];
            if gap.trim().is_empty() {
                self.patch(first..next, String::new());
            } else {
                let dash = self.source.text[..first].trim_end_matches(' ').len();
                self.patch(dash..self.source.line_end(end), String::new());
            }
            from = first_kept;
        }
        for (index, member) in members.iter().enumerate().skip(from).filter(|(_, member)| !member.kept) {
            let line = self.source.line_start(member.item.key_range.start);
            // Above the first member of all stands what belongs to the whole file.
            let start = if index == 0 && top { line } else { self.source.with_comments_above(line, column) };
            let end = self.source.next_line(member.end);
            self.patch(start..end, String::new());
        }
    }

    /// Where a new member goes: after the one that comes before it in order, or at the end of an unordered map.
    fn insertion(&self, members: &[Member<'_>], order: &Order<'_>, key: &str) -> usize {
        let first = order.kept[0];
        let start = members[first].item.key_range.start;
        match order.before(key) {
            Some(index) => self.source.next_line(members[index].end),
            None if first == 0 && self.source.leads(start) => {
                let line = self.source.line_start(start);
                if order.top {
                    line
                } else {
                    self.source.with_comments_above(line, self.source.column(start))
                }
            }
            None => self.source.next_line(members[first].end),
        }
    }

    pub(super) fn block_list(
        &mut self,
        node: &Node,
        items: &[Node],
        wanted: &[Value],
        slot: Slot,
    ) -> Result<(), EditError> {
        let from = match slot {
            Slot::Member { colon, .. } => colon + 1,
            Slot::Item { dash, .. } => dash + 1,
            Slot::Root | Slot::Flow => return self.replace(node, &Value::Array(wanted.to_vec()), slot),
        };
        let dashes = dashes(&self.source, items, from, node)?;
        let old: Vec<Value> = items.iter().map(Node::value).collect();
        let steps = align(&old, wanted);
        let first_stays = matches!(steps.first(), Some(Step::Keep { old: 0, .. }));
        if !steps.iter().any(|step| matches!(step, Step::Keep { .. }))
            || (!first_stays && !self.source.leads(dashes[0]))
        {
            return self.replace(node, &Value::Array(wanted.to_vec()), slot);
        }
        let column = self.source.column(dashes[0]);
        let above = |source: &Source<'_>, at: usize| {
            source.with_comments_above(source.line_start(dashes[at]), column)
        };
        let mut place = above(&self.source, 0);
        let mut gone = removed(&steps);
        for step in steps {
            match step {
                Step::Keep { old, new } => {
                    self.change(&items[old], &wanted[new], Slot::Item { dash: dashes[old], column })?;
                    place = self.source.next_line(items[old].range.end.max(dashes[old]));
                }
                Step::Remove { old } => {
                    self.refuse_shared(&items[old])?;
                    let start = above(&self.source, old);
                    let end = self.source.next_line(items[old].range.end.max(dashes[old]));
                    self.patch(start..end, String::new());
                }
                Step::Insert { new } => {
                    // An item that only moves takes its lines and comments along.
                    let moved = gone.iter().position(|old| items[*old].says(&wanted[new]));
                    let moved = moved.map(|at| gone.swap_remove(at)).and_then(|old| {
                        let end = self.source.next_line(items[old].range.end.max(dashes[old]));
                        let lines =
                            self.source.leads(dashes[old]).then_some(above(&self.source, old)..end)?;
                        Some(self.source.text[lines].replace("\r\n", "\n"))
                            .filter(|lines| lines.ends_with('\n'))
                    });
                    let lines =
                        moved.unwrap_or_else(|| canonical::item(&wanted[new], column, self.source.layout));
                    let text = self.source.inserted(&lines, place);
                    self.patch(place..place, text);
                }
            }
        }
        Ok(())
    }
}

/// The items that go; none when they are too many to be looked through for each that comes.
fn removed(steps: &[Step]) -> Vec<usize> {
    const MOST: usize = 64;
    let gone = steps.iter().filter_map(|step| match step {
        Step::Remove { old } => Some(*old),
        _ => None,
    });
    if gone.clone().count() > MOST { Vec::new() } else { gone.collect() }
}

/// The dashes of a block list that starts after `from`.
pub(super) fn dashes(
    source: &Source<'_>,
    items: &[Node],
    from: usize,
    list: &Node,
) -> Result<Vec<usize>, EditError> {
    let unsupported = || EditError::Unsupported {
        position: source.position(list.range.start),
        what: "a list with this layout",
    };
    let mut found: Vec<usize> = Vec::with_capacity(items.len());
    for index in 0..items.len() {
        let from = match index.checked_sub(1) {
            None => from,
            Some(before) => source.next_line(items[before].range.end.max(found[before])),
        };
        let dash = source.dash(from).ok_or_else(unsupported)?;
        if found.first().is_some_and(|first| source.column(*first) != source.column(dash)) {
            return Err(unsupported());
        }
        found.push(dash);
    }
    Ok(found)
}
