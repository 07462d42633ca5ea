//! One case's way to the API: requests that are written down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::{AsyncBufReadExt as _, StreamExt as _, stream::BoxStream};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::Env;
use super::definitions::GROUP;
use super::transcript::{Transcript, failure};

/// How long to wait for something that the server does in its own time.
const PATIENCE: Duration = Duration::from_mins(3);

/// The requests of one case, in a namespace of its own.
pub struct Session {
    client: Client,
    /// The namespace.
    pub namespace: String,
    transcript: Mutex<Transcript>,
    forget: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status code.
    pub code: u16,
    /// The body; text that is not JSON is a string.
    pub body: Value,
    /// `Warning` headers.
    pub warnings: Vec<String>,
}

impl Reply {
    /// The object, if the code is the expected one.
    pub fn expect(self, code: u16) -> anyhow::Result<Value> {
        ensure!(self.code == code, "expected {code}, got {}: {}", self.code, self.body);
        Ok(self.body)
    }

    /// The `Status`, if the code and reason are the expected ones.
    pub fn refused(self, code: u16, reason: &str) -> anyhow::Result<Value> {
        let found = self.body.get("reason").and_then(Value::as_str).unwrap_or_default();
        ensure!(
            self.code == code && found == reason,
            "expected {code} {reason:?}, got {} {found:?}: {}",
            self.code,
            self.body
        );
        Ok(self.body)
    }
}

/// `details.causes` as pairs of reason and field, sorted.
pub(crate) fn causes(status: &Value) -> Vec<(String, String)> {
    let text =
        |cause: &Value, key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let mut causes: Vec<_> = causes.map(|cause| (text(cause, "reason"), text(cause, "field"))).collect();
    causes.sort();
    causes
}

