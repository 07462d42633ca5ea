//! A control plane with simulated nodes, a controller on it, and what each of them used.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    runtime::watcher::{self, Event},
};
use serde_json::json;
use tokio::time::Instant;
use windlass_testbed::{
    control_plane::{Component, ControlPlane},
    measure,
    process::{Child, Port, ScratchDir},
};

use crate::side::Side;

/// Where the Rollouts are.
pub(crate) const NAMESPACE: &str = "apps";

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);

/// Pods on one simulated node.
const PODS_BY_NODE: usize = 500;

/// One installation at work.
pub(crate) struct Stage {
    pub(crate) child: Child,
    pub(crate) client: Client,
    pub(crate) side: Side,
    control_plane: ControlPlane,
    _ports: Vec<Port>,
    _folder: ScratchDir,
}

/// What was used up to a moment.
pub(crate) struct Used {
    /// CPU seconds of the controller.
    pub(crate) controller: f64,
    /// CPU seconds of the API server.
    pub(crate) apiserver: f64,
    /// CPU seconds of etcd.
    pub(crate) etcd: f64,
    /// Requests that change something.
    pub(crate) writes: Writes,
}

/// Numbers of requests by verb and resource.
pub(crate) struct Writes(BTreeMap<String, f64>);

impl Stage {
    /// Everything started, with room for so many pods, and with kinds besides those of the side.
    pub(crate) async fn open(
        side: Side,
        pods: usize,
        more: Vec<CustomResourceDefinition>,
    ) -> anyhow::Result<Self> {
        let nodes = pods / PODS_BY_NODE + 1;
        let control_plane = ControlPlane::builder().nodes(nodes).start().await?;
        let client = control_plane.admin();
        for definition in side.definitions()?.iter().chain(&more) {
            define(&client, definition).await?;
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        namespaces.create(&PostParams::default(), &namespace).await.context("cannot create a namespace")?;
        let folder = ScratchDir::new("bench-rollout")?;
        let (child, ports) = side.start(&control_plane, &folder)?;
        Ok(Self { child, client, side, control_plane, _ports: ports, _folder: folder })
    }

    pub(crate) fn rollouts(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(self.side.group(), "v1alpha1", "Rollout");
        Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
    }

    /// Waits until the controller used next to no CPU for some seconds.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        for _ in 0..60 {
            let before = measure::whole_cpu(self.child.pid())?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            if measure::whole_cpu(self.child.pid())?.saturating_sub(before) < Duration::from_millis(50) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) async fn used(&self) -> anyhow::Result<Used> {
        let of = |component| {
            let pid = self.control_plane.pid(component).context("a component is gone")?;
            anyhow::Ok(measure::whole_cpu(pid)?.as_secs_f64())
        };
        // The page of metrics is long: what it costs stays outside.
        let (apiserver, etcd) = (of(Component::Apiserver)?, of(Component::Etcd)?);
        let controller = measure::whole_cpu(self.child.pid())?.as_secs_f64();
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await.context("the API server tells no metrics")?;
        Ok(Used { controller, apiserver, etcd, writes: Writes::read(&text) })
    }

    /// The most memory that the controller ever had resident, in MiB.
    pub(crate) fn peak(&self) -> anyhow::Result<f64> {
        let bytes = measure::peak_memory(self.child.pid())?;
        Ok(f64::from(u32::try_from(bytes / 1024)?) / 1024.0)
    }

    /// Fails when the controller ended or time is over.
    pub(crate) fn patient(&mut self, begin: Instant, what: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.child.is_running() && begin.elapsed() < PATIENCE,
            "{what}; the log ends with:\n{}",
            self.child.log_tail(10)
        );
        Ok(())
    }
}

impl Writes {
    /// What the API server counted.
    fn read(metrics: &str) -> Self {
        let mut all = BTreeMap::new();
        let lines = metrics.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{"));
        for (labels, value) in lines.filter_map(|line| line.rsplit_once("} ")) {
            let label = |name: &str| {
                let text = labels.split_once(&format!("{name}=\""));
                text.and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
            };
            let verb = label("verb");
            if !["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb) {
                continue;
            }
            let (group, resource, sub) = (label("group"), label("resource"), label("subresource"));
            let name = format!("{verb} {group}/{resource}/{sub}");
            *all.entry(name).or_insert(0.0) += value.parse::<f64>().unwrap_or(0.0);
        }
        Self(all)
    }

    /// What came on top of what was before, by request.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let more =
            |(name, value): (&String, &f64)| (name.clone(), value - before.0.get(name).unwrap_or(&0.0));
        Self(self.0.iter().map(more).filter(|(_, value)| *value > 0.0).collect())
    }

