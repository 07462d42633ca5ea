//! The API server, spoken to in plain JSON: what it answers is compared as it is.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use serde_json::Value;
use windlass_manifest::identity::Identity;

/// A client for objects of all kinds.
pub struct Server(pub Client);

const APPLY: &str = "application/apply-patch+yaml";

impl Server {
    /// The URL of an object.
    pub fn url(object: &Value) -> String {
        let id = Identity::of(object).unwrap();
        format!("{}/{}", Self::collection(&id), id.name)
    }

    fn collection(id: &Identity) -> String {
        let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(&id.group, &id.version, &id.kind)).plural;
        let root =
            if id.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", id.api_version()) };
        match &id.namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    /// Creates an object the way a person would, with a field manager of this name.
    pub async fn create(&self, object: &Value, manager: &str) {
        let id = Identity::of(object).unwrap();
        let url = format!("{}?fieldManager={manager}", Self::collection(&id));
        let body = object.to_string().into_bytes();
        let request = Request::post(url).header("content-type", "application/json").body(body).unwrap();
        self.send(request, &id).await;
    }

    /// Puts a pod on a node, as a scheduler does.
    pub async fn bind(&self, pod: &Value, node: &str) {
        let id = Identity::of(pod).unwrap();
        let body = serde_json::json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": id.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let url = format!("{}/binding?fieldManager=kube-scheduler", Self::url(pod));
        let body = body.to_string().into_bytes();
        let request = Request::post(url).header("content-type", "application/json").body(body).unwrap();
        self.send(request, &id).await;
    }

    /// Reads an object.
    pub async fn get(&self, object: &Value) -> Value {
        let request = Request::get(Self::url(object)).body(Vec::new()).unwrap();
        self.send(request, &Identity::of(object).unwrap()).await
    }

    /// Applies an object; `dry` changes nothing.
    pub async fn apply(&self, object: &Value, text: &str, manager: &str, dry: bool) -> Value {
        self.send(Self::apply_request(object, text, manager, dry), &Identity::of(object).unwrap()).await
    }

    /// Applies an object that the server may find invalid; `None` then.
    pub async fn try_apply(&self, object: &Value, manager: &str, dry: bool) -> Option<Value> {
        let request = Self::apply_request(object, &object.to_string(), manager, dry);
        match self.0.request::<Value>(request).await {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.code == 422 => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn apply_request(object: &Value, text: &str, manager: &str, dry: bool) -> Request<Vec<u8>> {
        let dry = if dry { "&dryRun=All" } else { "" };
        let url =
            format!("{}?fieldManager={manager}&force=true&fieldValidation=Strict{dry}", Self::url(object));
        Request::patch(url).header("content-type", APPLY).body(text.as_bytes().to_vec()).unwrap()
    }

    /// Changes an object behind the back of whoever applied it.
    pub async fn patch(&self, object: &Value, patch: &Value, manager: &str) -> Value {
        let kind =
            if patch.is_array() { "application/json-patch+json" } else { "application/merge-patch+json" };
        let url = format!("{}?fieldManager={manager}", Self::url(object));
        let body = patch.to_string().into_bytes();
        let request = Request::patch(url).header("content-type", kind).body(body).unwrap();
        self.send(request, &Identity::of(object).unwrap()).await
    }

    async fn send(&self, request: Request<Vec<u8>>, id: &Identity) -> Value {
        let what = format!("{} {id}", request.method());
        // A definition is served a moment after it was created, and an account known a moment after its namespace.
        for _ in 0..120 {
            let (parts, body) = request.clone().into_parts();
            match self.0.request::<Value>(Request::from_parts(parts, body)).await {
                Ok(answer) => return answer,
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 403 => {
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        panic!("{what}: not found in time")
    }
}
