//! What the server picks in the kinds that it knows.

use serde_json::{Map, Value};

use super::evidence::Evidence;
use super::{list_at, map_at, pods, retain_entries, retain_items};
use crate::identity::split_api_version;

/// Annotations that say that somebody else writes `caBundle`.
const INJECTED_CA: [&str; 4] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
];

/// Takes picked values away, by kind.
pub(super) fn tidy(fields: &mut Map<String, Value>, evidence: &Evidence) {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let group = split_api_version(&api_version).map_or("", |(group, _)| group);
    match (group, kind.as_str()) {
        ("", "Service") => service(fields, evidence),
        ("", "Pod") => pods::pod(fields, evidence),
        ("", "Namespace") => namespace(fields),
        ("", "Node") => node(fields),
        ("", "PersistentVolumeClaim") => drop_picked(fields, evidence, &["volumeName"]),
        ("", "PersistentVolume") => volume(fields),
        ("", "ServiceAccount") => service_account(fields),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => {
            pods::template(map_at(fields, "spec"));
            drop_claim_status(fields);
        }
        ("batch", "Job") => job(fields, evidence),
        ("batch", "CronJob") => {
            let job = map_at(fields, "spec").and_then(|spec| map_at(spec, "jobTemplate"));
            pods::template(job.and_then(|job| map_at(job, "spec")));
        }
        ("rbac.authorization.k8s.io", "ClusterRole") => cluster_role(fields),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            drop_all(fields, &["username", "uid", "groups", "extra"]);
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => webhooks(fields),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(fields),
        ("apiregistration.k8s.io", "APIService") if has_injected_ca(fields) => {
            drop_all(fields, &["caBundle"]);
        }
        _ => {}
    }
}

/// Fields of `spec` that the server picked.
fn drop_picked(fields: &mut Map<String, Value>, evidence: &Evidence, names: &[&str]) {
    if let Some(spec) = map_at(fields, "spec") {
        spec.retain(|name, _| !(names.contains(&name.as_str()) && evidence.picked(&["spec", name])));
    }
}

/// Fields of `spec` that are the server's in any case.
fn drop_all(fields: &mut Map<String, Value>, names: &[&str]) {
    if let Some(spec) = map_at(fields, "spec") {
        spec.retain(|name, _| !names.contains(&name.as_str()));
    }
}

fn service(fields: &mut Map<String, Value>, evidence: &Evidence) {
    let headless =
        fields.get("spec").and_then(|spec| spec.get("clusterIP")).and_then(Value::as_str) == Some("None");
    drop_picked(fields, evidence, &["ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"]);
    if headless {
        // `None` is a wish; its copy in the list follows from it.
        drop_picked(fields, evidence, &["clusterIPs"]);
    } else {
        drop_picked(fields, evidence, &["clusterIP", "clusterIPs"]);
    }
    let ports = map_at(fields, "spec").and_then(|spec| list_at(spec, "ports"));
    for port in ports.into_iter().flatten() {
        if evidence.picked_in(&["spec", "ports"], port, "nodePort")
            && let Value::Object(port) = port
        {
            port.remove("nodePort");
        }
    }
}

