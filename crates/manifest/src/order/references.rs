//! Who refers to whom.
//!
//! References are found by the names of fields, the same in all kinds: `secretKeyRef`, `serviceAccountName`,
//! `claimName` mean the same in a Deployment and in a custom resource with a pod template in it. A reference counts only
//! when what it names is among the objects.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::index::Index;
use super::{Edge, Strength};
use crate::identity::{Identity, is_kind, split_api_version};

/// Deeper than any object that the API server takes.
const DEEPEST: usize = 200;

/// All references between objects, each once.
pub(super) fn between(objects: &[Value], index: &Index) -> Vec<Edge> {
    let backed = Backends::new(objects);
    let mut edges = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        let Ok(identity) = Identity::of(object) else { continue };
        let mut finder = Finder { at, identity: &identity, index, backed: &backed, edges: &mut edges };
        finder.of_identity();
        finder.of_kind(object);
        if let Value::Object(fields) = object
            && !holds_only_data(&identity)
        {
            for (name, value) in fields {
                // A status is no wish, and metadata refers to nothing that has to be there first.
                if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
                    finder.scan(name, value, 0);
                }
            }
        }
    }
    edges.retain(|edge| edge.from != edge.to);
    edges.sort_unstable_by_key(|edge| (edge.from, edge.to, std::cmp::Reverse(edge.strength)));
    edges.dedup_by_key(|edge| (edge.from, edge.to));
    edges
}

/// Kinds whose fields mean something to others only, whatever they are called.
fn holds_only_data(identity: &Identity) -> bool {
    match identity.group.as_str() {
        "" => matches!(identity.kind.as_str(), "ConfigMap" | "Secret"),
        // A definition comes early in any case: its conversion is not called before there are objects, and the
        // controller behind the conversion often does not start without the definition.
        "apiextensions.k8s.io" => true,
        _ => false,
    }
}

struct Finder<'a> {
    at: usize,
    identity: &'a Identity,
    index: &'a Index,
    backed: &'a Backends<'a>,
    edges: &'a mut Vec<Edge>,
}