/// A text at a JSON pointer, empty when there is none.
pub(crate) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Session {
    pub(crate) async fn open(env: &Env, case: &str) -> anyhow::Result<Self> {
        let namespace = format!("{}-{}", case.replace('_', "-"), env.run);
        let mut transcript = Transcript::default();
        transcript.replace(&namespace, "<namespace>");
        let session = Self {
            client: env.client.clone(),
            namespace: namespace.clone(),
            transcript: Mutex::new(transcript),
            forget: env.forget.clone(),
        };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        session.unwritten(&Method::POST, "/api/v1/namespaces", Some(&body)).await?.expect(201)?;
        Ok(session)
    }

    pub(crate) async fn close(&self) {
        // What is left over in a server that goes away afterwards is no reason to fail.
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        if let Err(error) = self.raw(&Method::DELETE, &path, "", None).await {
            tracing::debug!(%error, namespace = self.namespace, "left over");
        }
    }

    /// Takes finalizers off, so that nothing keeps the namespace from going.
    pub(crate) async fn release(&self, objects: &[&str]) {
        let change = json!({"metadata": {"finalizers": null}});
        for object in objects {
            let path = self.path(object);
            if let Err(error) =
                self.raw(&Method::PATCH, &path, "application/merge-patch+json", Some(&change)).await
            {
                tracing::debug!(%error, path, "left over");
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Transcript> {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn transcript(&self) -> Vec<String> {
        self.book().lines()
    }

    /// Writes `word` as `token` in the transcript.
    pub(crate) fn replace(&self, word: &str, token: &str) {
        self.book().replace(word, token);
    }

    /// Makes the server forget its history, where that can be asked for.
    pub(crate) fn forget(&self) {
        (self.forget)();
    }

    /// The path of a resource in this case's namespace: `configmaps/a`, `apps/v1/deployments`, `widgets/x/status`.
    fn path(&self, short: &str) -> String {
        let namespace = &self.namespace;
        match short.split(['/', '?']).next().unwrap_or_default() {
            "" => short.to_owned(),
            "widgets" => format!("/apis/{GROUP}/v1/namespaces/{namespace}/{short}"),
            "widgets-v1beta1" => {
                format!(
                    "/apis/{GROUP}/v1beta1/namespaces/{namespace}/{}",
                    short.replacen("widgets-v1beta1", "widgets", 1)
                )
            }
            "gadgets" => format!("/apis/{GROUP}/v1/{short}"),
            "deployments" | "replicasets" => format!("/apis/apps/v1/namespaces/{namespace}/{short}"),
            "leases" => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/{short}"),
            "new-events" => {
                format!(
                    "/apis/events.k8s.io/v1/namespaces/{namespace}/{}",
                    short.replacen("new-events", "events", 1)
                )
            }
            _ => format!("/api/v1/namespaces/{namespace}/{short}"),
        }
    }

    /// A request that is not written down.
    async fn raw(
        &self,
        method: &Method,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let media = if media.is_empty() { "application/json" } else { media };
        self.raw_with(method, path, &[("content-type", media)], body).await
    }

    /// A request with headers of its own that is not written down.
    pub(crate) async fn raw_with(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let bytes = body.map(ToString::to_string).unwrap_or_default().into_bytes();
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.send(request.body(Body::from(bytes))?).await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        Ok(Reply {
            code: parts.status.as_u16(),
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
            warnings: warnings.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect(),
        })
    }

    /// A request that is written down. Writes are made by the manager `tester` unless the path names one.
    pub(crate) async fn request(
        &self,
        method: Method,
        short: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let mut path = self.path(short);
        let write = [Method::POST, Method::PUT, Method::PATCH].contains(&method);
        let agent = headers.iter().any(|(name, _)| *name == "user-agent");
        if write && !path.contains("fieldManager=") && !agent {
            path = format!("{path}{}fieldManager=tester", if path.contains('?') { '&' } else { '?' });
        }
        let reply =
            self.raw_with(&method, &path, headers, body).await.with_context(|| format!("{method} {path}"))?;
        let mut shown = match &reply.body {
            Value::Object(_) if reply.code >= 400 => failure(&reply.body),
            other => other.clone(),
        };
        if !reply.warnings.is_empty() {
            shown = json!({"warnings": reply.warnings, "body": shown});
        }
        self.book().add(&format!("{method} {short} {}", reply.code), &shown);
        Ok(reply)
    }

    /// A request whose answer is not written down, because its names are not known before.
    pub(crate) async fn unwritten(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        self.raw(method, &format!("{path}?fieldManager=tester"), "", body).await
    }

    /// GET of a page, whose path has a token in it that is not written down.
    pub(crate) async fn page(&self, path: &str) -> anyhow::Result<Reply> {
        let reply = self.raw(&Method::GET, path, "", None).await?;
        self.book().add(&format!("GET page {}", reply.code), &reply.body);
        Ok(reply)
    }

    /// GET.
    pub(crate) async fn get(&self, short: &str) -> anyhow::Result<Reply> {
        self.request(Method::GET, short, &[], None).await
    }

    /// POST.
    pub(crate) async fn post(&self, short: &str, body: &Value) -> anyhow::Result<Reply> {
        self.request(Method::POST, short, &[("content-type", "application/json")], Some(body)).await
    }

    /// PUT.
    pub(crate) async fn put(&self, short: &str, body: &Value) -> anyhow::Result<Reply> {
        self.request(Method::PUT, short, &[("content-type", "application/json")], Some(body)).await
    }

    /// PATCH of a kind: `merge`, `json`, `strategic`.
    pub(crate) async fn patch(&self, kind: &str, short: &str, body: &Value) -> anyhow::Result<Reply> {
        let media = match kind {
            "merge" => "application/merge-patch+json",
            "json" => "application/json-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            other => bail!("no patch of the kind {other:?}"),
        };
        self.request(Method::PATCH, short, &[("content-type", media)], Some(body)).await
    }

    /// Server-side apply as `manager`.
    pub(crate) async fn apply(&self, manager: &str, short: &str, body: &Value) -> anyhow::Result<Reply> {
        let separator = if short.contains('?') { '&' } else { '?' };
        let short = format!("{short}{separator}fieldManager={manager}");
        self.request(Method::PATCH, &short, &[("content-type", "application/apply-patch+yaml")], Some(body))
            .await
    }

    /// DELETE with options.
    pub(crate) async fn delete(&self, short: &str, options: &Value) -> anyhow::Result<Reply> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let (Some(body), Some(options)) = (body.as_object_mut(), options.as_object()) {
            body.extend(options.clone());
        }
        self.request(Method::DELETE, short, &[("content-type", "application/json")], Some(&body)).await
    }

    /// Waits until `check` holds for an answer to a GET; only the last answer is written down.
    pub(crate) async fn until(
        &self,
        short: &str,
        what: &str,
        check: impl Fn(&Reply) -> bool + Send,
    ) -> anyhow::Result<Reply> {
        let path = self.path(short);
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let reply = self.raw(&Method::GET, &path, "", None).await?;
            if check(&reply) {
                return self.get(short).await;
            }
            ensure!(
                tokio::time::Instant::now() < end,
                "{what} did not happen: {} {}",
                reply.code,
                reply.body
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Server-side apply as `tester`, with force, that is not written down.
    pub(crate) async fn unwritten_apply(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}fieldManager=tester&force=true");
        self.raw(&Method::PATCH, &path, "application/apply-patch+yaml", Some(body)).await
    }

    /// As [`Session::until`], without writing down: what a server fills in is not the same everywhere.
    pub(crate) async fn unwritten_until(
        &self,
        path: &str,
        what: &str,
        check: impl Fn(&Reply) -> bool + Send,
    ) -> anyhow::Result<Reply> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let reply = self.raw(&Method::GET, path, "", None).await?;
            if check(&reply) {
                return Ok(reply);
            }
            let (code, body) = (reply.code, reply.body);
            ensure!(tokio::time::Instant::now() < end, "{what} did not happen: {code} {body}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, short: &str) -> anyhow::Result<()> {
        self.until(short, "the removal", |reply| reply.code == 404).await.map(drop)
    }

    /// Starts a watch.
    pub(crate) async fn watch(&self, short: &str) -> anyhow::Result<WatchSession<'_>> {
        self.watch_with(short, "application/json").await
    }

    /// Starts a watch that accepts a certain media type.
    pub(crate) async fn watch_with(&self, short: &str, accept: &str) -> anyhow::Result<WatchSession<'_>> {
        let separator = if short.contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}watch=true", self.path(short));
        let request = http::Request::get(path).header("accept", accept).body(Vec::new())?;
        let lines = self.client.request_stream(request).await?;
        Ok(WatchSession { session: self, lines: lines.lines().boxed() })
    }
}

/// A watch under way.
pub struct WatchSession<'a> {
    session: &'a Session,
    lines: BoxStream<'a, std::io::Result<String>>,
}

impl std::fmt::Debug for WatchSession<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchSession").finish_non_exhaustive()
    }
}

impl WatchSession<'_> {
    /// The next event, `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next()).await.context("no event came")?;
        let Some(line) = line.transpose()? else {
            self.session.book().add("watch", &json!("end"));
            return Ok(None);
        };
        let event: Value = serde_json::from_str(&line)?;
        let shown = if text(&event, "/type") == "ERROR" {
            failure(event.get("object").unwrap_or(&Value::Null))
        } else {
            event.clone()
        };
        self.session.book().add("watch", &shown);
        Ok(Some(event))
    }

    /// The next event, which must be of this kind; returns its object.
    pub(crate) async fn expect(&mut self, kind: &str) -> anyhow::Result<Value> {
        let event = self.next().await?.context("the watch ended")?;
        ensure!(text(&event, "/type") == kind, "expected {kind}, got {event}");
        Ok(event.get("object").cloned().unwrap_or_default())
    }
}
