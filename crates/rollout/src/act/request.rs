//! The few kinds of requests that are made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{ApiResource, DynamicObject, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_api::GROUP;

use super::{Error, Hands, MANAGER, Whose};
use crate::route::Operation;

/// Bounds of what is written here: a namespaced kind that is known at compile time.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The owner reference that makes a Rollout the controller of an object.
pub(super) fn owner(whose: &Whose) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "Rollout".to_owned(),
        name: whose.name.clone(),
        uid: whose.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

impl Hands {
    pub(super) fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A JSON merge patch. `None`: the object is gone.
    pub(crate) async fn merge<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Option<K>, Error> {
        let what = || format!("{} {name}", K::kind(&()));
        match self.api::<K>(namespace).patch(name, &params(), &Patch::Merge(patch)).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Stale(what())),
            Err(error) => Err(Error::api(format!("change {}", what()), error)),
        }
    }

    /// Makes an object. `None`: one of this name is there.
    pub(super) async fn make<K: Kind>(&self, namespace: &str, object: &K) -> Result<Option<K>, Error> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.api::<K>(namespace).create(&params, object).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(None),
            Err(error) => {
                let name = object.meta().name.as_deref().unwrap_or_default();
                Err(Error::api(format!("create {} {name}", K::kind(&())), error))
            }
        }
    }

    /// Deletes exactly this object. One that is gone, or made anew, is as good.
    pub(super) async fn delete<K: Kind>(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.api::<K>(namespace).delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(Error::api(format!("delete {} {name}", K::kind(&())), error)),
        }
    }

    /// A JSON patch of an object of a kind that is known at run time. A `test` that does not hold is stale.
    pub(super) async fn json_patch(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        operations: &[Operation],
    ) -> Result<DynamicObject, Error> {
        let what = format!("{} {name}", resource.kind);
        let path = DynamicObject::url_path(resource, Some(namespace));
        let body =
            serde_json::to_vec(operations).map_err(|source| Error::Shape { what: what.clone(), source })?;
        let request = http::Request::patch(format!("{path}/{name}?fieldManager={MANAGER}"))
            .header(http::header::CONTENT_TYPE, "application/json-patch+json")
            .header(http::header::ACCEPT, "application/json")
            .body(body)
            .map_err(|error| Error::api(format!("change {what}"), kube::Error::HttpError(error)))?;
        match self.client.request(request).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Err(Error::Stale(what)),
            // A failed test is 422 as well: what was read is no longer so. Looked at again, a patch that the schema
            // does not take fails with its reason.
            Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains("test") => {
                Err(Error::Stale(what))
            }
            Err(error) => Err(Error::api(format!("change {what}"), error)),
        }
    }
}
