//! In-place edits of random objects in random texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fmt::Write;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_manifest::{
    canonical::{encode, normalize},
    edit::{EditError, Selector, edit, remove, replace},
    parse::{Limits, parse},
};

/// How a text is laid out.
#[derive(Debug, Clone)]
struct Looks {
    step: usize,
    list: usize,
    crlf: bool,
    final_break: bool,
    /// One bit for each choice, used up one after the other.
    dice: Vec<u8>,
}

fn looks() -> impl Strategy<Value = Looks> {
    (2..5_usize, 0..3_usize, any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 64))
        .prop_map(|(step, list, crlf, final_break, dice)| Looks { step, list, crlf, final_break, dice })
}

/// Writes objects with comments and mixed styles.
struct Printer {
    looks: Looks,
    out: String,
    thrown: usize,
    comments: usize,
}

impl Printer {
    fn throw(&mut self, sides: u8) -> u8 {
        let dice = self.looks.dice[self.thrown % self.looks.dice.len()];
        self.thrown += 1;
        dice % sides
    }

    fn comment_line(&mut self, indent: usize) {
        if self.throw(5) == 0 {
            writeln!(self.out, "{}# above {}", " ".repeat(indent), self.comments).unwrap();
            self.comments += 1;
        } else if self.throw(9) == 0 {
            self.out.push('\n');
        }
    }

    fn trailing(&mut self) {
        if self.throw(5) == 0 {
            write!(self.out, " # beside {}", self.comments).unwrap();
            self.comments += 1;
        }
        self.out.push('\n');
    }

    fn scalar(&mut self, value: &Value) -> String {
        let canonical = encode(&json!({ "k": value }));
        match value.as_str() {
            Some(_) if self.throw(3) == 0 => json_text(value),
            Some(text) if self.throw(3) == 0 && text.chars().all(|c| (' '..='~').contains(&c)) => {
                format!("'{}'", text.replace('\'', "''"))
            }
            _ => match canonical.strip_prefix("k: ").filter(|rest| rest.lines().count() == 1) {
                Some(rest) => rest.trim_end_matches('\n').to_owned(),
                None => json_text(value),
            },
        }
    }

    fn value(&mut self, value: &Value, indent: usize, after_dash: bool) {
        match value {
            Value::Object(map) if !map.is_empty() && self.throw(6) > 0 => {
                if !after_dash {
                    self.trailing();
                }
                let inner = if after_dash { indent + 2 } else { indent + self.looks.step };
                self.map(map, inner, after_dash);
            }
            Value::Array(items) if !items.is_empty() && self.throw(6) > 0 => {
                if !after_dash {
                    self.trailing();
                }
                let inner = if after_dash { indent + 2 } else { indent + self.looks.list };
                for (at, item) in items.iter().enumerate() {
                    if at > 0 || !after_dash {
                        self.comment_line(inner);
                        self.out.push_str(&" ".repeat(inner));
                    }
                    self.out.push_str("- ");
                    self.value(item, inner, true);
                }
            }
            Value::Object(_) | Value::Array(_) => {
                let lead = if after_dash { "" } else { " " };
                write!(self.out, "{lead}{}", json_text(value)).unwrap();
                self.trailing();
            }
            Value::String(text) if is_block(text) => {
                let lead = if after_dash { "" } else { " " };
                let chomp = if text.ends_with('\n') { "" } else { "-" };
                write!(self.out, "{lead}|{chomp}").unwrap();
                self.trailing();
                for line in text.lines() {
                    writeln!(self.out, "{}{line}", " ".repeat(indent + self.looks.step)).unwrap();
                }
            }
            leaf => {
                let lead = if after_dash { "" } else { " " };
                let text = self.scalar(leaf);
                write!(self.out, "{lead}{text}").unwrap();
                self.trailing();
            }
        }
    }

    fn map(&mut self, map: &Map<String, Value>, indent: usize, after_dash: bool) {
        for (at, (key, value)) in map.iter().enumerate() {
            if at > 0 || !after_dash {
                self.comment_line(indent);
                self.out.push_str(&" ".repeat(indent));
            }
            let key = self.scalar(&Value::String(key.clone()));
            write!(self.out, "{key}:").unwrap();
            self.value(value, indent, false);
        }
    }
}

/// JSON without characters that YAML wants escaped.
fn json_text(value: &Value) -> String {
    let mut out = String::new();
    for c in serde_json::to_string(value).unwrap().chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

/// Whether it can be written line by line. `lines` passes a carriage return over, which such a block would lose.
fn is_block(text: &str) -> bool {
    text.lines().count() > 1
        && !text.contains('\r')
        && !text.ends_with("\n\n")
        && text.lines().all(|line| !line.is_empty() && line.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn print(objects: &[Value], looks: &Looks) -> String {
    let mut printer = Printer { looks: looks.clone(), out: String::new(), thrown: 0, comments: 0 };
    for (at, object) in objects.iter().enumerate() {
        if at > 0 || printer.throw(2) == 0 {
            printer.out.push_str("---\n");
        }
        printer.map(object.as_object().unwrap(), 0, false);
    }
    let mut text = printer.out;
    // A block of text in the last line would lose its own line break.
    let short = text.trim_end_matches('\n');
    let same = |text: &str| {
        parse(text, &Limits::default())
            .is_ok_and(|found| found.iter().zip(objects).all(|(d, o)| d.value == *o))
    };
    if !looks.final_break && same(short) {
        text.truncate(short.len());
    }
    if looks.crlf { text.replace('\n', "\r\n") } else { text }
}

/// Strings as manifests have them, with a hostile one now and then.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[a-z]{1,6}", 2 => common::hostile(), 1 => "[a-z]{1,4}\n[a-z]{1,4}\n?"]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => text().prop_map(Value::String),
        2 => (0..100_i64).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let named = prop::collection::btree_map("[a-d]", inner.clone(), 0..4).prop_map(|items| {
            items
                .into_iter()
                .map(|(name, value)| json!({ "name": name, "value": value }))
                .collect::<Vec<_>>()
                .into()
        });
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            1 => named,
            3 => prop::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-z]{1,6}", tree()), 1..5).prop_map(|members| {
        let mut object = json!({ "apiVersion": "v1", "kind": "Thing" });
        object.as_object_mut().unwrap().extend(members);
        normalize(&mut object);
        object
    })
}

