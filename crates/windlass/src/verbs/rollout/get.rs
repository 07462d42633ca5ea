//! `windlass rollout get`: a Rollout with all that belongs to it, as a tree.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt, future};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{ResourceExt, runtime::WatchStreamExt};
use windlass_api::{
    analysis::{AnalysisRun, Phase as RunPhase},
    experiment::Experiment,
    rollout::{Rollout, SCALE_DOWN_DEADLINE},
};
use windlass_manifest::health::health;

use super::{
    control,
    family::{self, Family, hash, images, revision},
    words::{is_updating, phase, set_weight, status, step_count, step_index, strategy, title, waits_for},
};
use crate::{
    cli,
    error::CommandError,
    show::{
        age,
        tree::{Node, render},
    },
    verbs::hub::{Hub, HubArgs, now},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout get web -n shop
  windlass rollout get web --watch";

/// Pods come and go without a change of the Rollout: a watch looks again after so long at the latest.
const REFRESH: Duration = Duration::from_secs(2);

/// Show a Rollout with its revisions, pods, analyses and experiments
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// Go on and show every change
    #[arg(long, short)]
    watch: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let rollout = control::rollout(&hub, &args.name).await?;
        let first = page(&rollout, &family::read(&hub, &rollout).await?, now());
        if !args.watch {
            return cli::print(&first);
        }
        follow(&hub, rollout, &first).await
    })
}

/// Shows every change until the reader goes away or somebody interrupts.
async fn follow(hub: &Hub, mut rollout: Rollout, first: &str) -> Result<(), CommandError> {
    let terminal = io::stdout().is_terminal();
    let name = rollout.name_any();
    let mut changes =
        Box::pin(kube::runtime::watcher::watch_object(control::rollouts(hub), &name).default_backoff());
    let start = now();
    let mut shown = String::new();
    if !draw(first, terminal) {
        return Ok(());
    }
    loop {
        let pause = Box::pin(tokio::time::sleep(REFRESH));
        match future::select(changes.next(), pause).await {
            future::Either::Left((Some(Ok(Some(next))), _)) => rollout = next,
            future::Either::Left((Some(Ok(None)), _)) => {
                return Err(CommandError::failure(format!("Rollout {} was deleted", title(&rollout))));
            }
            future::Either::Left((Some(Err(error)), _)) => {
                cli::note(&format!("the watch was interrupted and begins anew: {error}"));
            }
            future::Either::Left((None, _)) => return Ok(()),
            future::Either::Right(_) => {}
        }
        // What has come meanwhile is shown with it.
        while let Some(Some(Ok(Some(next)))) = changes.next().now_or_never() {
            rollout = next;
        }
        let family = family::read(hub, &rollout).await?;
        // Seen from one moment: ages alone are no change.
        let next = page(&rollout, &family, start);
        if next != shown {
            if !draw(&page(&rollout, &family, now()), terminal) {
                return Ok(());
            }
            shown = next;
        }
    }
}

