//! A fingerprint of an object that does not depend on the order of its keys.

use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

/// 32 bytes that differ when the objects do.
pub type Digest = [u8; 32];

/// The SHA-256 of an object. Equal objects have equal digests, in whatever order their keys stand, and `1.0` is `1`, as
/// it is to the API server; nothing else is forgiven: `null` is not absence, and `[]` is not.
///
/// The digest is stable: it may be stored and compared by later versions.
pub fn digest(value: &Value) -> Digest {
    let mut bytes = Vec::with_capacity(2048);
    write(value, &mut bytes);
    Sha256::digest(&bytes).into()
}

/// Every value starts with a letter for its type, and every text and container with its length, so that no two values
/// are written alike.
fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(false) => out.push(b'f'),
        Value::Bool(true) => out.push(b't'),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => {
            out.push(b's');
            write_text(text, out);
        }
        Value::Array(items) => {
            out.push(b'a');
            write_length(items.len(), out);
            for item in items {
                write(item, out);
            }
        }
        Value::Object(fields) => {
            out.push(b'o');
            write_length(fields.len(), out);
            let mut entries: Vec<(&String, &Value)> = fields.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in entries {
                write_text(name, out);
                write(value, out);
            }
        }
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    // Beyond 2^53 a float stands for the integer that its shortest digits are, as in the canonical form.
    let stored = number.as_f64().filter(|_| number.is_f64()).and_then(crate::parse::float);
    let number = stored.as_ref().unwrap_or(number);
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    if let Some(integer) = integer.or_else(|| number.as_f64().and_then(whole)) {
        out.push(b'i');
        out.extend(integer.to_le_bytes());
    } else {
        out.push(b'd');
        out.extend(number.as_f64().unwrap_or(f64::NAN).to_bits().to_le_bytes());
    }
}

/// The integer that a float is, within the 64 bits that the API server has for integers.
fn whole(float: f64) -> Option<i128> {
    const LEAST: f64 = -9_223_372_036_854_775_808.0;
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    #[allow(clippy::cast_possible_truncation, reason = "checked: whole, and within bounds")]
    (float.fract() == 0.0 && (LEAST..BEYOND).contains(&float)).then_some(float as i128)
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend((length as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_change_a_digest() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": [1, 2], "d": "x"}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": {"d": "x", "c": [1, 2]}, "a": 1.0}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
    }

    #[test]
    fn a_number_has_the_digest_of_its_stored_form() {
        for number in [1.0, -0.0, 9.007_199_254_740_993e15, 1.234_567_890_123_456_7e18, -9.2e18, 1e19, 0.1] {
            let mut stored = json!({ "n": number });
            crate::canonical::normalize(&mut stored);
            assert_eq!(digest(&json!({ "n": number })), digest(&stored), "{number}");
        }
    }

    #[test]
    fn different_objects_have_different_digests() {
        let values = [
            json!(null),
            json!(false),
            json!(true),
            json!(0),
            json!(1),
            json!(-1),
            json!(0.5),
            json!(""),
            json!("0"),
            json!([]),
            json!([null]),
            json!([[]]),
            json!({}),
            json!({"a": null}),
            json!({"a": ""}),
            json!({"": "a"}),
            json!(["a", "b"]),
            json!(["b", "a"]),
            json!(["ab"]),
            json!({"a": {"b": 1}}),
            json!({"a": 1, "b": {}}),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1e300),
            json!(9_007_199_254_740_993_u64),
        ];
        for (at, one) in values.iter().enumerate() {
            for other in &values[at + 1..] {
                assert_ne!(digest(one), digest(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_digest_stays_the_same_from_version_to_version() {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
        let start =
            [0xb9, 0xe5, 0x10, 0xfc, 0x46, 0xe1, 0x66, 0xb0, 0x93, 0x2a, 0x38, 0x3a, 0xee, 0xc0, 0x16, 0xec];
        assert_eq!(digest(&object)[..16], start);
    }
}
