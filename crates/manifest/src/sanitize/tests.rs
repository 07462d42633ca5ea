#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;

/// Merges `more` into an object of this kind that was read from a cluster.
fn live(api_version: &str, kind: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {
        "name": "x", "namespace": "n", "uid": "8e2f", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }});
    merge(&mut object, more);
    object
}

/// The same object as a person would have written it.
fn plain(api_version: &str, kind: &str, more: Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}});
    merge(&mut object, more);
    object
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn written_by(manager: &str, fields: &Value) -> Value {
    json!([{"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}])
}

#[track_caller]
fn check(api_version: &str, kind: &str, from_cluster: Value, as_written: Value) {
    let kept = sanitize(live(api_version, kind, from_cluster)).keep().unwrap();
    assert_eq!(kept, plain(api_version, kind, as_written));
    assert_eq!(sanitize(kept.clone()), Sanitized::Keep(kept), "a second time changes nothing");
}

#[track_caller]
fn skipped(api_version: &str, kind: &str, from_cluster: Value) -> SkipReason {
    match sanitize(live(api_version, kind, from_cluster)) {
        Sanitized::Skip(reason) => reason,
        Sanitized::Keep(object) => panic!("kept: {object}"),
    }
}

#[test]
fn what_the_server_notes_is_dropped() {
    check(
        "v1",
        "ConfigMap",
        json!({"data": {"a": "1"}, "immutable": true, "status": {"x": 1}, "metadata": {
            "selfLink": "/x", "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30,
            "managedFields": written_by("kubectl", &json!({"f:data": {}})), "generateName": "x-",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}],
        }}),
        json!({"data": {"a": "1"}, "immutable": true}),
    );
}

#[test]
fn what_tools_note_is_dropped_and_what_people_note_stays() {
    let notes = [
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
        "control-plane.alpha.kubernetes.io/leader",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/provisioner-deletion-secret-name",
        "volume.beta.kubernetes.io/storage-provisioner",
        "autoscaling.alpha.kubernetes.io/conditions",
        "meta.helm.sh/release-name",
        "argocd.argoproj.io/tracking-id",
        "reconcile.fluxcd.io/requestedAt",
        "objectset.rio.cattle.io/applied",
        "internal.config.kubernetes.io/path",
        "kapp.k14s.io/original",
        "openshift.io/sa.scc.uid-range",
        "cloud.google.com/neg-status",
        "ingress.kubernetes.io/backends",
    ];
    for note in notes {
        check("apps/v1", "DaemonSet", json!({"metadata": {"annotations": {note: "v"}}}), json!({}));
    }
    for note in [
        "kubectl.kubernetes.io/default-container",
        "kubernetes.io/change-cause",
        "argocd.argoproj.io/sync-wave",
        "helm.sh/resource-policy",
        "storageclass.kubernetes.io/is-default-class",
        "ingress.kubernetes.io/rewrite-target",
        "last-applied-configuration",
        "pv.kubernetes.io/other",
    ] {
        let object = json!({"metadata": {"annotations": {note: "v"}}});
        check("apps/v1", "DaemonSet", object.clone(), object);
    }
    check(
        "apps/v1",
        "Deployment",
        json!({"metadata": {
            "labels": {"kustomize.toolkit.fluxcd.io/name": "a", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"deployment.kubernetes.io/revision": "3", "mine": ""},
        }}),
        json!({"metadata": {
            "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"mine": ""},
        }}),
    );
}

#[test]
fn only_the_control_planes_finalizers_are_dropped() {
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", "example.org/backup"]}}),
        json!({"metadata": {"finalizers": ["example.org/backup"]}}),
    );
    check(
        "v1",
        "PersistentVolume",
        json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}),
        json!({}),
    );
}

#[test]
fn a_services_addresses_go_when_the_server_picked_them() {
    check(
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "healthCheckNodePort": 31_234,
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30_001}]},
            "status": {"loadBalancer": {}}}),
        json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
    );
    check(
        "v1",
        "Service",
        json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"]}}),
        json!({"spec": {"clusterIP": "None"}}),
    );
}

