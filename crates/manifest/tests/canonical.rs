//! The canonical form: equal values, equal bytes, and every reader gets the value back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_manifest::{
    canonical::{encode, encode_all, normalize},
    parse::{Limits, parse},
};

fn read(text: &str) -> Value {
    let mut documents = parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(documents.len() <= 1, "{text}");
    documents.pop().map_or(Value::Null, |document| document.value)
}

fn normalized(value: &Value) -> Value {
    let mut value = value.clone();
    normalize(&mut value);
    value
}

/// The same value with its maps in another order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(map) => {
            map.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// What a plain reader of YAML 1.2 may lose: floats of another width are not the point here.
fn as_read_by_1_2(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(as_read_by_1_2).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), as_read_by_1_2(value))).collect::<Map<_, _>>().into()
        }
        Value::Number(number) if number.is_f64() => json!(number.as_f64()),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_value_comes_back_from_its_canonical_form(value in common::value()) {
        let text = encode(&value);
        prop_assert_eq!(read(&text), normalized(&value), "{}", text);
    }

    #[test]
    fn equal_values_have_equal_bytes(value in common::value()) {
        prop_assert_eq!(encode(&reversed(&value)), encode(&value));
        prop_assert_eq!(encode(&normalized(&value)), encode(&value));
    }

    #[test]
    fn the_canonical_form_of_the_canonical_form_is_itself(value in common::object()) {
        let text = encode(&value);
        prop_assert_eq!(encode(&read(&text)), text);
    }

    #[test]
    fn a_reader_of_yaml_1_2_gets_the_same_value(value in common::object()) {
        let text = encode(&value);
        let found: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(as_read_by_1_2(&found), as_read_by_1_2(&normalized(&value)), "{}", text);
    }

    #[test]
    fn many_documents_come_back_one_by_one(values in prop::collection::vec(common::object(), 1..5)) {
        let text = encode_all(&values);
        let found: Vec<Value> = parse(&text, &Limits::default()).unwrap().into_iter().map(|d| d.value).collect();
        let wanted: Vec<Value> = values.iter().map(normalized).collect();
        prop_assert_eq!(found, wanted, "{}", text);
    }
}

