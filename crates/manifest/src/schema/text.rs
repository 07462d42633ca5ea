//! Reads `built_in.txt`.
//!
//! ```text
//! kind apps/v1 Deployment apps.v1.Deployment
//! type core.v1.ContainerPort containerPort hostIP hostPort name protocol="TCP"
//! type !core.v1.SecretKeySelector key name optional
//! ```
//!
//! A field is a name, a shape after `:` unless it is a plain scalar, and a default after `=`. Shapes: `q` quantity, `i`
//! integer or text, `t` time, `b` base64, `*` anything, `@Type`, `{shape}` map, `[shape]` atomic list, `<shape>` set,
//! `(key,key)shape` list by keys; `!` before a map or a type: replaced as a whole.

use std::collections::HashMap;

use serde_json::Value;

use super::{Field, ListKind, Root, Schema, Shape, Type, TypeId, defaults};

/// Reads the text. Lines that it does not understand are left out: their fields are simply not known. A test checks
/// that the file as it is leaves nothing out.
pub(super) fn read(text: &str) -> Schema {
    let mut names: HashMap<&str, TypeId> = HashMap::new();
    let types = text.lines().filter_map(|line| line.strip_prefix("type "));
    for (at, name) in types.clone().filter_map(|line| line.split(' ').next()).enumerate() {
        names.insert(name.trim_start_matches('!'), TypeId(at));
    }
    let mut schema = Schema::default();
    for line in types {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let (atomic, name) = name.strip_prefix('!').map_or((false, name), |name| (true, name));
        let mut fields: Vec<Field> = words.filter_map(|word| field(word, &names)).collect();
        defaults::note(name, &mut fields);
        schema.add_type(Type { fields, atomic });
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("kind ")) {
        let mut words = line.split(' ');
        if let (Some(api_version), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
            && let Some(id) = names.get(name)
        {
            schema.insert(api_version, kind, Root { id: *id, drops_zeros: true });
        }
    }
    schema
}

fn field(word: &str, names: &HashMap<&str, TypeId>) -> Option<Field> {
    let (word, default) = match word.split_once('=') {
        Some((word, default)) => (word, Some(serde_json::from_str::<Value>(default).ok()?)),
        None => (word, None),
    };
    let (name, shape) = match word.split_once(':') {
        Some((name, text)) => (name, shape(text, names)?),
        None => (word, Shape::Scalar),
    };
    Some(Field { name: name.to_owned(), shape, default, filled: false })
}

fn shape(text: &str, names: &HashMap<&str, TypeId>) -> Option<Shape> {
    let (atomic, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let inner = |close: char| {
        let text = text.get(1..)?.strip_suffix(close)?;
        shape(text, names).map(Box::new)
    };
    Some(match text.as_bytes().first()? {
        b's' => Shape::Scalar,
        b'q' => Shape::Quantity,
        b'i' => Shape::IntOrString,
        b't' => Shape::Time,
        b'b' => Shape::Bytes,
        b'*' => Shape::Any,
        b'@' => Shape::Struct(*names.get(text.get(1..)?)?),
        b'{' => Shape::Map { item: inner('}')?, atomic },
        b'[' => Shape::List { item: inner(']')?, kind: ListKind::Atomic },
        b'<' => Shape::List { item: inner('>')?, kind: ListKind::Set },
        b'(' => {
            let (keys, item) = text.get(1..)?.split_once(')')?;
            let keys = keys.split(',').map(str::to_owned).collect();
            Shape::List { item: Box::new(shape(item, names)?), kind: ListKind::Keyed(keys) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_line_of_the_file_is_understood() {
        let text = include_str!("built_in.txt");
        let schema = read(text);
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("type ")).collect();
        assert!(types.len() > 300, "{}", types.len());
        assert_eq!(schema.types.len(), types.len());
        for (line, known) in types.iter().zip(&schema.types) {
            assert_eq!(line.split(' ').count() - 1, known.fields.len(), "{line}");
        }
        let kinds = text.lines().filter(|line| line.starts_with("kind ")).count();
        assert_eq!(schema.kinds.len(), kinds);
        assert!(kinds > 50, "{kinds}");
        for line in text.lines() {
            assert!(["kind ", "type ", "# "].iter().any(|start| line.starts_with(start)), "{line}");
        }
    }
}
