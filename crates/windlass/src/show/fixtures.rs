//! Applications and Clusters for the tests of the pages.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{Application, Cluster};

/// The moment at which all pages are written.
pub(crate) fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// A commit that begins with these digits.
pub(crate) fn commit(begin: &str) -> String {
    format!("{begin:0<39}9")
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 2,
        "lastTransitionTime": "2026-03-01T11:50:00Z",
    })
}

fn base(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
        "metadata": {
            "namespace": namespace, "name": name, "generation": 2, "creationTimestamp": "2026-02-27T12:00:00Z",
        },
        "spec": {
            "source": { "repoURL": "https://git.example/shop.git", "revision": "main", "path": "deploy" },
            "destinations": [{ "cluster": "east" }, { "selector": { "matchLabels": { "tier": "edge" } }, "namespace": "shop" }],
        },
    })
}

/// One that runs everywhere.
pub(crate) fn healthy(name: &str) -> Application {
    let mut app = base("shop", name);
    app["status"] = json!({
        "observedGeneration": 2, "phase": "Healthy", "clusterSummary": "2/2",
        "sync": { "status": "Synced", "revision": commit("aa11"), "shortRevision": "main@aa11000000", "changeId": "qpvuntsm" },
        "health": { "status": "Healthy" },
        "conditions": [condition("Ready", "True", "Healthy", "Everything runs as committed.")],
        "clusters": [
            { "name": "east", "sync": "Synced", "health": "Healthy", "revision": commit("aa11"), "objects": 4, "syncedAt": "2026-03-01T11:00:00Z" },
            { "name": "west", "sync": "Synced", "health": "Healthy", "revision": commit("aa11"), "objects": 4 },
        ],
        "inventory": [{ "clusters": ["east", "west"], "objects": [
            "v1/Namespace//shop", "apps/v1/Deployment/shop/web", "v1/Service/shop/web", "v1/ConfigMap/shop/web",
        ] }],
        "history": [
            {
                "id": 8, "revision": commit("aa11"), "changeId": "qpvuntsm", "startedAt": "2026-03-01T10:59:50Z",
                "finishedAt": "2026-03-01T11:00:00Z", "result": "Succeeded",
            },
            {
                "id": 7, "revision": commit("bb22"), "startedAt": "2026-02-28T12:00:00Z",
                "finishedAt": "2026-02-28T12:01:05Z", "result": "Failed", "by": "dev-a",
                "message": "Deployment shop/web did not become healthy within 10m.",
            },
            { "id": 6, "revision": commit("cc33"), "startedAt": "2026-02-27T13:00:00Z", "result": "Succeeded" },
        ],
        "movements": [
            { "from": commit("bb22"), "to": commit("aa11"), "by": "dev-b", "at": "2026-03-01T10:59:48Z" },
            { "from": commit("cc33"), "to": commit("bb22"), "forced": true, "by": "dev-a", "at": "2026-02-28T11:59:59Z" },
            { "to": commit("cc33"), "at": "2026-02-27T12:59:59Z" },
        ],
    });
    serde_json::from_value(app).unwrap()
}

/// One with everything that can be wrong.
pub(crate) fn troubled() -> Application {
    let mut app = base("shop", "web");
    app["spec"]["dependsOn"] = json!([{ "name": "database" }, { "name": "cache", "namespace": "infra" }]);
    app["spec"]["sync"] = json!({
        "automated": true, "serviceAccountName": "deployer",
        "windows": [{ "kind": "Deny", "schedule": "0 22 * * FRI", "duration": "48h", "timeZone": "Europe/Vienna" }],
    });
    app["status"] = json!({
        "observedGeneration": 2, "phase": "Degraded", "clusterSummary": "0/2",
        "sync": { "status": "OutOfSync", "revision": commit("aa11"), "shortRevision": "main@aa11000000" },
        "health": { "status": "Degraded", "message": "Deployment shop/web: 1 of 3 pods is ready" },
        "conditions": [
            condition("Ready", "False", "DependencyNotReady", "Waits for Application shop/database. Look at it with windlass why database -n shop."),
            condition("Synced", "False", "OutOfSync", "One object differs on east."),
            condition("Healthy", "False", "Degraded", "Deployment shop/web: 1 of 3 pods is ready"),
            condition("SourceReady", "True", "Found", "main is at aa11000000."),
        ],
        "clusters": [
            {
                "name": "east", "sync": "OutOfSync", "health": "Degraded", "revision": commit("bb22"), "wave": 1, "objects": 4,
                "differences": [
                    { "object": "Deployment shop/web", "field": "spec.replicas", "wanted": "3", "live": "5", "manager": "kubectl-scale" },
                    { "object": "ConfigMap shop/web" },
                ],
                "contested": [{ "object": "Deployment shop/web", "manager": "hpa", "rounds": 3 }],
            },
            { "name": "west", "sync": "Unknown", "health": "Unknown", "message": "The API server does not answer." },
        ],
        "inventory": [{ "clusters": ["east"], "objects": ["apps/v1/Deployment/shop/web"] }],
        "violations": [
            { "cluster": "east", "object": "Deployment shop/web", "policy": "require-limits", "message": "container web has no memory limit" },
        ],
        "violationCount": 12,
        "operation": {
            "revision": commit("aa11"), "digest": "d1", "startedAt": "2026-03-01T11:58:00Z", "by": "dev-a",
            "step": "applying wave 1 on east", "failures": 2,
        },
        "pin": { "to": commit("bb22"), "excludes": commit("dd44"), "by": "dev-a", "at": "2026-03-01T11:30:00Z", "reason": "broken checkout" },
        "approval": { "id": "a1b2", "deletions": 12, "of": 20, "objects": ["Service shop/old", "ConfigMap shop/old"] },
    });
    serde_json::from_value(app).unwrap()
}

/// One that waits for others; empty for none.
pub(crate) fn depending(name: &str, on: &[&str], reason: &str) -> Application {
    let mut app = base("shop", name);
    let on: Vec<Value> = on.iter().map(|name| json!({ "name": name })).collect();
    app["spec"]["dependsOn"] = on.into();
    app["status"] = json!({
        "observedGeneration": 2, "phase": "Failed", "sync": { "status": "Unknown" }, "health": { "status": "Unknown" },
        "conditions": [condition("Ready", "False", reason, &format!("{name} is not well. Do something about it."))],
    });
    serde_json::from_value(app).unwrap()
}

/// A Cluster.
pub(crate) fn cluster(name: &str, ready: bool) -> Cluster {
    let (status, reason, message) = if ready {
        ("True", "Reachable", "The cluster answers.")
    } else {
        ("False", "Unreachable", "The API server does not answer. Check its address.")
    };
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name, "creationTimestamp": "2026-02-19T12:00:00Z", "generation": 2, "labels": { "tier": "edge" } },
        "spec": { "kubeconfig": { "secretRef": { "name": name, "namespace": "fleet" } } },
        "status": {
            "reachable": ready, "version": "v1.36.3", "latency": "5ms", "server": "https://10.0.0.1:6443",
            "lastProbe": "2026-03-01T11:59:30Z", "observedGeneration": 2,
            "conditions": [condition("Ready", status, reason, message)],
        },
    }))
    .unwrap()
}
