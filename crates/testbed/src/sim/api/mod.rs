//! A Kubernetes API in memory, under the real kube client.
//!
//! ```text
//!   kube::Client ──► Api (tower service) ──► http ──► verbs ──► state ──► watch ──► kube::Client
//!                                                       │
//!                                      kinds · schema · ownership · patch · selectors · gc
//! ```
//!
//! It behaves as kube-apiserver 1.36 and the controller manager's collectors do, as far as a controller can tell;
//! the [`contract`](crate::contract) suite holds it to that. It keeps no wall clock, no randomness and no
//! unordered maps: the same requests in the same order get the same answers, bytes included.
//!
//! What happens in its own time (definitions become established, small controllers act) waits on a list, see
//! [`Api::run`]. Rules stand in for admission, see [`Api::deny`].
//!
//! Not there: admission webhooks, RBAC, CEL rules, quantities in canonical form, built-in validation beyond names,
//! labels, owner references, immutability and types, addresses of Services, tokens, logs and exec. Nodes are
//! not simulated and a Deployment makes no Pods; [`Api::run_workloads`] moves the status of Deployments and Jobs.

#![allow(
    clippy::result_large_err,
    reason = "a refusal is made once per refused request, and it is the answer"
)]

mod admission;
mod agenda;
mod call;
mod clock;
mod crd;
mod discovery;
mod gc;
mod http;
mod kinds;
mod log;
mod ownership;
mod patch;
mod schema;
mod selectors;
mod snapshot;
mod state;
mod status;
mod verbs;
mod watch;
mod workloads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

pub use self::http::ResponseBody;
pub use agenda::Next;
pub use clock::TimeSource;
pub use log::Write;
pub use workloads::OUTCOME;

use call::Call;
use state::State;

type Shared = Arc<Mutex<State>>;

/// A panic elsewhere must not hide what the API has stored.
fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The API server. Clones are the same server.
#[derive(Clone)]
pub struct Api {
    state: Shared,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Api")
            .field("version", &state.version())
            .field("objects", &state.objects.len())
            .finish()
    }
}

impl Default for Api {
    fn default() -> Self {
        Self::new()
    }
}

/// Why something that a test asked of the API directly did not work.
#[derive(Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, as in a `Status`.
    pub reason: String,
    /// The message, as in a `Status`.
    pub message: String,
}

impl From<status::Failure> for Refused {
    fn from(failure: status::Failure) -> Self {
        Self { code: failure.code.as_u16(), reason: failure.reason.to_owned(), message: failure.message }
    }
}

impl Api {
    /// An API whose clock begins at 2026-01-01 and runs with tokio's.
    pub fn new() -> Self {
        Self::with_time(clock::from_epoch())
    }

    /// An API that takes its time from `time`.
    pub fn with_time(time: TimeSource) -> Self {
        Self::with_seed(0, time)
    }

