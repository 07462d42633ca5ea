//! A hundred clusters, one of them dead.

use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{Application, Cluster, application::status::SyncWord};
use windlass_testbed::{
    control_plane::{ControlPlane, User, kubeconfig_yaml},
    measure::Report,
    process::Port,
};

use crate::stage::{NAMESPACE, Stage, config_map, namespace, secret};

const CLUSTERS: usize = 100;
const OBJECTS: usize = 50;

/// An Application may name 64 destinations.
const BY_APPLICATION: usize = 50;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let file = |n: usize| (format!("all/object-{n:02}.yaml"), config_map(&format!("object-{n:02}"), "1"));
    let stage = Stage::open(&(0..OBJECTS).map(file).collect::<Vec<_>>()).await?;
    let (one, two) = (ControlPlane::start().await?, ControlPlane::start().await?);
    register(&stage, [&one, &two]).await?;
    let before = stage.cpu()?.ours;
    let begin = Instant::now();
    let url = stage.repo.url();
    let all = (0..CLUSTERS / BY_APPLICATION).map(|n| {
        let range = n * BY_APPLICATION..(n + 1) * BY_APPLICATION;
        let destinations: Vec<_> =
            range.map(|c| json!({ "cluster": cluster(c), "namespace": cluster(c) })).collect();
        let spec = json!({
            "source": { "repoURL": url, "revision": "main", "path": "all" }, "destinations": destinations,
        });
        (format!("fleet-{n}"), spec)
    });
    stage.create(all.collect()).await?;
    let synced = synced(&stage, CLUSTERS - 1, begin).await?;
    report.below("100 clusters × 50 objects, one dead: the 99 are in sync", synced.as_secs_f64(), "s", 30.0);
    report.figure("100 clusters: CPU of the controller", stage.cpu()?.ours - before, "s");
    let (now, peak) = stage.memory()?;
    report.figure("100 clusters: memory", now, "MiB");
    report.figure("100 clusters: memory at its peak, shared pages too", peak, "MiB");

    let text = config_map("object-00", "2");
    let commit = stage.repo.commit_files(&[("all/object-00.yaml", Some(&text))], "change")?;
    let begin = Instant::now();
    stage.product.hook(&url, &commit).await?;
    let maps: Vec<Api<ConfigMap>> = (1..CLUSTERS)
        .map(|n| {
            let plane = if n % 2 == 0 { &one } else { &two };
            Api::namespaced(plane.admin(), &cluster(n))
        })
        .collect();
    for api in maps {
        while api.get("object-00").await?.data.unwrap_or_default().get("value").is_none_or(|it| it != "2") {
            let patient = begin.elapsed() < Duration::from_secs(300);
            patient.then_some(()).context("a change did not arrive everywhere")?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    report.below(
        "100 clusters: a change of one object is on all 99",
        begin.elapsed().as_secs_f64(),
        "s",
        30.0,
    );
    Ok(())
}

fn cluster(n: usize) -> String {
    format!("cluster-{n:03}")
}

/// Clusters that are namespaces of two control planes; the first leads nowhere.
async fn register(stage: &Stage, planes: [&ControlPlane; 2]) -> anyhow::Result<()> {
    let nowhere = Port::free()?;
    let all = futures::stream::iter(0..CLUSTERS).map(|n| {
        let (plane, nowhere) = (planes[n % 2], &nowhere);
        async move {
            let mut kubeconfig = plane.kubeconfig(&User::Admin)?;
            if n == 0 {
                for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
                    cluster.server = Some(format!("https://127.0.0.1:{}", nowhere.number()));
                }
            }
            let name = cluster(n);
            namespace(&plane.admin(), &name).await?;
            secret(&stage.client, "default", &name, "kubeconfig", &kubeconfig_yaml(&kubeconfig)?).await?;
            let api: Api<Cluster> = Api::all(stage.client.clone());
            let object = serde_json::from_value(json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
                "spec": { "kubeconfig": { "secretRef": { "name": name, "namespace": "default" } } },
            }))?;
            api.create(&PostParams::default(), &object).await.context("cannot create a Cluster")
        }
    });
    let mut all = all.buffer_unordered(8);
    while let Some(result) = all.next().await {
        result?;
    }
    Ok(())
}

/// Waits until so many clusters are in sync.
async fn synced(stage: &Stage, count: usize, begin: Instant) -> anyhow::Result<Duration> {
    let api: Api<Application> = Api::namespaced(stage.client.clone(), NAMESPACE);
    loop {
        let all = api.list(&ListParams::default()).await?;
        let lines = all.iter().filter_map(|app| app.status.as_ref()).flat_map(|status| &status.clusters);
        let good = lines.filter(|line| line.sync == SyncWord::Synced).count();
        if good >= count {
            return Ok(begin.elapsed());
        }
        let patient = begin.elapsed() < Duration::from_secs(600);
        patient.then_some(()).with_context(|| {
            format!("{good} are in sync; the log ends with:\n{}", stage.product.child.log_tail(10))
        })?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
