//! Pods and pod templates.

use serde_json::{Map, Value};

use super::evidence::Evidence;
use super::{list_at, map_at, retain_items};

/// What the token of the service account is mounted as by an admission step; five random characters follow.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// A pod that no controller made.
pub(super) fn pod(fields: &mut Map<String, Value>, evidence: &Evidence) {
    let Some(spec) = map_at(fields, "spec") else { return };
    let picked = ["nodeName", "priority", "preemptionPolicy"];
    spec.retain(|name, _| !(picked.contains(&name.as_str()) && evidence.picked(&["spec", name])));
    // Debug sessions; nobody can create a pod with them.
    spec.remove("ephemeralContainers");
    drop_old_account_name(spec);
    let is_token = |name: Option<&Value>| {
        name.and_then(Value::as_str).is_some_and(|name| name.starts_with(TOKEN_VOLUME))
    };
    retain_items(spec, "volumes", |volume| {
        !(is_token(volume.get("name")) && volume.get("projected").is_some())
    });
    for list in ["containers", "initContainers"] {
        for container in list_at(spec, list).into_iter().flatten() {
            if let Value::Object(container) = container {
                retain_items(container, "volumeMounts", |mount| !is_token(mount.get("name")));
            }
        }
    }
}

/// The pod template of a workload's `spec`.
pub(super) fn template(spec: Option<&mut Map<String, Value>>) {
    let template = spec.and_then(|spec| map_at(spec, "template"));
    if let Some(spec) = template.and_then(|template| map_at(template, "spec")) {
        drop_old_account_name(spec);
    }
}

/// The server copies `serviceAccountName` to the field that it replaced.
fn drop_old_account_name(spec: &mut Map<String, Value>) {
    if spec.get("serviceAccount").is_some() && spec.get("serviceAccount") == spec.get("serviceAccountName") {
        spec.remove("serviceAccount");
    }
}
