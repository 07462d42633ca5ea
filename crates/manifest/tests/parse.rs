//! Parsing: what Kubernetes' reader makes of a text, positions, limits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use windlass_manifest::parse::{Limits, ParseError, Position, locate, objects, parse, parse_bytes};

fn one(text: &str) -> Result<Value, ParseError> {
    let mut documents = parse(text, &Limits::default())?;
    Ok(if documents.is_empty() { Value::Null } else { documents.remove(0).value })
}

fn error(text: &str) -> String {
    one(text).expect_err("the text is refused").to_string()
}

/// Texts that are read otherwise than by Kubernetes' reader, on purpose.
const STRICTER: &[&str] = &[
    "a: 1\na: 2",     // The last one would win.
    "1: a\n\"1\": b", // The same, by another spelling.
    "{\"a\":1,\"a\":2}",
    // In JSON this is no string.
    "{\"a\":123456789.123456789,\"b\":0.1,\"c\":1e400}",
    "a: \u{feff}b", // A byte order mark in the middle of a text is an accident.
];

/// Texts that Kubernetes' reader refuses and this one takes: YAML 1.2 allows them, and they mean one thing only.
const LAXER: &[&str] = &[
    "%YAML 1.2\n---\na: 0o14",
    "...\n",
    "\ta: b",
    "-\ta",
    "a: \"\\x41\\/\\e\"",
    "a: \"\\ud83d\\ude00\"",
    "{\"a\":\"\\ud83d\\ude00\"}",
    "{\"a\":\"\\/\"}",
    "a: |\n  \tx\n",
];

/// Each line of the table is a text (as JSON string), a tab, and the JSON that sigs.k8s.io/yaml 1.6 makes of it.
#[test]
fn texts_are_read_as_kubernetes_reads_them() {
    let mut wrong = Vec::new();
    for line in include_str!("data/kubernetes-yaml.tsv").lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        let found = one(&text);
        let right = match (&found, expected) {
            (Ok(_), "error") => LAXER.contains(&text.as_str()),
            (Err(_), "error") => true,
            (Ok(value), expected) => stored(value.clone()) == stored(serde_json::from_str(expected).unwrap()),
            (Err(_), _) => STRICTER.contains(&text.as_str()),
        };
        if !right {
            wrong.push(format!("{text:?}: expected {expected}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The table has JSON as Go writes it, where `-0` is zero and a float beyond i64 may look like an integer.
fn stored(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => json!(0),
        Value::Number(number) if number.as_i64().is_none() => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(stored).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, stored(value))).collect(),
        other => other,
    }
}

#[test]
fn empty_documents_are_left_out_and_the_others_know_their_place() {
    let text = "# first\n---\n---\na: 1\n...\n---\n# nothing\n---\n  b: [2,\n   3]\n# end\n";
    let documents = parse(text, &Limits::default()).unwrap();
    let found: Vec<_> = documents.iter().map(|d| (d.position.to_string(), &text[d.range.clone()])).collect();
    assert_eq!(
        found,
        [("line 4, column 1".to_owned(), "a: 1"), ("line 9, column 3".to_owned(), "b: [2,\n   3]")]
    );
}

#[test]
fn lists_are_taken_apart_and_each_object_knows_its_place() {
    let text =
        "kind: List\napiVersion: v1\nitems:\n- kind: A\n- kind: B\n  spec: {items: [1]}\n---\nkind: C\n";
    let found = objects(parse(text, &Limits::default()).unwrap()).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|o| (o.value["kind"].as_str().unwrap(), o.document, o.item, o.position.line, o.position.column))
        .collect();
    assert_eq!(found, [("A", 0, Some(0), 4, 3), ("B", 0, Some(1), 5, 3), ("C", 1, None, 8, 1)]);
}

#[test]
fn a_kind_that_only_sounds_like_a_list_is_an_object() {
    for text in [
        "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [{a: 1}]",
        "apiVersion: example.com/v1\nkind: AllowList\nitems: {a: 1}",
        "apiVersion: example.com/v1\nkind: AllowList\nspec: {}\nitems: []",
        "apiVersion: example.com/v1\nkind: AllowList",
    ] {
        let found = objects(parse(text, &Limits::default()).unwrap()).unwrap();
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].item, None);
    }
    let empty = "apiVersion: v1\nkind: List\n";
    assert_eq!(objects(parse(empty, &Limits::default()).unwrap()).unwrap(), []);
}

#[test]
fn a_document_that_is_no_object_is_named_with_its_place() {
    let list = parse("a: 1\n---\n- b\n", &Limits::default()).unwrap();
    assert_eq!(
        objects(list).unwrap_err().to_string(),
        "line 3, column 1: expected an object (a map), found a list"
    );
    let item = parse("apiVersion: v1\nkind: List\nitems:\n- a: 1\n- text\n", &Limits::default()).unwrap();
    assert_eq!(
        objects(item).unwrap_err().to_string(),
        "line 5, column 3: expected an object (a map), found a string"
    );
}

