//! Hostile texts: each is refused by its own limit, in little time and memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write;

use windlass_manifest::parse::{Limits, ParseError, parse};

fn refused(text: &str, limits: &Limits) -> ParseError {
    parse(text, limits).expect_err("the bomb is refused")
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for n in 1..40 {
        let before = format!("*a{}, ", n - 1).repeat(9);
        writeln!(text, "a{n}: &a{n} [{}]", before.trim_end_matches(", ")).unwrap();
    }
    let error = refused(&text, &Limits::default());
    assert!(matches!(error, ParseError::TooManyAliases { .. }), "{error}");
    assert_eq!(error.category(), "limit");
}

#[test]
fn one_long_text_repeated_by_many_aliases_is_refused() {
    let mut text = format!("a: &a \"{}\"\nb:\n", "x".repeat(1 << 20));
    text.push_str(&"- *a\n".repeat(1000));
    assert!(matches!(refused(&text, &Limits::default()), ParseError::TooManyAliases { .. }));
}

#[test]
fn merges_of_merges_are_refused_as_aliases_are() {
    let mut text = String::from("m0: &m0 {");
    for n in 0..1000 {
        write!(text, "k{n}: {n}, ").unwrap();
    }
    text.push_str("}\n");
    for n in 1..1000 {
        writeln!(text, "m{n}: &m{n} {{<<: *m{}}}", n - 1).unwrap();
    }
    assert!(matches!(refused(&text, &Limits::default()), ParseError::TooManyAliases { .. }));
}

#[test]
fn deep_nesting_is_refused_in_every_style() {
    let deep = 100_000;
    let mut block = String::new();
    for n in 0..2_000 {
        writeln!(block, "{}a:", " ".repeat(n)).unwrap();
    }
    for text in ["[".repeat(deep), "{a: ".repeat(deep), "- ".repeat(deep), "{\"a\":".repeat(deep), block] {
        let error = refused(&text, &Limits::default());
        assert!(matches!(error, ParseError::TooDeep { .. }), "{error}");
    }
}

#[test]
fn json_deeper_than_the_fast_reader_goes_is_read_up_to_the_limit() {
    let limits = Limits::default();
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parse(&nested(limits.depth), &limits).unwrap().len(), 1);
    assert!(matches!(refused(&nested(limits.depth + 1), &limits), ParseError::TooDeep { .. }));
}

#[test]
fn a_text_beyond_the_size_limit_is_not_looked_at() {
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let error = refused(&"[".repeat(1001), &limits);
    assert_eq!(error.to_string(), "the text has 1001 bytes, more than the limit of 1000; split the file");
}

#[test]
fn too_many_documents_are_refused_in_yaml_and_in_json() {
    let limits = Limits { documents: 10, ..Limits::default() };
    assert!(matches!(refused(&"---\na: 1\n".repeat(11), &limits), ParseError::TooManyDocuments { .. }));
    assert!(matches!(refused(&"{\"a\": 1}\n".repeat(11), &limits), ParseError::TooManyDocuments { .. }));
    assert_eq!(parse(&"---\na: 1\n".repeat(10), &limits).unwrap().len(), 10);
}

#[test]
fn too_many_values_are_refused_in_yaml_and_in_json() {
    let limits = Limits { nodes: 1000, ..Limits::default() };
    assert!(matches!(refused(&"- a\n".repeat(1001), &limits), ParseError::TooManyNodes { .. }));
    assert!(matches!(
        refused(&format!("[{}1]", "1,".repeat(1000)), &limits),
        ParseError::TooManyNodes { .. }
    ));
}

#[test]
fn a_map_of_a_hundred_thousand_keys_and_a_line_of_a_megabyte_are_read() {
    let mut text = String::new();
    for n in 0..100_000 {
        writeln!(text, "key-{n}: {n}").unwrap();
    }
    let documents = parse(&text, &Limits::default()).unwrap();
    assert_eq!(documents[0].value.as_object().unwrap().len(), 100_000);
    let long = "word ".repeat(200_000);
    let documents = parse(&format!("a: {long}\nb: \"{long}\"\n"), &Limits::default()).unwrap();
    assert_eq!(documents[0].value["a"].as_str().unwrap().len(), long.len() - 1);
}

#[test]
fn many_small_json_documents_do_not_take_the_square_of_their_time() {
    let one_line = "{} ".repeat(40_000);
    assert_eq!(parse(&one_line, &Limits::default()).unwrap().len(), 40_000);
}

#[test]
fn many_keys_that_override_a_merge_do_not_take_the_square_of_their_time() {
    let mut text = String::from("base: &b\n");
    for n in 0..30_000 {
        writeln!(text, "  key-{n}: 1").unwrap();
    }
    text.push_str("use:\n  <<: *b\n");
    for n in 0..30_000 {
        writeln!(text, "  key-{n}: 2").unwrap();
    }
    let documents = parse(&text, &Limits::default()).unwrap();
    assert_eq!(documents[0].value["use"]["key-29999"], 2);
}

#[test]
fn an_edit_of_a_map_with_very_many_keys_is_quick() {
    let mut text = String::new();
    let mut wanted = serde_json::Map::new();
    for n in 0..20_000 {
        writeln!(text, "key-{n:05}: 1").unwrap();
        wanted.insert(format!("key-{n:05}"), 1.into());
        wanted.insert(format!("key-{n:05}-new"), 2.into());
    }
    let at = windlass_manifest::edit::Selector { document: 0, item: None };
    let new = windlass_manifest::edit::edit(&text, at, &wanted.into(), &Limits::default()).unwrap();
    assert!(new.starts_with("key-00000: 1\nkey-00000-new: 2\nkey-00001: 1\n"));
}
