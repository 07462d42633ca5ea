//! Whatever can be read has one form that reads back the same, and any string survives in every place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use windlass_manifest::{
    canonical::encode,
    parse::{Limits, parse},
};

fn check(value: &Value) {
    let limits = Limits::default();
    let text = encode(value);
    let back = parse(&text, &limits).expect("the canonical form can be read");
    let back = back.into_iter().next().map_or(Value::Null, |document| document.value);
    assert_eq!(back, *value, "{text}");
    assert_eq!(encode(&back), text);
}

fuzz_target!(|text: &str| {
    let string = Value::String(text.to_owned());
    check(&json!({ "a": string, "b": [string, { "c": string }], text: { text: 1 } }));
    for document in parse(text, &Limits::default()).unwrap_or_default() {
        check(&document.value);
    }
});