#[test]
fn an_object_looks_as_kubectl_prints_it_in_the_order_people_expect() {
    let object = json!({
        "status": {}, "data": {"b": "2", "a": "line one\nline two\n"}, "spec": {
            "containers": [
                {"name": "web", "image": "nginx:1.27", "args": ["-c", "--flag=x", "*"], "env": []},
                {"name": "side", "ports": [{"containerPort": 80}], "command": ["sh", "-c", "a\nb"]},
            ],
            "nested": [[1, 2], [], [{"a": {"b": null}}]],
        },
        "metadata": {"name": "x", "labels": {}, "annotations": {"z": "", "on": "off", "1": "1.10"}},
        "kind": "Pod", "apiVersion": "v1", "alpha": 1.5,
    });
    insta::assert_snapshot!(encode(&object), @r###"
    apiVersion: v1
    kind: Pod
    metadata:
      annotations:
        "1": "1.10"
        "on": "off"
        z: ""
      labels: {}
      name: x
    spec:
      containers:
      - args:
        - -c
        - --flag=x
        - '*'
        env: []
        image: nginx:1.27
        name: web
      - command:
        - sh
        - -c
        - |-
          a
          b
        name: side
        ports:
        - containerPort: 80
      nested:
      - - 1
        - 2
      - []
      - - a:
            b: null
    data:
      a: |
        line one
        line two
      b: "2"
    alpha: 1.5
    status: {}
    "###);
}

#[test]
fn strings_are_quoted_exactly_where_a_reader_would_take_them_for_something_else() {
    let plain = [
        "a",
        "nginx:1.27",
        "1.2.3",
        "10.0.0.1",
        "10.0.0.0/8",
        "http://x:80/",
        "100m",
        "1Gi",
        "-flag",
        "--flag=x",
        "a b",
        "a#b",
        "a:b",
        "?x",
        ":x",
        "v1",
        "2001-01-01x",
        "x: y"[..1].trim(),
        "_1",
        "1a",
        "é",
        "a,b",
        "a{b}",
        "$(X)",
        "0x",
        "0xg",
        "Yess",
        "nUll",
        "1.2.",
        "a'b",
        "a\"b",
        "10s",
        "5m30s",
        "1:2:3:x",
        "sha256:0123",
        "e5",
        "<",
        "<<x",
        "==",
        "/",
        "~x",
        "1-2",
    ];
    for text in plain {
        assert_eq!(encode(&json!({ "a": text })), format!("a: {text}\n"));
    }
    let quoted = [
        "",
        "y",
        "N",
        "yes",
        "Off",
        "true",
        "null",
        "~",
        "0",
        "-1",
        "+1",
        "1_000",
        "1,000",
        "0777",
        "0o7",
        "0x1F",
        "0b1",
        "089",
        "1.0",
        "1.",
        ".5",
        "1e3",
        "1e400",
        "99999999999999999999999",
        ".inf",
        "-.INF",
        ".NaN",
        "12:30",
        "190:20:30.15",
        "2001-01-01",
        "2001-12-14T21:59:43Z",
        "2001-12-14 21:59:43",
        "=",
        "<<",
        ".",
        "0x1FFFFFFFFFFFFFFFFFFF",
    ];
    for text in quoted {
        assert_eq!(encode(&json!({ "a": text })), format!("a: \"{text}\"\n"));
    }
    let single = [
        "*", "&a", "!x", "- a", "-", "?", ":", "a: b", "a #b", "a:", " a", "a ", "#", "[a]", "{a}", "@x",
        "`x", "%x", "|", ">", "'", "\"x\"", "---", "--- a", "...", ",a",
    ];
    for text in single {
        assert_eq!(encode(&json!({ "a": text })), format!("a: '{}'\n", text.replace('\'', "''")));
    }
}

#[test]
fn text_of_several_lines_is_a_block_where_a_block_can_say_it() {
    let cases = [
        ("a\nb", "a: |-\n  a\n  b\n"),
        ("a\nb\n", "a: |\n  a\n  b\n"),
        ("a\n\n\n", "a: |+\n  a\n\n\n"),
        ("a\n\nb\n", "a: |\n  a\n\n  b\n"),
        (" a\nb\n", "a: |2\n   a\n  b\n"),
        ("\na\n", "a: |2\n\n  a\n"),
        ("a \n\tb\n", "a: |\n  a \n  \tb\n"),
        ("# no comment\n--- x\n", "a: |\n  # no comment\n  --- x\n"),
        ("\n", "a: \"\\n\"\n"),
        ("a\r\nb", "a: \"a\\r\\nb\"\n"),
        ("\ta\nb", "a: \"\\ta\\nb\"\n"),
        ("a\u{2028}\nb", "a: \"a\\u2028\\nb\"\n"),
        ("a\u{7}\n", "a: \"a\\x07\\n\"\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(encode(&json!({ "a": text })), expected);
    }
}

#[test]
fn numbers_are_written_as_every_reader_takes_them() {
    let cases = [
        (json!(1.0), "1"),
        (json!(-0.0), "0"),
        (json!(1.5), "1.5"),
        (json!(1e21), "1.0e+21"),
        (json!(1.5e-7), "1.5e-7"),
        (json!(1e-7), "1.0e-7"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(1e19), "1.0e+19"),
    ];
    for (number, expected) in cases {
        assert_eq!(encode(&json!({ "a": number })), format!("a: {expected}\n"));
    }
}

#[test]
fn a_very_long_key_is_written_so_that_readers_find_its_colon() {
    let key = "k".repeat(3000);
    for value in [json!("v"), json!({"a": {"b": 1}}), json!([1, [2]]), json!("x\ny\n"), json!({})] {
        let object = json!({ key.clone(): value, "other": [{ key.clone(): 1 }] });
        assert_eq!(read(&encode(&object)), object);
    }
}
