//! One segment of a path, safe on every file system.
//!
//! Lower case letters, digits, `-`, `_` and inner dots stay as they are, which is nearly every name in a cluster. Every
//! other byte becomes `%` and two lower case hex digits: upper case letters too, so that no two segments differ by case
//! alone. A dot at either end is escaped (hidden files, `..`, and Windows, which drops a last dot), and so is the first
//! letter of a name that Windows keeps for devices (`con`, `nul.x`).

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// What file systems allow in one segment.
pub const MOST_BYTES: usize = 255;
/// Bytes of the digest that stands in for the tail of a long name, as hex digits.
const DIGEST_DIGITS: usize = 32;
/// Stands before the digest. Never made by escaping, so that a cut name is known by it.
const CUT: char = '~';

/// Makes segments.
pub(super) struct Segment;

/// What a segment stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decoded {
    /// The text.
    Whole(String),
    /// The text was too long; a digest took the place of its tail.
    Cut,
}

impl Segment {
    /// A folder's name; `None` when it is too long.
    pub(super) fn folder(text: &str, escape_first: bool) -> Option<String> {
        Some(escape(text, escape_first)).filter(|folder| folder.len() <= MOST_BYTES)
    }

    /// A file's name, to which `extension` will be added. Too long a name is cut, and ends in a digest of the whole.
    pub(super) fn file(text: &str, extension: &str) -> String {
        let most = MOST_BYTES - extension.len();
        let mut file = escape(text, false);
        if file.len() <= most {
            return file;
        }
        let mut keep = most - DIGEST_DIGITS - CUT.len_utf8();
        // Not in the middle of an escape: `%` and both of its digits stay together.
        let bytes = file.as_bytes();
        while bytes[keep - 1] == b'%' || bytes[keep - 2] == b'%' {
            keep -= 1;
        }
        file.truncate(keep);
        file.push(CUT);
        for byte in &Sha256::digest(text.as_bytes())[..DIGEST_DIGITS / 2] {
            push_hex(&mut file, *byte);
        }
        file
    }
}

/// What a segment stands for; `None` when it holds what [`Segment`] never writes. More is accepted than is ever
/// written (`%61` for `a`): encode again and compare to be sure.
pub(super) fn decode(text: &str) -> Option<Decoded> {
    if let Some((_, digest)) = text.rsplit_once(CUT) {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        return (digest.len() == DIGEST_DIGITS && digest.bytes().all(hex)).then_some(Decoded::Cut);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let (high, low) = (nibble(bytes.next()?)?, nibble(bytes.next()?)?);
                out.push(high << 4 | low);
            }
            _ if is_plain(byte) => out.push(byte),
            _ => return None,
        }
    }
    String::from_utf8(out).ok().filter(|text| !text.is_empty()).map(Decoded::Whole)
}

fn escape(text: &str, escape_first: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    let escape_first = escape_first || is_device(text);
    for (at, byte) in text.bytes().enumerate() {
        let at_edge = at == 0 || at == last;
        if !is_plain(byte) || (byte == b'.' && at_edge) || (at == 0 && escape_first) {
            out.push('%');
            push_hex(&mut out, byte);
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
}

/// Names that Windows keeps for devices, also with anything after a dot. Upper case does not matter here: such a name
/// is escaped anyway.
pub(super) fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default().trim_end_matches(' ');
    match stem {
        "con" | "prn" | "aux" | "nul" => true,
        _ => stem
            .strip_prefix("com")
            .or_else(|| stem.strip_prefix("lpt"))
            .is_some_and(|port| port.len() == 1 && port.as_bytes()[0].is_ascii_digit()),
    }
}

fn push_hex(out: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{byte:02x}");
}

fn nibble(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
