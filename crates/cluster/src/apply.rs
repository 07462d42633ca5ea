//! Writing objects by server-side apply, and deleting exactly what was meant.
//!
//! Nothing here retries by itself except [`retrying`], and nothing writes the last-applied annotation: ownership is
//! the API server's to keep. Errors say whether a repetition can help; see [`ApplyError::is_retryable`].

mod endpoint;
mod error;

use std::{fmt::Debug, future::Future, time::Duration};

use bytes::Bytes;
use http::{StatusCode, response::Parts};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, ResourceExt,
    api::{
        DeleteParams, GetParams, Patch, PatchParams, Preconditions, PropagationPolicy, ValidationDirective,
    },
    client::Body,
    core::Request,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use endpoint::{Endpoint, Tried};
pub use error::{ApplyError, FieldConflict, FieldError};

use error::Hidden;

/// The annotation that client-side apply leaves behind. It repeats the whole object, secrets included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How an object is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Who owns the fields afterwards.
    pub field_manager: String,
    /// Take fields from other managers instead of reporting a conflict.
    pub force: bool,
    /// Let the API server check and default everything, but store nothing.
    pub dry_run: bool,
    /// The `resourceVersion` that the caller last saw, which saves a read to tell a change from none. When the object
    /// moved on since, an apply without effect is reported as a change. Not used for a dry run.
    pub live_version: Option<String>,
}

impl ApplyOptions {
    /// Applies as this manager, without force.
    pub fn new(field_manager: impl Into<String>) -> Self {
        Self { field_manager: field_manager.into(), force: false, dry_run: false, live_version: None }
    }

    /// Takes fields from other managers.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Stores nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets [`ApplyOptions::live_version`].
    #[must_use]
    pub fn live_version(mut self, version: Option<String>) -> Self {
        self.live_version = version;
        self
    }
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// The object did not exist.
    Created,
    /// The object is different now.
    Changed,
    /// The object is as it was.
    Unchanged,
}

/// An applied object, as the API server has it now (or would have it, for a dry run).
#[derive(Debug, Clone, PartialEq)]
pub struct Applied<K> {
    /// What happened to it.
    pub outcome: Outcome,
    /// The object in full.
    pub object: K,
}

/// Applies an object.
///
/// Unknown fields are refused, also where the API server would drop them with a warning only. `managedFields` and
/// the last-applied annotation of `object` are not sent.
pub async fn apply<K>(api: &Api<K>, object: &K, options: &ApplyOptions) -> Result<Applied<K>, ApplyError>
where
    K: kube::Resource + Serialize + DeserializeOwned + Clone + Debug,
{
    let name = object.name_any();
    let body = body(object)?;
    let client = api.clone().into_client();
    let applied = apply_at(&client, api.resource_url(), &name, &body, options).await?;
    let object = serde_json::from_value(applied.object).map_err(|_| ApplyError::unreadable())?;
    Ok(Applied { outcome: applied.outcome, object })
}

async fn apply_at(
    client: &Client,
    url: &str,
    name: &str,
    body: &Value,
    options: &ApplyOptions,
) -> Result<Applied<Value>, ApplyError> {
    check_name(name)?;
    let before = before(client, url, name, options).await?;
    let (status, answer) = send(client, apply_request(url, name, body, options)?, &Hidden::of(body)).await?;
    let object: Value = serde_json::from_slice(&answer).map_err(|_| ApplyError::unreadable())?;
    let outcome = if status == StatusCode::CREATED {
        Outcome::Created
    } else if before.is_same(&object) {
        Outcome::Unchanged
    } else {
        Outcome::Changed
    };
    Ok(Applied { outcome, object })
}

fn apply_request(
    url: &str,
    name: &str,
    body: &Value,
    options: &ApplyOptions,
) -> Result<http::Request<Vec<u8>>, ApplyError> {
    let params = PatchParams {
        dry_run: options.dry_run,
        force: options.force,
        field_manager: Some(options.field_manager.clone()),
        field_validation: Some(ValidationDirective::Strict),
    };
    Request::new(url).patch(name, &params, &Patch::Apply(body)).map_err(unbuilt)
}

/// What the object was like, as far as needed to tell a change.
enum Before {
    /// Nothing known, or nothing there.
    Nothing,
    Version(String),
    /// A dry run does not move the version: the content must be compared.
    Content(Value),
}

impl Before {
    fn is_same(&self, after: &Value) -> bool {
        match self {
            Self::Nothing => false,
            Self::Version(version) => after["metadata"]["resourceVersion"] == **version,
            Self::Content(before) => {
                without_bookkeeping(before.clone()) == without_bookkeeping(after.clone())
            }
        }
    }
}

