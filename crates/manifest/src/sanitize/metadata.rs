//! What servers, controllers and tools note in `metadata`.

use serde_json::{Map, Value};

use super::{map_at, retain_entries, retain_items};
use crate::identity::NOTED_BY_SERVER;

/// Takes the notes away.
pub(super) fn tidy(fields: &mut Map<String, Value>) {
    let Some(metadata) = map_at(fields, "metadata") else { return };
    metadata.retain(|name, _| name != "ownerReferences" && !NOTED_BY_SERVER.contains(&name.as_str()));
    if metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty()) {
        metadata.remove("generateName");
    }
    retain_entries(metadata, "annotations", |key| !is_note(key));
    retain_entries(metadata, "labels", |key| !is_tracking_label(key));
    retain_items(metadata, "finalizers", |finalizer| {
        !finalizer.as_str().is_some_and(is_control_plane_finalizer)
    });
}

/// Annotations by which tools and controllers remember something.
pub(super) fn is_note(key: &str) -> bool {
    let Some((domain, name)) = key.split_once('/') else {
        return matches!(
            key,
            "deprecated.daemonset.template.generation" | "deprecated.deployment.rollback.to"
        );
    };
    match domain {
        "kubectl.kubernetes.io" => name == "last-applied-configuration",
        "deployment.kubernetes.io" => {
            matches!(name, "revision" | "revision-history" | "desired-replicas" | "max-replicas")
        }
        "control-plane.alpha.kubernetes.io" => name == "leader",
        "endpoints.kubernetes.io" => matches!(name, "last-change-trigger-time" | "over-capacity"),
        "pv.kubernetes.io" => {
            matches!(name, "bind-completed" | "bound-by-controller" | "provisioned-by" | "migrated-to")
        }
        "volume.kubernetes.io" => {
            matches!(name, "storage-provisioner" | "selected-node" | "storage-resizer")
                || name.starts_with("provisioner-deletion-secret-")
        }
        "volume.beta.kubernetes.io" => name == "storage-provisioner",
        "autoscaling.alpha.kubernetes.io" => matches!(name, "conditions" | "current-metrics"),
        "batch.kubernetes.io" => name == "cronjob-scheduled-timestamp",
        "kubernetes.io" => {
            matches!(name, "config.seen" | "config.hash" | "config.source" | "config.mirror")
        }
        "node.alpha.kubernetes.io" => name == "ttl",
        "volumes.kubernetes.io" => name == "controller-managed-attach-detach",
        "csi.volume.kubernetes.io" => name == "nodeid",
        "openshift.io" => name.starts_with("sa.scc."),
        "meta.helm.sh" => matches!(name, "release-name" | "release-namespace"),
        "argocd.argoproj.io" => matches!(name, "tracking-id" | "refresh" | "hydrate" | "installation-id"),
        "kustomize.toolkit.fluxcd.io" => name == "checksum",
        "reconcile.fluxcd.io" => name == "requestedAt",
        "kapp.k14s.io" => matches!(name, "identity" | "original" | "original-diff-md5"),
        "config.k8s.io" => name == "owning-inventory",
        "config.kubernetes.io" => matches!(name, "index" | "path" | "origin"),
        "cloud.google.com" => matches!(name, "neg-status"),
        "ingress.kubernetes.io" => is_load_balancer_note(name),
        "internal.config.kubernetes.io" | "objectset.rio.cattle.io" => true,
        _ => false,
    }
}

/// What the load balancer controller of one cloud writes about the Ingress.
fn is_load_balancer_note(name: &str) -> bool {
    matches!(
        name,
        "backends"
            | "forwarding-rule"
            | "https-forwarding-rule"
            | "https-target-proxy"
            | "ssl-cert"
            | "target-proxy"
            | "url-map"
    )
}

/// Labels by which a delivering tool finds its objects again.
fn is_tracking_label(key: &str) -> bool {
    matches!(
        key,
        "kustomize.toolkit.fluxcd.io/name"
            | "kustomize.toolkit.fluxcd.io/namespace"
            | "helm.toolkit.fluxcd.io/name"
            | "helm.toolkit.fluxcd.io/namespace"
            | "argocd.argoproj.io/instance"
            | "kapp.k14s.io/app"
            | "kapp.k14s.io/association"
            | "objectset.rio.cattle.io/hash"
    )
}

/// Finalizers that the control plane and the storage drivers put on objects by themselves.
fn is_control_plane_finalizer(finalizer: &str) -> bool {
    matches!(
        finalizer,
        "kubernetes"
            | "foregroundDeletion"
            | "orphan"
            | "kubernetes.io/pvc-protection"
            | "kubernetes.io/pv-protection"
            | "service.kubernetes.io/load-balancer-cleanup"
            | "batch.kubernetes.io/job-tracking"
            | "customresourcecleanup.apiextensions.k8s.io"
            | "external-provisioner.volume.kubernetes.io/finalizer"
    ) || finalizer.starts_with("external-attacher/")
        || finalizer.starts_with("snapshot.storage.kubernetes.io/")
}
