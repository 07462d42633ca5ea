//! What is produced: Secrets, Clusters, Applications, each once.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::{Map, Value, json};
use windlass_api::{ApplicationSpec, ClusterSpec};

use super::{names, report::Report};

/// Kind, namespace and name of a foreign object, and what people call it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    /// Its API group; empty for the core.
    pub(super) group: String,
    /// Its kind.
    pub(super) kind: String,
    /// Its namespace; empty without one.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
}

impl Head {
    /// Of any value: what is missing is empty.
    pub(super) fn of(object: &Value) -> Self {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = text("/apiVersion");
        Self {
            group: version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// `Application argocd/shop`
    pub(super) fn title(&self) -> String {
        let name = if self.name.is_empty() { "(no name)" } else { &self.name };
        let kind = if self.kind.is_empty() { "(no kind)" } else { &self.kind };
        if self.namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {}/{name}", self.namespace)
        }
    }

    /// Whether name and namespace can be those of an object. Says so if not.
    pub(super) fn usable(&self, report: &mut Report) -> bool {
        let good =
            names::is_name(&self.name) && (self.namespace.is_empty() || names::is_namespace(&self.namespace));
        if !good {
            report.refused("it has no name that Kubernetes would take", "Correct the object");
        }
        good
    }
}

/// The data of a Secret, decoded.
pub(super) fn secret_data(object: &Value) -> BTreeMap<String, Vec<u8>> {
    let secret: Secret = serde_json::from_value(object.clone()).unwrap_or_default();
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, ByteString(bytes))| (key, bytes));
    let plain =
        secret.string_data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
    data.chain(plain).collect()
}

/// Labels and annotations that are carried over.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(super) annotations: BTreeMap<String, String>,
}

/// All that is produced.
#[derive(Debug, Default)]
pub(super) struct Produced {
    secrets: BTreeMap<(String, String), Value>,
    clusters: BTreeMap<String, Value>,
    applications: BTreeMap<(String, String), Value>,
}

impl Produced {
    /// A Secret, and the name that it got: another one of the same name with other content is never overwritten. An
    /// empty namespace is that of whoever applies it.
    pub(super) fn secret(&mut self, namespace: &str, name: &str, data: BTreeMap<String, Vec<u8>>) -> String {
        let data: BTreeMap<String, ByteString> =
            data.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect();
        let object = |name: &str| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata(namespace, name, &Marks::default()),
                "type": "Opaque",
                "data": data,
            })
        };
        let free = |name: &String| {
            let known = self.secrets.get(&(namespace.to_owned(), name.clone()));
            known.is_none_or(|known| *known == object(name))
        };
        let name = names::numbered(name).find(free).unwrap_or_else(|| name.to_owned());
        self.secrets.insert((namespace.to_owned(), name.clone()), object(&name));
        name
    }

    /// A Cluster.
    pub(super) fn cluster(&mut self, name: &str, marks: &Marks, spec: &ClusterSpec) {
        let object = object("Cluster", &metadata("", name, marks), serde_json::to_value(spec));
        self.clusters.insert(name.to_owned(), object);
    }

    /// An Application. One that is there already is told instead.
    pub(super) fn application(
        &mut self,
        head: &Head,
        marks: &Marks,
        spec: &ApplicationSpec,
        report: &mut Report,
    ) {
        let key = (head.namespace.clone(), head.name.clone());
        if self.applications.contains_key(&key) {
            report.refused(
                format!("there is another Application {} already", head.name),
                "Give them different names, or convert them into different namespaces with --into",
            );
            return;
        }
        let metadata = metadata(&head.namespace, &head.name, marks);
        self.applications.insert(key, object("Application", &metadata, serde_json::to_value(spec)));
        report.converted();
    }

    /// Whether there is an Application of this name.
    pub(super) fn has_application(&self, namespace: &str, name: &str) -> bool {
        self.applications.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// In the order in which they are best applied.
    pub(super) fn into_values(self) -> Vec<Value> {
        let secrets = self.secrets.into_values();
        secrets.chain(self.clusters.into_values()).chain(self.applications.into_values()).collect()
    }
}

fn object(kind: &str, metadata: &Value, spec: serde_json::Result<Value>) -> Value {
    // Specs are plain data with text keys: they can always be written.
    let mut spec = spec.unwrap_or(Value::Null);
    tidy(&mut spec);
    json!({
        "apiVersion": format!("{}/{}", windlass_api::GROUP, windlass_api::VERSION),
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    })
}

/// Takes away what is the default anyway and only makes the result longer.
fn tidy(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    let budget = json!({"maxObjects": 10, "maxPercent": 30});
    if let Some(sync) = fields.get_mut("sync").and_then(Value::as_object_mut)
        && sync.get("deletionBudget") == Some(&budget)
    {
        sync.shift_remove("deletionBudget");
    }
    if fields.get("policy") == Some(&json!({"mode": "strict"})) {
        fields.shift_remove("policy");
    }
}

fn metadata(namespace: &str, name: &str, marks: &Marks) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        map.insert("namespace".to_owned(), namespace.into());
    }
    for (field, pairs) in [("labels", &marks.labels), ("annotations", &marks.annotations)] {
        if !pairs.is_empty() {
            map.insert(field.to_owned(), json!(pairs));
        }
    }
    Value::Object(map)
}
