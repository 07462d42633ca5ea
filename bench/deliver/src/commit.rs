//! One file of a large repository changes; hooks are answered.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::Instant;
use windlass_testbed::measure::Report;

use crate::{
    many,
    stage::{NAMESPACE, Stage, config_map, median},
};

const APPLICATIONS: usize = 800;
const ALL: usize = 1_500;
const SAMPLES: usize = 9;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let file = |n: usize| (format!("apps/{}/web.yaml", many::name(n)), config_map(&many::name(n), "0"));
    let mut stage = Stage::open(&(0..ALL).map(file).collect::<Vec<_>>()).await?;
    let url = stage.repo.url();
    stage.create((0..APPLICATIONS).map(|n| (many::name(n), many::spec(&url, n))).collect()).await?;
    stage.healthy(APPLICATIONS).await?;
    stage.settle().await?;

    let renders = stage.product.metric("windlass_renders_total", "").await?;
    let (mut latencies, mut used) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        let before = stage.cpu()?.ours;
        latencies.push(applied(&stage, 10 * sample, &sample.to_string()).await?.as_secs_f64());
        stage.settle().await?;
        used.push(stage.cpu()?.ours - before);
    }
    let renders = stage.product.metric("windlass_renders_total", "").await? - renders;
    let samples = crate::stage::as_f64(SAMPLES);
    report.figure("800 Applications, one file changes: renders by commit", renders / samples, "");
    report.below("800 Applications: hook to applied, median", median(latencies.clone()), "s", 1.0);
    let worst = latencies.into_iter().fold(0.0, f64::max);
    report.figure("800 Applications: hook to applied, slowest of 9", worst, "s");
    report.figure("800 Applications: CPU by commit, median", median(used), "s");

    stage.create((APPLICATIONS..ALL).map(|n| (many::name(n), many::spec(&url, n))).collect()).await?;
    stage.healthy(ALL).await?;
    let mut answers = Vec::new();
    for sample in 0..50 {
        let path = format!("apps/{}/web.yaml", many::name(sample));
        let text = config_map(&many::name(sample), "hook");
        let commit = stage.repo.commit_files(&[(&path, Some(&text))], "hook")?;
        answers.push(stage.product.hook(&url, &commit).await?.as_secs_f64() * 1e3);
    }
    report.below("1,500 Applications: hook answered, median of 50", median(answers.clone()), "ms", 100.0);
    let worst = answers.into_iter().fold(0.0, f64::max);
    report.below("1,500 Applications: hook answered, slowest of 50", worst, "ms", 100.0);
    stage.product.child.stop()
}

/// Commits a file, tells of it, and waits until the object has its content.
async fn applied(stage: &Stage, n: usize, value: &str) -> anyhow::Result<Duration> {
    let name = many::name(n);
    let path = format!("apps/{name}/web.yaml");
    let commit = stage.repo.commit_files(&[(&path, Some(&config_map(&name, value)))], "change")?;
    let api: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let begin = Instant::now();
    stage.product.hook(&stage.repo.url(), &commit).await?;
    loop {
        let data = api.get(&name).await?.data.unwrap_or_default();
        if data.get("value").is_some_and(|there| there == value) {
            return Ok(begin.elapsed());
        }
        (begin.elapsed() < Duration::from_secs(120)).then_some(()).context("the commit was not applied")?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
