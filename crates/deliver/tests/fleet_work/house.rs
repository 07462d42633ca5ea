//! A link to a control plane, a namespace, and a client that notes its requests and can be made to fail.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::Value;
use tower::{BoxError, service_fn};
use windlass_api::application::sync::IgnoreDifference;
use windlass_cluster::drive::Key;
use windlass_deliver::{
    fleet::{
        Contact, Done, FleetOptions, Found, Judge, Link, Memory, Prepare, Survey, Surveyed, Work, carry_out,
        prepare, survey,
    },
    object::{ObjectId, Sealed},
    render::{Manifest, Rendered},
    trouble::Trouble,
};
use windlass_testbed::control_plane::{ControlPlane, Namespace};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct House {
    pub control_plane: &'static ControlPlane,
    pub admin: Client,
    pub namespace: Namespace,
    pub link: Link,
    pub app: Key,
    pub memory: Memory,
    pub log: Arc<Mutex<Vec<String>>>,
    /// Every request of the link fails, but for watches.
    pub broken: Arc<AtomicBool>,
    /// Happens just before the next write of the link arrives.
    meddling: Meddling,
}

/// What somebody else does at a moment.
type Meddling = Arc<Mutex<Option<BoxFuture<'static, ()>>>>;

pub fn key(name: &str) -> Key {
    Key { namespace: Some("team".into()), name: name.into() }
}

impl House {
    pub async fn new(name: &str) -> Self {
        let control_plane = ControlPlane::shared().await.unwrap();
        let namespace = control_plane.namespace(name).await.unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let broken = Arc::<AtomicBool>::default();
        let meddling = Meddling::default();
        let client =
            noting(control_plane.admin(), Arc::clone(&log), Arc::clone(&broken), Arc::clone(&meddling));
        let link = Link::new("east", Contact::fixed(client), Arc::new(|_| {}), &FleetOptions::default());
        let app = key(&namespace);
        let admin = control_plane.admin();
        Self { control_plane, admin, namespace, link, app, memory: Memory::default(), log, broken, meddling }
    }

    /// Objects as they are wanted in the namespace of the test.
    pub async fn wanted(&self, objects: &[Value]) -> Vec<Sealed> {
        self.wanted_by(&self.app, objects).await
    }

    pub async fn wanted_by(&self, app: &Key, objects: &[Value]) -> Vec<Sealed> {
        let manifests = objects.iter().map(|object| Manifest {
            id: ObjectId::of(object).unwrap(),
            place: None,
            object: Arc::new(object.clone()),
        });
        let rendered = Rendered { objects: manifests.collect(), digest: "test".into() };
        let how =
            Prepare { app, namespace: &self.namespace, allowed_namespaces: &[], allow_cluster_scoped: false };
        let prepared = prepare(&self.link, &rendered, &how).await.unwrap();
        assert_eq!(prepared.problems, []);
        prepared.objects
    }

    pub fn asks<'a>(&'a self, wanted: &'a [Sealed]) -> Survey<'a> {
        Survey {
            app: &self.app,
            wanted,
            inventory: &[],
            ignore: &[],
            judge: Judge::All,
            as_user: None,
            makes_namespace: None,
            memory: &self.memory,
        }
    }

    pub async fn survey(&self, wanted: &[Sealed]) -> Vec<Found> {
        survey(&self.link, &self.asks(wanted)).await.unwrap().objects
    }

    pub async fn surveyed(&self, asked: &Survey<'_>) -> Surveyed {
        survey(&self.link, asked).await.unwrap()
    }

    pub async fn look_ignoring(&self, wanted: &[Sealed], ignore: &[IgnoreDifference]) -> Vec<Found> {
        self.surveyed(&Survey { ignore, ..self.asks(wanted) }).await.objects
    }

    pub async fn carry_out(&self, steps: &[Vec<Work>]) -> Vec<Done> {
        carry_out(&self.link, &self.app, None, steps, || Ok(())).await
    }

