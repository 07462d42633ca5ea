//! What is kept of an object.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::ReplicaSet, core::v1::Service},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::core::DynamicObject;
use serde_json::Value;
use windlass_api::{AnalysisRun, Experiment, GROUP, rollout::MANAGED_BY};

use crate::observed::{ExperimentFacts, ExperimentTemplateFacts, ReplicaSetFacts, RunFacts, ServiceFacts};

/// A record of something that a Rollout makes.
pub(crate) trait Record {
    /// Name of the Rollout that controls it.
    fn owner(&self) -> Option<&str>;
}

impl Record for ReplicaSetRecord {
    fn owner(&self) -> Option<&str> {
        rollout(&self.owners).map(|owner| owner.name.as_str())
    }
}

impl Record for RunRecord {
    fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.name.as_str())
    }
}

impl Record for ExperimentRecord {
    fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.name.as_str())
    }
}

/// The Rollout that an object belongs to.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Owner {
    fn of(meta: &ObjectMeta) -> Option<Self> {
        let owner = rollout(meta.owner_references.as_deref().unwrap_or_default())?;
        Some(Self { name: owner.name.clone(), uid: owner.uid.clone() })
    }
}

/// A `ReplicaSet`. The template lies here as JSON: a fifth of its size in memory.
#[derive(Debug)]
pub(crate) struct ReplicaSetRecord {
    facts: ReplicaSetFacts,
    template: Box<[u8]>,
    /// All owners, ours among them.
    pub(crate) owners: Vec<OwnerReference>,
}

impl ReplicaSetRecord {
    pub(crate) fn new(object: &ReplicaSet) -> Self {
        let meta = &object.metadata;
        let spec = object.spec.as_ref();
        let status = object.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
        let failure = status.and_then(|status| {
            let all = status.conditions.as_deref().unwrap_or_default();
            let found = all.iter().find(|one| one.type_ == "ReplicaFailure" && one.status == "True")?;
            Some((found.reason.clone().unwrap_or_default(), found.message.clone().unwrap_or_default()))
        });
        let owners = meta.owner_references.clone().unwrap_or_default();
        let facts = ReplicaSetFacts {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            controller: controller(&owners).map(|owner| owner.uid.clone()),
            created: created(meta),
            deleting: meta.deletion_timestamp.is_some(),
            unobserved: meta.generation.unwrap_or(0) > observed,
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
            replicas: status.map_or(0, |status| status.replicas),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
            available: status.and_then(|status| status.available_replicas).unwrap_or(0),
            min_ready_seconds: spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0),
            template: Arc::default(),
            failure,
        };
        let template = spec.and_then(|spec| spec.template.as_ref());
        let template = serde_json::to_vec(&template).unwrap_or_default().into_boxed_slice();
        Self { facts, template, owners }
    }

    pub(crate) fn uid(&self) -> &str {
        &self.facts.uid
    }

    pub(crate) fn controller(&self) -> Option<&str> {
        self.facts.controller.as_deref()
    }

    pub(crate) fn labels(&self) -> &BTreeMap<String, String> {
        &self.facts.labels
    }

    pub(crate) fn facts(&self) -> ReplicaSetFacts {
        let template: Value = serde_json::from_slice(&self.template).unwrap_or_default();
        ReplicaSetFacts { template: Arc::new(template), ..self.facts.clone() }
    }
}

/// A Service.
#[derive(Debug)]
pub(crate) struct ServiceRecord {
    pub(crate) uid: String,
    pub(crate) selector: BTreeMap<String, String>,
    pub(crate) managed_by: Option<String>,
    pub(crate) ports: Box<[i32]>,
}

impl ServiceRecord {
    pub(crate) fn new(object: &Service) -> Self {
        let spec = object.spec.as_ref();
        let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
        let annotations = object.metadata.annotations.as_ref();
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            selector: spec.and_then(|spec| spec.selector.clone()).unwrap_or_default(),
            managed_by: annotations.and_then(|annotations| annotations.get(MANAGED_BY).cloned()),
            ports: ports.iter().map(|port| port.port).collect(),
        }
    }

    pub(crate) fn facts(&self) -> ServiceFacts {
        ServiceFacts {
            selector: self.selector.clone(),
            managed_by: self.managed_by.clone(),
            has_port: !self.ports.is_empty(),
        }
    }
}

/// A route, whole but for what nobody here reads.
#[derive(Debug)]
pub(crate) struct RouteRecord(Box<[u8]>);

impl RouteRecord {
    pub(crate) fn new(object: &DynamicObject) -> Self {
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        Self(serde_json::to_vec(&object).unwrap_or_default().into_boxed_slice())
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.0).unwrap_or_default()
    }
}

/// An `AnalysisRun` of a Rollout.
#[derive(Debug)]
pub(crate) struct RunRecord {
    pub(crate) owner: Option<Owner>,
    pub(crate) facts: RunFacts,
}

impl RunRecord {
    pub(crate) fn new(object: &AnalysisRun) -> Self {
        let (meta, status) = (&object.metadata, object.status.clone().unwrap_or_default());
        Self {
            owner: Owner::of(meta),
            facts: RunFacts {
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
                labels: meta.labels.clone().unwrap_or_default(),
                created: created(meta),
                deleting: meta.deletion_timestamp.is_some(),
                terminating: object.spec.terminate,
                phase: status.phase,
                message: Some(status.message).filter(|text| !text.is_empty()),
            },
        }
    }
}

/// An Experiment of a Rollout.
#[derive(Debug)]
pub(crate) struct ExperimentRecord {
    pub(crate) owner: Option<Owner>,
    pub(crate) facts: ExperimentFacts,
}

impl ExperimentRecord {
    pub(crate) fn new(object: &Experiment) -> Self {
        let (meta, status) = (&object.metadata, object.status.clone().unwrap_or_default());
        let templates = status.template_statuses.iter().map(|template| ExperimentTemplateFacts {
            name: template.name.clone(),
            service: template.service_name.clone(),
            hash: template.pod_template_hash.clone(),
        });
        Self {
            owner: Owner::of(meta),
            facts: ExperimentFacts {
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
                labels: meta.labels.clone().unwrap_or_default(),
                created: created(meta),
                deleting: meta.deletion_timestamp.is_some(),
                terminating: object.spec.terminate,
                phase: status.phase,
                templates: templates.collect(),
                message: Some(status.message).filter(|text| !text.is_empty()),
            },
        }
    }
}

/// The one owner that controls an object.
pub(crate) fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The Rollout that controls an object.
fn rollout(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    controller(owners).filter(|owner| owner.kind == "Rollout" && owner.api_version.starts_with(GROUP))
}

pub(crate) fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |Time(at)| *at)
}
