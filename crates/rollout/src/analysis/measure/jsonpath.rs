//! JSON paths as kubectl writes them, `{$.data.rate}` or `{.data.rate}`, in the form of RFC 9535.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::fault::Fault;

/// The first value at a path.
pub(super) fn first(path: &str, json: &Value) -> Result<Value, Fault> {
    let standard = standard(path);
    let parsed = JsonPath::parse(&standard).map_err(|error| {
        let why = error.message().to_owned();
        Fault::Spec(format!("jsonPath {path} cannot be read: {why}. Write it like {{$.data.rate}}"))
    })?;
    parsed.query(json).first().cloned().ok_or_else(|| Fault::NothingThere(path.to_owned()))
}

fn standard(path: &str) -> String {
    let path = path.trim();
    let inner = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path).trim();
    let inner = unescape(inner);
    match inner.chars().next() {
        None => "$".to_owned(),
        Some('$') => inner,
        Some('@') => format!("${}", &inner[1..]),
        Some('.' | '[') => format!("${inner}"),
        Some(_) => format!("$.{inner}"),
    }
}

/// `.a\.b` is the field `a.b`, which the standard writes `['a.b']`.
fn unescape(path: &str) -> String {
    if !path.contains("\\.") {
        return path.to_owned();
    }
    let mut out = String::new();
    for piece in path.replace("\\.", "\u{0}").split('.') {
        if piece.contains('\u{0}') {
            out.extend(["['", &piece.replace('\u{0}', "."), "']"]);
        } else if !piece.is_empty() {
            if !out.is_empty() || path.starts_with('.') {
                out.push('.');
            }
            out.push_str(piece);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_read_as_kubectl_writes_them() {
        let json = json!({ "data": { "rate": 0.5, "a.b": 1, "list": [ { "name": "x", "v": 1 }, { "name": "y", "v": 2 } ] } });
        for (path, wanted) in [
            ("{$.data.rate}", json!(0.5)),
            ("{.data.rate}", json!(0.5)),
            ("$.data.rate", json!(0.5)),
            ("data.rate", json!(0.5)),
            ("{$.data.list[1].v}", json!(2)),
            ("{$.data.list[?(@.name==\"y\")].v}", json!(2)),
            ("{$.data.list[*].v}", json!(1)),
            ("{$.data.a\\.b}", json!(1)),
            ("{$}", json.clone()),
            ("", json.clone()),
        ] {
            assert_eq!(first(path, &json).unwrap(), wanted, "{path}");
        }
        assert!(matches!(first("{$.nothing}", &json), Err(Fault::NothingThere(_))));
        assert!(matches!(first("{$.[[}", &json), Err(Fault::Spec(_))));
    }
}