/// On a terminal the page takes the place of the one before. `false`: nobody reads any more.
fn draw(page: &str, terminal: bool) -> bool {
    let mut out = io::stdout().lock();
    let text = if terminal { format!("\x1b[2J\x1b[H{page}") } else { format!("{page}\n") };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// The whole page.
fn page(rollout: &Rollout, family: &Family, now: Timestamp) -> String {
    let status = status(rollout);
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row("Rollout:", &title(rollout));
    row("Status:", phase(rollout));
    if let Some(waits) = waits_for(rollout, now) {
        row("Waits for:", &waits);
    }
    row("Strategy:", strategy(rollout));
    if step_count(rollout) > 0 {
        row("Step:", &format!("{}/{}", step_index(rollout), step_count(rollout)));
    }
    if let Some(wanted) = set_weight(rollout) {
        let routed = status.canary.weights.as_ref().map(|weights| weights.canary.weight).or(status.weight);
        let actual = routed.map_or_else(|| "unknown".to_owned(), |weight| weight.to_string());
        row("Weight:", &format!("set {wanted}, actual {actual}"));
    }
    row(
        "Pods:",
        &format!(
            "wanted {}, current {}, updated {}, ready {}, available {}",
            rollout.spec.replicas,
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas
        ),
    );
    if let Some(control) = status.controls.last() {
        let by = control.by.as_deref().unwrap_or("somebody unknown");
        row("Last asked:", &format!("{} by {by}, {} ago", control.verb, age(Some(&control.at), now)));
    }
    text.push('\n');
    text.push_str(&render(&tree(rollout, family, now)));
    text
}

fn tree(rollout: &Rollout, family: &Family, now: Timestamp) -> Node {
    let since = age(rollout.metadata.creation_timestamp.as_ref(), now);
    let mut root = Node::new(format!("Rollout {}", rollout.name_any()))
        .told(phase(rollout), Some(&format!("for {since}")));
    for set in &family.sets {
        let mut node = Node::new(format!("revision {}", revision(set)));
        node.children.push(replica_set(rollout, family, set, now));
        let own = |labels: &std::collections::BTreeMap<String, String>| {
            labels.get(windlass_api::rollout::POD_TEMPLATE_HASH).map(String::as_str) == Some(hash(set))
        };
        node.children.extend(family.runs.iter().filter(|it| own(it.labels())).map(|it| run_node(it, now)));
        let experiments = family.experiments.iter().filter(|it| own(it.labels()));
        node.children.extend(experiments.map(|it| experiment_node(it, now)));
        root.children.push(node);
    }
    let hashes: Vec<&str> = family.sets.iter().map(hash).collect();
    let is_stray = |labels: &std::collections::BTreeMap<String, String>| {
        let hash = labels.get(windlass_api::rollout::POD_TEMPLATE_HASH).map(String::as_str);
        !hash.is_some_and(|hash| hashes.contains(&hash))
    };
    root.children.extend(family.runs.iter().filter(|it| is_stray(it.labels())).map(|it| run_node(it, now)));
    let stray = family.experiments.iter().filter(|it| is_stray(it.labels()));
    root.children.extend(stray.map(|it| experiment_node(it, now)));
    root
}

/// The parts that a revision plays.
pub(super) fn marks(rollout: &Rollout, hash: &str) -> Vec<&'static str> {
    let status = status(rollout);
    let is = |known: &Option<String>| known.as_deref() == Some(hash) && !hash.is_empty();
    let mut marks = Vec::new();
    if is(&status.stable_rs) {
        marks.push("stable");
    }
    if rollout.spec.strategy.blue_green.is_some() {
        if is(&status.blue_green.active_selector) {
            marks.push("active");
        }
        let previewed = is(&status.blue_green.preview_selector)
            || (status.blue_green.preview_selector.is_none()
                && is(&status.current_pod_hash)
                && is_updating(&status));
        if previewed && !marks.contains(&"active") {
            marks.push("preview");
        }
    } else if is(&status.current_pod_hash) && is_updating(&status) {
        marks.push("canary");
    }
    marks
}

fn replica_set(rollout: &Rollout, family: &Family, set: &ReplicaSet, now: Timestamp) -> Node {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
    let (there, available) = set
        .status
        .as_ref()
        .map_or((0, 0), |status| (status.replicas, status.available_replicas.unwrap_or(0)));
    let word = match (wanted, there) {
        (0, 0) => "ScaledDown",
        _ if available >= wanted && there == wanted => "Healthy",
        _ => "Progressing",
    };
    let mut said = vec![format!("{available}/{wanted}")];
    said.extend(images(set));
    said.extend(marks(rollout, hash(set)).into_iter().map(str::to_owned));
    if let Some(deadline) = set.annotations().get(SCALE_DOWN_DEADLINE).filter(|text| !text.is_empty())
        && wanted > 0
    {
        said.push(format!("until {deadline}"));
    }
    said.push(format!("for {}", age(set.metadata.creation_timestamp.as_ref(), now)));
    let mut node = Node::new(format!("ReplicaSet {}", set.name_any())).told(word, Some(&said.join(", ")));
    let pods = set.uid().and_then(|uid| family.pods.get(&uid)).map(Vec::as_slice).unwrap_or_default();
    node.children = pods.iter().map(|pod| pod_node(pod, now)).collect();
    node
}

fn pod_node(pod: &Pod, now: Timestamp) -> Node {
    let mut value = serde_json::to_value(pod).unwrap_or_default();
    (value["apiVersion"], value["kind"]) = ("v1".into(), "Pod".into());
    let health = health(&value);
    let statuses =
        pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let all = pod.spec.as_ref().map_or(statuses.len(), |spec| spec.containers.len());
    let ready = statuses.iter().filter(|status| status.ready).count();
    let mut said = vec![format!("{ready}/{all} ready")];
    if !health.message.is_empty() && ready < all {
        said.push(health.message);
    }
    said.push(format!("for {}", age(pod.metadata.creation_timestamp.as_ref(), now)));
    let word = if pod.metadata.deletion_timestamp.is_some() {
        "Terminating".to_owned()
    } else {
        health.status.to_string()
    };
    Node::new(format!("Pod {}", pod.name_any())).told(&word, Some(&said.join(", ")))
}

fn run_node(run: &AnalysisRun, now: Timestamp) -> Node {
    let status = run.status.clone().unwrap_or_default();
    let mut said = Vec::new();
    for (number, what) in [
        (sum(&status, |metric| metric.successful), "good"),
        (sum(&status, |metric| metric.failed), "bad"),
        (sum(&status, |metric| metric.inconclusive), "inconclusive"),
        (sum(&status, |metric| metric.error), "errors"),
    ] {
        if number > 0 {
            said.push(format!("{number} {what}"));
        }
    }
    if !status.message.is_empty() && status.phase != RunPhase::Successful {
        said.push(status.message.clone());
    }
    said.push(format!("for {}", age(run.metadata.creation_timestamp.as_ref(), now)));
    Node::new(format!("AnalysisRun {}", run.name_any())).told(status.phase.as_str(), Some(&said.join(", ")))
}