    pub async fn apply(&self, wanted: &[Sealed]) {
        let done = self.carry_out(&[wanted.iter().cloned().map(Work::Apply).collect()]).await;
        for done in done {
            assert_eq!(done.result, Ok(()), "{}", done.object);
        }
    }

    pub fn api(&self, id: &ObjectId) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&id.group, &id.version, &id.kind));
        if id.namespace.is_empty() {
            Api::all_with(self.admin.clone(), &resource)
        } else {
            Api::namespaced_with(self.admin.clone(), &id.namespace, &resource)
        }
    }

    /// The live object, past the link.
    pub async fn live(&self, id: &ObjectId) -> Option<Value> {
        let found = self.api(id).get_opt(&id.name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Somebody else makes an object; by an update, or by server-side apply.
    pub async fn somebody_makes(&self, object: &Value, manager: &str, applies: bool) -> Value {
        let id = self.id(object);
        let mut object = object.clone();
        if !id.namespace.is_empty() {
            object["metadata"]["namespace"] = id.namespace.as_str().into();
        }
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let made = if applies {
            self.api(&id).patch(&id.name, &PatchParams::apply(manager).force(), &Patch::Apply(&object)).await
        } else {
            let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
            self.api(&id).create(&params, &dynamic).await
        };
        serde_json::to_value(made.unwrap()).unwrap()
    }

    pub async fn somebody_patches(&self, id: &ObjectId, manager: &str, patch: &Value) {
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        self.api(id).patch(&id.name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// The id of an object in the namespace of the test, unless it is cluster-scoped.
    pub fn id(&self, object: &Value) -> ObjectId {
        let mut id = ObjectId::of(object).unwrap();
        let cluster_scoped = [
            "Namespace",
            "CustomResourceDefinition",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ];
        if id.namespace.is_empty() && !cluster_scoped.contains(&id.kind.as_str()) {
            id.namespace = self.namespace.to_string();
        }
        id
    }

    /// Requests since the last call, without those of the watches.
    pub fn requests(&self) -> Vec<String> {
        let mut log = self.log.lock().unwrap();
        std::mem::take(&mut *log)
            .into_iter()
            .filter(|line| !line.contains("watch=") && !line.contains("labelSelector="))
            .collect()
    }

    /// Somebody makes an object after the link looked whether it is there, and before it writes.
    pub fn somebody_is_quicker(&self, object: &Value) {
        let id = self.id(object);
        let mut object = object.clone();
        object["metadata"]["namespace"] = id.namespace.as_str().into();
        let (api, object) = (self.api(&id), serde_json::from_value::<DynamicObject>(object).unwrap());
        let act = async move {
            let params = PostParams { field_manager: Some("kubectl".into()), ..PostParams::default() };
            api.create(&params, &object).await.unwrap();
        };
        *self.meddling.lock().unwrap() = Some(act.boxed());
    }

    pub fn break_off(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }
}

fn noting(
    client: Client,
    log: Arc<Mutex<Vec<String>>>,
    broken: Arc<AtomicBool>,
    meddling: Meddling,
) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let line = format!("{} {}", request.method(), request.uri());
        let fails = broken.load(Ordering::SeqCst) && !line.contains("watch=");
        let writes = request.method() == http::Method::PATCH && !line.contains("dryRun=");
        log.lock().unwrap().push(line);
        let client = client.clone();
        let meddling = if writes { meddling.lock().unwrap().take() } else { None };
        async move {
            if let Some(meddling) = meddling {
                meddling.await;
            }
            if fails {
                return Err(BoxError::from("connection refused"));
            }
            Ok::<Response<Body>, BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, "default")
}

/// Polls until something is there.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The one trouble of one piece of work.
pub fn trouble(done: &[Done]) -> &Trouble {
    assert_eq!(done.len(), 1, "{done:?}");
    done[0].result.as_ref().unwrap_err()
}
