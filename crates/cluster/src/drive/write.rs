//! The loop's own requests: the writes of finalizer and status, each bound to the version that the decision was made
//! on, and the read of an object whose copy may be old.
//!
//! A version that has moved on answers 409, and the object is looked at anew: neither a stale view nor a second
//! leader can overwrite what it has not seen.

use kube::{
    Client, Resource,
    api::{GetParams, Patch, PatchParams},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Why a request of the loop failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The status cannot be written as JSON.
    #[error("the status cannot be encoded")]
    Encode(#[source] serde_json::Error),
    /// The request could not be made.
    #[error("the request could not be made")]
    Request(#[source] kube::core::request::Error),
    /// The object moved on since it was read.
    #[error("the object was changed in the meantime")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    Gone,
    /// The API server refused or did not answer.
    #[error("the API server did not {what}")]
    Api {
        /// What it was asked to do.
        what: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl WriteError {
    /// One of a few names, for metrics.
    pub(crate) fn category(&self) -> &'static str {
        match self {
            Self::Encode(_) | Self::Request(_) => "encode",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Api { .. } => "api",
        }
    }
}

/// The fields to change so that `old` becomes `new`, as a JSON merge patch; `None` if there is nothing to change.
pub(crate) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for (name, value) in new {
                match old.get(name) {
                    Some(before) => {
                        if let Some(change) = merge_patch(before, value) {
                            patch.insert(name.clone(), change);
                        }
                    }
                    None => {
                        patch.insert(name.clone(), value.clone());
                    }
                }
            }
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                patch.insert(name.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (old != new).then(|| new.clone()),
    }
}

/// Writes the status if it differs. Returns the object as it is after the write.
pub(crate) async fn status<K, S>(
    client: &Client,
    object: &K,
    old: Option<&S>,
    new: &S,
    manager: &str,
) -> Result<Option<K>, WriteError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    S: Serialize,
{
    let old = old.map(serde_json::to_value).transpose().map_err(WriteError::Encode)?;
    let old = old.unwrap_or_else(|| json!({}));
    let new = serde_json::to_value(new).map_err(WriteError::Encode)?;
    let Some(change) = merge_patch(&old, &new) else { return Ok(None) };
    let body = json!({ "metadata": identity(object), "status": change });
    let request = request(object)
        .patch_subresource("status", name(object), &params(manager), &Patch::Merge(&body))
        .map_err(WriteError::Request)?;
    send(client, request, "take the status").await.map(Some)
}

/// Writes the list of finalizers.
pub(crate) async fn finalizers<K>(
    client: &Client,
    object: &K,
    finalizers: &[String],
    manager: &str,
) -> Result<K, WriteError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let mut metadata = identity(object);
    metadata["finalizers"] = json!(finalizers);
    let body = json!({ "metadata": metadata });
    let request = request(object)
        .patch(name(object), &params(manager), &Patch::Merge(&body))
        .map_err(WriteError::Request)?;
    send(client, request, "take the finalizer").await
}

/// The object as it is now; [`WriteError::Gone`] if another one of its name has taken its place.
pub(crate) async fn read<K>(client: &Client, object: &K) -> Result<K, WriteError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let request = request(object).get(name(object), &GetParams::default()).map_err(WriteError::Request)?;
    let now: K = send(client, request, "give the object").await?;
    if now.meta().uid == object.meta().uid { Ok(now) } else { Err(WriteError::Gone) }
}

/// UID and version: the write is meant for exactly this state of exactly this object.
fn identity<K: Resource>(object: &K) -> Value {
    json!({ "uid": object.meta().uid, "resourceVersion": object.meta().resource_version })
}

fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn request<K: Resource<DynamicType = ()>>(object: &K) -> Request {
    Request::new(K::url_path(&(), object.meta().namespace.as_deref()))
}

fn params(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

async fn send<K: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
    what: &'static str,
) -> Result<K, WriteError> {
    client.request::<K>(request).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 409 => WriteError::Conflict,
        kube::Error::Api(status) if status.code == 404 => WriteError::Gone,
        source => WriteError::Api { what, source: Box::new(source) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_differs_is_sent() {
        let old = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "gone": true });
        let new = json!({ "a": 1, "b": { "c": [1, 3], "d": "x" }, "new": {} });
        assert_eq!(merge_patch(&old, &new), Some(json!({ "b": { "c": [1, 3] }, "new": {}, "gone": null })));
        assert_eq!(merge_patch(&old, &old), None);
    }

    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let target = target.as_object_mut().unwrap();
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                apply(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3u8).prop_map(Value::from),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_patch_turns_old_into_new(old in value(), new in value()) {
            let mut patched = old.clone();
            if let Some(patch) = merge_patch(&old, &new) {
                apply(&mut patched, &patch);
            }
            prop_assert_eq!(patched, new);
        }
    }
}