/// Changes a few random places of a value.
fn mutate(value: &mut Value, new: &[Value], dice: &mut impl Iterator<Item = u8>) {
    let mut throw = |sides: usize| usize::from(dice.next().unwrap_or(0)) % sides.max(1);
    let fresh = new[throw(new.len())].clone();
    let choice = throw(4);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(throw(map.len())).unwrap().clone();
            match choice {
                0 => drop(map.shift_remove(&key)),
                1 => drop(map.insert(format!("new{}", throw(9)), fresh)),
                2 => drop(map.insert(key, fresh)),
                _ => mutate(map.get_mut(&key).unwrap(), new, dice),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = throw(items.len());
            match choice {
                0 => drop(items.remove(at)),
                1 => items.insert(at, fresh),
                2 => items.push(fresh),
                _ => mutate(&mut items[at], new, dice),
            }
        }
        other => *other = fresh,
    }
}

fn comments(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split_once("# above ").or_else(|| line.split_once("# beside ")))
        .map(|(_, number)| number.trim_end().to_owned())
        .collect()
}

/// Whether everything that `old` has stays in `new`, with other scalars at most: then no comment may be lost.
fn only_grows(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !old.is_empty() => {
            old.iter().all(|(key, value)| new.get(key).is_some_and(|new| only_grows(value, new)))
        }
        (Value::Array(old), Value::Array(new)) if !old.is_empty() => old == new,
        (old, new) => {
            !old.is_object() && !old.is_array() && !new.is_object() && !new.is_array() || old == new
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_says_just_what_is_wanted_and_keeps_all_else(
        objects in prop::collection::vec(object(), 1..4),
        new in prop::collection::vec(tree(), 1..4),
        looks in looks(),
        dice in prop::collection::vec(any::<u8>(), 40),
        which in 0..4_usize,
        changes in 1..4_usize,
    ) {
        let limits = Limits::default();
        let text = print(&objects, &looks);
        let found: Vec<Value> = parse(&text, &limits).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?
            .into_iter().map(|d| d.value).collect();
        prop_assert_eq!(&found, &objects, "the printer is wrong\n{}", text);

        let which = which % objects.len();
        let at = Selector { document: which, item: None };
        prop_assert_eq!(edit(&text, at, &objects[which], &limits).unwrap(), text.clone());

        let mut wanted = objects[which].clone();
        let mut dice = dice.into_iter();
        for _ in 0..changes {
            mutate(&mut wanted, &new, &mut dice);
        }
        normalize(&mut wanted);
        if !wanted.is_object() || wanted.as_object().unwrap().is_empty() {
            return Ok(());
        }
        let edited = match edit(&text, at, &wanted, &limits) {
            Ok(edited) => edited,
            Err(EditError::Templated { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}\nwanted {wanted}"))),
        };
        let after: Vec<Value> = parse(&edited, &limits).unwrap().into_iter().map(|d| d.value).collect();
        let mut expected = objects.clone();
        expected[which] = wanted.clone();
        prop_assert_eq!(after, expected);

        // The other documents keep their bytes.
        let eol = if looks.crlf { "\r\n" } else { "\n" };
        let marker = format!("---{eol}");
        let parts = |text: &str| -> Vec<String> {
            text.strip_prefix(&marker).unwrap_or(text).split(&format!("{eol}{marker}")).map(str::to_owned).collect()
        };
        let (old, new) = (parts(&text), parts(&edited));
        if old.len() == objects.len() && new.len() == objects.len() {
            for (at, (old, new)) in old.iter().zip(&new).enumerate() {
                prop_assert!(at == which || old == new, "document {at} changed\n{text}\n=>\n{edited}");
            }
        }
        if only_grows(&objects[which], &wanted) {
            prop_assert_eq!(comments(&text), comments(&edited), "comments\n{}\n=>\n{}", text, edited);
        }
        let breaks = if looks.crlf { edited.matches('\n').count() } else { 0 };
        prop_assert_eq!(edited.matches('\r').count(), breaks, "mixed line breaks");
    }

    #[test]
    fn removing_and_replacing_leave_the_other_documents_alone(
        objects in prop::collection::vec(object(), 1..4),
        wanted in object(),
        looks in looks(),
        which in 0..4_usize,
    ) {
        let limits = Limits::default();
        let text = print(&objects, &looks);
        let which = which % objects.len();
        let at = Selector { document: which, item: None };

        let replaced = replace(&text, at, &wanted, &limits).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        let mut expected = objects.clone();
        expected[which] = wanted;
        let found: Vec<Value> = parse(&replaced, &limits).unwrap().into_iter().map(|d| d.value).collect();
        prop_assert_eq!(&found, &expected);

        let removed = remove(&text, at, &limits).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        expected.remove(which);
        match removed {
            None => prop_assert!(expected.is_empty()),
            Some(removed) => {
                let found: Vec<Value> = parse(&removed, &limits).unwrap().into_iter().map(|d| d.value).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
