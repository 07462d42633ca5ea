//! Files of lines `name=value`, and the Secrets and `ConfigMap`s that kustomize's generators make of them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    file,
    keys::AgeKeys,
    metadata::{DataKey, Metadata, OTHERS},
    tree::Mac,
    value::{self, Plain},
};
use crate::trouble::Trouble;

/// What names of metadata begin with.
const PREFIX: &str = "sops_";

/// The name that every encrypted file has.
const MAC: &str = "sops_mac";

/// Whether a file is encrypted.
pub(super) fn is_encrypted_file(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"sops_mac="))
}

/// Decrypts a file. Comments that are encrypted are left out.
pub(super) fn decrypt_file(keys: &AgeKeys, path: &str, bytes: &[u8]) -> Result<Vec<u8>, Trouble> {
    let text = std::str::from_utf8(bytes).map_err(|_| file::unsupported(path))?;
    let entries =
        || text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    let metadata = Metadata::read(path, &metadata(entries().map(|(name, value)| (name, value.to_owned()))))?;
    let key = metadata.data_key(keys, path)?;
    let mut mac = Mac::new(metadata.mac_only_encrypted);
    let mut plain = Vec::new();
    for line in text.lines() {
        match line.split_once('=') {
            _ if line.starts_with("#ENC[") => {}
            Some((name, _)) if name.starts_with(PREFIX) => {}
            Some((name, value)) if !line.starts_with('#') => {
                plain.extend(format!("{name}=").into_bytes());
                plain.extend(self::value(&key, path, name, value, Some(&mut mac))?);
                plain.push(b'\n');
            }
            _ => plain.extend(format!("{line}\n").into_bytes()),
        }
    }
    file::require(path, &metadata, &key, mac)?;
    Ok(plain)
}

/// Whether an object was generated from an encrypted file.
pub(super) fn is_encrypted_object(object: &Value) -> bool {
    matches!(object.get("kind").and_then(Value::as_str), Some("Secret" | "ConfigMap"))
        && object.get("data").is_some_and(|data| data.get(MAC).is_some_and(Value::is_string))
}

/// Decrypts an object that was generated from an encrypted file. The order of its lines is lost, and with it the MAC.
pub(super) fn decrypt_object(keys: &AgeKeys, place: &str, object: &mut Value) -> Result<(), Trouble> {
    let encoded = object.get("kind").is_some_and(|kind| kind == "Secret");
    let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) else { return Ok(()) };
    let text = |value: &Value| {
        let text = value.as_str()?;
        if !encoded {
            return Some(text.to_owned());
        }
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    let entries = data.iter().filter_map(|(name, value)| Some((name.as_str(), text(value)?)));
    let metadata = Metadata::read(place, &metadata(entries))?;
    let key = metadata.data_key(keys, place)?;
    data.retain(|name, _| !name.starts_with(PREFIX));
    for (name, entry) in data.iter_mut() {
        let Some(encrypted) = text(entry).filter(|text| value::is_encrypted(text)) else { continue };
        let plain = value(&key, place, name, &encrypted, None)?;
        *entry = Value::String(if encoded {
            STANDARD.encode(plain)
        } else {
            String::from_utf8(plain).map_err(|_| failed(place, name))?
        });
    }
    Ok(())
}

/// The value of a name, as its line has it: with line breaks escaped.
fn value(
    key: &DataKey,
    place: &str,
    name: &str,
    text: &str,
    mac: Option<&mut Mac>,
) -> Result<Vec<u8>, Trouble> {
    if !value::is_encrypted(text) {
        if let Some(mac) = mac {
            mac.add_clear(&Value::String(text.replace("\\n", "\n")));
        }
        return Ok(text.as_bytes().to_vec());
    }
    let plain = value::decrypt(key, text, &format!("{name}:"));
    let Ok(Plain::Text(plain)) = plain else { return Err(failed(place, name)) };
    if let Some(mac) = mac {
        mac.add(&plain);
    }
    let mut line = Vec::with_capacity(plain.len());
    for byte in plain {
        if byte == b'\n' { line.extend(b"\\n") } else { line.push(byte) }
    }
    Ok(line)
}

fn failed(place: &str, name: &str) -> Trouble {
    Trouble::standing(
        "DecryptionFailed",
        format!("the encrypted value {name} in {place} was changed or moved after it was encrypted"),
        "take the file back to what SOPS wrote, or encrypt the value again with sops",
    )
}

/// Metadata as other files have it, from names such as `sops_age__list_0__map_enc`.
fn metadata<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> Value {
    let entries: Vec<(&str, String)> = entries
        .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value.replace("\\n", "\n"))))
        .collect();
    let get = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    let has = |start: &str| entries.iter().any(|(key, _)| key.starts_with(start));
    let mut metadata = Map::new();
    for name in ["mac", "lastmodified"] {
        metadata.insert(name.to_owned(), json!(get(name).unwrap_or_default()));
    }
    metadata.insert("mac_only_encrypted".to_owned(), json!(get("mac_only_encrypted") == Some("true")));
    let of_age = |number: usize| {
        let field = |name: &str| get(&format!("age__list_{number}__map_{name}"));
        Some(json!({ "recipient": field("recipient")?, "enc": field("enc")? }))
    };
    metadata.insert("age".to_owned(), (0..).map_while(of_age).collect());
    for (name, _) in OTHERS.iter().filter(|(name, _)| has(&format!("{name}__list_"))) {
        metadata.insert((*name).to_owned(), json!([{}]));
    }
    if has("key_groups__list_1") {
        metadata.insert("key_groups".to_owned(), json!([{}, {}]));
    }
    Value::Object(metadata)
}
