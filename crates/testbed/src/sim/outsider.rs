//! Everyone else: people with kubectl, other controllers. Their requests are immediate, and on the record.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use super::{
    call::Call,
    hub::{Answer, AnyBody, Hub},
};

/// Somebody who is not under test. Faults never strike an outsider.
#[derive(Clone)]
pub struct Outsider {
    hub: Arc<Hub>,
    cluster: String,
    name: String,
}

impl Outsider {
    pub(crate) fn new(hub: &Arc<Hub>, cluster: &str, name: &str) -> Self {
        Self { hub: Arc::clone(hub), cluster: cluster.to_owned(), name: name.to_owned() }
    }

    /// A kube client that acts as this outsider.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Sends one request; gives the status and the body as JSON.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> anyhow::Result<(u16, Value)> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(bytes))
            .with_context(|| format!("building a request for {path}"))?;
        let sent = self.pass(request).await;
        let response = sent.map_err(|error| anyhow::anyhow!("request for {path} failed: {error}"))?;
        let code = response.status().as_u16();
        let collected = response.into_body().collect().await;
        let bytes =
            collected.map_err(|error| anyhow::anyhow!("reading the answer for {path}: {error}"))?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// Reads one object by its path.
    pub async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.send(Method::GET, path, "application/json", &Value::Null).await? {
            (200, object) => Ok(Some(object)),
            (404, _) => Ok(None),
            (code, answer) => bail!("GET {path} answered {code}: {answer}"),
        }
    }

    /// A merge patch on an object or subresource, which has to succeed.
    pub async fn merge(&self, path: &str, change: &Value) -> anyhow::Result<Value> {
        let path = self.managed(path);
        self.must(Method::PATCH, &path, "application/merge-patch+json", change).await
    }

    /// Server-side apply by force: takes the fields from whoever owned them.
    pub async fn take_fields(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let path = format!("{}&force=true", self.managed(path));
        self.must(Method::PATCH, &path, "application/apply-patch+yaml", object).await
    }

    /// Creates an object in a collection.
    pub async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let path = self.managed(path);
        self.must(Method::POST, &path, "application/json", object).await
    }

    /// Deletes an object; one that is not there is fine.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        match self.send(Method::DELETE, path, "application/json", &Value::Null).await? {
            (200..=299 | 404, _) => Ok(()),
            (code, answer) => bail!("DELETE {path} answered {code}: {answer}"),
        }
    }

    /// Adds a finalizer of its own to an object, which then cannot go away: a stuck finalizer.
    pub async fn hold(&self, path: &str, finalizer: &str) -> anyhow::Result<()> {
        let mut finalizers = self.finalizers(path).await?;
        finalizers.push(finalizer.to_owned());
        self.merge(path, &json!({ "metadata": { "finalizers": finalizers } })).await.map(drop)
    }

    /// Takes a finalizer off again.
    pub async fn let_go(&self, path: &str, finalizer: &str) -> anyhow::Result<()> {
        let mut finalizers = self.finalizers(path).await?;
        finalizers.retain(|other| other != finalizer);
        self.merge(path, &json!({ "metadata": { "finalizers": finalizers } })).await.map(drop)
    }

    /// Sets a spec to another and back: A → B → A, seen by a watcher as two events or none.
    pub async fn flip(&self, path: &str, there: &Value, back: &Value) -> anyhow::Result<()> {
        self.merge(path, there).await?;
        self.merge(path, back).await.map(drop)
    }

    pub(crate) async fn try_flip(&self, path: &str, there: &Value, back: &Value) {
        if let Err(error) = self.flip(path, there, back).await {
            self.hub.note(&self.name, format!("could not flip {path}: {error:#}"));
        }
    }

    /// Deletes the object of a request, finalizers and all, and creates it again with a new UID.
    ///
    /// Does nothing when the object is not there. Finalizers and owners stay as they were, status does not.
    pub async fn recreate(&self, call: &Call) {
        let Some(path) = call.object_path() else { return };
        if let Err(error) = self.try_recreate(&path, &call.collection_path()).await {
            self.hub.note(&self.name, format!("could not re-create {path}: {error:#}"));
        }
    }

    async fn try_recreate(&self, path: &str, collection: &str) -> anyhow::Result<()> {
        let Some(mut object) = self.get(path).await? else { return Ok(()) };
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(());
        }
        self.merge(path, &json!({ "metadata": { "finalizers": null } })).await?;
        self.delete(path).await?;
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
                meta.remove(field);
            }
        }
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        self.create(collection, &object).await.map(drop)
    }

    /// Changes an annotation of the object of a request, so that its resourceVersion moves.
    pub async fn touch(&self, call: &Call) {
        let Some(path) = call.object_path() else { return };
        let stamp = self.hub.clock.tick().to_string();
        let change = json!({ "metadata": { "annotations": { "sim.windlass.dev/touched": stamp } } });
        match self.get(&path).await {
            Ok(Some(_)) => {
                if let Err(error) = self.merge(&path, &change).await {
                    self.hub.note(&self.name, format!("could not touch {path}: {error:#}"));
                }
            }
            Ok(None) => {}
            Err(error) => self.hub.note(&self.name, format!("could not read {path}: {error:#}")),
        }
    }

    async fn finalizers(&self, path: &str) -> anyhow::Result<Vec<String>> {
        let object = self.get(path).await?.with_context(|| format!("{path} is not there"))?;
        let list =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn managed(&self, path: &str) -> String {
        let sign = if path.contains('?') { '&' } else { '?' };
        format!("{path}{sign}fieldManager={}", self.name)
    }

    async fn must(&self, method: Method, path: &str, kind: &str, body: &Value) -> anyhow::Result<Value> {
        match self.send(method.clone(), path, kind, body).await? {
            (200..=299, object) => Ok(object),
            (code, answer) => bail!("{method} {path} answered {code}: {answer}"),
        }
    }

    async fn pass(&self, request: Request<Body>) -> Answer {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Ok(agent) = http::HeaderValue::from_str(&format!("{}/1", self.name)) {
            parts.headers.entry("user-agent").or_insert(agent);
        }
        let (method, uri, headers) = (&parts.method, &parts.uri, &parts.headers);
        let call = Call::read((&self.name, 0), &self.cluster, method, uri, headers, &body);
        self.hub.perform(&call, Request::from_parts(parts, Body::from(body))).await
    }
}

impl Service<Request<Body>> for Outsider {
    type Response = Response<AnyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let outsider = self.clone();
        Box::pin(async move { outsider.pass(request).await })
    }
}
