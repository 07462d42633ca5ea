//! What all of these tests need.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{Client, api::GroupVersionKind};
use serde_json::{Value, json};
use windlass_cluster::drive::Key;
use windlass_deliver::{
    fleet::{Contact, FleetOptions, Link, Wake, Wakes},
    tracking::{self, MANAGER},
};
use windlass_manifest::identity::{Identity, ObjectKey};

/// Notes who was woken.
#[derive(Clone, Default)]
pub struct Woken(Arc<Mutex<Vec<Wake>>>);

impl Woken {
    pub fn wakes(&self) -> Wakes {
        let notes = Arc::clone(&self.0);
        Arc::new(move |wake| notes.lock().unwrap().push(wake))
    }

    /// Who was woken since the last time somebody asked.
    pub fn take(&self) -> Vec<Wake> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Waits until something holds. Generous: these machines are busy.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not in time");
}

pub fn app(namespace: &str, name: &str) -> Key {
    Key { namespace: Some(namespace.into()), name: name.into() }
}

pub fn link(name: &str, client: Client, woken: &Woken) -> Link {
    Link::new(name, Contact::fixed(client), woken.wakes(), &FleetOptions::default())
}

pub fn gvk(object: &Value) -> GroupVersionKind {
    let id = Identity::of(object).unwrap();
    GroupVersionKind::gvk(&id.group, &id.version, &id.kind)
}

pub fn key(object: &Value) -> ObjectKey {
    ObjectKey::of(object).unwrap()
}

pub fn config_map(namespace: &str, name: &str, app: &Key) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace }, "data": { "k": "1" } });
    tracking::mark(&mut object, app);
    object
}

/// Path of the collection that an object is in.
pub fn collection(object: &Value) -> String {
    let id = Identity::of(object).unwrap();
    let plural = kube::api::ApiResource::from_gvk(&gvk(object)).plural;
    let root = if id.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", id.api_version()) };
    match &id.namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

/// Path of an object.
pub fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap())
}

/// Applies as deliver does.
pub async fn apply(client: &Client, object: &Value) -> Value {
    let url = format!("{}?fieldManager={MANAGER}&force=true", path(object));
    let request = http::Request::patch(url)
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request(request).await.unwrap()
}

/// Changes an object as somebody else does.
pub async fn meddle(client: &Client, object: &Value, below: &str, patch: &Value) -> Value {
    let request = http::Request::patch(format!("{}{below}?fieldManager=kubectl-edit", path(object)))
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .unwrap();
    client.request(request).await.unwrap()
}
