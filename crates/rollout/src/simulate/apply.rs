//! Actions of the planner, carried out in memory at once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::rollout::{POD_TEMPLATE_HASH, REVISION};

use super::{
    Scenario,
    world::{Pod, Set, World},
};
use crate::{
    observed::{ReplicaSetFacts, WorkloadFacts},
    plan::{Action, NewReplicaSet, ReplicaSetPatch},
};

impl World {
    /// Carries an action out. `true` if it changed something.
    pub(super) fn apply(&mut self, action: &Action, scenario: &Scenario, now: Timestamp) -> bool {
        match action {
            Action::AdoptReplicaSet { name, .. } => {
                let uid = self.rollout.metadata.uid.clone();
                self.sets.get_mut(name).is_some_and(|set| {
                    let adopted = set.facts.controller != uid;
                    set.facts.controller = uid;
                    adopted
                })
            }
            Action::ReleaseReplicaSet { name, .. } => {
                self.sets.get_mut(name).is_some_and(|set| set.facts.controller.take().is_some())
            }
            Action::CreateReplicaSet(new) => self.create_set(new, now),
            Action::PatchReplicaSet(patch) => self.patch_set(patch, now),
            Action::DeleteReplicaSet { name, .. } => self.sets.remove(name).is_some(),
            Action::PatchPod { name, labels, annotations, .. } => self.patch_pod(name, labels, annotations),
            Action::EvictPod { name, .. } => self.evict(name, now),
            Action::SwitchService { name, hash, .. } => self.switch(name, hash),
            Action::SetTraffic { route, wish, .. } => {
                let known = self.routes.iter_mut().find(|known| known.route == *route);
                known.is_some_and(|known| known.seen.replace(wish.clone()).as_ref() != Some(wish))
            }
            Action::CreateRun(new) => self.create_run(new, scenario, now),
            Action::TerminateRun { name } => self.runs.get_mut(name).is_some_and(|run| {
                run.facts.terminating = true;
                !std::mem::replace(&mut run.spec.terminate, true)
            }),
            Action::DeleteRun { name, .. } => self.runs.remove(name).is_some(),
            Action::CreateExperiment(new) => self.create_experiment(new, now),
            Action::TerminateExperiment { name } => {
                self.experiments.get_mut(name).is_some_and(|experiment| {
                    experiment.facts.terminating = true;
                    !std::mem::replace(&mut experiment.spec.terminate, true)
                })
            }
            Action::DeleteExperiment { name, .. } => self.experiments.remove(name).is_some(),
            Action::ScaleWorkload { replicas, .. } => match &mut self.workload {
                Some(WorkloadFacts::Found { replicas: there, .. }) => {
                    std::mem::replace(there, *replicas) != *replicas
                }
                _ => false,
            },
            Action::SetRevision { revision } => {
                let annotations = self.rollout.metadata.annotations.get_or_insert_default();
                let number = revision.to_string();
                annotations.insert(REVISION.to_owned(), number.clone()) != Some(number)
            }
            Action::Announce(_) => false,
        }
    }

    fn create_set(&mut self, new: &NewReplicaSet, now: Timestamp) -> bool {
        if self.sets.contains_key(&new.name) {
            return false;
        }
        let facts = ReplicaSetFacts {
            name: new.name.clone(),
            uid: format!("set-{}", new.name),
            controller: self.rollout.metadata.uid.clone(),
            created: now,
            labels: new.labels.clone(),
            annotations: new.annotations.clone(),
            wanted: new.replicas,
            min_ready_seconds: new.min_ready_seconds,
            template: std::sync::Arc::new(new.template.clone()),
            ..ReplicaSetFacts::default()
        };
        self.sets.insert(new.name.clone(), Set { facts, pods: Vec::new() });
        self.fill(&new.name, now);
        true
    }

    fn patch_set(&mut self, patch: &ReplicaSetPatch, now: Timestamp) -> bool {
        let Some(set) = self.sets.get_mut(&patch.name) else { return false };
        let before = set.facts.clone();
        merge(&mut set.facts.annotations, &patch.annotations);
        if let Some(replicas) = patch.replicas {
            set.facts.wanted = replicas;
        }
        if let Some(seconds) = patch.min_ready_seconds {
            set.facts.min_ready_seconds = seconds;
        }
        let mut template = set.facts.template.as_ref().clone();
        merge_json(&mut template, "labels", &patch.template_labels);
        merge_json(&mut template, "annotations", &patch.template_annotations);
        if let Some(affinity) = &patch.affinity {
            template["spec"]["affinity"] = affinity.clone();
        }
        if template != *set.facts.template {
            set.facts.template = std::sync::Arc::new(template);
        }
        let changed = set.facts != before;
        self.fill(&patch.name, now);
        changed
    }

    /// Makes and removes pods until there are as many as wanted. Pods that are not ready go first.
    fn fill(&mut self, name: &str, now: Timestamp) {
        let Some(mut set) = self.sets.remove(name) else { return };
        let wanted = usize::try_from(set.facts.wanted).unwrap_or(0);
        let texts = |field: &str| texts(set.facts.template.pointer(&format!("/metadata/{field}")));
        let (labels, annotations) = (texts("labels"), texts("annotations"));
        // The oldest stay.
        set.pods.truncate(wanted);
        while set.pods.len() < wanted {
            let name = format!("{name}-{}", self.number());
            set.pods.push(Pod { name, born: now, labels: labels.clone(), annotations: annotations.clone() });
        }
        self.sets.insert(name.to_owned(), set);
    }

    fn patch_pod(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, Option<String>>,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> bool {
        let mut pods = self.sets.values_mut().flat_map(|set| &mut set.pods);
        pods.find(|pod| pod.name == name).is_some_and(|pod| {
            let changed = merge(&mut pod.labels, labels);
            merge(&mut pod.annotations, annotations) || changed
        })
    }

    fn evict(&mut self, name: &str, now: Timestamp) -> bool {
        let holder = self.sets.iter().find(|(_, set)| set.pods.iter().any(|pod| pod.name == name));
        let Some(holder) = holder.map(|(holder, _)| holder.clone()) else { return false };
        if let Some(set) = self.sets.get_mut(&holder) {
            set.pods.retain(|pod| pod.name != name);
        }
        self.fill(&holder, now);
        true
    }

    fn switch(&mut self, name: &str, hash: &str) -> bool {
        let manager = self.rollout.metadata.name.clone();
        self.services.get_mut(name).and_then(Option::as_mut).is_some_and(|service| {
            service.managed_by = manager;
            let before = service.selector.insert(POD_TEMPLATE_HASH.to_owned(), hash.to_owned());
            before.as_deref() != Some(hash)
        })
    }
}

/// Sets and takes away. `true` if that changed something.
fn merge(map: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) -> bool {
    let before = map.clone();
    for (name, value) in changes {
        match value {
            Some(value) => map.insert(name.clone(), value.clone()),
            None => map.remove(name),
        };
    }
    *map != before
}

fn merge_json(template: &mut Value, field: &str, changes: &BTreeMap<String, Option<String>>) {
    if changes.is_empty() {
        return;
    }
    if !template["metadata"][field].is_object() {
        template["metadata"][field] = json!({});
    }
    let Some(map) = template["metadata"][field].as_object_mut() else { return };
    for (name, value) in changes {
        match value {
            Some(value) => map.insert(name.clone(), value.clone().into()),
            None => map.shift_remove(name),
        };
    }
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
