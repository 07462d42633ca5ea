//! Reading rules: the YAML of the house, one value a document.

use serde_json::Value;

use crate::parse::{Limits, parse};

/// The documents of a text; empty ones are left out.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents = parse(text, &Limits::default()).map_err(|error| error.to_string())?;
    Ok(documents.into_iter().map(|document| document.value).filter(|value| !value.is_null()).collect())
}
