//! Hashes over what makes a render what it is.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Name of a render: equal keys render the same.
pub(super) type Key = [u8; 32];

/// Collects parts. Each is written with its length, so that no two lists of parts are written alike.
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn new(what: &str) -> Self {
        let mut hasher = Self(Sha256::new());
        hasher.part(what);
        hasher
    }

    pub(super) fn part(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(super) fn maybe(&mut self, bytes: Option<impl AsRef<[u8]>>) -> &mut Self {
        match bytes {
            Some(bytes) => self.part([1]).part(bytes),
            None => self.part([0]),
        }
    }

    /// Options, as they are written in YAML or JSON.
    pub(super) fn options(&mut self, options: &impl Serialize) -> &mut Self {
        // Options came from JSON and go back to it: this cannot fail. If it did, the text of the error would only make
        // two renders share a key if both failed alike, so it is not trusted to.
        match serde_json::to_vec(options) {
            Ok(text) => self.part(text),
            Err(error) => self.part(format!("{error}")),
        }
    }

    pub(super) fn key(self) -> Key {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let key = |parts: &[&str]| {
            let mut hasher = Hasher::new("x");
            for part in parts {
                hasher.part(part);
            }
            hasher.key()
        };
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["a"]), key(&["a", ""]));
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
    }
}
