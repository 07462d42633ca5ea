//! Checks of values against a schema, with the causes that the API server names.

use serde_json::Value;

use super::{ListKind, Schema, Type};

/// One entry of `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    fn invalid(field: &str, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {field} in body {why}"))
    }
}

/// Every way in which `value` breaks the schema. `path` is the field's path, empty for the object itself.
pub(crate) fn validate(schema: &Schema, value: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, value, path, &mut causes);
    causes
}

fn check(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if !type_fits(schema.kind, value) {
        let actual = type_name(value);
        causes.push(Cause::new(
            "FieldValueTypeInvalid",
            path,
            format!(
                "Invalid value: \"{actual}\": {path} in body must be of type {}: \"{actual}\"",
                schema.kind.name()
            ),
        ));
        if schema.kind == Type::Integer
            && value.is_number()
            && (schema.limits.minimum.or(schema.limits.maximum)).is_some()
        {
            // The check of the limits does not know what to do with a fraction, either, and says so without a path.
            let message = format!(
                "Invalid value: \"\": Checked value must be of type integer (default format) in {path}"
            );
            causes.push(Cause::new("FieldValueInvalid", "<nil>", message));
        }
        return;
    }
    check_choices(schema, value, path, causes);
    match value {
        Value::String(text) => check_text(schema, value, text, path, causes),
        Value::Number(number) => {
            check_number(schema, value, number.as_f64().unwrap_or_default(), path, causes);
        }
        Value::Array(items) => check_list(schema, value, items, path, causes),
        Value::Object(fields) => {
            check_required(schema, fields, path, causes);
            check_count(schema.limits.properties, fields.len(), "properties", path, causes);
            for (name, field) in fields {
                if let Some(inner) = schema.field(name) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    check(inner, field, &path, causes);
                }
            }
        }
        _ => {}
    }
    check_composites(schema, value, path, causes);
}

fn check_required(
    schema: &Schema,
    fields: &serde_json::Map<String, Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    for name in schema.limits.required.iter().filter(|name| !fields.contains_key(*name)) {
        let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        causes.push(Cause::new("FieldValueRequired", field, "Required value"));
    }
}

fn check_choices(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let choices = &schema.limits.choices;
    if choices.is_empty() || choices.contains(value) {
        return;
    }
    let listed: Vec<String> = choices.iter().map(ToString::to_string).collect();
    causes.push(Cause::new(
        "FieldValueNotSupported",
        path,
        format!("Unsupported value: {value}: supported values: {}", listed.join(", ")),
    ));
}

fn check_text(schema: &Schema, value: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    if let Some(least) = schema.limits.length.0.filter(|least| length < *least) {
        causes.push(Cause::invalid(path, value, &format!("should be at least {least} chars long")));
    }
    if let Some(most) = schema.limits.length.1.filter(|most| length > *most) {
        causes.push(Cause::new(
            "FieldValueTooLong",
            path,
            format!("Too long: may not be more than {most} bytes"),
        ));
    }
    if let Some((source, pattern)) = &schema.limits.pattern
        && !pattern.is_match(text)
    {
        causes.push(Cause::invalid(path, value, &format!("should match '{source}'")));
    }
    if schema.limits.format.as_deref() == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
        causes.push(Cause::invalid(path, value, &format!("must be of type date-time: {value}")));
    }
}

fn check_number(schema: &Schema, value: &Value, number: f64, path: &str, causes: &mut Vec<Cause>) {
    if let Some((limit, exclusive)) = schema.limits.minimum
        && (number < limit || (exclusive && number <= limit))
    {
        let than = if exclusive { "greater than" } else { "greater than or equal to" };
        causes.push(Cause::invalid(path, value, &format!("should be {than} {limit}")));
    }
    if let Some((limit, exclusive)) = schema.limits.maximum
        && (number > limit || (exclusive && number >= limit))
    {
        let than = if exclusive { "less than" } else { "less than or equal to" };
        causes.push(Cause::invalid(path, value, &format!("should be {than} {limit}")));
    }
}

fn check_list(schema: &Schema, value: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let (least, most) = schema.limits.items;
    if let Some(least) = least.filter(|least| items.len() < *least) {
        causes.push(Cause::invalid(path, value, &format!("should have at least {least} items")));
    }
    if let Some(most) = most.filter(|most| items.len() > *most) {
        let message = format!("Too many: {}: must have at most {most} items", items.len());
        causes.push(Cause::new("FieldValueTooMany", path, message));
    }
    for (index, item) in items.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let identity = identity(&schema.list, item);
        if identity.is_some()
            && items[..index].iter().any(|other| self::identity(&schema.list, other) == identity)
        {
            let shown = identity.unwrap_or_default();
            causes.push(Cause::new("FieldValueDuplicate", &at, format!("Duplicate value: {shown}")));
        }
        if let Some(inner) = schema.item() {
            check(inner, item, &at, causes);
        }
    }
}

