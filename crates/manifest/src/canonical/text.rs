//! How a string is written: plain, in quotes, or as a block.

use crate::parse::{Plain, is_decimal, resolve_plain};

/// Where a scalar stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// In a block map or list.
    Block,
    /// Between `[]` or `{}`, where commas and brackets end a plain scalar.
    Flow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
}

/// Plain where it can be; double quotes for what would be another type (as `kubectl` does) and for what needs escapes;
/// single quotes for the rest.
pub(super) fn style(text: &str, context: Context) -> Style {
    if means_something_else(text) || !single_quoted_fits(text) {
        Style::Double
    } else if plain_syntax(text, context) {
        Style::Plain
    } else {
        Style::Single
    }
}

/// Whether the text can stand without quotes and still be this string.
pub(crate) fn plain_fits(text: &str, context: Context) -> bool {
    style(text, context) == Style::Plain
}

/// Whether single quotes can express the text on one line.
pub(crate) fn single_quoted_fits(text: &str) -> bool {
    if text.is_ascii() {
        return text.bytes().all(|b| (b' '..=b'~').contains(&b));
    }
    text.chars().all(|c| c != '\n' && c != '\t' && is_printable(c))
}

/// Whether all readers take the character as itself. Tab and line feed count as such.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Whether the grammar lets the text stand plain, whatever it means then.
fn plain_syntax(text: &str, context: Context) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    if first == b' ' || matches!(last, b' ' | b':') || text.starts_with("---") || text.starts_with("...") {
        return false;
    }
    let second = bytes.get(1).copied().unwrap_or(b' ');
    let leads = match first {
        b'-' | b'?' | b':' => second != b' ' && context == Context::Block,
        b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
        | b'@' | b'`' => false,
        _ => true,
    };
    leads
        && bytes.windows(2).all(|pair| pair != b": " && pair != b" #")
        && (context == Context::Block
            || !bytes.iter().any(|b| matches!(b, b',' | b'[' | b']' | b'{' | b'}' | b':' | b'#')))
}

/// Whether some reader of YAML 1.1 or 1.2 takes the plain text for another type than a string.
fn means_something_else(text: &str) -> bool {
    match text.as_bytes().first() {
        None | Some(b'=' | b'<') => matches!(text, "" | "=" | "<<"),
        Some(b'+' | b'-' | b'.' | b'0'..=b'9') => {
            resolve_plain(text) != Plain::Text || is_like_a_number(text) || is_like_a_date(text)
        }
        Some(_) => resolve_plain(text) != Plain::Text,
    }
}

/// Numbers of any size and spelling: separators, prefixes, base 60, a dot alone.
fn is_like_a_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.contains(['_', ',']) {
        let digits = unsigned.replace(['_', ','], "");
        return digits.bytes().any(|b| b.is_ascii_digit())
            && (is_decimal(&digits) || is_like_a_number(&digits));
    }
    let prefixed = |prefix: [&str; 2], digit: fn(&u8) -> bool| {
        let digits = unsigned.strip_prefix(prefix[0]).or_else(|| unsigned.strip_prefix(prefix[1]));
        digits.is_some_and(|digits| !digits.is_empty() && digits.as_bytes().iter().all(digit))
    };
    unsigned == "."
        || unsigned.eq_ignore_ascii_case(".inf")
        || unsigned.eq_ignore_ascii_case(".nan")
        || is_decimal(unsigned)
        || prefixed(["0x", "0X"], u8::is_ascii_hexdigit)
        || prefixed(["0o", "0O"], |b| matches!(b, b'0'..=b'7'))
        || prefixed(["0b", "0B"], |b| matches!(b, b'0' | b'1'))
        || is_base_60(unsigned)
}

/// `12:30`, `1:30:45.5`.
fn is_base_60(unsigned: &str) -> bool {
    let mut parts = unsigned.split(':');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let Some(first) = parts.next() else { return false };
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let (whole, fraction) = last.split_once('.').unwrap_or((last, ""));
    digits(first)
        && middle.iter().chain([&whole]).all(|part| digits(part) && part.len() <= 2)
        && fraction.bytes().all(|b| b.is_ascii_digit())
}

/// A date, or a date with a time: four digits, two numbers, then nothing or a separator.
fn is_like_a_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
    if digits(0) != 4 || bytes.get(4) != Some(&b'-') {
        return false;
    }
    let month = digits(5);
    let day_at = 5 + month + 1;
    let day = digits(day_at);
    (1..=2).contains(&month)
        && bytes.get(5 + month) == Some(&b'-')
        && (1..=2).contains(&day)
        && matches!(bytes.get(day_at + day), None | Some(b'T' | b't' | b' '))
}

/// The header of a literal block whose lines stand `step` columns right of the parent; `None` where only quotes can express it.
pub(super) fn block_header(text: &str, step: usize) -> Option<String> {
    if !text.chars().all(is_printable) {
        return None;
    }
    let first = text.trim_start_matches('\n');
    // Readers disagree about blocks of white space alone, and about a tab where the indentation is found.
    if first.starts_with('\t') || text.bytes().all(|b| matches!(b, b' ' | b'\n' | b'\t')) {
        return None;
    }
    let spaced = text.starts_with([' ', '\n']) || first.starts_with(' ');
    let mut header = if spaced { format!("|{step}") } else { "|".to_owned() };
    if !text.ends_with('\n') {
        header.push('-');
    } else if text.ends_with("\n\n") {
        header.push('+');
    }
    Some(header)
}

/// Writes the text in double quotes, on one line, with escapes where readers need them.
pub(crate) fn double_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) < 0x100 => push_hex(out, 'x', u32::from(c), 2),
            c if u32::from(c) < 0x1_0000 => push_hex(out, 'u', u32::from(c), 4),
            c => push_hex(out, 'U', u32::from(c), 8),
        }
    }
    out.push('"');
}

fn push_hex(out: &mut String, letter: char, code: u32, digits: u32) {
    out.push('\\');
    out.push(letter);
    for place in (0..digits).rev() {
        let digit = (code >> (place * 4)) & 0xf;
        out.extend(char::from_digit(digit, 16));
    }
}
