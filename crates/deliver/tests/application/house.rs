//! What one test has: a namespace, a repository, and hands to ask and to wait with.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{
    Application,
    application::status::{ApplicationStatus, Phase},
    condition,
};
use windlass_deliver::origin::Push;
use windlass_testbed::{control_plane::Namespace, git::Repo};

use crate::stack::{self, STACK_LABEL, Stack};

/// How long anything may take on a machine that has other things to do.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct House {
    pub stack: &'static Stack,
    pub admin: Client,
    /// Applications live here, and what they deliver unless they say otherwise.
    pub namespace: Namespace,
    pub repo: Repo,
    /// Value of the label that Applications get.
    label: Option<String>,
}

impl House {
    /// A namespace, and a repository with these files.
    pub async fn new(name: &str, files: &[(&str, &str)]) -> Self {
        Self::on(stack::shared().await, name, files, None).await
    }

    pub async fn on(
        stack: &'static Stack,
        name: &str,
        files: &[(&str, &str)],
        label: Option<String>,
    ) -> Self {
        let namespace = stack.control_plane.namespace(name).await.unwrap();
        let repo = stack.server.repo_with_files(&namespace, files).unwrap();
        Self { stack, admin: stack.control_plane.admin(), namespace, repo, label }
    }

    pub fn apps(&self) -> Api<Application> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// A spec that delivers a folder to the namespace of the test, with these fields put over it.
    pub fn spec(&self, path: &str, over: &Value) -> Value {
        let mut spec = json!({
            "source": { "repoURL": self.repo.url(), "revision": "main", "path": path },
            "destinations": [{ "cluster": "in-cluster", "namespace": self.namespace.name() }],
        });
        merge(&mut spec, over);
        spec
    }

    /// Makes an Application or changes its spec.
    pub async fn app(&self, name: &str, path: &str, over: Value) -> Application {
        let mut object = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
            "metadata": { "name": name, "namespace": self.namespace.name() },
            "spec": self.spec(path, &over),
        });
        if let Some(label) = &self.label {
            object["metadata"]["labels"] = json!({ STACK_LABEL: label });
        }
        let params = PatchParams::apply("test").force();
        self.apps().patch(name, &params, &Patch::Apply(&object)).await.unwrap()
    }

    pub async fn annotate(&self, name: &str, annotation: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { annotation: value } } });
        self.apps().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Commits, and tells of the push as a hook does.
    pub fn push(&self, files: &[(&str, Option<&str>)]) -> String {
        let commit = self.repo.commit_files(files, "change").unwrap();
        self.tell();
        commit
    }

    /// Tells of a push to the repository.
    pub fn tell(&self) {
        self.stack.repos.pushed(&Push { urls: vec![self.repo.url()], ..Push::default() });
    }

    pub async fn status(&self, name: &str) -> ApplicationStatus {
        self.apps().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// Waits until the status says something.
    pub async fn until<T>(
        &self,
        name: &str,
        what: &str,
        mut look: impl FnMut(&ApplicationStatus) -> Option<T>,
    ) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let app = self.apps().get(name).await.unwrap();
            let status = app.status.clone().unwrap_or_default();
            let current = status.observed_generation == app.metadata.generation;
            if let Some(found) = look(&status).filter(|_| current) {
                return found;
            }
            if tokio::time::Instant::now() > deadline {
                let status = serde_json::to_string_pretty(&status).unwrap();
                panic!("{name}: {what}: not within {PATIENCE:?}; the status is {status}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the newest commit of `main` runs.
    pub async fn healthy(&self, name: &str) -> ApplicationStatus {
        let tip = self.repo.tip().unwrap();
        self.healthy_at(name, &tip).await
    }

    /// Waits until a commit runs.
    pub async fn healthy_at(&self, name: &str, commit: &str) -> ApplicationStatus {
        self.until(name, "Healthy", |status| {
            let (_, truth, _) = ready(status);
            let well = truth == "True"
                && status.phase == Some(Phase::Healthy)
                && status.sync.revision.as_deref() == Some(commit);
            well.then(|| status.clone())
        })
        .await
    }

    /// Waits until Ready is False for this reason, and gives the message.
    pub async fn says(&self, name: &str, reason: &str) -> String {
        self.until(name, reason, |status| {
            let (message, truth, found) = ready(status);
            (truth == "False" && found == reason).then_some(message)
        })
        .await
    }

    /// Waits until something is there.
    pub async fn eventually<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = resource(kind);
        if namespace.is_empty() {
            Api::all_with(self.admin.clone(), &resource)
        } else {
            Api::namespaced_with(self.admin.clone(), namespace, &resource)
        }
    }

    /// An object in the namespace of the test: `v1/ConfigMap`, `apps/v1/Deployment`.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.get_in(&self.namespace, kind, name).await
    }

    pub async fn get_in(&self, namespace: &str, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind, namespace).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Somebody applies an object, by server-side apply.
    pub async fn apply(&self, manager: &str, object: &Value) -> Value {
        let (kind, namespace) = place(object);
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply(manager).force();
        let applied = self.api(&kind, &namespace).patch(name, &params, &Patch::Apply(object)).await.unwrap();
        serde_json::to_value(applied).unwrap()
    }

    /// Somebody creates an object.
    pub async fn create(&self, manager: &str, object: &Value) -> Value {
        let (kind, namespace) = place(object);
        let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let made = self.api(&kind, &namespace).create(&params, &dynamic).await.unwrap();
        serde_json::to_value(made).unwrap()
    }

    /// Somebody changes an object of the namespace.
    pub async fn meddle(&self, manager: &str, kind: &str, name: &str, patch: &Value) {
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        self.api(kind, &self.namespace).patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        self.api(kind, namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn gone(&self, kind: &str, name: &str) {
        self.eventually(&format!("{kind} {name} goes"), async || {
            self.get(kind, name).await.is_none().then_some(())
        })
        .await;
    }

    /// A namespace that another destination is.
    pub async fn other_namespace(&self, prefix: &str) -> Namespace {
        self.stack.control_plane.namespace(prefix).await.unwrap()
    }

    /// Registers the control plane once more, under another name.
    pub async fn cluster(&self, name: &str, labels: &Value) {
        self.apply("test", &cluster(name, labels, &json!({ "inCluster": {} }))).await;
    }
}

pub fn cluster(name: &str, labels: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name, "labels": labels }, "spec": spec,
    })
}

/// Message, status and reason of Ready.
pub fn ready(status: &ApplicationStatus) -> (String, String, String) {
    condition_of(status, condition::READY)
}

pub fn condition_of(status: &ApplicationStatus, type_: &str) -> (String, String, String) {
    condition::get(&status.conditions, type_)
        .map(|found| (found.message.clone(), found.status.clone(), found.reason.clone()))
        .unwrap_or_default()
}

fn resource(kind: &str) -> ApiResource {
    let mut parts = kind.rsplitn(3, '/');
    let (kind, version) = (parts.next().unwrap(), parts.next().unwrap());
    ApiResource::from_gvk(&GroupVersionKind::gvk(parts.next().unwrap_or_default(), version, kind))
}

fn place(object: &Value) -> (String, String) {
    let kind = format!("{}/{}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    (kind, object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned())
}

fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (key, value) in over {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}

pub fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: '{value}'}}\n---\n")
}

/// A `ConfigMap` with these annotations.
pub fn annotated(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\ndata: {{value: '1'}}\n---\n"
    )
}

pub fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: main, image: 'example.org/main:1'}}]}}\n---\n"
    )
}
