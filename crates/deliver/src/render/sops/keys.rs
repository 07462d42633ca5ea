//! The keys of an Application.

use std::{collections::BTreeMap, fmt};

use age::{Identity, x25519};
use sha2::{Digest as _, Sha256};

use crate::trouble::Trouble;

/// How entries of a Secret that hold keys are called.
const SUFFIX: &str = ".agekey";

/// Age keys. Shown as the public halves of them.
pub struct AgeKeys {
    identities: Vec<x25519::Identity>,
    /// Public halves, in order.
    recipients: Vec<String>,
}

impl fmt::Debug for AgeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgeKeys").field("recipients", &self.recipients).finish_non_exhaustive()
    }
}

impl AgeKeys {
    /// All keys of a Secret: every line of every entry whose name ends in `.agekey`, as `age-keygen` writes them.
    pub fn from_secret(secret: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, Trouble> {
        let mut keys = BTreeMap::new();
        for (entry, bytes) in data.iter().filter(|(entry, _)| entry.ends_with(SUFFIX)) {
            let invalid = |line: usize| {
                Trouble::standing(
                    "DecryptionKeyInvalid",
                    format!("line {line} of entry {entry} in Secret {secret} is no age key"),
                    "put keys there as age-keygen prints them, one AGE-SECRET-KEY-1… on a line",
                )
            };
            let text = std::str::from_utf8(bytes).map_err(|_| invalid(1))?;
            for (number, line) in text.lines().map(str::trim).enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let identity: x25519::Identity = line.parse().map_err(|_| invalid(number + 1))?;
                keys.insert(identity.to_public().to_string(), identity);
            }
        }
        if keys.is_empty() {
            return Err(Trouble::standing(
                "DecryptionKeyMissing",
                format!("Secret {secret} holds no age key"),
                format!("add an entry whose name ends in {SUFFIX}, with what age-keygen prints"),
            ));
        }
        let (recipients, identities) = keys.into_iter().unzip();
        Ok(Self { identities, recipients })
    }

    /// Equal for equal keys, in whatever order and entries they stand.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for recipient in &self.recipients {
            hash.update(recipient.as_bytes());
            hash.update([0]);
        }
        hash.finalize().into()
    }

    /// Public halves of the keys.
    pub fn recipients(&self) -> &[String] {
        &self.recipients
    }

    pub(super) fn identities(&self) -> impl Iterator<Item = &dyn Identity> {
        self.identities.iter().map(|identity| identity as &dyn Identity)
    }
}
