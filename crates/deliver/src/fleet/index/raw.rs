//! An object as the server wrote it.

use std::{borrow::Cow, fmt};

use kube::{
    Resource,
    api::{ApiResource, ObjectMeta},
    core::DynamicResourceScope,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object of any kind, read once: kube's own type takes `managedFields` apart, and they would have to be put together
/// again. Never shows its content.
#[derive(Clone)]
pub(super) struct Raw {
    /// Only what a watch needs: name, namespace and version.
    metadata: ObjectMeta,
    /// The whole object.
    pub(super) object: Value,
}

impl Raw {
    /// The object with its kind, which the items of a list do not tell.
    pub(super) fn into_object(self, resource: &ApiResource) -> Value {
        let mut object = self.object;
        if let Value::Object(fields) = &mut object {
            for (field, value) in [("apiVersion", &resource.api_version), ("kind", &resource.kind)] {
                if !fields.contains_key(field) {
                    fields.insert(field.to_owned(), Value::String(value.clone()));
                }
            }
        }
        object
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let text = |field: &str| object.get("metadata")?.get(field)?.as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, object })
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({:?} {:?})", self.metadata.namespace, self.metadata.name)
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
