//! Many Rollouts get a new image at once.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_testbed::measure::Report;

use crate::{
    side::Side,
    stage::{Eye, Stage, as_f64},
};

const REPLICAS: usize = 5;
const WEIGHTS: [u32; 4] = [20, 40, 60, 80];

/// Seconds of each pause, of which there is one for each weight.
const PAUSE: f64 = 1.0;

/// Requests of the bench at the same time.
const AT_ONCE: usize = 16;

/// What one side needed.
struct Outcome {
    overhead: f64,
    writes: f64,
}

pub(crate) async fn measure(report: &mut Report, sizes: &[usize]) -> anyhow::Result<()> {
    let argo = Side::argo();
    for &count in sizes {
        let ours = one(report, Side::Windlass, count).await?;
        let Some(argo) = argo.clone() else { continue };
        let theirs = one(report, argo, count).await?;
        let figure = |what: &str| format!("{count}: Windlass by Argo Rollouts, {what}");
        report.below(&figure("writes"), ours.writes / theirs.writes, "", 1.0);
        report.figure(&figure("time over the pauses"), ours.overhead / theirs.overhead, "");
    }
    Ok(())
}

async fn one(report: &mut Report, side: Side, count: usize) -> anyhow::Result<Outcome> {
    eprintln!("{count} Rollouts, {}", side.name());
    let windlass = matches!(side, Side::Windlass);
    let title = side.name();
    // A Rollout has one pod more than wanted while it goes on.
    let mut stage = Stage::open(side, count * (REPLICAS + 1), Vec::new()).await?;
    let mut eye = Eye::open(&stage).await?;
    create(&stage, count).await?;
    let first = eye.beyond(&mut stage, &BTreeMap::new(), count).await?;
    stage.settle().await?;

    let before = stage.used().await?;
    let begin = Instant::now();
    change(&stage, count).await?;
    eye.beyond(&mut stage, &first, count).await?;
    let overhead = begin.elapsed().as_secs_f64() - PAUSE * as_f64(WEIGHTS.len());
    let after = stage.used().await?;

    let figure = |what: &str| format!("{count} {title}: {what}");
    let mut put = |what: &str, value: f64, unit: &'static str, target: Option<f64>| match target {
        Some(target) if windlass => report.below(&figure(what), value, unit, target),
        _ => report.figure(&figure(what), value, unit),
    };
    let at = |size: usize, target: f64| (count == size).then_some(target);
    put("image change to all done, over the pauses", overhead, "s", at(50, 1.0).or(at(500, 5.0)));
    put("CPU of the controller", after.controller - before.controller, "s", at(50, 2.5));
    put("CPU of the API server", after.apiserver - before.apiserver, "s", at(50, 16.0));
    put("CPU of etcd", after.etcd - before.etcd, "s", None);
    let written = after.writes.since(&before.writes);
    // The change of the image is a write too, of the bench.
    let writes = written.of_controller(stage.side.group()) / as_f64(count) - 1.0;
    put("writes of Rollouts and ReplicaSets by Rollout", writes, "", None);
    put("memory at its peak, shared pages too", stage.peak()?, "MiB", at(500, 100.0));
    for (request, number) in written.most() {
        put(&format!("{request} by Rollout"), number / as_f64(count), "", None);
    }
    stage.child.stop()?;
    Ok(Outcome { overhead, writes })
}

fn name(n: usize) -> String {
    format!("web-{n:04}")
}

fn template(n: usize, version: &str) -> Value {
    let name = name(n);
    json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": format!("example.com/web:{version}") }] },
    })
}

fn steps() -> Value {
    let pause = format!("{PAUSE:.0}s");
    let pair = |weight: u32| [json!({ "setWeight": weight }), json!({ "pause": { "duration": pause } })];
    WEIGHTS.into_iter().flat_map(pair).collect()
}

async fn create(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let api = stage.rollouts();
    let group = stage.side.group();
    let made = (0..count).map(|n| {
        let api = api.clone();
        async move {
            let object = serde_json::from_value(json!({
                "apiVersion": format!("{group}/v1alpha1"), "kind": "Rollout", "metadata": { "name": name(n) },
                "spec": {
                    "replicas": REPLICAS, "selector": { "matchLabels": { "app": name(n) } },
                    "template": template(n, "v1"), "strategy": { "canary": { "steps": steps() } },
                },
            }))?;
            api.create(&PostParams::default(), &object).await.context("cannot create a Rollout")
        }
    });
    futures::stream::iter(made).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await
}

/// Gives all of them a new image.
async fn change(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let api = stage.rollouts();
    let made = (0..count).map(|n| {
        let api = api.clone();
        async move {
            let patch = Patch::Merge(json!({ "spec": { "template": template(n, "v2") } }));
            api.patch(&name(n), &PatchParams::default(), &patch).await.context("cannot change an image")
        }
    });
    futures::stream::iter(made).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await
}
