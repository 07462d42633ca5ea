//! The patch formats: JSON merge, JSON patch and strategic merge.

use serde_json::{Map, Value};

use super::schema::{ListKind, Schema};
use super::status::Failure;

/// RFC 7386.
pub(super) fn merge(target: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let mut out = target.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            out.shift_remove(name);
        } else {
            let before = out.get(name).cloned().unwrap_or_default();
            out.insert(name.clone(), merge(&before, change));
        }
    }
    Value::Object(out)
}

/// RFC 6902.
pub(super) fn json_patch(target: &Value, list: &Value) -> Result<Value, Failure> {
    let Some(operations) = list.as_array() else {
        return Err(Failure::bad_request("a JSON patch must be a list of operations"));
    };
    let mut out = target.clone();
    for operation in operations {
        let text = |key: &str| operation.get(key).and_then(Value::as_str);
        let Some((name, path)) = text("op").zip(text("path")) else {
            return Err(Failure::bad_request("a JSON patch operation needs op and path"));
        };
        let value = || operation.get("value").cloned().ok_or_else(|| Failure::unprocessable("no value"));
        let missing = || Failure::unprocessable("no such path");
        match name {
            "add" => insert_at(&mut out, path, value()?)?,
            "remove" => {
                take_at(&mut out, path)?;
            }
            "replace" => *out.pointer_mut(path).ok_or_else(missing)? = value()?,
            "move" => {
                let moved = take_at(&mut out, text("from").unwrap_or_default())?;
                insert_at(&mut out, path, moved)?;
            }
            "copy" => {
                let copied = out.pointer(text("from").unwrap_or_default()).cloned().ok_or_else(missing)?;
                insert_at(&mut out, path, copied)?;
            }
            "test" => {
                if out.pointer(path).cloned().unwrap_or_default() != value()? {
                    return Err(Failure::unprocessable("test failed"));
                }
            }
            _ => return Err(Failure::bad_request(format!("unknown JSON patch operation {name:?}"))),
        }
    }
    Ok(out)
}

fn split(path: &str) -> Result<(&str, String), Failure> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| Failure::unprocessable("not a path"))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn insert_at(object: &mut Value, path: &str, value: Value) -> Result<(), Failure> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if last == "-" { items.len() } else { last.parse().unwrap_or(usize::MAX) };
            if index > items.len() {
                return Err(Failure::unprocessable("no such index"));
            }
            items.insert(index, value);
            Ok(())
        }
        _ => Err(Failure::unprocessable("no such path")),
    }
}

fn take_at(object: &mut Value, path: &str) -> Result<Value, Failure> {
    let (parent, last) = split(path)?;
    let taken = match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.shift_remove(&last),
        Some(Value::Array(items)) => {
            last.parse().ok().filter(|index| *index < items.len()).map(|index: usize| items.remove(index))
        }
        _ => None,
    };
    taken.ok_or_else(|| Failure::unprocessable("no such path"))
}

/// Strategic merge, as far as controllers use it: lists with keys are merged by their first key, sets are
/// united, `$patch` says `delete` or `replace`, and `$deleteFromPrimitiveList` removes from sets.
pub(super) fn strategic(schema: &Schema, target: &Value, patch: &Value) -> Result<Value, Failure> {
    let Value::Object(changes) = patch else {
        return Ok(patch.clone());
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => return Ok(Value::Object(without_directives(changes))),
        Some("delete") => return Ok(Value::Null),
        Some("merge") | None => {}
        Some(other) => return Err(Failure::bad_request(format!("unknown $patch directive {other:?}"))),
    }
    let mut out = target.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().cloned().unwrap_or_default();
            if let Some(items) = out.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        if change.is_null() {
            out.shift_remove(name);
            continue;
        }
        let before = out.get(name).cloned().unwrap_or_default();
        let inner = schema.field(name);
        let after = match (change, inner) {
            (Value::Array(items), Some(inner)) => {
                let order = changes.get(&format!("$setElementOrder/{name}")).and_then(Value::as_array);
                merge_list(inner, &before, items, order.unwrap_or(items))?
            }
            (Value::Object(_), Some(inner)) => strategic(inner, &before, change)?,
            _ => merge(&before, change),
        };
        if after.is_null() {
            out.shift_remove(name);
        } else {
            out.insert(name.clone(), after);
        }
    }
    Ok(Value::Object(out))
}