fn namespace(fields: &mut Map<String, Value>) {
    if let Some(metadata) = map_at(fields, "metadata") {
        let name = metadata.get("name").cloned();
        // The server keeps this label equal to the name; any other value would be somebody's mistake, and stays.
        let is_name = name.is_some()
            && map_at(metadata, "labels").and_then(|labels| labels.get(NAME_LABEL).cloned()) == name;
        if is_name {
            retain_entries(metadata, "labels", |key| key != NAME_LABEL);
        }
    }
    if let Some(spec) = map_at(fields, "spec") {
        retain_items(spec, "finalizers", |finalizer| finalizer != "kubernetes");
        if spec.is_empty() {
            fields.remove("spec");
        }
    }
}

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn node(fields: &mut Map<String, Value>) {
    drop_all(fields, &["podCIDR", "podCIDRs", "providerID", "externalID"]);
    if let Some(spec) = map_at(fields, "spec") {
        retain_items(spec, "taints", |taint| {
            let key = taint.get("key").and_then(Value::as_str).unwrap_or_default();
            !(key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/"))
        });
        if spec.is_empty() {
            fields.remove("spec");
        }
    }
}

/// The claim stays, so that a volume stays reserved for it; which incarnation of the claim does not.
fn volume(fields: &mut Map<String, Value>) {
    let claim = map_at(fields, "spec").and_then(|spec| map_at(spec, "claimRef"));
    if let Some(claim) = claim {
        claim.remove("uid");
        claim.remove("resourceVersion");
    }
}

/// References to tokens and pull secrets that were generated for the account.
fn service_account(fields: &mut Map<String, Value>) {
    let name = fields.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    let Some(name) = name.map(str::to_owned) else { return };
    let generated = |item: &Value| {
        let rest = item.get("name").and_then(Value::as_str).and_then(|text| text.strip_prefix(&name));
        let suffix =
            rest.and_then(|rest| rest.strip_prefix("-token-").or_else(|| rest.strip_prefix("-dockercfg-")));
        suffix.is_some_and(|suffix| suffix.len() == 5 && suffix.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    retain_items(fields, "secrets", |item| !generated(item));
    retain_items(fields, "imagePullSecrets", |item| !generated(item));
}

/// A claim in a template has an empty status of its own.
fn drop_claim_status(fields: &mut Map<String, Value>) {
    let claims = map_at(fields, "spec").and_then(|spec| list_at(spec, "volumeClaimTemplates"));
    for claim in claims.into_iter().flatten() {
        if let Value::Object(claim) = claim {
            claim.remove("status");
        }
    }
}

/// The server makes the selector and its labels, unless the object says that somebody else does.
fn job(fields: &mut Map<String, Value>, evidence: &Evidence) {
    let is_ours = |key: &str| {
        matches!(
            key,
            "controller-uid"
                | "job-name"
                | "batch.kubernetes.io/controller-uid"
                | "batch.kubernetes.io/job-name"
        )
    };
    let Some(spec) = map_at(fields, "spec") else { return };
    if spec.get("manualSelector") != Some(&Value::Bool(true)) {
        let made = spec.get("selector").and_then(|selector| selector.get("matchLabels"));
        let made =
            made.and_then(Value::as_object).is_some_and(|labels| labels.keys().any(|key| is_ours(key)));
        if made || evidence.picked(&["spec", "selector"]) {
            spec.remove("selector");
        }
        if let Some(template) = map_at(spec, "template")
            && let Some(metadata) = map_at(template, "metadata")
        {
            retain_entries(metadata, "labels", |key| !is_ours(key));
            if metadata.is_empty() {
                template.remove("metadata");
            }
        }
        if let Some(metadata) = map_at(fields, "metadata") {
            retain_entries(metadata, "labels", |key| !is_ours(key));
        }
    }
    pods::template(map_at(fields, "spec"));
}

fn cluster_role(fields: &mut Map<String, Value>) {
    if fields.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        fields.remove("rules");
    }
}

fn has_injected_ca(fields: &Map<String, Value>) -> bool {
    let annotations = fields.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| INJECTED_CA.iter().any(|key| annotations.get(*key).is_some()))
}

fn webhooks(fields: &mut Map<String, Value>) {
    if !has_injected_ca(fields) {
        return;
    }
    for webhook in list_at(fields, "webhooks").into_iter().flatten() {
        let client = webhook.get_mut("clientConfig").and_then(Value::as_object_mut);
        if let Some(client) = client {
            client.remove("caBundle");
        }
    }
}

fn definition(fields: &mut Map<String, Value>) {
    let injected = has_injected_ca(fields);
    let Some(spec) = map_at(fields, "spec") else { return };
    let Some(conversion) = map_at(spec, "conversion") else { return };
    let is_default = conversion.len() == 1 && conversion.get("strategy") == Some(&Value::from("None"));
    if is_default {
        spec.remove("conversion");
        return;
    }
    let client = map_at(conversion, "webhook").and_then(|webhook| map_at(webhook, "clientConfig"));
    if injected && let Some(client) = client {
        client.remove("caBundle");
    }
}
