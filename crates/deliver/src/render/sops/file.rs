//! Whole files: YAML with any number of documents, JSON, dotenv, and anything else in an envelope of JSON.

use serde_json::Value;
use windlass_manifest::parse::{Limits, parse_bytes};

use super::{
    METADATA, dotenv, has_metadata,
    keys::AgeKeys,
    metadata::{DataKey, Metadata},
    tree::{self, Mac},
    value::{self, Plain},
};
use crate::trouble::Trouble;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Yaml,
    Json,
    /// Lines `name=value`.
    Dotenv,
    Ini,
    /// Any bytes, in an envelope.
    Binary,
}

impl Format {
    /// As SOPS itself tells, by the name.
    fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            Some("env") => Self::Dotenv,
            Some("ini") => Self::Ini,
            _ => Self::Binary,
        }
    }
}

/// Whether a file is encrypted.
pub(super) fn is_encrypted(path: &str, bytes: &[u8]) -> bool {
    match Format::of(path) {
        Format::Dotenv => dotenv::is_encrypted_file(bytes),
        Format::Ini => bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"[sops]")),
        Format::Yaml | Format::Json | Format::Binary => documents(bytes).is_some(),
    }
}

/// Decrypts a file; `None` when it is not encrypted.
pub(super) fn decrypt(keys: &AgeKeys, path: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
    let format = Format::of(path);
    if matches!(format, Format::Dotenv | Format::Ini) {
        return match format {
            _ if !is_encrypted(path, bytes) => Ok(None),
            Format::Dotenv => dotenv::decrypt_file(keys, path, bytes).map(Some),
            _ => Err(unsupported(path)),
        };
    }
    let Some(mut documents) = documents(bytes) else { return Ok(None) };
    if format == Format::Binary {
        return envelope(keys, path, &documents).map(Some);
    }
    for file in files(&mut documents) {
        decrypt_together(keys, path, file)?;
    }
    Ok(Some(text(&documents)))
}

/// The documents of a file if any is encrypted. What cannot be read is not: whoever reads it next says why.
fn documents(bytes: &[u8]) -> Option<Vec<Value>> {
    // Nearly all files are not encrypted, and this is all that they cost.
    if !contains(bytes, METADATA.as_bytes()) {
        return None;
    }
    let documents = parse_bytes(bytes, &Limits::default()).ok()?;
    let documents: Vec<Value> = documents.into_iter().map(|document| document.value).collect();
    documents.iter().any(has_metadata).then_some(documents)
}

/// Documents that were encrypted together. Normally all are; but people also put encrypted files one after another.
fn files(documents: &mut [Value]) -> Vec<&mut [Value]> {
    let mac = |document: &Value| document.get(METADATA).and_then(|metadata| metadata.get("mac")).cloned();
    documents.chunk_by_mut(|one, next| mac(next).is_none() || mac(one) == mac(next)).collect()
}

/// Decrypts documents with one data key and one MAC.
fn decrypt_together(keys: &AgeKeys, path: &str, documents: &mut [Value]) -> Result<(), Trouble> {
    let mut metadata = None;
    for document in documents.iter_mut() {
        let taken = document.as_object_mut().and_then(|fields| fields.shift_remove(METADATA));
        metadata = metadata.or(taken);
    }
    let Some(metadata) = metadata else { return Ok(()) };
    let metadata = Metadata::read(path, &metadata)?;
    let key = metadata.data_key(keys, path)?;
    let mut mac = Mac::new(metadata.mac_only_encrypted);
    for document in documents {
        tree::decrypt(&key, path, document, Some(&mut mac))?;
    }
    require(path, &metadata, &key, mac)
}

/// Requires that the MAC of a file is that over its values.
pub(super) fn require(path: &str, metadata: &Metadata, key: &DataKey, mac: Mac) -> Result<(), Trouble> {
    let what = match metadata.mac(key) {
        Some(of_file) if of_file == mac.text() => return Ok(()),
        Some(_) => "a value of it was changed, added, moved or removed after it was encrypted",
        None if metadata.mac.is_empty() => "it has none",
        None => "the MAC itself was changed",
    };
    Err(Trouble::standing(
        "DecryptionMacMismatch",
        format!("the MAC of {path} does not fit: {what}"),
        "edit the file with sops, or take it back to what sops wrote",
    ))
}

/// The bytes in an envelope.
fn envelope(keys: &AgeKeys, path: &str, documents: &[Value]) -> Result<Vec<u8>, Trouble> {
    let [document] = documents else { return Err(unsupported(path)) };
    let data = document.get("data").and_then(Value::as_str).ok_or_else(|| unsupported(path))?;
    let metadata = Metadata::read(path, &document[METADATA])?;
    let key = metadata.data_key(keys, path)?;
    let mut mac = Mac::new(metadata.mac_only_encrypted);
    let plain =
        if data.is_empty() { Ok(Plain::Text(Vec::new())) } else { value::decrypt(&key, data, "data:") };
    let Ok(Plain::Text(bytes)) = plain else {
        return Err(Trouble::standing(
            "DecryptionFailed",
            format!("the content of {path} was changed after it was encrypted"),
            "take the file back to what sops wrote",
        ));
    };
    mac.add(&bytes);
    require(path, &metadata, &key, mac)?;
    Ok(bytes)
}

pub(super) fn unsupported(path: &str) -> Trouble {
    Trouble::standing(
        "DecryptionUnsupported",
        format!("{path} is encrypted with SOPS in a format that is not supported"),
        "use YAML, JSON or dotenv, or encrypt the file as binary",
    )
}

/// The documents as JSON, which every reader of YAML reads. Letters that some of them refuse are escaped.
fn text(documents: &[Value]) -> Vec<u8> {
    let mut text = String::new();
    for (number, document) in documents.iter().enumerate() {
        if number > 0 {
            text.push_str("---\n");
        }
        for letter in format!("{document:#}").chars() {
            match letter {
                '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                    text.push_str("\\u");
                    let digits = u32::from(letter);
                    text.extend(
                        [12, 8, 4, 0].map(|shift| char::from_digit(digits >> shift & 15, 16).unwrap_or('0')),
                    );
                }
                letter => text.push(letter),
            }
        }
        text.push('\n');
    }
    text.into_bytes()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
