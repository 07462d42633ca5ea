//! Objects on their way through the pipeline: their names, and a wrapping that never shows their content.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Serialize, Serializer};
use serde_json::Value;
use windlass_manifest::{
    digest,
    identity::{Identity, IdentityError, ObjectKey},
};

/// Name of an object with its version, as the inventory writes it: `apps/v1/Deployment/shop/web`, `v1/Namespace//shop`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// API group; empty for core kinds.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// The id of an object.
    pub fn of(object: &Value) -> Result<Self, IdentityError> {
        Identity::of(object).map(Self::from)
    }

    /// Without the version.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            name: self.name.clone(),
        }
    }

    /// `version`, or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// For people: `Deployment shop/web`.
    pub fn short(&self) -> String {
        if self.namespace.is_empty() {
            format!("{} {}", self.kind, self.name)
        } else {
            format!("{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

impl From<Identity> for ObjectId {
    fn from(identity: Identity) -> Self {
        Self {
            group: identity.group,
            version: identity.version,
            kind: identity.kind,
            namespace: identity.namespace.unwrap_or_default(),
            name: identity.name,
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.api_version(), self.kind, self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no [`ObjectId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name an object: write it like apps/v1/Deployment/shop/web")]
pub struct InvalidObjectId(String);

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, rest) = match parts.as_slice() {
            [group, rest @ ..] if rest.len() == 4 => (*group, rest),
            rest if rest.len() == 4 => ("", rest),
            _ => return Err(InvalidObjectId(text.to_owned())),
        };
        if rest[0].is_empty() || rest[1].is_empty() || rest[3].is_empty() {
            return Err(InvalidObjectId(text.to_owned()));
        }
        Ok(Self {
            group: group.to_owned(),
            version: rest[0].to_owned(),
            kind: rest[1].to_owned(),
            namespace: rest[2].to_owned(),
            name: rest[3].to_owned(),
        })
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An object that is to be applied. Cheap to clone; shown as its name and digest, never its content.
#[derive(Clone)]
pub struct Sealed(Arc<Inner>);

struct Inner {
    id: ObjectId,
    digest: digest::Digest,
    object: Value,
}

impl Sealed {
    /// Seals an object.
    pub fn new(object: Value) -> Result<Self, IdentityError> {
        let id = ObjectId::of(&object)?;
        let digest = digest::digest(&object);
        Ok(Self(Arc::new(Inner { id, digest, object })))
    }

    /// The same object with one more annotation.
    pub fn with_annotation(&self, name: &str, value: &str) -> Result<Self, IdentityError> {
        let mut object = self.0.object.clone();
        object["metadata"]["annotations"][name] = Value::String(value.to_owned());
        Self::new(object)
    }

    /// Its name.
    pub fn id(&self) -> &ObjectId {
        &self.0.id
    }

    /// Its digest.
    pub fn digest(&self) -> &digest::Digest {
        &self.0.digest
    }

    /// The object itself.
    pub fn object(&self) -> &Value {
        &self.0.object
    }
}

impl PartialEq for Sealed {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id && self.0.digest == other.0.digest
    }
}

impl Eq for Sealed {}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.0.id)?;
        self.0.digest.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        for text in ["apps/v1/Deployment/shop/web", "v1/Namespace//shop", "a.example.org/v1beta1/Thing//x"] {
            assert_eq!(text.parse::<ObjectId>().unwrap().to_string(), text);
        }
        for text in ["", "v1/Namespace/shop", "v1//a/b", "a/b/c/d/e/f", "v1/Namespace//"] {
            assert!(text.parse::<ObjectId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sealed_object_never_shows_its_content() {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "data": { "k": "aHVzaA==" } });
        let sealed = Sealed::new(secret).unwrap();
        let shown = format!("{sealed:?} {}", serde_json::to_string(&sealed).unwrap());
        assert!(!shown.contains("aHVzaA") && shown.contains("v1/Secret//a@"), "{shown}");
    }
}
