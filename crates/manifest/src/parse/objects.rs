//! Documents → Kubernetes objects: Lists are taken apart.

use serde_json::Value;

use super::{Document, ParseError, Position, error::kind_of};

/// One Kubernetes object of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The object.
    pub value: Value,
    /// The document it stands in, counted from zero without the empty ones.
    pub document: usize,
    /// Its place in the `items` of a List, if it stands in one.
    pub item: Option<usize>,
    /// Where it starts. For an item of a List in JSON it is the place of the List: [`super::locate`] finds the item.
    pub position: Position,
}

/// Takes documents apart into objects: a `List` (or `ConfigMapList`, …) yields its items, others yield themselves.
///
/// A document that is no map, or an item of a List that is none, is an error with its position.
pub fn objects(documents: Vec<Document>) -> Result<Vec<Object>, ParseError> {
    let mut found = Vec::with_capacity(documents.len());
    for (index, document) in documents.into_iter().enumerate() {
        flatten(document, index, &mut found)?;
    }
    Ok(found)
}

fn flatten(document: Document, index: usize, found: &mut Vec<Object>) -> Result<(), ParseError> {
    let Document { mut value, position, items: places, .. } = document;
    check(&value, position)?;
    if !is_list(&value) {
        found.push(Object { value, document: index, item: None, position });
        return Ok(());
    }
    if let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
        for (at, value) in items.into_iter().enumerate() {
            let position = places.get(at).copied().unwrap_or(position);
            check(&value, position)?;
            found.push(Object { value, document: index, item: Some(at), position });
        }
    }
    Ok(())
}

fn check(value: &Value, position: Position) -> Result<(), ParseError> {
    if value.is_object() { Ok(()) } else { Err(ParseError::NotAnObject { position, found: kind_of(value) }) }
}

/// Whether this is a List: its kind ends in `List`, and it has `items` (or is the `v1` List, which may lack them), and
/// no spec and no name of its own, so that a custom kind that happens to be called so is left alone.
pub(crate) fn is_list(value: &Value) -> bool {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let named = value.get("metadata").and_then(|metadata| metadata.get("name")).is_some();
    if !kind.ends_with("List") || named || value.get("spec").is_some() {
        return false;
    }
    match value.get("items") {
        Some(Value::Array(_)) => true,
        Some(Value::Null) | None => kind == "List" && version == "v1",
        Some(_) => false,
    }
}
