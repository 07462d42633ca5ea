//! The Secret that replicas share.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use thiserror::Error;

use super::Material;

/// An operation on the Secret that failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not even readable.
    #[error("cannot read Secret {namespace}/{name}; Windlass needs get, create and update on it")]
    Read {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
        /// What the API server said.
        source: kube::Error,
    },
    /// Not writable. The message of the API server is kept, but never what was to be written.
    #[error("cannot write Secret {namespace}/{name}; Windlass needs get, create and update on it")]
    Write {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
        /// What the API server said.
        source: kube::Error,
    },
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is there.
    Done,
    /// Someone else was faster; read again.
    Lost,
}

/// Reads and writes one Secret.
#[derive(Clone)]
pub(super) struct Store {
    api: Api<Secret>,
    namespace: String,
    name: String,
}

impl Store {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(super) fn api(&self) -> Api<Secret> {
        self.api.clone()
    }

    /// Straight from the API server, never from a cache: plans for stale material only lose the race later.
    pub(super) async fn read(&self) -> Result<Option<Secret>, StoreError> {
        self.api.get_opt(&self.name).await.map_err(|source| StoreError::Read {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            source,
        })
    }

    /// Writes the material over what was read, if that is still what is there.
    pub(super) async fn write(
        &self,
        read: Option<Secret>,
        material: &Material,
    ) -> Result<Written, StoreError> {
        let params =
            PostParams { field_manager: Some("windlass-certificates".to_owned()), ..PostParams::default() };
        let result = if let Some(mut secret) = read {
            // With the resourceVersion in its metadata a replace is a compare-and-swap.
            material.write_to(secret.data.get_or_insert_default());
            self.api.replace(&self.name, &params, &secret).await
        } else {
            self.api.create(&params, &self.fresh(material)).await
        };
        match result {
            Ok(_) => Ok(Written::Done),
            // 409: created or changed meanwhile. 404: deleted meanwhile.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) && !namespace_gone(&status) => {
                Ok(Written::Lost)
            }
            Err(source) => {
                Err(StoreError::Write { namespace: self.namespace.clone(), name: self.name.clone(), source })
            }
        }
    }

    fn fresh(&self, material: &Material) -> Secret {
        let labels =
            [("app.kubernetes.io/managed-by", "windlass"), ("app.kubernetes.io/component", "webhook")];
        let mut data = std::collections::BTreeMap::new();
        material.write_to(&mut data);
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }
}

/// A missing namespace is a 404 too, and trying again would not help.
fn namespace_gone(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}
