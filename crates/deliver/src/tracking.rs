//! How an applied object says whose it is.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_cluster::drive::Key;

/// Field manager of everything that is applied for Applications.
pub const MANAGER: &str = "windlass-deliver";

/// Label on every applied object: what watches select. Its value names the Application, shortened if need be.
pub const LABEL: &str = "windlass.dev/application";

/// Annotation on every applied object: `namespace/name` of its Application.
pub const OWNER: &str = "windlass.dev/owner";

/// Annotation on a hook: the operation that it was made for.
pub const OPERATION: &str = "windlass.dev/operation";

/// The value of [`LABEL`] for an Application.
///
/// Always ends in a piece of a hash over the whole name: two Applications whose names begin alike never share it.
pub fn label(app: &Key) -> String {
    let hash = Sha256::digest(app.to_string().as_bytes());
    let short: String = app.name.chars().take(50).collect();
    format!(
        "{}-{:02x}{:02x}{:02x}{:02x}",
        short.trim_end_matches(['.', '-']),
        hash[0],
        hash[1],
        hash[2],
        hash[3]
    )
}

/// Writes label and annotation into an object.
pub fn mark(object: &mut Value, app: &Key) {
    let Some(metadata) = object
        .as_object_mut()
        .map(|fields| fields.entry("metadata").or_insert_with(|| Value::Object(Map::new())))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    for (field, name, value) in [("labels", LABEL, label(app)), ("annotations", OWNER, app.to_string())] {
        let map = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if !map.is_object() {
            *map = Value::Object(Map::new());
        }
        if let Some(map) = map.as_object_mut() {
            map.insert(name.to_owned(), Value::String(value));
        }
    }
}

/// The Application that an object says it belongs to.
pub fn owner(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(OWNER)?.as_str()
}
