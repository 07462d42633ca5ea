//! An edit by hand is put back.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;
use windlass_testbed::measure::Report;

use crate::{
    many,
    stage::{NAMESPACE, Stage, config_map, median},
};

const APPLICATIONS: usize = 50;
const SAMPLES: usize = 9;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let file = |n: usize| (format!("apps/{}/web.yaml", many::name(n)), config_map(&many::name(n), "git"));
    let mut stage = Stage::open(&(0..APPLICATIONS).map(file).collect::<Vec<_>>()).await?;
    let url = stage.repo.url();
    stage.create((0..APPLICATIONS).map(|n| (many::name(n), many::spec(&url, n))).collect()).await?;
    stage.healthy(APPLICATIONS).await?;
    stage.settle().await?;
    let api: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut healed = Vec::new();
    // Another Application each time: one that is edited again and again is contested.
    for sample in 0..SAMPLES {
        let name = many::name(sample);
        let edit = json!({ "data": { "value": "hand" } });
        let params = PatchParams { field_manager: Some("hand".into()), ..PatchParams::default() };
        api.patch(&name, &params, &Patch::Merge(&edit)).await?;
        let begin = Instant::now();
        while api.get(&name).await?.data.unwrap_or_default().get("value").is_none_or(|value| value != "git") {
            (begin.elapsed() < Duration::from_secs(120)).then_some(()).context("the drift stayed")?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        healed.push(begin.elapsed().as_secs_f64());
    }
    report.below("drift healed, median of 9", median(healed.clone()), "s", 1.0);
    report.figure("drift healed, slowest of 9", healed.into_iter().fold(0.0, f64::max), "s");
    stage.product.child.stop()
}