#[test]
fn a_services_addresses_stay_when_somebody_chose_them() {
    let fields = json!({"f:spec": {"f:clusterIP": {}, "f:ports": {
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:nodePort": {}},
        "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
    }}});
    check(
        "v1",
        "Service",
        json!({"metadata": {"managedFields": written_by("kubectl-client-side-apply", &fields)},
            "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [
            {"port": 80, "nodePort": 30_001}, {"port": 81, "nodePort": 30_002}]}}),
        json!({"spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80, "nodePort": 30_001}, {"port": 81}]}}),
    );
    // In a file that never was in a cluster nothing was picked.
    let file = plain(
        "v1",
        "Service",
        json!({"spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 1, "nodePort": 2}]}}),
    );
    assert_eq!(sanitize(file.clone()), Sanitized::Keep(file));
}

#[test]
fn a_claims_volume_and_a_pods_node_go_when_the_control_plane_picked_them() {
    let by_controller = written_by("kube-controller-manager", &json!({"f:spec": {"f:volumeName": {}}}));
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({"metadata": {"managedFields": by_controller}, "spec": {"volumeName": "pv-1", "volumeMode": "Filesystem"}}),
        json!({"spec": {"volumeMode": "Filesystem"}}),
    );
    let by_hand = written_by("kubectl-create", &json!({"f:spec": {"f:volumeName": {}}}));
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({"metadata": {"managedFields": by_hand}, "spec": {"volumeName": "pv-1"}}),
        json!({"spec": {"volumeName": "pv-1"}}),
    );
    let token = json!({"name": "kube-api-access-x7k2p", "projected": {"sources": []}});
    let mount = json!({"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    check(
        "v1",
        "Pod",
        json!({"spec": {"nodeName": "node-1", "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "serviceAccount": "web", "serviceAccountName": "web", "ephemeralContainers": [{"name": "debug"}],
            "volumes": [token, {"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "volumeMounts": [mount]}]}}),
        json!({"spec": {"serviceAccountName": "web", "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a"}]}}),
    );
}

#[test]
fn null_times_and_claim_states_of_templates_are_dropped() {
    check(
        "apps/v1",
        "StatefulSet",
        json!({"spec": {
            "template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
                "spec": {"serviceAccount": "w", "serviceAccountName": "w", "priority": 5}},
            "volumeClaimTemplates": [{"metadata": {"name": "d", "creationTimestamp": null}, "spec": {}, "status": {"phase": "Pending"}}],
        }}),
        json!({"spec": {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": "w", "priority": 5}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}],
        }}),
    );
    check(
        "example.org/v1",
        "Fleet",
        json!({"spec": {"members": [{"template": {"metadata": {"creationTimestamp": null}, "spec": 1}}]}}),
        json!({"spec": {"members": [{"template": {"spec": 1}}]}}),
    );
}

#[test]
fn a_jobs_generated_selector_and_labels_are_dropped() {
    let generated = json!({"controller-uid": "1", "batch.kubernetes.io/controller-uid": "1", "job-name": "x",
        "batch.kubernetes.io/job-name": "x"});
    let mut labels = generated.clone();
    labels["app"] = "a".into();
    check(
        "batch/v1",
        "Job",
        json!({"metadata": {"labels": labels}, "spec": {"backoffLimit": 6,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}},
            "template": {"metadata": {"labels": generated}, "spec": {"restartPolicy": "Never"}}}}),
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"backoffLimit": 6,
            "template": {"spec": {"restartPolicy": "Never"}}}}),
    );
    let manual = json!({"spec": {"manualSelector": true, "selector": {"matchLabels": {"job-name": "x"}},
        "template": {"metadata": {"labels": {"job-name": "x"}}}}});
    check("batch/v1", "Job", manual.clone(), manual);
}

#[test]
fn namespaces_nodes_volumes_and_accounts_lose_what_was_generated() {
    check(
        "v1",
        "Namespace",
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "x", "team": "a"}}, "spec": {"finalizers": ["kubernetes"]}}),
        json!({"metadata": {"labels": {"team": "a"}}}),
    );
    check(
        "v1",
        "Node",
        json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "p", "taints": [
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoSchedule"}]}}),
        json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}),
    );
    check(
        "v1",
        "PersistentVolume",
        json!({"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n", "uid": "1", "resourceVersion": "2"}}}),
        json!({"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n"}}}),
    );
    check(
        "v1",
        "ServiceAccount",
        json!({"secrets": [{"name": "x-token-ab12c"}, {"name": "mine"}], "imagePullSecrets": [{"name": "x-dockercfg-zz999"}]}),
        json!({"secrets": [{"name": "mine"}]}),
    );
    check(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        json!({"spec": {"request": "abc", "signerName": "s", "username": "u", "groups": ["g"], "uid": "1"}}),
        json!({"spec": {"request": "abc", "signerName": "s"}}),
    );
}