async fn before(
    client: &Client,
    url: &str,
    name: &str,
    options: &ApplyOptions,
) -> Result<Before, ApplyError> {
    let request = Request::new(url);
    let request = match (&options.live_version, options.dry_run) {
        (Some(version), false) => return Ok(Before::Version(version.clone())),
        (_, true) => request.get(name, &GetParams::default()),
        (None, false) => request.get_metadata(name, &GetParams::default()),
    };
    match send(client, request.map_err(unbuilt)?, &Hidden::default()).await {
        Ok((_, answer)) if options.dry_run => {
            serde_json::from_slice(&answer).map(Before::Content).map_err(|_| ApplyError::unreadable())
        }
        Ok((_, answer)) => {
            let found: Metadata = serde_json::from_slice(&answer).map_err(|_| ApplyError::unreadable())?;
            Ok(found.metadata.resource_version.map_or(Before::Nothing, Before::Version))
        }
        // Absent, or the apply itself says better what is missing.
        Err(error) if error.is_not_found() => Ok(Before::Nothing),
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    metadata: ObjectMeta,
}

fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    object
}

fn body<K: Serialize>(object: &K) -> Result<Value, ApplyError> {
    let mut body = serde_json::to_value(object).map_err(|_| ApplyError::Invalid {
        message: "the object cannot be written as JSON".to_owned(),
        causes: Vec::new(),
    })?;
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    Ok(body)
}

/// What a deletion found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Deleted {
    /// The object is gone, or will be once its finalizers are done.
    Requested,
    /// There was no such object, or another one has its name by now.
    AlreadyGone,
}

/// Deletes an object, and never another one that took its name.
///
/// With a `resource_version`, also never one that changed since: that is [`ApplyError::Modified`].
pub async fn delete_exact<K>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    resource_version: Option<&str>,
) -> Result<Deleted, ApplyError>
where
    K: kube::Resource + Clone,
{
    check_name(name)?;
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    };
    let client = api.clone().into_client();
    let request = Request::new(api.resource_url()).delete(name, &params).map_err(unbuilt)?;
    match send(&client, request, &Hidden::default()).await {
        Ok(_) => Ok(Deleted::Requested),
        Err(error) if error.is_not_found() => Ok(Deleted::AlreadyGone),
        Err(ApplyError::Modified { message }) => {
            // The same answer for another UID and for another version: look which.
            let request = Request::new(api.resource_url())
                .get_metadata(name, &GetParams::default())
                .map_err(unbuilt)?;
            match send(&client, request, &Hidden::default()).await {
                Ok((_, answer)) => {
                    let found: Metadata =
                        serde_json::from_slice(&answer).map_err(|_| ApplyError::unreadable())?;
                    if found.metadata.uid.as_deref() == Some(uid) {
                        Err(ApplyError::Modified { message })
                    } else {
                        Ok(Deleted::AlreadyGone)
                    }
                }
                Err(error) if error.is_not_found() => Ok(Deleted::AlreadyGone),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// How often and how long [`retrying`] repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Attempts in total.
    pub attempts: u32,
    /// First pause; doubled each time unless the API server names one.
    pub pause: Duration,
    /// Longest pause. When the API server asks for more, the error is returned instead.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 3, pause: Duration::from_millis(200), longest: Duration::from_secs(5) }
    }
}

/// Repeats an operation that failed for a moment: too many requests, an API server that restarts, a lost connection.
///
/// Only [`ApplyError::is_transient`] errors are repeated, so `operation` must be safe to repeat. Everything that
/// calls for a new look at the world is returned at once.
pub async fn retrying<T, F>(retries: Retries, mut operation: impl FnMut() -> F) -> Result<T, ApplyError>
where
    F: Future<Output = Result<T, ApplyError>>,
{
    let mut pause = retries.pause;
    for _ in 1..retries.attempts {
        let error = match operation().await {
            Err(error) if error.is_transient() => error,
            other => return other,
        };
        let wait = error.retry_after().unwrap_or(pause);
        if wait > retries.longest {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(retries.longest);
    }
    operation().await
}

async fn send(
    client: &Client,
    request: http::Request<Vec<u8>>,
    hidden: &Hidden,
) -> Result<(StatusCode, Bytes), ApplyError> {
    send_for_all(client, request, hidden).await.map(|(head, body)| (head.status, body))
}

/// The same, with the headers of the answer.
async fn send_for_all(
    client: &Client,
    request: http::Request<Vec<u8>>,
    hidden: &Hidden,
) -> Result<(Parts, Bytes), ApplyError> {
    let response = client.send(request.map(Body::from)).await.map_err(ApplyError::unreachable)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(ApplyError::unreachable)?.to_bytes();
    if head.status.is_success() {
        return Ok((head, body));
    }
    Err(ApplyError::from_answer(head.status, &head.headers, &body, hidden))
}

fn unbuilt(_: kube::core::request::Error) -> ApplyError {
    ApplyError::Invalid { message: "the request cannot be built".to_owned(), causes: Vec::new() }
}

/// A name becomes a part of a path: one with a slash would reach another object.
fn check_name(name: &str) -> Result<(), ApplyError> {
    let odd = |c: char| matches!(c, '/' | '%' | '?' | '#' | '\\') || c.is_control() || c.is_whitespace();
    if name.is_empty() || name == "." || name == ".." || name.contains(odd) {
        return Err(ApplyError::Invalid {
            message: "metadata.name is missing or cannot be part of a path".to_owned(),
            causes: vec![FieldError {
                field: "metadata.name".to_owned(),
                message: "not a valid name".to_owned(),
            }],
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