    /// An API whose UIDs and generated names follow from `seed`.
    pub fn with_seed(seed: u64, time: TimeSource) -> Self {
        let api = Self { state: Arc::new(Mutex::new(State::new(seed, time))) };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            // A fresh server refuses no namespace.
            let made = api.create(
                "kube-apiserver",
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            );
            debug_assert!(made.is_ok(), "{made:?}");
        }
        lock(&api.state).writes.clear();
        api
    }

    /// A client of this API. `user_agent` is what the API takes the field manager from when a request names none.
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let value = ::http::HeaderValue::from_str(user_agent).ok();
        let service =
            tower::util::MapRequest::new(self.clone(), move |mut request: ::http::Request<Body>| {
                if let Some(value) = &value {
                    request.headers_mut().entry(::http::header::USER_AGENT).or_insert_with(|| value.clone());
                }
                request
            });
        kube::Client::new(service, "default")
    }

    /// Serves a custom kind, at once. The definition is an object like others afterwards.
    pub fn install_crd(&self, definition: &CustomResourceDefinition) -> Result<(), Refused> {
        let mut object = serde_json::to_value(definition).unwrap_or_default();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), "apiextensions.k8s.io/v1".into());
            fields.insert("kind".into(), "CustomResourceDefinition".into());
        }
        self.create("kube-apiserver", &object)?;
        crd::establish(&mut lock(&self.state), state::meta(&object, "name"));
        Ok(())
    }

    /// Creates an object as `manager`.
    pub fn create(&self, manager: &str, object: &Value) -> Result<Value, Refused> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut state = lock(&self.state);
        let namespace = state::meta(object, "namespace").to_owned();
        let call = admin_call(&state, text("apiVersion"), text("kind"), &namespace, "", manager)?;
        let call = Call { body: object.to_string().into_bytes(), ..call };
        Ok(self::http::dispatch(&mut state, &::http::Method::POST, &call)?.body)
    }

    /// One object, as it is stored. `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = lock(&self.state);
        let call = admin_call(&state, api_version, kind, namespace, name, "").ok()?;
        state.get(&call.key()).map(|object| call.resource.present(&object, &call.version.name))
    }

    /// One object by what its path says: group, version and plural. `None` also where the path is not served.
    pub(crate) fn find(
        &self,
        (group, version, plural): (&str, &str, &str),
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let state = lock(&self.state);
        let resource = state.resource(group, plural)?;
        resource.version(version)?;
        let key = state::ObjectKey {
            resource: resource.stored_as.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        state.get(&key).map(|object| resource.present(&object, version))
    }

    /// All objects, by group, resource, namespace and name.
    pub fn objects(&self) -> Vec<Value> {
        let shown = |object: &Value| {
            let mut object = object.clone();
            kinds::hide_empty_metadata(&mut object);
            object
        };
        lock(&self.state).objects.values().map(|object| shown(object)).collect()
    }

    /// All objects without what differs between runs that end alike (versions, times), as sorted JSON. UIDs are
    /// replaced by the place of the object that has it.
    pub fn snapshot(&self) -> String {
        snapshot::snapshot(&lock(&self.state).objects)
    }

    /// Changes an object as `manager`, through everything an update goes through.
    pub fn mutate(
        &self,
        manager: &str,
        (api_version, kind, namespace, name): (&str, &str, &str, &str),
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Refused> {
        let mut object = self.get(api_version, kind, namespace, name).ok_or_else(|| Refused {
            code: 404,
            reason: "NotFound".into(),
            message: format!("{kind} {namespace}/{name} not found"),
        })?;
        change(&mut object);
        let mut state = lock(&self.state);
        let call = admin_call(&state, api_version, kind, namespace, name, manager)?;
        let call = Call { body: object.to_string().into_bytes(), ..call };
        Ok(self::http::dispatch(&mut state, &::http::Method::PUT, &call)?.body)
    }

    /// Deletes an object as `manager`, in the background.
    pub fn delete(
        &self,
        manager: &str,
        (api_version, kind, namespace, name): (&str, &str, &str, &str),
    ) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        let call = admin_call(&state, api_version, kind, namespace, name, manager)?;
        self::http::dispatch(&mut state, &::http::Method::DELETE, &call)?;
        Ok(())
    }

    /// The writes so far, failures and the collector's included.
    pub fn writes(&self) -> Vec<Write> {
        lock(&self.state).writes.clone()
    }

    /// The current `resourceVersion`.
    pub fn version(&self) -> u64 {
        lock(&self.state).version()
    }

    /// What the API's clock shows.
    pub fn now(&self) -> Timestamp {
        lock(&self.state).now()
    }

    /// Forgets all history: older versions get 410 from now on. Watches that are under way go on.
    pub fn compact(&self) {
        lock(&self.state).compact();
    }

    /// Ends every watch that is under way, as a restart of the server does.
    pub fn drop_watches(&self) {
        lock(&self.state).drop_watches();
    }

    /// Collects what lost its owners, and ends namespaces and definitions that are being deleted.
    pub fn collect_garbage(&self) {
        gc::collect(&mut lock(&self.state));
    }

    /// Whether garbage is collected by itself after each write (the default).
    pub fn set_automatic_gc(&self, automatic: bool) {
        lock(&self.state).automatic_gc = automatic;
    }
}

/// A call for a kind, without HTTP.
fn admin_call(
    state: &State,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    manager: &str,
) -> Result<Call, Refused> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = state.registry.values().find(|resource| resource.key.group == group && resource.kind == kind);
    let found = found.and_then(|resource| Some((resource.clone(), resource.version(version)?.clone())));
    let (resource, version) = found.ok_or_else(|| Refused {
        code: 404,
        reason: "NotFound".into(),
        message: format!("kind {kind} of {api_version} is not served"),
    })?;
    Ok(Call {
        resource,
        version,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: String::new(),
        query: BTreeMap::from([("fieldManager".to_owned(), manager.to_owned())]),
        body: Vec::new(),
        content_type: "application/json".into(),
        user_agent: manager.to_owned(),
        user: None,
    })
}

impl tower::Service<::http::Request<Body>> for Api {
    type Response = ::http::Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ::http::Request<Body>) -> Self::Future {
        let state = self.state.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(self::http::handle(&state, &parts, &body))
        })
    }
}

#[cfg(test)]
mod tests;