#[test]
fn errors_name_the_place_and_the_key_but_never_a_value() {
    let cases = [
        (
            "a: 1\nb:\n  x: hunter2\n  x: hunter3\n",
            r#"line 4, column 3: the key "x" is already set at line 3, column 3; keep one of them"#,
        ),
        (
            r#"{"a": "hunter2", "a": 1}"#,
            r#"line 1, column 18: the key "a" is already set at line 1, column 2; keep one of them"#,
        ),
        ("a: [hunter2\nb: c\n", "line 2, column 2:"),
        ("a: 'hunter2", "line 1, column 4:"),
        (
            "a: .inf",
            "line 1, column 4: JSON has no infinite numbers and no NaN; quote it to make it a string",
        ),
        ("a: !!int hunter2", "line 1, column 10: the value is no !!int; correct it or remove the tag"),
        ("{a: 1}: 2", "line 1, column 1: a map cannot be a key; quote it to make it a string"),
        ("~: 2", "line 1, column 1: null cannot be a key; quote it to make it a string"),
        ("<<: hunter2", "line 1, column 5: `<<` merges maps only"),
        ("a: &x [*x]", "line 1, column 8: the alias stands inside of the value it repeats"),
        ("a: *hunter2", "line 1, column 4:"),
        ("a: hunter2\u{2028}", "line 1, column 11: the character U+2028 is a line break for some readers"),
        ("{\"a\": \"hunter2\", \"b\": \"tru}", "line 1, column"),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.starts_with(expected), "{text:?}: {found}");
        assert!(!found.contains("hunter"), "{found}");
    }
}

#[test]
fn a_long_key_is_cut_in_errors() {
    let key = "k".repeat(500);
    let found = error(&format!("{key}: 1\n{key}: 2\n"));
    assert!(found.len() < 200, "{found}");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place_and_a_mark_is_skipped() {
    let limits = Limits::default();
    let error = parse_bytes(b"a: 1\nb: \xff\n", &limits).unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 4: the text is not UTF-8; save the file as UTF-8");
    assert_eq!(error.category(), "encoding");
    let documents = parse_bytes(b"\xef\xbb\xbfa: 1\n", &limits).unwrap();
    assert_eq!(documents[0].value, json!({"a": 1}));
    assert_eq!(documents[0].position, Position { line: 1, column: 1 });
}

#[test]
fn a_merge_yields_to_what_the_map_says_itself_afterwards() {
    let text = "base: &b {x: 1, w: 2}\nmore: &m {w: 3, z: 4}\nuse:\n  <<: [*b, *m]\n  x: 5\n";
    assert_eq!(one(text).unwrap()["use"], json!({"x": 5, "w": 2, "z": 4}));
    let error = error("base: &b {x: 1}\nuse:\n  <<: *b\n  x: 5\n  x: 6\n");
    assert!(
        error.starts_with("line 5, column 3: the key \"x\" is already set at line 4, column 3"),
        "{error}"
    );
}

#[test]
fn big_numbers_come_through_unchanged() {
    for text in
        ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "0.1", "1e-7", "1.5e300"]
    {
        for document in [format!("a: {text}"), format!("{{\"a\": {text}}}")] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(one(&document).unwrap()["a"], expected, "{document}");
        }
    }
}

#[test]
fn json_documents_one_after_the_other_are_read_with_their_places() {
    let text = "{\"a\": 1.0}\n{\"b\": [1, {\"c\": null}]} {}\n[1]";
    let documents = parse(text, &Limits::default()).unwrap();
    let found: Vec<_> =
        documents.iter().map(|d| (d.value.clone(), d.position.to_string(), &text[d.range.clone()])).collect();
    assert_eq!(
        found,
        [
            (json!({"a": 1}), "line 1, column 1".to_owned(), "{\"a\": 1.0}"),
            (json!({"b": [1, {"c": null}]}), "line 2, column 1".to_owned(), "{\"b\": [1, {\"c\": null}]}"),
            (json!({}), "line 2, column 25".to_owned(), "{}"),
            (json!([1]), "line 3, column 1".to_owned(), "[1]"),
        ]
    );
}

#[test]
fn a_field_is_found_in_the_text_by_its_pointer() {
    let text = "a: 1\n---\nspec:\n  é~/: x\n  list:\n  - name: y\n";
    let place = |pointer| locate(text, 1, pointer, &Limits::default()).map(|p| (p.line, p.column));
    assert_eq!(place("/spec/list/0/name"), Some((6, 11)));
    assert_eq!(place("/spec/é~0~1"), Some((4, 8)));
    assert_eq!(place(""), Some((3, 1)));
    assert_eq!(place("/spec/other"), None);
}

/// Kubernetes' reader does not ask how far right quoted text goes on; YAML 1.2 does.
#[test]
fn quoted_text_may_go_on_further_left_than_its_key() {
    let text = "a:\n  - x: 'one\n\n    it''s\n  two'\n    w: \"\\\" a\n b\" # c\n    z: ä\n---\nb: 1\n";
    let found = parse(text, &Limits::default()).unwrap();
    assert_eq!(found[0].value, json!({"a": [{"x": "one\nit's two", "w": "\" a b", "z": "ä"}]}));
    assert_eq!(&text[found[0].range.clone()], &text[..text.find("\n---").unwrap()]);
    assert_eq!(&text[found[1].range.clone()], "b: 1");
    assert_eq!((found[1].position.line, found[1].position.column), (10, 1));
    let at_root = parse("a: 'b\nc'\nd: \"e\nf\"\n", &Limits::default()).unwrap();
    assert_eq!(at_root[0].value, json!({"a": "b c", "d": "e f"}));
}

#[test]
fn quoted_text_that_ends_nowhere_is_still_refused() {
    let cases = [
        ("a: 'b\nc\n", "line 2, column 1"),
        ("a: 'b\n---\nc'\n", "line 2, column 1"),
        ("a: 'b\nc\n---\nd'\n", "line 3, column 1"),
        ("a: 'b\nc'\na: 1\n", "line 3, column 1: the key"),
        ("a: 'b\nc' d\n", "line "),
        ("a: \"b\nc\\q\"\n", "line 1, column 4: "),
    ];
    for (text, wanted) in cases {
        let error = parse(text, &Limits::default()).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text:?}: {error}");
    }
    let many = "a: 'b\nc'\n---\n".repeat(40);
    let error = parse(&many, &Limits::default()).unwrap_err();
    assert_eq!(error.category(), "syntax", "each one costs a reading, so that there is an end to it");
}