impl Finder<'_> {
    fn add(&mut self, to: &[usize], strength: Strength) {
        let from = self.at;
        self.edges.extend(to.iter().map(|to| Edge { from, to: *to, strength }));
    }

    /// A namespaced object beside us; one of our own namespace, or without any if ours is not written down.
    fn here(&mut self, group: &str, kind: &str, name: &str, strength: Strength) {
        let found = self.index.find(group, kind, self.identity.namespace.as_deref(), name);
        self.add(found, strength);
    }

    fn cluster_wide(&mut self, group: &str, kind: &str, name: &str, strength: Strength) {
        self.add(self.index.find(group, kind, None, name), strength);
    }

    /// What follows from namespace and kind.
    fn of_identity(&mut self) {
        if let Some(namespace) = &self.identity.namespace {
            self.cluster_wide("", "Namespace", namespace, Strength::Hard);
        }
        self.add(self.index.definitions(&self.identity.group, &self.identity.kind), Strength::Hard);
        self.add(self.index.api_services(&self.identity.group, &self.identity.version), Strength::Hard);
    }

    /// What only some kinds mean by a field.
    fn of_kind(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        match (self.identity.group.as_str(), self.identity.kind.as_str()) {
            ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
                if let (Some(kind), Some(name)) = (text("/roleRef/kind"), text("/roleRef/name")) {
                    match kind {
                        "Role" => self.here("rbac.authorization.k8s.io", kind, name, Strength::Hard),
                        _ => self.cluster_wide("rbac.authorization.k8s.io", kind, name, Strength::Hard),
                    }
                }
                for subject in object.get("subjects").and_then(Value::as_array).into_iter().flatten() {
                    if let Some(name) = account_of(subject) {
                        let namespace = subject.get("namespace").and_then(Value::as_str);
                        let namespace = namespace.or(self.identity.namespace.as_deref());
                        self.add(self.index.find("", "ServiceAccount", namespace, name), Strength::Soft);
                    }
                }
            }
            ("", "Secret") => {
                if let Some(name) = object
                    .pointer("/metadata/annotations")
                    .and_then(|annotations| annotations.get("kubernetes.io/service-account.name")?.as_str())
                {
                    // The server deletes a token whose account is not there.
                    self.here("", "ServiceAccount", name, Strength::Hard);
                }
            }
            ("", "ServiceAccount") => {
                for secret in object.get("secrets").and_then(Value::as_array).into_iter().flatten() {
                    if let Some(name) = secret.get("name").and_then(Value::as_str) {
                        self.here("", "Secret", name, Strength::Soft);
                    }
                }
            }
            ("", "PersistentVolumeClaim") => {
                if let Some(name) = text("/spec/volumeName") {
                    self.cluster_wide("", "PersistentVolume", name, Strength::Soft);
                }
            }
            ("admissionregistration.k8s.io", kind) if kind.ends_with("PolicyBinding") => {
                let policy = kind.trim_end_matches("Binding");
                if let Some(name) = text("/spec/policyName") {
                    self.cluster_wide("admissionregistration.k8s.io", policy, name, Strength::Soft);
                }
            }
            _ => {}
        }
    }

    /// Looks for references below a field.
    fn scan(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            _ if depth > DEEPEST => {}
            Value::String(text) => self.of_text(name, text),
            Value::Array(items) => {
                for item in items {
                    // `imagePullSecrets` and the like: the list's name tells what its items are.
                    self.scan(name, item, depth + 1);
                }
            }
            Value::Object(fields) => {
                self.of_map(name, fields);
                for (name, value) in fields {
                    self.scan(name, value, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn of_text(&mut self, field: &str, text: &str) {
        match field {
            "serviceAccountName" | "serviceAccount" => self.here("", "ServiceAccount", text, Strength::Soft),
            "claimName" => self.here("", "PersistentVolumeClaim", text, Strength::Soft),
            "secretName" => self.here("", "Secret", text, Strength::Soft),
            "serviceName" => self.here("", "Service", text, Strength::Soft),
            "priorityClassName" => {
                self.cluster_wide("scheduling.k8s.io", "PriorityClass", text, Strength::Hard);
            }
            "runtimeClassName" => self.cluster_wide("node.k8s.io", "RuntimeClass", text, Strength::Hard),
            "storageClassName" => self.cluster_wide("storage.k8s.io", "StorageClass", text, Strength::Soft),
            "ingressClassName" => {
                self.cluster_wide("networking.k8s.io", "IngressClass", text, Strength::Soft);
            }
            "gatewayClassName" => {
                self.cluster_wide("gateway.networking.k8s.io", "GatewayClass", text, Strength::Soft);
            }
            "resourceClaimTemplateName" => {
                self.here("resource.k8s.io", "ResourceClaimTemplate", text, Strength::Soft);
            }
            "resourceClaimName" => self.here("resource.k8s.io", "ResourceClaim", text, Strength::Soft),
            _ => {}
        }
    }

    /// A map that names an object: by the name of its field, or by a kind of its own.
    fn of_map(&mut self, field: &str, fields: &Map<String, Value>) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let Some(name) = text("name") else { return };
        match field {
            "secretKeyRef" | "secretRef" | "imagePullSecrets" | "nodePublishSecretRef" => {
                self.here("", "Secret", name, Strength::Soft);
            }
            "configMapKeyRef" | "configMapRef" | "configMap" => {
                self.here("", "ConfigMap", name, Strength::Soft);
            }
            // A projected volume names its Secret so; everywhere else the field is `secretName`.
            "secret" => self.here("", "Secret", name, Strength::Soft),
            "service" if self.names_a_service_elsewhere() => {
                let namespace = text("namespace").or(self.identity.namespace.as_deref());
                self.add(self.index.find("", "Service", namespace, name), Strength::Soft);
                self.add(&self.backed.of(namespace, name), Strength::Soft);
            }
            "service" => self.here("", "Service", name, Strength::Soft),
            _ => self.of_reference(field, name, fields),
        }
    }

    /// Webhooks and API services call a Service that they name with its namespace.
    fn names_a_service_elsewhere(&self) -> bool {
        matches!(self.identity.group.as_str(), "admissionregistration.k8s.io" | "apiregistration.k8s.io")
    }

    /// `{apiVersion or group, kind, name}`, as in `scaleTargetRef` and the references of the Gateway API.
    fn of_reference(&mut self, field: &str, name: &str, fields: &Map<String, Value>) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let kind = match (text("kind"), field) {
            (Some(kind), _) => kind,
            // The Gateway API leaves out the kinds that it expects.
            (None, "backendRefs") => "Service",
            (None, "parentRefs") => "Gateway",
            _ => return,
        };
        let group = text("apiVersion")
            .and_then(split_api_version)
            .map(|(group, _)| group)
            .or_else(|| text("group"))
            .or_else(|| text("apiGroup"))
            .unwrap_or(if kind == "Gateway" { "gateway.networking.k8s.io" } else { "" });
        let looks_so = field.ends_with("Ref") || field.ends_with("Refs") || field.ends_with("Reference");
        let strength = if looks_so { Strength::Soft } else { Strength::Guess };
        let namespace = text("namespace").or(self.identity.namespace.as_deref());
        self.add(self.index.find(group, kind, namespace, name), strength);
        if namespace.is_some() {
            self.add(self.index.find(group, kind, None, name), strength);
        }
    }
}

fn account_of(subject: &Value) -> Option<&str> {
    (subject.get("kind")?.as_str()? == "ServiceAccount").then(|| subject.get("name")?.as_str())?
}

/// Which workloads stand behind a Service, by its selector. Few ask, so that it is worked out only then.
struct Backends<'a> {
    workloads: HashMap<Option<&'a str>, Vec<(usize, &'a Value)>>,
    selectors: HashMap<(Option<&'a str>, &'a str), &'a Map<String, Value>>,
}

impl<'a> Backends<'a> {
    fn new(objects: &'a [Value]) -> Self {
        let mut backends = Self { workloads: HashMap::new(), selectors: HashMap::new() };
        for (at, object) in objects.iter().enumerate() {
            let namespace = namespace_of(object);
            if let Some(labels) = object.pointer("/spec/template/metadata/labels") {
                backends.workloads.entry(namespace).or_default().push((at, labels));
            }
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            let selector = object.pointer("/spec/selector").and_then(Value::as_object);
            if let (Some(name), Some(selector)) = (name, selector.filter(|selector| !selector.is_empty()))
                && is_kind(object, "", "Service")
            {
                backends.selectors.insert((namespace, name), selector);
            }
        }
        backends
    }

    fn of(&self, namespace: Option<&str>, name: &str) -> Vec<usize> {
        let Some(selector) = self.selectors.get(&(namespace, name)) else { return Vec::new() };
        let workloads = self.workloads.get(&namespace).into_iter().flatten();
        let behind = workloads
            .filter(|(_, labels)| selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
        behind.map(|(at, _)| *at).collect()
    }
}

fn namespace_of(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("namespace")?.as_str()
}