    /// Those that only a controller of Rollouts makes. Both sides are counted by the same rule: Events and Leases are left
    /// out, and so is what the controller manager writes of `ReplicaSets` (their status).
    pub(crate) fn of_controller(&self, group: &str) -> f64 {
        let counted = |name: &str| {
            name.contains(&format!(" {group}/rollouts/")) || name.ends_with(" apps/replicasets/")
        };
        self.0.iter().filter(|(name, _)| counted(name)).map(|(_, value)| value).sum()
    }

    /// The most frequent, with their numbers.
    pub(crate) fn most(&self) -> Vec<(&str, f64)> {
        let mut all: Vec<(&str, f64)> = self.0.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        all.truncate(12);
        all
    }
}

/// A watch of all Rollouts, and the stable revision of those that are done.
pub(crate) struct Eye {
    stream: BoxStream<'static, watcher::Result<Event<DynamicObject>>>,
    done: &'static str,
}

impl Eye {
    /// Opens the watch and waits until it has seen what is there.
    pub(crate) async fn open(stage: &Stage) -> anyhow::Result<Self> {
        let stream = watcher::watcher(stage.rollouts(), watcher::Config::default()).boxed();
        let mut eye = Self { stream, done: stage.side.done() };
        while !matches!(eye.next().await?, Event::InitDone) {}
        Ok(eye)
    }

    async fn next(&mut self) -> anyhow::Result<Event<DynamicObject>> {
        loop {
            match self.stream.next().await.context("the watch ended")? {
                Ok(event) => return Ok(event),
                // The watcher starts again by itself.
                Err(error) => eprintln!("the watch broke: {error}"),
            }
        }
    }

    /// Waits until so many Rollouts are done with another revision than the one before, and gives the revisions.
    pub(crate) async fn beyond(
        &mut self,
        stage: &mut Stage,
        before: &BTreeMap<String, String>,
        count: usize,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut stable = BTreeMap::new();
        let begin = Instant::now();
        while stable.len() < count {
            stage.patient(begin, &format!("{} of {count} are done", stable.len()))?;
            let Ok(event) = tokio::time::timeout(Duration::from_secs(5), self.next()).await else { continue };
            let (Event::Apply(object) | Event::InitApply(object)) = event? else { continue };
            let name = object.name_any();
            let status = &object.data["status"];
            let (revision, newest) = (status["stableRS"].as_str(), status["currentPodHash"].as_str());
            if let Some(revision) = revision.filter(|it| !it.is_empty() && newest == Some(it))
                && status["phase"] == self.done
                && before.get(&name).map(String::as_str) != Some(revision)
            {
                stable.insert(name, revision.to_owned());
            }
        }
        Ok(stable)
    }
}

/// Makes a kind, and waits until it is served.
async fn define(client: &Client, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.name_any();
    definitions.patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(definition)).await?;
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(definitions.clone(), &name, established);
    tokio::time::timeout(Duration::from_secs(60), wait).await.context("a kind is not served")??;
    Ok(())
}

pub(crate) fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::Writes;

    #[test]
    fn only_writes_of_a_controller_of_rollouts_are_counted() {
        let of = |(group, resource, sub, verb): (&str, &str, &str, &str), value: u32| {
            format!(
                "apiserver_request_total{{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"{group}\",resource=\"{resource}\",scope=\"resource\",subresource=\"{sub}\",verb=\"{verb}\",version=\"v1\"}} {value}\n"
            )
        };
        let text = [
            of(("windlass.dev", "rollouts", "status", "PATCH"), 1),
            of(("windlass.dev", "rollouts", "", "GET"), 10),
            of(("argoproj.io", "rollouts", "status", "PATCH"), 100),
            of(("apps", "replicasets", "", "PATCH"), 1_000),
            of(("apps", "replicasets", "status", "PUT"), 10_000),
            of(("", "events", "", "POST"), 100_000),
        ]
        .concat();
        let writes = Writes::read(&text);
        assert!((writes.of_controller("windlass.dev") - 1_001.0).abs() < 0.1);
        assert!((writes.of_controller("argoproj.io") - 1_100.0).abs() < 0.1);
        assert_eq!(writes.most()[0].0, "POST /events/");
        assert!(writes.since(&writes).most().is_empty());
    }
}