fn without_directives(fields: &Map<String, Value>) -> Map<String, Value> {
    fields
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Merges a list; `order` says in which order the items that it names come out.
fn merge_list(schema: &Schema, before: &Value, changes: &[Value], order: &[Value]) -> Result<Value, Failure> {
    let mut out = before.as_array().cloned().unwrap_or_default();
    match &schema.list {
        ListKind::Atomic => return Ok(Value::Array(changes.to_vec())),
        ListKind::Set => {
            for item in changes {
                if !out.contains(item) {
                    out.push(item.clone());
                }
            }
        }
        ListKind::Map(keys) => {
            let key = keys.first().map(String::as_str).unwrap_or_default();
            if changes.iter().any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace")) {
                let kept = changes.iter().filter(|item| item.get("$patch").is_none());
                return Ok(kept.cloned().collect());
            }
            let any = Schema::any();
            for item in changes {
                let same = |other: &Value| other.get(key).is_some() && other.get(key) == item.get(key);
                let at = out.iter().position(same);
                if item.get("$patch").and_then(Value::as_str) == Some("delete") {
                    out.retain(|other| !same(other));
                    continue;
                }
                let target = at.map(|at| out[at].clone()).unwrap_or_default();
                let merged = strategic(schema.item().unwrap_or(&any), &target, item)?;
                match at {
                    Some(at) => out[at] = merged,
                    None => out.push(merged),
                }
            }
        }
    }
    let key = match &schema.list {
        ListKind::Map(keys) => keys.first().map(String::as_str),
        _ => None,
    };
    Ok(Value::Array(arrange(out, before.as_array().map(Vec::as_slice).unwrap_or_default(), order, key)))
}

/// Puts the items that `order` names into that order; the others keep their place before what they stood before.
fn arrange(items: Vec<Value>, before: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let position = |list: &[Value], item: &Value| {
        list.iter().position(|other| match key {
            Some(key) => other.get(key).is_some() && other.get(key) == item.get(key),
            None => other == item,
        })
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| position(order, item).is_some());
    named.sort_by_key(|item| position(order, item));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => position(before, other)
                .zip(position(before, named))
                .is_some_and(|(other, named)| other < named),
        };
        out.extend(if other_first { others.next() } else { named.next() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_removes_with_null() {
        let out =
            merge(&json!({"a": {"b": 1, "c": 2}, "d": [1]}), &json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(out, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
    }

    #[test]
    fn json_patch_operations() {
        let start = json!({"a": {"b": [1, 2]}, "x/y": 1});
        let run = |patch: Value| json_patch(&start, &patch);
        let out = run(json!([
            {"op": "test", "path": "/a/b/0", "value": 1},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "replace", "path": "/x~1y", "value": 2},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/x~1y", "path": "/z"}
        ]));
        assert_eq!(out.unwrap(), json!({"a": {"b": [2, 3]}, "c": [2, 3], "z": 2}));
        for refused in [
            json!([{"op": "test", "path": "/a/b/0", "value": 9}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "replace", "path": "/none", "value": 1}]),
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
        ] {
            assert_eq!(run(refused).unwrap_err().code, 422);
        }
        assert_eq!(run(json!({})).unwrap_err().code, 400);
    }

    #[test]
    fn strategic_merge_by_key() {
        let schema = Schema::parse(
            &json!({"type": "object", "properties": {
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "atom": {"type": "array", "items": {"type": "string"}}}}),
            &Map::new(),
        );
        let start = json!({"list": [{"name": "a", "v": 1}, {"name": "b"}], "set": ["x", "y"], "atom": ["1"]});
        let patch = json!({"list": [{"name": "a", "w": 2}, {"$patch": "delete", "name": "b"}, {"name": "c"}],
            "set": ["z"], "$deleteFromPrimitiveList/set": ["x"], "atom": ["2"]});
        assert_eq!(
            strategic(&schema, &start, &patch).unwrap(),
            json!({"list": [{"name": "a", "v": 1, "w": 2}, {"name": "c"}], "set": ["z", "y"], "atom": ["2"]})
        );
    }
}
