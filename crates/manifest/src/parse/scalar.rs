//! What a scalar means: the words and numbers of YAML 1.1 as Kubernetes' reader resolves them.
//!
//! The facts are those of sigs.k8s.io/yaml 1.6; `tests/parse.rs` holds a table of its answers.

use base64::{Engine, alphabet, engine};
use granit_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

use super::{ParseError, Position};

/// The namespace of `!!` tags.
const CORE: &str = "tag:yaml.org,2002:";

/// What a plain scalar is. The value of a float is exact: the shortest digits give the same bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond i64.
    Uint(u64),
    /// May be infinite or not a number, which JSON cannot hold.
    Float(f64),
    Text,
}

/// Resolves a scalar without quotes and without tag.
pub(crate) fn resolve_plain(text: &str) -> Plain {
    match text.as_bytes().first() {
        None => Plain::Null,
        Some(b'~' | b'n' | b'N' | b'y' | b'Y' | b't' | b'T' | b'f' | b'F' | b'o' | b'O') => word(text),
        Some(b'.') => dotted(text),
        Some(b'+' | b'-' | b'0'..=b'9') => number(text),
        Some(_) => Plain::Text,
    }
}

fn word(text: &str) -> Plain {
    match text {
        "~" | "null" | "Null" | "NULL" => Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Plain::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Plain::Bool(false)
        }
        _ => Plain::Text,
    }
}

/// What starts with a dot: here an underscore must stand between digits.
fn dotted(text: &str) -> Plain {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => return Plain::Float(f64::INFINITY),
        _ => {}
    }
    if !text.contains('_') {
        return decimal(text);
    }
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separated = |at: usize| digit(at.checked_sub(1)) && digit(at.checked_add(1));
    if (0..bytes.len()).all(|at| bytes[at] != b'_' || separated(at)) {
        decimal(&text.replace('_', ""))
    } else {
        Plain::Text
    }
}

fn number(text: &str) -> Plain {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Plain::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Plain::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let cleaned;
    let plain = if text.contains('_') {
        cleaned = text.replace('_', "");
        cleaned.as_str()
    } else {
        text
    };
    if let Some(found) = integer(plain) {
        return found;
    }
    if let found @ Plain::Float(_) = decimal(plain) {
        return found;
    }
    // A sign after the prefix is an oddity of the reader that is followed here.
    match plain.strip_prefix("0b").and_then(|digits| i64::from_str_radix(digits, 2).ok()) {
        Some(value) => Plain::Int(value),
        None => Plain::Text,
    }
}

/// Integers by prefix: `0x`, `0o`, `0b`, a leading zero for octal, else decimal.
fn integer(text: &str) -> Option<Plain> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let bytes = unsigned.as_bytes();
    let (radix, digits) = match bytes {
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0'] => return Some(Plain::Int(0)),
        [b'0', ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(value) {
        Ok(value) if negative => Some(Plain::Int(-value)),
        Ok(value) => Some(Plain::Int(value)),
        Err(_) if negative && value == i64::MIN.unsigned_abs() => Some(Plain::Int(i64::MIN)),
        // A sign is not allowed beyond i64: such a number is a float.
        Err(_) if unsigned.len() == text.len() => Some(Plain::Uint(value)),
        Err(_) => None,
    }
}

fn decimal(text: &str) -> Plain {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && is_decimal(text) => Plain::Float(value),
        _ => Plain::Text,
    }
}

/// `[-+]? ( . digits | digits ( . digits? )? ) ( [eE] [-+]? digits )?`
pub(crate) fn is_decimal(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
    let sign = |at: usize| usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let mut at = sign(0);
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + sign(at + 1);
        let exponent = digits(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len()
}

/// A float as the API server stores it: one without fraction within i64 is an integer, since Kubernetes writes `1.0` as
/// `1` and reads that back as an integer. `None` for what JSON cannot hold.
pub(crate) fn float(value: f64) -> Option<Number> {
    /// Up to here every integer is exact as f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within i64, as just checked")]
        return Some(Number::from(value as i64));
    }
    if value.fract() == 0.0 && value.abs() < 1e19 {
        // Beyond that the shortest digits decide, filled with zeros: they are what is written and read back.
        if let Ok(value) = value.to_string().parse::<i64>() {
            return Some(Number::from(value));
        }
    }
    Number::from_f64(value)
}

/// A scalar as the parser reports it.
pub(super) struct Scalar<'a> {
    pub text: &'a str,
    pub style: ScalarStyle,
    pub tag: Option<&'a Tag>,
    pub position: Position,
}

