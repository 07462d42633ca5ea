//! All values of a document, in order, and the MAC over them.

use serde_json::Value;
use sha2::{Digest as _, Sha512};

use super::{
    metadata::DataKey,
    value::{self, Plain},
};
use crate::trouble::Trouble;

/// What a MAC over encrypted values alone begins with: the SHA-256 of `sops`, so that it is never that of a whole file.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b, 0x0b,
    0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// The MAC as it grows from value to value.
pub(super) struct Mac {
    hash: Sha512,
    only_encrypted: bool,
}

impl Mac {
    pub(super) fn new(only_encrypted: bool) -> Self {
        let mut hash = Sha512::new();
        if only_encrypted {
            hash.update(ONLY_ENCRYPTED);
        }
        Self { hash, only_encrypted }
    }

    /// In the form in which files have it.
    pub(super) fn text(self) -> String {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase();
        self.hash.finalize().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// A value in the clear, as SOPS spells it.
    pub(super) fn add_clear(&mut self, value: &Value) {
        if self.only_encrypted {
            return;
        }
        self.add_value(value);
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text.as_bytes()),
            Value::Bool(true) => self.add(b"True"),
            Value::Bool(false) => self.add(b"False"),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => self.add(whole.to_string().as_bytes()),
                // The shortest digits that lead back to the number, never with an exponent.
                None => self.add(number.as_f64().unwrap_or_default().to_string().as_bytes()),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }
}

/// Decrypts every encrypted value of a document in place. `place` is for people.
pub(super) fn decrypt(
    key: &DataKey,
    place: &str,
    document: &mut Value,
    mac: Option<&mut Mac>,
) -> Result<(), Trouble> {
    Walk { key, place, mac, path: Vec::new() }.value(document).map(drop)
}

struct Walk<'a> {
    key: &'a DataKey,
    place: &'a str,
    mac: Option<&'a mut Mac>,
    /// Keys on the way; places in lists do not count.
    path: Vec<String>,
}

impl Walk<'_> {
    /// Whether the value stays: what was a comment goes.
    fn value(&mut self, value: &mut Value) -> Result<bool, Trouble> {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    self.path.push(name.clone());
                    self.value(field)?;
                    self.path.pop();
                }
            }
            Value::Array(items) => {
                let mut failed = None;
                items.retain_mut(|item| {
                    if failed.is_some() {
                        return true;
                    }
                    self.value(item).unwrap_or_else(|trouble| {
                        failed = Some(trouble);
                        true
                    })
                });
                if let Some(trouble) = failed {
                    return Err(trouble);
                }
            }
            Value::String(text) if value::is_encrypted(text) => return self.encrypted(value),
            clear => {
                if let Some(mac) = &mut self.mac {
                    mac.add_clear(clear);
                }
            }
        }
        Ok(true)
    }

    fn encrypted(&mut self, value: &mut Value) -> Result<bool, Trouble> {
        let text = value.as_str().unwrap_or_default();
        let bound_to = format!("{}:", self.path.join(":"));
        let plain =
            value::decrypt(self.key, text, &bound_to).map_err(|error| self.failed(&error.to_string()))?;
        match plain {
            Plain::Comment => return Ok(false),
            Plain::Text(bytes) => {
                if let Some(mac) = &mut self.mac {
                    mac.add(&bytes);
                }
                // Not the error itself: it holds the bytes.
                let text = String::from_utf8(bytes).map_err(|_| self.failed("does not hold text"))?;
                *value = Value::String(text);
            }
            Plain::Value(plain) => {
                if let Some(mac) = &mut self.mac {
                    mac.add_value(&plain);
                }
                *value = plain;
            }
        }
        Ok(true)
    }

    fn failed(&self, why: &str) -> Trouble {
        Trouble::standing(
            "DecryptionFailed",
            format!("the encrypted value {} in {} {why}", self.path.join("."), self.place),
            "take the file back to what SOPS wrote, or encrypt the value again with sops",
        )
    }
}
