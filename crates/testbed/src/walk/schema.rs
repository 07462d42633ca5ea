//! The walk itself: from a schema and a good object to cases.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value};

use super::{
    Case, Deed, Expect,
    values::{hostile, illegal, kind, legal, minimal, ruled, ruled_below, text_allowed},
};

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item,
}

/// A schema node with the way to it.
struct Node<'a> {
    path: Vec<Step>,
    schema: &'a Value,
    /// Schemas from the root to this node's parent.
    above: Vec<&'a Value>,
}

/// All cases for a kind: for every field below `spec` what is legal, illegal and hostile, by the schema of the
/// version that `base` has. `base` has to be a good object: what it lacks is filled in as little as the schema
/// allows.
///
/// The order is that of the schema, so that the same CRD and base always give the same cases.
pub fn cases(crd: &CustomResourceDefinition, base: &Value) -> Vec<Case> {
    let Some(schema) = spec_schema(crd, base) else { return Vec::new() };
    let mut nodes = Vec::new();
    let root = &schema;
    let top = root.get("properties").and_then(|properties| properties.get("spec"));
    if let Some(spec) = top {
        let path = vec![Step::Field("spec".to_owned())];
        collect(&Node { path, schema: spec, above: vec![root] }, &mut nodes);
    }
    let mut out = Vec::new();
    for node in &nodes {
        legal_cases(node, base, &mut out);
        remove_case(node, base, &mut out);
        illegal_cases(node, base, &mut out);
    }
    out
}

fn spec_schema(crd: &CustomResourceDefinition, base: &Value) -> Option<Value> {
    let version = base["apiVersion"].as_str().and_then(|api| api.rsplit('/').next()).unwrap_or_default();
    let versions = &crd.spec.versions;
    let version = versions.iter().find(|candidate| candidate.name == version).or_else(|| versions.first())?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok()
}

/// Every node below `spec`, `spec` itself included, parents before children.
fn collect<'a>(node: &Node<'a>, out: &mut Vec<Node<'a>>) {
    out.push(Node { path: node.path.clone(), schema: node.schema, above: node.above.clone() });
    let mut above = node.above.clone();
    above.push(node.schema);
    let mut child = |step: Step, schema: &'a Value| {
        let mut path = node.path.clone();
        path.push(step);
        collect(&Node { path, schema, above: above.clone() }, out);
    };
    for (name, schema) in node.schema["properties"].as_object().into_iter().flatten() {
        child(Step::Field(name.clone()), schema);
    }
    if let Some(items) = node.schema.get("items").filter(|items| items.is_object()) {
        child(Step::Item, items);
    }
    if let Some(values) = node.schema.get("additionalProperties").filter(|values| values.is_object()) {
        child(Step::Field("walk".to_owned()), values);
    }
}

fn legal_cases(node: &Node<'_>, base: &Value, out: &mut Vec<Case>) {
    let present = read(base, &node.path);
    let deed = if present.is_some() { Deed::Change } else { Deed::Set };
    let expect = if free(node) { Expect::Accepted } else { Expect::Either };
    for value in legal(node.schema) {
        if present != Some(&value) {
            // An object or list that the base fills in is changed by its own fields; emptying it is one more case.
            push(out, node, base, deed, &brief(&value), value, expect);
        }
    }
}

fn remove_case(node: &Node<'_>, base: &Value, out: &mut Vec<Case>) {
    let Some(Step::Field(name)) = node.path.last() else { return };
    if read(base, &node.path).is_none() || node.path.len() < 2 {
        return;
    }
    let parent = node.above.last().copied().unwrap_or(&Value::Null);
    let required = parent["required"].as_array().is_some_and(|list| list.iter().any(|entry| entry == name));
    let defaulted = node.schema.get("default").is_some_and(|value| !value.is_null());
    let expect = match (required && !defaulted, free(node)) {
        (true, _) => Expect::Refused,
        (false, true) => Expect::Accepted,
        (false, false) => Expect::Either,
    };
    let mut object = base.clone();
    if remove(&mut object, &node.path) {
        let path = show(&node.path);
        out.push(Case { path, deed: Deed::Remove, what: "removed".to_owned(), object, expect });
    }
}

