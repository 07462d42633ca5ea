//! Names of objects: of the kind that a controller drives, and of whatever those objects read.

use std::{borrow::Cow, fmt, sync::Arc};

use kube::Resource;
use serde::{Serialize, Serializer};

use crate::backoff::stable_hash;

/// An object of a controller's own kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// The object's name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.as_deref().map(Arc::from),
            name: Arc::from(meta.name.as_deref().unwrap_or_default()),
        }
    }

    /// The shard this object belongs to. Stays the same for the life of a name.
    pub fn shard(&self, shards: u32) -> u32 {
        let hash = stable_hash(self.to_string().as_bytes());
        u32::try_from(hash % u64::from(shards.max(1))).unwrap_or(0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Any object in the same API, named so that a change of it can wake those who read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Reference {
    /// API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// Kind, as in a manifest.
    pub kind: Cow<'static, str>,
    /// `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
}

impl Reference {
    /// A Secret.
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self {
            group: Cow::Borrowed(""),
            kind: Cow::Borrowed("Secret"),
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_object_has_one_shard(name in "[a-z]{1,20}", shards in 0u32..64) {
            let key = Key { namespace: None, name: name.as_str().into() };
            prop_assert!(key.shard(shards) < shards.max(1));
            prop_assert_eq!(key.shard(shards), key.clone().shard(shards));
        }
    }
}