fn identity(list: &ListKind, item: &Value) -> Option<Value> {
    match list {
        ListKind::Atomic => None,
        ListKind::Set => Some(item.clone()),
        ListKind::Map(keys) => {
            Some(keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect::<Value>())
        }
    }
}

fn check_count(
    (least, most): (Option<usize>, Option<usize>),
    count: usize,
    what: &str,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let count_value = Value::from(count);
    if let Some(least) = least.filter(|least| count < *least) {
        causes.push(Cause::invalid(path, &count_value, &format!("should have at least {least} {what}")));
    }
    if let Some(most) = most.filter(|most| count > *most) {
        let message = format!("Too many: {count}: must have at most {most} {what}");
        causes.push(Cause::new("FieldValueTooMany", path, message));
    }
}

fn check_composites(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |inner: &Schema| validate(inner, value, path).is_empty();
    for inner in &schema.limits.all_of {
        check(inner, value, path, causes);
    }
    if !schema.limits.any_of.is_empty() && !schema.limits.any_of.iter().any(fits) {
        causes.push(Cause::invalid(path, value, "must validate at least one schema (anyOf)"));
    }
    if !schema.limits.one_of.is_empty()
        && schema.limits.one_of.iter().filter(|inner| fits(inner)).count() != 1
    {
        causes.push(Cause::invalid(path, value, "must validate one and only one schema (oneOf)"));
    }
    if schema.limits.not.as_deref().is_some_and(fits) {
        causes.push(Cause::invalid(path, value, "must not validate the schema (not)"));
    }
}

/// Whether a value has the JSON type that is asked for.
pub(crate) fn type_fits(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::IntOrString => value.is_string() || value.is_number(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn reasons(schema: &Value, value: &Value) -> Vec<(&'static str, String)> {
        let schema = Schema::parse(schema, &Map::new());
        validate(&schema, value, "").into_iter().map(|cause| (cause.reason, cause.field)).collect()
    }

    #[test]
    fn every_limit_is_checked() {
        let schema = json!({"type": "object", "required": ["must"], "properties": {
            "must": {"type": "string"},
            "size": {"type": "integer", "minimum": 1, "maximum": 5},
            "over": {"type": "number", "minimum": 1, "exclusiveMinimum": true},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "few": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "port": {"x-kubernetes-int-or-string": true},
            "when": {"type": "string", "format": "date-time"},
            "pick": {"type": "string", "anyOf": [{"minLength": 3}, {"enum": ["x"]}]}
        }});
        let bad = json!({"size": 9, "over": 1, "mode": "C", "name": "ABCDE", "few": ["a", "b"], "tags": ["a", "a"],
            "port": true, "when": "today", "pick": "y"});
        let found = reasons(&schema, &bad);
        for expected in [
            ("FieldValueRequired", "must"),
            ("FieldValueInvalid", "size"),
            ("FieldValueInvalid", "over"),
            ("FieldValueNotSupported", "mode"),
            ("FieldValueTooLong", "name"),
            ("FieldValueInvalid", "name"),
            ("FieldValueTooMany", "few"),
            ("FieldValueDuplicate", "tags[1]"),
            ("FieldValueTypeInvalid", "port"),
            ("FieldValueInvalid", "when"),
            ("FieldValueInvalid", "pick"),
        ] {
            assert!(
                found.iter().any(|(reason, field)| (*reason, field.as_str()) == expected),
                "{expected:?} in {found:?}"
            );
        }
        let good = json!({"must": "", "size": 5, "over": 1.5, "mode": "A", "name": "abcd", "few": ["a"],
            "tags": ["a", "b"], "port": "http", "when": "2030-01-01T00:00:00Z", "pick": "x"});
        assert_eq!(reasons(&schema, &good), []);
    }

    #[test]
    fn paths_lead_through_lists() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "required": ["a"]}}}}}});
        let found = reasons(&schema, &json!({"spec": {"list": [{"a": 1}, {}]}}));
        assert_eq!(found, [("FieldValueRequired", "spec.list[1].a".to_owned())]);
    }
}
