//! Values as hostile as they may come, for the property tests.
#![allow(dead_code)]

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Pieces that have a meaning somewhere in YAML.
const PIECES: &[&str] = &[
    "a",
    "b",
    "key",
    "y",
    "n",
    "yes",
    "No",
    "on",
    "OFF",
    "true",
    "null",
    "~",
    "0",
    "1",
    "9",
    "0x1f",
    "0o7",
    "0b1",
    "1e3",
    ".5",
    "-.inf",
    ".nan",
    "12:30",
    "2001-01-01",
    "1_000",
    "=",
    "<<",
    "-",
    "?",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "#",
    "&",
    "*",
    "!",
    "|",
    ">",
    "'",
    "\"",
    "%",
    "@",
    "`",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    ": ",
    " #",
    "- ",
    "---",
    "...",
    "\\",
    "\0",
    "\u{7}",
    "\u{1b}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffe}",
    "\u{ffff}",
    "é",
    "字",
    "😀",
    "\u{10ffff}",
    "{{",
    "}}",
    "$",
    "word word",
];

/// Strings of such pieces.
pub fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(PIECES), 0..6).prop_map(|pieces| pieces.concat()),
        2 => "[a-z]{1,8}",
        1 => any::<String>(),
        1 => "[-+.0-9_eExob:a-f, ]{0,8}",
        1 => "[ \t\nab#:-]{0,12}",
    ]
}

/// Any number that JSON holds.
pub fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000_i32).prop_map(Value::from),
        any::<f64>().prop_map(|value| serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)),
        (-10_000..10_000_i32).prop_map(|value| Value::from(f64::from(value) / 8.0)),
    ]
}

/// Any value that is no collection.
pub fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        2 => number(),
        6 => hostile().prop_map(Value::String),
    ]
}

/// Any value.
pub fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((hostile(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Any map: what an object is.
pub fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(
        (prop_oneof![hostile(), "(apiVersion|kind|metadata|spec|data|status)"], value()),
        1..6,
    )
    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}