fn sum(
    status: &windlass_api::analysis::AnalysisRunStatus,
    number: impl Fn(&windlass_api::analysis::MetricResult) -> i32,
) -> i32 {
    status.metric_results.iter().map(number).sum()
}

fn experiment_node(experiment: &Experiment, now: Timestamp) -> Node {
    let status = experiment.status.clone().unwrap_or_default();
    let mut said: Vec<String> = status
        .template_statuses
        .iter()
        .map(|template| format!("{} {}/{}", template.name, template.available_replicas, template.replicas))
        .collect();
    if !status.message.is_empty() {
        said.push(status.message.clone());
    }
    said.push(format!("for {}", age(experiment.metadata.creation_timestamp.as_ref(), now)));
    Node::new(format!("Experiment {}", experiment.name_any()))
        .told(status.phase.as_str(), Some(&said.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};
    use serde_json::{Value, json};

    fn set(hash: &str, revision: i64, wanted: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("web-{hash}"), "uid": format!("u-{hash}"),
                "creationTimestamp": "2026-03-01T11:55:00Z",
                "labels": { "windlass.dev/pod-template-hash": hash },
                "annotations": { "windlass.dev/revision": revision.to_string() },
            },
            "spec": {
                "replicas": wanted, "selector": {},
                "template": { "spec": { "containers": [{ "name": "app", "image": format!("shop/web:{revision}") }] } },
            },
            "status": { "replicas": wanted, "availableReplicas": wanted },
        }))
        .unwrap()
    }

    fn family() -> Family {
        let run: AnalysisRun = serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "AnalysisRun",
            "metadata": {
                "name": "web-new1-2-2", "creationTimestamp": "2026-03-01T11:59:00Z",
                "labels": { "windlass.dev/pod-template-hash": "new1" },
            },
            "spec": { "metrics": [] },
            "status": {
                "phase": "Failed", "message": "Metric \"errors\" assessed Failed",
                "metricResults": [{ "name": "errors", "successful": 3, "failed": 1 }],
            },
        }))
        .unwrap();
        let pod: Value = json!({
            "metadata": { "name": "web-new1-a", "creationTimestamp": "2026-03-01T11:55:00Z" },
            "spec": { "containers": [{ "name": "app" }] },
            "status": {
                "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [{
                    "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
                    "state": { "running": {} },
                }],
            },
        });
        Family {
            sets: vec![set("new1", 2, 1), set("old1", 1, 5)],
            pods: [("u-new1".to_owned(), vec![serde_json::from_value(pod).unwrap()])].into(),
            runs: vec![run],
            experiments: Vec::new(),
        }
    }

    #[test]
    fn a_rollout_is_shown_with_its_revisions_and_what_it_waits_for() {
        let shown = page(&fixtures::paused(), &family(), fixtures::now());
        let lines: Vec<String> = shown.lines().map(crate::show::line).collect();
        let wanted = [
            "Rollout: shop/web",
            "Status: Paused",
            "Waits for: A pause until it is promoted, since 90s: windlass rollout promote web",
            "Strategy: Canary",
            "Step: 1/4",
            "Weight: set 20, actual 20",
            "Pods: wanted 5, current 6, updated 1, ready 6, available 6",
            "",
            "Rollout web Paused for 120m",
            "├─ revision 2",
            "│ ├─ ReplicaSet web-new1 Healthy 1/1, shop/web:2, canary, for 5m",
            "│ │ └─ Pod web-new1-a Healthy 1/1 ready, for 5m",
            "│ └─ AnalysisRun web-new1-2-2 Failed 3 good, 1 bad, Metric \"errors\" assessed Failed, for 60s",
            "└─ revision 1",
            "└─ ReplicaSet web-old1 Healthy 5/5, shop/web:1, stable, for 5m",
        ];
        assert_eq!(lines, wanted, "{shown}");
    }

    #[test]
    fn the_parts_of_revisions_are_marked() {
        assert_eq!(marks(&fixtures::paused(), "old1"), ["stable"]);
        assert_eq!(marks(&fixtures::paused(), "new1"), ["canary"]);
        assert_eq!(marks(&fixtures::completed(), "new1"), ["stable"]);
        let mut rollout = fixtures::blue_green();
        let status = rollout.status.as_mut().unwrap();
        status.blue_green.active_selector = Some("old1".into());
        status.blue_green.preview_selector = Some("new1".into());
        assert_eq!(marks(&rollout, "old1"), ["stable", "active"]);
        assert_eq!(marks(&rollout, "new1"), ["preview"]);
    }
}
