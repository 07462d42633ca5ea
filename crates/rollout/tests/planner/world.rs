//! A small cluster: what actions do to it, and what the rest of Kubernetes does by itself.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "rows and specs read better so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::rollout::{
    MANAGED_BY, POD_TEMPLATE_HASH, REVISION, Rollout, RolloutStatus,
    status::{Phase, RunPhase},
};
use windlass_cluster::drive::{Plan, Wake};
use windlass_rollout::{
    lint::world::{routes_of, services_of, templates_of},
    observed::{
        ExperimentFacts, Observed, PodFacts, ReplicaSetFacts, RouteFacts, RunFacts, ServiceFacts,
        TemplateFacts, TrafficWish,
    },
    plan::{Action, plan},
};

pub type RolloutPlan = Plan<Action, RolloutStatus>;

#[derive(Clone)]
pub struct World {
    pub rollout: Rollout,
    pub sets: Vec<ReplicaSetFacts>,
    pub services: BTreeMap<String, Option<ServiceFacts>>,
    pub routes: Vec<RouteFacts>,
    pub runs: Vec<RunFacts>,
    pub experiments: Vec<ExperimentFacts>,
    pub pods: Vec<PodFacts>,
    pub now: Timestamp,
    /// Images whose pods never become ready.
    pub broken: BTreeSet<String>,
    /// Pods that a disruption budget protects.
    pub protected: bool,
    pub notes: Vec<String>,
    counter: u64,
}

pub fn rollout(strategy: Value, replicas: i32) -> Rollout {
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": { "name": "web", "namespace": "shop", "uid": "rollout-uid", "generation": 1 },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web:1" }] },
            },
            "strategy": strategy,
        },
    }))
    .unwrap()
}

impl World {
    pub fn new(strategy: Value, replicas: i32) -> Self {
        let rollout = rollout(strategy, replicas);
        let service = || {
            Some(ServiceFacts {
                selector: BTreeMap::from([("app".into(), "web".into())]),
                managed_by: None,
                has_port: true,
            })
        };
        let services = services_of(&rollout.spec).into_iter().map(|(_, name)| (name, service())).collect();
        let seen = Some(TrafficWish { stable: 100, ..TrafficWish::default() });
        let routes = routes_of(&rollout.spec)
            .into_iter()
            .map(|route| RouteFacts { route, trouble: None, seen: seen.clone() })
            .collect();
        Self {
            rollout,
            sets: Vec::new(),
            services,
            routes,
            runs: Vec::new(),
            experiments: Vec::new(),
            pods: Vec::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            broken: BTreeSet::new(),
            protected: false,
            notes: Vec::new(),
            counter: 0,
        }
    }

    /// A world in which the first version is up.
    pub fn healthy(strategy: Value, replicas: i32) -> Self {
        let mut world = Self::new(strategy, replicas);
        world.settle();
        assert_eq!(world.phase(), Phase::Completed, "{:?}", world.status().message);
        world
    }

    pub fn observe(&self) -> Observed {
        let templates =
            TemplateFacts::closure(templates_of(&self.rollout.spec), |_| Some(TemplateFacts::default()));
        Observed {
            rollout: Arc::new(self.rollout.clone()),
            workload: None,
            replica_sets: self.sets.clone(),
            services: self.services.clone(),
            routes: self.routes.clone(),
            runs: self.runs.clone(),
            experiments: self.experiments.clone(),
            templates,
            rivals: Vec::new(),
            pods: Observed::wants_pods(&self.rollout, self.now).then(|| self.pods.clone()),
        }
    }

    pub fn plan(&self) -> RolloutPlan {
        plan(&self.observe(), self.now)
    }

    pub fn status(&self) -> RolloutStatus {
        self.rollout.status.clone().unwrap_or_default()
    }

