//! Many Applications from one repository, in the shape that Flux publishes figures for.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testbed::measure::Report;

use crate::stage::{NAMESPACE, Stage, as_f64};

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    for (count, kustomize) in [(100, false), (100, true), (500, false), (1_000, false)] {
        one(report, count, kustomize).await?;
    }
    Ok(())
}

async fn one(report: &mut Report, count: usize, kustomize: bool) -> anyhow::Result<()> {
    let kind = if kustomize { "kustomize" } else { "plain" };
    eprintln!("{count} Applications, {kind}");
    let mut stage = Stage::open(&files(count, kustomize)).await?;
    stage.settle().await?;
    let before = stage.cpu()?;
    let begin = tokio::time::Instant::now();
    let url = stage.repo.url();
    stage.create((0..count).map(|n| (name(n), spec(&url, n))).collect()).await?;
    stage.healthy(count).await?;
    let took = begin.elapsed().as_secs_f64();
    let after = stage.cpu()?;
    let figure = |what: &str| format!("{count} {kind}: {what}");
    report.figure(&figure("until all are healthy"), took, "s");
    let (ours, theirs) = (after.ours - before.ours, after.apiserver - before.apiserver);
    if count == 100 {
        report.below(&figure("CPU of the controller"), ours, "s", 3.0);
    } else {
        report.figure(&figure("CPU of the controller"), ours, "s");
    }
    report.figure(&figure("CPU of the API server"), theirs, "s");
    report.figure(&figure("CPU of etcd"), after.etcd - before.etcd, "s");
    report.below(&figure("the controller's CPU by the API server's"), ours / theirs * 100.0, "%", 25.0);
    for verb in ["APPLY", "CREATE", "UPDATE", "PATCH", "GET", "DELETE"] {
        let sent = stage.product.metric("windlass_api_requests_total", verb).await?;
        report.figure(&figure(&format!("{verb} by Application")), sent / as_f64(count), "");
    }
    report.figure(&figure("renders"), stage.product.metric("windlass_renders_total", "").await?, "");
    stage.settle().await?;
    let (now, peak) = stage.memory()?;
    report.below(&figure("memory at its peak, shared pages too"), peak, "MiB", 128.0);
    report.figure(&figure("memory at rest"), now, "MiB");
    rest(report, &stage, &figure("CPU a minute at rest")).await?;
    unrelated(report, &stage, count, &figure("CPU for a commit that changes nothing, by Application"))
        .await?;
    stage.product.child.stop()
}

/// What it costs while nothing happens, with the polls of an interval of 30 s.
async fn rest(report: &mut Report, stage: &Stage, name: &str) -> anyhow::Result<()> {
    let before = stage.cpu()?.ours;
    tokio::time::sleep(Duration::from_secs(60)).await;
    report.below(name, stage.cpu()?.ours - before, "s", 0.5);
    Ok(())
}

/// What a commit costs that wakes everybody and changes nothing for them.
async fn unrelated(report: &mut Report, stage: &Stage, count: usize, name: &str) -> anyhow::Result<()> {
    let renders = stage.product.metric("windlass_renders_total", "").await?;
    let before = stage.cpu()?.ours;
    let commit = stage.repo.commit_files(&[("README.md", Some("two\n"))], "unrelated")?;
    stage.product.hook(&stage.repo.url(), &commit).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    stage.settle().await?;
    let used = stage.cpu()?.ours - before;
    report.below(name, used * 1e3 / as_f64(count), "ms", 1.0);
    let renders = stage.product.metric("windlass_renders_total", "").await? - renders;
    anyhow::ensure!(renders < 0.5, "a commit that changes nothing led to {renders} renders");
    Ok(())
}

pub(crate) fn name(n: usize) -> String {
    format!("app-{n:04}")
}

pub(crate) fn spec(url: &str, n: usize) -> Value {
    json!({
        "source": { "repoURL": url, "revision": "main", "path": format!("apps/{}", name(n)) },
        "destinations": [{ "cluster": "in-cluster", "namespace": NAMESPACE }],
    })
}

/// Four objects for each Application.
pub(crate) fn files(count: usize, kustomize: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for n in 0..count {
        let name = name(n);
        all.push((format!("apps/{name}/objects.yaml"), objects(&name)));
        if kustomize {
            let text = "resources: [objects.yaml]\nlabels:\n- pairs: { team: shop }\n".to_owned();
            all.push((format!("apps/{name}/kustomization.yaml"), text));
        }
    }
    all
}

pub(crate) fn objects(name: &str) -> String {
    let all = [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "type": "ClusterIP", "selector": { "app": name },
                "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }] } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
            "spec": { "replicas": 0, "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } },
                    "spec": { "serviceAccountName": name, "containers": [{ "name": "web",
                        "image": "example.org/web:1", "ports": [{ "name": "http", "containerPort": 8080 }],
                        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } } }] } } } }),
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": name },
            "spec": { "ingressClassName": "none", "rules": [{ "host": format!("{name}.example.org"), "http": {
                "paths": [{ "path": "/", "pathType": "Prefix",
                    "backend": { "service": { "name": name, "port": { "number": 80 } } } }] } }] } }),
    ];
    all.map(|object| object.to_string()).join("\n---\n")
}
