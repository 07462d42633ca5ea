//! Objects of one kind, read and written as the values that they are.
//!
//! For those who keep objects as JSON anyway: nothing is turned into a type and back.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::WARNING};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GetParams, Patch, PatchParams},
    core::Request,
};
use serde_json::Value;

use super::{
    Applied, ApplyError, ApplyOptions, Deleted, FieldError, Hidden, LAST_APPLIED, apply_at, apply_request,
    check_name, delete_exact, send, send_for_all, unbuilt,
};

/// Where the objects of one kind are: in a namespace, or in the whole cluster.
#[derive(Clone)]
pub struct Endpoint {
    api: Api<DynamicObject>,
    client: Client,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&self.api.resource_url()).finish()
    }
}

/// What a dry run told.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The object would be new.
    pub created: bool,
    /// The object as it would be.
    pub object: Value,
    /// What the API server and its webhooks warn of.
    pub warnings: Vec<String>,
}

impl Endpoint {
    /// The objects of a kind. A namespace that cannot be a part of a path is refused.
    pub fn new(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Result<Self, ApplyError> {
        let api = match namespace {
            Some(namespace) => {
                check_name(namespace).map_err(|_| odd_namespace())?;
                Api::namespaced_with(client.clone(), namespace, resource)
            }
            None => Api::all_with(client.clone(), resource),
        };
        Ok(Self { api, client: client.clone() })
    }

    /// Reads an object; `None` when there is none, nor its namespace, nor its kind.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, ApplyError> {
        check_name(name)?;
        self.read(Request::new(self.url()).get(name, &GetParams::default())).await
    }

    /// The same, with nothing but the `metadata`.
    pub async fn get_metadata(&self, name: &str) -> Result<Option<Value>, ApplyError> {
        check_name(name)?;
        self.read(Request::new(self.url()).get_metadata(name, &GetParams::default())).await
    }

    /// Applies an object; see [`super::apply`].
    pub async fn apply(&self, object: &Value, options: &ApplyOptions) -> Result<Applied<Value>, ApplyError> {
        apply_at(&self.client, self.url(), name_of(object), &cleaned(object), options).await
    }

    /// A dry run of an apply, in one request: nothing is read before, and nothing is stored.
    pub async fn try_out(&self, object: &Value, options: &ApplyOptions) -> Result<Tried, ApplyError> {
        let name = name_of(object);
        check_name(name)?;
        let body = cleaned(object);
        let hidden = Hidden::of(&body);
        let options = ApplyOptions { dry_run: true, ..options.clone() };
        let request = apply_request(self.url(), name, &body, &options)?;
        let (head, answer) = send_for_all(&self.client, request, &hidden).await?;
        Ok(Tried {
            created: head.status == StatusCode::CREATED,
            object: value(&answer)?,
            warnings: warnings(&head.headers).iter().map(|warning| hidden.clean(warning)).collect(),
        })
    }

    /// Creates an object. One that exists already is [`ApplyError::Modified`].
    pub async fn create(&self, object: &Value, field_manager: &str) -> Result<Value, ApplyError> {
        self.write(http::Method::POST, self.url(), object, field_manager).await
    }

    /// Replaces an object whole. `metadata.resourceVersion` of `object` says which state is replaced: another one is
    /// [`ApplyError::Modified`].
    pub async fn replace(&self, object: &Value, field_manager: &str) -> Result<Value, ApplyError> {
        let name = name_of(object);
        check_name(name)?;
        self.write(http::Method::PUT, &format!("{}/{name}", self.url()), object, field_manager).await
    }

    /// Changes fields by a merge patch. With `metadata.uid` and `metadata.resourceVersion` in it, only that state is
    /// changed: another one is [`ApplyError::Modified`].
    pub async fn merge(&self, name: &str, patch: &Value, field_manager: &str) -> Result<Value, ApplyError> {
        check_name(name)?;
        let params = PatchParams { field_manager: Some(field_manager.to_owned()), ..PatchParams::default() };
        let request = Request::new(self.url()).patch(name, &params, &Patch::Merge(patch)).map_err(unbuilt)?;
        let (_, answer) = send(&self.client, request, &Hidden::default()).await?;
        value(&answer)
    }

    /// Deletes an object, and never another one that took its name; see [`delete_exact`].
    pub async fn delete(
        &self,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<Deleted, ApplyError> {
        delete_exact(&self.api, name, uid, resource_version).await
    }

    fn url(&self) -> &str {
        self.api.resource_url()
    }

    async fn read(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Option<Value>, ApplyError> {
        match send(&self.client, request.map_err(unbuilt)?, &Hidden::default()).await {
            Ok((_, answer)) => value(&answer).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        method: http::Method,
        path: &str,
        object: &Value,
        field_manager: &str,
    ) -> Result<Value, ApplyError> {
        let body = cleaned(object);
        let hidden = Hidden::of(&body);
        let bytes = serde_json::to_vec(&*body).map_err(|_| ApplyError::unreadable())?;
        // The name of a manager is a constant of ours: letters and dashes, nothing to escape.
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{path}?fieldManager={field_manager}&fieldValidation=Strict"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(bytes)
            .map_err(|_| ApplyError::Invalid {
                message: "the request cannot be built".to_owned(),
                causes: Vec::new(),
            })?;
        let (_, answer) = send(&self.client, request, &hidden).await?;
        value(&answer)
    }
}

fn odd_namespace() -> ApplyError {
    let message = "metadata.namespace cannot be part of a path".to_owned();
    let causes =
        vec![FieldError { field: "metadata.namespace".to_owned(), message: "not a valid name".to_owned() }];
    ApplyError::Invalid { message, causes }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The object without what must not be sent, see [`super::apply`].
fn cleaned(object: &Value) -> Cow<'_, Value> {
    let metadata = &object["metadata"];
    if metadata.get("managedFields").is_none() && metadata["annotations"].get(LAST_APPLIED).is_none() {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    Cow::Owned(object)
}

fn value(answer: &Bytes) -> Result<Value, ApplyError> {
    serde_json::from_slice(answer).map_err(|_| ApplyError::unreadable())
}

/// The texts of `Warning: 299 - "…"` headers. Several may stand in one header.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut found = Vec::new();
    for header in headers.get_all(WARNING) {
        let text = String::from_utf8_lossy(header.as_bytes());
        let mut letters = text.chars();
        while letters.by_ref().any(|letter| letter == '"') {
            let mut warning = String::new();
            while let Some(letter) = letters.next() {
                match letter {
                    '"' => break,
                    '\\' => warning.extend(letters.next()),
                    other => warning.push(other),
                }
            }
            if !warning.is_empty() {
                found.push(warning);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_are_read_from_their_headers() {
        let mut headers = HeaderMap::new();
        headers.append(WARNING, HeaderValue::from_static(r#"299 - "old \"API\"""#));
        headers.append(WARNING, HeaderValue::from_static(r#"299 - "one", 299 - "two""#));
        headers.append(WARNING, HeaderValue::from_static("299 - none"));
        assert_eq!(warnings(&headers), [r#"old "API""#, "one", "two"]);
    }

    #[test]
    fn what_must_not_be_sent_is_left_out() {
        let object = json!({"metadata": {"name": "a", "managedFields": [], "annotations": {LAST_APPLIED: "x", "b": "c"}}});
        assert_eq!(*cleaned(&object), json!({"metadata": {"name": "a", "annotations": {"b": "c"}}}));
        let clean = json!({"metadata": {"name": "a"}});
        assert!(matches!(cleaned(&clean), Cow::Borrowed(_)));
    }
}