    pub fn phase(&self) -> Phase {
        self.status().phase.unwrap()
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut RolloutStatus)) {
        let mut status = self.status();
        change(&mut status);
        self.rollout.status = Some(status);
    }

    /// Through JSON and back, as the API server would give it.
    fn store(&mut self, status: &RolloutStatus) {
        let text = serde_json::to_string(status).unwrap();
        self.rollout.status = Some(serde_json::from_str(&text).unwrap());
    }

    /// One round: everything is done, then the status is stored.
    pub fn round(&mut self) -> RolloutPlan {
        let plan = self.plan();
        for action in &plan.actions {
            self.apply(action);
        }
        if let Some(status) = &plan.status {
            self.store(status);
        }
        self.notes.extend(plan.notes.iter().map(|note| note.reason.clone()));
        plan
    }

    /// A round that ends after some of its actions; the status is not stored.
    pub fn crash_after(&mut self, actions: usize) {
        for action in self.plan().actions.iter().take(actions) {
            self.apply(action);
        }
    }

    /// Pods come and go as the `ReplicaSets` want; those of broken images never become available.
    pub fn kubelet(&mut self) {
        let broken = self.broken.clone();
        for set in &mut self.sets {
            let image =
                set.template.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default();
            set.replicas = set.wanted;
            let up = if broken.contains(image) { 0 } else { set.wanted };
            (set.ready, set.available) = (up, up);
        }
        self.make_pods();
    }

    fn make_pods(&mut self) {
        for set in self.sets.clone() {
            let of_set: Vec<usize> =
                (0..self.pods.len()).filter(|at| self.pods[*at].replica_set == set.uid).collect();
            for at in
                of_set.iter().rev().take(of_set.len().saturating_sub(usize::try_from(set.wanted).unwrap()))
            {
                self.pods.remove(*at);
            }
            let texts = |field: &str| -> BTreeMap<String, String> {
                let map = set.template.pointer(&format!("/metadata/{field}")).cloned().unwrap_or(json!({}));
                serde_json::from_value(map).unwrap()
            };
            while self.pods.iter().filter(|pod| pod.replica_set == set.uid).count()
                < usize::try_from(set.wanted).unwrap()
            {
                self.counter += 1;
                self.pods.push(PodFacts {
                    name: format!("{}-{}", set.name, self.counter),
                    uid: format!("pod-{}", self.counter),
                    replica_set: set.uid.clone(),
                    created: self.now,
                    deleting: false,
                    available: set.available > 0,
                    labels: texts("labels"),
                    annotations: texts("annotations"),
                });
            }
        }
    }

    /// Rounds and pods until nothing moves, with the clock standing still.
    pub fn settle(&mut self) {
        for _ in 0..300 {
            let before = (self.sets.clone(), self.status(), self.services.clone(), self.routes.clone());
            let plan = self.round();
            self.kubelet();
            let after = (self.sets.clone(), self.status(), self.services.clone(), self.routes.clone());
            if before == after && plan.actions.is_empty() {
                return;
            }
        }
        panic!("never comes to rest: {:?}\n{:#?}", self.status(), self.plan().actions);
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
        self.settle();
    }

    /// Waits as long as the planner asks for, until it asks for nothing.
    pub fn run_out(&mut self) {
        for _ in 0..50 {
            self.settle();
            match self.plan().wake {
                Wake::After(time) => self.now = self.now.checked_add(time).unwrap(),
                _ => return,
            }
        }
    }

    pub fn set_image(&mut self, image: &str) {
        let template = self.rollout.spec.template.as_mut().unwrap();
        template["spec"]["containers"][0]["image"] = json!(image);
        *self.rollout.metadata.generation.as_mut().unwrap() += 1;
    }

    pub fn of_image(&self, image: &str) -> Option<&ReplicaSetFacts> {
        self.sets.iter().find(|set| {
            set.template.pointer("/spec/containers/0/image").and_then(Value::as_str) == Some(image)
        })
    }

    /// Pods that the `ReplicaSets` of these images want.
    pub fn counts<const N: usize>(&self, images: [&str; N]) -> [i32; N] {
        images.map(|image| self.of_image(image).map_or(0, |set| set.wanted))
    }

    /// The image that a Service selects.
    pub fn serves(&self, service: &str) -> Option<String> {
        let hash = self.services[service].as_ref()?.hash()?.to_owned();
        let set = self.sets.iter().find(|set| set.hash() == Some(&hash))?;
        set.template.pointer("/spec/containers/0/image").and_then(Value::as_str).map(str::to_owned)
    }

    pub fn weights(&self) -> (i32, i32) {
        let seen = self.routes[0].seen.as_ref().unwrap();
        (seen.stable, seen.canary)
    }

    pub fn finish_run(&mut self, name_part: &str, phase: RunPhase) {
        let run =
            self.runs.iter_mut().rfind(|run| run.name.contains(name_part) && !run.phase.completed()).unwrap();
        run.phase = phase;
        run.message = Some("as the test says".into());
    }

    pub fn promote(&mut self) {
        self.edit(|status| status.pause_conditions.clear());
    }

    pub fn abort(&mut self) {
        self.edit(|status| status.abort = true);
    }

    pub fn retry(&mut self) {
        self.edit(|status| status.abort = false);
    }

    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::AdoptReplicaSet { uid, .. } => self.set(uid).controller = Some("rollout-uid".into()),
            Action::ReleaseReplicaSet { uid, .. } => self.set(uid).controller = None,
            Action::CreateReplicaSet(new) => {
                if self.sets.iter().any(|set| set.name == new.name) {
                    return;
                }
                self.counter += 1;
                // Two ReplicaSets are never made at the same instant.
                self.now = self.now.checked_add(Duration::from_millis(1)).unwrap();
                self.sets.push(ReplicaSetFacts {
                    name: new.name.clone(),
                    uid: format!("set-{}", self.counter),
                    controller: Some("rollout-uid".into()),
                    created: self.now,
                    labels: new.labels.clone(),
                    annotations: new.annotations.clone(),
                    wanted: new.replicas,
                    min_ready_seconds: new.min_ready_seconds,
                    template: Arc::new(new.template.clone()),
                    ..ReplicaSetFacts::default()
                });
            }
            Action::PatchReplicaSet(patch) => self.patch(patch),
            Action::DeleteReplicaSet { uid, .. } => self.sets.retain(|set| set.uid != *uid),
            Action::PatchPod { uid, labels, annotations, .. } => {
                let pod = self.pods.iter_mut().find(|pod| pod.uid == *uid).unwrap();
                merge(&mut pod.labels, labels);
                merge(&mut pod.annotations, annotations);
            }
            Action::EvictPod { uid, .. } => {
                if !self.protected {
                    self.pods.retain(|pod| pod.uid != *uid);
                }
            }
            Action::SwitchService { name, hash, .. } => {
                let service = self.services.get_mut(name).unwrap().as_mut().unwrap();
                service.selector.insert(POD_TEMPLATE_HASH.into(), hash.clone());
                service.managed_by = Some("web".into());
                let _ = MANAGED_BY;
            }
            Action::SetTraffic { route, wish, .. } => {
                let facts = self.routes.iter_mut().find(|facts| facts.route == *route).unwrap();
                facts.seen = Some(wish.clone());
            }
            Action::CreateRun(new) => {
                if !self.runs.iter().any(|run| run.name == new.name) {
                    self.runs.push(RunFacts {
                        name: new.name.clone(),
                        uid: format!("run-{}", new.name),
                        labels: new.labels.clone(),
                        created: self.now,
                        phase: RunPhase::Running,
                        ..RunFacts::default()
                    });
                }
            }
            Action::TerminateRun { name } => {
                let run = self.runs.iter_mut().find(|run| run.name == *name).unwrap();
                run.terminating = true;
                run.phase = RunPhase::Successful;
            }
            Action::DeleteRun { uid, .. } => self.runs.retain(|run| run.uid != *uid),
            Action::CreateExperiment(new) => {
                if !self.experiments.iter().any(|found| found.name == new.name) {
                    self.experiments.push(ExperimentFacts {
                        name: new.name.clone(),
                        uid: format!("experiment-{}", new.name),
                        labels: new.labels.clone(),
                        created: self.now,
                        phase: RunPhase::Running,
                        ..ExperimentFacts::default()
                    });
                }
            }
            Action::TerminateExperiment { name } => {
                let found = self.experiments.iter_mut().find(|found| found.name == *name).unwrap();
                found.terminating = true;
                found.phase = RunPhase::Successful;
            }
            Action::DeleteExperiment { uid, .. } => self.experiments.retain(|found| found.uid != *uid),
            Action::SetRevision { revision } => {
                let annotations = self.rollout.metadata.annotations.get_or_insert_default();
                annotations.insert(REVISION.into(), revision.to_string());
            }
            Action::ScaleWorkload { .. } | Action::Announce(_) => {}
        }
    }

    fn set(&mut self, uid: &str) -> &mut ReplicaSetFacts {
        self.sets.iter_mut().find(|set| set.uid == uid).unwrap()
    }

    fn patch(&mut self, patch: &windlass_rollout::plan::ReplicaSetPatch) {
        let set = self.set(&patch.uid);
        if let Some(replicas) = patch.replicas {
            // Pods that go are those that are not available, then the others.
            set.wanted = replicas;
            set.available = set.available.min(replicas);
            set.ready = set.ready.min(replicas);
        }
        set.min_ready_seconds = patch.min_ready_seconds.unwrap_or(set.min_ready_seconds);
        merge(&mut set.annotations, &patch.annotations);
        let mut template = set.template.as_ref().clone();
        for (field, changes) in
            [("labels", &patch.template_labels), ("annotations", &patch.template_annotations)]
        {
            if !changes.is_empty() {
                let at = &mut template["metadata"][field];
                let mut map: BTreeMap<String, String> =
                    serde_json::from_value(at.clone()).unwrap_or_default();
                merge(&mut map, changes);
                *at = json!(map);
            }
        }
        if let Some(affinity) = &patch.affinity {
            template["spec"]["affinity"] = affinity.clone();
        }
        set.template = Arc::new(template);
    }
}

fn merge(map: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) {
    for (name, value) in changes {
        match value {
            Some(value) => map.insert(name.clone(), value.clone()),
            None => map.remove(name),
        };
    }
}
