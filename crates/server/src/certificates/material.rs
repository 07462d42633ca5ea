//! The contents of the Secret.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NEXT_CA_CERTIFICATE: &str = "ca-next.crt";
const NEXT_CA_KEY: &str = "ca-next.key";
const PREVIOUS_CA_CERTIFICATE: &str = "ca-previous.crt";
const SERVING_CERTIFICATE: &str = "tls.crt";
const SERVING_KEY: &str = "tls.key";

/// A private key as PEM. Does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Vec<u8>);

impl PrivateKey {
    /// Wraps PEM text; whether it is any good is found out when it is used.
    pub fn new(pem: impl Into<Vec<u8>>) -> Self {
        Self(pem.into())
    }

    /// The PEM text, for whoever really needs it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(redacted)")
    }
}

/// All certificates and keys as they are stored, good or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Material {
    /// The CA that issues.
    pub ca: Option<Vec<u8>>,
    /// Its key.
    pub ca_key: Option<PrivateKey>,
    /// The CA that will issue once everyone trusts it.
    pub next_ca: Option<Vec<u8>>,
    /// Its key.
    pub next_ca_key: Option<PrivateKey>,
    /// The CA that issued before; without its key, which nobody needs any more.
    pub previous_ca: Option<Vec<u8>>,
    /// What the listeners serve with.
    pub serving: Option<Vec<u8>>,
    /// Its key.
    pub serving_key: Option<PrivateKey>,
}

impl Material {
    /// Takes what is ours out of a Secret's data.
    pub fn from_data(data: &BTreeMap<String, ByteString>) -> Self {
        let piece = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
        let key = |name: &str| piece(name).map(PrivateKey);
        Self {
            ca: piece(CA_CERTIFICATE),
            ca_key: key(CA_KEY),
            next_ca: piece(NEXT_CA_CERTIFICATE),
            next_ca_key: key(NEXT_CA_KEY),
            previous_ca: piece(PREVIOUS_CA_CERTIFICATE),
            serving: piece(SERVING_CERTIFICATE),
            serving_key: key(SERVING_KEY),
        }
    }

    /// Puts what is ours into a Secret's data and leaves the rest of it alone.
    pub fn write_to(&self, data: &mut BTreeMap<String, ByteString>) {
        let key = |key: &Option<PrivateKey>| key.as_ref().map(|key| key.0.clone());
        let pieces = [
            (CA_CERTIFICATE, self.ca.clone()),
            (CA_KEY, key(&self.ca_key)),
            (NEXT_CA_CERTIFICATE, self.next_ca.clone()),
            (NEXT_CA_KEY, key(&self.next_ca_key)),
            (PREVIOUS_CA_CERTIFICATE, self.previous_ca.clone()),
            (SERVING_CERTIFICATE, self.serving.clone()),
            (SERVING_KEY, key(&self.serving_key)),
        ];
        for (name, piece) in pieces {
            match piece {
                Some(bytes) => data.insert(name.to_owned(), ByteString(bytes)),
                None => data.remove(name),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Material {
        Material {
            ca: Some(b"ca".to_vec()),
            ca_key: Some(PrivateKey::new(*b"planted-1")),
            next_ca: Some(b"next".to_vec()),
            next_ca_key: Some(PrivateKey::new(*b"planted-2")),
            previous_ca: Some(b"previous".to_vec()),
            serving: Some(b"serving".to_vec()),
            serving_key: Some(PrivateKey::new(*b"planted-3")),
        }
    }

    #[test]
    fn data_and_back_leaves_foreign_keys_alone() {
        let mut data = BTreeMap::from([("note".to_owned(), ByteString(b"mine".to_vec()))]);
        full().write_to(&mut data);
        assert_eq!(Material::from_data(&data), full());
        Material::default().write_to(&mut data);
        assert_eq!(data.keys().collect::<Vec<_>>(), ["note"]);
        assert_eq!(Material::from_data(&data), Material::default());
    }

    #[test]
    fn keys_do_not_show_in_debug() {
        let shown = format!("{:?} {:#?}", full(), full());
        assert!(!shown.contains("planted"), "{shown}");
        // Byte lists are how a derived Debug would give them away.
        assert!(!shown.contains("112, 108, 97"), "{shown}");
    }
}
