//! Files that SOPS encrypted for age keys, decrypted in memory.
//!
//! ```text
//!  Secret (*.agekey) ─► AgeKeys ─┐
//!  file or object ─► metadata ───┴─► data key ─► every ENC[…] value, bound to its place ─► MAC over all ─► plain
//! ```
//!
//! What is read: the metadata under `sops`, and every value `ENC[AES256_GCM,…]`. A value is bound to its place by the
//! keys on the way to it, a file as a whole by its MAC. An object that a renderer had its hands on (kustomize adds
//! labels, sorts fields) no longer has the MAC of its file: there each value is proved by itself alone.
//!
//! # Guarantees
//! - Nothing is written anywhere, and no error, `Debug` or log holds a key or a plaintext.
//! - A file whose MAC does not fit is refused whole.

mod dotenv;
mod file;
mod keys;
mod metadata;
mod tree;
mod value;

use serde_json::Value;

pub use keys::AgeKeys;

use super::Decrypt;
use crate::{object::ObjectId, trouble::Trouble};

/// Where the metadata stands in a document.
const METADATA: &str = "sops";

impl Decrypt for AgeKeys {
    fn fingerprint(&self) -> [u8; 32] {
        Self::fingerprint(self)
    }

    fn decrypt_file(&self, path: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        file::decrypt(self, path, bytes)
    }

    fn decrypt_object(&self, object: &mut Value) -> Result<bool, Trouble> {
        if !is_encrypted_object(object) {
            return Ok(false);
        }
        let place = ObjectId::of(object).map_or_else(|_| "an object".to_owned(), |id| id.short());
        if dotenv::is_encrypted_object(object) {
            dotenv::decrypt_object(self, &place, object)?;
            if !has_metadata(object) {
                return Ok(true);
            }
        }
        let Some(metadata) = object.as_object_mut().and_then(|fields| fields.shift_remove(METADATA)) else {
            return Ok(false);
        };
        let metadata = metadata::Metadata::read(&place, &metadata)?;
        let key = metadata.data_key(self, &place)?;
        tree::decrypt(&key, &place, object, None)?;
        Ok(true)
    }
}

/// Whether an object carries the metadata of SOPS: as a field, or among the entries that a generator made of a file.
pub fn is_encrypted_object(object: &Value) -> bool {
    dotenv::is_encrypted_object(object) || has_metadata(object)
}

fn has_metadata(document: &Value) -> bool {
    document
        .get(METADATA)
        .and_then(Value::as_object)
        .is_some_and(|metadata| ["mac", "lastmodified", "age"].iter().any(|key| metadata.contains_key(*key)))
}

/// Whether a file is encrypted with SOPS, in any of its formats.
pub fn is_encrypted_file(path: &str, bytes: &[u8]) -> bool {
    file::is_encrypted(path, bytes)
}

/// Something is encrypted, and the Application names no keys.
pub fn no_keys_named(place: &str) -> Trouble {
    Trouble::standing(
        "DecryptionKeyMissing",
        format!("{place} is encrypted with SOPS, and the Application names no keys"),
        "name a Secret with age keys in spec.source.decryption",
    )
}

#[cfg(test)]
mod tests;