fn illegal_cases(node: &Node<'_>, base: &Value, out: &mut Vec<Case>) {
    let open = node.schema["x-kubernetes-preserve-unknown-fields"] == true && kind(node.schema).is_empty();
    if open {
        return;
    }
    for (why, value) in illegal(node.schema) {
        push(out, node, base, Deed::Illegal, why, value, Expect::Refused);
    }
    for (why, value) in hostile(node.schema) {
        let allowed = value.as_str().and_then(|text| text_allowed(node.schema, text));
        let expect = match allowed {
            Some(false) => Expect::Refused,
            Some(true) if free(node) => Expect::Accepted,
            _ => Expect::Either,
        };
        push(out, node, base, Deed::Hostile, why, value, expect);
    }
    let closed = kind(node.schema) == "object"
        && node.schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
        && node.schema["x-kubernetes-preserve-unknown-fields"] != true;
    if closed
        && let Some(Value::Object(mut value)) =
            read(base, &node.path).cloned().or_else(|| minimal(node.schema))
    {
        value.insert("noSuchField".to_owned(), Value::from("x"));
        // Refused by strict validation, dropped by any other.
        push(out, node, base, Deed::Illegal, "an unknown field", Value::Object(value), Expect::Either);
    }
}

/// Whether the plain schema alone decides about a legal value here.
fn free(node: &Node<'_>) -> bool {
    !node.above.iter().any(|schema| ruled(schema)) && !ruled_below(node.schema)
}

fn push(
    out: &mut Vec<Case>,
    node: &Node<'_>,
    base: &Value,
    deed: Deed,
    what: &str,
    value: Value,
    expect: Expect,
) {
    let mut object = base.clone();
    let Some(filled) = set(&mut object, &node.path, &node.above, value) else { return };
    // A parent that had to be invented may break rules of its own.
    let expect = if filled && expect == Expect::Accepted && node.above.iter().any(|above| ruled_below(above))
    {
        Expect::Either
    } else {
        expect
    };
    out.push(Case { path: show(&node.path), deed, what: what.to_owned(), object, expect });
}

/// Sets a value at a path, filling missing parents in; says whether one was missing, none when one cannot be made.
fn set(object: &mut Value, path: &[Step], above: &[&Value], value: Value) -> Option<bool> {
    let mut filled = false;
    let mut at = object;
    for (index, step) in path.iter().enumerate() {
        if at.is_null() {
            *at = minimal(above.get(index).copied()?)?;
            filled = true;
        }
        at = match step {
            Step::Field(name) => at.as_object_mut()?.entry(name.clone()).or_insert(Value::Null),
            Step::Item => {
                let list = at.as_array_mut()?;
                if list.is_empty() {
                    list.push(Value::Null);
                }
                list.first_mut()?
            }
        };
    }
    *at = value;
    Some(filled)
}

fn read<'a>(object: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, step| match step {
        Step::Field(name) => at.get(name),
        Step::Item => at.get(0),
    })
}

fn remove(object: &mut Value, path: &[Step]) -> bool {
    let Some((Step::Field(last), parents)) = path.split_last() else { return false };
    let parent = parents.iter().try_fold(object, |at, step| match step {
        Step::Field(name) => at.get_mut(name),
        Step::Item => at.get_mut(0),
    });
    parent
        .and_then(Value::as_object_mut)
        .and_then(|map: &mut Map<String, Value>| map.shift_remove(last))
        .is_some()
}

fn show(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Field(name) if out.is_empty() => out.push_str(name),
            Step::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            Step::Item => out.push_str("[0]"),
        }
    }
    out
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        text
    } else {
        format!("{}…", text.chars().take(60).collect::<String>())
    }
}
