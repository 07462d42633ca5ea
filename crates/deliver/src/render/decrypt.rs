//! The seam between rendering and whatever decrypts: nothing else in the renderer knows of keys.

use serde_json::Value;

use crate::trouble::Trouble;

/// Decrypts what a repository holds encrypted.
///
/// Guarantees: plaintext and keys are in memory only, and in no error.
pub trait Decrypt: Send + Sync {
    /// Tells keys apart without telling them: a part of the render's cache key.
    fn fingerprint(&self) -> [u8; 32];

    /// Decrypts a file. `None` when it is not encrypted.
    fn decrypt_file(&self, path: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Trouble>;

    /// Decrypts an object in place, as a renderer left it. `false` when it is not encrypted.
    fn decrypt_object(&self, object: &mut Value) -> Result<bool, Trouble>;
}
