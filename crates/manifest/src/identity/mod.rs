//! Who an object is: group, version, kind, namespace and name.
//!
//! An [`Identity`] is read from the object alone. It says nothing about the resource (the plural in URLs and paths),
//! which only discovery knows, nor whether a kind is namespaced: an object of a namespaced kind without a namespace has
//! none here, and the caller decides which one it gets.

mod names;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use names::{NameError, NameRule};

use crate::parse::kind_of;

/// What the server notes in `metadata`, and nobody can wish for.
pub(crate) const NOTED_BY_SERVER: [&str; 9] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "clusterName",
];

/// An object's identity. The group of core kinds is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The API group; empty for core kinds.
    pub group: String,
    /// The version within the group.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, if the object names one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// What two spellings of the same object share: an identity without the version, because one object is served in
/// every version of its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// The API group; empty for core kinds.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace, if the object names one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// Why a value has no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The document is a scalar or a list.
    #[error("a Kubernetes object is a map, and this is {found}; check the indentation of the document")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// A field that every object needs is not there, or is empty.
    #[error("{field} is missing; every Kubernetes object needs it")]
    Missing {
        /// The field, such as `metadata.name`.
        field: &'static str,
    },
    /// A field has another type than text.
    #[error("{field} is {found} and has to be text; quote it if it looks like a number")]
    NotText {
        /// The field.
        field: &'static str,
        /// What it is instead.
        found: &'static str,
    },
    /// A field has another type than a map.
    #[error("{field} is {found} and has to be a map; check the indentation below it")]
    NotAMap {
        /// The field.
        field: &'static str,
        /// What it is instead.
        found: &'static str,
    },
    /// `apiVersion` is neither `version` nor `group/version`.
    #[error("apiVersion {text:?} is neither `version` nor `group/version`, such as `v1` or `apps/v1`")]
    ApiVersion {
        /// The text.
        text: String,
    },
    /// The server is to make up the name: such an object can be created, but neither applied nor found again.
    #[error("the object has metadata.generateName ({prefix:?}) and no metadata.name; give it a name")]
    Generated {
        /// The prefix.
        prefix: String,
    },
}

impl IdentityError {
    /// A few words for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotAnObject { .. } => "NotAnObject",
            Self::Missing { .. } => "MissingField",
            Self::NotText { .. } => "NotText",
            Self::NotAMap { .. } => "NotAMap",
            Self::ApiVersion { .. } => "InvalidApiVersion",
            Self::Generated { .. } => "GeneratedName",
        }
    }
}

impl Identity {
    /// The identity of an object. It has a group, version, kind and name, or it is none; whether the names would pass
    /// the API server is asked with [`Identity::check_names`].
    pub fn of(object: &Value) -> Result<Self, IdentityError> {
        let Value::Object(fields) = object else {
            return Err(IdentityError::NotAnObject { found: kind_of(object) });
        };
        let api_version = text(fields.get("apiVersion"), "apiVersion")?;
        let kind = text(fields.get("kind"), "kind")?;
        let (group, version) = split_api_version(api_version)
            .ok_or_else(|| IdentityError::ApiVersion { text: api_version.to_owned() })?;
        let metadata = match fields.get("metadata") {
            None | Some(Value::Null) => return Err(IdentityError::Missing { field: "metadata" }),
            Some(Value::Object(metadata)) => metadata,
            Some(other) => return Err(IdentityError::NotAMap { field: "metadata", found: kind_of(other) }),
        };
        let name = match text(metadata.get("name"), "metadata.name") {
            Err(IdentityError::Missing { field }) => {
                return Err(match metadata.get("generateName").and_then(Value::as_str) {
                    Some(prefix) if !prefix.is_empty() => {
                        IdentityError::Generated { prefix: prefix.to_owned() }
                    }
                    _ => IdentityError::Missing { field },
                });
            }
            other => other?,
        };
        let namespace = match text(metadata.get("namespace"), "metadata.namespace") {
            Ok(namespace) => Some(namespace.to_owned()),
            Err(IdentityError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace,
            name: name.to_owned(),
        })
    }

    /// `version`, or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The identity without its version.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl ObjectKey {
    /// The key of an object; see [`Identity::of`].
    pub fn of(object: &Value) -> Result<Self, IdentityError> {
        Identity::of(object).map(|identity| identity.key())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.group, &self.kind, self.namespace.as_deref(), &self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.group, &self.kind, self.namespace.as_deref(), &self.name)
    }
}

