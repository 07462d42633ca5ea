//! One object of a file changed in place.
//!
//! ```text
//!  text, which object, wanted ──► spans of the object ──► patches of bytes ──► new text ──► read again ──► same as wanted?
//! ```
//!
//! Guarantees: comments, order, quoting, indentation, line breaks and all other objects keep their bytes; an edit that
//! changes nothing returns the same bytes; the new text was read again and says just what is wanted, else there is an
//! [`EditError`] and no text. What cannot be said in place is refused with its position: values that aliases share, members
//! that a merge brings, templates.
//!
//! A key that goes takes its own trailing comment and the comment block directly above it along. A key that comes stands
//! where the order of its map wants it, or at the end. Items of lists are matched by what tells them apart (`name`,
//! `containerPort`, `key`, …), else by what stayed equal.

mod block;
mod documents;
mod error;
mod flow;
mod matching;
mod source;
mod value;

use std::collections::HashSet;

use serde_json::Value;

pub use self::{
    documents::{add, remove, replace},
    error::EditError,
};
use self::{
    source::{Source, apply, ended_like, eol_of},
    value::{Editor, Slot},
};
use crate::{
    canonical::normalize,
    parse::{
        Document, Limits, Object, ParseError, Position, objects, parse,
        tree::{self, Content, Node, Tree},
    },
};

/// Which object of a text is meant: the numbers that [`Object`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// The document, counted from zero without the empty ones.
    pub document: usize,
    /// The place in the `items` of a List.
    pub item: Option<usize>,
}

impl From<&Object> for Selector {
    fn from(object: &Object) -> Self {
        Self { document: object.document, item: object.item }
    }
}

/// Finds the one object that `is_it` accepts.
pub fn find(text: &str, limits: &Limits, is_it: impl Fn(&Value) -> bool) -> Result<Selector, EditError> {
    let found: Vec<Object> = objects(parse(text, limits).map_err(|error| unreadable(text, error))?)?
        .into_iter()
        .filter(|object| is_it(&object.value))
        .collect();
    match found.as_slice() {
        [] => Err(EditError::NotFound),
        [one] => Ok(Selector::from(one)),
        [first, second, ..] => Err(EditError::Ambiguous { first: first.position, second: second.position }),
    }
}

/// Changes the object at `at` into `wanted`, with the fewest bytes changed.
pub fn edit(text: &str, at: Selector, wanted: &Value, limits: &Limits) -> Result<String, EditError> {
    let wanted = &stored(wanted)?;
    let values = parse(text, limits).map_err(|error| unreadable(text, error))?;
    // What is as it should be needs no look at its layout.
    if said(&values, at) == Some(wanted) {
        return Ok(text.to_owned());
    }
    let file = File::of(text, values, limits)?;
    let (tree, node) = file.select(at)?;
    let source = Source::new(text, tree);
    let slot = slot_of(&source, tree, at)?;
    let mut used = HashSet::new();
    tree.root.visit(&mut |node| {
        if let Content::Alias { id, .. } = node.content {
            used.insert(id);
        }
    });
    let mut editor = Editor::new(source, used, node.range.clone(), is_json(text, &tree.root));
    editor.change(node, wanted, slot)?;
    editor.close_last_block(&tree.root);
    let new = apply(text, editor.patches).ok_or(EditError::NotExpressed)?;
    file.verified(new, at, wanted, limits)
}

/// What the object at `at` says.
fn said(values: &[Document], at: Selector) -> Option<&Value> {
    let document = &values.get(at.document)?.value;
    match at.item {
        None => Some(document),
        Some(item) => document.get("items")?.get(item),
    }
}

/// The wanted object with its numbers as they are stored.
fn stored(wanted: &Value) -> Result<Value, EditError> {
    if !wanted.is_object() {
        return Err(EditError::NotAnObject);
    }
    let mut wanted = wanted.clone();
    normalize(&mut wanted);
    Ok(wanted)
}

/// A text that cannot be read may be a template.
fn unreadable(text: &str, error: ParseError) -> EditError {
    match text.find("{{") {
        Some(at) => EditError::Templated { position: Position::of(text, at) },
        None => EditError::Parse(error),
    }
}

/// Whether the document is JSON by its looks, so that new parts must be JSON too.
fn is_json(text: &str, root: &Node) -> bool {
    match &root.content {
        Content::Map { flow: true, entries } => {
            entries.iter().all(|entry| text[entry.key_range.clone()].starts_with('"'))
        }
        Content::List { flow: true, .. } => true,
        _ => false,
    }
}

