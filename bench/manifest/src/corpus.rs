//! Objects as a cluster has them: workloads, services, settings, custom kinds. The same on every run.

use serde_json::{Value, json};

/// Makes `count` objects of several kinds in turn.
pub fn objects(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| match n % 4 {
            0 => deployment(n),
            1 => service(n),
            2 => config_map(n),
            _ => certificate(n),
        })
        .collect()
}

fn metadata(n: usize) -> Value {
    json!({
        "name": format!("app-{n:05}"),
        "namespace": format!("team-{}", n % 40),
        "labels": {
            "app.kubernetes.io/name": format!("app-{n:05}"), "app.kubernetes.io/part-of": "shop", "tier": "front",
            "version": format!("1.{}", n % 30),
        },
        "annotations": { "owner": "shop@example.com", "prometheus.io/scrape": "true", "note": "see the handbook: chapter 3" },
    })
}

fn deployment(n: usize) -> Value {
    let container = |name: &str, port: usize| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.{n}"), "imagePullPolicy": "IfNotPresent",
            "args": ["--listen", format!("0.0.0.0:{port}"), "--log-format=json"],
            "env": [
                { "name": "MODE", "value": "on" }, { "name": "REGION", "value": format!("eu-{}", n % 7) },
                { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "token", "key": "value" } } },
            ],
            "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }],
            "resources": { "limits": { "cpu": "500m", "memory": "256Mi" }, "requests": { "cpu": "100m", "memory": "64Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 5, "failureThreshold": 3 },
            "securityContext": { "runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/app", "readOnly": true }],
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(n),
        "spec": {
            "replicas": n % 5 + 1, "revisionHistoryLimit": 10,
            "selector": { "matchLabels": { "app.kubernetes.io/name": format!("app-{n:05}") } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "app.kubernetes.io/name": format!("app-{n:05}") } },
                "spec": {
                    "containers": [container("web", 8080), container("proxy", 9090)],
                    "volumes": [{ "name": "config", "configMap": { "name": format!("app-{n:05}") } }],
                },
            },
        },
    })
}

fn service(n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(n),
        "spec": {
            "type": "ClusterIP", "selector": { "app.kubernetes.io/name": format!("app-{n:05}") },
            "ports": [
                { "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" },
                { "name": "metrics", "port": 9090, "targetPort": 9090, "protocol": "TCP" },
            ],
        },
    })
}

fn config_map(n: usize) -> Value {
    let script = format!("#!/bin/sh\nset -eu\n\nexec app --number {n} \\\n  --verbose\n");
    let settings = format!("[server]\nport = 8080\nname = \"app-{n}\"\n").repeat(8);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(n),
        "data": { "run.sh": script, "settings.toml": settings, "level": "info", "enabled": "yes", "ratio": "0.5" },
    })
}

fn certificate(n: usize) -> Value {
    json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata(n),
        "spec": {
            "secretName": format!("app-{n:05}-tls"), "duration": "2160h0m0s", "renewBefore": "360h0m0s",
            "dnsNames": [format!("app-{n}.example.com"), format!("www.app-{n}.example.com")],
            "issuerRef": { "name": "ca", "kind": "ClusterIssuer", "group": "cert-manager.io" },
            "privateKey": { "algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always" },
        },
    })
}
