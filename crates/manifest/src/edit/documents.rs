//! Whole objects: written anew, added to a file, taken out of it.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    EditError, File, Selector,
    flow::is_flow,
    is_json, slot_of,
    source::{Patch, Source, apply, eol_of},
    stored, unreadable,
    value::{Editor, Slot},
};
use crate::{
    canonical,
    parse::{Limits, parse, tree::Content},
};

/// Writes the object at `at` anew in its canonical form: its own comments go, all else keeps its bytes.
///
/// For what [`super::edit`] refuses.
pub fn replace(text: &str, at: Selector, wanted: &Value, limits: &Limits) -> Result<String, EditError> {
    let wanted = &stored(wanted)?;
    let file = File::read(text, limits)?;
    let (tree, node) = file.select(at)?;
    let source = Source::new(text, tree);
    let slot = slot_of(&source, tree, at)?;
    let patches = match slot {
        Slot::Root if !is_flow(node) => {
            let start = source.line_start(node.range.start);
            let end = source.next_line(node.range.end);
            let new = source.broken(&canonical::encode(wanted));
            vec![Patch { range: start..end, text: new }]
        }
        Slot::Root => {
            let json = is_json(text, node);
            let new = if json { json_text(wanted) } else { canonical::encode(wanted) };
            let new = new.strip_suffix('\n').unwrap_or(&new);
            vec![Patch { range: node.range.clone(), text: source.broken(new) }]
        }
        _ => {
            let mut editor =
                Editor::new(source, HashSet::new(), node.range.clone(), is_json(text, &tree.root));
            editor.replace(node, wanted, slot)?;
            editor.patches
        }
    };
    let new = apply(text, patches).ok_or(EditError::NotExpressed)?;
    file.verified(new, at, wanted, limits)
}

fn json_text(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Adds an object at the end of a file, as a document of its own. An empty file gets it alone.
pub fn add(text: &str, value: &Value, limits: &Limits) -> Result<String, EditError> {
    let value = &stored(value)?;
    let before = parse(text, limits).map_err(|error| unreadable(text, error))?;
    if text.trim().is_empty() {
        return Ok(canonical::encode(value));
    }
    if text.trim_start().starts_with(['{', '[']) {
        let position = crate::parse::Position { line: 1, column: 1 };
        return Err(EditError::Unsupported { position, what: "a JSON file" });
    }
    let eol = eol_of(text);
    let new = canonical::encode(value).replace('\n', eol);
    let gap = if text.ends_with('\n') { "" } else { eol };
    // A file of comments and markers alone has no document that a marker must end.
    let marker = if before.is_empty() && !text.contains("---") { String::new() } else { format!("---{eol}") };
    let new = format!("{text}{gap}{marker}{new}");

    let after = parse(&new, limits).map_err(|_| EditError::NotExpressed)?;
    let same = after.len() == before.len() + 1
        && after.iter().zip(&before).all(|(after, before)| after.value == before.value)
        && after.last().is_some_and(|last| last.value == *value);
    if same { Ok(new) } else { Err(EditError::NotExpressed) }
}

/// Takes an object out of a file. `None` when nothing is left: the file should go.
pub fn remove(text: &str, at: Selector, limits: &Limits) -> Result<Option<String>, EditError> {
    let file = File::read(text, limits)?;
    let (tree, node) = file.select(at)?;
    let items = tree.root.child("items").map(|items| &items.content);
    let patch = match (at.item, items) {
        // The last item takes its List along.
        (Some(item), Some(Content::List { items, .. })) if items.len() > 1 => {
            let source = Source::new(text, tree);
            remove_item(&file, &source, at, item)?
        }
        _ => {
            if file.trees.len() == 1 {
                return Ok(None);
            }
            let source = Source::new(text, tree);
            let start = match &tree.marker {
                Some(marker) => marker.start,
                None => source.with_comments_above(source.line_start(node.range.start), 0),
            };
            let next = file.trees.get(at.document + 1).and_then(|next| next.marker.as_ref());
            let end = next.map_or(text.len(), |marker| marker.start);
            vec![Patch { range: start.min(end)..end, text: String::new() }]
        }
    };
    let new = apply(text, patch).ok_or(EditError::NotExpressed)?;
    let whole = match items {
        Some(Content::List { items, .. }) if items.len() > 1 => at,
        _ => Selector { item: None, ..at },
    };
    file.verify(&new, whole, None, limits)?;
    Ok(Some(new))
}

fn remove_item(
    file: &File<'_>,
    source: &Source<'_>,
    at: Selector,
    item: usize,
) -> Result<Vec<Patch>, EditError> {
    let (tree, node) = file.select(at)?;
    let Some(list) = tree.root.child("items") else { return Err(EditError::NotFound) };
    let Content::List { items, flow } = &list.content else { return Err(EditError::NotFound) };
    let range = match slot_of(source, tree, at)? {
        Slot::Item { dash, column } => {
            let start = source.with_comments_above(source.line_start(dash), column);
            start..source.next_line(node.range.end.max(dash))
        }
        _ if *flow => match (items.get(item + 1), item.checked_sub(1)) {
            (Some(next), _) => node.range.start..next.range.start,
            (None, Some(before)) => items[before].range.end..node.range.end,
            (None, None) => return Err(EditError::NotFound),
        },
        _ => return Err(EditError::NotExpressed),
    };
    Ok(vec![Patch { range, text: String::new() }])
}