/// Where the node of the object stands.
fn slot_of(source: &Source<'_>, tree: &Tree, at: Selector) -> Result<Slot, EditError> {
    let Some(item) = at.item else { return Ok(Slot::Root) };
    let Content::Map { entries, .. } = &tree.root.content else { return Err(EditError::NotFound) };
    let entry = entries.iter().find(|entry| entry.key == "items").ok_or(EditError::NotFound)?;
    let Content::List { flow, items } = &entry.value.content else { return Err(EditError::NotFound) };
    if *flow {
        return Ok(Slot::Flow);
    }
    let dashes = block::dashes(source, items, entry.key_range.end + 1, &entry.value)?;
    let dash = dashes.get(item).copied().ok_or(EditError::NotFound)?;
    Ok(Slot::Item { dash, column: source.column(dash) })
}

/// A text with its values and its spans.
struct File<'a> {
    text: &'a str,
    values: Vec<Document>,
    trees: Vec<Tree>,
}

impl<'a> File<'a> {
    fn read(text: &'a str, limits: &Limits) -> Result<Self, EditError> {
        Self::of(text, parse(text, limits).map_err(|error| unreadable(text, error))?, limits)
    }

    fn of(text: &'a str, values: Vec<Document>, limits: &Limits) -> Result<Self, EditError> {
        let mut trees = tree::documents(text, limits).map_err(|error| match error {
            // What was just read is no wrong text; its layout is one that the spans do not cover.
            ParseError::Syntax { position, .. } => {
                EditError::Unsupported { position, what: "quoted text that goes on left of its key" }
            }
            error => unreadable(text, error),
        })?;
        trees.retain(|tree| !tree.root.is_empty());
        let file = Self { text, values, trees };
        file.refuse_templates()?;
        Ok(file)
    }

    /// `{{` in a scalar is text; outside of one (in a comment, say) it makes the file a template.
    fn refuse_templates(&self) -> Result<(), EditError> {
        if !self.text.contains("{{") {
            return Ok(());
        }
        let mut scalars = Vec::new();
        for tree in &self.trees {
            tree.root.visit(&mut |node| match &node.content {
                Content::Scalar { .. } => scalars.push(node.range.clone()),
                Content::Map { entries, .. } => {
                    scalars.extend(entries.iter().map(|entry| entry.key_range.clone()));
                }
                _ => {}
            });
        }
        scalars.sort_by_key(|range| range.start);
        for (at, _) in self.text.match_indices("{{") {
            let before = scalars.partition_point(|range| range.start <= at);
            let inside = before
                .checked_sub(1)
                .and_then(|index| scalars.get(index))
                .is_some_and(|range| at < range.end);
            let flow = !self.text[self.text[..at].rfind('\n').map_or(0, |n| n + 1)..at].contains('#');
            if !inside && !flow {
                return Err(EditError::Templated { position: Position::of(self.text, at) });
            }
        }
        Ok(())
    }

    /// The document and the node of the object.
    fn select(&self, at: Selector) -> Result<(&Tree, &Node), EditError> {
        let tree = self.trees.get(at.document).ok_or(EditError::NotFound)?;
        let node = match at.item {
            None => &tree.root,
            Some(item) => {
                let items = tree.root.child("items").ok_or(EditError::NotFound)?;
                items.child(&item.to_string()).ok_or(EditError::NotFound)?
            }
        };
        Ok((tree, node))
    }

    /// The new text, if it holds. A text without final line break gets one where its new last value needs it.
    fn verified(
        &self,
        new: String,
        at: Selector,
        wanted: &Value,
        limits: &Limits,
    ) -> Result<String, EditError> {
        let new = ended_like(self.text, new);
        match self.verify(&new, at, Some(wanted), limits) {
            Err(EditError::NotExpressed) if !new.ends_with('\n') => {
                let closed = format!("{new}{}", eol_of(&new));
                self.verify(&closed, at, Some(wanted), limits).map(|()| closed)
            }
            result => result.map(|()| new),
        }
    }

    /// Reads the new text and compares: the object is as wanted (or gone), all others are as they were.
    fn verify(
        &self,
        new: &str,
        at: Selector,
        wanted: Option<&Value>,
        limits: &Limits,
    ) -> Result<(), EditError> {
        let found = parse(new, limits).map_err(|_| EditError::NotExpressed)?;
        let mut expected: Vec<Value> = self.values.iter().map(|document| document.value.clone()).collect();
        let document = expected.get_mut(at.document).ok_or(EditError::NotFound)?;
        match (at.item, wanted) {
            (None, Some(wanted)) => *document = wanted.clone(),
            (None, None) => {
                expected.remove(at.document);
            }
            (Some(item), wanted) => {
                let items =
                    document.get_mut("items").and_then(Value::as_array_mut).ok_or(EditError::NotFound)?;
                match wanted {
                    Some(wanted) => *items.get_mut(item).ok_or(EditError::NotFound)? = wanted.clone(),
                    None => {
                        items.remove(item);
                    }
                }
            }
        }
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| found.value == *expected);
        if same { Ok(()) } else { Err(EditError::NotExpressed) }
    }
}