/// `Deployment.apps shop/web`: what people type after `kubectl get`, nearly.
fn show(
    f: &mut fmt::Formatter<'_>,
    group: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> fmt::Result {
    f.write_str(kind)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    match namespace {
        Some(namespace) => write!(f, " {namespace}/{name}"),
        None => write!(f, " {name}"),
    }
}

/// Group and version of an `apiVersion`; `None` when it is malformed.
pub fn split_api_version(text: &str) -> Option<(&str, &str)> {
    let (group, version) = match text.split_once('/') {
        None => ("", text),
        Some(("", _)) => return None,
        Some(both) => both,
    };
    (!version.is_empty() && !version.contains('/')).then_some((group, version))
}

/// Whether the server is to make up the object's name.
pub fn has_generated_name(object: &Value) -> bool {
    matches!(Identity::of(object), Err(IdentityError::Generated { .. }))
}

/// Whether an object is a core `Secret`, whose data must not be shown, logged or stored in the clear.
pub fn is_secret(object: &Value) -> bool {
    is_kind(object, "", "Secret")
}

/// Whether an object is of a kind, in any version of its group.
pub(crate) fn is_kind(object: &Value, group: &str, kind: &str) -> bool {
    object.get("kind").and_then(Value::as_str) == Some(kind) && group_of(object) == Some(group)
}

/// The group of an object, without making an [`Identity`].
pub(crate) fn group_of(object: &Value) -> Option<&str> {
    split_api_version(object.get("apiVersion")?.as_str()?).map(|(group, _)| group)
}

fn text<'a>(value: Option<&'a Value>, field: &'static str) -> Result<&'a str, IdentityError> {
    match value {
        None | Some(Value::Null) => Err(IdentityError::Missing { field }),
        Some(Value::String(text)) if text.is_empty() => Err(IdentityError::Missing { field }),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(IdentityError::NotText { field, found: kind_of(other) }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_known_by_group_kind_namespace_and_name() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"}});
        let identity = Identity::of(&object).unwrap();
        assert_eq!((identity.group.as_str(), identity.version.as_str()), ("apps", "v1"));
        assert_eq!(identity.to_string(), "Deployment.apps shop/web");
        assert_eq!(identity.api_version(), "apps/v1");
        let other = json!({"apiVersion": "apps/v1beta2", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web"}});
        assert_eq!(ObjectKey::of(&other).unwrap(), identity.key(), "the version does not tell objects apart");
        let core = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let core = Identity::of(&core).unwrap();
        assert_eq!((core.group.as_str(), core.namespace.as_deref()), ("", None));
        assert_eq!((core.to_string().as_str(), core.api_version().as_str()), ("Namespace shop", "v1"));
    }

    #[test]
    fn an_error_names_what_is_missing() {
        let cases = [
            (json!(["a"]), "a Kubernetes object is a map, and this is a list"),
            (json!(null), "this is null"),
            (json!({"kind": "A", "metadata": {"name": "a"}}), "apiVersion is missing"),
            (json!({"apiVersion": "", "kind": "A", "metadata": {"name": "a"}}), "apiVersion is missing"),
            (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "kind is missing"),
            (json!({"apiVersion": "v1", "kind": "A"}), "metadata is missing"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {}}), "metadata.name is missing"),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": "a"}),
                "metadata is a string and has to be a map",
            ),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": 7}}), "metadata.name is a number"),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "namespace": true}}),
                "metadata.namespace is a boolean",
            ),
            (json!({"apiVersion": "a/b/c", "kind": "A", "metadata": {"name": "a"}}), "apiVersion \"a/b/c\""),
            (json!({"apiVersion": "/v1", "kind": "A", "metadata": {"name": "a"}}), "apiVersion \"/v1\""),
            (json!({"apiVersion": "a/", "kind": "A", "metadata": {"name": "a"}}), "apiVersion \"a/\""),
        ];
        for (object, wanted) in cases {
            let error = Identity::of(&object).unwrap_err();
            assert!(error.to_string().contains(wanted), "{object}: {error}");
            assert!(!error.category().is_empty());
        }
    }

    #[test]
    fn an_object_whose_name_the_server_makes_up_is_recognised() {
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "run-"}});
        assert_eq!(Identity::of(&object).unwrap_err().category(), "GeneratedName");
        assert!(has_generated_name(&object));
        let named = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"generateName": "run-", "name": "run-x"}});
        assert!(!has_generated_name(&named));
    }

    #[test]
    fn only_a_core_secret_is_a_secret() {
        assert!(is_secret(&json!({"apiVersion": "v1", "kind": "Secret"})));
        assert!(!is_secret(&json!({"apiVersion": "example.org/v1", "kind": "Secret"})));
        assert!(!is_secret(&json!({"apiVersion": "v1", "kind": "ConfigMap"})));
    }
}