impl Scalar<'_> {
    /// Whether this key merges its value into the map.
    pub fn is_merge(&self) -> bool {
        let plain = self.style == ScalarStyle::Plain && self.tag.is_none();
        self.text == "<<" && (plain || self.core_tag().as_deref() == Some("merge"))
    }

    fn core_tag(&self) -> Option<std::borrow::Cow<'_, str>> {
        self.tag.and_then(|tag| tag.suffix_in_namespace(CORE))
    }

    /// The value, without copying the text where it is no string.
    pub fn resolve(&self) -> Result<Resolved, ParseError> {
        if self.tag.is_none() {
            let plain = self.style == ScalarStyle::Plain;
            return Ok(if plain { resolve_plain(self.text).into() } else { Resolved::Plain(Plain::Text) });
        }
        let wrong = |tag: &str| ParseError::Tag { position: self.position, tag: format!("!!{tag}") };
        let Some(tag) = self.core_tag() else { return Ok(Resolved::Plain(Plain::Text)) };
        let plain = resolve_plain(self.text);
        match (&*tag, plain) {
            ("int", Plain::Int(_) | Plain::Uint(_)) | ("bool", Plain::Bool(_)) | ("null", Plain::Null) => {
                Ok(plain.into())
            }
            ("float", Plain::Float(_) | Plain::Int(_) | Plain::Uint(_)) => Ok(plain.into()),
            ("timestamp", _) if is_timestamp(self.text) => Ok(Plain::Text.into()),
            ("binary", _) => decode(self.text).map(Resolved::Decoded).ok_or_else(|| wrong("binary")),
            ("int" | "bool" | "null" | "float" | "timestamp", _) => Err(wrong(&tag)),
            _ => Ok(Plain::Text.into()),
        }
    }

    /// The scalar as a value.
    pub fn value(&self) -> Result<Value, ParseError> {
        Ok(match self.resolve()? {
            Resolved::Plain(Plain::Text) => Value::String(self.text.to_owned()),
            Resolved::Plain(Plain::Null) => Value::Null,
            Resolved::Plain(Plain::Bool(value)) => Value::Bool(value),
            Resolved::Plain(Plain::Int(value)) => Value::Number(value.into()),
            Resolved::Plain(Plain::Uint(value)) => Value::Number(value.into()),
            Resolved::Plain(Plain::Float(value)) => {
                Value::Number(float(value).ok_or(ParseError::NotFinite { position: self.position })?)
            }
            Resolved::Decoded(text) => Value::String(text),
        })
    }

    /// The scalar as a key: numbers and booleans become their text.
    pub fn key(&self) -> Result<String, ParseError> {
        let refused = |found| ParseError::Key { position: self.position, found };
        Ok(match self.resolve()? {
            Resolved::Plain(Plain::Text) => self.text.to_owned(),
            Resolved::Plain(Plain::Null) => return Err(refused("null")),
            Resolved::Plain(Plain::Bool(value)) => value.to_string(),
            Resolved::Plain(Plain::Int(value)) => value.to_string(),
            Resolved::Plain(Plain::Uint(_)) => return Err(refused("an integer beyond 64 bits")),
            Resolved::Plain(Plain::Float(value)) => float_key(value),
            Resolved::Decoded(text) => text,
        })
    }
}

/// What a scalar turned out to be.
pub(super) enum Resolved {
    Plain(Plain),
    /// The text of `!!binary`.
    Decoded(String),
}

impl From<Plain> for Resolved {
    fn from(plain: Plain) -> Self {
        Self::Plain(plain)
    }
}

/// A value that an alias puts in the place of a key.
pub(super) fn key_of(value: &Value, position: Position) -> Result<String, ParseError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(match number.as_f64() {
            Some(value) if number.is_f64() => float_key(value),
            _ => number.to_string(),
        }),
        other => Err(ParseError::Key { position, found: super::error::kind_of(other) }),
    }
}

/// A float as key, in the shortest form of 32 bits, with an exponent below 1e-4 and from 1e6 on: what Kubernetes' reader
/// makes of it.
fn float_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the reader formats with 32 bits")]
    let short = value as f32;
    if short.is_nan() {
        return ".nan".to_owned();
    }
    if short.is_infinite() {
        return if short > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{short:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || short == 0.0 {
        return format!("{short}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Base64 with padding, line breaks ignored; bytes that are not UTF-8 become U+FFFD, as in Kubernetes' reader.
fn decode(text: &str) -> Option<String> {
    const ENGINE: engine::GeneralPurpose = engine::GeneralPurpose::new(
        &alphabet::STANDARD,
        engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let packed: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let bytes = ENGINE.decode(packed).ok()?;
    Some(lossy_per_byte(&bytes))
}

/// One U+FFFD for each byte that does not fit.
fn lossy_per_byte(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Whether the text reads as a date, or a date and a time.
fn is_timestamp(text: &str) -> bool {
    let split = text.find(['T', 't', ' ']);
    let (date, time) = split.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
    let field = |text: &str, most: usize, range: std::ops::RangeInclusive<u32>| {
        !text.is_empty()
            && text.len() <= most
            && text.bytes().all(|b| b.is_ascii_digit())
            && text.parse().is_ok_and(|value| range.contains(&value))
    };
    let mut parts = date.splitn(3, '-');
    let year = parts.next().is_some_and(|year| year.len() == 4 && field(year, 4, 0..=9999));
    let month = parts.next().is_some_and(|month| field(month, 2, 1..=12));
    let day = parts.next().is_some_and(|day| field(day, 2, 1..=31));
    let time = time.is_none_or(|time| {
        let clock = time.find(['Z', '+', '-']).map_or(time, |at| &time[..at]);
        let mut parts = clock.splitn(3, ':');
        parts.next().is_some_and(|hour| field(hour, 2, 0..=23))
            && parts.next().is_some_and(|minute| field(minute, 2, 0..=59))
            && parts.next().is_some_and(|second| field(second.split('.').next().unwrap_or(""), 2, 0..=59))
    });
    year && month && day && time
}
