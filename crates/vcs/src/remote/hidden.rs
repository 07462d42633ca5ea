//! Texts that must not be seen.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A secret. It prints as `***`, and only [`Hidden::reveal`] gives it away.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that hands it over.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A secret shorter than this is no secret, and taking it out would only spoil the text.
const SHORTEST: usize = 3;

/// Replaces the secrets, as they are, percent-encoded or in base64, by `***`, and whatever else looks like user and
/// password in an address.
pub(super) fn redact(text: &str, secrets: &[String]) -> String {
    let mut forms: Vec<String> = secrets
        .iter()
        .filter(|secret| secret.len() >= SHORTEST)
        .flat_map(|secret| [secret.clone(), percent_encoded(secret), STANDARD.encode(secret)])
        .collect();
    // The longest first: one secret may be part of another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    let mut text = text.to_owned();
    for form in &forms {
        if text.contains(form.as_str()) {
            text = text.replace(form.as_str(), "***");
        }
    }
    without_user_info(&text)
}

/// Hides what stands between `://` and `@` within one word, when there is a colon in it.
fn without_user_info(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        result.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || c == '\'' || c == '"')
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) if after[..at].contains(':') => {
                result.push_str("***");
                &after[at..]
            }
            _ => after,
        };
    }
    result.push_str(rest);
    result
}

/// Every byte but letters, digits and `-._~` as `%XX`.
pub(super) fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        }
        encoded
    })
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

/// Undoes percent-encoding; `None` when it is broken or no UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            &tail[2..]
        } else {
            bytes.push(byte);
            tail
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Hidden::new("planted-secret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
    }

    #[test]
    fn secrets_are_taken_out_in_every_form() {
        let secrets = ["p@ss word".to_owned(), "u:p@ss word".to_owned()];
        let text = format!(
            "plain p@ss word, encoded p%40ss%20word, header {}, url https://someone:else@host/x",
            STANDARD.encode("u:p@ss word")
        );
        assert_eq!(redact(&text, &secrets), "plain ***, encoded ***, header ***, url https://***@host/x");
    }

    #[test]
    fn an_address_without_password_stays_readable() {
        assert_eq!(redact("ssh://git@host/a and http://h/a@b:c", &[]), "ssh://git@host/a and http://h/a@b:c");
    }

    #[test]
    fn percent_encoding_goes_both_ways() {
        assert_eq!(percent_decoded(&percent_encoded("ä@b/%")).as_deref(), Some("ä@b/%"));
        assert_eq!(percent_decoded("%4"), None);
        assert_eq!(percent_decoded("%ff"), None);
    }
}
