//! What stands under `sops`: for whom the data key is encrypted, and the MAC.

use std::{fmt, io::Read as _};

use age::{Decryptor, armor::ArmoredReader};
use serde_json::Value;

use super::{
    keys::AgeKeys,
    value::{self, Plain},
};
use crate::trouble::Trouble;

/// Other ways to encrypt the data key, and what people call them.
pub(super) const OTHERS: [(&str, &str); 6] = [
    ("pgp", "PGP"),
    ("kms", "AWS KMS"),
    ("gcp_kms", "GCP KMS"),
    ("azure_kv", "Azure Key Vault"),
    ("hc_vault", "HashiCorp Vault"),
    ("hckms", "Huawei Cloud KMS"),
];

/// The key of one file. Not shown.
pub(super) struct DataKey(pub(super) [u8; 32]);

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

#[derive(Debug)]
pub(super) struct Metadata {
    /// Public keys, and the data key encrypted for each.
    age: Vec<(String, String)>,
    /// For whom else it is encrypted.
    others: Vec<&'static str>,
    groups: usize,
    pub(super) mac: String,
    last_modified: String,
    /// Values in the clear are not part of the MAC.
    pub(super) mac_only_encrypted: bool,
}

impl Metadata {
    pub(super) fn read(place: &str, metadata: &Value) -> Result<Self, Trouble> {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let groups: Vec<&Value> =
            metadata.get("key_groups").and_then(Value::as_array).into_iter().flatten().collect();
        // With one group the keys stand beside the rest, with several in each of them.
        let holders: Vec<&Value> = if groups.is_empty() { vec![metadata] } else { groups.clone() };
        let list = |key: &str| -> Vec<&Value> {
            let lists = holders.iter().filter_map(|holder| holder.get(key)?.as_array());
            lists.flatten().collect()
        };
        let of_age = |entry: &&Value| {
            let field = |key: &str| entry.get(key)?.as_str().map(ToOwned::to_owned);
            Some((field("recipient")?, field("enc")?))
        };
        let read = Self {
            age: list("age").iter().filter_map(of_age).collect(),
            others: OTHERS.iter().filter(|(key, _)| !list(key).is_empty()).map(|(_, name)| *name).collect(),
            groups: groups.len(),
            mac: text("mac"),
            last_modified: text("lastmodified"),
            mac_only_encrypted: metadata.get("mac_only_encrypted").and_then(Value::as_bool).unwrap_or(false),
        };
        if read.groups > 1 {
            return Err(Trouble::standing(
                "DecryptionUnsupported",
                format!("{place} needs keys of several key groups together, which is not supported"),
                "encrypt it for age keys in one group",
            ));
        }
        Ok(read)
    }

    /// The data key, by the first of our keys that fits.
    pub(super) fn data_key(&self, keys: &AgeKeys, place: &str) -> Result<DataKey, Trouble> {
        if self.age.is_empty() {
            let others = if self.others.is_empty() { "nobody".to_owned() } else { self.others.join(", ") };
            return Err(Trouble::standing(
                "DecryptionUnsupported",
                format!("{place} is encrypted for {others} and for no age key"),
                "add an age recipient to .sops.yaml and run sops updatekeys",
            ));
        }
        // Those that are ours by name first: the others are tried in case a recipient is a short form.
        let (ours, rest): (Vec<_>, Vec<_>) =
            self.age.iter().partition(|(recipient, _)| keys.recipients().contains(recipient));
        for (_, encrypted) in ours.into_iter().chain(rest) {
            if let Some(key) = open(keys, encrypted) {
                return Ok(key);
            }
        }
        let recipients: Vec<&str> =
            self.age.iter().map(|(recipient, _)| recipient.as_str()).take(10).collect();
        Err(Trouble::standing(
            "DecryptionKeyMismatch",
            format!(
                "none of the Application's age keys opens {place}; it is encrypted for {}",
                recipients.join(", ")
            ),
            format!(
                "add the key of one of these to the Secret, or encrypt the file for {} with sops updatekeys",
                keys.recipients().join(", ")
            ),
        ))
    }

    /// The MAC that the file has.
    pub(super) fn mac(&self, key: &DataKey) -> Option<String> {
        match value::decrypt(key, &self.mac, &self.last_modified).ok()? {
            Plain::Text(bytes) => String::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// The data key out of one recipient's stanza; `None` when it is not for our keys, or damaged.
fn open(keys: &AgeKeys, encrypted: &str) -> Option<DataKey> {
    let decryptor = Decryptor::new_buffered(ArmoredReader::new(encrypted.as_bytes())).ok()?;
    let mut reader = decryptor.decrypt(keys.identities()).ok()?;
    let mut key = [0; 32];
    reader.read_exact(&mut key).ok()?;
    // More than a key is none.
    let mut more = [0];
    (reader.read(&mut more).ok()? == 0).then_some(DataKey(key))
}