#[test]
fn an_injected_bundle_is_dropped_and_a_written_one_stays() {
    let webhooks =
        json!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": "Q0E=", "url": "https://a"}}]});
    check(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        webhooks.clone(),
        webhooks.clone(),
    );
    let annotation = json!({"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "n/c"}}});
    let mut injected = webhooks;
    merge(&mut injected, annotation.clone());
    let mut wanted = json!({"webhooks": [{"name": "a", "clientConfig": {"url": "https://a"}}]});
    merge(&mut wanted, annotation.clone());
    check("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", injected, wanted);

    let mut definition = json!({"spec": {"conversion": {"strategy": "Webhook",
        "webhook": {"clientConfig": {"caBundle": "Q0E=", "service": {"name": "s"}}}}}});
    check("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition.clone(), definition.clone());
    merge(&mut definition, annotation.clone());
    let mut wanted = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s"}}}}}});
    merge(&mut wanted, annotation.clone());
    check("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition, wanted);
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        json!({"spec": {"conversion": {"strategy": "None"}, "scope": "Cluster"}, "status": {"storedVersions": ["v1"]}}),
        json!({"spec": {"scope": "Cluster"}}),
    );
    let mut service = json!({"spec": {"caBundle": "Q0E=", "group": "g"}});
    check("apiregistration.k8s.io/v1", "APIService", service.clone(), service.clone());
    merge(&mut service, annotation.clone());
    let mut wanted = json!({"spec": {"group": "g"}});
    merge(&mut wanted, annotation);
    check("apiregistration.k8s.io/v1", "APIService", service, wanted);
}

#[test]
fn computed_rules_go_and_the_wish_behind_them_stays() {
    let wish = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let mut computed = wish.clone();
    merge(&mut computed, json!({"rules": [{"verbs": ["get"]}]}));
    check("rbac.authorization.k8s.io/v1", "ClusterRole", computed, wish);
    let written = json!({"rules": [{"verbs": ["get"]}]});
    check("rbac.authorization.k8s.io/v1", "ClusterRole", written.clone(), written);
}

#[test]
fn fields_nobody_here_has_heard_of_stay() {
    for (api_version, kind, more) in [
        (
            "storage.k8s.io/v1",
            "StorageClass",
            json!({"provisioner": "p", "reclaimPolicy": "Delete", "parameters": {"a": "b"}}),
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 7, "globalDefault": false})),
        ("v1", "Secret", json!({"type": "Opaque", "data": {"a": "YQ=="}, "immutable": true})),
        (
            "example.org/v9",
            "Thing",
            json!({"anything": [1, null, {"status": {"kept": true}, "uid": "x"}], "spec": {"nodeName": "n",
            "clusterIP": "1.2.3.4"}, "metadata": {"newField": {"a": 1}}}),
        ),
        ("serving.knative.dev/v1", "Service", json!({"spec": {"clusterIP": "1.2.3.4"}})),
    ] {
        check(api_version, kind, more.clone(), more);
    }
}

#[test]
fn what_nobody_wrote_is_skipped_with_the_reason() {
    let owner = json!({"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "1", "controller": true}]}});
    let reason = skipped("apps/v1", "ReplicaSet", owner);
    assert_eq!(reason.to_string(), "made by the controller of Deployment web");
    let reason = |api_version, kind, more| skipped(api_version, kind, more).category();
    let token = json!({"type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}});
    assert_eq!(reason("v1", "Secret", token), "ServiceAccountToken");
    assert_eq!(reason("v1", "Secret", json!({"type": "helm.sh/release.v1"})), "ToolState");
    let labels = json!({"metadata": {"labels": {"owner": "helm", "status": "deployed"}}});
    assert_eq!(reason("v1", "ConfigMap", labels), "ToolState");
    assert_eq!(
        reason("v1", "ConfigMap", json!({"metadata": {"name": "kube-root-ca.crt"}})),
        "MadeByControlPlane"
    );
    assert_eq!(
        reason("v1", "ServiceAccount", json!({"metadata": {"name": "default"}})),
        "MadeByControlPlane"
    );
    let kubernetes = json!({"metadata": {"name": "kubernetes", "namespace": "default"}});
    assert_eq!(reason("v1", "Service", kubernetes), "MadeByControlPlane");
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "h"}}});
    assert_eq!(reason("v1", "Pod", mirror), "MadeByControlPlane");
    let automatic = json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}});
    assert_eq!(reason("apiregistration.k8s.io/v1", "APIService", automatic), "MadeByControlPlane");
    let endpoints = json!({"metadata": {"managedFields": written_by("kube-controller-manager", &json!({}))}});
    assert_eq!(reason("v1", "Endpoints", endpoints), "MadeByControlPlane");
    let leader = json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
    assert_eq!(reason("v1", "ConfigMap", leader), "RuntimeState");
    for (api_version, kind) in [
        ("v1", "Event"),
        ("events.k8s.io/v1", "Event"),
        ("coordination.k8s.io/v1", "Lease"),
        ("storage.k8s.io/v1", "VolumeAttachment"),
        ("metrics.k8s.io/v1beta1", "PodMetrics"),
    ] {
        assert_eq!(reason(api_version, kind, json!({})), "RuntimeState", "{kind}");
    }
    // What looks like one of them and is not.
    for (api_version, kind, more) in [
        (
            "v1",
            "ServiceAccount",
            json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "pull"}]}),
        ),
        ("v1", "Endpoints", json!({"subsets": []})),
        ("v1", "Service", json!({"metadata": {"name": "kubernetes", "namespace": "mine"}})),
        ("example.org/v1", "Lease", json!({"spec": {"tenant": "a"}})),
        ("apps/v1", "ReplicaSet", json!({"spec": {"replicas": 1}})),
    ] {
        check(api_version, kind, more.clone(), more);
    }
}

#[test]
fn what_is_no_object_comes_out_as_it_is() {
    for value in [
        json!(null),
        json!([1]),
        json!("a"),
        json!({"a": {"status": 1}}),
        json!({"kind": "A", "metadata": 3}),
    ] {
        assert_eq!(sanitize(value.clone()), Sanitized::Keep(value));
    }
}
