//! Which requests a rule of ours takes, in the words of the two kinds of routes.

use serde_json::{Map, Value, json};
use windlass_api::rollout::traffic::{RouteMatch, StringMatch};

use super::trouble;
use crate::observed::{RouteKind, RouteTrouble};

const NO_METHOD: &str = "MethodMatchNotSupported";
const NO_PATH: &str = "PathMatchNotSupported";

/// One header match as Gateway API spells it. It knows no prefix, so that one becomes an expression.
fn header(name: &str, text: &StringMatch) -> Value {
    let (kind, value) = if !text.exact.is_empty() {
        ("Exact", text.exact.clone())
    } else if !text.prefix.is_empty() {
        ("RegularExpression", format!("{}.*", literal(&text.prefix)))
    } else {
        ("RegularExpression", text.regex.clone())
    };
    json!({ "name": name, "type": kind, "value": value })
}

/// Takes the meaning out of every character that has one in RE2.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// The match of a base rule, narrowed by a header.
pub(super) fn with_header(base: &Map<String, Value>, name: &str, text: &StringMatch) -> Value {
    let mut narrowed = base.clone();
    add_headers(&mut narrowed, [header(name, text)]);
    Value::Object(narrowed)
}

/// The match of a base rule, narrowed to requests that bring a cookie with this value.
pub(super) fn with_cookie(base: &Map<String, Value>, cookie: &str, value: &str) -> Value {
    let regex = format!("(.*; *)?{}={}(;.*)?", literal(cookie), literal(value));
    with_header(base, "Cookie", &StringMatch { regex, ..StringMatch::default() })
}

/// The match of a base rule, narrowed by a mirror's match.
pub(super) fn with_mirror(
    kind: RouteKind,
    rule: &str,
    base: &Map<String, Value>,
    wanted: &RouteMatch,
) -> Result<Value, RouteTrouble> {
    let mut narrowed = base.clone();
    if let Some(method) = &wanted.method {
        narrowed.insert("method".to_owned(), method_of(kind, rule, method)?);
    }
    if let Some(path) = &wanted.path {
        narrowed.insert("path".to_owned(), path_of(kind, rule, path)?);
    }
    add_headers(&mut narrowed, wanted.headers.iter().map(|(name, text)| header(name, text)));
    Ok(Value::Object(narrowed))
}

fn method_of(kind: RouteKind, rule: &str, text: &StringMatch) -> Result<Value, RouteTrouble> {
    match kind {
        RouteKind::Http if !text.exact.is_empty() => Ok(Value::from(text.exact.to_uppercase())),
        RouteKind::Http => Err(trouble(
            NO_METHOD,
            format!(
                "the mirror route {rule} compares the method by prefix or expression, which an HTTPRoute cannot"
            ),
            "Name the method with `exact`, one match for each method",
        )),
        RouteKind::Grpc => Err(trouble(
            NO_METHOD,
            format!("the mirror route {rule} compares an HTTP method, which a GRPCRoute does not have"),
            "Leave `method` out and match by headers",
        )),
    }
}

fn path_of(kind: RouteKind, rule: &str, text: &StringMatch) -> Result<Value, RouteTrouble> {
    if kind == RouteKind::Grpc {
        return Err(trouble(
            NO_PATH,
            format!("the mirror route {rule} compares a path, which a GRPCRoute does not have"),
            "Leave `path` out and match by headers",
        ));
    }
    let (kind, value) = if !text.exact.is_empty() {
        ("Exact", &text.exact)
    } else if !text.prefix.is_empty() {
        ("PathPrefix", &text.prefix)
    } else {
        ("RegularExpression", &text.regex)
    };
    Ok(json!({ "type": kind, "value": value }))
}

/// Adds header matches. The API keeps one match for a header name, in any spelling: ours takes its place.
fn add_headers(narrowed: &mut Map<String, Value>, headers: impl IntoIterator<Item = Value>) {
    for header in headers {
        let named = |value: &Value| value["name"].as_str().map(str::to_lowercase);
        let list = narrowed.entry("headers").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.retain(|other| named(other) != named(&header));
            list.push(header);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn exact(text: &str) -> StringMatch {
        StringMatch { exact: text.to_owned(), ..StringMatch::default() }
    }

    #[test]
    fn a_prefix_of_a_header_becomes_an_expression_without_surprises() {
        let value = header("X-Build", &StringMatch { prefix: "v1.2(".to_owned(), ..StringMatch::default() });
        assert_eq!(value, json!({ "name": "X-Build", "type": "RegularExpression", "value": r"v1\.2\(.*" }));
    }

    #[test]
    fn a_header_that_the_rule_has_already_is_narrowed_and_not_doubled() {
        let base = json!({ "headers": [{ "name": "x-user", "type": "Exact", "value": "a" }] });
        let narrowed = with_header(base.as_object().unwrap(), "X-User", &exact("b"));
        assert_eq!(narrowed["headers"].as_array().unwrap().len(), 1);
        assert_eq!(narrowed["headers"][0]["value"], "b");
    }
}
