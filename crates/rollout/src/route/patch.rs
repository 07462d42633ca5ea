//! The four operations of a JSON patch (RFC 6902) that are used here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One operation. `path` is a JSON pointer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// The value there must be this one, or the whole patch is refused.
    Test {
        /// Where.
        path: String,
        /// What must be there.
        value: Value,
    },
    /// Sets a member, or inserts before an element.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Sets what is there already.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Takes out.
    Remove {
        /// Where.
        path: String,
    },
}

/// A patch does not fit the value: something changed since it was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch does not fit at {path}")]
pub struct Mismatch {
    /// Where it does not fit.
    pub path: String,
}

/// Escapes one step of a JSON pointer.
pub(super) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// Carries a patch out, as the API server would: whole or not at all.
pub fn apply(value: &Value, operations: &[Operation]) -> Result<Value, Mismatch> {
    let mut value = value.clone();
    for operation in operations {
        step(&mut value, operation)?;
    }
    Ok(value)
}

fn step(value: &mut Value, operation: &Operation) -> Result<(), Mismatch> {
    let (Operation::Test { path, .. }
    | Operation::Add { path, .. }
    | Operation::Replace { path, .. }
    | Operation::Remove { path }) = operation;
    let misfit = || Mismatch { path: path.clone() };
    match operation {
        Operation::Test { value: wanted, .. } => {
            if value.pointer(path) == Some(wanted) {
                return Ok(());
            }
            Err(misfit())
        }
        Operation::Replace { value: new, .. } => {
            *value.pointer_mut(path).ok_or_else(misfit)? = new.clone();
            Ok(())
        }
        Operation::Add { value: new, .. } => {
            let (parent, last) = split(path).ok_or_else(misfit)?;
            match value.pointer_mut(parent).ok_or_else(misfit)? {
                Value::Object(map) => {
                    map.insert(last, new.clone());
                }
                Value::Array(list) => {
                    let place = last.parse().ok().filter(|place| *place <= list.len()).ok_or_else(misfit)?;
                    list.insert(place, new.clone());
                }
                _ => return Err(misfit()),
            }
            Ok(())
        }
        Operation::Remove { .. } => {
            let (parent, last) = split(path).ok_or_else(misfit)?;
            match value.pointer_mut(parent).ok_or_else(misfit)? {
                Value::Object(map) => map.shift_remove(&last).map(drop).ok_or_else(misfit),
                Value::Array(list) => {
                    let place = last.parse().ok().filter(|place| *place < list.len()).ok_or_else(misfit)?;
                    list.remove(place);
                    Ok(())
                }
                _ => Err(misfit()),
            }
        }
    }
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}
