//! The demo of Rollouts: a good version goes through, a bad one is stopped by what a real Prometheus says.
//!
//! ```text
//!   examples/rollouts ─► Rollout ─► pods ─► requests (counted by the demo) ─► Prometheus ─► AnalysisRun ─► on, or back
//! ```
//!
//! Pods of simulated nodes serve nobody. So the demo counts requests in their place: as many for each pod, and a part of
//! them fails where the bad image runs. All that follows is real: the scrape, the query, the verdict, the way back.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use tokio::time::Instant;
use windlass_testbed::{
    git::Git,
    prometheus::{Prometheus, Target},
};

use super::{NAMESPACE, shop::examples, stage::Stage, step, terminal::Terminal};

/// Longest that anything of the demo may take.
const PATIENCE: Duration = Duration::from_secs(120);

const FILE: &str = "rollouts/checkout.yaml";
const HASH: &str = "windlass.dev/pod-template-hash";
const FIRST: &str = "nginx:1.28";
const GOOD: &str = "nginx:1.29";
const BAD: &str = "nginx:1.27";
const PODS: i32 = 5;

/// Requests of one pod in one beat, and those of them that fail where the bad image runs.
const REQUESTS: f64 = 10.0;
const FAILING: f64 = 3.0;
const BEAT: Duration = Duration::from_millis(250);

struct Canary<'a> {
    stage: &'a Stage,
    terminal: Terminal,
    rollouts: Api<DynamicObject>,
    sets: Api<ReplicaSet>,
}

/// Plays it.
pub(super) async fn play(stage: &Stage, windlass: &Path, git: &Git) -> anyhow::Result<()> {
    step("a new version reaches its users step by step, judged by a real Prometheus");
    let target = Target::start("checkout").await?;
    let prometheus = Prometheus::start(&[&target]).await?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Rollout"));
    let canary = Canary {
        stage,
        terminal: Terminal::new(windlass, git.clone())?,
        rollouts: Api::namespaced_with(stage.client.clone(), NAMESPACE, &kind),
        sets: Api::namespaced(stage.client.clone(), NAMESPACE),
    };
    tokio::select! {
        biased;
        outcome = canary.story(&prometheus) => outcome,
        outcome = canary.requests(&target) => outcome,
    }
}

impl Canary<'_> {
    async fn story(&self, prometheus: &Prometheus) -> anyhow::Result<()> {
        let path = examples().join(FILE);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = text.replace("http://prometheus.monitoring:9090", &prometheus.url());
        self.terminal.write(FILE, &text)?;
        println!("\n# examples/{FILE}");
        print!("{text}");
        self.apply().await?;
        self.until("the first version runs", |status| status["phase"] == "Completed").await?;

        println!("\n# a good version");
        self.terminal.edit(FILE, FIRST, GOOD)?;
        self.apply().await?;
        let all_are =
            |pods: &BTreeMap<String, i32>, image: &str| pods.get(image) == Some(&PODS) && pods.len() == 1;
        let through = |status: &Value| status["phase"] == "Completed" && status["revision"] == 2;
        self.until("the good version went through", through).await?;
        self.pods("all pods have the good image", |pods| all_are(pods, GOOD)).await?;
        self.show().await?;

        println!("\n# a bad one: three of ten of its requests fail");
        self.terminal.edit(FILE, GOOD, BAD)?;
        self.apply().await?;
        let stopped = |status: &Value| status["phase"] == "Failed" && status["abort"] == true;
        let status = self.until("the bad version was stopped", stopped).await?;
        self.pods("all pods have the good image again", |pods| all_are(pods, GOOD)).await?;
        println!("\n# stopped, and back: {}", status["message"].as_str().unwrap_or_default());
        self.show().await
    }

    async fn apply(&self) -> anyhow::Result<()> {
        self.terminal.kubectl(&self.stage.reach(), &["apply", "-n", NAMESPACE, "-f", "rollouts"]).await?;
        println!();
        Ok(())
    }

    async fn show(&self) -> anyhow::Result<()> {
        let reach = self.stage.reach();
        for kind in ["rollouts.windlass.dev", "analysisruns.windlass.dev", "replicasets"] {
            self.terminal.kubectl(&reach, &["get", kind, "-n", NAMESPACE]).await?;
        }
        Ok(())
    }

    /// Waits until the status of the newest spec is so. Every change on the way is told.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let begin = Instant::now();
        let mut told = String::new();
        loop {
            let object = self.rollouts.get("checkout").await?;
            let status = &object.data["status"];
            let line = self.line(status).await?;
            if line != told {
                println!("{:>5.1} s  {line}", begin.elapsed().as_secs_f64());
                told = line;
            }
            if status["observedGeneration"].as_i64() == object.metadata.generation && is_so(status) {
                return Ok(status.clone());
            }
            if begin.elapsed() > PATIENCE {
                bail!("not seen: {what}: {status}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Phase, weight and pods in one line.
    async fn line(&self, status: &Value) -> anyhow::Result<String> {
        let text = |field: &str| status[field].as_str().unwrap_or("-").to_owned();
        let pods: Vec<String> =
            self.available().await?.iter().map(|(image, n)| format!("{n} × {image}")).collect();
        Ok(format!(
            "{:<12} step {:<4} weight {:>3} %  {:<30} {}",
            text("phase"),
            text("step"),
            status["weight"].as_i64().unwrap_or_default(),
            pods.join(", "),
            text("message")
        ))
    }

    async fn pods(&self, what: &str, is_so: impl Fn(&BTreeMap<String, i32>) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let pods = self.available().await?;
            if is_so(&pods) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                bail!("not seen: {what}: {pods:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Available pods by image; an image without any is not there.
    async fn available(&self) -> anyhow::Result<BTreeMap<String, i32>> {
        let mut pods = BTreeMap::new();
        for set in self.sets.list(&ListParams::default().labels(HASH)).await? {
            let (count, image) = (available(&set), image(&set));
            if count > 0 {
                *pods.entry(image.to_owned()).or_default() += count;
            }
        }
        Ok(pods)
    }

    /// Counts requests for every pod that is available, again and again.
    async fn requests(&self, target: &Target) -> anyhow::Result<()> {
        loop {
            for set in self.sets.list(&ListParams::default().labels(HASH)).await? {
                let Some(hash) = set.metadata.labels.as_ref().and_then(|labels| labels.get(HASH)) else {
                    continue;
                };
                let pods = f64::from(available(&set));
                let failing = if image(&set) == BAD { FAILING } else { 0.0 };
                let count = |code: &str, requests: f64| {
                    target.add(
                        "http_requests_total",
                        &[("pod_template_hash", hash), ("code", code)],
                        requests,
                    );
                };
                count("200", pods * (REQUESTS - failing));
                count("500", pods * failing);
            }
            tokio::time::sleep(BEAT).await;
        }
    }
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn image(set: &ReplicaSet) -> &str {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let containers =
        template.and_then(|template| template.spec.as_ref()).map(|spec| spec.containers.as_slice());
    containers.and_then(<[_]>::first).and_then(|first| first.image.as_deref()).unwrap_or_default()
}
